"""Compares the data module's pixels with those of Pillow and torchvision: no difference at all is accepted.

    python pixels.py PROGRAM        # pixels_program, built from pixels_program.cpp

Makes images of many kinds and sizes in a temporary folder, lets the program decode and transform them, and does the same
with Pillow's convert, crop and resize and with torchvision's transforms on PIL images. Damaged files must be refused.
"""
import io
import struct
import sys
import tempfile
import warnings
import zlib
from pathlib import Path

import numpy as np
from PIL import Image, ImageFile, ImageOps
from torchvision import transforms

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
from support.pixel_jobs import Program, difference

GENERATOR = np.random.Generator(np.random.PCG64(20240501))
# Odd sizes, one-pixel images, and shapes for both orders of the resize's passes.
SIZES = [(1, 1), (1, 7), (9, 1), (2, 3), (8, 8), (17, 16), (33, 47), (64, 64), (100, 75), (75, 100), (301, 200), (40, 500), (500, 40),
         (255, 257), (1, 900)]
MODES = {1: "L", 3: "RGB"}
ImageFile.MAXBLOCK = 1 << 22  # Pillow writes progressive files in one piece


def picture(width, height, channels):
    """Smooth shapes with noise and hard edges, so that no rounding stays hidden."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [127 + 90 * np.sin(x / (3 + c)) * np.cos(y / (5 + 2 * c)) + GENERATOR.normal(0, 25, (height, width))
              for c in range(channels)]
    out = np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)
    out[GENERATOR.random((height, width)) < 0.02] = 255
    return out[..., 0] if channels == 1 else out


def encode(image, **options):
    buffer = io.BytesIO()
    image.save(buffer, **options)
    return buffer.getvalue()


def jpegs(size):
    rgb = Image.fromarray(picture(*size, 3))
    for quality, subsampling in ((95, 0), (90, 1), (75, 2), (30, 2), (100, 0)):
        yield f"q{quality}_s{subsampling}", encode(rgb, format="JPEG", quality=quality, subsampling=subsampling)
        yield f"q{quality}_s{subsampling}_progressive", encode(rgb, format="JPEG", quality=quality, subsampling=subsampling, progressive=True)
    if min(size) > 8:  # libjpeg-turbo 2.1 and Pillow's 3.2 smooth pictures of one row of blocks differently
        progressive = encode(rgb, format="JPEG", quality=90, subsampling=1, progressive=True)
        yield "progressive_without_last_scans", progressive[:progressive.rindex(b"\xff\xda")] + b"\xff\xd9"
    yield "restart", encode(rgb, format="JPEG", quality=85, restart_marker_rows=1)
    yield "optimized", encode(rgb, format="JPEG", quality=85, optimize=True)
    yield "gray", encode(Image.fromarray(picture(*size, 1)), format="JPEG", quality=88)
    yield "cmyk", encode(Image.fromarray(picture(*size, 4), "CMYK"), format="JPEG", quality=92)
    yield "garbage_after_end", encode(rgb, format="JPEG", quality=80) + b"\0garbage\xff\xd8"
    exif = Image.Exif()
    exif[0x0112] = 6
    yield "rotated_exif", encode(rgb, format="JPEG", quality=80, exif=exif)


def pngs(size):
    width, height = size
    rgb = Image.fromarray(picture(*size, 3))
    rgba = picture(*size, 4)
    yield "rgb", encode(rgb, format="PNG")
    yield "rgb_no_compression", encode(rgb, format="PNG", compress_level=0)
    yield "rgba", encode(Image.fromarray(rgba, "RGBA"), format="PNG")
    yield "gray", encode(Image.fromarray(picture(*size, 1)), format="PNG")
    yield "gray_alpha", encode(Image.fromarray(rgba[..., :2].copy(), "LA"), format="PNG")
    yield "one_bit", encode(Image.fromarray(picture(*size, 1)).convert("1"), format="PNG")
    for colors in (2, 4, 16, 200):
        palette = rgb.quantize(colors, method=Image.Quantize.MEDIANCUT)
        yield f"palette{colors}", encode(palette, format="PNG")
        yield f"palette{colors}_transparent", encode(palette, format="PNG", transparency=0)
    yield "gray_transparent", encode(Image.fromarray(picture(*size, 1)), format="PNG", transparency=200)
    yield "rgb_transparent", encode(rgb, format="PNG", transparency=(1, 2, 3))
    yield "rgb16", raw_png(width, height, 16, 2, GENERATOR.integers(0, 256, (height, width * 6), dtype=np.uint8))
    yield "rgba16", raw_png(width, height, 16, 6, GENERATOR.integers(0, 256, (height, width * 8), dtype=np.uint8))
    yield "gray_alpha16", raw_png(width, height, 16, 4, GENERATOR.integers(0, 256, (height, width * 4), dtype=np.uint8))
    deep = GENERATOR.integers(0, 256, (height, width * 2), dtype=np.uint8)
    deep[GENERATOR.random(deep.shape) < 0.4] = 0
    yield "gray16", raw_png(width, height, 16, 0, deep)
    for bits in (2, 4):
        row_bytes = (width * bits + 7) // 8
        yield f"gray_{bits}_bits", raw_png(width, height, bits, 0, GENERATOR.integers(0, 256, (height, row_bytes), dtype=np.uint8))


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def raw_png(width, height, bits, color, rows):
    raw = b"".join(b"\0" + row.tobytes() for row in rows)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b""))


def damaged():
    """Name, content, words of which one must be in the refusal."""
    jpeg = encode(Image.fromarray(picture(120, 90, 3)), format="JPEG", quality=90)
    progressive = encode(Image.fromarray(picture(120, 90, 3)), format="JPEG", quality=90, progressive=True)
    png = encode(Image.fromarray(picture(120, 90, 3)), format="PNG")
    for name, data in (("jpeg", jpeg), ("progressive", progressive), ("png", png)):
        for percent in (1, 10, 50, 90, 99):
            yield f"{name}_cut_{percent}", data[:len(data) * percent // 100], ["truncated"]
        yield f"{name}_without_end", data[:-2 if name != "png" else -12], ["truncated"]
        yield f"{name}_without_last_byte", data[:-1], ["truncated"]
    yield "ends_early.jpg", jpeg[:len(jpeg) // 2] + b"\xff\xd9", ["corrupt"]
    flipped = bytearray(png)
    flipped[len(png) // 2] ^= 1
    yield "bit_flip.png", bytes(flipped), ["corrupt"]
    yield "empty.jpg", b"", ["empty"]
    yield "page.jpg", b"<html></html>", ["not an image"]
    yield "gif.jpg", encode(Image.fromarray(picture(5, 5, 1)), format="GIF"), ["unsupported"]
    bomb = bytearray(jpeg)
    at = jpeg.index(b"\xff\xc0")
    bomb[at + 5:at + 9] = b"\xff\xdc\xff\xdc"
    yield "bomb.jpg", bytes(bomb), ["too large"]
    yield "bomb.png", raw_png(1 << 30, 1 << 30, 8, 2, []), ["too large"]


def equals(make):
    return lambda answer: difference(answer, make())


def equals_crop(image, size):
    def check(answer):
        if not answer.numbers:
            return f"no crop: {answer.refusal}"
        x, y, width, height = map(int, answer.numbers)
        cut = image.crop((x, y, x + width, y + height))
        return difference(answer, cut.resize((size, size), Image.Resampling.BILINEAR, reducing_gap=None))
    return check


def is_some_crop(image, size, padding):
    """A random crop must be one of the possible ones."""
    padded = np.asarray(transforms.Pad(padding)(image))
    padded = padded[..., None] if padded.ndim == 2 else padded

    def check(answer):
        pixels = answer.pixels
        if pixels is None:
            return f"refused: {answer.refusal}"
        rows, columns = padded.shape[0] - size, padded.shape[1] - size
        for y in range(rows + 1):
            for x in range(columns + 1):
                if np.array_equal(padded[y:y + size, x:x + size], pixels):
                    return None
        return "equals no crop of the padded image"
    return check


def add_transforms(program, path, image, channels):
    for sample in range(3):
        for size in (32, 224):
            program.add(["apply", channels, path, sample, f"random_resized_crop:{size}"], equals_crop(image, size))
    for resize, crop in ((32, 28), (256, 224), (20, 31), (65, 64)):
        steps = transforms.Compose([transforms.Resize(resize), transforms.CenterCrop(crop)])
        program.add(["apply", channels, path, 0, f"resize:{resize}", f"center_crop:{crop}"], equals(lambda s=steps: s(image)))
    program.add(["apply", channels, path, 0, "resize:19"], equals(lambda: transforms.Resize(19)(image)))
    for crop in (3, 8, 33, 76):
        program.add(["apply", channels, path, 0, f"center_crop:{crop}"], equals(lambda c=crop: transforms.CenterCrop(c)(image)))
    program.add(["apply", channels, path, 0, "flip:1"], equals(lambda: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)))
    program.add(["apply", channels, path, 0, "flip:0"], equals(lambda: image))
    program.add(["apply", channels, path, 5, "random_crop:8:4"], is_some_crop(image, 8, 4))


def add_good_files(program, folder):
    for size in SIZES:
        files = [(f"{n}.jpg", d) for n, d in jpegs(size)] + [(f"{n}.png", d) for n, d in pngs(size)]
        for name, data in files:
            path = folder / f"{size[0]}x{size[1]}_{name}"
            path.write_bytes(data)
            for channels, mode in MODES.items():
                image = Image.open(path).convert(mode)
                program.add(["decode", channels, path], equals(lambda i=image: i))
                if name in ("q90_s1.jpg", "gray.png", "progressive_without_last_scans.jpg"):
                    add_transforms(program, path, image, channels)


def add_damaged_files(program, folder):
    for name, data, words in damaged():
        path = folder / name
        path.write_bytes(data)
        for channels in MODES:
            program.add(["decode", channels, path], is_refused(words))


def is_refused(words):
    return lambda answer: None if answer.refusal and any(word in answer.refusal for word in words) else (
        f"expected a refusal with one of {words}, got: {answer.refusal}")


def exif(value, big_endian, field_type=3, other_tags=0):
    order = ">" if big_endian else "<"
    entries = [struct.pack(order + "HHIHH", 0x0100 + i, 3, 1, 7, 0) for i in range(other_tags)]
    entries.append(struct.pack(order + "HHI", 0x0112, field_type, 1) + struct.pack(order + ("HH" if field_type == 3 else "I"), *([value, 0] if field_type == 3 else [value])))
    return (b"MM\0*" if big_endian else b"II*\0") + struct.pack(order + "IH", 8, len(entries)) + b"".join(entries) + bytes(4)


def oriented():
    image = Image.fromarray(picture(45, 31, 3))
    for value in range(0, 10):
        yield f"jpeg_{value}.jpg", encode(image, format="JPEG", quality=85, exif=b"Exif\0\0" + exif(value, value % 2 == 0, 3, value))
        yield f"progressive_{value}.jpg", encode(image, format="JPEG", progressive=True, exif=b"Exif\0\0" + exif(value, value % 2 == 1, 4))
        yield f"png_{value}.png", encode(image, format="PNG", exif=exif(value, value % 2 == 0))
        xmp = b'<x:xmpmeta><rdf:Description tiff:Orientation="%d"/></x:xmpmeta>' % value
        yield f"xmp_{value}.jpg", encode(image, format="JPEG", xmp=xmp)
    yield "exif_before_xmp.jpg", encode(image, format="JPEG", exif=b"Exif\0\0" + exif(6, True), xmp=b'tiff:Orientation="3"')
    yield "xmp_element.jpg", encode(image, format="JPEG", xmp=b"<tiff:Orientation>8</tiff:Orientation>")
    after = encode(image, format="PNG")
    yield "after_pixels.png", after[:-12] + chunk(b"eXIf", exif(5, False)) + after[-12:]
    yield "none.jpg", encode(image, format="JPEG")


def add_oriented_files(program, folder):
    for name, data in oriented():
        path = folder / f"oriented_{name}"
        path.write_bytes(data)
        for channels, mode in MODES.items():
            image = Image.open(path)
            program.add(["decode", channels, path], equals(lambda i=image, m=mode: i.convert(m)))
            program.add(["upright", channels, path], equals(lambda i=image, m=mode: ImageOps.exif_transpose(i).convert(m)))
    path.write_bytes(data[:20] + b"\xff\xe1\0\x10Exif\0\0MM\0*\xff\xff\xff\xff" + data[20:])
    program.add(["upright", 3, path], equals(lambda: Image.open(io.BytesIO(data))))


def main():
    warnings.simplefilter("ignore")
    program = Program(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        add_good_files(program, Path(folder))
        add_damaged_files(program, Path(folder))
        add_oriented_files(program, Path(folder))
        program.run()
    sys.exit(program.report())


if __name__ == "__main__":
    main()
