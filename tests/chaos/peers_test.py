"""Ranks that no launcher of ours supervises watch over each other through the store."""
import json
import pathlib
import signal
import socket
import sys
import unittest

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
from support.programs import ProgramTest, processes_with, start, wait_for, SOURCE

HANG_TIMEOUT = "3s"
PEER_GRACE = "8s"  # longer than the silence of a store that ends a rank


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Peers(ProgramTest):
    def start_rank(self, out, port, rank, count):
        return start("trainer", "--config", SOURCE / "configs/digits_trades.yaml", "--run-dir", out, "--hang-timeout",
                     HANG_TIMEOUT, "--peer-grace", PEER_GRACE, "training.epochs=100000", "validation.every=1000ep",
                     "logging.every=1up", *self.digits_overrides(), RANK=rank, WORLD_SIZE=count, LOCAL_RANK=rank,
                     LOCAL_WORLD_SIZE=count, MASTER_ADDR="127.0.0.1", MASTER_PORT=port, OMP_NUM_THREADS=1)

    def start_ranks(self, count=2):
        out = self.folder / "run"
        self.port = port = free_port()
        ranks = [self.start_rank(out, port, rank, count) for rank in range(count)]
        wait_for(lambda: (out / "metrics.jsonl").exists() and (out / "metrics.jsonl").read_text().count("\n") > 3,
                 "the first updates")
        return ranks

    def test_stopped_rank_is_named_and_the_others_end(self):
        ranks = self.start_ranks(3)
        ranks[1].send_signal(signal.SIGSTOP)
        for rank in (0, 2):
            _, errors = ranks[rank].communicate(timeout=60)
            self.assertEqual(ranks[rank].returncode, 1, errors)
            self.assertRegex(errors, r"stopped, because rank 1 \(pid \d+, host \S+\) failed: not heard from \(stopped, or its host is "
                                     r"down\), no progress for [\d.]+ s.* in phase [\w ]+ at update \d+")
        self.assertBlamed(ranks[1], "hang")
        ranks[1].send_signal(signal.SIGCONT)
        _, errors = ranks[1].communicate(timeout=60)
        self.assertEqual(ranks[1].returncode, 1, errors)

    def assertBlamed(self, rank, category):
        failure = json.loads((self.folder / "run/failure.json").read_text())
        self.assertEqual((failure["rank"], failure["category"], failure["pid"]), (1, category, rank.pid), failure)
        self.assertIn(f"rank 1 (pid {rank.pid}, host ", failure["line"])
        self.assertEqual(json.loads((self.folder / "run/status.json").read_text())["state"], "failed")

    def test_stopped_host_of_the_store(self):
        ranks = self.start_ranks()
        ranks[0].send_signal(signal.SIGSTOP)
        _, errors = ranks[1].communicate(timeout=60)
        self.assertEqual(ranks[1].returncode, 1, errors)
        self.assertRegex(errors, r"the store at 127.0.0.1:\d+ has not answered for \d+ s")
        ranks[0].kill()
        ranks[0].communicate(timeout=30)

    def test_killed_rank_ends_the_others(self):
        ranks = self.start_ranks()
        ranks[1].kill()
        _, errors = ranks[0].communicate(timeout=60)
        self.assertEqual(ranks[0].returncode, 1, errors)
        ranks[1].communicate(timeout=30)
        self.assertEqual(processes_with(str(self.folder)), [])

    def test_rank_that_waits_for_a_store_hears_signals(self):
        for number, status in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
            rank = start("trainer", "--config", SOURCE / "configs/digits_trades.yaml", "--run-dir", self.folder / "waits",
                         *self.digits_overrides(), RANK=1, WORLD_SIZE=2, LOCAL_RANK=0, LOCAL_WORLD_SIZE=1,
                         MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port())
            wait_for(lambda: self.handles(rank.pid, number), "its handlers")
            rank.send_signal(number)
            rank.communicate(timeout=30)
            self.assertEqual(rank.returncode, status)

    def handles(self, pid, number):
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        return int(status.split("SigCgt:")[1].split()[0], 16) >> (number - 1) & 1

    def test_rank_of_another_run_on_the_same_port_is_turned_away(self):
        ranks = self.start_ranks()
        # One with a number that is taken, one of a larger run.
        for number, count, text in ((1, 2, "is rank 1 of the run at"), (2, 3, "set WORLD_SIZE alike")):
            stray = self.start_rank(self.folder / "stray", self.port, number, count)
            _, errors = stray.communicate(timeout=60)
            self.assertEqual(stray.returncode, 2, errors)
            self.assertIn(text, errors)
        metrics = self.folder / "run/metrics.jsonl"
        seen = metrics.read_text().count("\n")
        wait_for(lambda: metrics.read_text().count("\n") > seen + 20, "further updates")
        for rank in ranks:
            rank.send_signal(signal.SIGINT)
        for rank in ranks:
            _, errors = rank.communicate(timeout=60)
            self.assertEqual(rank.returncode, 130, errors)

    def test_world_sizes_that_differ_end_all_ranks(self):
        port = free_port()
        ranks = [self.start_rank(self.folder / "differ", port, rank, 3 - rank) for rank in (0, 1)]
        for rank in ranks:
            _, errors = rank.communicate(timeout=60)
            self.assertEqual(rank.returncode, 2, errors)
            self.assertIn("set WORLD_SIZE alike for all ranks", errors)

    def test_interrupt_of_all_saves(self):
        ranks = self.start_ranks()
        for rank in ranks:
            rank.send_signal(signal.SIGINT)
        for rank in ranks:
            _, errors = rank.communicate(timeout=60)
            self.assertEqual(rank.returncode, 130, errors)
            self.assertNotIn("c10d", errors, "the store's host left before the others had finished")


if __name__ == "__main__":
    unittest.main()
