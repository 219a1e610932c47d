"""Images per second of ResNet-18 on random 32x32 images, plain training and TRADES: Temper beside a minimal PyTorch DDP
loop, in turns on the same machine.

    python benchmarks/training_speed/training_speed.py --apps build/cuda/apps [--processes 1 2] [--json OUT]

One process a GPU. --device cpu with a small batch shows that the benchmark itself works; its numbers mean little.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "benchmarks"))
import measure

METHODS = ("standard", "trades")
LIMIT = 600  # seconds for one run
LOG_EVERY = 5


def configuration(options, method, processes, data):
    chosen = {"name": method}
    if method == "trades":
        chosen |= {"beta": 6, "attack": {"name": "pgd", "steps": options.steps, "step_size": "2/255",
                                         "random_start": "normal", "start_scale": 0.001}}
    return {"run": {"name": "speed"},
            "data": {"format": "cifar10", "train": str(data), "validation": f"{data}#test", "classes": 10,
                     "image_size": 32, "transform": {"train": "none", "evaluation": "none"}, "normalization": "none",
                     "last_batch": "drop"},
            "model": {"architecture": "resnet18", "small_images": True, "batch_norm": "local"},
            "threat_model": {"norm": "linf", "epsilon": "8/255"},
            "method": chosen,
            "training": {"epochs": 100000, "global_batch_size": options.batch * processes,
                         "max_updates": options.warmup + options.updates},
            "optimizer": {"name": "sgd", "learning_rate": 0.1, "momentum": 0.9, "weight_decay": 5e-4},
            "schedule": {"name": "constant"},
            "validation": {"every": "0ep"},
            "checkpoint": {"every": "0ep"},
            "logging": {"every": f"{LOG_EVERY}up"},
            "distributed": {"backend": "nccl" if options.device == "cuda" else "gloo"}}


def make_images(folder, count):
    """Random images in the binary format of CIFAR-10."""
    folder.mkdir()
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        rows = (bytes([i % 10]) + os.urandom(3072) for i in range(count // 5))
        (folder / f"{name}.bin").write_bytes(b"".join(rows))
    return folder


def run(command, folder):
    with open(folder / "output.txt", "wb") as output:
        done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, env=measure.environment(), cwd=SOURCE,
                              timeout=LIMIT)
    if done.returncode != 0:
        raise SystemExit(f"training_speed: status {done.returncode} of: {' '.join(command)}\n"
                         + (folder / "output.txt").read_text(errors="replace")[-4000:])


def temper(options, method, processes, data, folder):
    (folder / "speed.yaml").write_text(json.dumps(configuration(options, method, processes, data)))
    run([f"{options.apps}/trainer", "--config", f"{folder}/speed.yaml", "--nproc", str(processes), "--run-dir",
         f"{folder}/run"], folder)
    records = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
    records = [one for one in records if one["kind"] == "train" and one["update"] > options.warmup]
    # Each record covers the same number of images.
    return {"images_per_second": statistics.harmonic_mean([one["images_per_second"] for one in records]),
            "memory_mib": max(one["peak_memory_bytes"] for one in records) / 2**20}


def python(options, method, processes, data, folder):
    out = folder / "result.json"
    run([str(pathlib.Path(sys.executable).parent / "torchrun"), "--standalone", "--nproc-per-node", str(processes),
         f"{SOURCE}/benchmarks/training_speed/ddp_training.py", "--method", method, "--data",
         f"{data}/data_batch_1.bin", "--out", str(out), "--device", options.device, "--batch", str(options.batch),
         "--steps", str(options.steps), "--warmup", str(options.warmup), "--updates", str(options.updates)], folder)
    return json.loads(out.read_text())


def compare(options, scratch):
    data = make_images(scratch / "images", max(2560, 10 * options.batch * max(options.processes)))
    rows = []
    for processes in options.processes:
        for method in METHODS:
            measured = {"temper": [], "python": []}
            for repetition in range(options.repetitions):
                for name, side in (("temper", temper), ("python", python)):
                    folder = scratch / f"{method}-{processes}-{name}-{repetition}"
                    folder.mkdir()
                    measured[name].append(side(options, method, processes, data, folder))
            speed = {name: measure.summary([one["images_per_second"] for one in runs])
                     for name, runs in measured.items()}
            memory = {name: runs[-1]["memory_mib"] for name, runs in measured.items()}
            rows.append({"method": method, "processes": processes, "images_per_second": speed, "memory_mib": memory,
                         "ratio": speed["temper"]["median"] / speed["python"]["median"]})
            print_row(rows[-1])
    return rows


def print_row(row):
    def mib(value):
        return "-" if value is None else f"{value:.0f}"
    speed, memory = row["images_per_second"], row["memory_mib"]
    speeds = "".join(f"{speed[side]['median']:>16.1f}" for side in ("temper", "python"))
    print(f"{row['method']:<10}{row['processes']:>10}{speeds}{row['ratio']:>8.2f}"
          f"{mib(memory['temper']):>14}{mib(memory['python']):>14}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--apps", type=pathlib.Path, required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--processes", type=int, nargs="+", default=[1])
    parser.add_argument("--batch", type=int, default=128, help="images a process")
    parser.add_argument("--steps", type=int, default=10, help="of the attack")
    parser.add_argument("--warmup", type=int, default=20, help=f"updates, a multiple of {LOG_EVERY}")
    parser.add_argument("--updates", type=int, default=50, help=f"measured updates, a multiple of {LOG_EVERY}")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    if options.warmup % LOG_EVERY or options.updates % LOG_EVERY:
        parser.error(f"--warmup and --updates are multiples of {LOG_EVERY}")
    options.apps = options.apps.resolve()
    print(f"ResNet-18, random 32x32 images, batch {options.batch} a process, fp32, local batch norm; images per second "
          f"over all processes, medians of {options.repetitions} in turns; TRADES with {options.steps} attack steps")
    print(f"{'training':<10}{'processes':>10}{'Temper':>16}{'PyTorch DDP':>16}{'ratio':>8}{'Temper MiB':>14}"
          f"{'PyTorch MiB':>14}")
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="temper-speed-"))
    try:
        rows = compare(options, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if options.json:
        options.json.write_text(json.dumps({"benchmark": "training_speed", "device": options.device, "rows": rows},
                                           indent=1) + "\n")


if __name__ == "__main__":
    main()
