"""Every archive of the .npz cases is accepted with its pictures and labels, or refused for its reason.

    python npz_test.py PROGRAM      # pixels_program, built from tests/interop/pixels_program.cpp

Makes the archives in a temporary folder. TEMPER_NPZ_CASES names another folder of the same layout, whose npz_manifest.json
then says what to expect of its files.
"""
import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from support.pixel_jobs import Program

# Words of our messages for each kind of refusal of the manifest; the kind itself is one.
WORDS = {
    "checksum": ["wrong checksum"], "zip": ["zip"], "pickle": ["object", "pickle"], "range": ["pixel value"], "label range": ["label", "range"],
    "missing array": ["holds", "no array"], "header": ["malformed"], "shape": ["shape", "dtype"], "length": ["shape", "labels"],
    "too large": ["claims", "memory"],
}


def digest(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def check_refusal(path, case, refusal):
    if case["must"] == "load":
        return f"refused: {refusal}"
    kind = case.get("error", "")
    if str(path) not in refusal:
        return f"the refusal does not name the file: {refusal}"
    if not any(word in refusal for word in [kind, *WORDS.get(kind, [])]):
        return f"refused as '{refusal}', expected {kind}"
    for sample in re.findall(r"names sample (\d+)", case.get("note", "")):
        if f"[{sample}]" not in refusal:
            return f"the refusal does not name sample {sample}: {refusal}"
    return None


def check_pictures(path, case, pictures):
    """`pictures`: uint8 or float32 [N, H, W, 3]."""
    if case.get("rgb_sha256"):
        return None if digest(pictures) == case["rgb_sha256"] else "other pixels"
    stored = case["images"]
    if case.get("layout") == "NCHW":
        pictures = pictures.transpose(0, 3, 1, 2)
    if np.dtype(stored["dtype"]) != pictures.dtype:
        with np.load(path) as arrays:
            original = arrays["images"]
        return None if digest(original) == stored["sha256"] and np.array_equal(original.astype(np.float32), pictures) else "other pixels"
    return None if digest(pictures) == stored["sha256"] else "other pixels"


def check(path, case, answer):
    if answer.pixels is None:
        return check_refusal(path, case, answer.refusal)
    if case["must"] == "error":
        return f"loaded, expected a refusal as {case.get('error')}"
    count = len(answer.numbers)
    labels = np.array(answer.numbers, np.int64)
    values = case.get("labels", {}).get("values")
    if values is not None and labels.tolist() != [int(value) for value in values]:
        return f"labels {labels.tolist()}, expected {values}"
    height, width, channels = answer.pixels.shape
    if channels == 12:
        pixels = answer.pixels.reshape(-1).view(np.float32)
        return check_pictures(path, case, pixels.reshape(count, height // count, width, 3))
    return check_pictures(path, case, answer.pixels.reshape(count, height // count, width, 3))


def check_cases(program, folder):
    manifest = json.loads((folder / "npz_manifest.json").read_text())
    for case in manifest["cases"]:
        path = folder / case["file"]
        program.add(["npz", 3, path, manifest["num_classes"]], functools.partial(check, path, case))
    program.run()


def main():
    program = Program(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run([sys.executable, HERE / "make_npz_cases.py", folder], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if made.returncode:
            print(made.stdout)
            sys.exit("the archives differ from their kept manifest")
        check_cases(program, Path(folder))
    other = os.environ.get("TEMPER_NPZ_CASES")
    if other:
        check_cases(program, Path(other))
    sys.exit(program.report())


if __name__ == "__main__":
    main()
