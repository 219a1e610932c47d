"""Dead and stuck ranks in every phase: the job ends in bounded time, the report names rank, phase and cause, nothing is
left behind. The program is the trainer with a fault (faulty_trainer.cpp)."""
import json
import os
import pathlib
import signal

import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
from support.programs import ProgramTest, clean_environment, metrics, processes_with, wait_for, SOURCE

PROGRAM = os.environ["TEMPER_TEST_PROGRAM"]
LIMIT = 60          # seconds; far more than a job takes to end
HANG_TIMEOUT = "4s"  # longer than any pause of a healthy rank, also on a busy machine

# Phase and update in which the rank fails.
PLACES = {"rendezvous": ("connect", 0), "update": ("forward_backward", 2), "attack": ("attack", 2), "data": ("data", 2),
          "validation": ("validation", 3), "save": ("save checkpoint", 3)}

class Faults(ProgramTest):
    def run_with(self, fault, *arguments, nproc=2, out=None):
        out = out or pathlib.Path(tempfile.mkdtemp(dir=self.folder)) / "run"
        environment = clean_environment(TEMPER_FAULT=fault, OMP_NUM_THREADS=1)
        command = [PROGRAM, "--config", SOURCE / "configs/digits_trades.yaml", "--nproc", nproc, "--run-dir", out,
                   "--peer-grace", "3s", *arguments, "training.max_updates=6", "validation.every=3up",
                   "validation.samples=32", "checkpoint.every=3up", "logging.every=1up",
                   "training.global_batch_size=16", *self.digits_overrides()]
        done = subprocess.run([str(part) for part in command], env=environment, capture_output=True, text=True,
                              timeout=LIMIT)
        self.assertEqual(processes_with(str(out)), [], done.stderr)
        return done, out

    def fail_in(self, place, kind, rank=1, *arguments):
        phase, update = PLACES[place]
        return self.run_with(f"{rank}:{phase}:{update}:{kind}", *arguments)

    def assertCause(self, done, out, rank, place, category, text, status):
        self.assertStatus(done, status)
        phase, update = PLACES[place]
        report = json.loads((out / "failure.json").read_text())
        self.assertEqual((report["rank"], report["category"], report["phase"], report["update"]),
                         (rank, category, phase, update), done.stderr)
        self.assertRegex(done.stderr, rf"(?m)^rank {rank} \(pid \d+, host \S+\) {text} in phase {phase} at update {update}$")
        for victim in report["victims"]:
            self.assertIn(victim["category"], ("lost peer", "stopped by launcher"), done.stderr)

    def each_place(self, kind, category, text, status, *arguments, places=PLACES, rank=1, also=lambda done, out: None):
        for place in places:
            with self.subTest(place=place):
                done, out = self.fail_in(place, kind, rank, *arguments)
                self.assertCause(done, out, rank, place, category, text, status)
                also(done, out)

    def test_exception(self):
        def others_know_why(done, out):
            self.assertRegex((out / "logs/attempt-1/rank-0.log").read_text(),
                             r"stopped, because rank 1 \(pid \d+, host \S+\) failed: a fault of the test")

        self.each_place("throw", "exception", "failed: a fault of the test", 1, also=others_know_why)

    def test_exit_with_status_zero(self):
        self.each_place("exit", "exit", "failed: ended with status 0 while others still needed it", 1)

    def test_kill(self):
        self.each_place("kill", "killed from outside", r"killed by SIGKILL \(signal 9\)", 137,
                        also=lambda done, _: self.assertIn("verdict: ", done.stderr))

    def test_crash_on_the_main_rank(self):
        self.each_place("segv", "crash signal", r"killed by SIGSEGV \(signal 11\)", 139, rank=0,
                        places=("update", "save"))

    def assertStacks(self, done, out):
        self.assertIn("stack of thread", (out / "logs/attempt-1/rank-1.log").read_text())
        self.assertRegex(done.stderr, r"rank 0 waits in #\d+ \w+")

    def test_stop(self):
        self.each_place("stop", "hang", r"failed: stopped by a signal \(state T\), no progress for .*", 1,
                        "--hang-timeout", HANG_TIMEOUT, places=("rendezvous", "attack", "save"),
                        also=self.assertStacks)

    def test_endless_loop(self):
        self.each_place("loop", "hang", "failed: no progress for .*", 1, "--hang-timeout", HANG_TIMEOUT,
                        places=("data", "validation"), also=self.assertStacks)

    def test_out_of_memory(self):
        self.each_place("memory", "out of memory", "failed: out of memory on the host", 1, places=("update",),
                        also=lambda done, _: self.assertIn("lower the batch size", done.stderr))

    def test_second_interrupt_stops_at_once(self):
        # Rank 1 stands still in the save that the first one asks for.
        out = self.folder / "twice"
        environment = clean_environment(TEMPER_FAULT="1:save checkpoint:*:stop", OMP_NUM_THREADS=1)
        command = [PROGRAM, "--config", SOURCE / "configs/digits_trades.yaml", "--nproc", 2, "--run-dir", out,
                   "training.epochs=100000", "validation.every=1000ep", "checkpoint.every=1000ep", "logging.every=1up",
                   *self.digits_overrides()]
        process = subprocess.Popen([str(part) for part in command], env=environment, text=True, stderr=subprocess.PIPE,
                                   stdout=subprocess.DEVNULL)
        wait_for(lambda: (out / "metrics.jsonl").exists() and metrics(out, "train"), "the first update")
        process.send_signal(signal.SIGINT)
        self.assertTrue(any("launcher: SIGINT" in line for line in iter(process.stderr.readline, "")))
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 130, errors)
        self.assertIn("second Ctrl-C: all ranks are stopped at once, nothing is saved", errors)
        self.assertEqual(processes_with(str(out)), [])

    def test_restart_goes_on_from_the_checkpoint(self):
        # `never` means what an earlier run has left, not what the attempt before the restart has.
        old = self.folder / "old"
        (old / "checkpoints").mkdir(parents=True)
        (old / "checkpoints/last.pt").write_bytes(b"old")
        done, out = self.run_with("1:attack:4:kill", "--max-restarts", 1, "--resume", "never", out=old)
        self.assertStatus(done, 0)
        self.assertEqual((out / "checkpoints.1/last.pt").read_bytes(), b"old")
        self.assertFalse((out / "checkpoints.2").exists())
        self.assertIn("resumed from update 3", done.stdout)
        self.assertIn("launcher: restart 1 of 1", done.stderr)
        self.assertEqual([record["update"] for record in metrics(out, "train")], [1, 2, 3, 4, 5, 6])
        self.assertTrue((out / "logs/attempt-2/rank-0.log").exists())

    def test_no_restart_after_the_users_mistake(self):
        done, out = self.run_with("1:attack:4:data", "--max-restarts", 3)
        self.assertStatus(done, 1)
        self.assertIn("no restart: a failure of the category data would come again", done.stderr)
        self.assertFalse((out / "logs/attempt-2").exists())

if __name__ == "__main__":
    unittest.main()
