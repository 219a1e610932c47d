"""The bars of the benchmarks: what a measured ratio must reach. A number that is missing or is none fails its bar.

    python benchmarks/bars.py RESULT.json...     prints a line a bar; status 1 when one does not hold
"""
import json
import math
import pathlib
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Bar:
    ratio: str
    limit: float
    at_least: bool
    what: str

    def holds(self, value):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            return False
        return value >= self.limit if self.at_least else value <= self.limit

    def line(self, value):
        relation = ">=" if self.at_least else "<="
        shown = f"{value:.3g}" if isinstance(value, (int, float)) else "missing"
        return f"{'holds ' if self.holds(value) else 'BROKEN'}  {self.what}: {shown} {relation} {self.limit}"


BARS = {
    "startup": [
        Bar("sooner", 5.0, True, "first update of two ranks, times sooner than PyTorch DDP"),
        Bar("rss", 0.35, False, "resident memory of a rank, share of PyTorch DDP's"),
    ],
    "two_jobs": [
        Bar("one_process", 0.9, True, "throughput of two jobs together on two cores, over that of one alone"),
        Bar("two_processes", 0.9, True, "the same with two processes a job"),
    ],
    "supervision": [
        Bar("share", 0.005, False, "heartbeat and supervision, share of an update of 5 ms"),
    ],
    "overlap": [],  # depends on how busy the cores are: shown, not judged
}


def check(result):
    """Prints the bars of one benchmark's result and returns whether all hold."""
    name = result.get("benchmark")
    if name not in BARS:
        print(f"BROKEN  no benchmark is named {name!r}: {', '.join(BARS)}")
        return False
    ratios = result.get("ratios") or {}
    good = True
    for bar in BARS[name]:
        value = ratios.get(bar.ratio)
        print(bar.line(value))
        good = bar.holds(value) and good
    return good


def main(paths):
    if not paths:
        print("usage: bars.py RESULT.json...", file=sys.stderr)
        return 2
    good = True
    for path in paths:
        good = check(json.loads(pathlib.Path(path).read_text())) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
