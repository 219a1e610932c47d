#!/usr/bin/env bash
# Formats our C++ files with clang-format 16; --check only reports, and fails if a file would change.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mode=(-i)
case "${1:-}" in
  --check) mode=(--dry-run --Werror) ;;
  "") ;;
  *) echo "usage: scripts/format.sh [--check]" >&2; exit 2 ;;
esac
if ! command -v clang-format-16 > /dev/null; then
  echo "format: clang-format-16 is missing: run scripts/setup.sh --tests" >&2
  exit 1
fi

folders=()
for folder in include src apps tests benchmarks docs; do
  [[ -d $folder ]] && folders+=("$folder")
done
mapfile -d '' files < <(find "${folders[@]}" -type f \( -name '*.h' -o -name '*.cpp' \) -print0 | sort -z)
clang-format-16 "${mode[@]}" --style=file "${files[@]}"
echo "format: ${#files[@]} files"
