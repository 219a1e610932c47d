"""Slurm as the launcher: a private cluster of two nodes on this machine."""
import json
import os
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
import torch

from support.launchers import SlurmCluster, updates
from support.programs import APPS, SOURCE, ProgramTest, processes_with, run, wait_for

SCRIPT = """#!/bin/sh
export MASTER_ADDR=127.0.0.1  # the names of the nodes exist in Slurm alone
srun --kill-on-bad-exit=1 --wait=60 --cpus-per-task=1 {command}
"""


class Slurm(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster = SlurmCluster()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.stop()
        super().tearDownClass()

    def setUp(self):
        super().setUp()
        self.console_file = self.folder / "console.txt"

    def tearDown(self):
        self.cluster.run("scancel", "--full", "--signal=KILL", "--state=RUNNING")
        super().tearDown()

    def console(self):
        return self.console_file.read_text(errors="replace") if self.console_file.exists() else ""

    def submit(self, *arguments, options=(), text=SCRIPT):
        command = " ".join(map(str, [APPS / "trainer", "--config", SOURCE / "configs/digits_trades.yaml",
                                     f"run.output={self.folder}/runs", "logging.every=1up", "validation.every=1000ep",
                                     *arguments, *self.digits_overrides()]))
        script = self.folder / "job.sh"
        script.write_text(text.format(command=command))
        return self.cluster.submit(script, self.console_file, "-N2", "--ntasks-per-node=1", "--cpus-per-task=1",
                                   "--requeue", "--open-mode=append", *options)

    def run_directory(self, job):
        return self.folder / "runs/digits_trades" / job

    def wait_for_updates(self, job):
        wait_for(lambda: updates(self.run_directory(job) / "metrics.jsonl") > 3, "updates", 90)

    def test_two_nodes_train_as_our_launcher(self):
        job = self.submit("--cpus", 1, "training.max_updates=4", "checkpoint.every=4up", "training.max_time=auto",
                          options=["--time=10"])
        self.cluster.wait_for_state(job, "COMPLETED", "FAILED")
        self.assertEqual(self.cluster.job(job)["JobState"], "COMPLETED", self.console())
        self.assertIn("world size 2 (launcher: srun)", self.console())
        self.assertRegex(self.console(), r"the Slurm job ends in (5\d\ds|9min|10min), this run saves")
        self.assertStatus(self.train(self.folder / "own", "--cpus", 2, "training.max_updates=4", "checkpoint.every=4up",
                                     "validation.every=1000ep"), 0)
        states = [torch.load(folder / "checkpoints/last.pt", weights_only=True)["model"]
                  for folder in (self.run_directory(job), self.folder / "own")]
        for name, tensor in states[0].items():
            self.assertTrue(torch.equal(tensor, states[1][name]), name)

    def test_printed_batch_script_goes_back_into_the_queue(self):
        printed = run("trainer", "--config", SOURCE / "configs/digits_trades.yaml", "--print-sbatch", "--nproc", 2, "--cpus", 2,
                      f"run.output={self.folder}/runs", "training.epochs=100000", "logging.every=1up",
                      "validation.every=1000ep", *self.digits_overrides(), cwd=self.folder)
        self.assertStatus(printed, 0)
        script = self.folder / "printed.sh"
        script.write_text(printed.stdout)
        tested = self.cluster.run("sbatch", "--test-only", script)
        self.assertStatus(tested, 0)
        # The name of the node exists in Slurm alone.
        job = self.cluster.submit(script, self.console_file, "--export=ALL,MASTER_ADDR=127.0.0.1")
        self.wait_for_updates(job)
        self.assertIn("world size 2 (launcher: srun)", self.console())
        self.cluster.run("scancel", "--signal=USR1", job)
        wait_for(lambda: "resumed from update " in self.console(), "the second start", 120)
        stopped = int(self.console().split("stopped after update ")[1].split(";")[0])
        self.assertEqual(int(self.console().split("resumed from update ")[1].split()[0]), stopped)
        self.assertEqual(self.cluster.job(job)["Restarts"], "1")

    def test_preempted_job_goes_on_where_it_was(self):
        job = self.submit("training.epochs=100000", options=["--signal=USR1@60"])
        self.wait_for_updates(job)
        urgent = self.folder / "urgent.sh"
        urgent.write_text("#!/bin/sh\nsleep 1\n")
        self.cluster.submit(urgent, "/dev/null", "-p", "urgent", "-N2", "-c", "4")
        wait_for(lambda: int(self.cluster.job(job).get("Restarts", 0)) == 1, "the requeue", 90)
        self.assertRegex(self.console(), r"stopped after update \d+")
        wait_for(lambda: "resumed from update " in self.console(), "the second start", 120)
        stopped = int(self.console().split("stopped after update ")[1].split(";")[0])
        resumed = int(self.console().split("resumed from update ")[1].split()[0])
        self.assertEqual(resumed, stopped)
        self.assertEqual([entry.name for entry in self.run_directory(job).parent.iterdir()], [job])
        # A plain scancel saves, too, but does not requeue.
        self.cluster.run("scancel", job)
        self.cluster.wait_for_state(job, "CANCELLED")
        wait_for(lambda: not processes_with(f"{self.folder}/runs"), "the tasks to end")
        self.assertTrue((self.run_directory(job) / "checkpoints/last.pt").exists())

    def test_killed_task_ends_the_job_with_the_cause_named(self):
        job = self.submit("training.epochs=100000")
        self.wait_for_updates(job)
        victims = {}
        for pid in processes_with(f"{self.folder}/runs"):
            variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if os.readlink(f"/proc/{pid}/exe") == str(APPS / "trainer"):
                victims[[v for v in variables if v.startswith(b"SLURM_PROCID=")][0]] = pid
        os.kill(victims[b"SLURM_PROCID=1"], signal.SIGABRT)
        self.cluster.wait_for_state(job, "FAILED")
        wait_for(lambda: not processes_with(f"{self.folder}/runs"), "the tasks to end")
        failure = json.loads((self.run_directory(job) / "failure.json").read_text())
        self.assertEqual(failure["rank"], 1)
        self.assertRegex(failure["line"], r"rank 1 \(pid \d+, host \S+\) killed by SIGABRT \(signal 6\) in phase")
        self.assertIn("crashes by signal 6, stack:", self.console())

    def test_batch_shell_without_srun_prints_the_line(self):
        job = self.submit("training.max_updates=1", text="#!/bin/sh\n{command}\n")
        self.cluster.wait_for_state(job, "FAILED")
        self.assertIn("ExitCode=2:0", self.cluster.run("scontrol", "show", "job", job).stdout)
        self.assertRegex(self.console(), r"\n  srun --ntasks=2 --kill-on-bad-exit=1 --wait=60 --cpus-per-task=1 "
                                         r"\S+/trainer --config ")


if __name__ == "__main__":
    unittest.main()
