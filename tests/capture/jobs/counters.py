"""What Dynamo did: a compiled model with a graph break, a compiled optimizer step, a compiled function that steps."""

import json

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 8), nn.ReLU())

    def forward(self, x):
        x = self.first(x)
        torch._dynamo.graph_break()
        return self.second(x).sum()


def main():
    torch.set_num_threads(1)
    model = Net()
    with torch.no_grad():
        call = torch.compile(model, backend="eager")
        for _ in range(3):
            call(torch.randn(4, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = torch.compile(optimizer.step, backend="eager")

    @torch.compile(backend="eager")
    def train(x):
        model(x).backward()
        optimizer.step()

    for _ in range(6):
        call(torch.randn(4, 8)).backward()
        step()
        train(torch.randn(4, 8))
    counters = torch._dynamo.utils.counters
    print(json.dumps({name: dict(counters[name]) for name in ("frames", "stats", "graph_break", "unimplemented")}))


main()
