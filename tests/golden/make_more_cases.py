#!/usr/bin/env python3
"""Writes tests/golden/more_cases: cases that the reference folder has no numbers for.

The training loops below are written anew in PyTorch from the papers and the behaviour of the official
codes (TRADES l2 and TRADES-AWP, l2 adversarial training of robust_overfitting, N-FGSM, Free of
fast_adversarial, MART-AWP): one framework's autograd and batch norm against Temper's. Double precision,
one thread. Needs PyTorch alone: `.deps/venv/bin/python tests/golden/make_more_cases.py`.
"""

import copy
import json
import pathlib

import torch
import torch.nn.functional as F
from torch import nn

FOLDER = pathlib.Path(__file__).parent / "more_cases"
BATCHES, COUNT = 3, 8
LEARNING_RATE, MOMENTUM, WEIGHT_DECAY = 0.1, 0.9, 0.0005


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(16)
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        return self.fc(x.mean((2, 3)))


def make_inputs():
    generator = torch.Generator().manual_seed(20)
    shape = (BATCHES, COUNT, 3, 8, 8)
    images = (torch.rand(shape, generator=generator) * 1.25 - 0.125).clamp(0, 1)
    return {
        "images": images,
        "labels": torch.randint(0, 10, (BATCHES, COUNT), generator=generator),
        "randn": torch.randn(shape, generator=generator),
        "unit": torch.rand(shape, generator=generator) * 2 - 1,
    }


def make_net(kind, seed):
    torch.manual_seed(seed)
    net = kind()
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
                module.running_mean.normal_(0, 0.3)
                module.running_var.uniform_(0.5, 2)
                module.weight.uniform_(0.5, 1.5)
                module.bias.normal_(0, 0.2)
                module.num_batches_tracked.fill_(3)
    return net


def input_gradient(loss, images):
    (gradient,) = torch.autograd.grad(loss, images)
    return gradient


def l2_norms(x):
    return x.flatten(1).norm(dim=1).view(-1, 1, 1, 1)


def kl_sum(adversarial_logits, clean_logits):
    return F.kl_div(F.log_softmax(adversarial_logits, 1), F.softmax(clean_logits, 1), reduction="sum")


def attack(net, x, y, case, start):
    """The adversarial images of one batch, and those after the first step."""
    epsilon, step = case["epsilon_value"], case["step_value"]
    divergence = case["method"] == "trades"
    linf = case["norm"] == "linf"
    net.train(case["batch_norm"]["attack"] == "update")
    if case["start"]["kind"] == "normal":
        delta = start.clone()
    else:
        delta = torch.clamp(x + start, 0, 1) - x
    first = None
    for _ in range(case["steps"]):
        images = (x + delta).requires_grad_(True)
        logits = net(images)
        if divergence:
            loss = kl_sum(logits, net(x))
        else:
            loss = F.cross_entropy(logits, y, reduction="sum" if case["method"] == "mart" else "mean")
        gradient = input_gradient(loss, images)
        delta = delta.detach()
        if linf:
            moved = delta + step * gradient.sign()
            if case["method"] != "n_fgsm":
                moved = moved.clamp(-epsilon, epsilon)
            delta = (x + moved).clamp(0, 1) - x
        elif divergence:  # the official TRADES code
            moved = delta + step * gradient / l2_norms(gradient)
            delta = (x + moved).clamp(0, 1) - x
            delta = delta.renorm(p=2, dim=0, maxnorm=epsilon)
        else:  # robust_overfitting
            moved = delta + step * gradient / (l2_norms(gradient) + 1e-10)
            moved = moved.flatten(1).renorm(p=2, dim=0, maxnorm=epsilon).view_as(x)
            delta = (x + moved).clamp(0, 1) - x
        if first is None:
            first = x + delta
    return (x + delta).clamp(0, 1).detach(), first.clamp(0, 1).detach()


def mart_loss(clean_logits, adversarial_logits, y, beta):
    adversarial = F.softmax(adversarial_logits, 1)
    top = torch.argsort(adversarial, dim=1)[:, -2:]
    other = torch.where(top[:, -1] == y, top[:, -2], top[:, -1])
    bce = F.cross_entropy(adversarial_logits, y) + F.nll_loss(torch.log(1.0001 - adversarial + 1e-12), other)
    clean = F.softmax(clean_logits, 1)
    of_label = clean.gather(1, y.unsqueeze(1)).squeeze(1)
    divergence = F.kl_div(torch.log(adversarial + 1e-12), clean, reduction="none").sum(1)
    return bce + beta * (divergence * (1.0000001 - of_label)).mean()


def outer_logits(net, x, adversarial, method, adversarial_first):
    """Clean, target and adversarial logits in the order of the official codes."""
    if method == "trades":
        if adversarial_first:
            adversarial_logits = net(adversarial)
            target = net(x)
            return net(x), target, adversarial_logits
        clean = net(x)
        adversarial_logits = net(adversarial)
        return clean, net(x), adversarial_logits
    clean = net(x) if method == "mart" else None
    return clean, clean, net(adversarial)


def outer_loss(logits, y, case):
    clean, target, adversarial = logits
    if case["method"] == "trades":
        return F.cross_entropy(clean, y) + case["beta"] / len(y) * kl_sum(adversarial, target)
    if case["method"] == "mart":
        return mart_loss(clean, adversarial, y, case["beta"])
    return F.cross_entropy(adversarial, y)


def weight_directions(net, x, adversarial, y, case):
    proxy = copy.deepcopy(net)
    proxy.train()
    logits = outer_logits(proxy, x, adversarial, case["method"], False)
    loss = -outer_loss(logits, y, case)
    optimizer = torch.optim.SGD(proxy.parameters(), lr=case["weight_perturbation"]["proxy_learning_rate"])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    directions = {}
    old = dict(net.named_parameters())
    for name, new in proxy.named_parameters():
        if new.dim() > 1 and "weight" in name:
            change = new.detach() - old[name].detach()
            directions[name] = old[name].detach().norm() / (change.norm() + 1e-20) * change
    return directions, logits[2].detach(), -loss.detach()


def save_state(out, prefix, net):
    for name, value in net.state_dict().items():
        out[f"f64/{prefix}/{name}"] = value.clone()


def run(net, inputs, case):
    out = {}
    optimizer = torch.optim.SGD(net.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY)
    totals = []
    for batch in range(BATCHES):
        x, y = inputs["images"][batch].double(), inputs["labels"][batch]
        scale = case["start"]["scale_value"]
        start = inputs[case["start"]["from_key"]][batch].double() * scale
        adversarial, first = attack(net, x, y, case, start)
        net.train()
        directions = {}
        if "weight_perturbation" in case:
            directions, proxy_logits, proxy_loss = weight_directions(net, x, adversarial, y, case)
            with torch.no_grad():
                for name, parameter in net.named_parameters():
                    if name in directions:
                        parameter.add_(case["weight_perturbation"]["gamma"] * directions[name])
        optimizer.zero_grad()
        logits = outer_logits(net, x, adversarial, case["method"], bool(directions))
        loss = outer_loss(logits, y, case)
        loss.backward()
        totals.append(loss.detach())
        if batch == 0:
            out["f64/adv_step1"], out["f64/adv_last"] = first, adversarial
            out["f64/logits_adv"], out["f64/loss_total"] = logits[2].detach(), loss.detach()
            if logits[0] is not None:
                out["f64/logits_clean"] = logits[0].detach()
            for name, parameter in net.named_parameters():
                out[f"f64/grad/{name}"] = parameter.grad.clone()
            if directions:
                out["f64/logits_adv_proxy"], out["f64/loss_proxy"] = proxy_logits, proxy_loss
                for name, direction in directions.items():
                    out[f"f64/awp_diff/{name}"] = direction
        optimizer.step()
        if directions:
            with torch.no_grad():
                for name, parameter in net.named_parameters():
                    if name in directions:
                        parameter.sub_(case["weight_perturbation"]["gamma"] * directions[name])
        if batch in (0, BATCHES - 1):
            save_state(out, f"state{batch + 1}", net)
    out[f"f64/loss_total_{BATCHES}"] = torch.stack(totals)
    return out


def run_free(net, inputs, case):
    """Free with the clamps of fast_adversarial: the gradient is not masked."""
    out = {}
    net.train()
    optimizer = torch.optim.SGD(net.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY)
    epsilon, step = case["epsilon_value"], case["step_value"]
    delta = torch.zeros(COUNT, 3, 8, 8, dtype=torch.float64)
    totals, all_logits = [], []
    update = 0
    for batch in range(case["batches"]):
        x, y = inputs["images"][batch].double(), inputs["labels"][batch]
        for _ in range(case["replays"]):
            delta.requires_grad_(True)
            logits = net(x + delta)
            loss = F.cross_entropy(logits, y)
            optimizer.zero_grad()
            delta.grad = None
            loss.backward()
            gradient = delta.grad.detach()
            update += 1
            if update == 1:
                for name, parameter in net.named_parameters():
                    out[f"f64/grad/{name}"] = parameter.grad.clone()
            if update == 2:
                out["f64/adv_step1"] = (x + delta).detach()
            out["f64/adv_last"] = (x + delta).detach()
            delta = (delta.detach() + step * gradient.sign()).clamp(-epsilon, epsilon)
            delta = torch.max(torch.min(delta, 1 - x), -x)
            optimizer.step()
            totals.append(loss.detach())
            all_logits.append(logits.detach())
            if update in (1, case["replays"], case["replays"] * case["batches"]):
                save_state(out, f"state_step{update}", net)
        out[f"f64/noise_after_batch{batch}"] = delta.clone()
    out["f64/loss_total"], out["f64/logits"] = torch.stack(totals), torch.stack(all_logits)
    return out


def cases():
    normal = {"kind": "normal", "scale": "0.001", "from_key": "randn"}
    running = {"attack": "running", "clean_forward": "update", "adversarial_forward": "update"}
    train = {"attack": "update", "adversarial_forward": "update"}
    awp = {"gamma": 0.005, "proxy_learning_rate": 0.1}
    trades = {"method": "trades", "steps": 4, "start": normal, "beta": 6, "batch_norm": running}
    linf = {"norm": "linf", "epsilon": "0.031", "step_size": "0.007"}
    l2 = {"norm": "l2", "epsilon": "0.5", "step_size": "0.25"}
    proxy = ["pT clean", "pT adv"]
    return {
        "trades_l2": {**trades, **l2, "forwards": ["4x(E adv, E clean)", "T clean", "T adv", "T clean"]},
        "awp_trades": {
            **trades, **linf, "weight_perturbation": awp,
            "forwards": ["4x(E adv, E clean)", *proxy, "pT clean", "T adv (perturbed)", "T clean (perturbed)",
                         "T clean (perturbed)", "update"],
        },
        "awp_mart": {
            **trades, **linf, "method": "mart", "weight_perturbation": awp,
            "forwards": ["4xE adv", *proxy, "T clean (perturbed)", "T adv (perturbed)", "update"],
        },
        "pgd_at_l2": {
            "method": "pgd_at", **l2, "step_size": "15/255", "epsilon": "40/255", "steps": 4,  # the ball is reached
            "start": {"kind": "uniform", "scale": "0.05", "from_key": "unit"}, "batch_norm": train,
            "forwards": ["4xT adv", "T adv"],
        },
        "n_fgsm": {
            "method": "n_fgsm", "norm": "linf", "epsilon": "8/255", "step_size": "8/255", "steps": 1,
            "start": {"kind": "uniform", "scale": "16/255", "from_key": "unit"}, "batch_norm": train,
            "forwards": ["T start", "T adv"],
        },
        "free_noise": {
            "method": "free", "norm": "linf", "epsilon": "8/255", "step_size": "8/255", "replays": 3,
            "batches": 3, "start": {"kind": "none"}, "clamp": "noise",
            "batch_norm": {"adversarial_forward": "update"}, "forwards": ["3xT per batch"],
        },
    }


def number(text):
    top, _, bottom = text.partition("/")
    return float(top) / float(bottom or 1)


def main():
    torch.set_num_threads(1)
    FOLDER.mkdir(exist_ok=True)
    inputs = make_inputs()
    torch.save(inputs, FOLDER / "a_inputs.pt")
    nets = {"cnn": make_net(Cnn, 1)}
    for name, net in nets.items():
        torch.save(dict(net.state_dict()), FOLDER / f"a_state0_{name}.pt")
    about = {
        "about": "As part_a/a_cases.json; made by make_more_cases.py.",
        "optimizer": {"name": "sgd", "learning_rate": LEARNING_RATE, "momentum": MOMENTUM,
                      "weight_decay": WEIGHT_DECAY, "dampening": 0},
        "nets": list(nets), "cases": cases(),
    }
    (FOLDER / "a_cases.json").write_text(json.dumps(about, indent=1) + "\n")
    for name, case in cases().items():
        case["epsilon_value"], case["step_value"] = number(case["epsilon"]), number(case["step_size"])
        case["start"]["scale_value"] = number(case["start"].get("scale", "0"))
        for net_name, net in nets.items():
            work = run_free if case["method"] == "free" else run
            torch.save(work(copy.deepcopy(net).double(), inputs, case), FOLDER / f"a_{name}_{net_name}.pt")


if __name__ == "__main__":
    main()
