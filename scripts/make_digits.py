#!/usr/bin/env python3
"""Writes data/digits.npz: the UCI handwritten digits as scikit-learn ships them.

    .deps/venv/bin/python scripts/make_digits.py [OUT]

Levels 0 ... 16 become bytes by round(255 level / 16). The last 360 samples are the test split, the 180 before them
validation, the rest training; scikit-learn's order is kept. The file is written byte for byte the same each time.
Needs numpy and scikit-learn.
"""
import io
import sys
import zipfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

SPLITS = {"train": slice(0, -540), "validation": slice(-540, -360), "test": slice(-360, None)}


def npy_bytes(array):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def main():
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent / "data" / "digits.npz"
    digits = load_digits()
    images = np.rint(255 * digits.images / 16).astype(np.uint8)
    labels = digits.target.astype(np.int64)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for split, rows in SPLITS.items():
            for kind, array in (("images", images[rows]), ("labels", labels[rows])):
                # A fixed date keeps the archive reproducible.
                entry = zipfile.ZipInfo(f"{split}_{kind}.npy", date_time=(1998, 7, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, npy_bytes(array))
    print(f"{out}: {len(labels)} samples, {out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
