"""Acceptance case 7 with the real programs: damaged, foreign and missing checkpoints, full disks, kills during saves."""
import contextlib
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
import torch

from support.programs import APPS, ProgramTest, clean_environment, metrics, start, wait_for, SOURCE

EDITOR = os.environ.get("TEMPER_TEST_PROGRAM", "")
# Three updates an epoch; momentum, a schedule and an average are part of the state.
SMALL = ["training.global_batch_size=430", "checkpoint.every=1ep", "validation.every=1ep", "validation.samples=20",
         "validation.attack.steps=1", "method.attack.steps=1", "training.weight_average.decay=0.9", "logging.every=1up"]


def state(path):
    return torch.load(path, weights_only=True)


def flatten(value, prefix=""):
    if isinstance(value, dict):
        return {k: v for name, part in value.items() for k, v in flatten(part, f"{prefix}{name}/").items()}
    return {prefix: value}


def temporaries(folder):
    return [path for path in pathlib.Path(folder).rglob(".*") if path.name.endswith(".tmp")]


class Checkpoints(ProgramTest):
    per_epoch = 3

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.original = cls.root / "original"
        case = cls("run_the_original")
        case.folder = cls.root
        case.assertStatus(case.go_on(cls.original, 2 * cls.per_epoch), 0)
        case.assertEqual(sorted(path.name for path in (cls.original / "checkpoints").iterdir()),
                         ["best.pt", "epoch-0001.pt", "epoch-0002.pt", "last.pt"])

    def run_the_original(self):
        """The name that setUpClass needs for an instance."""

    def arguments(self, run_dir, updates, *more, launcher="none", nproc=1):
        return ["--config", SOURCE / "configs/digits_trades.yaml", "--launcher", launcher, "--nproc", nproc, "--cpus", nproc,
                "--run-dir", run_dir, *SMALL, f"training.max_updates={updates}", *self.digits_overrides(), *more]

    def go_on(self, run_dir, updates, *more, limit_file_size=None, environment=None, **how):
        before = (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit_file_size, resource.RLIM_INFINITY))) \
            if limit_file_size else None
        command = [str(APPS / "trainer"), *map(str, self.arguments(run_dir, updates, *more, **how))]
        return subprocess.run(command, cwd=SOURCE, text=True, timeout=120, capture_output=True,
                              env=clean_environment(**(environment or {})), preexec_fn=before)

    def copy(self, name="run"):
        shutil.copytree(self.original, self.folder / name)
        return self.folder / name

    def edit(self, *arguments):
        done = subprocess.run([EDITOR, *map(str, arguments)], text=True, timeout=60, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def assertSame(self, first, second, parts=("model", "average", "optimizer", "method")):
        for part in parts:
            x, y = flatten(first[part]), flatten(second[part])
            self.assertEqual(list(x), list(y))
            for key in x:
                self.assertTrue(torch.equal(x[key], y[key]), f"{part}/{key} differs")

    def test_each_of_64_flipped_bytes_and_200_lengths(self):
        last = self.copy() / "checkpoints/last.pt"
        self.assertRegex(self.edit("flips", last, 64), r"\d+ of 64 found")
        self.edit("cuts", last, 200)

    def assertGoesOnFromAnother(self, run, reason):
        """last.pt is passed over with its reason, and the state is that of the newest other file, whole."""
        folder = run / "checkpoints"
        others = [path for path in folder.glob("*.pt") if path.name != "last.pt"]
        newest = max(others, key=lambda path: state(path)["progress"]["samples"])
        expected = state(newest)
        update = expected["progress"]["update"]
        done = self.go_on(run, update)  # nothing but taking up and saving
        if reason is not None:
            self.assertIn(f"checkpoint {folder}/last.pt is not used: ", done.stderr)
            self.assertRegex(done.stderr, reason)
        self.assertIn(f"resumed from update {update}", done.stdout)
        return done, expected

    def test_damaged_newest_is_passed_over_and_named(self):
        def truncate(last):
            last.write_bytes(last.read_bytes()[:5000])

        def make_pipe(last):
            last.unlink()
            os.mkfifo(last)

        def dangle(last):
            last.unlink()
            last.symlink_to("nowhere.pt")

        def loop(last):
            last.unlink()
            last.symlink_to("last.pt")

        def lock(last):
            last.chmod(0)

        cases = {
            "deleted": (lambda last: last.unlink(), None),
            "truncated": (truncate, "the end of the archive is missing: the file is truncated or damaged"),
            "empty": (lambda last: last.write_bytes(b""), "it is empty"),
            "pipe": (make_pipe, "it is not a regular file"),
            "dangling": (dangle, "No such file or directory"),
            "loop": (loop, "Too many levels of symbolic links"),
            "no_optimizer": (lambda last: self.edit("drop", last, "optimizer"), "the entry 'optimizer' is missing"),
            "no_update": (lambda last: self.edit("drop", last, "progress/update"), "the entry 'update' is missing"),
        }
        if os.geteuid() != 0:
            cases["unreadable"] = (lock, "Permission denied")
        for name, (damage, reason) in cases.items():
            with self.subTest(name):
                run = self.copy(name)
                (run / "checkpoints/best.pt").unlink()
                damage(run / "checkpoints/last.pt")
                done, expected = self.assertGoesOnFromAnother(run, reason)
                self.assertStatus(done, 0)
                self.assertSame(state(run / "checkpoints/last.pt"), expected)

    def test_folder_in_place_of_the_newest(self):
        run = self.copy()
        (run / "checkpoints/last.pt").unlink()
        (run / "checkpoints/last.pt").mkdir()
        done, _ = self.assertGoesOnFromAnother(run, "it is not a regular file")
        self.assertStatus(done, 1)  # it is in the way of the next one
        self.assertIn(f"{run}/checkpoints/last.pt: Is a directory", done.stderr)

    def test_dry_run_says_what_it_would_go_on_from(self):
        run = self.copy()
        folder = run / "checkpoints"
        self.assertIn(f"resume: from update {2 * self.per_epoch}, {folder}/last.pt", self.go_on(run, 10, "--dry-run").stdout)
        for name in ("last.pt", "best.pt"):
            (folder / name).write_bytes(b"")
        text = self.go_on(run, 10, "--dry-run").stdout
        self.assertIn(f"resume: {folder}/last.pt is not used: ", text)
        self.assertIn(f"resume: from update {2 * self.per_epoch}, {folder}/epoch-0002.pt", text)
        self.assertIn("resume: starts anew", self.go_on(run, 10, "--dry-run", "--resume", "never").stdout)
        self.assertIn("resume: starts anew", self.go_on(self.folder / "new", 10, "--dry-run").stdout)
        self.assertIn("resume: not possible now: --resume must", self.go_on(self.folder / "new", 10, "--dry-run",
                                                                             "--resume", "must").stdout)
        self.assertFalse((self.folder / "new").exists())

    def test_nothing_in_a_file_is_run(self):
        marker = self.folder / "marker"

        class Evil:
            def __reduce__(self):
                return os.system, (f"touch {marker}",)

        run, evil = self.copy(), self.folder / "evil.pt"
        torch.save({"model": Evil()}, evil)
        self.assertRaisesRegex(Exception, "Weights only load failed", state, evil)
        shutil.copy(evil, run / "checkpoints/last.pt")
        self.assertIn("last.pt is not used: ", self.go_on(run, 2 * self.per_epoch).stderr)
        refusals = [self.go_on(self.folder / "new", 1, "--resume", evil),
                    self.go_on(self.folder / "new", 1, f"model.initial_weights={evil}")]
        for done in refusals:
            self.assertStatus(done, 2)
            self.assertIn("evil.pt", done.stderr)
        self.assertIn("'posix.system', which is not read for safety", refusals[1].stderr)
        self.assertFalse(marker.exists())

    def test_damaged_second_newest_too(self):
        run = self.copy()
        folder = run / "checkpoints"
        for name in ("last.pt", "best.pt", "epoch-0002.pt"):
            (folder / name).write_bytes((folder / name).read_bytes()[:-30])
        done = self.go_on(run, self.per_epoch)
        self.assertStatus(done, 0)
        self.assertIn(f"resumed from update {self.per_epoch}", done.stdout)
        for name in ("last.pt", "best.pt", "epoch-0002.pt"):
            self.assertIn(f"checkpoint {folder}/{name} is not used: ", done.stderr)
        self.assertSame(state(folder / "last.pt"), state(self.original / "checkpoints/epoch-0001.pt"))

    def test_older_file_where_only_later_epochs_would_be_kept(self):
        run = self.copy()
        folder = run / "checkpoints"
        (folder / "epoch-0001.pt").replace(folder / "best.pt")
        for name in ("last.pt", "epoch-0002.pt"):
            os.truncate(folder / name, 5000)
        done = self.go_on(run, 3 * self.per_epoch, "checkpoint.keep=1")
        self.assertStatus(done, 0)
        self.assertIn(f"resumed from update {self.per_epoch}", done.stdout)
        self.assertEqual([path.name for path in folder.glob("epoch-*")], ["epoch-0003.pt"])

    def test_named_file_is_kept(self):
        run = self.copy()
        folder = run / "checkpoints"
        for _ in range(2):  # the same command works again
            done = self.go_on(run, 3 * self.per_epoch, "checkpoint.keep=1", "--resume", folder / "epoch-0001.pt")
            self.assertStatus(done, 0)
            self.assertIn(f"resumed from update {self.per_epoch}", done.stdout)
            self.assertEqual(sorted(path.name for path in folder.glob("epoch-*")), ["epoch-0001.pt", "epoch-0003.pt"])

    def test_link_to_a_checkpoint_elsewhere(self):
        run = self.copy()
        last, kept = run / "checkpoints/last.pt", self.folder / "kept.pt"
        last.rename(kept)
        content = kept.read_bytes()
        last.symlink_to(kept)
        done = self.go_on(run, 2 * self.per_epoch + 1)
        self.assertStatus(done, 0)
        self.assertIn(f"resumed from update {2 * self.per_epoch}", done.stdout)
        self.assertFalse(last.is_symlink())
        self.assertEqual(kept.read_bytes(), content)

    def test_what_does_not_fit_is_refused_and_left_alone(self):
        few = self.root / "few"
        for split in ("train", "validation", "test"):
            for label in "01234":
                shutil.copytree(self.digits / split / label, few / split / label, dirs_exist_ok=True)
        others = [f"data.{split}={few}/{split}" for split in ("train", "validation", "test")]
        cases = {
            "format": (["set", "format_version", 2], [], "last.pt has format version 2, this program reads version 1"),
            "missing": (["drop", "model/fc2.bias"], [], r"1 missing: fc2\.bias"),
            "extra": (["add", "model/fc9.bias"], [], r"1 unexpected: fc9\.bias"),
            "shape": (["reshape", "model/fc2.bias"], [], r"1 of another shape: fc2\.bias \[11\] instead of \[10\]"),
            "momentum": (["reshape", "optimizer/momentum/fc2.bias"], [], r"another shape for momentum/fc2\.bias"),
            "momenta": (["drop", "optimizer/momentum/fc2.bias"], [], r"the optimizer state holds \d+ tensors"),
            "average": (["reshape", "average/fc2.bias"], [], r"fc2\.bias"),
            "architecture": (None, ["model.architecture=resnet18", "model.small_images=true"], "the weights do not fit the model"),
            "classes": (None, ["data.classes=5", "--allow-change", "data", *others],
                        r"of another shape: .*\[10\] instead of \[5\]"),
        }
        for name, (change, more, reason) in cases.items():
            with self.subTest(name):
                run = self.copy(name)
                if change:
                    self.edit(change[0], run / "checkpoints/last.pt", *change[1:])
                before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
                done = self.go_on(run, 30, *more, launcher="auto")  # which looks before it starts ranks
                self.assertStatus(done, 2)
                self.assertRegex(done.stderr, reason)
                self.assertEqual(len(re.findall(reason, done.stderr)), 1, done.stderr)
                for path, content in before.items():
                    self.assertEqual(path.read_bytes(), content, path)

    def test_another_world_size_is_allowed(self):
        run = self.copy()
        done = self.go_on(run, 2 * self.per_epoch + 1, launcher="auto", nproc=2)
        self.assertStatus(done, 0)
        self.assertIn(f"resumed from update {2 * self.per_epoch}", done.stdout)
        self.assertIn("world size 2", done.stdout)

    def test_two_runs_at_once(self):
        run = self.folder / "run"
        first = start("trainer", *self.arguments(run, 1000000, "training.epochs=1000000", "validation.every=0ep"))
        wait_for(lambda: (run / "checkpoints/last.pt").exists(), "the first checkpoint")
        second = self.go_on(run, 3)
        self.assertStatus(second, 2)
        self.assertIn("is in use by another run", second.stderr)
        for _ in range(20):  # a reader beside the writer sees whole files only
            state(run / "checkpoints/last.pt")
        first.send_signal(signal.SIGTERM)
        output = first.communicate(timeout=60)
        self.assertEqual(first.returncode, 75, output)

    def test_killed_again_and_again_during_saves(self):
        run = self.folder / "run"
        last = run / "checkpoints/last.pt"
        randoms = random.Random(5)
        update = 0
        for kill in range(6):
            process = start("trainer", *self.arguments(run, 1000000, "training.epochs=1000000", "validation.every=0ep",
                                                       "checkpoint.every=1up"))
            wait_for(lambda: last.exists() and state(last)["progress"]["update"] > update, "a checkpoint of this attempt")
            time.sleep(randoms.random() * 0.05)  # saves fill most of the time
            process.kill()
            process.communicate(timeout=60)
            saved = state(last)["progress"]["update"]
            self.assertGreater(saved, update, f"kill {kill}")
            update = saved
        done = self.go_on(run, update)
        self.assertStatus(done, 0)
        self.assertIn(f"resumed from update {update}", done.stdout)
        self.assertNotIn("is not used", done.stderr)
        self.assertEqual(temporaries(run), [])
        updates = [line["update"] for line in metrics(run, "train")]
        self.assertEqual(updates, list(range(1, update + 1)))

    @contextlib.contextmanager
    def small_disk(self, folder, size):
        folder.mkdir(parents=True, exist_ok=True)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)],
                                 capture_output=True, text=True)
        if mounted.returncode != 0:
            self.skipTest(f"cannot mount a small disk: {mounted.stderr.strip()}")
        try:
            yield
        finally:
            subprocess.run(["umount", "-l", str(folder)], check=True)

    def test_full_disk_keeps_the_old_checkpoint_and_the_run_goes_on_with_more_room(self):
        size = (self.original / "checkpoints/last.pt").stat().st_size
        run = self.folder / "run"
        # Room for best.pt, epoch-0001.pt and last.pt, but not for a fourth file.
        with self.small_disk(run / "checkpoints", size * 35 // 10):
            done = self.go_on(run, 2 * self.per_epoch)
            self.assertStatus(done, 1)
            self.assertIn("the checkpoints will not fit: ", done.stderr)
            self.assertRegex(done.stderr, rf"the checkpoint at update {2 * self.per_epoch} could not be saved: cannot "
                                          rf"write {run}/checkpoints/(best|epoch-0002)\.pt, which takes \d+\.\d MiB where "
                                          r"\d+\.\d MiB are free; the files of before are kept, .*: No space left on device")
            kept = sorted(path.name for path in (run / "checkpoints").iterdir())
            self.assertEqual(kept, ["best.pt", "epoch-0001.pt", "last.pt"])
            self.assertSame(state(run / "checkpoints/last.pt"), state(self.original / "checkpoints/epoch-0001.pt"))
            subprocess.run(["mount", "-o", f"remount,size={10 * size}", str(run / "checkpoints")], check=True)
            again = self.go_on(run, 2 * self.per_epoch)
            self.assertStatus(again, 0)
            self.assertIn(f"resumed from update {self.per_epoch}", again.stdout)
            self.assertNotIn("will not fit", again.stderr)
            self.assertSame(state(run / "checkpoints/last.pt"), state(self.original / "checkpoints/last.pt"))

    def test_full_disk_for_the_whole_run_directory(self):
        run = self.folder / "run"
        with self.small_disk(run, 64 << 10):
            done = self.go_on(run, 2 * self.per_epoch, launcher="auto")
            self.assertStatus(done, 1)
            self.assertIn("No space left on device", done.stderr)
            self.assertEqual(temporaries(run), [])

    def test_file_size_limit_keeps_the_old_checkpoint(self):
        run = self.copy()
        before = {path.name: path.read_bytes() for path in (run / "checkpoints").iterdir()}
        size = (run / "checkpoints/last.pt").stat().st_size
        done = self.go_on(run, 3 * self.per_epoch, limit_file_size=size - 1000)
        self.assertStatus(done, 1)
        self.assertRegex(done.stderr, r"cannot write \S+/checkpoints/(best|epoch-000[23])\.pt, .*: File too large")
        after = {path.name: path.read_bytes() for path in (run / "checkpoints").iterdir()}
        self.assertEqual(before, after)

    def test_new_start_keeps_the_old_run(self):
        run = self.copy()
        before = {path.relative_to(run): path.read_bytes() for path in run.rglob("*") if path.is_file()}
        for number in (1, 2):
            done = self.go_on(run, self.per_epoch, "--resume", "never")
            self.assertStatus(done, 0)
            self.assertEqual(done.stderr.count("--resume never: what an earlier run left in"), 1, done.stderr)
            self.assertIn(f"metrics.{number}.jsonl", done.stderr)
        for name in ("metrics.jsonl", "epochs.csv", "checkpoints/last.pt", "checkpoints/epoch-0002.pt"):
            path = pathlib.Path(name)
            kept = path.with_suffix(f".1{path.suffix}") if path.parent == pathlib.Path(".") \
                else pathlib.Path("checkpoints.1") / path.name
            self.assertEqual((run / kept).read_bytes(), before[path], name)
        self.assertFalse((run / "checkpoints/epoch-0002.pt").exists())

    def start_in_job(self, run_dir, requeues, updates, *more):
        return self.go_on(run_dir, updates, *more, launcher="auto",
                          environment={"SLURM_JOB_ID": 77, "SLURM_RESTART_COUNT": requeues})

    def test_requeued_job_goes_on_from_its_own_checkpoint(self):
        run = self.copy()
        # What lies there is another run's, also where the job was requeued before it came so far.
        for requeues, updates, start in [(1, self.per_epoch, "world size 1"), (2, self.per_epoch + 1, "resumed from update 3")]:
            done = self.start_in_job(run, requeues, updates, "--resume", "never")
            self.assertStatus(done, 0)
            self.assertIn(start, done.stdout)
        self.assertEqual([line["update"] for line in metrics(run, "train")], [1, 2, 3, 4])
        self.assertTrue((run / "checkpoints.1").exists())
        self.assertFalse((run / "checkpoints.2").exists())

    def test_requeued_job_does_not_begin_at_the_named_file_again(self):
        run = self.copy()
        named = ["--resume", run / "checkpoints/epoch-0001.pt", "checkpoint.every=0ep", "validation.every=0ep"]
        failed = self.start_in_job(run, 0, 10, *named, "optimizer.learning_rate=1e30", "training.on_nonfinite=abort")
        self.assertStatus(failed, 1)  # before it has saved anything
        for requeues, updates, start in [(1, 5, 3), (2, 6, 5)]:  # not the old last.pt of update 6
            done = self.start_in_job(run, requeues, updates, *named)
            self.assertStatus(done, 0)
            self.assertIn(f"resumed from update {start}", done.stdout)


if __name__ == "__main__":
    unittest.main()
