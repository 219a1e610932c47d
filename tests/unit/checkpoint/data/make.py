# Makes module_prefix.pt: a state dict with the prefix that a Python wrapper for several devices leaves.
import collections
import torch

state = collections.OrderedDict()
state["module.weight"] = torch.arange(6.0).reshape(2, 3)
state["module.bias"] = torch.tensor([0.5, -0.5])
torch.save({"state_dict": state, "epoch": 3}, "module_prefix.pt")
