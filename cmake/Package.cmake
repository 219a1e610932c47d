# find_package(temper) for programs outside of this tree: temperConfig.cmake and temperTargets.cmake in the build folder. The
# libraries stay where they were built.
get_property(temper_modules GLOBAL PROPERTY TEMPER_MODULES)
foreach(part IN ITEMS config core_tensor dist_store)
  list(APPEND temper_modules ${part})
endforeach()
foreach(module IN LISTS temper_modules)
  set_target_properties(temper_${module} PROPERTIES EXPORT_NAME ${module})
endforeach()
set_target_properties(temper_trainer_program PROPERTIES EXPORT_NAME trainer_program)

list(TRANSFORM temper_modules PREPEND temper_)
set(temper_exported ${temper_modules} temper_trainer_program temper_app_options temper_dist_device
  temper_options temper_warnings temper_sanitizers torch_cpu_wheel)
if(TEMPER_CUDA)
  list(APPEND temper_exported torch_cuda_wheel)
endif()
export(TARGETS ${temper_exported} NAMESPACE temper:: FILE ${PROJECT_BINARY_DIR}/temperTargets.cmake)
configure_file(${PROJECT_SOURCE_DIR}/cmake/temperConfig.cmake.in ${PROJECT_BINARY_DIR}/temperConfig.cmake COPYONLY)
