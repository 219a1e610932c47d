"""Open MPI's mpirun as the launcher."""
import json
import os
import signal
import sys
import unittest

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
from support.launchers import end_group, require_programs, start_program, updates
from support.programs import APPS, SOURCE, ProgramTest, processes_with, rank_pids, wait_for

LIMIT = 120


class Mpirun(ProgramTest):
    def setUp(self):
        super().setUp()
        require_programs("mpirun")
        self.log = self.folder / "console.log"
        self.process = None

    def tearDown(self):
        if self.process:
            end_group(self.process)
        super().tearDown()

    def start(self, *arguments, options=()):
        # TMPDIR: Open MPI keeps sockets there, whose paths have to be short.
        self.process = start_program(
            ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", 2, *options, APPS / "trainer", "--config",
             SOURCE / "configs/digits_trades.yaml", "--run-dir", self.folder / "run", "logging.every=1up",
             "validation.every=1000ep", *arguments, *self.digits_overrides()], self.log, self.folder, TMPDIR="/tmp")
        return self.process

    def console(self):
        return self.log.read_text(errors="replace")

    def test_signal_saves_and_the_same_command_goes_on(self):
        process = self.start("training.epochs=100000")
        wait_for(lambda: updates(self.folder / "run/metrics.jsonl") > 2, "updates")
        self.assertIn("world size 2 (launcher: mpirun)", self.console())
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(process.wait(LIMIT), 75, self.console())
        self.assertEqual(self.start("training.max_updates=1000", "training.max_time=1s").wait(LIMIT), 124, self.console())
        self.assertRegex(self.console(), r"resumed from update [1-9]")
        self.assertEqual(processes_with(f"{self.folder}/run"), [])

    def test_failure_is_named(self):
        self.assertEqual(self.start("model.initial_weights=none.pt").wait(LIMIT), 2, self.console())
        self.assertRegex(self.console(), r"rank \d \(pid \d+, host \S+\) failed: .*none.pt")
        self.assertIn("none.pt", json.loads((self.folder / "run/failure.json").read_text())["error"])

    def test_several_hosts_need_the_address_of_rank_zero(self):
        # As on the second of two hosts; nothing else of Open MPI is needed for that.
        self.assertEqual(self.start("training.max_updates=1",
                                    options=["sh", "-c",
                                             'OMPI_COMM_WORLD_LOCAL_SIZE=1 OMPI_COMM_WORLD_LOCAL_RANK=0 exec "$@"',
                                             "sh"]).wait(LIMIT), 2)
        self.assertIn("export MASTER_ADDR", self.console())


if __name__ == "__main__":
    unittest.main()
