#!/usr/bin/env bash
# For a machine with NVIDIA GPUs: sets up, builds the CUDA flavour, runs the tests with label gpu, and measures training
# beside a minimal PyTorch DDP loop. Prints a table of the outcomes; what was skipped for want of a second GPU counts as
# skipped, never as passed. Status: 0 all passed or skipped, 1 something failed, 2 no GPU.
#
# As of this version nobody has run it on a GPU: the tests compile, link and skip themselves on a machine without one,
# and the measurement has run on CPUs alone. Expect to find mistakes, also in the tests; please report them.
#
#   --no-speed   leave out the measurement
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

speed=true
case "${1:-}" in
  --no-speed) speed=false ;;
  "") ;;
  --help | -h) sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
  *) echo "usage: scripts/gpu_check.sh [--no-speed]" >&2; exit 2 ;;
esac

count_gpus() {
  command -v nvidia-smi > /dev/null || { echo 0; return; }
  { nvidia-smi --list-gpus 2> /dev/null || true; } | grep -c '^GPU ' || true
}

gpus=$(count_gpus)
if ((gpus == 0)); then
  echo "gpu_check: no GPU: nvidia-smi lists none on this machine, so there is nothing to check" >&2
  exit 2
fi
nvidia-smi --query-gpu=index,name,driver_version,memory.total --format=csv

build=build/cuda
results=$build/gpu_check
python=.deps/venv/bin/python

scripts/setup.sh --cuda
cmake --preset cuda -DTEMPER_BUILD_TESTS=ON
cmake --build --preset cuda --target trainer evaluator datatool diagnose temper_tests_gpu
mkdir -p "$results"
"$build/apps/trainer" --version | tee "$results/version.txt"
"$build/apps/diagnose" || echo "diagnose found problems, see above"

status=0
rm -f "$results/tests.xml"
ctest --test-dir "$build" -L gpu --no-tests=error --output-on-failure --output-junit "$PWD/$results/tests.xml" || status=1
printf '\n==== tests on GPUs\n'
"$python" scripts/test_table.py "$results/tests.xml" || status=1

if $speed; then
  processes=(1)
  ((gpus > 1)) && processes+=(2)
  printf '\n==== training speed\n'
  "$python" benchmarks/training_speed/training_speed.py --apps "$build/apps" --processes "${processes[@]}" \
    --json "$results/training_speed.json" || status=1
fi
if ((gpus == 1)); then
  printf '\none GPU: nothing that takes two has been checked\n'
fi
((status == 0)) && echo PASS || echo FAIL
exit "$status"
