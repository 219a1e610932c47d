"""With data.on_bad_sample=skip a damaged file is replaced in training and left out in evaluation, named and counted, with the
same course for one rank and two; too many of them end the run on all ranks.
"""
import json
import sys
import unittest

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
from support.programs import ProgramTest, SOURCE, metrics, run


class BadSamples(ProgramTest):
    def setUp(self):
        super().setUp()
        self.damaged = []
        for split, number in (("train", 30), ("validation", 5)):
            file = sorted((self.digits / split / "4").iterdir())[number]
            self.damaged.append((file, file.read_bytes()))
            file.write_bytes(b"no picture")

    def tearDown(self):
        for file, content in self.damaged:
            file.write_bytes(content)
        super().tearDown()

    def train(self, name, processes, *arguments):
        return run("trainer", "--config", SOURCE / "configs/digits_trades.yaml", "--nproc", processes, "--run-dir",
                   self.folder / name, "training.epochs=2", "validation.every=1ep", "data.on_bad_sample=skip",
                   "method.attack.steps=2", "validation.attack.steps=2", *arguments, *self.digits_overrides(self.digits))

    def test_are_replaced_and_left_out(self):
        events, course = {}, {}
        for processes in (1, 2):
            done = self.train(f"run{processes}", processes)
            self.assertEqual(done.returncode, 0, done.stderr)
            folder = self.folder / f"run{processes}"
            self.assertEqual(done.stderr.count("a bad sample is replaced: "), 2, done.stderr)  # once an epoch
            self.assertIn(f"a bad sample is left out: {self.damaged[1][0]}: not an image", done.stderr)
            told = metrics(folder, "event")
            events[processes] = [event for event in told if event["what"] == "bad_sample"]
            self.assertEqual([event["bad_samples"] for event in told if event["what"] == "epoch_loaded"], [1, 1])
            course[processes] = [(line["update"], round(line["loss"], 4)) for line in metrics(folder, "train")]
            self.assertEqual(metrics(folder, "validation")[-1]["samples"], 179)  # of 180
        self.assertEqual(events[1], events[2])
        self.assertEqual(course[1], course[2])
        self.assertEqual([event["epoch"] for event in events[1]], [1, 2])
        self.assertIn(str(self.damaged[0][0]), events[1][0]["error"])
        self.assertNotEqual(events[1][0]["replaced_by"], events[1][0]["sample"])

    def test_too_many_end_all_ranks(self):
        done = self.train("run", 2, "data.max_bad_samples=0.0005", "data.validation=null")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("1 bad sample in epoch 1, more than data.max_bad_samples allows, 0.05 % of 1257", done.stderr)
        self.assertIn(str(self.damaged[0][0]), done.stderr)
        self.assertEqual(json.loads((self.folder / "run/failure.json").read_text())["rank"], 0)

    def test_evaluator_leaves_out_and_ends_when_there_are_too_many(self):
        done = self.train("run", 1)
        self.assertEqual(done.returncode, 0, done.stderr)
        arguments = ["--checkpoint", self.folder / "run/checkpoints/last.pt", "--config", self.folder / "run/config.yaml",
                     "--split", "validation", "--json"]
        done = run("evaluator", *arguments, "--nproc", 2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["samples"], 179)
        done = run("evaluator", *arguments, "data.max_bad_samples=0.001")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("1 bad sample among 180, more than data.max_bad_samples allows", done.stderr)
        done = run("evaluator", *arguments, "data.on_bad_sample=error")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(str(self.damaged[1][0]), done.stderr)


if __name__ == "__main__":
    unittest.main()
