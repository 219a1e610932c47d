"""Acceptance cases 8 and 9 with the real programs: a run that is stopped in every way equals one that never stopped."""
import json
import os
import signal
import sys
import unittest

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
import torch

from support.programs import ProgramTest, metrics, processes_with, rank_pids, start, wait_for, SOURCE

# No attempt ends by itself before it is stopped; momentum, a schedule and an average are part of the state.
ENDLESS = ["training.epochs=100000", "training.max_updates=1000000", "training.weight_average.decay=0.9",
           "validation.every=0ep", "checkpoint.every=3up", "logging.every=1up", "method.attack.steps=3",
           "validation.samples=40", "validation.attack.steps=1"]


def state(run_dir):
    return torch.load(run_dir / "checkpoints/last.pt", weights_only=True)


def saved_update(run_dir):
    return state(run_dir)["progress"]["update"]


def flatten(value, prefix=""):
    if isinstance(value, dict):
        return {k: v for name, part in value.items() for k, v in flatten(part, f"{prefix}{name}/").items()}
    return {prefix: value}


def updates_so_far(run_dir):
    path = run_dir / "metrics.jsonl"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [line["update"] for line in map(json.loads, lines) if line["kind"] == "train"]


class Resume(ProgramTest):
    def begin(self, run_dir, *more, nproc=2):
        return start("trainer", "--config", SOURCE / "configs/digits_trades.yaml", "--nproc", nproc, "--cpus", 2,
                     "--run-dir", run_dir, "--peer-grace", "3s", *ENDLESS, *self.digits_overrides(), *more)

    def finish(self, run_dir, updates, *more, nproc=2):
        done = self.train(run_dir, "--cpus", 2, *ENDLESS, f"training.max_updates={updates}", *more, nproc=nproc)
        self.assertStatus(done, 0)
        return done

    def attempt(self, run_dir, stop, status, *more, nproc=2, ready=None):
        """Starts the run, waits for three updates (or for `ready`), stops it and expects the exit status."""
        first = saved_update(run_dir) if (run_dir / "checkpoints/last.pt").exists() else 0
        process = self.begin(run_dir, *more, nproc=nproc)
        ready = ready or (lambda: first + 5 in updates_so_far(run_dir))
        wait_for(lambda: process.poll() is not None or ready(), f"update {first + 5}", limit=120)
        stop(process, run_dir)
        output, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, status, f"{output}\n{errors}")
        self.assertEqual(", as training.max_time is over; the same command" in output, status == 124, output)
        wait_for(lambda: not processes_with(str(run_dir)), "all processes to end")
        self.assertTrue(first == 0 or f"resumed from update {first}" in output, output)
        self.assertGreaterEqual(saved_update(run_dir), first)
        return errors

    def assertSameBits(self, first, second):
        a, b = state(first), state(second)
        for part in ("model", "average", "optimizer", "method", "progress"):
            x, y = flatten(a[part]), flatten(b[part])
            self.assertEqual(list(x), list(y))
            for key in x:
                equal = torch.equal(x[key], y[key]) if torch.is_tensor(x[key]) else repr(x[key]) == repr(y[key])
                self.assertTrue(equal, f"{part}/{key} differs")

    def assertEachUpdateOnce(self, run_dir, updates):
        self.assertEqual([line["update"] for line in metrics(run_dir, "train")], list(range(1, updates + 1)))

    def test_bit_exact_after_every_kind_of_stop(self):
        run, whole = self.folder / "run", self.folder / "whole"

        def send(number):
            return lambda process, _: process.send_signal(number)

        def kill_rank(rank):
            return lambda _, run_dir: os.kill(rank_pids(str(run_dir))[rank], signal.SIGKILL)

        attempts = [
            ("SIGTERM", send(signal.SIGTERM), 75),
            ("SIGUSR1", send(signal.SIGUSR1), 75),
            ("SIGINT", send(signal.SIGINT), 130),
            ("SIGKILL of rank 1", kill_rank(1), 137),
            ("SIGKILL of rank 0", kill_rank(0), 137),
            ("SIGKILL of the launcher", send(signal.SIGKILL), -signal.SIGKILL),
            ("end of time", lambda process, _: None, 124, "training.max_time=5s"),
        ]
        for name, stop, status, *more in attempts:
            with self.subTest(name):
                self.attempt(run, stop, status, *more)
        updates = saved_update(run) + 2
        self.finish(run, updates)
        self.finish(whole, updates)
        self.assertSameBits(run, whole)
        self.assertEachUpdateOnce(run, updates)

    def test_bit_exact_after_a_stop_in_attack_and_validation_and_after_an_error(self):
        run, whole = self.folder / "run", self.folder / "whole"

        def terminate(process, _):
            process.send_signal(signal.SIGTERM)

        self.attempt(run, terminate, 75)
        first = saved_update(run)
        # An attack of one update that has no end; the update is discarded.
        self.attempt(run, terminate, 75, "method.attack.steps=65535",
                     ready=lambda: [e["what"] for e in metrics(run, "event")][-1] == "resumed")
        self.assertEqual(saved_update(run), first)
        # A validation that has no end.
        self.attempt(run, terminate, 75, f"validation.every={first + 1}up", "validation.attack.steps=65535",
                     ready=lambda: updates_so_far(run)[-1] == first + 1)
        self.assertEqual(metrics(run, "validation"), [])
        # A file of the data set is damaged, and mended again.
        images = sorted((self.digits / "train").rglob("*.png"))
        good = {image: image.read_bytes() for image in images}
        try:
            for image, content in good.items():
                image.write_bytes(bytes(len(content)))
            process = self.begin(run)
            _, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 1, errors)
            self.assertRegex(errors, r"train/\d/\S+\.png")
        finally:
            for image, content in good.items():
                image.write_bytes(content)
        updates = saved_update(run) + 2
        self.finish(run, updates)
        self.finish(whole, updates)
        self.assertSameBits(run, whole)
        self.assertEachUpdateOnce(run, updates)

    def test_two_one_two_processes_in_double(self):
        double = ["training.precision=fp64", "model.batch_norm=sync"]
        run, whole = self.folder / "run", self.folder / "whole"
        for nproc in (2, 1):
            self.attempt(run, lambda process, _: process.send_signal(signal.SIGTERM), 75, *double, nproc=nproc)
        updates = saved_update(run) + 3
        self.finish(run, updates, *double)
        self.finish(whole, updates, *double)
        a, b = state(run), state(whole)
        for part in ("model", "average", "optimizer"):
            x, y = flatten(a[part]), flatten(b[part])
            self.assertEqual(list(x), list(y))
            for key in x:
                self.assertLess((x[key].double() - y[key].double()).abs().max().item() if x[key].numel() else 0, 1e-9, key)
        self.assertEachUpdateOnce(run, updates)


if __name__ == "__main__":
    unittest.main()
