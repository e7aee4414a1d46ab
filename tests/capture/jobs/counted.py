"""A few steps of training, whose calls of the CUDA profiler are written down: there is no GPU."""

import os
import types

import torch
from torch import nn


def calls(name):
    def call():
        with open(os.environ["CALLS"], "a") as file:
            print(name, file=file)

    return call


torch.cuda.cudart = lambda: types.SimpleNamespace(cudaProfilerStart=calls("start"), cudaProfilerStop=calls("stop"))
torch.set_num_threads(1)
print("begins", flush=True)
model = nn.Linear(16, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    calls(f"step {step}")()
    model(torch.randn(4, 16)).sum().backward()
    optimizer.step()
print("the last line", flush=True)
