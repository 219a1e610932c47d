"""Trainer and evaluator on GPUs, from outside: as many ranks as there are GPUs, at most two."""
import json
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import torch

from support.programs import ProgramTest, metrics, rank_pids, run, SOURCE, start, wait_for

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

    @unittest.skipIf(GPUS < 2, "needs 2 GPUs")
    def test_each_process_holds_a_context_on_its_own_gpu_alone(self):
        run_dir = self.folder / "run"
        process = start("trainer", "--config", SOURCE / "configs/digits_trades.yaml", "--nproc", 2, "--run-dir", run_dir,
                        "training.epochs=1000", *self.digits_overrides())
        try:
            wait_for(lambda: (run_dir / "metrics.jsonl").exists() and metrics(run_dir, "train"), "the first updates")
            ranks = rank_pids(str(run_dir))
            query = ["nvidia-smi", "--query-compute-apps=pid,gpu_uuid", "--format=csv,noheader"]
            rows = [line.split(", ") for line in subprocess.run(query, text=True, capture_output=True,
                                                                check=True).stdout.splitlines()]
        finally:
            process.kill()
            process.communicate(timeout=60)
        if not {str(pid) for pid in ranks.values()} & {pid for pid, _ in rows}:
            self.skipTest("nvidia-smi does not see the processes of this container")
        gpus = {rank: [gpu for pid, gpu in rows if pid == str(ranks[rank])] for rank in (0, 1)}
        self.assertEqual([len(gpus[0]), len(gpus[1])], [1, 1], rows)
        self.assertNotEqual(gpus[0], gpus[1])
        self.assertNotIn(str(process.pid), [pid for pid, _ in rows], "the launcher holds no context")

    def test_gpus_chooses_by_number_and_uuid(self):
        done = run("trainer", "--config", SOURCE / "configs/digits_trades.yaml", "--dry-run", "--gpus", GPUS - 1,
                   *self.digits_overrides())
        self.assertStatus(done, 0)
        uuid = re.search(r"cuda:0 .*(GPU-[0-9a-f-]+)", done.stdout)[1]
        listing = subprocess.run(["nvidia-smi", "--list-gpus"], text=True, capture_output=True, check=True).stdout
        self.assertIn(uuid, listing.splitlines()[-1] if GPUS == len(listing.splitlines()) else listing)
        done = self.train(self.folder / "run", "--gpus", uuid[:12], "training.max_updates=2", *self.short, nproc=1)
        self.assertStatus(done, 0)
        self.assertIn(uuid, done.stdout + done.stderr)

    def test_diagnose_reduces_over_the_gpus(self):
        done = run("diagnose", "--json")
        self.assertStatus(done, 0)
        report = json.loads(done.stdout)
        self.assertEqual(len(report["gpus"]), GPUS)
        self.assertEqual(report["all_reduce"]["backend"], "nccl" if GPUS > 1 else "gloo")

    def test_refuses_more_ranks_than_gpus(self):
        done = self.train(self.folder / "run", "distributed.backend=nccl", *self.short, nproc=GPUS + 1)
        self.assertStatus(done, 2)
        self.assertIn("has no GPU", done.stderr)


if __name__ == "__main__":
    if GPUS == 0:
        print("skipped: needs 1 GPU, 0 visible")
        sys.exit(SKIPPED)
    unittest.main()
