"""Two ranks over gloo: an all-reduce in each step."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.Linear(32, 32))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(9):
        model(torch.randn(4, 32)).sum().backward()
        optimizer.step()
    # In one write: where Python does not buffer, print writes the line's end by itself, and two ranks share a pipe.
    sys.stdout.write(f"rank {dist.get_rank()} of {dist.get_world_size()} is done\n")
    dist.destroy_process_group()


main()
