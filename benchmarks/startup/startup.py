"""From the command to the first finished update of two ranks, and the memory of a rank at that moment: Temper beside a
minimal PyTorch DDP script under torchrun, in turns on the same machine. Same net, batch and data, one thread a rank.

    python benchmarks/startup/startup.py --apps build/release/apps [--repetitions 5] [--json OUT]

Both are watched from outside: the moment is when the first record of a training update stands in their log, memory is
that of /proc/PID/smaps_rollup, the mean over the ranks.
"""
import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "benchmarks"))
import measure

RANKS = 2
LIMIT = 120  # seconds for one start


def first_update(log):
    """Whether the log holds a complete record of a training update."""
    with contextlib.suppress(OSError):
        for line in log.read_bytes().split(b"\n")[:-1]:
            record = json.loads(line)
            if record.get("kind") == "train" and record.get("update", 0) >= 1:
                return True
    return False


def end(process):
    """Ends a launcher and its ranks."""
    ranks = measure.rank_processes(process.pid)
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pid in ranks:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def start_once(command, log, folder):
    """Seconds to the first update and the memory of the ranks then."""
    with open(folder / "output.txt", "wb") as output:
        begin = time.monotonic()
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=measure.environment(),
                                   cwd=SOURCE)
        try:
            while not first_update(log):
                if process.poll() is not None or time.monotonic() - begin > LIMIT:
                    raise SystemExit(f"startup: no first update of: {' '.join(command)}\n"
                                     + (folder / "output.txt").read_text(errors="replace")[-3000:])
                time.sleep(0.002)
            seconds = time.monotonic() - begin
            ranks = measure.rank_processes(process.pid)
            if len(ranks) != RANKS:
                raise SystemExit(f"startup: {len(ranks)} ranks instead of {RANKS}")
            memory = [measure.memory_mib(pid) for pid in ranks]
        finally:
            end(process)
    return {"seconds": seconds, **{name: statistics.mean(rank[name] for rank in memory) for name in ("rss", "pss")}}


def temper_command(apps, data, folder):
    log = folder / "run/metrics.jsonl"
    command = [f"{apps}/trainer", "--config", f"{SOURCE}/configs/digits_standard.yaml", "--nproc", str(RANKS), "--cpus",
               str(RANKS), "--run-dir", f"{folder}/run", f"data.train={data}/train",
               f"data.validation={data}/validation", f"data.test={data}/test", "logging.every=1up",
               "training.epochs=100000", "validation.every=0ep"]
    return command, log


def python_command(folder):
    log = folder / "log.jsonl"
    torchrun = pathlib.Path(sys.executable).parent / "torchrun"
    command = [str(torchrun), "--standalone", "--nproc-per-node", str(RANKS),
               f"{SOURCE}/benchmarks/startup/ddp_digits.py", "--data", f"{SOURCE}/data/digits.npz", "--out", str(log)]
    return command, log


def unpack_digits(apps, folder):
    for split in ("train", "validation", "test"):
        subprocess.run([f"{apps}/datatool", "unpack", f"{SOURCE}/data/digits.npz#{split}", str(folder / split)],
                       check=True, stdout=subprocess.DEVNULL)
    return folder


def run(apps, repetitions, scratch):
    data = unpack_digits(apps, scratch / "digits")
    measured = {"temper": [], "python": []}
    # The first of each is not counted: it reads the libraries from the disk.
    for repetition in range(repetitions + 1):
        for name in measured:
            folder = scratch / f"{name}-{repetition}"
            folder.mkdir()
            command, log = temper_command(apps, data, folder) if name == "temper" else python_command(folder)
            values = start_once(command, log, folder)
            if repetition > 0:
                measured[name].append(values)
    return measured


def result_of(measured, machine):
    sides = {name: {key: measure.summary([one[key] for one in runs]) for key in ("seconds", "rss", "pss")}
             for name, runs in measured.items()}
    temper, python = sides["temper"], sides["python"]
    return {"benchmark": "startup", "machine": machine, "ranks": RANKS, "repetitions": len(measured["temper"]),
            "units": {"seconds": "s", "rss": "MiB a rank", "pss": "MiB a rank"}, **sides,
            "ratios": {"sooner": python["seconds"]["median"] / temper["seconds"]["median"],
                       "rss": temper["rss"]["median"] / python["rss"]["median"],
                       "pss": temper["pss"]["median"] / python["pss"]["median"]}}


def print_table(result):
    machine = result["machine"]
    print(f"start-up: {result['ranks']} ranks, digits_cnn, batch 128; medians of {result['repetitions']} in turns "
          f"(min-max); {machine['cpus']} CPUs, load {machine['load_before']}")
    print(f"{'':34}{'Temper':>22}{'PyTorch DDP':>22}{'ratio':>8}")
    rows = (("seconds", "command to first update, s", 1 / result["ratios"]["sooner"], 2),
            ("rss", "RSS a rank, MiB", result["ratios"]["rss"], 0),
            ("pss", "PSS a rank, MiB", result["ratios"]["pss"], 0))
    for key, title, ratio, digits in rows:
        cells = [f"{side[key]['median']:.{digits}f} ({side[key]['min']:.{digits}f}-{side[key]['max']:.{digits}f})"
                 for side in (result["temper"], result["python"])]
        print(f"{title:34}{cells[0]:>22}{cells[1]:>22}{ratio:>8.2f}")
    print(f"{'times sooner':34}{result['ratios']['sooner']:>52.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--apps", type=pathlib.Path, required=True)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="temper-startup-"))
    try:
        machine = measure.machine()
        result = result_of(run(options.apps.resolve(), options.repetitions, scratch), machine)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print_table(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
