# LibTorch from the pinned PyPI wheel: targets torch::cpu and, with TEMPER_CUDA, torch::cuda.
# scripts/setup.sh puts the wheel into .deps/venv. The wheel is found, never imported: an import takes seconds.
set(TEMPER_TORCH_VERSION 2.11.0)
set(TEMPER_NCCL_VERSION 2.28.9)

file(GLOB temper_site_candidates ${PROJECT_SOURCE_DIR}/.deps/venv/lib/python3*/site-packages)
set(TORCH_SITE "" CACHE PATH "site-packages folder that holds torch/ and nvidia/; default: .deps/venv")
if(NOT TORCH_SITE)
  foreach(candidate IN LISTS temper_site_candidates)
    if(EXISTS ${candidate}/torch/version.py)
      set(TORCH_SITE ${candidate})
    endif()
  endforeach()
endif()
if(NOT EXISTS ${TORCH_SITE}/torch/version.py)
  message(FATAL_ERROR "LibTorch was not found: run scripts/setup.sh, or set TORCH_SITE to a site-packages folder "
    "that holds torch ${TEMPER_TORCH_VERSION}")
endif()

file(STRINGS ${TORCH_SITE}/torch/version.py torch_version_line REGEX "^__version__")
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" torch_version "${torch_version_line}")
if(NOT torch_version STREQUAL TEMPER_TORCH_VERSION)
  message(FATAL_ERROR "torch ${TEMPER_TORCH_VERSION} is required, ${TORCH_SITE} holds: ${torch_version_line}")
endif()

set(torch_root ${TORCH_SITE}/torch)
add_library(torch_cpu_wheel INTERFACE)
add_library(torch::cpu ALIAS torch_cpu_wheel)
target_include_directories(torch_cpu_wheel SYSTEM INTERFACE
  ${torch_root}/include ${torch_root}/include/torch/csrc/api/include)
target_compile_definitions(torch_cpu_wheel INTERFACE USE_DISTRIBUTED USE_C10D_GLOO USE_RPC USE_TENSORPIPE)
target_compile_features(torch_cpu_wheel INTERFACE cxx_std_20)
target_link_libraries(torch_cpu_wheel INTERFACE ${torch_root}/lib/libtorch_cpu.so ${torch_root}/lib/libc10.so)
target_link_options(torch_cpu_wheel INTERFACE LINKER:--allow-shlib-undefined)

if(TEMPER_CUDA)
  set(nvidia_root ${TORCH_SITE}/nvidia)
  set(nccl_header ${nvidia_root}/nccl/include/nccl.h)
  if(NOT EXISTS ${nccl_header} OR NOT EXISTS ${nvidia_root}/cu13/include/cuda_runtime_api.h)
    message(FATAL_ERROR "The CUDA flavour needs the wheels with the CUDA and NCCL headers: run scripts/setup.sh --cuda")
  endif()
  file(STRINGS ${nccl_header} nccl_lines REGEX "#define NCCL_(MAJOR|MINOR|PATCH) [0-9]+")
  string(REGEX REPLACE ".*NCCL_MAJOR ([0-9]+).*NCCL_MINOR ([0-9]+).*NCCL_PATCH ([0-9]+).*" "\\1.\\2.\\3"
    nccl_version "${nccl_lines}")
  if(NOT nccl_version STREQUAL TEMPER_NCCL_VERSION)
    message(FATAL_ERROR "torch ${TEMPER_TORCH_VERSION} embeds ncclConfig_t of NCCL ${TEMPER_NCCL_VERSION}, "
      "found ${nccl_version} in ${nccl_header}")
  endif()
  add_library(torch_cuda_wheel INTERFACE)
  add_library(torch::cuda ALIAS torch_cuda_wheel)
  target_include_directories(torch_cuda_wheel SYSTEM INTERFACE
    ${nvidia_root}/cu13/include ${nvidia_root}/nccl/include)
  target_compile_definitions(torch_cuda_wheel INTERFACE USE_C10D_NCCL TEMPER_WITH_CUDA)
  # Without --no-as-needed the linker drops the library that registers the CUDA kernels.
  target_link_options(torch_cuda_wheel INTERFACE LINKER:--no-as-needed
    ${torch_root}/lib/libtorch_cuda.so ${torch_root}/lib/libc10_cuda.so LINKER:--as-needed)
  # c10's inline event and guard code calls the run time itself.
  target_link_libraries(torch_cuda_wheel INTERFACE torch_cpu_wheel ${nvidia_root}/cu13/lib/libcudart.so.13)
endif()
