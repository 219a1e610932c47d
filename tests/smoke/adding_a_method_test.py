"""The example of docs/adding-a-method.md: a trainer with a method from outside of the library."""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
from support.programs import APPS, LIMIT, ProgramTest, clean_environment, metrics, run, SOURCE

PROGRAM = os.environ["TEMPER_TEST_PROGRAM"]
FOLDER = SOURCE / "docs/examples/adding_a_method"
CONFIG = FOLDER / "digits_alp.yaml"


class AddingAMethod(ProgramTest):
    def alp(self, *arguments):
        return subprocess.run([PROGRAM, *map(str, arguments)], text=True, capture_output=True, timeout=LIMIT,
                              env=clean_environment())

    def epoch(self, processes):
        out = self.folder / f"alp-{processes}"
        self.assertStatus(self.alp("--config", CONFIG, "--nproc", processes, "--run-dir", out, "training.epochs=1",
                                   "schedule.warmup=0ep", "logging.every=1up", *self.digits_overrides()), 0)
        return metrics(out, "train")

    def test_an_epoch_on_one_and_two_processes(self):
        one, two = self.epoch(1), self.epoch(2)
        self.assertGreater(len(one), 5)
        self.assertEqual(len(one), len(two))
        for alone, together in zip(one[:3], two[:3]):
            self.assertAlmostEqual(alone["loss"], together["loss"], delta=2e-3 * alone["loss"])
        self.assertLess(one[-1]["clean_loss"], one[0]["clean_loss"])

    def first_update(self, name, *arguments):
        out = self.folder / name
        self.assertStatus(self.alp("--config", CONFIG, "--nproc", 1, "--run-dir", out, "training.max_updates=1",
                                   "logging.every=1up", *arguments, *self.digits_overrides()), 0)
        return metrics(out, "train")[0]

    def test_the_loss_is_that_of_the_page(self):
        pairing, without = self.first_update("1", "method.beta=1"), self.first_update("0", "method.beta=0")
        distance = without["robust_loss"]
        self.assertGreater(distance, 1e-3)
        self.assertAlmostEqual(pairing["loss"] - without["loss"], distance, delta=1e-5)
        self.assertGreater(without["loss"], without["clean_loss"])  # the attack adds to its half
        at_the_image = self.first_update("clean", "threat_model.epsilon=0")
        self.assertAlmostEqual(at_the_image["loss"], at_the_image["clean_loss"], delta=1e-6)

    def test_a_slip_is_met_with_the_names_of_this_program(self):
        done = self.alp("--config", CONFIG, "method.name=alpp", "--dry-run")
        self.assertStatus(done, 2)
        self.assertIn("did you mean 'alp'?", done.stderr)

    def test_the_plain_trainer_does_not_know_it(self):
        done = run("trainer", "--config", CONFIG, "--dry-run")
        self.assertStatus(done, 2)
        self.assertIn("method.name: 'alp' is not one of standard", done.stderr)

    def test_it_is_built_outside_of_the_tree(self):
        out = self.folder / "build"
        for command in (["cmake", "-S", FOLDER, "-B", out, f"-Dtemper_DIR={APPS.resolve().parent}"],
                        ["cmake", "--build", out]):
            done = subprocess.run([str(word) for word in command], text=True, capture_output=True, timeout=300)
            self.assertStatus(done, 0)
        done = subprocess.run([str(out / "alp_trainer"), "--config", str(CONFIG), "--dry-run"], text=True,
                              capture_output=True, timeout=LIMIT, env=clean_environment())
        self.assertStatus(done, 0)
        self.assertIn("name: alp ", done.stdout)

    def test_the_program_is_as_short_as_the_page_says(self):
        self.assertLess(len((FOLDER / "main.cpp").read_text().splitlines()), 60)


if __name__ == "__main__":
    unittest.main()
