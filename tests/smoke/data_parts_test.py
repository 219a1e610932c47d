"""data.validation_split and data.extra from outside: what is held out, what each batch holds, and what is refused."""
import json
import sys
import unittest

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
from support.programs import ProgramTest, SOURCE, metrics, processes_with, run

QUICK = ["method.attack.steps=1", "validation.attack.steps=2", "training.precision=fp64", "logging.every=1up"]


class DataParts(ProgramTest):
    def trainer(self, name, processes, *arguments):
        return run("trainer", "--config", SOURCE / "configs/digits_trades.yaml", "--nproc", processes, "--run-dir",
                   self.folder / name, f"data.train={self.digits}/train", *QUICK, *arguments)

    def losses(self, name):
        return [(line["update"], line["samples"], round(line["loss"], 9)) for line in metrics(self.folder / name, "train")]

    def assertRefused(self, done, *texts):
        self.assertStatus(done, 2)
        for text in texts:
            self.assertIn(text, done.stderr)
        self.assertEqual(processes_with(str(self.folder)), [])

    def test_held_out_part(self):
        split = ["data.validation=null", "data.validation_split=0.1", "training.epochs=2"]
        for processes in (1, 2):
            done = self.trainer(f"run{processes}", processes, *split)
            self.assertStatus(done, 0)
        self.assertEqual(self.losses("run1")[-1][:2], self.losses("run2")[-1][:2])
        self.assertEqual(self.losses("run1")[-1][1], 2 * 1131)
        run1, run2 = (metrics(self.folder / name, "validation")[-1] for name in ("run1", "run2"))
        self.assertEqual(run1, run2)
        self.assertEqual(run1["samples"], 126)  # of 1257
        self.assertTrue((self.folder / "run1/checkpoints/best.pt").is_file())

        arguments = ["--checkpoint", self.folder / "run1/checkpoints/last.pt", "--config", self.folder / "run1/config.yaml",
                     "--json"]
        for processes in (1, 2):
            done = run("evaluator", *arguments, "--split", "validation", "--nproc", processes)
            self.assertStatus(done, 0)
            result = json.loads(done.stdout)
            self.assertEqual((result["samples"], result["clean_correct"], result["attacks"][0]["robust_correct"]),
                             (126, run1["clean_correct"], run1["robust_correct"]))
        done = run("evaluator", *arguments, "--split", "train", "--attack", "none")
        self.assertStatus(done, 0)
        self.assertEqual(json.loads(done.stdout)["samples"], 1131)
        for other in ("run.seed=5", "data.validation_split=0.2"):
            self.assertRefused(run("evaluator", *arguments, "--split", "validation", other),
                               "the held-out part is another one")
        self.assertRefused(run("evaluator", *arguments, "--split", "validation", f"data.train={self.digits}/test"),
                           "the held-out part is another one")
        self.assertRefused(self.trainer("run1", 1, *split, "data.validation_split=0.2"), "data with the index hash")

        done = self.trainer("none", 1, *split, "--dry-run")
        self.assertStatus(done, 0)
        self.assertIn("data.validation_split: 0.1 of the training samples are held out for validation", done.stdout)

    def test_extra_data_for_any_world_size_and_after_a_resume(self):
        digits = f"{SOURCE}/data/digits.npz#test"
        for name, unlabelled in (("labelled", "false"), ("unlabelled", "true")):
            extra = [f"data.validation={self.digits}/validation", "training.epochs=1", "training.global_batch_size=64",
                     f"data.extra={{format: npz, path: '{digits}', fraction: 0.75, unlabelled: {unlabelled}}}"]
            for processes in (1, 2):
                self.assertStatus(self.trainer(f"{name}{processes}", processes, *extra), 0)
            one, two = self.losses(name + "1"), self.losses(name + "2")
            self.assertEqual(one, two)
            # 16 of 1257 samples an update, 48 of the 360 others; 9 and 27 in the last one.
            self.assertEqual(one[-1][:2], (79, 79 * 64 - 28))
            self.assertStatus(self.trainer(name, 1, *extra, "training.max_updates=33"), 0)
            self.assertStatus(self.trainer(name, 2, *extra), 0)
            self.assertEqual([line for line in self.losses(name) if line[0] > 33], one[33:])
            self.assertRefused(self.trainer(name, 1, *extra, f"data.extra={{path: '{digits}', fraction: 0.5}}"),
                               "data with the index hash")
        done = self.trainer("none", 1, *extra, "--dry-run")
        self.assertIn(f"data.extra: {digits}, 360 samples without labels\ndata.extra.fraction: 0.75 of each batch",
                      done.stdout)

    def test_pixels_that_stay_in_memory_are_named_when_they_are_many(self):
        import numpy as np
        np.savez_compressed(self.folder / "big.npz", images=np.zeros((600, 64, 64, 3), np.uint8), labels=np.arange(600) % 10)
        arguments = ["--smoke", "1", "data.format=npz", f"data.train={self.folder}/big.npz", "data.validation=null",
                     "data.validation_split=0.1", "data.channels=3", "data.image_size=64", "model.architecture=wide_cnn",
                     "training.global_batch_size=4", "validation.samples=4"]
        for limit, warned in (("4MiB", True), ("64MiB", False)):
            done = run("trainer", "--config", SOURCE / "configs/digits_trades.yaml", "--nproc", 1, "--run-dir",
                       self.folder / limit, *QUICK, *arguments, f"data.memory_limit={limit}")
            self.assertStatus(done, 0)
            self.assertEqual("MiB of pixels in memory" in done.stdout + done.stderr, warned, done.stderr)

    def test_what_cannot_be_is_refused(self):
        import numpy as np
        validation = f"data.validation={self.digits}/validation"
        for labels, name in ((np.arange(11), "more"), (np.arange(9), "fewer")):
            np.savez(self.folder / f"{name}.npz", images=np.zeros((len(labels), 8, 8), np.uint8), labels=labels)
        np.savez(self.folder / "larger.npz", images=np.zeros((9, 9, 9), np.uint8), labels=np.arange(9))
        np.savez(self.folder / "small.npz", images=np.zeros((20, 7, 7), np.uint8), labels=np.arange(20) % 10)
        np.savez(self.folder / "bare.npz", images=np.zeros((9, 8, 8), np.uint8))
        np.savez(self.folder / "floats.npz", images=np.zeros((9, 8, 8), np.float32), labels=np.arange(9))

        def with_extra(path, rest="format: npz, fraction: 0.5", *arguments):
            return self.trainer("run", 2, validation, f"data.extra={{path: '{path}', {rest}}}", *arguments)

        self.assertRefused(with_extra(self.folder / "none.npz"), "data.extra: ", "none.npz")
        self.assertRefused(with_extra(self.folder / "more.npz"), "data.extra: ", "label 10 is out of range")
        self.assertRefused(with_extra(self.folder / "floats.npz"), "another type of pixels")
        self.assertRefused(with_extra(self.folder / "larger.npz"), "data.extra: ",
                           "larger.npz:images[0] is 9 x 9 after data.transform.train, but data.image_size is 8")
        self.assertRefused(self.trainer("run", 1, validation, "--launcher", "none",
                                        f"data.extra={{path: '{self.folder}/larger.npz', fraction: 0.5}}"),
                           "images[0] is 9 x 9 after data.transform.train")
        self.assertRefused(self.trainer("run", 1, validation, "data.transform.train=[{name: random_crop, size: 8}]",
                                        f"data.train={self.folder}/small.npz", "data.format=npz",
                                        f"data.validation={self.folder}/small.npz"),
                           "data.train: ", "small.npz:images[0]", "does not fit into the image")
        self.assertRefused(with_extra(self.folder / "bare.npz"), "data.extra: ", "no images and labels")
        self.assertRefused(with_extra(self.folder / "fewer.npz", "format: npz, fraction: 1.5"), "data.extra.fraction")
        self.assertRefused(with_extra(self.folder / "fewer.npz", "format: npz, fraction: 0.001"),
                           "data.extra.fraction: 0.001 of a global batch of 128 samples is 0")
        self.assertRefused(with_extra(self.folder / "fewer.npz", "unlabelled: true, fraction: 0.5", "method.name=mixed"),
                           "method mixed needs labels")
        other = self.folder / "other"
        for number in range(10):
            (other / f"class{number}").mkdir(parents=True)
            source = sorted((self.digits / "test" / str(number)).iterdir())[0]
            (other / f"class{number}" / "a.png").write_bytes(source.read_bytes())
        self.assertRefused(with_extra(other, "format: folder, fraction: 0.5"), "they must have the same names")
        self.assertRefused(self.trainer("run", 1, validation, "data.validation_split=0.1"),
                           "data.validation_split: there is data.validation, too")
        self.assertRefused(self.trainer("run", 1, "data.validation=null", "data.validation_split=1"), "must be below 1")
        self.assertFalse((self.folder / "run").exists())
        for path, rest in ((self.folder / "fewer.npz", "format: npz, fraction: 0.5"),
                           (self.folder / "bare.npz", "format: npz, fraction: 0.5, unlabelled: true"),
                           (other, "format: folder, fraction: 0.5, unlabelled: true")):
            self.assertStatus(self.trainer(f"used_{path.name}", 2, validation, f"data.extra={{path: '{path}', {rest}}}",
                                           "--smoke", "1"), 0)


if __name__ == "__main__":
    unittest.main()
