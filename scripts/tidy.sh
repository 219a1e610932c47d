#!/usr/bin/env bash
# clang-tidy 16 over our sources. Needs a configured folder of its own: clang cannot read the precompiled header of g++.
# usage: scripts/tidy.sh [REGEX]     default: all of src/ and apps/
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

regex=${1:-$PWD/(src|apps)/.*}
if ! command -v run-clang-tidy-16 > /dev/null; then
  echo "tidy: clang-tidy-16 is missing: run scripts/setup.sh --tests" >&2
  exit 1
fi
cmake --preset ci -B build/tidy -DTEMPER_PRECOMPILED_HEADER=OFF > /dev/null
# The commands are written for g++: clang does not know some of its warnings.
run-clang-tidy-16 -quiet -p build/tidy -j "${TEMPER_JOBS:-2}" -extra-arg=-Wno-unknown-warning-option "$regex"
