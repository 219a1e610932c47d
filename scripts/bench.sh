#!/usr/bin/env bash
# Builds and runs the benchmarks beside their peers, in turns on this machine, and prints their tables.
# The results stand in build/release/benchmarks/<name>.json.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: scripts/bench.sh [--check] [--repetitions N] [startup] [two_jobs] [supervision] [loader] [overlap]

  startup      command to the first update and memory a rank, beside PyTorch DDP under torchrun
  two_jobs     two jobs on two cores beside one alone: what they train together over what one trains
  supervision  what heartbeat and supervision cost, as a share of an update of 5 ms
  loader       the loader beside torchvision's DataLoader, ffcv and DALI on 2,000 photos (half an hour; `peers` below)
  overlap      share of the gradient reduction that the backward pass hides: ResNet-50, two ranks, Gloo
  default      all of them

  --check            exit with 1 when a bar does not hold (benchmarks/bars.py)
  --repetitions N    turns of each side; default 5 (overlap: three times as many)
  --photos FOLDER    two_jobs with ResNet-18 on a folder of scripts/make_photo_set.py instead of the digits
  --parts LIST       of loader: peers,memory,two_jobs,step,slow_open,cold
TEXT
}

check=false
repetitions=5
photos=()
parts=()
chosen=()
while (($# > 0)); do
  case $1 in
    --check) check=true ;;
    --repetitions)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || { usage >&2; exit 2; }
      repetitions=$2
      shift
      ;;
    --photos)
      [[ -d ${2:-} ]] || { usage >&2; exit 2; }
      photos=(--photos "$2")
      shift
      ;;
    --parts)
      [[ -n ${2:-} ]] || { usage >&2; exit 2; }
      parts=(--parts "$2")
      shift
      ;;
    startup | two_jobs | supervision | loader | overlap) chosen+=("$1") ;;
    --help | -h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done
((${#chosen[@]} > 0)) || chosen=(startup two_jobs supervision loader overlap)

build=build/release
python=.deps/venv/bin/python
results=$build/benchmarks

scripts/setup.sh --tests
cmake --preset release -DTEMPER_BUILD_BENCHMARKS=ON > /dev/null
cmake --build --preset release --target trainer datatool overlap_benchmark heartbeat_benchmark loader_benchmark
mkdir -p "$results"

bench_startup() {
  "$python" benchmarks/startup/startup.py --apps "$build/apps" --repetitions "$repetitions" --json "$1"
}

bench_two_jobs() {
  "$python" benchmarks/two_jobs/two_jobs.py --apps "$build/apps" --repetitions "$repetitions" "${photos[@]}" --json "$1"
}

bench_supervision() {
  "$python" benchmarks/supervision/supervision.py --apps "$build/apps" \
    --heartbeat "$build/benchmarks/supervision/heartbeat_benchmark" --json "$1"
}

# ffcv and DALI live apart from what the project needs; without a network the rest is measured.
peers_python() {
  local venv=$build/peers
  if [[ ! -x $venv/bin/python ]]; then
    "$python" -m venv "$venv"
    "$PWD/$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
    "$venv/bin/pip" install --quiet -r benchmarks/loader/requirements.txt >&2 || echo "bench: some peers cannot be installed" >&2
  fi
  echo "$venv/bin/python"
}

bench_loader() {
  "$python" benchmarks/loader/loader.py --program "$build/benchmarks/loader/loader_benchmark" --datatool "$build/apps/datatool" \
    --work "$build/loader" --python "$(peers_python)" --rounds "$repetitions" "${parts[@]}" --json "$1"
}

bench_overlap() {
  "$build/benchmarks/overlap/overlap_benchmark" --repetitions $((3 * repetitions)) --json "$1"
}

files=()
for name in "${chosen[@]}"; do
  printf '\n==== %s\n' "$name"
  rm -f "$results/$name.json"
  "bench_$name" "$results/$name.json"
  files+=("$results/$name.json")
done
if $check; then
  printf '\n==== bars\n'
  "$python" benchmarks/bars.py "${files[@]}"
fi
