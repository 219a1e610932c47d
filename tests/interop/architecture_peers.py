"""The pre-activation ResNets in PyTorch, written independently of the C++ code: the nets of the TRADES, AWP and
robust_overfitting repositories and of DeepMind's code as RobustBench has it, with the parameter names of each."""
import torch
from torch import nn
from torch.nn import functional as F


def conv3(channels, out, stride=1, padding=1):
    return nn.Conv2d(channels, out, 3, stride, padding, bias=False)


def project(channels, out, stride):
    return nn.Conv2d(channels, out, 1, stride, bias=False)


class TradesBlock(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv1 = conv3(channels, out, stride)
        self.bn2 = nn.BatchNorm2d(out)
        self.conv2 = conv3(out, out)
        self.convShortcut = project(channels, out, stride) if channels != out else None

    def forward(self, x):
        first = torch.relu(self.bn1(x))
        inner = self.conv2(torch.relu(self.bn2(self.conv1(first))))
        return inner + (x if self.convShortcut is None else self.convShortcut(first))


class TradesStage(nn.Module):
    def __init__(self, blocks, channels, out, stride):
        super().__init__()
        self.layer = nn.Sequential(*(TradesBlock(out if i else channels, out, 1 if i else stride)
                                     for i in range(blocks)))

    def forward(self, x):
        return self.layer(x)


class TradesWideResNet(nn.Module):
    """`unused`: with the stage that TRADES' constructor makes and its forward does not call."""

    def __init__(self, depth, width, classes=10, unused=False):
        super().__init__()
        blocks = (depth - 4) // 6
        self.conv1 = conv3(3, 16)
        self.block1 = TradesStage(blocks, 16, 16 * width, 1)
        if unused:
            self.sub_block1 = TradesStage(blocks, 16, 16 * width, 1)
        self.block2 = TradesStage(blocks, 16 * width, 32 * width, 2)
        self.block3 = TradesStage(blocks, 32 * width, 64 * width, 2)
        self.bn1 = nn.BatchNorm2d(64 * width)
        self.fc = nn.Linear(64 * width, classes)

    def forward(self, x):
        x = self.block3(self.block2(self.block1(self.conv1(x))))
        return self.fc(torch.relu(self.bn1(x)).mean((2, 3)))


class DeepMindBlock(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.stride = stride
        self.batchnorm_0 = nn.BatchNorm2d(channels, momentum=0.01)
        self.conv_0 = conv3(channels, out, stride, padding=0)
        self.batchnorm_1 = nn.BatchNorm2d(out, momentum=0.01)
        self.conv_1 = conv3(out, out)
        self.shortcut = project(channels, out, stride) if channels != out else None

    def forward(self, x):
        first = F.silu(self.batchnorm_0(x))
        padded = F.pad(first, (1, 1, 1, 1) if self.stride == 1 else (0, 1, 0, 1))
        inner = self.conv_1(F.silu(self.batchnorm_1(self.conv_0(padded))))
        return inner + (x if self.shortcut is None else self.shortcut(first))


class DeepMindStage(nn.Module):
    def __init__(self, blocks, channels, out, stride):
        super().__init__()
        self.block = nn.Sequential(*(DeepMindBlock(out if i else channels, out, 1 if i else stride)
                                     for i in range(blocks)))

    def forward(self, x):
        return self.block(x)


class DeepMindWideResNet(nn.Module):
    """Normalises its input by the buffers mean and std."""

    def __init__(self, depth, width, classes=10, mean=(0.4914, 0.4822, 0.4465), std=(0.2471, 0.2435, 0.2616)):
        super().__init__()
        blocks = (depth - 4) // 6
        self.register_buffer("mean", torch.tensor(mean).view(3, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(3, 1, 1))
        self.init_conv = conv3(3, 16)
        self.layer = nn.Sequential(DeepMindStage(blocks, 16, 16 * width, 1),
                                   DeepMindStage(blocks, 16 * width, 32 * width, 2),
                                   DeepMindStage(blocks, 32 * width, 64 * width, 2))
        self.batchnorm = nn.BatchNorm2d(64 * width, momentum=0.01)
        self.logits = nn.Linear(64 * width, classes)

    def forward(self, x):
        x = self.layer(self.init_conv((x - self.mean) / self.std))
        return self.logits(F.silu(self.batchnorm(x)).mean((2, 3)))


class PreActBlock(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv1 = conv3(channels, out, stride)
        self.bn2 = nn.BatchNorm2d(out)
        self.conv2 = conv3(out, out)
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(project(channels, out, stride))

    def forward(self, x):
        first = torch.relu(self.bn1(x))
        inner = self.conv2(torch.relu(self.bn2(self.conv1(first))))
        return inner + (self.shortcut(first) if hasattr(self, "shortcut") else x)


class PreActResNet18(nn.Module):
    def __init__(self, classes=10, channels=3):
        super().__init__()
        self.conv1 = conv3(channels, 64)
        self.layer1 = nn.Sequential(PreActBlock(64, 64, 1), PreActBlock(64, 64, 1))
        self.layer2 = nn.Sequential(PreActBlock(64, 128, 2), PreActBlock(128, 128, 1))
        self.layer3 = nn.Sequential(PreActBlock(128, 256, 2), PreActBlock(256, 256, 1))
        self.layer4 = nn.Sequential(PreActBlock(256, 512, 2), PreActBlock(512, 512, 1))
        self.bn = nn.BatchNorm2d(512)
        self.linear = nn.Linear(512, classes)

    def forward(self, x):
        x = self.layer4(self.layer3(self.layer2(self.layer1(self.conv1(x)))))
        return self.linear(torch.relu(self.bn(x)).mean((2, 3)))
