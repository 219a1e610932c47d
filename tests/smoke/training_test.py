"""A short training by two processes writes all artefacts, and a run is repeatable bit by bit."""
import json
import os
import re
import signal
import sys
import unittest

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
import torch

from support.programs import ProgramTest, metrics, rank_pids, run, start, wait_for, SOURCE

SHORT = ["training.max_updates=24", "checkpoint.every=5up", "validation.every=1ep", "logging.every=4up"]

# A long validation after update 12 leaves time to interrupt the run before its end.
SLOW = ["training.max_updates=24", "checkpoint.every=5up", "validation.every=12up", "validation.attack.steps=400",
        "logging.every=4up"]


def weights(run_dir):
    return torch.load(run_dir / "checkpoints/last.pt", weights_only=True)


def flatten(value, prefix=""):
    if isinstance(value, dict):
        return {k: v for name, part in value.items() for k, v in flatten(part, f"{prefix}{name}/").items()}
    return {prefix: value}


class Training(ProgramTest):
    def assertSameState(self, first, second):
        a, b = weights(first), weights(second)
        for part in ("model", "optimizer", "progress"):
            x, y = flatten(a[part]), flatten(b[part])
            self.assertEqual(list(x), list(y))
            for key in x:
                equal = torch.equal(x[key], y[key]) if torch.is_tensor(x[key]) else x[key] == y[key]
                self.assertTrue(equal, f"{part}/{key} differs")

    def test_writes_all_artefacts(self):
        out = self.folder / "run"
        done = self.train(out, *SHORT)
        self.assertStatus(done, 0)
        self.assertRegex(done.stdout, r"world size 2 \(launcher: spawn\)")
        self.assertRegex(done.stdout, r"finished: epoch \d+, clean accuracy [\d.]+ %, robust accuracy [\d.]+ %")
        for name in ("config.yaml", "run.json", "metrics.jsonl", "epochs.csv", "status.json", "report.html",
                     "checkpoints/last.pt", "checkpoints/best.pt", "logs/attempt-1/rank-0.log",
                     "logs/attempt-1/rank-1.log"):
            self.assertTrue((out / name).is_file(), name)
        self.assertEqual(json.loads((out / "status.json").read_text())["state"], "finished")
        train = metrics(out, "train")
        self.assertEqual(train[-1]["update"], 24)
        for field in ("epoch", "update", "samples", "loss", "clean_loss", "robust_loss", "clean_accuracy",
                      "adversarial_accuracy", "learning_rate", "gradient_norm", "images_per_second",
                      "peak_memory_bytes"):
            self.assertIsInstance(train[0][field], (int, float), field)
        self.assertEqual(set(train[0]["seconds"]), {"data", "attack", "forward_backward", "communication", "optimizer"})
        validation = metrics(out, "validation")
        self.assertEqual(validation[-1]["samples"], 180)
        self.assertLessEqual(validation[-1]["robust_correct"], validation[-1]["clean_correct"])
        # The saved configuration starts the same run again.
        again = run("trainer", "--config", out / "config.yaml", "--dry-run")
        self.assertStatus(again, 0)

    def test_same_run_twice_and_with_other_loader_threads(self):
        for name, workers in (("first", 1), ("again", 1), ("two", 2), ("four", 4)):
            self.assertStatus(self.train(self.folder / name, *SHORT, f"data.workers={workers}"), 0)
        for name in ("again", "two", "four"):
            self.assertSameState(self.folder / "first", self.folder / name)

    def test_killed_in_mid_epoch_and_resumed(self):
        whole, broken = self.folder / "whole", self.folder / "broken"
        self.assertStatus(self.train(whole, *SLOW), 0)
        arguments = ["--config", SOURCE / "configs/digits_trades.yaml", "--nproc", 2, "--run-dir", broken, *SLOW,
                     *self.digits_overrides()]
        process = start("trainer", *arguments)
        log = broken / "metrics.jsonl"
        wait_for(lambda: log.exists() and any(line["update"] >= 12 for line in metrics_so_far(log)), "update 12")
        for pid in rank_pids(str(broken)).values():
            os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 137)
        resumed = run("trainer", *arguments)
        self.assertStatus(resumed, 0)
        update = int(re.search(r"resumed from update (\d+)", resumed.stdout).group(1))
        self.assertGreaterEqual(update, 5)
        self.assertSameState(whole, broken)
        updates = [line["update"] for line in metrics(broken, "train")]
        self.assertEqual(updates, sorted(set(updates)), "a resumed run repeats no record")

    def test_stop_signal_saves_and_the_same_command_goes_on(self):
        whole, stopped = self.folder / "whole", self.folder / "stopped"
        self.assertStatus(self.train(whole, *SLOW), 0)
        arguments = ["--config", SOURCE / "configs/digits_trades.yaml", "--nproc", 2, "--run-dir", stopped, *SLOW,
                     *self.digits_overrides()]
        process = start("trainer", *arguments)
        log = stopped / "metrics.jsonl"
        wait_for(lambda: log.exists() and any(line["update"] >= 12 for line in metrics_so_far(log)), "update 12")
        process.send_signal(signal.SIGTERM)
        output = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75, output)
        self.assertStatus(run("trainer", *arguments), 0)
        self.assertSameState(whole, stopped)


    def test_end_of_time_saves(self):
        out = self.folder / "time"
        done = self.train(out, "training.epochs=100000", "training.max_time=3s", "validation.every=0ep",
                          "checkpoint.every=0ep")
        self.assertStatus(done, 124)
        saved = weights(out)["progress"]["update"]
        self.assertGreater(saved, 0)
        self.assertIn(f"stopped after update {saved}", done.stdout)

    def test_smoke_option_takes_all_paths_in_two_updates(self):
        out = self.folder / "smoke"
        done = self.train(out, "--smoke")
        self.assertStatus(done, 0)
        self.assertEqual(metrics(out, "train")[-1]["update"], 2)
        self.assertEqual(metrics(out, "validation")[-1]["samples"], 64)
        self.assertTrue((out / "report.html").is_file())

    def test_one_process_without_a_launcher(self):
        one, other = self.folder / "none", self.folder / "spawned"
        self.assertStatus(self.train(one, *SHORT, "--launcher", "none", "--cpus", 1), 0)
        self.assertStatus(self.train(other, *SHORT, "--cpus", 1, nproc=1), 0)
        self.assertSameState(one, other)

    def test_a_diverging_run_ends_with_advice(self):
        done = self.train(self.folder / "diverged", "optimizer.learning_rate=1e30", "schedule.warmup=0ep")
        self.assertStatus(done, 1)
        self.assertIn("training.max_skipped", done.stderr)
        self.assertNotIn("rank 1 error", done.stderr)  # a decision of all ranks has one voice
        self.assertIn("rank 0 (pid", done.stderr)
        events = [event["what"] for event in metrics(self.folder / "diverged", "event")]
        self.assertEqual(events.count("skipped_update"), 11)

    def test_refused_resume_leaves_the_old_files(self):
        out = self.folder / "run"
        self.assertStatus(self.train(out, "training.max_updates=3"), 0)
        before = {name: (out / name).read_bytes() for name in ("config.yaml", "run.json", "metrics.jsonl")}
        refused = self.train(out, "training.max_updates=6", "optimizer.name=adamw")
        self.assertStatus(refused, 2)
        self.assertEqual(refused.stderr.count("saved with another optimizer or model"), 1, refused.stderr)
        for name, content in before.items():
            self.assertEqual((out / name).read_bytes(), content, name)

    def test_stop_in_the_last_validation_counts_nothing(self):
        out = self.folder / "run"
        short = ["training.max_updates=3", "validation.every=3up", "logging.every=1up", "checkpoint.every=3up"]
        arguments = ["--config", SOURCE / "configs/digits_trades.yaml", "--nproc", 2, "--run-dir", out, *short,
                     *self.digits_overrides()]
        process = start("trainer", *arguments, "validation.attack.steps=60000")
        log = out / "metrics.jsonl"
        wait_for(lambda: log.exists() and any(line["update"] == 3 for line in metrics_so_far(log)), "update 3")
        process.send_signal(signal.SIGTERM)
        output = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75, output)
        self.assertEqual(metrics(out, "validation"), [])
        self.assertStatus(run("trainer", *arguments), 0)
        self.assertEqual(len(metrics(out, "validation")), 1)

    def test_resume_refuses_what_changes_the_samples_unless_it_is_allowed_by_name(self):
        out = self.folder / "run"
        self.assertStatus(self.train(out, "training.max_updates=3"), 0)
        refused = self.train(out, "training.max_updates=6", "training.global_batch_size=64", "run.seed=5")
        self.assertStatus(refused, 2)
        self.assertIn("made with run.seed 0, now it is 5", refused.stderr)
        self.assertIn("made with a global batch size of 128, now it is 64", refused.stderr)
        self.assertIn("--allow-change run.seed --allow-change training.global_batch_size", refused.stderr)
        self.assertEqual(refused.stderr.count("does not fit"), 1, refused.stderr)  # not once a rank
        half = self.train(out, "training.global_batch_size=64", "run.seed=5", "--allow-change", "run.seed")
        self.assertStatus(half, 2)
        self.assertNotIn("made with run.seed", half.stderr)
        unknown = self.train(out, "--allow-change", "run.sed")
        self.assertStatus(unknown, 2)
        self.assertIn("did you mean 'run.seed'?", unknown.stderr)

    def test_resume_goes_on_with_allowed_and_harmless_changes_and_lists_them(self):
        out = self.folder / "run"
        self.assertStatus(self.train(out, "training.max_updates=3"), 0)
        # 3 updates of 128 samples are 6 of 64.
        again = self.train(out, "training.max_updates=8", "training.global_batch_size=64", "optimizer.learning_rate=0.05",
                           "--allow-change", "training.global_batch_size")
        self.assertStatus(again, 0)
        for change in ("training.max_updates: 3 -> 8", "training.global_batch_size: 128 -> 64",
                       "optimizer.learning_rate: 0.1 -> 0.05"):
            self.assertIn(change, again.stderr)
        self.assertIn("resumed from update 6", again.stdout)
        last = metrics(out, "train")[-1]
        self.assertEqual((last["update"], last["samples"]), (8, 3 * 128 + 2 * 64))


    def test_damaged_checkpoints_alone_are_not_written_over(self):
        out = self.folder / "run"
        self.assertStatus(self.train(out, "training.max_updates=3"), 0)
        files = sorted((out / "checkpoints").glob("*.pt"))
        for file in files:
            file.write_bytes(file.read_bytes()[:1000])
        refused = self.train(out, "training.max_updates=6")
        self.assertStatus(refused, 2)
        self.assertIn("give --resume never", refused.stderr)
        for file in files:
            self.assertIn(str(file), refused.stderr)
            self.assertEqual(file.stat().st_size, 1000)
        self.assertStatus(self.train(out, "training.max_updates=3", "--resume", "never"), 0)

    def test_run_directory_that_is_a_file(self):
        for name in ("file", "file/below"):
            (self.folder / "file").write_text("no folder")
            refused = self.train(self.folder / name, "training.max_updates=3")
            self.assertStatus(refused, 2)
            self.assertIn("--run-dir must be a folder", refused.stderr)

    def test_weights_that_are_no_numbers_are_refused(self):
        import torch
        weights = torch.load(SOURCE / "tests/golden/part_b/digits_weights.pt", weights_only=True)
        for name, value in (("fc2.bias", float("nan")), ("bn1.running_var", -1.0)):
            broken = {key: tensor.clone() for key, tensor in weights.items()}
            broken[name][0] = value
            torch.save(broken, self.folder / "broken.pt")
            refused = self.train(self.folder / "run", f"model.initial_weights={self.folder}/broken.pt")
            self.assertStatus(refused, 2)
            self.assertEqual(refused.stderr.count(name), 1, refused.stderr)

    def test_each_epoch_has_a_record(self):
        out = self.folder / "run"
        self.assertStatus(self.train(out, "training.epochs=3", "validation.every=0ep", "logging.every=7up"), 0)
        self.assertEqual([line["update"] for line in metrics(out, "train")], [7, 10, 14, 20, 21, 28, 30])

    def test_warns_once_of_a_network_that_learns_nothing(self):
        from PIL import Image
        for split in ("train", "validation"):
            for label in ("a", "b", "c"):
                (self.folder / split / label).mkdir(parents=True)
                for i in range(10):
                    Image.new("L", (8, 8), 100).save(self.folder / split / label / f"{i}.png")
        out = self.folder / "run"
        done = run("trainer", "--config", SOURCE / "configs/digits_standard.yaml", "--nproc", 2, "--run-dir", out,
                   f"data.train={self.folder}/train", f"data.validation={self.folder}/validation", "data.test=null",
                   "data.classes=3", "training.global_batch_size=30", "training.epochs=100", "validation.every=0ep",
                   "checkpoint.every=0ep")
        self.assertStatus(done, 0)
        warnings = [event["warning"] for event in metrics(out, "event") if event["what"] == "warning"]
        self.assertEqual(sorted(warnings), ["constant_predictions", "loss_at_chance"])
        self.assertEqual(done.stderr.count("; ln(3) = 1.0986"), 1)
        self.assertEqual(done.stderr.count("try another learning rate"), 2)


def metrics_so_far(path):
    lines = path.read_text().split("\n")[:-1]
    return [json.loads(line) for line in lines]


if __name__ == "__main__":
    unittest.main()
