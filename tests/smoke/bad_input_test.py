"""Each kind of bad input gives one clear error, the documented exit status, and leaves nothing behind."""
import os
import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
from support.programs import ProgramTest, processes_with, run, SOURCE


class BadInput(ProgramTest):
    def copy_digits(self):
        copy = self.folder / "digits"
        shutil.copytree(self.digits, copy)
        return copy

    def trainer(self, *arguments, config=None, digits=None, nproc=2):
        return run("trainer", "--config", config or SOURCE / "configs/digits_trades.yaml", "--nproc", nproc,
                   *arguments, *self.digits_overrides(digits), f"run.output={self.folder}/runs")

    def assertRefused(self, done, *texts, status=2):
        self.assertStatus(done, status)
        for text in texts:
            self.assertIn(text, done.stderr)
        self.assertFalse((self.folder / "runs").exists(), "a refused run left its directory")
        self.assertEqual(processes_with(str(self.folder)), [])

    def config(self, text):
        path = self.folder / "config.yaml"
        path.write_text(text)
        return path

    def test_unknown_key(self):
        path = self.config(f"include: {SOURCE}/configs/digits_trades.yaml\nmethod:\n  betta: 3\n")
        self.assertRefused(self.trainer(config=path), f"{path}:3:3: method.betta", "did you mean 'beta'")

    def test_duplicate_key(self):
        path = self.config(f"include: {SOURCE}/configs/digits_trades.yaml\nmethod:\n  beta: 3\n  beta: 4\n")
        self.assertRefused(self.trainer(config=path), f"{path}:4:3: method.beta")

    def test_wrong_type_and_all_problems_at_once(self):
        path = self.config(f"include: {SOURCE}/configs/digits_trades.yaml\n"
                           "training: {epochs: many}\noptimizer: {momentum: 2}\n")
        self.assertRefused(self.trainer(config=path), "training.epochs", "optimizer.momentum")

    def test_epsilon_in_pixel_levels(self):
        self.assertRefused(self.trainer("threat_model.epsilon=8"), "threat_model.epsilon", "8/255")

    def test_later_feature_is_refused(self):
        self.assertRefused(self.trainer("training.precision=bf16"), "training.precision")

    def test_unreadable_configuration(self):
        self.assertRefused(self.trainer(config=self.folder / "none.yaml"), "none.yaml")

    def test_missing_folder(self):
        self.assertRefused(self.trainer(digits=self.folder / "nowhere"), str(self.folder / "nowhere/train"))

    def test_empty_class(self):
        digits = self.copy_digits()
        victim = sorted((digits / "train").iterdir())[3]
        for file in victim.iterdir():
            file.unlink()
        self.assertRefused(self.trainer(digits=digits), f"class folder {victim.name} of {victim.parent}")

    def test_class_missing_in_validation(self):
        digits = self.copy_digits()
        shutil.rmtree(sorted((digits / "validation").iterdir())[3])
        self.assertRefused(self.trainer(digits=digits), "classes")

    def test_other_classes_in_validation(self):
        digits = self.copy_digits()
        victim = sorted((digits / "validation").iterdir())[3]
        victim.rename(victim.with_name("other"))
        self.assertRefused(self.trainer(digits=digits), "has other classes than data.train")

    def test_label_out_of_range(self):
        import numpy as np
        path = self.folder / "bad.npz"
        np.savez(path, images=np.zeros((20, 8, 8), np.uint8), labels=np.r_[np.arange(10), np.arange(1, 11)])
        done = run("trainer", "--config", SOURCE / "configs/digits_trades.yaml", "--nproc", 2, "data.format=npz",
                   f"data.train={path}", f"data.validation={path}", f"run.output={self.folder}/runs")
        self.assertRefused(done, str(path), "10")

    def test_architecture_that_does_not_fit(self):
        self.assertRefused(self.trainer("data.channels=3"), "digits_cnn")

    def test_missing_and_misfit_weights(self):
        self.assertRefused(self.trainer("model.initial_weights=none.pt"), "none.pt", "No such file")
        weights = SOURCE / "tests/golden/part_a/a_state0_cnn.pt"
        self.assertRefused(self.trainer(f"model.initial_weights={weights}"), "missing", "unexpected")

    def test_resume_must_find_a_checkpoint(self):
        out = self.folder / "none"
        self.assertRefused(self.trainer("--resume", "must", "--run-dir", out), str(out / "checkpoints"))
        self.assertFalse(out.exists())

    def test_damaged_resume_file(self):
        weights = SOURCE / "tests/golden/part_b/digits_weights.pt"
        self.assertRefused(self.trainer("--resume", weights), str(weights))

    def test_run_directory_in_use(self):
        import fcntl
        out = self.folder / "used"
        out.mkdir()
        with open(out / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = self.trainer("--run-dir", out)
        self.assertStatus(done, 2)
        self.assertIn("in use by another run", done.stderr)

    def test_supervision_options(self):
        self.assertRefused(self.trainer("--max-restarts", -1), "--max-restarts -1: expected 0 or a larger number")
        self.assertRefused(self.trainer("--hang-timeout", "5"), "--hang-timeout: expected a duration")
        self.assertRefused(self.trainer("--peer-grace", "abc"), "--peer-grace: expected a duration")
        self.assertRefused(self.trainer("--run-dir", ""), "--run-dir: expected a folder")
        self.assertRefused(self.trainer("--dry-run", "--launcher", "foreign"), "foreign")

    def test_more_processes_than_memory_can_hold(self):
        total = int(pathlib.Path("/proc/meminfo").read_text().split()[1]) / 2**20  # GiB
        if total > 600:
            self.skipTest("this machine could hold them")
        # 1024 times 25.6 million weights in double, with gradients and two moments: 780 GiB.
        done = self.trainer("model.architecture=resnet50", "model.small_images=true", "training.precision=fp64",
                            "optimizer.name=adamw", nproc=1024)
        self.assertRefused(done, "--nproc 1024: the processes need at least", "start at most")

    def test_unwritable_run_directory(self):
        blocker = self.folder / "file"
        blocker.write_text("")
        done = run("trainer", "--config", SOURCE / "configs/digits_trades.yaml", *self.digits_overrides(),
                   f"run.output={blocker}")
        self.assertStatus(done, 2)
        self.assertIn(str(blocker), done.stderr)

    def test_corrupt_image_is_named_and_ends_the_run(self):
        digits = self.copy_digits()
        victim = sorted((digits / "train").rglob("*.png"))[700]
        victim.write_bytes(victim.read_bytes()[:60])
        out = self.folder / "run"
        done = run("trainer", "--config", SOURCE / "configs/digits_trades.yaml", "--nproc", 2, "--run-dir", out,
                   *self.digits_overrides(digits))
        self.assertStatus(done, 1)
        self.assertIn(str(victim), done.stderr)
        self.assertIn("in phase data at update", done.stderr)
        self.assertIn(str(victim), (out / "failure.json").read_text())
        self.assertEqual(processes_with(str(self.folder)), [])

    def test_usage(self):
        self.assertEqual(run("trainer").returncode, 2)
        self.assertEqual(run("trainer", "--config", "x.yaml", "--no-such-option").returncode, 2)
        self.assertEqual(run("trainer", "--help").returncode, 0)
        version = run("trainer", "--version")
        self.assertEqual(version.returncode, 0)
        self.assertIn("libtorch 2.11.0", version.stdout)

    def test_evaluator(self):
        missing = run("evaluator", "--config", SOURCE / "configs/digits_trades.yaml", "--checkpoint",
                      self.folder / "none.pt", *self.digits_overrides())
        self.assertStatus(missing, 2)
        self.assertIn("none.pt", missing.stderr)
        unknown = run("evaluator", "--config", SOURCE / "configs/digits_trades.yaml", "--checkpoint",
                      SOURCE / "tests/golden/part_b/digits_weights.pt", "--attack", "nope", "--nproc", 2,
                      *self.digits_overrides())
        self.assertStatus(unknown, 2)
        self.assertEqual(len(unknown.stderr.strip().splitlines()), 1, unknown.stderr)


if __name__ == "__main__":
    unittest.main()
