"""What heartbeat and supervision cost, as a share of an update of 5 ms.

    python benchmarks/supervision/supervision.py --apps build/release/apps --heartbeat PROGRAM [--json OUT]

Three parts: the calls of a rank's heartbeat in an update (the time of one call, times more calls than an update makes);
the CPU time of the launcher while two ranks train; the CPU time of the ranks' own watching threads, those that are named
temper-*. CPU times are those of /proc/PID/task/*/schedstat over some seconds, so other programs on the machine do not
count.
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import jobs
import measure

RANKS = 2
UPDATE = 0.005  # seconds
CALLS = 100  # of the heartbeat in an update: its phases, and each of up to 80 attack steps
WINDOW = 10  # seconds


def watching(launcher, ranks):
    return {"launcher": measure.cpu_seconds(launcher), "threads": max(measure.cpu_seconds(pid, "temper-") for pid in ranks)}


def measure_run(apps, data, folder):
    """Share of a core that supervision takes beside a rank, by part."""
    job = jobs.Job(apps, [*jobs.digits_arguments(data), "--nproc", str(RANKS)], folder / "job", folder / "registry")
    try:
        job.wait_for_update(5)
        ranks = measure.rank_processes(job.process.pid)
        if len(ranks) != RANKS:
            raise SystemExit(f"supervision: {len(ranks)} ranks instead of {RANKS}")
        first, begin = watching(job.process.pid, ranks), time.monotonic()
        time.sleep(WINDOW)
        last, end = watching(job.process.pid, ranks), time.monotonic()
    finally:
        job.end()
    return {name: (last[name] - first[name]) / (end - begin) for name in first}


def result_of(runs, heartbeat_ns, machine):
    """`runs`: shares of a core by part; the launcher's stands for all ranks, so it counts whole."""
    parts = {name: statistics.median(run[name] for run in runs) for name in ("launcher", "threads")}
    parts["heartbeat"] = CALLS * heartbeat_ns * 1e-9 / UPDATE
    return {"benchmark": "supervision", "machine": machine, "ranks": RANKS, "update_seconds": UPDATE,
            "heartbeat_ns": heartbeat_ns, "heartbeat_calls": CALLS, "parts": parts, "runs": runs,
            "ratios": {"share": sum(parts.values())}}


def print_table(result):
    parts = result["parts"]
    print(f"supervision of {result['ranks']} ranks, per cent of an update of {1000 * result['update_seconds']:.0f} ms")
    print(f"  heartbeat, {result['heartbeat_calls']} calls of {result['heartbeat_ns']:.0f} ns"
          f"{100 * parts['heartbeat']:>12.4f}")
    print(f"  launcher{100 * parts['launcher']:>33.4f}")
    print(f"  watching threads of a rank{100 * parts['threads']:>15.4f}")
    print(f"  together{100 * result['ratios']['share']:>33.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--apps", type=pathlib.Path, required=True)
    parser.add_argument("--heartbeat", type=pathlib.Path, required=True)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    machine = measure.machine()
    apps = options.apps.resolve()
    heartbeat = float(subprocess.run([str(options.heartbeat.resolve())], check=True, text=True, capture_output=True,
                                     timeout=120).stdout)
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="temper-supervision-"))
    try:
        data = jobs.unpack_digits(apps, scratch / "digits")
        runs = []
        for repetition in range(options.repetitions):
            folder = scratch / str(repetition)
            (folder / "registry").mkdir(parents=True)
            runs.append(measure_run(apps, data, folder))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    result = result_of(runs, heartbeat, machine)
    print_table(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
