# temper_sanitizers: compile and link options of TEMPER_SANITIZE, linked by every target of ours and empty by default.
add_library(temper_sanitizers INTERFACE)
if(TEMPER_SANITIZE)
  target_compile_options(temper_sanitizers INTERFACE
    -fsanitize=${TEMPER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -O1 -g1)
  target_link_options(temper_sanitizers INTERFACE -fsanitize=${TEMPER_SANITIZE})
endif()
