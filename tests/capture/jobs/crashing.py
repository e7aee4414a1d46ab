"""A job whose sixth step fails: `python crashing.py KIND`, where KIND says how."""

import os
import signal
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.randn(8) * (torch.get_num_threads() + index)


def fail(kind):
    if kind == "error":
        raise ValueError("shard 3 holds no samples")
    if kind == "wait":
        print("waiting", flush=True)
        time.sleep(60)
    if kind == "term":
        os.kill(os.getpid(), signal.SIGTERM)


def main():
    torch.set_num_threads(1)
    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(Samples(), batch_size=8, num_workers=1)
    for number, batch in enumerate(loader):
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if number == 5:
            fail(sys.argv[1])


main()
