"""ResNets have torchvision's names, shapes and logits, in both directions; a trained checkpoint opens in Python."""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
import numpy as np
import torch
import torchvision
from PIL import Image

from support.programs import ProgramTest, run, SOURCE


class ResNet(ProgramTest):
    def temper_logits(self, architecture, weights, images):
        torch.save({"images": images}, self.folder / "images.pt")
        done = subprocess.run([os.environ["TEMPER_TEST_PROGRAM"], architecture, weights, self.folder / "images.pt",
                               self.folder / "logits.pt"], text=True, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return torch.load(self.folder / "logits.pt", weights_only=True)["logits"]

    def test_torchvision_weights_give_the_same_logits(self):
        torch.manual_seed(0)
        images = torch.rand(2, 3, 64, 64)
        for name in ("resnet18", "resnet34", "resnet50"):
            model = getattr(torchvision.models, name)(num_classes=12)
            for buffer in model.buffers():  # running statistics that are not trivial
                if buffer.dim():
                    buffer.uniform_(0.5, 1.5)
            model.eval()
            torch.save(model.state_dict(), self.folder / f"{name}.pt")
            with torch.no_grad():
                expected = model(images)
            actual = self.temper_logits(name, self.folder / f"{name}.pt", images)
            error = ((actual - expected).abs() / (1 + expected.abs())).max().item()
            self.assertLess(error, 1e-5, name)

    def test_trained_checkpoint_loads_into_torchvision(self):
        rng = np.random.default_rng(0)
        for split in ("train", "validation"):
            for label in ("a", "b", "c"):
                folder = self.folder / split / label
                folder.mkdir(parents=True)
                for i in range(4):
                    pixels = rng.integers(0, 256, (40, 48, 3), dtype=np.uint8)
                    Image.fromarray(pixels).save(folder / f"{i}.jpg")
        out = self.folder / "run"
        done = run("trainer", "--config", SOURCE / "configs/resnet18_imagenet100.yaml", "--nproc", 2, "--run-dir", out,
                   f"data.train={self.folder}/train", f"data.validation={self.folder}/validation", "data.classes=3",
                   "data.image_size=32", "training.global_batch_size=4", "training.max_updates=2", "training.epochs=1",
                   "schedule.name=constant", "method.attack.steps=1", "validation.attack.steps=1")
        self.assertStatus(done, 0)
        checkpoint = torch.load(out / "checkpoints/last.pt", weights_only=True)
        for key in ("format_version", "model", "average", "optimizer", "schedule", "progress", "method", "config"):
            self.assertIn(key, checkpoint)
        model = torchvision.models.resnet18(num_classes=3)
        model.load_state_dict(checkpoint["model"], strict=True)
        model.eval()
        images = torch.rand(2, 3, 32, 32)
        with torch.no_grad():
            expected = model(images)
        actual = self.temper_logits("resnet18", out / "checkpoints/last.pt", images)
        self.assertLess(((actual - expected).abs() / (1 + expected.abs())).max().item(), 1e-5)


if __name__ == "__main__":
    unittest.main()
