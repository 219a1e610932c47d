"""A rank that dies ends the job in bounded time with the cause named, and nothing is left behind."""
import json
import os
import pathlib
import re
import signal
import sys
import time
import unittest

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
from support.programs import ProgramTest, metrics, processes_with, rank_pids, start, wait_for, SOURCE


class DeadRanks(ProgramTest):
    def start_training(self, out, *options):
        process = start("trainer", "--config", SOURCE / "configs/digits_trades.yaml", "--nproc", 2, "--run-dir", out,
                        "--peer-grace", "3s", *options, "training.epochs=100000", "validation.every=1000ep", "logging.every=1up",
                        *self.digits_overrides())
        wait_for(lambda: (out / "metrics.jsonl").exists() and (out / "metrics.jsonl").read_text().count("\n") > 3,
                 "the first updates")
        return process

    def test_killed_rank(self):
        for victim in (0, 1):
            out = self.folder / f"kill-{victim}"
            process = self.start_training(out)
            pid = rank_pids(str(out))[victim]
            os.kill(pid, signal.SIGKILL)
            _, errors = process.communicate(timeout=30)
            self.assertEqual(process.returncode, 137)
            self.assertRegex(errors, rf"rank {victim} \(pid {pid}, host \S+\) killed by SIGKILL \(signal 9\) in phase "
                                     rf"[\w ]+ at update \d+")
            failure = json.loads((out / "failure.json").read_text())
            self.assertEqual(failure["rank"], victim)
            self.assertEqual(json.loads((out / "status.json").read_text())["state"], "failed")
            self.assertEqual(processes_with(str(out)), [])

    def test_killed_launcher_leaves_no_rank(self):
        out = self.folder / "launcher"
        process = self.start_training(out)
        process.kill()
        process.communicate(timeout=30)
        wait_for(lambda: not processes_with(str(out)), "the ranks to end", limit=70)
        self.assertTrue((out / "checkpoints/last.pt").exists(), "the ranks had the time to save")

    def test_launcher_killed_while_ranks_start_leaves_no_rank(self):
        # A rank that waits for the others has nothing to save and ends soon.
        out = self.folder / "early"
        process = start("trainer", "--config", SOURCE / "configs/digits_trades.yaml", "--nproc", 3, "--run-dir", out,
                        *self.digits_overrides())
        pids = wait_for(lambda: len(rank_pids(str(out))) == 3 and rank_pids(str(out)), "the ranks")
        os.kill(pids[2], signal.SIGSTOP)
        process.kill()
        process.communicate(timeout=30)
        wait_for(lambda: not processes_with(str(out)), "the ranks to end", limit=30)

    def handles(self, pid, number):
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        return int(status.split("SigCgt:")[1].split()[0], 16) >> (number - 1) & 1

    def test_signals_to_a_launcher_that_has_not_begun(self):
        # It waits for its configuration; a request to save or for stacks must not end it.
        fifo = self.folder / "config.yaml"
        os.mkfifo(fifo)
        process = start("trainer", "--config", fifo, "--run-dir", self.folder / "begins")
        wait_for(lambda: self.handles(process.pid, signal.SIGUSR1), "its handlers")
        for number in (signal.SIGUSR2, signal.SIGQUIT, signal.SIGUSR1):
            process.send_signal(number)
        process.communicate(timeout=30)
        self.assertEqual(process.returncode, 143)

    def test_stop_of_one_rank_that_waits_for_the_others(self):
        out = self.folder / "one"
        process = start("trainer", "--config", SOURCE / "configs/digits_trades.yaml", "--nproc", 2, "--run-dir", out,
                        *self.digits_overrides())
        pids = wait_for(lambda: len(rank_pids(str(out))) == 2 and rank_pids(str(out)), "the ranks")
        os.kill(pids[1], signal.SIGSTOP)
        wait_for(lambda: self.handles(pids[0], signal.SIGUSR1), "the handlers of rank 0")
        os.kill(pids[0], signal.SIGUSR1)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 143, errors)
        self.assertIn("rank 0 was asked to stop before there was anything to save", errors)
        self.assertFalse((out / "failure.json").exists())

    def test_two_jobs_at_once(self):
        # Neither port nor run directory is shared, though both are chosen at the same time.
        runs = self.folder / "runs"
        jobs = [start("trainer", "--config", SOURCE / "configs/digits_trades.yaml", "--nproc", 2, f"run.output={runs}",
                      "training.max_updates=3", "validation.samples=32", *self.digits_overrides()) for _ in range(3)]
        for job in jobs:
            output, errors = job.communicate(timeout=120)
            self.assertEqual(job.returncode, 0, errors)
            self.assertRegex(output, "(?m)^finished: epoch 1")
        self.assertEqual(sorted(folder.name for folder in next(runs.iterdir()).iterdir()), ["001", "002", "003"])

    def test_save_request_saves_and_goes_on(self):
        out = self.folder / "save"
        process = self.start_training(out)
        process.send_signal(signal.SIGUSR2)
        wait_for(lambda: (out / "checkpoints/last.pt").exists(), "the checkpoint")
        seen = (out / "metrics.jsonl").read_text().count("\n")
        wait_for(lambda: (out / "metrics.jsonl").read_text().count("\n") > seen + 3, "further updates")
        process.send_signal(signal.SIGUSR1)
        for _ in range(3):  # schedulers repeat themselves
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75)
        self.assertEqual([event["what"] for event in metrics(out, "event")], ["started", "saved", "preempted"])
        self.assertEqual(processes_with(str(out)), [])

    def test_stopped_rank_saves_when_it_is_asked_to_end(self):
        out = self.folder / "stopped"
        process = self.start_training(out)
        os.kill(rank_pids(str(out))[1], signal.SIGSTOP)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75)
        self.assertTrue((out / "checkpoints/last.pt").exists())

    def test_suspended_job_goes_on(self):
        # As by `scontrol suspend`: for longer than the time-out, but nobody is to blame.
        out = self.folder / "suspended"
        process = self.start_training(out, "--hang-timeout", "2s")
        pids = [process.pid, *rank_pids(str(out)).values()]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(4)
        for pid in reversed(pids):
            os.kill(pid, signal.SIGCONT)
        seen = (out / "metrics.jsonl").read_text().count("\n")
        wait_for(lambda: (out / "metrics.jsonl").read_text().count("\n") > seen + 20, "further updates")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, errors)

    def test_interrupt_while_a_restart_waits(self):
        out = self.folder / "waits"
        process = self.start_training(out, "--max-restarts", 5)
        os.kill(rank_pids(str(out))[1], signal.SIGKILL)
        self.assertTrue(any("launcher: restart 1 of 5" in line for line in iter(process.stderr.readline, "")))
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, errors)
        self.assertEqual(processes_with(str(out)), [])

    def test_terminated_in_a_validation(self):
        out = self.folder / "validation"
        process = start("trainer", "--config", SOURCE / "configs/digits_trades.yaml", "--nproc", 2, "--run-dir", out,
                        "validation.every=2up", "validation.attack.steps=10000", "logging.every=1up",
                        *self.digits_overrides())
        wait_for(lambda: (out / "metrics.jsonl").exists() and len(metrics(out, "train")) == 2, "the update before it")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75)
        self.assertEqual(metrics(out, "validation"), [])
        self.assertTrue((out / "checkpoints/last.pt").exists())

    def test_stacks_on_request(self):
        out = self.folder / "stacks"
        process = self.start_training(out)
        process.send_signal(signal.SIGQUIT)
        for rank in (0, 1):
            log = out / f"logs/attempt-1/rank-{rank}.log"
            wait_for(lambda: "stack of thread" in log.read_text(), "the stacks")
            # Code that oneDNN has made at run time has no frames to go through: asked until the thread is elsewhere.
            wait_for(lambda: re.search(r"trainer\(\S*run_training_rank\S*\+\d+\)", log.read_text())
                     or process.send_signal(signal.SIGQUIT), "names in the stacks")
            self.assertEqual(pathlib.Path(f"/proc/{rank_pids(str(out))[rank]}/comm").read_text(), "trainer\n")
        seen = (out / "metrics.jsonl").read_text().count("\n")
        wait_for(lambda: (out / "metrics.jsonl").read_text().count("\n") > seen + 3, "further updates")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)

    def test_interrupt_saves(self):
        out = self.folder / "interrupt"
        process = self.start_training(out)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertTrue((out / "checkpoints/last.pt").exists())
        self.assertEqual(processes_with(str(out)), [])


if __name__ == "__main__":
    unittest.main()
