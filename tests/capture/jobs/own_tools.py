"""A job with optimizer hooks and, from its seventh step on, a profiler of its own; its optimizer's step is compiled."""

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook


def main():
    torch.set_num_threads(1)
    model, other = nn.Linear(8, 4), nn.Linear(4, 4)
    seen = []
    register_optimizer_step_post_hook(lambda *_: seen.append("own"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    second = torch.optim.SGD(other.parameters(), lr=0.1)
    register_optimizer_step_post_hook(lambda *_: seen.append("late"))
    for _ in range(7):
        other(model(torch.randn(2, 8))).sum().backward()
        optimizer.step()
        second.step()
    with torch.profiler.profile() as prof:
        model(torch.randn(2, 8))
    names = {event.name for event in prof.events()}
    print(len(seen), "aten::linear" in names)


main()
