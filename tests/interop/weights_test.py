"""Weights between Temper and PyTorch: torchvision's ResNets give equal logits both ways, also through exported files;
a fine-tuning run starts from them; a checkpoint of two ranks opens in Python and equals its export."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
import numpy as np
import torch
import torchvision
from PIL import Image

from support import safetensors_file
from support.programs import ProgramTest, run, SOURCE

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def random_resnet(name, classes):
    """A model in evaluation mode whose running statistics are not trivial."""
    model = getattr(torchvision.models, name)(num_classes=classes)
    for buffer in model.buffers():
        if buffer.dim():
            buffer.uniform_(0.5, 1.5)
    return model.eval()


def logits_of(model, images):
    with torch.no_grad():
        return model(images)


class Weights(ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix="temper-test-"))  # without the digits
        torch.manual_seed(0)
        cls.images = torch.rand(2, 3, 64, 64)
        torch.save({"images": cls.images}, cls.root / "images.pt")
        cls.pretrained = random_resnet("resnet18", 1000)
        cls.pretrained_file = cls.root / "pretrained.pth"
        torch.save(cls.pretrained.state_dict(), cls.pretrained_file)
        rng = np.random.default_rng(0)
        for split in ("train", "validation"):
            for label in ("a", "b", "c"):
                folder = cls.root / "photos" / split / label
                folder.mkdir(parents=True)
                for i in range(4):
                    Image.fromarray(rng.integers(0, 256, (40, 48, 3), dtype=np.uint8)).save(folder / f"{i}.jpg")

    @classmethod
    def fine_tune(cls, *arguments):
        """A learning rate so small that the weights stay those that the run began with."""
        return run("trainer", "--config", SOURCE / "configs/resnet18_imagenet100.yaml",
                   f"data.train={cls.root}/photos/train", f"data.validation={cls.root}/photos/validation",
                   "data.classes=3", "data.image_size=32", "training.global_batch_size=4", "training.epochs=1",
                   "schedule.name=constant", "optimizer.learning_rate=1e-12", "method.attack.steps=1",
                   "validation.attack.steps=1", f"model.initial_weights={cls.pretrained_file}", *arguments)

    def temper_logits(self, architecture, weights):
        done = subprocess.run([os.environ["TEMPER_TEST_PROGRAM"], architecture, weights, self.root / "images.pt",
                               self.folder / "logits.pt"], text=True, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return torch.load(self.folder / "logits.pt", weights_only=True)["logits"]

    def export(self, checkpoint, target, *arguments):
        done = run("evaluator", "--checkpoint", checkpoint, "--export", target, *arguments)
        self.assertStatus(done, 0)
        return done.stdout

    def assertClose(self, actual, expected, message=None):
        error = ((actual - expected).abs() / (1 + expected.abs())).max().item()
        self.assertLess(error, 1e-5, message)

    def assertSameTensors(self, actual, expected):
        self.assertEqual(sorted(actual), sorted(expected))
        for name, tensor in expected.items():
            self.assertEqual(actual[name].dtype, tensor.dtype, name)
            self.assertTrue(torch.equal(actual[name], tensor), name)

    def test_resnets_give_the_same_logits_both_ways(self):
        for name in ("resnet18", "resnet34", "resnet50"):
            model = random_resnet(name, 12)
            expected = logits_of(model, self.images)
            torch.save(model.state_dict(), self.folder / "python.pt")
            self.assertClose(self.temper_logits(name, self.folder / "python.pt"), expected, name)
            safetensors_file.write(self.folder / "python.safetensors", model.state_dict())
            if name == "resnet18":  # the same reader for all
                self.assertClose(self.temper_logits(name, self.folder / "python.safetensors"), expected, name)

            self.export(self.folder / "python.safetensors", self.folder / "temper.pt")
            state = torch.load(self.folder / "temper.pt", weights_only=True)
            self.assertIs(type(state), dict)
            other = getattr(torchvision.models, name)(num_classes=12).eval()
            other.load_state_dict(state)
            self.assertClose(logits_of(other, self.images), expected, name)

            self.export(self.folder / "python.pt", self.folder / "temper.safetensors")
            state, metadata = safetensors_file.read(self.folder / "temper.safetensors")
            self.assertEqual(metadata, {"format": "pt"})
            self.assertSameTensors(state, model.state_dict())

    def test_fine_tuning_starts_from_torchvision_and_its_checkpoint_goes_back(self):
        out = self.folder / "run"
        done = self.fine_tune("--nproc", 2, "--smoke", "--run-dir", out, "model.ignore_initial=[fc]")
        self.assertStatus(done, 0)
        self.assertIn(f"initial weights: 120 of 122 tensors from {self.pretrained_file}; "
                      "drawn anew: fc.weight, fc.bias\n", done.stdout)
        checkpoint = torch.load(out / "checkpoints/last.pt", weights_only=True, map_location="cpu")
        for key in ("format_version", "model", "average", "optimizer", "schedule", "progress", "method", "config"):
            self.assertIn(key, checkpoint)
        for name, parameter in self.pretrained.named_parameters():
            if not name.startswith("fc."):
                self.assertTrue(torch.allclose(checkpoint["model"][name], parameter, rtol=1e-5, atol=1e-8), name)
        bound = 1 / 512 ** 0.5
        self.assertLessEqual(checkpoint["model"]["fc.weight"].abs().max().item(), 1.001 * bound)
        self.assertGreater(checkpoint["model"]["fc.weight"].abs().max().item(), 0.5 * bound)

        model = torchvision.models.resnet18(num_classes=3).eval()
        model.load_state_dict(checkpoint["model"], strict=True)
        self.assertClose(self.temper_logits("resnet18", out / "checkpoints/last.pt"), logits_of(model, self.images))

        text = self.export(out / "checkpoints/last.pt", self.folder / "out.pt")
        self.assertIn("122 tensors", text)
        self.assertIn(f"mean {MEAN}, std {STD}", text)
        state = torch.load(self.folder / "out.pt", weights_only=True)
        self.assertEqual(list(state), list(model.state_dict()))
        self.assertSameTensors(state, checkpoint["model"])
        text = self.export(out / "checkpoints/last.pt", self.folder / "out.safetensors", "--json")
        self.assertEqual(json.loads(text)["normalization"], {"mean": MEAN, "std": STD})
        self.assertSameTensors(safetensors_file.read(self.folder / "out.safetensors")[0], checkpoint["model"])
        self.assertClose(self.temper_logits("resnet18", self.folder / "out.safetensors"), logits_of(model, self.images))

        done = run("evaluator", "--checkpoint", out / "checkpoints/last.pt", "--export", self.folder / "out.pt",
                   "--average")
        self.assertStatus(done, 2)
        self.assertIn("last.pt: it has no weight average", done.stderr)
        self.assertSameTensors(torch.load(self.folder / "out.pt", weights_only=True), checkpoint["model"])

    def test_another_number_of_classes_is_refused_with_the_way_out(self):
        done = self.fine_tune("--nproc", 2, "--run-dir", self.folder / "run")
        self.assertStatus(done, 2)
        self.assertIn("fc.weight [1000, 512] instead of [3, 512]", done.stderr)
        self.assertIn("for another number of classes set model.ignore_initial: [fc]", done.stderr)
        self.assertFalse((self.folder / "run").exists())
        done = self.fine_tune("--dry-run", "model.ignore_initial=[fc]")
        self.assertStatus(done, 0)
        self.assertIn("initial weights: 120 of 122 tensors", done.stdout)
        done = self.fine_tune("--run-dir", self.folder / "run", "model.ignore_initial=[fd]")
        self.assertStatus(done, 2)
        self.assertIn("model.ignore_initial: neither", done.stderr)
        self.assertIn("has a 'fd'; did you mean 'fc'?", done.stderr)

    def test_half_precision_and_wrapped_state_dicts_load(self):
        expected = logits_of(self.pretrained, self.images)
        wrapped = {f"module.{name}": tensor for name, tensor in self.pretrained.state_dict().items()}
        torch.save({"epoch": 3, "state_dict": wrapped}, self.folder / "wrapped.pt")
        self.assertClose(self.temper_logits("resnet18", self.folder / "wrapped.pt"), expected)

        half = {name: tensor.half() if tensor.is_floating_point() else tensor
                for name, tensor in self.pretrained.state_dict().items()}
        rounded = torchvision.models.resnet18().eval()
        rounded.load_state_dict(half)
        torch.save(half, self.folder / "half.pt")
        self.assertClose(self.temper_logits("resnet18", self.folder / "half.pt"), logits_of(rounded, self.images))

    def test_every_type_survives_safetensors(self):
        tensors = {f"{name}.{i}": (torch.arange(6) % 2 if name == "BOOL" else torch.arange(6)).to(dtype).reshape(shape)
                   for name, dtype in safetensors_file.TYPES.items()
                   for i, shape in enumerate(((2, 3), (6,), (1, 6, 1)))}
        tensors["empty"] = torch.empty(0, 3)
        tensors["scalar"] = torch.tensor(1.5, dtype=torch.bfloat16)
        safetensors_file.write(self.folder / "in.safetensors", tensors)
        self.export(self.folder / "in.safetensors", self.folder / "out.safetensors")
        self.assertSameTensors(safetensors_file.read(self.folder / "out.safetensors")[0], tensors)
        self.export(self.folder / "out.safetensors", self.folder / "out.pt")
        self.assertSameTensors(torch.load(self.folder / "out.pt", weights_only=True), tensors)

    def test_exports_that_cannot_be_are_one_clear_error(self):
        target = self.folder / "out.pt"
        target.write_bytes(b"old")
        damaged = self.folder / "damaged.pt"
        damaged.write_bytes(self.pretrained_file.read_bytes()[:-100])
        (self.folder / "folder.pt").mkdir()
        for checkpoint, out, text in (
                (self.pretrained_file, self.folder / "out.onnx", "must end in .pt, .pth or .safetensors"),
                (self.folder / "none.pt", target, "none.pt: No such file"),
                (damaged, target, "damaged.pt: "),
                (self.pretrained_file, self.folder / "none/out.pt", "none/out.pt: No such file"),
                (self.pretrained_file, self.folder / "folder.pt", "Is a directory"),
                (self.pretrained_file, self.pretrained_file, "the checkpoint itself")):
            done = run("evaluator", "--checkpoint", checkpoint, "--export", out)
            self.assertStatus(done, 2)
            self.assertIn(text, done.stderr)
            self.assertEqual(done.stderr.count("error:"), 1)
        self.assertEqual(target.read_bytes(), b"old")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["damaged.pt", "folder.pt", "out.pt"])
        done = run("evaluator", "--checkpoint", self.pretrained_file, "--export", target, "method.beta=4")
        self.assertStatus(done, 2)
        self.assertIn("--export evaluates nothing", done.stderr)
        done = run("evaluator", "--checkpoint", self.pretrained_file)
        self.assertStatus(done, 2)
        self.assertIn("--config is missing", done.stderr)


if __name__ == "__main__":
    unittest.main()
