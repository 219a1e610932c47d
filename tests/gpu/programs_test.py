"""Trainer and evaluator on GPUs, from outside: as many ranks as there are GPUs, at most two."""
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import torch

from support.programs import ProgramTest, metrics, run, SOURCE

SKIPPED = 77
GPUS = torch.cuda.device_count()
RANKS = min(2, GPUS)


class Gpu(ProgramTest):
    short = ["training.epochs=3", "validation.every=1ep", "checkpoint.every=1ep", "logging.every=1up"]

    def evaluate(self, run_dir, *arguments):
        done = run("evaluator", "--checkpoint", run_dir / "checkpoints/last.pt", "--config",
                   SOURCE / "configs/digits_trades.yaml", "--json", *arguments, *self.digits_overrides())
        self.assertStatus(done, 0)
        return json.loads(done.stdout)

    def test_trains_with_nccl_and_resumes(self):
        run_dir = self.folder / "run"
        done = self.train(run_dir, "distributed.backend=nccl", "training.max_updates=15", *self.short, nproc=RANKS)
        self.assertStatus(done, 0)
        self.assertIn("device cuda:0", done.stdout + done.stderr)
        self.assertStatus(self.train(run_dir, "distributed.backend=nccl", *self.short, nproc=RANKS), 0)
        records = metrics(run_dir, "train")
        self.assertEqual([one["update"] for one in records], list(range(1, 31)))
        self.assertLess(records[-1]["loss"], records[0]["loss"])
        self.assertGreater(records[0]["peak_memory_bytes"], 0)
        # The buffers of 30 small updates are the same ones.
        self.assertLessEqual(records[-1]["peak_memory_bytes"], 1.05 * records[10]["peak_memory_bytes"])

    def test_deterministic_runs_are_bit_identical(self):
        states = []
        for name in ("first", "second"):
            done = self.train(self.folder / name, "run.deterministic=true", "training.max_updates=15", *self.short,
                              nproc=RANKS)
            self.assertStatus(done, 0)
            states.append(torch.load(self.folder / name / "checkpoints/last.pt", weights_only=True)["model"])
        for name, tensor in states[0].items():
            self.assertTrue(torch.equal(tensor, states[1][name]), name)

    def test_checkpoint_is_free_of_the_gpu(self):
        run_dir = self.folder / "run"
        self.assertStatus(self.train(run_dir, *self.short, nproc=RANKS), 0)
        weights = torch.load(run_dir / "checkpoints/last.pt", weights_only=True)["model"]
        for name, tensor in weights.items():
            self.assertEqual(tensor.device.type, "cpu", name)
        gpu = self.evaluate(run_dir, "--nproc", RANKS)
        cpu = self.evaluate(run_dir, "--nproc", 2, "distributed.backend=gloo")
        self.assertEqual(gpu["samples"], cpu["samples"])
        # Rounding decides samples on the edge.
        self.assertAlmostEqual(gpu["clean_correct"], cpu["clean_correct"], delta=4)
        self.assertAlmostEqual(gpu["attacks"][0]["robust_correct"], cpu["attacks"][0]["robust_correct"], delta=8)

    def test_refuses_more_ranks_than_gpus(self):
        done = self.train(self.folder / "run", "distributed.backend=nccl", *self.short, nproc=GPUS + 1)
        self.assertStatus(done, 2)
        self.assertIn("has no GPU", done.stderr)


if __name__ == "__main__":
    if GPUS == 0:
        print("skipped: needs 1 GPU, 0 visible")
        sys.exit(SKIPPED)
    unittest.main()
