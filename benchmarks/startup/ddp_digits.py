"""The peer of benchmarks/startup: a minimal DDP training of the digits, as a PyTorch user writes it. Run by torchrun.

Same net, batch, optimizer and data as configs/digits_standard.yaml; standard training.
"""
import argparse
import json
import os

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class DigitsCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(32)
        self.fc1 = nn.Linear(512, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = self.bn1(self.conv1(x)).relu_()
        x = self.bn2(self.conv2(x)).relu_()
        return self.fc2(self.fc1(x.flatten(1)).relu_())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--global-batch", type=int, default=128)
    options = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    with np.load(options.data) as arrays:
        images = torch.from_numpy(arrays["train_images"]).unsqueeze(1).float() / 255
        labels = torch.from_numpy(arrays["train_labels"])
    data = TensorDataset(images, labels)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=options.global_batch // world_size, sampler=sampler)
    model = DistributedDataParallel(DigitsCnn())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    update = 0
    for epoch in range(100_000):
        sampler.set_epoch(epoch)
        for batch, target in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(batch), target)
            loss.backward()
            optimizer.step()
            update += 1
            if rank == 0 and update == 1:
                with open(options.out, "a", encoding="utf-8") as log:
                    log.write(json.dumps({"kind": "train", "update": update, "loss": loss.item(),
                                          "threads": torch.get_num_threads(),
                                          "omp": os.environ.get("OMP_NUM_THREADS")}) + "\n")


if __name__ == "__main__":
    main()
