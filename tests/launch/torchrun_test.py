"""PyTorch's torchrun as the launcher: several nodes, restarts, and its root-cause report."""
import json
import os
import signal
import sys
import unittest

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
import torch

from support.launchers import end_group, free_port, start_program, torchrun, updates, wait_until_idle
from support.programs import APPS, SOURCE, ProgramTest, processes_with, rank_pids, wait_for

LIMIT = 120


class Torchrun(ProgramTest):
    def setUp(self):
        super().setUp()
        self.log = self.folder / "console.log"
        self.processes = []

    def tearDown(self):
        for process in self.processes:
            end_group(process)
        super().tearDown()

    def start(self, options, *arguments):
        command = [*torchrun(*options), APPS / "trainer", "--config", SOURCE / "configs/digits_trades.yaml",
                   f"run.output={self.folder}/runs", "logging.every=1up", "validation.every=1000ep",
                   *arguments, *self.digits_overrides()]
        process = start_program(command, self.log, self.folder)
        self.processes.append(process)
        return process

    def console(self):
        return self.log.read_text(errors="replace")

    def run_directory(self, number="001"):
        return self.folder / "runs/digits_trades" / number

    def test_two_nodes_train_as_one_launcher(self):
        port = free_port()
        short = ["training.max_updates=4", "checkpoint.every=4up"]
        nodes = [self.start(["--nnodes", 2, "--node-rank", node, "--master-addr", "127.0.0.1", "--master-port", port,
                             "--nproc-per-node", 1], "--cpus", 1, *short) for node in (0, 1)]
        for node in nodes:
            self.assertEqual(node.wait(LIMIT), 0, self.console())
        self.assertIn("world size 2 (launcher: torchrun)", self.console())
        self.assertIn("is a loopback address in a run of 2 nodes", self.console())
        self.assertStatus(self.train(self.folder / "own", "--cpus", 2, *short), 0)
        states = [torch.load(folder / "checkpoints/last.pt", weights_only=True)["model"]
                  for folder in (self.run_directory(), self.folder / "own")]
        for name, tensor in states[0].items():
            self.assertTrue(torch.equal(tensor, states[1][name]), name)
        run = json.loads((self.run_directory() / "run.json").read_text())
        self.assertEqual(run["launcher"], "torchrun")
        self.assertEqual(len(run["launch"]["agents"]), 2)

    def test_restart_goes_on_in_the_same_run_directory(self):
        process = self.start(["--standalone", "--nproc-per-node", 2, "--max-restarts", 1],
                             "--resume", "never", "training.max_updates=600", "checkpoint.every=1up")
        run = self.run_directory()
        wait_for(lambda: updates(run / "metrics.jsonl") > 5 and (run / "checkpoints/last.pt").exists(), "updates")
        os.kill(rank_pids(f"{self.folder}/runs")[1], signal.SIGKILL)
        resumed = wait_for(lambda: "resumed from update " in self.console() and self.console(), "the restart", LIMIT)
        self.assertGreater(int(resumed.split("resumed from update ")[1].split()[0]), 3)
        self.assertEqual([entry.name for entry in run.parent.iterdir()], ["001"])
        self.assertFalse((run / "metrics.1.jsonl").exists() or (run / "checkpoints.1").exists())
        wait_for(lambda: (run / "logs/attempt-2/rank-1.log").exists(), "the log of the second attempt")
        self.assertTrue((run / "logs/attempt-1/rank-0.log").exists())
        # It ends by itself; torchrun's own way to stop would kill a slow machine's save after 30 s.
        for pid in rank_pids(f"{self.folder}/runs").values():
            os.kill(pid, signal.SIGUSR1)
        process.wait(LIMIT)
        wait_for(lambda: not processes_with(f"{self.folder}/runs"), "the ranks to end")

    def test_report_shows_our_error_and_where_it_was_thrown(self):
        process = self.start(["--standalone", "--nproc-per-node", 2], "model.initial_weights=none.pt")
        self.assertEqual(process.wait(LIMIT), 1)
        report = self.console().split("Root Cause")[1]
        self.assertIn("none.pt", report)
        self.assertRegex(report, r"#\d+ temper::.*weights.* \+0x[0-9a-f]+ \(trainer\)")
        self.assertRegex(report, r"#\d+ main \+0x")
        failure = json.loads((self.run_directory() / "failure.json").read_text())
        self.assertEqual(failure["category"], "configuration")
        self.assertIn("none.pt", failure["error"])
        self.assertRegex(failure["line"], r"rank \d \(pid \d+, host \S+\) failed: .* in phase build model at update 0")
        self.assertIn("none.pt", (self.run_directory() / f"logs/attempt-1/rank-{failure['rank']}.log").read_text())

    def test_report_shows_a_configuration_that_cannot_be_read(self):
        process = self.start(["--standalone", "--nproc-per-node", 2], "training.epochs=many")
        self.assertEqual(process.wait(LIMIT), 1)
        report = self.console().split("Root Cause")[1]
        self.assertIn("training.epochs", report)
        self.assertNotIn("error_file: <N/A>", report)

    def test_report_shows_the_stack_of_a_crash(self):
        process = self.start(["--standalone", "--nproc-per-node", 2], "training.epochs=100000")
        run = self.run_directory()
        wait_for(lambda: updates(run / "metrics.jsonl") > 2, "updates")
        other, victim = (rank_pids(f"{self.folder}/runs")[rank] for rank in (0, 1))
        # Waiting for its peer, it is at a known place; generated kernels have no frames.
        os.kill(other, signal.SIGSTOP)
        wait_until_idle(victim)
        os.kill(victim, signal.SIGSEGV)
        wait_for(lambda: victim not in processes_with(f"{self.folder}/runs"), "the crash")
        os.kill(other, signal.SIGCONT)
        self.assertEqual(process.wait(LIMIT), 1)
        line = rf"rank 1 \(pid {victim}, host \S+\) killed by SIGSEGV \(signal 11\) in phase [\w ]+ at update \d+"
        report = self.console().split("Root Cause")[1]
        self.assertRegex(report, line)
        self.assertRegex(report, r"#\d+ \S*\d+run_training_rank\S* \+0x[0-9a-f]+ \(trainer\)")
        self.assertRegex(report, r"exitcode\s*: -11")
        failure = json.loads((run / "failure.json").read_text())
        self.assertRegex(failure["line"], line)
        self.assertEqual(failure["signal"], {"name": "SIGSEGV", "number": 11})
        self.assertTrue(any("run_training_rank" in frame for frame in failure["stack"]), failure)


if __name__ == "__main__":
    unittest.main()
