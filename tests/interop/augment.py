"""Compares colour and augmentation steps with torchvision on PIL images: no difference at all is accepted.

    python augment.py PROGRAM       # pixels_program, built from pixels_program.cpp

The program tells what it drew; torchvision's functional operations get the same parameters.
"""
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torchvision.transforms import InterpolationMode, autoaugment, functional

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
from support.pixel_jobs import Program, difference

GENERATOR = np.random.Generator(np.random.PCG64(77))
SIZES = [(1, 1), (2, 5), (3, 3), (16, 16), (33, 20), (20, 47), (64, 64), (224, 224)]
MODES = {1: "L", 3: "RGB"}
SIGNED = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast", "Sharpness")
# A few levels alone, so that histograms have gaps; noise; slopes.
KINDS = ("levels", "noise", "slope", "flat")


def picture(kind, width, height):
    shape = (height, width, 3)
    if kind == "levels":
        pixels = GENERATOR.choice(np.array([0, 3, 100, 101, 250], np.uint8), shape)
    elif kind == "noise":
        pixels = GENERATOR.integers(0, 256, shape, np.uint8)
    elif kind == "slope":
        y, x = np.mgrid[0:height, 0:width]
        pixels = np.stack([30 + 150 * x // width, 40 + 90 * y // height, 60 + 70 * (x + y) // (width + height)], -1).astype(np.uint8)
    else:
        pixels = np.full(shape, (7, 200, 90), np.uint8)
    return Image.fromarray(pixels)


def all_hues():
    """Every combination of 40 levels: 64,000 colours."""
    levels = np.unique(np.linspace(0, 255, 40).round()).astype(np.uint8)
    return Image.fromarray(np.stack(np.meshgrid(levels, levels, levels, indexing="ij"), -1).reshape(200, 320, 3))


def expected(image, operations, fill):
    for operation in operations:
        name, amount = operation.split(":")
        if name == "Hue":
            image = functional.adjust_hue(image, float(amount))
        else:
            image = autoaugment._apply_op(image, name, float(amount), InterpolationMode.NEAREST, [fill] * len(image.getbands()))
    return image


def jittered(image, operations):
    functions = {"Brightness": functional.adjust_brightness, "Contrast": functional.adjust_contrast, "Color": functional.adjust_saturation,
                 "Hue": functional.adjust_hue}
    for operation in operations:
        name, amount = operation.split(":")
        image = functions[name](image, float(amount))
    return image


def amounts(name, size):
    if name in ("ShearX", "ShearY"):
        values = (0, 0.1, 0.3, 0.99)
    elif name in ("TranslateX", "TranslateY"):
        values = (0, 0.9, 1, 7.5, 32, 150 / 331 * size)
    elif name == "Rotate":
        values = (0, 1, 4.5, 27, 45, 90, 94.5, 135)
    elif name in SIGNED:
        values = (0, 0.03, 0.27, 0.9, 0.99, 1)
    else:
        return {"Posterize": range(2, 9), "Solarize": (0, 0.5, 8.5, 127, 178.5, 254, 255), "Hue": (-0.5, -0.37, -0.002, 0, 0.1, 0.25, 0.5)}.get(name, (0,))
    return sorted({sign * value for value in values for sign in (1, -1)})


def add_operations(program, path, image, channels):
    for name in [*autoaugment.TrivialAugmentWide()._augmentation_space(31), "Hue"]:
        for amount in amounts(name, max(image.size)):
            fill = 0 if channels == 3 else 77
            program.add(["operate", channels, path, name, repr(float(amount)), fill],
                        lambda answer, n=name, a=amount, f=fill: difference(answer, expected(image, [f"{n}:{a}"], f)))


def add_steps(program, path, image, channels):
    def add(step, sample, make):
        program.add(["draw", channels, path, sample, step], lambda answer: difference(answer, make(answer.numbers)))

    for sample in range(12):
        add("rand_augment:2:9:31:0", sample, lambda drawn: check_space(expected(image, drawn, 0), drawn, image, 9))
        add("rand_augment:3:14:31:128", sample, lambda drawn: expected(image, drawn, 128))
        add("trivial_augment_wide:31:0", sample, lambda drawn: check_space(expected(image, drawn, 0), drawn, image, None))
        add("color_jitter:0.4:0.4:0.4:0.1", sample, lambda drawn: jittered(image, drawn))
        add("color_jitter:0:0:1.5:0.5", sample, lambda drawn: jittered(image, drawn))
        add("random_erasing:1:0", sample, lambda drawn: erased(image, list(map(int, drawn))))
    add("vertical_flip:1", 0, lambda drawn: image.transpose(Image.Transpose.FLIP_TOP_BOTTOM))
    add("vertical_flip:0", 0, lambda drawn: image)
    gray = functional.to_grayscale(image, channels)
    add("random_grayscale:1", 0, lambda drawn: gray)
    add("random_grayscale:0", 0, lambda drawn: image)


def erased(image, box):
    pixels = np.array(image)
    if box:
        x, y, width, height = box
        assert height < image.size[1] and width < image.size[0]
        tensor = torch.from_numpy(pixels.reshape(image.size[1], image.size[0], -1).transpose(2, 0, 1).copy())
        pixels = functional.erase(tensor, y, x, height, width, torch.zeros(1, dtype=torch.uint8)).numpy().transpose(1, 2, 0)
    return pixels


def check_space(result, drawn, image, magnitude):
    """The magnitudes are those of torchvision's table, up to the last bit of single precision."""
    for operation in drawn:
        name, amount = operation.split(":")
        if magnitude is None:
            table, signed = autoaugment.TrivialAugmentWide()._augmentation_space(31)[name]
        else:
            table, signed = autoaugment.RandAugment()._augmentation_space(31, image.size[::-1])[name]
            table = table[magnitude] if table.ndim else table
        size = abs(float(amount)) if signed else float(amount)
        assert min(abs(size - value) for value in table.reshape(-1).tolist()) <= 3e-7 * size, (name, amount)
        assert signed or not amount.startswith("-")
    return result


def main():
    program = Program(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        pictures = [(f"{kind}_{w}x{h}", picture(kind, w, h)) for w, h in SIZES for kind in KINDS if kind == "noise" or (w, h) != (224, 224)]
        for name, whole in [*pictures, ("hues", all_hues())]:
            path = Path(folder) / f"{name}.png"
            whole.save(path, compress_level=1)
            for channels, mode in MODES.items():
                image = whole.convert(mode)
                add_operations(program, path, image, channels)
                add_steps(program, path, image, channels)
        program.run()
    sys.exit(program.report())


if __name__ == "__main__":
    main()
