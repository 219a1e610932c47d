"""Training jobs for benchmarks: started with default settings, and watched through metrics.jsonl."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time

import measure

SOURCE = pathlib.Path(__file__).resolve().parents[1]
LIMIT = 120  # seconds for a start


def unpack_digits(apps, folder):
    for split in ("train", "validation", "test"):
        subprocess.run([f"{apps}/datatool", "unpack", f"{SOURCE}/data/digits.npz#{split}", str(folder / split)],
                       check=True, stdout=subprocess.DEVNULL)
    return folder


def digits_arguments(data):
    return ["--config", f"{SOURCE}/configs/digits_trades.yaml", f"data.train={data}/train",
            f"data.validation={data}/validation", f"data.test={data}/test"]


def photo_arguments(photos):
    return ["--config", f"{SOURCE}/configs/resnet18_imagenet100.yaml", f"data.train={photos}", "data.validation=null",
            "data.test=null", f"data.classes={sum(entry.is_dir() for entry in photos.iterdir())}", "data.image_size=64",
            "training.global_batch_size=16", "method.attack.steps=1", "training.weight_average=null"]


class Job:
    """A running `trainer` that goes on until it is ended."""

    def __init__(self, apps, arguments, folder, registry):
        self.folder = folder
        folder.mkdir(parents=True)
        self.log = folder / "run/metrics.jsonl"
        command = [f"{apps}/trainer", *arguments, "--run-dir", f"{folder}/run", "training.epochs=1000000",
                   "validation.every=0ep", "checkpoint.every=0ep", "logging.every=1up", "logging.tensorboard=false"]
        self.command = " ".join(command)
        with open(folder / "output.txt", "wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=SOURCE,
                                            env=measure.environment(TEMPER_JOBS=registry))

    def last_update(self):
        """Samples and number of the last logged update; None before the first."""
        with contextlib.suppress(OSError):
            for line in reversed(self.log.read_bytes().split(b"\n")[:-1]):
                record = json.loads(line)
                if record.get("kind") == "train":
                    return record["samples"], record["update"]
        return None

    def cpu_seconds(self):
        return sum(measure.cpu_seconds(pid) for pid in (self.process.pid, *measure.rank_processes(self.process.pid)))

    def wait_for_update(self, update):
        begin = time.monotonic()
        while (self.last_update() or (0, 0))[1] < update:
            if self.process.poll() is not None or time.monotonic() - begin > LIMIT:
                text = (self.folder / "output.txt").read_text(errors="replace")[-3000:]
                raise SystemExit(f"no update {update} of: {self.command}\n{text}")
            time.sleep(0.02)

    def end(self):
        ranks = measure.rank_processes(self.process.pid)
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pid in ranks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
