# Compiles through ccache when it is there. The settings let a precompiled header be cached and let clones in different
# folders share results.
find_program(TEMPER_CCACHE ccache)
if(TEMPER_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=true ${TEMPER_CCACHE})
endif()
