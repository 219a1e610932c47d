#!/usr/bin/env python3
"""Checks that each test that docs/troubleshooting.md names is there."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def problems(text):
    section = text.split("## Messages of PyTorch", 1)[1]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    for row in rows:
        held_by = row.strip("| ").rsplit("|", 1)[1]
        names = re.findall(r"`(tests/\S+)` (\w+)", held_by)
        if not names:
            yield f"no test is named: {row}"
        for path, name in names:
            file = ROOT / path
            if not file.exists() or not re.search(rf"\b{name}\b", file.read_text()):
                yield f"{path} has no {name}"


if __name__ == "__main__":
    found = list(problems((ROOT / "docs/troubleshooting.md").read_text()))
    for line in found:
        print(f"docs/troubleshooting.md: {line}", file=sys.stderr)
    sys.exit(1 if found else 0)
