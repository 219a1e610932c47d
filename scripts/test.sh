#!/usr/bin/env bash
# Sets up, builds and runs every test. Prints a table of its stages; the exit status tells.
#   --full   also what takes longer: thread sanitizer, longer fuzzing, clang-tidy, all seeds, repeats
# TEMPER_JOBS: compile jobs; default: one a core, as far as memory allows.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

full=false
case "${1:-}" in
  --full) full=true ;;
  "") ;;
  *) echo "usage: scripts/test.sh [--full]" >&2; exit 2 ;;
esac

default_jobs() {
  local cores memory
  cores=$(nproc)
  # A file with LibTorch's headers takes up to 1.3 GB.
  memory=$(awk '/^MemAvailable/ {print int($2 / 1500000)}' /proc/meminfo)
  echo $((memory < 1 ? 1 : memory < cores ? memory : cores))
}
export TEMPER_JOBS=${TEMPER_JOBS:-$(default_jobs)}
# Tests share the cores with the processes that they start: two at a time are enough.
test_jobs=2

build() { cmake --build "build/$1" -j "$TEMPER_JOBS" "${@:2}"; }
run_ctest() { ctest --test-dir "build/$1" --output-on-failure --no-tests=error -j "$test_jobs" "${@:2}"; }

stage_setup() { scripts/setup.sh --tests; }

stage_format() { scripts/format.sh --check; }

stage_layers() {
  .deps/venv/bin/python scripts/check_layers.py --self-test
  .deps/venv/bin/python scripts/check_layers.py
}

stage_build() {
  cmake --preset ci
  build ci
}

stage_tests() { run_ctest ci; }

# Each public header compiles alone.
stage_headers() { build ci --target all_verify_interface_header_sets; }

# Flags equal to those of the ci build, so that files that do not differ come from the compiler cache.
stage_cuda() {
  cmake --preset cuda -DTEMPER_WARNINGS_AS_ERRORS=ON -DTEMPER_BUILD_TESTS=ON
  build cuda --target trainer temper_tests_gpu
  # Executables with LibTorch's CUDA libraries start without a driver. scripts/gpu_check.sh is for machines with GPUs.
  build/cuda/apps/trainer --version
  CUDA_VISIBLE_DEVICES='' build/cuda/tests/gpu/gpu_test --gtest_brief=1
}

stage_sanitizers() {
  cmake --preset asan-ubsan
  build asan-ubsan --target temper_tests_unit interop_pixels datatool
  run_ctest asan-ubsan -L unit
  # Every decoder on every odd file.
  run_ctest asan-ubsan -R '^interop\.(image_zoo|npz_cases|pixels|augment|other_formats)$'
}

# Modules with threads of their own and no LibTorch, whose threads the sanitizer cannot see into.
stage_thread_sanitizer() {
  cmake --preset tsan
  build tsan --target unit_data_test unit_launch_test
  # g++ 12's run time knows no address-space layout with more than 28 random bits.
  setarch "$(uname -m)" -R ctest --test-dir build/tsan --output-on-failure --no-tests=error -R '^unit\.(data|launch)'
}

# Whatever is read from a file: a short time box for each reader here, a long one in --full.
fuzz_for() {
  cmake --preset fuzz -DTEMPER_FUZZ_SECONDS="$1"
  build fuzz --target temper_tests_fuzz
  run_ctest fuzz
}
stage_fuzz() { fuzz_for 8; }
stage_long_fuzz() { fuzz_for 60; }

stage_tidy() { scripts/tidy.sh; }

# Learning beside the authors' code: both recipes, three seeds, one and two processes.
stage_reference_recipes() {
  TEMPER_APPS=$PWD/build/ci/apps TEMPER_ALL_SEEDS=1 timeout 7200 .deps/venv/bin/python tests/smoke/reference_recipes_test.py
}

stage_repeats() { run_ctest ci -L 'unit|dist|launch' --repeat until-fail:5; }
stage_chaos_repeats() { run_ctest ci -L chaos --repeat until-fail:20; }

names=() seconds=() results=()

# stage NAME FUNCTION [NEEDED_STAGE]: a stage whose needed stage failed is skipped, and counts as a failure.
stage() {
  local name=$1 function=$2 needed=${3:-} start=$SECONDS status=0 i
  printf '\n==== %s\n' "$name"
  for i in "${!names[@]}"; do
    if [[ ${names[i]} == "$needed" && ${results[i]} != passed ]]; then
      echo "skipped: '$needed' did not pass"
      status=skipped
    fi
  done
  if [[ $status == 0 ]]; then
    (set -e; "$function")
    status=$?
  fi
  names+=("$name")
  seconds+=($((SECONDS - start)))
  case $status in
    0) results+=(passed) ;;
    skipped) results+=(skipped) ;;
    *) results+=("FAILED (status $status)") ;;
  esac
}

summary() {
  local i total=0 good=true
  printf '\n==== stages\n'
  for i in "${!names[@]}"; do
    printf '%-42s %5d s   %s\n' "${names[i]}" "${seconds[i]}" "${results[i]}"
    total=$((total + seconds[i]))
    [[ ${results[i]} == passed ]] || good=false
  done
  printf '%-42s %5d s\n' total "$total"
  if $good; then
    echo PASS
  else
    echo FAIL
    return 1
  fi
}

stage "set-up" stage_setup
stage "format" stage_format "set-up"
stage "layers" stage_layers "set-up"
stage "build" stage_build "set-up"
stage "tests" stage_tests "build"
stage "public headers compile alone" stage_headers "build"
stage "CUDA flavour compiles and links" stage_cuda "build"
stage "address and undefined-behaviour sanitizers" stage_sanitizers "set-up"
stage "fuzzing of the readers of files" stage_fuzz "set-up"
if $full; then
  stage "thread sanitizer" stage_thread_sanitizer "set-up"
  stage "long fuzzing" stage_long_fuzz "set-up"
  stage "clang-tidy" stage_tidy "build"
  stage "reference recipes, all seeds" stage_reference_recipes "build"
  stage "repeats" stage_repeats "build"
  stage "repeats of the chaos cases" stage_chaos_repeats "build"
fi
summary
