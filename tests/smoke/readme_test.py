"""The README's first own data set: every command as it stands there, on three folders of images."""
import os
import re
import shlex
import subprocess
import sys
import unittest

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
from support.programs import APPS, LIMIT, ProgramTest, clean_environment, metrics, SOURCE

CLASSES = ("cat", "dog", "horse")
SIZES = ((90, 70), (64, 64), (200, 120), (50, 80))


def section(title):
    text = (SOURCE / "README.md").read_text()
    return re.search(rf"^### {re.escape(title)}\n(.*?)^##", text, re.MULTILINE | re.DOTALL).group(1)


def commands(text):
    """Command lines of the code blocks, without comments."""
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in [] if language else block.splitlines():
            words = shlex.split(line, comments=True)
            if words and words[0].startswith("build/"):
                yield words


def write_images(folder, count):
    from PIL import Image
    import numpy
    random = numpy.random.default_rng(0)
    for label, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True)
        for i in range(count):
            width, height = SIZES[i % len(SIZES)]
            pixels = random.integers(0, 120, (height, width, 3)) + numpy.array([60, 0, 120]) * (label + 1) // 3
            Image.fromarray(pixels.astype("uint8")).save(folder / name / f"{i}.jpg")


class Readme(ProgramTest):
    def test_own_images_in_five_minutes(self):
        text = section("Your own images, in five minutes")
        home = self.folder
        write_images(home / "photos/train", 8)
        write_images(home / "photos/val", 2)
        (home / "build/release").mkdir(parents=True)
        os.symlink(APPS.resolve(), home / "build/release/apps")
        os.symlink(SOURCE / "configs", home / "configs")
        (home / "photos.yaml").write_text(re.search(r"```yaml\n(.*?)```", text, re.DOTALL).group(1))
        outputs = []
        for words in commands(text):
            done = subprocess.run(words, cwd=home, text=True, capture_output=True, timeout=2 * LIMIT,
                                  env=clean_environment())
            self.assertStatus(done, 0)
            outputs.append(done.stdout)
        self.assertEqual(len(outputs), 5)
        self.assertIn("horse", outputs[0])
        self.assertNotIn("not usable", outputs[2])
        self.assertIn("finished: epoch 10", outputs[4])
        run = home / "runs/photos/001"
        for name in ("report.html", "metrics.jsonl", "epochs.csv", "checkpoints/best.pt"):
            self.assertTrue((run / name).exists(), name)
        self.assertEqual(metrics(run, "validation")[-1]["samples"], 6)


if __name__ == "__main__":
    unittest.main()
