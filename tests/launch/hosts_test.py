"""Two hosts with addresses and names of their own, as network namespaces; ranks are named by hand."""
import json
import pathlib
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
import torch

from support.launchers import Hosts, end_group, free_port, start_program
from support.programs import APPS, SOURCE, ProgramTest

LIMIT = 120


class TwoHosts(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.hosts = Hosts()

    @classmethod
    def tearDownClass(cls):
        cls.hosts.remove()
        super().tearDownClass()

    def setUp(self):
        super().setUp()
        self.processes = []

    def tearDown(self):
        for process in self.processes:
            end_group(process)
        super().tearDown()

    def start(self, rank, master, *arguments, port=29500, host=None):
        command = [APPS / "trainer", "--config", SOURCE / "configs/digits_trades.yaml", "--cpus", 1, "--run-dir",
                   self.folder / "run", "training.max_updates=4", "checkpoint.every=4up", "validation.every=1000ep",
                   "logging.level=debug", *arguments, *self.digits_overrides()]
        process = start_program(self.hosts.command(rank if host is None else host, *command),
                                self.folder / f"rank-{rank}.log", self.folder, RANK=rank, WORLD_SIZE=2, LOCAL_RANK=0,
                                LOCAL_WORLD_SIZE=1, MASTER_ADDR=master, MASTER_PORT=port)
        self.processes.append(process)
        return process

    def console(self, rank):
        return (self.folder / f"rank-{rank}.log").read_text(errors="replace")

    def test_train_as_one_host(self):
        ranks = [self.start(rank, self.hosts.addresses[0]) for rank in (0, 1)]
        for rank, process in enumerate(ranks):
            self.assertEqual(process.wait(LIMIT), 0, self.console(0) + self.console(1))
            # The names resolve nowhere: each rank found the interface by itself.
            self.assertIn(f"gives its peers the address {self.hosts.addresses[rank]}", self.console(rank))
        self.assertIn("world size 2 (launcher: torchrun)", self.console(0))
        self.assertEqual(json.loads((self.folder / "run/run.json").read_text())["hosts"], list(self.hosts.names))
        self.assertStatus(self.train(self.folder / "own", "--cpus", 2, "training.max_updates=4", "checkpoint.every=4up",
                                     "validation.every=1000ep"), 0)
        states = [torch.load(self.folder / folder / "checkpoints/last.pt", weights_only=True)["model"]
                  for folder in ("run", "own")]
        for name, tensor in states[0].items():
            self.assertTrue(torch.equal(tensor, states[1][name]), name)

    def test_unreachable_master_ends_within_a_minute_and_names_the_addresses(self):
        started = time.monotonic()
        process = self.start(1, self.hosts.addresses[0])  # nobody listens there
        lost = self.start(0, "10.77.0.77", port=29501, host=1)  # not an address of this host
        self.assertEqual(lost.wait(LIMIT), 2, self.console(0))
        self.assertIn("10.77.0.77 (10.77.0.77) is not an address of this host", self.console(0))
        self.assertEqual(process.wait(LIMIT), 1, self.console(1))
        self.assertLess(time.monotonic() - started, 90)
        self.assertIn("cannot reach the store at 10.77.0.1:29500 within 1min; tried 10.77.0.1 (Connection refused)",
                      self.console(1))

    def test_occupied_port_is_named(self):
        blocker = subprocess.Popen(
            self.hosts.command(0, sys.executable, "-c",
                               "import socket,sys; s=socket.create_server(('', 29600)); print('on', flush=True); "
                               "sys.stdin.read()"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            self.assertEqual(blocker.stdout.readline(), b"on\n")
            process = self.start(0, self.hosts.addresses[0], port=29600)
            self.assertEqual(process.wait(LIMIT), 1)
            self.assertRegex(self.console(0), r"cannot host the store at 10\.77\.0\.1:29600: .*MASTER_PORT")
        finally:
            blocker.communicate(timeout=30)


if __name__ == "__main__":
    unittest.main()
