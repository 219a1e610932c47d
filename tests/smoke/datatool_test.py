"""datatool from outside: what other programs can read of it, its exit statuses, and commands of docs/data.md."""
import gzip
import json
import re
import struct
import subprocess
import sys
import unittest

import numpy

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
from support.programs import clean_environment, LIMIT, ProgramTest, run, SOURCE


def idx(array):
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


class Datatool(ProgramTest):
    def json(self, *arguments, status=0):
        done = run("datatool", *arguments, "--json")
        self.assertStatus(done, status)
        return json.loads(done.stdout)

    def assertRefused(self, status, text, *arguments):
        before = sorted(self.folder.iterdir())
        done = run("datatool", *arguments)
        self.assertStatus(done, status)
        self.assertIn(text, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(sorted(self.folder.iterdir()), before, "a refused command left something behind")

    def test_numpy_reads_what_is_converted(self):
        source = numpy.load(SOURCE / "data/digits.npz")
        self.json("convert", f"{SOURCE}/data/digits.npz#test", self.folder / "x.npz", "--to", "npz")
        copy = numpy.load(self.folder / "x.npz")
        numpy.testing.assert_array_equal(copy["images"], source["test_images"])
        numpy.testing.assert_array_equal(copy["labels"], source["test_labels"])
        self.json("pack", self.folder / "x.npz", self.folder / "packs", "--shards", 3)
        self.json("convert", self.folder / "packs", self.folder / "y.npz", "--to", "npz")
        self.assertEqual((self.folder / "y.npz").read_bytes(), (self.folder / "x.npz").read_bytes())

    def test_idx_files_written_by_another_program(self):
        random = numpy.random.default_rng(0)
        images = random.integers(0, 256, (30, 9, 7), dtype=numpy.uint8)
        labels = random.integers(0, 10, 30, dtype=numpy.uint8)
        (self.folder / "raw").mkdir()
        (self.folder / "raw/train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
        (self.folder / "raw/train-labels-idx1-ubyte").write_bytes(idx(labels))
        self.json("convert", self.folder, self.folder / "x.npz", "--to", "npz")
        copy = numpy.load(self.folder / "x.npz")
        numpy.testing.assert_array_equal(copy["images"], images)
        numpy.testing.assert_array_equal(copy["labels"], labels)
        self.assertEqual(self.json("stats", self.folder)["bytes"]["total"], images.size)

    def test_exit_statuses(self):
        self.json("pack", "samples=10,size=4", self.folder / "x.pack")
        self.assertEqual(self.json("verify", self.folder / "x.pack")["bad"], [])
        self.assertRefused(2, "exists already", "pack", "samples=10", self.folder / "x.pack")
        self.assertRefused(2, "cannot convert to 'tar'", "convert", "samples=10", self.folder / "y", "--to", "tar")
        self.assertRefused(2, "No such file", "stats", self.folder / "none")
        self.assertRefused(2, "is not name=number", "stats", "1000", "--format", "synthetic")
        self.assertRefused(1, "cannot create", "pack", "samples=10", self.folder / "none/x.pack")
        with open(self.folder / "x.pack", "r+b") as file:
            file.seek(128)
            file.write(b"damaged")
        bad = self.json("verify", self.folder / "x.pack", status=1)["bad"]
        self.assertEqual([sample["offset"] for sample in bad], [128])
        self.assertRefused(1, "wrong checksum", "convert", self.folder / "x.pack", self.folder / "y.npz", "--to", "npz")

    def test_imagenet100_by_the_commands_of_the_documentation(self):
        text = (SOURCE / "docs/data.md").read_text().split("## ImageNet-100")[1]
        loop = re.search(r"^for split.*?^done\n", text, re.MULTILINE | re.DOTALL).group(0)
        (self.folder / "data").mkdir()
        (self.folder / "data/imagenet100_classes.txt").symlink_to(SOURCE / "data/imagenet100_classes.txt")
        classes = (SOURCE / "data/imagenet100_classes.txt").read_text().split()
        self.assertEqual(len(set(classes)), 100)
        self.assertEqual(classes, sorted(classes))
        self.json("unpack", "samples=101,size=4,classes=101", self.folder / "all")
        for split in ("train", "val"):
            (self.folder / "imagenet" / split).mkdir(parents=True)
            for number, name in enumerate([*classes, "n00000000"]):
                (self.folder / "imagenet" / split / name).symlink_to(self.folder / f"all/{number:03}")
        subprocess.run(["bash", "-ec", loop], cwd=self.folder, check=True, timeout=LIMIT, env=clean_environment())
        stats = self.json("stats", self.folder / "data/imagenet100/val")
        self.assertEqual([item["name"] for item in stats["classes"]], classes)
        self.assertEqual(stats["samples"], 100)
        self.json("index", self.folder / "data/imagenet100/train")
        self.assertEqual(self.json("stats", self.folder / "data/imagenet100/train")["samples"], 100)

    def test_an_output_in_the_source_or_under_another_suffix_is_refused(self):
        data = self.folder / "data"
        self.json("unpack", "samples=6,size=4,classes=3", data)
        for name in ("inside", "0/x.pack", "../data/y"):
            form = "pack" if name.endswith("pack") else "folder"
            self.assertRefused(2, "lies in the data that are read", "convert", data, data / name, "--to", form)
        self.assertRefused(2, "is written as pack", "convert", data, self.folder / "x.npz", "--to", "pack")
        self.assertRefused(2, "is written as npz", "convert", data, self.folder / "x.pack", "--to", "npz")
        self.assertRefused(2, "the output has no name", "pack", data, "")

    def test_an_interrupted_or_too_large_write_leaves_nothing(self):
        import resource
        import signal
        import time
        from support.programs import APPS
        many = "samples=4000000,size=64x64,channels=3,classes=10"
        for number in (signal.SIGINT, signal.SIGTERM):
            for to in ("pack", "npz", "folder"):
                output = self.folder / "out"
                process = subprocess.Popen([APPS / "datatool", "convert", many, output, "--to", to],
                                           stderr=subprocess.PIPE, text=True, env=clean_environment())
                deadline = time.monotonic() + LIMIT
                while not list(self.folder.iterdir()):  # it has begun to write
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.02)
                process.send_signal(number)
                _, errors = process.communicate(timeout=LIMIT)
                self.assertEqual(process.returncode, 128 + number, errors)
                self.assertIn("interrupted: nothing was written", errors)
                self.assertEqual(list(self.folder.iterdir()), [])
        done = subprocess.run([APPS / "datatool", "pack", many, self.folder / "x.pack"], text=True, capture_output=True,
                              timeout=LIMIT, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (400000, 400000)))
        self.assertStatus(done, 1)
        self.assertIn("File too large", done.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_every_format_of_files_can_be_written_and_read_again(self):
        colour, gray = "samples=23,size=32,channels=3,classes=10", "samples=23,size=20x28,channels=1,classes=10"
        sources = {"cifar10": colour, "cifar100": "samples=120,size=32,channels=3,classes=100", "mnist": gray}
        for name, source in sources.items():
            self.json("convert", source, self.folder / f"{name}.npz", "--to", "npz")
            original = numpy.load(self.folder / f"{name}.npz")
            for split in ("", "#test"):
                there = f"{self.folder}/{name}{split.strip('#')}"
                self.json("convert", self.folder / f"{name}.npz", there + split, "--to", name)
                self.json("convert", there + split, self.folder / "back.npz", "--to", "npz")
                back = numpy.load(self.folder / "back.npz")
                numpy.testing.assert_array_equal(back["images"], original["images"])
                numpy.testing.assert_array_equal(back["labels"], original["labels"])
                (self.folder / "back.npz").unlink()
        self.assertRefused(2, "cifar10 takes 32 x 32", "convert", gray, self.folder / "no", "--to", "cifar10")
        self.assertRefused(2, "has at most 10 classes", "convert", sources["cifar100"], self.folder / "no", "--to", "cifar10")
        self.assertRefused(2, "give --channels 1", "convert", colour, self.folder / "no", "--to", "mnist")
        self.assertRefused(2, "the splits train and test", "convert", gray, f"{self.folder}/no#val", "--to", "mnist")
        self.assertRefused(2, "too few", "convert", "samples=4,size=32,channels=3,classes=2", self.folder / "no", "--to", "cifar10")


if __name__ == "__main__":
    unittest.main()
