"""Each recipe of configs/ passes trainer's dry run, whether its data is there or not."""
import concurrent.futures
import sys
import unittest

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
from support.programs import run, SOURCE

RECIPES = sorted(path.stem for path in (SOURCE / "configs").glob("*.yaml"))


class Recipes(unittest.TestCase):
    def test_each_passes_a_dry_run(self):
        self.assertGreaterEqual(len(RECIPES), 14)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            runs = pool.map(lambda name: run("trainer", "--config", SOURCE / f"configs/{name}.yaml", "--nproc", 1,
                                             "--dry-run"), RECIPES)
            for name, done in zip(RECIPES, runs):
                with self.subTest(name):
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(done.stderr, "")
                    self.assertIn("memory a rank", done.stdout)

    def test_each_says_what_it_is_what_it_reaches_and_what_it_costs(self):
        for name in RECIPES:
            if name == "resnet18_imagenet100":
                continue
            head = (SOURCE / f"configs/{name}.yaml").read_text().split("\n", 1)[0]
            comment = (SOURCE / f"configs/{name}.yaml").read_text().split("\ninclude:", 1)[0].split("\nrun:", 1)[0]
            with self.subTest(name):
                self.assertTrue(head.startswith("# "))
                for part in ("Expected", "Cost", "Unlike"):
                    self.assertIn(f"# {part}", comment)

    def test_none_chooses_on_test_data(self):
        for path in (SOURCE / "configs").rglob("*.yaml"):
            with self.subTest(path.name):
                self.assertNotRegex(path.read_text(), r"validation: \S*test")

    def test_the_readme_lists_each(self):
        readme = (SOURCE / "README.md").read_text()
        for name in RECIPES:
            self.assertIn(f"| configs/{name}.yaml |", readme)


if __name__ == "__main__":
    unittest.main()
