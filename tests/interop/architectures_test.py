"""Architectures of the adversarial-training repositories against PyTorch: names, logits, gradients and statistics in double,
and weights under the names of TRADES, AWP and RobustBench."""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")
import torch

from interop import architecture_peers as peers
from support.programs import clean_environment, ProgramTest, run, SOURCE

TOLERANCE = 1e-11
MEAN = (0.4914, 0.4822, 0.4465)
BLOCK = {"batchnorm_0": "bn1", "conv_0": "conv1", "batchnorm_1": "bn2", "conv_1": "conv2", "shortcut": "convShortcut"}


def trades_name(name):
    """Of a tensor that DeepMind's code names."""
    parts = name.split(".")
    if parts[0] == "layer":
        return f"block{int(parts[1]) + 1}.layer.{parts[3]}.{BLOCK[parts[4]]}.{parts[5]}"
    return {"init_conv": "conv1", "batchnorm": "bn1", "logits": "fc"}[parts[0]] + "." + parts[1]


def randomise(model):
    """Statistics and scales that are not trivial."""
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if name.endswith("running_var"):
                tensor.uniform_(0.5, 1.5)
            elif name.endswith(("running_mean", "bias")):
                tensor.normal_(0, 0.3)
            elif tensor.dim() == 1 and name.endswith("weight"):
                tensor.uniform_(0.5, 1.5)
    return model.double()


def gradients_of(model, images, weights):
    images = images.clone().requires_grad_()
    logits = model(images)
    (logits * weights).sum().backward()
    return {"logits": logits.detach(), "image_gradient": images.grad}


class Architectures(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        torch.manual_seed(0)
        torch.set_num_threads(1)

    def program(self, *arguments):
        return subprocess.run([os.environ["TEMPER_TEST_PROGRAM"], *map(str, arguments)], text=True, capture_output=True,
                              timeout=120, env=clean_environment(OMP_NUM_THREADS=1))

    def given(self, architecture, state, size=32, classes=10, normalization=None):
        """Runs the program on a file with `state`: its process, what it was given, what it computed."""
        data = {"images": torch.rand(3, 3, size, size, dtype=torch.double),
                "weights": torch.randn(3, classes, dtype=torch.double)}
        if normalization:
            data["mean"], data["std"] = (torch.tensor(v, dtype=torch.double) for v in normalization)
        torch.save(data, self.folder / "input.pt")
        torch.save(state, self.folder / "weights.pt")
        done = self.program(architecture, self.folder / "weights.pt", self.folder / "input.pt", self.folder / "out.pt")
        return done, data, torch.load(self.folder / "out.pt", weights_only=True) if done.returncode == 0 else {}

    def assertClose(self, actual, expected, what):
        self.assertEqual(actual.shape, expected.shape, what)
        self.assertLess(((actual - expected).abs() / (1 + expected.abs())).max().item(), TOLERANCE, what)

    def assertEqualNets(self, architecture, model, state=None, rename=lambda name: name, **settings):
        """`state` is what the program reads, where it is not the model's own."""
        done, data, actual = self.given(architecture, state or model.state_dict(), **settings)
        self.assertEqual(done.returncode, 0, done.stderr)
        model.eval()
        expected = gradients_of(model, data["images"], data["weights"])
        for name in ("logits", "image_gradient"):
            self.assertClose(actual[f"attack/{name}"], expected[name], name)
        self.assertClose(actual["evaluation/logits"], expected["logits"], "without gradients")
        model.zero_grad()
        model.train()
        for name, value in gradients_of(model, data["images"], data["weights"]).items():
            self.assertClose(actual[f"training/{name}"], value, f"training {name}")
        for name, parameter in model.named_parameters():
            if not name.startswith("sub_block1."):
                self.assertClose(actual[f"gradient/{rename(name)}"], parameter.grad, name)
        for name, tensor in model.state_dict().items():
            if not name.startswith("sub_block1.") and name not in ("mean", "std"):
                self.assertClose(actual[f"state/{rename(name)}"], tensor, name)
        return done.stdout

    def test_names_shapes_and_order_are_those_of_the_repositories(self):
        with torch.device("meta"):
            nets = {"preactresnet18": peers.PreActResNet18()}
            for depth, width in ((28, 10), (34, 10), (70, 16)):
                nets[f"wideresnet{depth}_{width}"] = peers.TradesWideResNet(depth, width)
            nets["wideresnet28_10_silu"] = nets["wideresnet28_10"]  # DeepMind's names are translated
        counts = {}
        for architecture, model in nets.items():
            done = self.program(architecture)
            expected = [f"{name} [{', '.join(map(str, tensor.shape))}]" for name, tensor in model.state_dict().items()]
            self.assertEqual(done.stdout.splitlines(), expected, architecture)
            counts[architecture] = sum(parameter.numel() for parameter in model.parameters())
        self.assertEqual({name: round(count / 1e6, 1) for name, count in counts.items()},
                         {"preactresnet18": 11.2, "wideresnet28_10": 36.5, "wideresnet34_10": 46.2,
                          "wideresnet70_16": 266.8, "wideresnet28_10_silu": 36.5})

    def test_preactresnet18(self):
        line = self.assertEqualNets("preactresnet18", randomise(peers.PreActResNet18()))
        self.assertEqual(line, f"initial weights: 107 of 107 tensors from {self.folder}/weights.pt\n")

    def test_wide_resnet_at_two_sizes(self):
        for size in (32, 30):
            self.assertEqualNets("wideresnet16_2", randomise(peers.TradesWideResNet(16, 2)), size=size)

    def test_the_unused_stage_of_trades_is_left_out(self):
        model = randomise(peers.TradesWideResNet(16, 2, unused=True))
        for state in (model.state_dict(), {f"module.{k}": v for k, v in model.state_dict().items()}):
            line = self.assertEqualNets("wideresnet16_2", model, state)
            self.assertIn("83 of 83 tensors", line)
            self.assertIn("; 25 tensors of the unused sub_block1 left out\n", line)

    def test_deepminds_form_under_robustbenchs_names(self):
        model = randomise(peers.DeepMindWideResNet(16, 2))
        for prefix in ("", "module.", "module.0."):
            state = {prefix + name: tensor for name, tensor in model.state_dict().items()}
            line = self.assertEqualNets("wideresnet16_2_silu", model, state, trades_name,
                                        normalization=(model.mean.flatten().tolist(), model.std.flatten().tolist()))
            self.assertIn("83 of 83 tensors", line)
            self.assertIn("; names translated from DeepMind's wide ResNet, as in RobustBench", line)
            self.assertIn("; its normalisation is that of data.normalization\n", line)

    def test_deepminds_form_under_temper_names_and_other_sizes(self):
        model = randomise(peers.DeepMindWideResNet(16, 2, mean=(0.0,) * 3, std=(1.0,) * 3))
        state = {trades_name(n): t for n, t in model.state_dict().items() if n not in ("mean", "std")}
        for size in (32, 20):
            self.assertEqualNets("wideresnet16_2_silu", model, state, trades_name, size=size)

    def test_wrapped_models_with_a_normalisation_layer(self):
        model = randomise(peers.TradesWideResNet(16, 2))
        state = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
        state["normalize.mean"] = torch.zeros(1, 3, 1, 1)
        state["normalize.std"] = torch.ones(1, 3, 1, 1)
        line = self.assertEqualNets("wideresnet16_2", model, state)
        self.assertIn("; 'model.' before all names taken off; its normalisation is that of data.normalization\n", line)

    def test_robustbenchs_preactresnet_and_another_normalisation(self):
        state = peers.PreActResNet18().state_dict()
        state["mu"] = torch.tensor(MEAN).view(1, 3, 1, 1)
        state["sigma"] = torch.tensor((0.2471, 0.2435, 0.25)).view(1, 3, 1, 1)
        torch.save(state, self.folder / "rice.pt")
        done = run("trainer", "--config", SOURCE / "configs/resnet18_cifar10_trades.yaml", "--dry-run",
                   "model.architecture=preactresnet18", "model.small_images=false",
                   f"model.initial_weights={self.folder}/rice.pt")
        self.assertStatus(done, 0)
        self.assertIn("(11172170 values)", done.stdout)
        self.assertIn(f"initial weights: 107 of 107 tensors from {self.folder}/rice.pt; WARNING: its normalisation, mean "
                      "[0.4914, 0.4822, 0.4465], std [0.2471, 0.2435, 0.25], is not data.normalization, mean "
                      "[0.4914, 0.4822, 0.4465], std [0.2471, 0.2435, 0.2616]\n", done.stdout)

    def test_the_evaluator_takes_such_a_file(self):
        model = randomise(peers.PreActResNet18(channels=1)).float()
        state = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
        state.update({"normalize.mean": torch.full((1, 1, 1, 1), 0.5), "normalize.std": torch.ones(1, 1, 1, 1)})
        torch.save(state, self.folder / "weights.pt")
        done = run("evaluator", "--checkpoint", self.folder / "weights.pt", "--config", SOURCE / "configs/digits_trades.yaml",
                   "--nproc", 1, "--attack", "none", "model.architecture=preactresnet18", *self.digits_overrides())
        self.assertStatus(done, 0)
        self.assertEqual(done.stderr.count("'model.' before all names taken off; WARNING: its normalisation, mean [0.5], "
                                           "std [1], is not data.normalization, none"), 1, done.stderr)

    def test_files_of_other_nets_are_one_clear_error(self):
        deepmind = peers.DeepMindWideResNet(16, 2).state_dict()
        without_norm = {n: t for n, t in peers.PreActResNet18().state_dict().items() if not n.startswith("bn.")}
        small = peers.TradesWideResNet(16, 2, classes=5).state_dict()
        deepmind_preact = {"conv_2d.weight": torch.ones(1), "layer_0.0.conv_2d_1.weight": torch.ones(1)}
        odd = dict(deepmind, **{"layer.0.block.0.gate.weight": torch.ones(1)})
        for architecture, state, text in (
                ("wideresnet16_2", deepmind, "whose activation and padding are others"),
                ("resnet18", deepmind, "set model.architecture to wideresnet28_10_silu, wideresnet34_10_silu or wideresnet70_16_silu"),
                ("wideresnet28_10_silu", deepmind, "block1.layer.0.bn2.weight [32] instead of [160]"),
                ("wideresnet16_2_silu", odd, "1 unexpected: layer.0.block.0.gate.weight"),
                ("preactresnet18", without_norm, "without batch norm before the last layer"),
                ("preactresnet18", deepmind_preact, "whose shortcuts are 3x3 convolutions"),
                ("wideresnet16_2", small, "for another number of classes set model.ignore_initial: [fc]"),
                ("preactresnet18", small, "the weights do not fit the model")):
            done, _, _ = self.given(architecture, state)
            self.assertEqual(done.returncode, 1, text)
            self.assertIn(text, done.stderr)
            self.assertIn(f"{self.folder}/weights.pt: ", done.stderr)


if __name__ == "__main__":
    unittest.main()
