"""Turned samples in traces that torch writes: which view is told, how a batch is turned alike, and what hides it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, Dataset

from necropsy.api import Loaded
from necropsy.config import Config
from necropsy.evidence.traces import Traces
from necropsy.trace.stacking import Scattered, scattered
from necropsy.trace.strides import Layout, in_order

Turn = Callable[[torch.Tensor], torch.Tensor]


class Turned(Dataset[tuple[torch.Tensor, int]]):
    """Samples of 4 x 24 x 32 as `turn` gives them back."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.turn(torch.full((4, 24, 32), index)), index


class Boxed(Turned):
    """Images in order with small tensors that `turn` gives back."""

    def __getitem__(self, index: int) -> Any:
        return torch.full((64, 96, 128), index), self.turn(torch.zeros(1, 2, 3))


def without_lists(path: Path) -> None:
    """The trace as torch 2.11 writes it: of lists of tensors neither sizes nor strides."""
    trace = json.loads(path.read_text(encoding="utf-8"))
    for event in trace["traceEvents"]:
        args = event.get("args", {})
        for key in ("Input Dims", "Input Strides"):
            if key in args:
                args[key] = [[] if v and isinstance(v[0], list) else v for v in args[key]]
    path.write_text(json.dumps(trace), encoding="utf-8")


def stacked_of(tmp_path: Path, turn: Turn, *, lists: bool = True, **options: Any) -> Scattered | None:
    """What a real trace of loading says."""
    samples = Boxed(turn) if options.pop("boxes", False) else Turned(turn)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, with_stack=True) as prof:
        for _ in DataLoader(samples, batch_size=4, **options):
            pass
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    if not lists:
        without_lists(tmp_path / "trace.json")
    loaded = Loaded([str(tmp_path / "trace.json")], Config(cache=False))
    return scattered(loaded.evidence.get(Traces).profiles[0])


def flat(x: torch.Tensor) -> torch.Tensor:
    """A sample of two dimensions."""
    return x[0]


@pytest.mark.parametrize(
    ("before", "view", "batch"),
    [
        (None, "transpose(1, 2)", "transpose(2, 3)"),
        (None, "transpose(-1, 1)", "transpose(-1, 2)"),
        (None, "permute(1, 2, 0)", "permute(0, 2, 3, 1)"),
        (None, "permute(-1, 0, 1)", "permute(0, 3, 1, 2)"),
        (None, "swapaxes(0, 2)", "swapaxes(1, 3)"),
        (None, "mT", "mT"),
        (flat, "t()", "transpose(1, 2)"),
        (flat, "T", "mT"),
        (None, "movedim(0, -1)", ""),
    ],
)
def test_the_batch_is_turned_like_its_samples(tmp_path: Path, before: Turn | None, view: str, batch: str) -> None:
    def turn(x: torch.Tensor) -> torch.Tensor:
        x = before(x) if before is not None else x
        turned: torch.Tensor = eval(f"x.{view}", {"x": x})
        return turned

    found = stacked_of(tmp_path, turn)
    assert found is not None
    assert found.place.function == "turn"
    assert (found.view, found.batch) == ("movedim" if "movedim" in view else view, batch)
    assert found.views == 4 * found.batches
    samples = [torch.randn(4, 24, 32) for _ in range(4)]
    assert found.layout is not None
    assert found.layout.strides == turn(samples[0]).stride()
    if batch:
        x = torch.stack([before(s) if before is not None else s for s in samples])
        assert torch.equal(eval(f"x.{batch}", {"x": x}), torch.stack([turn(s) for s in samples]))


KEEPS: list[Turn] = [
    lambda x: x.transpose(1, 2).float().div(255),
    lambda x: x.transpose(1, 2).double()[:, 2:],
    lambda x: (x.transpose(1, 2) + 1).mul_(2),
    lambda x: x.permute(2, 0, 1).permute(2, 0, 1),
]
REWRITES: list[Turn] = [
    lambda x: x,
    lambda x: x.transpose(1, 2).contiguous(),
    lambda x: x.transpose(1, 2).reshape(-1, 8),
    lambda x: torch.cat([x.transpose(1, 2), x.transpose(1, 2)]),
    lambda x: torch.nn.functional.interpolate(x.transpose(1, 2)[None].float(), size=(8, 8))[0],
    lambda x: x.transpose(1, 2).transpose(1, 2),
    lambda x: x.permute(2, 0, 1).permute(1, 2, 0),
    lambda x: x.transpose(0, 1),
    lambda x: torch.from_numpy(x.transpose(1, 2).numpy().copy()),
]


@pytest.mark.parametrize("lists", [True, False])
@pytest.mark.parametrize("turn", KEEPS)
def test_what_comes_behind_and_keeps_the_order(tmp_path: Path, turn: Turn, lists: bool) -> None:
    sample = turn(torch.zeros(4, 24, 32, dtype=torch.long))
    assert not sample.is_contiguous()
    found = stacked_of(tmp_path, turn, lists=lists)
    assert found is not None
    assert found.seen == lists
    assert found.layout is not None
    assert found.layout.strides == sample.stride()


@pytest.mark.parametrize("lists", [True, False])
@pytest.mark.parametrize("turn", REWRITES)
def test_samples_that_are_in_order_in_the_end(tmp_path: Path, turn: Turn, lists: bool) -> None:
    assert stacked_of(tmp_path, turn, lists=lists) is None


@pytest.mark.parametrize("lists", [True, False])
def test_images_in_order_whose_boxes_are_turned(tmp_path: Path, lists: bool) -> None:
    """The longest stack of a batch is that of the images."""
    assert stacked_of(tmp_path, lambda x: x.transpose(1, 2), lists=lists, boxes=True) is None


def together(batch: list[tuple[torch.Tensor, int]]) -> torch.Tensor:
    """A collate function of the user's."""
    return torch.stack([x for x, _ in batch])


def test_a_collate_function(tmp_path: Path) -> None:
    found = stacked_of(tmp_path, lambda x: x.transpose(1, 2), collate_fn=together)
    assert found is not None
    assert found.views == 4 * found.batches


@pytest.mark.parametrize("shape", [(3, 5, 7), (2, 3, 5, 7), (2, 3, 4, 5, 6)])
def test_samples_that_are_stacked_in_runs_keep_their_order(shape: tuple[int, ...]) -> None:
    """What `in_order` lets pass is what torch stacks as it lies: with the strides of a sample."""
    for dims in ([*range(len(shape))], [0, *range(2, len(shape)), 1], [*range(1, len(shape)), 0]):
        back = [dims.index(i) for i in range(len(shape))]
        sample = torch.zeros([shape[d] for d in dims]).permute(back)
        kept = torch.stack([sample, sample])[0].stride() == sample.stride()
        told = in_order(Layout(tuple(sample.shape), sample.stride()))
        assert told == (kept or sample.stride(-1) == 1), (shape, dims)
