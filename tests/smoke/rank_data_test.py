"""Ranks that see other data than rank 0 are refused by all; the order of directory entries does not matter; a file that
one rank cannot read ends all ranks with one report."""
import json
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
from torch.distributed import TCPStore

from support.programs import ProgramTest, SOURCE, metrics, run, start


def copy_in_order(source, target, reverse):
    """A copy whose directory entries are made in the order of the names or against it."""
    for folder in sorted(source.rglob("*"), reverse=reverse):
        if folder.is_dir():
            (target / folder.relative_to(source)).mkdir(parents=True, exist_ok=True)
    for file in sorted(source.rglob("*.png"), reverse=reverse):
        shutil.copyfile(file, target / file.relative_to(source))


class RankData(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # A part of each class: these tests start programs, they do not learn.
        for split in ("train", "validation", "test"):
            for label in (cls.digits / split).iterdir():
                for file in sorted(label.iterdir())[10:]:
                    file.unlink()

    def start_ranks(self, folders, *arguments, each=((), ())):
        """Two ranks as torchrun starts them, each with data and arguments of its own; status, output and errors of both."""
        store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        processes = [
            start("trainer", "--launcher", "env", "--config", SOURCE / "configs/digits_trades.yaml", "--cpus", 2,
                  f"run.output={self.folder}/runs", *arguments, *each[rank], *self.digits_overrides(folder), RANK=rank,
                  LOCAL_RANK=rank, WORLD_SIZE=2, LOCAL_WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=store.port,
                  TORCHELASTIC_USE_AGENT_STORE="True", TORCHELASTIC_RUN_ID="test")
            for rank, folder in enumerate(folders)]
        outputs = [process.communicate(timeout=100) for process in processes]
        return [(process.returncode, *output) for process, output in zip(processes, outputs)]

    def copy(self):
        return pathlib.Path(shutil.copytree(self.digits, self.folder / "other"))

    def assertRefused(self, other):
        folders = [self.digits, other]
        for rank, (status, _, errors) in enumerate(self.start_ranks(folders)):
            self.assertEqual(status, 2, f"rank {rank}: {errors}")
            self.assertIn("rank 1 sees other data than rank 0", errors)
            self.assertIn(str(folders[rank] / "train"), errors)
            self.assertIn("index hash", errors)
        self.assertFalse(list((self.folder / "runs").rglob("last.pt")))

    def test_another_order_of_entries_changes_nothing(self):
        # tmpfs lists entries in the order of their making; file systems that hash names list both copies alike.
        memory = pathlib.Path(tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else self.folder))
        self.addCleanup(shutil.rmtree, memory)
        folders = [memory / "first", memory / "second"]
        for folder in folders:
            copy_in_order(self.digits, folder, reverse=folder.name == "second")
        done = self.start_ranks(folders, "training.max_updates=3", "validation.samples=20", "validation.every=0ep")
        for rank, (status, _, errors) in enumerate(done):
            self.assertEqual(status, 0, f"rank {rank}: {errors}")
        run, = (self.folder / "runs").glob("*/*/metrics.jsonl")
        self.assertEqual(metrics(run.parent, "train")[-1]["update"], 3)

    def test_another_configuration(self):
        # Other numbers of collectives, other weights: one rank would wait for ever, or train another model.
        others = ["method.beta=3", "training.accumulation=2", "distributed.check_collectives=true", "logging.every=7up"]
        for rank, (status, _, errors) in enumerate(self.start_ranks([self.digits] * 2, each=((), others))):
            self.assertEqual(status, 2, f"rank {rank}: {errors}")
            self.assertIn("the ranks have different configurations:\n  distributed.check_collectives: false on rank 0, true on "
                          "rank 1\n  method.beta: 1.5 on rank 0, 3 on rank 1\n  training.accumulation: 1 on rank 0, 2 on rank 1\n",
                          errors)
        self.assertFalse(list((self.folder / "runs").rglob("last.pt")))

    def test_renamed_file(self):
        other = self.copy()
        file = sorted((other / "train").rglob("*.png"))[3]
        file.rename(file.with_name("zzz.png"))
        self.assertRefused(other)

    def test_missing_validation_file(self):
        other = self.copy()
        os.remove(sorted((other / "validation").rglob("*.png"))[-1])
        self.assertRefused(other)

    def test_file_in_another_class(self):
        other = self.copy()
        files = sorted((other / "train").rglob("*.png"))
        files[0].rename(files[-1].with_name(files[0].name + ".moved.png"))
        self.assertRefused(other)

    def damage(self, split):
        """Data with one file whose content is not an image, of the size that it had."""
        other = self.copy()
        file = sorted((other / split).rglob("*.png"))[20]
        file.write_bytes(b"x" * file.stat().st_size)
        return other, file

    def assertOneReport(self, split):
        other, file = self.damage(split)
        run_dir = self.folder / "run"
        done = run("trainer", "--config", SOURCE / "configs/digits_trades.yaml", "--nproc", 2, "--run-dir", run_dir,
                   "--cpus", 2, "training.epochs=1", *self.digits_overrides(other), limit=100)
        self.assertStatus(done, 1)
        output = done.stdout + done.stderr
        self.assertIn(str(file), output)
        failure = json.loads((run_dir / "failure.json").read_text())
        self.assertEqual(failure["category"], "data", failure)
        self.assertIn(str(file), failure["error"])
        # The launcher says so where the victim happens to end first; the report does not.
        self.assertNotIn("lost another rank", failure["error"])
        if failure["phase"] == "data":
            self.assertTrue(failure["error"].startswith(f"update {failure['update']}: "), failure)
        victim, = failure["victims"]
        self.assertIn(f"stopped together with rank {failure['rank']}", victim["error"])
        return failure["error"]

    def test_damaged_training_file(self):
        self.assertRegex(self.assertOneReport("train"), r"^update \d+: rank [01] on host \S+ failed in phase data: ")

    def test_damaged_validation_file(self):
        self.assertRegex(self.assertOneReport("validation"), r"^evaluation: rank [01] on host \S+ failed")

    def test_checked_collectives(self):
        done = self.start_ranks([self.digits] * 2, "distributed.check_collectives=true", "training.max_updates=3",
                                "validation.samples=20")
        for rank, (status, _, errors) in enumerate(done):
            self.assertEqual(status, 0, f"rank {rank}: {errors}")


if __name__ == "__main__":
    unittest.main()
