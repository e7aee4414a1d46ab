"""A training job with planted mistakes that a CPU can show; each says so on its line."""

import sys

import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.features, self.head = nn.Linear(64, 128), nn.Linear(128, 10)

    def forward(self, x):
        hidden = torch.relu(self.features(x))
        print("hidden", tuple(hidden.shape))  # plant: print in compiled code
        if hidden.mean() > 1e6:  # plant: data-dependent branch
            hidden = hidden / hidden.mean()
        return self.head(hidden)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    step_fn = torch.compile(model, backend="aot_eager")
    for _ in range(14):
        x, y = torch.randn(16, 64), torch.randint(0, 10, (16,))
        loss = nn.functional.cross_entropy(step_fn(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("done", loss.item() > 0, file=sys.stderr)


main()
