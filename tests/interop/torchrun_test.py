"""Ranks that PyTorch's torchrun starts train like those of our own launcher."""
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
import torch

from support.programs import APPS, ProgramTest, clean_environment, SOURCE


class Torchrun(ProgramTest):
    def torchrun(self, *arguments):
        command = [str(pathlib.Path(sys.executable).parent / "torchrun"), "--no-python", "--standalone",
                   "--nproc-per-node", "2", str(APPS / "trainer"), "--config",
                   str(SOURCE / "configs/digits_trades.yaml"), *map(str, arguments), *self.digits_overrides()]
        return subprocess.run(command, cwd=self.folder, text=True, timeout=120, capture_output=True,
                              env=clean_environment())

    def test_trains_as_with_our_launcher(self):
        short = ["training.max_updates=6", "checkpoint.every=3up", "validation.samples=50"]
        done = self.torchrun("--run-dir", self.folder / "torchrun", "--cpus", 2, *short)
        self.assertStatus(done, 0)
        self.assertIn("world size 2 (launcher: torchrun)", done.stdout)
        self.assertStatus(self.train(self.folder / "own", "--cpus", 2, *short), 0)
        states = [torch.load(self.folder / name / "checkpoints/last.pt", weights_only=True)["model"]
                  for name in ("torchrun", "own")]
        for name, tensor in states[0].items():
            self.assertTrue(torch.equal(tensor, states[1][name]), name)

    def test_chooses_one_run_directory(self):
        done = self.torchrun("training.max_updates=2", "validation.every=0ep", f"run.output={self.folder}/runs")
        self.assertStatus(done, 0)
        self.assertEqual([p.name for p in (self.folder / "runs/digits_trades").iterdir()], ["001"])

    def test_failure_reaches_torchruns_report(self):
        done = self.torchrun("model.initial_weights=none.pt", f"run.output={self.folder}/runs")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("none.pt", done.stderr)


if __name__ == "__main__":
    unittest.main()
