"""A rank that dies ends the job in bounded time with the cause named, and nothing is left behind."""
import json
import os
import re
import signal
import sys
import unittest

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
from support.programs import ProgramTest, processes_with, rank_pids, start, wait_for, SOURCE


class DeadRanks(ProgramTest):
    def start_training(self, out):
        process = start("trainer", "--config", SOURCE / "configs/digits_trades.yaml", "--nproc", 2, "--run-dir", out,
                        "--peer-grace", "3s", "training.epochs=100000", "validation.every=1000ep", "logging.every=1up",
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
            self.assertEqual(processes_with(str(out)), [])

    def test_killed_launcher_leaves_no_rank(self):
        out = self.folder / "launcher"
        process = self.start_training(out)
        process.kill()
        process.communicate(timeout=30)
        wait_for(lambda: not processes_with(str(out)), "the ranks to end", limit=70)

    def test_interrupt_saves_and_a_second_one_stops_at_once(self):
        out = self.folder / "interrupt"
        process = self.start_training(out)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertTrue((out / "checkpoints/last.pt").exists())
        self.assertEqual(processes_with(str(out)), [])

    def test_full_disk_is_named(self):
        # A file where the checkpoint folder should be: the save fails on the main rank alone.
        out = self.folder / "disk"
        out.mkdir()
        (out / "checkpoints").write_text("")
        process = start("trainer", "--config", SOURCE / "configs/digits_trades.yaml", "--nproc", 2, "--run-dir", out,
                        "--resume", "never", "training.max_updates=3", *self.digits_overrides())
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertTrue(re.search(r"the checkpoint at update \d+ could not be saved", errors), errors)


if __name__ == "__main__":
    unittest.main()
