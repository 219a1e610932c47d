"""Two jobs on the same cores, started together with default settings, beside one job alone: what they train together in
a second, over what one trains alone. In turns, so that whatever else the machine does falls on both sides alike.

    python benchmarks/two_jobs/two_jobs.py --apps build/release/apps [--repetitions 5] [--photos FOLDER] [--json OUT]

The jobs keep to two cores. On a busy machine two jobs get more of its time than one, so the ratio means little there; the
work done in a second of CPU time shows what spinning and crowding waste all the same. Measured over a window of some seconds after the first updates, from metrics.jsonl.
--photos takes a folder of scripts/make_photo_set.py and ResNet-18 instead of the digits and their small net.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import jobs
import measure

CORES = 2
WARM_UP = 5  # updates
WINDOW = 6  # seconds


def throughput(apps, arguments, folder, count):
    """Samples a second, and a second of CPU time, of `count` jobs that run at the same time."""
    running = []
    try:
        for number in range(count):
            running.append(jobs.Job(apps, arguments, folder / str(number), folder / "registry"))
        for job in running:
            job.wait_for_update(WARM_UP)
        begin = [time.monotonic(), sum(job.last_update()[0] for job in running), sum(job.cpu_seconds() for job in running)]
        time.sleep(WINDOW)
        end = [time.monotonic(), sum(job.last_update()[0] for job in running), sum(job.cpu_seconds() for job in running)]
    finally:
        for job in running:
            job.end()
    seconds, samples, cpu = (after - before for before, after in zip(begin, end))
    return samples / seconds, samples / cpu


def run(apps, cases, repetitions, scratch):
    measured = {name: {"alone": [], "together": [], "alone_cpu": [], "together_cpu": []} for name in cases}
    for repetition in range(repetitions):
        for name, arguments in cases.items():
            for side, count in (("alone", 1), ("together", 2)):
                folder = scratch / f"{name}-{side}-{repetition}"
                folder.mkdir()
                (folder / "registry").mkdir()
                speed, of_cpu = throughput(apps, arguments, folder, count)
                measured[name][side].append(speed)
                measured[name][f"{side}_cpu"].append(of_cpu)
                shutil.rmtree(folder, ignore_errors=True)
    return measured


def result_of(measured, machine):
    result = {"benchmark": "two_jobs", "machine": machine, "cores": CORES, "units": "samples/s", "ratios": {}}
    for name, sides in measured.items():
        result[name] = {side: measure.summary(values) for side, values in sides.items()}
        # Of the neighbours in time: the machine's other work then changes little between them.
        result[name]["turns"] = [b / a for a, b in zip(sides["alone"], sides["together"])]
        result["ratios"][name] = statistics.median(result[name]["turns"])
    return result


def print_table(result):
    machine = result["machine"]
    print(f"two jobs on {result['cores']} cores, samples/s; load {machine['load_before']} before")
    print(f"{'':22}{'one alone':>24}{'two together':>24}{'ratio':>8}")
    for name, ratio in result["ratios"].items():
        for suffix, title in (("", name), ("_cpu", "  a second of CPU time")):
            sides = [result[name][side + suffix] for side in ("alone", "together")]
            cells = [f"{side['median']:.0f} ({side['min']:.0f}-{side['max']:.0f})" for side in sides]
            shown = sides[1]["median"] / sides[0]["median"] if suffix else ratio
            print(f"{title:22}{cells[0]:>24}{cells[1]:>24}{shown:>8.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--apps", type=pathlib.Path, required=True)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--photos", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    machine = measure.machine()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    apps = options.apps.resolve()
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="temper-two-jobs-"))
    try:
        if options.photos:
            arguments = jobs.photo_arguments(options.photos.resolve())
        else:
            arguments = jobs.digits_arguments(jobs.unpack_digits(apps, scratch / "digits"))
        cases = {"one_process": arguments, "two_processes": [*arguments, "--nproc", "2"]}
        result = result_of(run(apps, cases, options.repetitions, scratch), machine)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print_table(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
