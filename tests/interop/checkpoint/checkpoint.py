"""Checkpoints between Temper and Python, both ways: checkpoint.py PROGRAM."""

import argparse
import collections
import math
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile

import torch
import torchvision

PROGRAM = sys.argv[1]


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60)


class CheckpointTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def pass_through(self, value, command="convert", **options):
        """What Python reads back after Temper read and wrote `value`."""
        torch.save(value, self.path("in.pt"), **options)
        result = run(command, self.path("in.pt"), self.path("out.pt"))
        self.assertEqual(result.returncode, 0, result.stderr)
        return torch.load(self.path("out.pt"), weights_only=True)

    def refusal_of(self, command="convert"):
        result = run(command, self.path("in.pt"), self.path("out.pt"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("in.pt: ", result.stderr)
        return result.stderr

    def assert_same(self, left, right):
        if isinstance(right, torch.Tensor):
            self.assertEqual(left.dtype, right.dtype)
            self.assertEqual(left.shape, right.shape)
            self.assertTrue(torch.equal(left, right.detach()))
        elif isinstance(right, dict):
            self.assertEqual([str(key) for key in left], [str(key) for key in right])
            for (_, a), (_, b) in zip(left.items(), right.items()):
                self.assert_same(a, b)
        elif isinstance(right, (list, tuple)):
            self.assertEqual(len(left), len(right))
            for a, b in zip(left, right):
                self.assert_same(a, b)
        else:
            self.assertIs(type(left), type(right))
            self.assertEqual(left, right)

    def test_python_opens_a_checkpoint(self):
        self.assertEqual(run("write", self.path("a.pt")).returncode, 0)
        for mmap in (False, True):
            value = torch.load(self.path("a.pt"), weights_only=True, mmap=mmap)
            weight = torch.arange(24.0).reshape(2, 3, 2, 2)
            base = torch.arange(120.0).reshape(2, 3, 4, 5)
            self.assert_same(value, {
                "format_version": 1,
                "model": {
                    "conv1.weight": weight,
                    "bn1.running_var": torch.full((3,), 0.1, dtype=torch.float64),
                    "bn1.num_batches_tracked": torch.tensor(1234567890123),
                    "half": torch.arange(3).half(),
                    "mask": torch.tensor([False, True]),
                    "empty": torch.empty(0, 4),
                },
                "average": None,
                "optimizer": {"momentum": [-weight, 0.9]},
                "progress": {"samples": 1 << 40, "epoch": -3, "best": math.inf, "done": False},
                "config": "name: \"\u00e9t\u00e9\"\n",
                "views": {"slice": base[:, 2], "transposed": base.transpose(0, 3), "channels_last": base,
                          "bfloat16": base.bfloat16(), "tied": base, "tied_again": base},
            })
            self.assertIs(type(value["model"]), dict)
            views = value["views"]
            self.assertEqual(views["tied"].data_ptr(), views["tied_again"].data_ptr())
        with zipfile.ZipFile(self.path("a.pt")) as archive:
            self.assertIsNone(archive.testzip())
            self.assertIn("checkpoint/manifest.json", archive.namelist())

    def test_values_of_python_survive(self):
        base = torch.arange(60.0).reshape(3, 4, 5)
        self.pass_through({"a": base})
        value = {
            "types": [torch.arange(4).to(dtype) for dtype in (
                torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.uint8, torch.int8, torch.int16,
                torch.int32, torch.int64, torch.bool, torch.complex64)],
            "views": {"slice": base[1:, ::2, 3], "transposed": base.mT, "expanded": base[0, 0].expand(2, 5),
                      "channels_last": torch.rand(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)},
            "parameter": torch.nn.Parameter(torch.ones(2)),
            "empty": torch.empty(0),
            "scalar": torch.tensor(2.5),
            "numbers": [0, 1, 255, 256, 65536, -1, 1 << 40, -(1 << 40), 0.1, -math.inf, True, False, None],
            "size": torch.Size([1, 2]),
            "text": "caf\u00e9 \U0001f600" * 100,
            "nested": collections.OrderedDict(b=[{"x": (1, (2, 3))}], a={}),
            7: "integer key",
        }
        for protocol in (2, 3, 4, 5):
            self.assert_same(self.pass_through(value, pickle_protocol=protocol), value)

    def test_optimizer_and_state_dict(self):
        model = torchvision.models.resnet18(num_classes=7)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        model(torch.rand(2, 3, 32, 32)).sum().backward()
        optimizer.step()
        state = model.state_dict()
        for value in (state, {"state_dict": state, "epoch": 3}, {"model": state, "optimizer": optimizer.state_dict()},
                      torch.nn.DataParallel(model).state_dict()):
            read = self.pass_through(value, "state")
            self.assertEqual(list(read), list(state))
            self.assert_same(read, dict(state))
        self.assert_same(self.pass_through(optimizer.state_dict()), optimizer.state_dict())

    def test_weights_of_a_checkpoint(self):
        run("write", self.path("in.pt"))
        self.assertEqual(run("state", self.path("in.pt"), self.path("out.pt")).returncode, 0)
        self.assertEqual(torch.load(self.path("out.pt"), weights_only=True)["mask"].tolist(), [False, True])

    def test_archive_without_checksums(self):
        torch.serialization.set_crc32_options(False)
        self.addCleanup(torch.serialization.set_crc32_options, True)
        self.assert_same(self.pass_through({"a": torch.ones(3)}), {"a": torch.ones(3)})

    def test_refusals_name_the_reason(self):
        torch.save({"args": argparse.Namespace(lr=1)}, self.path("in.pt"))
        self.assertIn("'argparse.Namespace'", self.refusal_of())
        torch.save(torch.nn.Linear(2, 2), self.path("in.pt"))
        self.assertIn("'torch.nn.modules.linear.Linear'", self.refusal_of())
        torch.save({"a": torch.ones(2)}, self.path("in.pt"), _use_new_zipfile_serialization=False)
        self.assertIn("before 1.6", self.refusal_of())
        torch.jit.script(torch.nn.Linear(2, 2)).save(self.path("in.pt"))
        self.assertIn("TorchScript", self.refusal_of())
        torch.save({"epoch": 3, "a": torch.ones(2)}, self.path("in.pt"))
        self.assertIn("'epoch' is of type int, not a tensor", self.refusal_of("state"))
        with zipfile.ZipFile(self.path("in.pt"), "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("archive/data.pkl", b"N.")
        self.assertIn("compressed", self.refusal_of())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
