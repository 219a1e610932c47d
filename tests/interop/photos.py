"""A Loader's batches of real photos have Pillow's pixels, training crops and evaluation alike: no difference at all.

    python photos.py PROGRAM        # pixels_program, built from pixels_program.cpp
"""
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from torchvision import transforms

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from support.pixel_jobs import Program

COUNT, SIZE = 160, 224


def cropped(image, x, y, width, height, flipped):
    out = image.crop((x, y, x + width, y + height)).resize((SIZE, SIZE), Image.Resampling.BILINEAR, reducing_gap=None)
    return out.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if flipped else out


def compare(answer, images, expected):
    if answer.pixels is None:
        return f"refused: {answer.refusal}"
    batches = answer.pixels.reshape(len(images), SIZE, SIZE, 3)
    wrong = [path.name for i, path in enumerate(images) if not np.array_equal(batches[i], np.asarray(expected(i, Image.open(path).convert("RGB"))))]
    return f"{len(wrong)} of {len(images)} differ: {wrong[:5]}" if wrong else None


def check_training(answer, images):
    numbers = np.array(answer.numbers, int).reshape(len(images), 5)
    # The draws are no constant: crops of many areas, and about half are flipped.
    assert len({tuple(row) for row in numbers.tolist()}) > COUNT * 0.9 and 0.3 < numbers[:, 4].mean() < 0.7
    return compare(answer, images, lambda i, image: cropped(image, *numbers[i].tolist()))


def check_evaluation(answer, images):
    steps = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(SIZE)])
    return compare(answer, images, lambda i, image: steps(image))


def main():
    program = Program(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, ROOT / "scripts/make_photo_set.py", folder, "--count", str(COUNT), "--classes", "4", "--mix"],
                       check=True, stdout=subprocess.DEVNULL)
        images = sorted(Path(folder).rglob("*.jpg"))
        assert len(images) == COUNT
        for epoch in (0, 1):
            program.add(["epoch", 3, folder, epoch, SIZE, "train"], lambda answer: check_training(answer, images))
        program.add(["epoch", 3, folder, 0, SIZE, "evaluation"], lambda answer: check_evaluation(answer, images))
        program.run()
    sys.exit(program.report())


if __name__ == "__main__":
    main()
