# temper_warnings: the warnings of our own code. Headers of other projects are included as system headers.
add_library(temper_warnings INTERFACE)
target_compile_options(temper_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Winvalid-pch)
if(TEMPER_WARNINGS_AS_ERRORS)
  target_compile_options(temper_warnings INTERFACE -Werror)
endif()
