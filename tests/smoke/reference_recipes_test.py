"""The recipes of tests/golden/part_c reach the accuracy that the authors' code reached on the same images.

TEMPER_ALL_SEEDS=1: both recipes, three seeds, one and two processes; else one of them.
"""
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
from support.programs import ProgramTest, metrics, run, SOURCE

RECIPES = SOURCE / "tests/golden/part_c"
BANDS = json.loads((RECIPES / "mnist_bands.json").read_text())
RUNS = [("fgsm_rs", 0, 2)]
if os.environ.get("TEMPER_ALL_SEEDS") == "1":
    RUNS = [(recipe, seed, processes) for recipe in ("fgsm_rs", "trades") for seed in (0, 1, 2)
            for processes in (1, 2)]


class ReferenceRecipes(ProgramTest):
    def test_the_last_epoch_lies_in_the_bands(self):
        data = self.folder / "mnist.npz"
        subprocess.run([sys.executable, SOURCE / "scripts/export_mnist5k.py", data], check=True, timeout=60)
        for recipe, seed, processes in RUNS:
            with self.subTest(recipe=recipe, seed=seed, processes=processes):
                out = self.folder / f"{recipe}-{seed}-{processes}"
                done = run("trainer", "--config", RECIPES / f"{recipe}.yaml", "--nproc", processes, "--run-dir", out,
                           "--progress", "off", f"run.seed={seed}", f"data.train={data}#train",
                           f"data.validation={data}#test", limit=1200)
                self.assertStatus(done, 0)
                result = metrics(out, "validation")[-1]
                self.assertEqual(result["samples"], 1000)
                self.assertEqual(result["update"], 400)
                clean, robust = result["clean_accuracy"], result["robust_accuracy"]
                print(f"{recipe} seed {seed}, {processes} processes: clean {100 * clean:.1f} %, "
                      f"PGD-20 {100 * robust:.1f} %", flush=True)
                band = BANDS[recipe]["suggested_band_single_run"]
                self.assertTrue(band["clean"][0] <= clean <= band["clean"][1], f"{clean} not in {band['clean']}")
                self.assertTrue(band["pgd20"][0] <= robust <= band["pgd20"][1], f"{robust} not in {band['pgd20']}")


if __name__ == "__main__":
    unittest.main()
