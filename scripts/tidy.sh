#!/usr/bin/env bash
# clang-tidy 16 over our sources, with the compile commands of a configured build folder.
# usage: scripts/tidy.sh [BUILD_FOLDER] [REGEX]     default: build/ci and all of src/ and apps/
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=${1:-build/ci}
regex=${2:-$PWD/(src|apps)/.*}
if ! command -v run-clang-tidy-16 > /dev/null; then
  echo "tidy: clang-tidy-16 is missing: run scripts/setup.sh --tests" >&2
  exit 1
fi
if [[ ! -f $build/compile_commands.json ]]; then
  echo "tidy: $build holds no compile_commands.json: run cmake first" >&2
  exit 1
fi
# The commands are written for g++: clang knows neither its precompiled header nor some of its warnings.
run-clang-tidy-16 -quiet -p "$build" -j "${TEMPER_JOBS:-2}" \
  -extra-arg=-Wno-invalid-pch -extra-arg=-Wno-unknown-warning-option "$regex"
