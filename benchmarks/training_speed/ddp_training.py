"""The peer of benchmarks/training_speed: a minimal DDP loop for ResNet-18 on 32x32 images. Run by torchrun.

It has less to do than Temper: all images lie on the device as floats before the first update, and nothing is logged,
checked or saved.
"""
import argparse
import json
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(out + self.shortcut(x))


def resnet18(classes=10):
    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    width = 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(width, outputs, stride), Block(outputs, outputs, 1)]
        width = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


def divergence(adversarial, clean):
    return F.kl_div(F.log_softmax(adversarial, 1), F.log_softmax(clean, 1), reduction="batchmean", log_target=True)


def attack(net, images, steps, epsilon=8 / 255, step_size=2 / 255):
    net.eval()
    with torch.no_grad():
        clean = net(images)
    perturbed = images + 0.001 * torch.randn_like(images)
    for _ in range(steps):
        perturbed.requires_grad_(True)
        gradient, = torch.autograd.grad(divergence(net(perturbed), clean), perturbed)
        perturbed = perturbed.detach() + step_size * gradient.sign()
        perturbed = (images + (perturbed - images).clamp(-epsilon, epsilon)).clamp(0, 1)
    net.train()
    return perturbed


def read_images(path, device):
    rows = torch.frombuffer(bytearray(open(path, "rb").read()), dtype=torch.uint8).view(-1, 3073)
    return rows[:, 1:].view(-1, 3, 32, 32).to(device).float().div_(255), rows[:, 0].long().to(device)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--method", choices=("standard", "trades"), required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), required=True)
    parser.add_argument("--batch", type=int, required=True, help="images a process")
    parser.add_argument("--steps", type=int, required=True, help="of the attack")
    parser.add_argument("--warmup", type=int, required=True)
    parser.add_argument("--updates", type=int, required=True)
    options = parser.parse_args()

    dist.init_process_group("nccl" if options.device == "cuda" else "gloo")
    rank = dist.get_rank()
    device = torch.device("cpu")
    if options.device == "cuda":
        device = torch.device("cuda", rank)
        torch.cuda.set_device(device)
    images, labels = read_images(options.data, device)
    net = resnet18().to(device)
    if options.device == "cuda":
        net = net.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    # Two forwards before one backward need buffers that are not broadcast in between.
    devices = [rank] if options.device == "cuda" else None
    model = DistributedDataParallel(net, device_ids=devices, broadcast_buffers=False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, fused=True)

    def wait():
        if options.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    for update in range(options.warmup + options.updates):
        if update == options.warmup:
            begin = wait()
        chosen = torch.randint(len(images), (options.batch,), device=device)
        batch, target = images[chosen], labels[chosen]
        if options.method == "trades":
            perturbed = attack(net, batch, options.steps)
            logits = model(batch)
            loss = F.cross_entropy(logits, target) + 6 * divergence(model(perturbed), logits)
        else:
            loss = F.cross_entropy(model(batch), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    seconds = wait() - begin
    if rank == 0:
        peak = torch.cuda.max_memory_allocated() / 2**20 if options.device == "cuda" else None
        with open(options.out, "w", encoding="utf-8") as out:
            json.dump({"images_per_second": options.updates * options.batch * dist.get_world_size() / seconds,
                       "memory_mib": peak}, out)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
