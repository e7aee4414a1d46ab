"""Programs whose results stay on the device, or come and go: the cases of OOM011.

`python -m tests.support.kept_cases` writes the snapshots that torch would, and the sources. A frame is the line of the
source that ends in its mark (`# loss`).
"""

from __future__ import annotations

import lzma
import pickle
from collections.abc import Callable
from pathlib import Path

from tests.support.snapshot import ADAM, MODULE, MOVE, Allocator

ROOT = Path(__file__).resolve().parents[2] / "fixtures" / "rules" / "OOM011"

TRAINING = """
import torch
import torch.nn.functional as F


class Tagger(torch.nn.Module):
    def forward(self, words):
        hidden = self.encode(words)  # forward
        return self.score(hidden)  # score


def step(model, words, tags):
    scores = model(words)  # call
    loss = F.cross_entropy(scores, tags)  # loss
    return loss, scores


def train(epochs, loader):
    model = Tagger().cuda()  # build
    opt = torch.optim.Adam(model.parameters())
{before}
    for epoch in range(epochs):
{outer}
        for words, tags in loader:
            words = words.cuda()  # batch
            loss, scores = step(model, words, tags)  # step
            opt.zero_grad()
            loss.backward()
            opt.step()  # adam
{behind}


def collect(model, loader):
    found = []
    for words in loader:
        found.append(model(words))  # collect
    return found


train(2, [])  # main
"""
LOSS = "torch/nn/functional.py(3458): cross_entropy"
Parts = tuple[str, ...]


class Program:
    """A training program and its allocations; `behind` stands at the end of its loop, `before` ahead of it."""

    def __init__(self, *, before: str = "pass", outer: str = "pass", behind: str = "pass", source: bool = True) -> None:
        text = TRAINING.lstrip("\n").format(
            before=_indented(before, 4), outer=_indented(outer, 8), behind=_indented(behind, 12)
        )
        self.source = text if source else ""
        self._lines = text.split("\n")
        self.a = Allocator()
        self.a.pace = 2_500
        self._held: list[int] = []

    def at(self, mark: str, function: str) -> str:
        """A frame at the line with a mark."""
        line = next(n for n, text in enumerate(self._lines, 1) if text.endswith(f"# {mark}"))
        return f"train_tagger.py({line}): {function}"

    @property
    def main(self) -> str:
        """The outermost frame."""
        return self.at("main", "<module>")

    def build(self) -> None:
        """Weights."""
        for _ in range(6):
            self._held.append(self.a.alloc(1 << 20, *MOVE, self.at("build", "train"), self.main))

    def step(self, number: int, *, backward: bool = True) -> tuple[int, int]:
        """One step: activations that go, and the loss, which has a line and a stack in common with what goes."""
        a, outer = self.a, (self.at("step", "train"), self.main)
        size = 65_536 * (1 + number % 3)
        words = a.alloc(size, self.at("batch", "train"), self.main)
        inside = (self.at("forward", "forward"), MODULE, self.at("call", "step"), *outer)
        scores = a.alloc(4 * size, self.at("score", "forward"), *inside[1:])
        acts = [a.alloc(4 * size, *inside) for _ in range(4)]
        frames = (LOSS, self.at("loss", "step"), *outer)
        logs = a.alloc(8 * size, *frames)
        loss = a.alloc(4, *frames)
        if backward:
            grads = [a.alloc(1 << 20) for _ in range(6)]
            if number == 0:
                self._held += [a.alloc(1 << 20, *ADAM, self.at("adam", "train"), self.main) for _ in range(12)]
            for address in grads:
                a.free(address)
        for address in (words, *acts, logs):
            a.free(address)
        return loss, scores

    def run(self, steps: int, keep: Callable[[int, list[int]], list[int]], *, scores: bool = False) -> Program:
        """Steps; of the losses (and scores) so far, oldest first, those that `keep` gives back stay."""
        self.build()
        kept: list[int] = []
        for n in range(steps):
            loss, out = self.step(n)
            now = [*kept, out, loss] if scores else [*kept, loss]
            if not scores:
                self.a.free(out)
            stay = keep(n, now)
            for address in now:
                if address not in stay:
                    self.a.free(address)
            kept = stay
        for address in (*kept, *self._held):  # at the end of the program nothing is left
            self.a.free(address)
        return self


def _indented(text: str, by: int) -> str:
    return "\n".join(" " * by + line for line in text.split("\n"))


def everything(_: int, now: list[int]) -> list[int]:
    """A list that keeps all."""
    return now


def nothing(_: int, now: list[int]) -> list[int]:
    """Nobody keeps anything."""
    return []


def emptied(n: int, now: list[int]) -> list[int]:
    """A list that begins anew after sixteen."""
    return now if n % 16 else now[-1:]


def collecting() -> Program:
    """Inference whose results are listed, and nothing else stays."""
    p = Program()
    p.build()
    collected(p, 24)
    return p


def collected(p: Program, batches: int) -> None:
    """Batches whose results are listed."""
    frames = (p.at("score", "forward"), MODULE, p.at("collect", "collect"), p.main)
    kept = []
    for _ in range(batches):
        made = [p.a.alloc(300_000, *frames) for _ in range(6)]
        kept.append(made.pop())
        for address in made:
            p.a.free(address)


def one_pass() -> Program:
    """A history that has no room for more than a forward pass of many layers: all that it made is still needed."""
    p = Program()
    frames = (p.at("forward", "forward"), MODULE, p.at("call", "step"), p.at("step", "train"), p.main)
    for _ in range(60):
        p.a.alloc(400_000, *frames)
        p.a.free(p.a.alloc(90_000, *frames))
    return p


def loading() -> Program:
    """A model is loaded tensor by tensor, and nothing is run."""
    p = Program()
    for _ in range(60):
        p.a.alloc(400_000, p.at("build", "train"), p.main)
    return p


def fills() -> Program:
    """A cache of results that is full after a third of the run."""
    return Program(before="cache = {}", behind="if len(cache) < 12:\n    cache[epoch, len(cache)] = loss").run(
        36, lambda n, now: now if n < 12 else now[:12]
    )


def cases() -> dict[str, Program]:
    """Folder -> its program."""
    return {
        "fires-list-of-losses": Program(before="history = []", behind="history.append(loss)").run(16, everything),
        "fires-scores-too": Program(before="history = []", behind="history.append((loss, scores))").run(
            24, everything, scores=True
        ),
        "fires-sum-of-tensors": Program(before="total = 0", behind="total += loss").run(16, everything),
        "fires-two-statements": Program(
            before="history = []\nbest = {}", behind="history.append(loss)\nbest[words] = loss"
        ).run(16, everything),
        "fires-without-source": Program(before="history = []", behind="history.append(loss)", source=False).run(
            24, everything, scores=True
        ),
        "fires-collected-outputs": collecting(),
        "silent-numbers": Program(before="history = []", behind="history.append(loss.item())").run(24, nothing),
        "silent-list-emptied-each-epoch": Program(outer="history = []", behind="history.append(loss)").run(40, emptied),
        "silent-circular-list": Program(
            before="history = collections.deque(maxlen=10)", behind="history.append(loss)"
        ).run(40, lambda _, now: now[-10:]),
        "silent-cache-that-fills": fills(),
        "silent-one-forward-pass": one_pass(),
        "silent-loading": loading(),
        "silent-few-steps": Program(before="history = []", behind="history.append(loss)").run(7, everything),
    }


def write_all() -> None:
    """Snapshots and sources."""
    for name, program in cases().items():
        folder = ROOT / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "input.pickle.xz").write_bytes(lzma.compress(pickle.dumps(program.a.snapshot(), 4)))
        if program.source:
            (folder / "src").mkdir(exist_ok=True)
            (folder / "src" / "train_tagger.py").write_text(program.source, encoding="utf-8")


if __name__ == "__main__":
    write_all()
