#!/usr/bin/env bash
# From a fresh machine to a robust classifier: sets up, builds, and trains the digits with TRADES on two processes.
# Needs no GPU. Running it again trains again, into a new run directory.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if (($# > 0)); then
  echo "usage: scripts/quickstart.sh     (no options; scripts/setup.sh and trainer have some)" >&2
  exit 2
fi

config=configs/digits_trades.yaml
apps=build/release/apps

step() { printf '\n== %s\n' "$*"; }

step "1/5 set-up"
scripts/setup.sh --cpu

step "2/5 build (the first one takes minutes)"
cmake --preset release
cmake --build --preset release --target trainer evaluator datatool

step "3/5 data: one image file per sample of data/digits.npz"
for split in train validation test; do
  folder=data/digits/$split
  if [[ -d $folder ]]; then
    echo "$folder is there"
    continue
  fi
  # A folder gets its name when it is complete, so that an interrupted run leaves no half data set.
  rm -rf "$folder.partial"
  mkdir -p data/digits
  "$apps/datatool" unpack "data/digits.npz#$split" "$folder.partial"
  mv "$folder.partial" "$folder"
done

number=1
while [[ -e $(printf 'runs/quickstart/%03d' "$number") ]]; do ((++number)); done
run=$(printf 'runs/quickstart/%03d' "$number")

step "4/5 training: $config, two processes, into $run"
"$apps/trainer" --config "$config" --nproc 2 --run-dir "$run"

step "5/5 evaluation of the best checkpoint on the test set"
"$apps/evaluator" --checkpoint "$run/checkpoints/best.pt" --config "$config" --json > "$run/evaluation.json"
.deps/venv/bin/python - "$run" <<'PYTHON'
import json
import pathlib
import sys

run = pathlib.Path(sys.argv[1])
result = json.loads((run / "evaluation.json").read_text())
samples = result["samples"]


def line(name, correct, note=""):
    print(f"{name:<16} {100 * correct / samples:6.2f} %   ({correct} of {samples} images{note})")


line("clean accuracy", result["clean_correct"])
for attack in result["attacks"]:
    line("robust accuracy", attack["robust_correct"],
         f"; {attack['name']}, {attack['norm']}, epsilon {attack['epsilon']:.4g}")
print(f"run directory    {run.resolve()}")
for name in ("report.html", "epochs.csv", "evaluation.json"):
    if (run / name).exists():
        print(f"                 {name}")
PYTHON
