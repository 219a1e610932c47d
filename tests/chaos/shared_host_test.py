"""Jobs that share a host share its cores: loader threads follow the jobs that run, compute threads and weights do not."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
import torch

from support.programs import (APPS, ProgramTest, clean_environment, processes_with, rank_pids, run, start, wait_for,
                              SOURCE)

ENDLESS = ["training.epochs=100000", "validation.every=0ep", "checkpoint.every=0ep", "schedule.name=constant",
           "logging.every=1up"]


class SharedHost(ProgramTest):
    def arguments(self, out, *more):
        return ["--config", SOURCE / "configs/digits_standard.yaml", "--run-dir", out, *ENDLESS, *more,
                *self.digits_overrides()]

    def registry(self, name):
        folder = self.folder / name
        folder.mkdir()
        return folder

    def start_job(self, out, registry, *more):
        return start("trainer", *self.arguments(out, *more), TEMPER_JOBS=registry)

    def log(self, out):
        path = out / "logs/attempt-1/rank-0.log"
        return path.read_text() if path.exists() else ""

    def wait_for_line(self, out, text):
        wait_for(lambda: text in self.log(out), f"{text!r} in the log of {out.name}")

    def kill(self, out):
        """As the kernel would: nothing gets a chance to clean up."""
        for pid in processes_with(str(out)):
            os.kill(pid, signal.SIGKILL)

    def stop(self, process):
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75, errors)

    def checkpoint(self, out):
        return torch.load(out / "checkpoints/last.pt", weights_only=True)

    def test_loader_threads_follow_the_other_jobs_and_the_weights_do_not(self):
        registry = self.registry("jobs")
        first, second = self.folder / "first", self.folder / "second"
        process = self.start_job(first, registry, "data.workers=4")
        self.wait_for_line(first, "and 4 loader threads")
        wait_for(lambda: (first / "metrics.jsonl").exists(), "the first updates")
        other = self.start_job(second, registry, "data.workers=4")
        self.wait_for_line(first, "loader threads a process: 4 -> 1; 1 other Temper job runs")
        self.wait_for_line(second, "decided by: what other Temper jobs on this host leave")
        self.kill(second)
        other.communicate(timeout=60)
        self.wait_for_line(first, "loader threads a process: 1 -> 4; 0 other Temper jobs run")
        self.stop(process)
        shared = self.checkpoint(first)
        update = shared["progress"]["update"]

        alone = self.folder / "alone"
        done = run("trainer", *self.arguments(alone, "data.workers=4", f"training.max_updates={update}"),
                   TEMPER_JOBS=self.registry("other-jobs"))
        self.assertStatus(done, 0)
        self.assertNotIn("loader threads a process:", done.stderr)
        expected = self.checkpoint(alone)
        self.assertEqual(expected["progress"]["update"], update)
        for name, tensor in expected["model"].items():
            self.assertTrue(torch.equal(tensor, shared["model"][name]), name)

    def test_resumed_run_keeps_its_compute_threads_beside_another_job(self):
        registry, out = self.registry("jobs"), self.folder / "resumed"
        done = run("trainer", *self.arguments(out, "training.max_updates=2"), "--cpus", 4, TEMPER_JOBS=registry)
        self.assertStatus(done, 0)
        self.assertIn("decided by: --cpus", done.stderr)
        self.assertIn("3 compute threads", done.stderr)
        other = self.start_job(self.folder / "other", registry)
        self.wait_for_line(self.folder / "other", "CPU budget of this host")
        done = run("trainer", *self.arguments(out, "training.max_updates=4"), TEMPER_JOBS=registry)
        self.assertStatus(done, 0)
        self.assertIn("compute threads a process: 3, as the checkpoint records", done.stderr)
        self.assertIn("threads a process: 3 compute", done.stderr)
        self.assertEqual(self.checkpoint(out)["compute_threads"], 3)
        self.stop(other)

    def test_registry_that_cannot_be_used_stops_nothing(self):
        (self.folder / "file").write_text("")
        done = run("trainer", *self.arguments(self.folder / "run", "training.max_updates=2"),
                   TEMPER_JOBS=self.folder / "file")
        self.assertStatus(done, 0)
        self.assertEqual(done.stderr.count("other Temper jobs on this host are not seen"), 1, done.stderr)

    def test_ranks_of_torchrun_are_one_job_and_spin_shortly(self):
        registry, out = self.registry("jobs"), self.folder / "torchrun"
        command = [pathlib.Path(sys.executable).parent / "torchrun", "--no-python", "--standalone", "--nproc-per-node",
                   "2", APPS / "trainer", *self.arguments(out)]
        process = subprocess.Popen(list(map(str, command)), cwd=SOURCE, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=clean_environment(TEMPER_JOBS=registry))
        wait_for(lambda: (out / "metrics.jsonl").exists(), "the first updates")
        files = list(registry.glob("job-*"))
        self.assertEqual(len(files), 1)
        self.assertIn("\nranks 2\n", files[0].read_text())
        for pid in rank_pids(str(out)).values():
            self.assertIn(b"GOMP_SPINCOUNT=1000", pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        self.assertTrue(re.search(r"CPU budget of this host: \d+ of \d+ cores", errors), errors)
        self.assertEqual(list(registry.glob("job-*")), [])


if __name__ == "__main__":
    unittest.main()
