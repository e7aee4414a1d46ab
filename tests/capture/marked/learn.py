"""A small training job: the comment of a line names the operator that it calls."""

import sys

import torch
from torch import nn


class Turn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()  # aten::sin

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos()  # aten::cos


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        x = self.first(x)  # aten::linear aten::addmm
        x = self.norm(x)  # aten::layer_norm
        return Turn.apply(
            torch.relu(x)  # aten::relu
        )


def batches(n):
    for _ in range(n):
        yield torch.randn(4, 8)  # aten::randn


def learn(steps, begin, end):
    net = Net()
    opt = torch.optim.SGD(net.parameters(), lr=0.1, foreach=False)
    for i, x in enumerate(batches(steps)):
        if i == 1:
            begin()
        loss = (
            net(x)
            .square()  # aten::square
            .mean()  # aten::mean
            * 1.0
        )
        opt.zero_grad()
        loss.backward()
        opt.step()  # aten::add_
        _ = loss.item()  # aten::item
        kept = [row.abs() for row in x]  # aten::abs
    end()
    return kept


def compiled(steps, begin, end):
    """Counters of the compiler with a graph break and a recompilation, begun before or after it compiles."""
    import torch._dynamo
    from torch._dynamo.utils import counters

    def helper(x):
        print("", end="")
        return x + 1

    @torch.compile(backend="eager")
    def step(x):
        y = x * 2
        torch._dynamo.graph_break()
        return helper(y).sum()

    counters.clear()
    torch._dynamo.reset()
    begin()
    for n in range(steps):
        step(torch.ones(3 + (n > 2)))
    end()
    return {k: sum(v.values()) for k, v in counters.items() if k in ("frames", "stats", "graph_break", "recompiles")}


def main():
    import json

    from torch.profiler import ProfilerActivity, profile

    from _necropsy_capture.marking.names import Project
    from _necropsy_capture.marking.ranges import profiled
    from _necropsy_capture.marking.unseen import hide

    if sys.version_info >= (3, 12):
        from _necropsy_capture.marking.monitoring import Monitoring as Way
    else:
        from _necropsy_capture.marking.tracing import Tracing as Way
    hide()
    way = Way(Project(), profiled())
    plain = compiled(5, lambda: None, lambda: None)
    marked = compiled(5, way.start, way.stop)
    way = Way(Project(), profiled())
    prof = profile(activities=[ProfilerActivity.CPU], with_stack=True)
    learn(4, lambda: (prof.start(), way.start()), lambda: (way.stop(), prof.stop()))
    prof.export_chrome_trace(sys.argv[1])
    print(json.dumps({"plain": plain, "marked": marked, "trouble": way.trouble}))


if __name__ == "__main__":
    main()
