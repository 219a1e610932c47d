"""The main job trains on real photos: ResNet-18 with TRADES over two processes, from JPEG files."""
import subprocess
import sys
import unittest

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
from support.programs import ProgramTest, metrics, run, SOURCE

CONFIG = SOURCE / "configs/resnet18_imagenet100.yaml"


class Photos(ProgramTest):
    def test_trains_on_photo_files(self):
        for name, count, seed in (("train", 120, 2), ("val", 30, 3)):
            made = subprocess.run([sys.executable, SOURCE / "scripts/make_photo_set.py", self.folder / name, "--count",
                                   str(count), "--classes", "10", "--seed", str(seed), "--mix"],
                                  text=True, capture_output=True, timeout=300)
            self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        out = self.folder / "run"
        done = run("trainer", "--config", CONFIG, "--nproc", 2, "--run-dir", out, f"data.train={self.folder}/train",
                   f"data.validation={self.folder}/val", "data.classes=10", "data.image_size=64",
                   "training.global_batch_size=24", "training.max_updates=20", "method.attack.steps=2",
                   "validation.attack.steps=3", "logging.every=5up", limit=400)
        self.assertStatus(done, 0)
        self.assertRegex(done.stdout, r"speed: [\d.]+ images/s over all processes; peak memory of a process: \d+ MiB")
        print(next(line for line in done.stdout.splitlines() if line.startswith("speed:")))
        train = metrics(out, "train")
        self.assertEqual(train[-1]["update"], 20)
        self.assertEqual(train[-1]["samples"], 480)
        self.assertGreater(train[-1]["peak_memory_bytes"], 50 << 20)
        self.assertEqual(metrics(out, "validation")[-1]["samples"], 30)

    def test_unchanged_configuration_passes_dry_run(self):
        done = run("trainer", "--config", CONFIG, "--dry-run", "--nproc", 2)
        self.assertStatus(done, 0)
        for text in ("placement: 2 processes", "memory a rank", "parameters", "data.train: not usable now", "not set"):
            self.assertIn(text, done.stdout)


if __name__ == "__main__":
    unittest.main()
