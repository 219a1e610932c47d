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
    "loader": [
        *(bar for cores in (1, 2) for bar in (
            Bar(f"over_torchvision_{cores}", 2.5, True, f"images/s over torchvision's PIL path, cores: {cores}"),
            Bar(f"over_best_{cores}", 1.5, True, f"images/s over the best of v2, ffcv, DALI, cores: {cores}"),
            Bar(f"raw_over_ffcv_raw_{cores}", 1.0, True, f"pack of pixels over ffcv's, cores: {cores}"))),
        Bar("memory", 0.25, False, "memory, share of the DataLoader's"),
        Bar("first_batch", 0.15, False, "seconds to the first batch of 64, two cores"),
        Bar("mib_a_thread", 10.0, False, "MiB that a further thread takes"),
        Bar("mib_an_epoch", 0.2, False, "MiB that an epoch adds, after the sixth"),
        Bar("two_jobs", 0.9, True, "images/s of two jobs together over those of one alone"),
        Bar("wait_share", 0.02, False, "part of the time that a step of 20 ms waits for data"),
        Bar("slow_open", 0.85, True, "images/s when opening a file takes 20 ms, over those without"),
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
