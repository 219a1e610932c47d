"""Every training method from outside, and what the trainer does about overfitting."""
import sys
import unittest

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
from support.programs import ProgramTest, SOURCE, metrics, run

METHODS = {"standard": [], "pgd_at": [], "mixed": [], "trades": [], "mart": [], "fgsm_rs": [], "n_fgsm": [], "free": ["method.replays=3"],
           "apgd_at": []}


class Methods(ProgramTest):
    def trainer(self, name, *arguments, processes=2):
        return run("trainer", "--config", SOURCE / "configs/base/digits.yaml", "--nproc", processes, "--run-dir",
                   self.folder / name, *self.digits_overrides(), "logging.every=1up", *arguments)

    def test_each_one_trains(self):
        for name, arguments in METHODS.items():
            perturbed = ["method.weight_perturbation={gamma: 0.01, start_epoch: 0}"] if name in ("pgd_at", "trades", "mart") else []
            done = self.trainer(name, f"method.name={name}", "training.epochs=1", "validation.samples=20",
                                "data.memory_limit=256MiB", *arguments, *perturbed)
            self.assertStatus(done, 0)
            records = metrics(self.folder / name, "train")
            self.assertEqual(len(records), 30 if name == "free" else 10)
            self.assertLess(records[-1]["loss"], 3 * records[0]["loss"])
            self.assertEqual(records[-1]["samples"], 1257)

    def test_catastrophic_overfitting_is_found_and_taken_back_and_no_progress_ends_the_training(self):
        arguments = ["method.name=fgsm_rs", "method.attack.step_size=0.9", "training.epochs=4", "validation.every=1ep",
                     "validation.patience=1",
                     "method.overfitting_check={every: 1ep, samples: 200, fall: 0.01, action: roll_back}"]
        self.assertStatus(self.trainer("whole", *arguments), 0)
        events = {event["what"]: event for event in metrics(self.folder / "whole", "event")}
        self.assertEqual((events["rolled_back"]["update"], events["rolled_back"]["steps_factor"]), (30, 2))
        self.assertEqual(events["early_stop"]["update"], 30)
        # The same after a stop in between: the state to go back to lies in the checkpoint.
        for end in ("25", "30"):
            self.assertStatus(self.trainer("parts", *arguments, "validation.patience=null", f"training.max_updates={end}"), 0)
        again = {event["what"]: event for event in metrics(self.folder / "parts", "event")}
        self.assertEqual(again["rolled_back"]["update"], 30)
        checks = [[(event["update"], event["robust_training_accuracy"]) for event in metrics(self.folder / name, "event")
                   if event["what"] == "overfitting_check"] for name in ("whole", "parts")]
        self.assertEqual(checks[0], checks[1])

    def test_another_method_goes_on_without_the_state_of_the_old_one(self):
        free = ["method.name=free", "method.replays=3", "training.epochs=2", "validation.samples=20"]
        for processes in (1, 2):
            name = f"changed{processes}"
            self.assertStatus(self.trainer(name, *free, "training.max_updates=7", processes=processes), 0)
            done = self.trainer(name, "method.name=trades", "training.epochs=2", "validation.samples=20", processes=processes)
            self.assertStatus(done, 0)
            self.assertIn("what the checkpoint holds of the other method's state is left out", done.stdout + done.stderr)

    def test_the_dry_run_counts_what_a_method_keeps(self):
        keys = ["--dry-run", "method.name=pgd_at", "method.weight_perturbation={gamma: 0.01, start_epoch: 0}",
                "training.weight_average={decay: 0.9}", "method.overfitting_check={action: roll_back}"]
        plain, whole = self.trainer("none", "--dry-run").stdout, self.trainer("none", *keys).stdout
        for row in ("  average ", "  AWP, in a step ", "  roll back "):
            self.assertIn(row, whole)
            self.assertNotIn(row, plain)


if __name__ == "__main__":
    unittest.main()
