"""BMP, WebP, TIFF and PNM files have Pillow's pixels or are refused as unsupported; nothing in between.

    python other_formats.py PROGRAM DATATOOL    # pixels_program and datatool

The plug-in with OpenCV is loaded only when such a file is met.
"""
import functools
import io
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
from support.pixel_jobs import Program, difference

GENERATOR = np.random.Generator(np.random.PCG64(31))
WIDTH, HEIGHT = 37, 23


def picture(channels, width=WIDTH, height=HEIGHT):
    y, x = np.mgrid[0:height, 0:width]
    planes = [127 + 100 * np.sin(x / (3 + c) + y / (7 - c)) + GENERATOR.normal(0, 9, (height, width)) for c in range(channels)]
    return np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)


def saved(image, kind, **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def bmp(bits, compression, rows, palette=b"", masks=b"", height=HEIGHT, header=40):
    info = struct.pack("<IiiHHIIiiII", header, WIDTH, height, 1, bits, compression, 0, 0, 0, len(palette) // 4, 0) + masks
    info += bytes(max(0, header - len(info)))
    at = 14 + len(info) + len(palette)
    return b"BM" + struct.pack("<IHHI", at + len(rows), 0, 0, at) + info + palette + rows


def bmp_files(rgb, gray, rgba):
    palette = GENERATOR.integers(0, 256, (256, 4), np.uint8)
    palette[:, 3] = 0
    padded = b"".join(row.tobytes() + b"\0\0\0" for row in gray)
    nibbles = b"".join(bytes(int(row[i]) // 16 * 16 + (int(row[i + 1]) // 16 if i + 1 < WIDTH else 0) for i in range(0, WIDTH, 2)) + b"\0" for row in gray)
    bits = b"".join(np.packbits(row > 127).tobytes() + b"\0\0\0" for row in gray)
    masks = struct.pack("<III", 0xFF0000, 0xFF00, 0xFF)
    yield "24", saved(Image.fromarray(rgb), "BMP"), True
    yield "8_gray", saved(Image.fromarray(gray), "BMP"), True
    yield "8_palette", bmp(8, 0, padded, palette.tobytes()), True
    yield "4_palette", bmp(4, 0, nibbles, palette[:16].tobytes()), True
    yield "1_palette", bmp(1, 0, bits, palette[:2].tobytes()), True
    yield "32", saved(Image.fromarray(rgba, "RGBA"), "BMP"), True
    yield "32_plain", bmp(32, 0, rgba.tobytes()), True
    yield "32_masks", bmp(32, 3, rgba.tobytes(), masks=masks), True
    yield "32_version_4", bmp(32, 3, rgba.tobytes(), masks=masks + b"\0\0\0\xff", header=108), True
    yield "24_from_top", bmp(24, 0, b"".join(row.tobytes() + b"\0" for row in rgb), height=-HEIGHT), True
    yield "16", bmp(16, 0, bytes(76 * HEIGHT)), False
    yield "8_run_lengths", bmp(8, 1, b"".join(b"".join(bytes([1, v]) for v in row) + b"\0\0" for row in gray) + b"\0\1", palette.tobytes()), False


def webp_files(rgb, rgba):
    for quality in (5, 50, 80, 100):
        yield f"lossy_{quality}", saved(Image.fromarray(rgb), "WEBP", quality=quality), True
    yield "lossy_large", saved(Image.fromarray(picture(3, 333, 251)), "WEBP", quality=80), True
    yield "lossless", saved(Image.fromarray(rgb), "WEBP", lossless=True), True
    yield "alpha", saved(Image.fromarray(rgba, "RGBA"), "WEBP", quality=70), True
    yield "alpha_lossless", saved(Image.fromarray(rgba, "RGBA"), "WEBP", lossless=True, exact=True), True
    yield "animated", saved(Image.fromarray(rgb), "WEBP", save_all=True, append_images=[Image.fromarray(rgb[::-1])]), False


def tiff_files(rgb, gray, rgba):
    for compression in (None, "tiff_lzw", "tiff_adobe_deflate", "tiff_deflate", "packbits"):
        yield f"rgb_{compression}", saved(Image.fromarray(rgb), "TIFF", compression=compression), True
        yield f"gray_{compression}", saved(Image.fromarray(gray), "TIFF", compression=compression), True
    yield "predictor", saved(Image.fromarray(rgb), "TIFF", compression="tiff_lzw", tiffinfo={317: 2}), True
    yield "palette", saved(Image.fromarray(rgb).quantize(200), "TIFF"), True
    yield "alpha", saved(Image.fromarray(rgba, "RGBA"), "TIFF"), False
    yield "cmyk", saved(Image.fromarray(rgba, "CMYK"), "TIFF"), False
    yield "turned", saved(Image.fromarray(rgb), "TIFF", tiffinfo={274: 6}), False
    yield "16_bits", saved(Image.fromarray(gray.astype(np.uint16) * 200), "TIFF"), False
    yield "jpeg", saved(Image.fromarray(rgb), "TIFF", compression="jpeg"), False


def pnm_files(rgb, gray):
    yield "p4", saved(Image.fromarray(gray).convert("1"), "PPM"), True
    yield "p5", saved(Image.fromarray(gray), "PPM"), True
    yield "p6", saved(Image.fromarray(rgb), "PPM"), True
    yield "p6_comments", b"P6\n# a comment 7 8\n37 23\n# another\n255\n" + rgb.tobytes(), True
    yield "p2", b"P2 2 2 255\n1 2 3 4\n", False
    yield "p5_levels", b"P5 2 2 15\n\1\2\3\4", False
    yield "p5_16_bits", b"P5 2 2 65535\n" + bytes(8), False


def other_files():
    """Name, content, whether it has to load."""
    rgb, gray, rgba = picture(3), picture(1)[..., 0], picture(4)
    kinds = {"bmp": bmp_files(rgb, gray, rgba), "webp": webp_files(rgb, rgba), "tif": tiff_files(rgb, gray, rgba), "pnm": pnm_files(rgb, gray)}
    for suffix, files in kinds.items():
        for name, data, loads in files:
            yield f"{name}.{suffix}", data, loads
    yield "gif.gif", saved(Image.fromarray(rgb).quantize(64), "GIF"), False
    yield "j2k.jp2", saved(Image.fromarray(rgb), "JPEG2000"), False
    yield "j2k.j2k", saved(Image.fromarray(rgb), "JPEG2000", no_jp2=True), False
    yield "sound.wav.bmp", b"RIFF" + bytes(4) + b"WAVE" + bytes(40), None


def check(expected, loads, answer):
    if not loads:
        word = "not an image" if loads is None else "unsupported"
        return None if answer.refusal and word in answer.refusal else f"expected a refusal as {word}, got {answer.refusal}"
    return difference(answer, expected)


def refused_as(words):
    return lambda answer: None if answer.refusal and any(word in answer.refusal for word in words) else f"expected {words}, got {answer.refusal}"


def add_damaged(program, folder, name, data):
    """A file that is cut anywhere is refused; a huge size before anything is allocated."""
    for percent in (0, 2, 10, 50, 90, 99):
        path = folder / f"cut_{percent}_{name}"
        path.write_bytes(data[:max(4, len(data) * percent // 100)])
        program.add(["decode", 3, path], refused_as(["truncated", "corrupt", "not an image"]))


def bombs():
    yield "bomb.bmp", b"BM" + struct.pack("<IHHI", 54, 0, 0, 54) + struct.pack("<IiiHHIIiiII", 40, 65500, 65500, 1, 24, 0, 0, 0, 0, 0, 0)
    yield "bomb.pnm", b"P6 65500 65500 255\n"
    yield "bomb.webp", b"RIFF" + struct.pack("<I", 30) + b"WEBPVP8X" + struct.pack("<I", 10) + b"\0\0\0\0" + b"\xdb\xff\0" * 2 + bytes(8)
    entries = [(256, 4, 1, 65500), (257, 4, 1, 65500), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (273, 4, 1, 8), (277, 3, 1, 1), (279, 4, 1, 8)]
    yield "bomb.tif", b"II*\0" + struct.pack("<IH", 8, len(entries)) + b"".join(struct.pack("<HHII", *entry) for entry in entries) + bytes(4)


def mapped_opencv(datatool, folder):
    """Whether the program has OpenCV in memory after it read all of a folder."""
    traced = subprocess.run([datatool, "verify", folder], env={**os.environ, "LD_DEBUG": "files"}, text=True, capture_output=True)
    if traced.returncode:
        sys.exit(f"datatool verify: status {traced.returncode}\n{traced.stdout}")
    return "libopencv_imgcodecs" in traced.stderr


def add_lonely_program(folder, failures):
    """A program without the plug-in says what is missing; JPEG and PNG do without."""
    lonely = folder / "a" / "b" / "c" / "d" / "program"
    lonely.parent.mkdir(parents=True)
    shutil.copy(sys.argv[1], lonely)
    program = Program(lonely)
    program.add(["decode", 3, folder / "24.bmp"], refused_as(["unsupported format BMP: the plug-in libtemper_opencv.so is not in"]))
    program.add(["decode", 3, folder / "png" / "class" / "a.png"], lambda answer: answer.refusal)
    program.run()
    failures += program.failures


def main():
    program = Program(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, data, loads in other_files():
            path = folder / file
            path.write_bytes(data)
            for channels, mode in ((1, "L"), (3, "RGB")):
                expected = np.asarray(Image.open(path).convert(mode)) if loads else None
                program.add(["decode", channels, path], functools.partial(check, expected, loads))
            if loads:
                add_damaged(program, folder, file, data)
        for file, data in bombs():
            (folder / file).write_bytes(data)
            program.add(["decode", 3, folder / file], refused_as(["too large"]))
        program.run()
        for kind in ("png", "bmp"):
            (folder / kind / "class").mkdir(parents=True)
            Image.fromarray(picture(3)).save(folder / kind / "class" / f"a.{kind}")
        if mapped_opencv(sys.argv[2], folder / "png") or not mapped_opencv(sys.argv[2], folder / "bmp"):
            program.failures.append("OpenCV must be loaded for BMP files and for nothing else")
        add_lonely_program(folder, program.failures)
    sys.exit(program.report())


if __name__ == "__main__":
    main()
