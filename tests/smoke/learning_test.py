"""Adversarial training learns: three seeds of the digits recipe reach their bars, beside a standard-trained net."""
import json
import sys
import unittest

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
from support.programs import ProgramTest, run, SOURCE


class Learning(ProgramTest):
    def accuracies(self, config, seed):
        out = self.folder / f"{config}-{seed}"
        self.assertStatus(self.train(out, f"run.seed={seed}", "logging.every=100up", "--progress", "off",
                                     config=config, limit=300), 0)
        done = run("evaluator", "--checkpoint", out / "checkpoints/best.pt", "--config",
                   SOURCE / f"configs/{config}.yaml", "--json", *self.digits_overrides())
        self.assertStatus(done, 0)
        result = json.loads(done.stdout)
        self.assertEqual(result["samples"], 360)
        pair = result["clean_accuracy"], result["attacks"][0]["robust_accuracy"]
        print(f"{config} seed {seed}: clean {100 * pair[0]:.2f} %, robust {100 * pair[1]:.2f} %", flush=True)
        return pair

    def test_trades_reaches_its_bars_for_three_seeds(self):
        for seed in (0, 1, 2):
            clean, robust = self.accuracies("digits_trades", seed)
            self.assertGreaterEqual(clean, 0.90)
            self.assertGreaterEqual(robust, 0.50)

    def test_standard_training_is_not_robust(self):
        clean, robust = self.accuracies("digits_standard", 0)
        self.assertGreaterEqual(clean, 0.90)
        self.assertLess(robust, 0.30)

    def test_mixed_training_is_robust(self):
        clean, robust = self.accuracies("digits_mixed_fgsm", 0)
        self.assertGreaterEqual(clean, 0.90)
        self.assertGreaterEqual(robust, 0.30)


if __name__ == "__main__":
    unittest.main()
