"""Batches stacked in the main thread: of views, of samples in order, and what lies between."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tests.support.trace_cases.data import FLASH, MULTI, NEXT, SINGLE
from tests.support.tracing import TraceBuilder

FETCH = (NEXT, "torch/utils/data/dataloader.py(764): _next_data", "torch/utils/data/_utils/fetch.py(47): fetch")
COLLATE = (
    "torch/utils/data/_utils/collate.py(398): default_collate",
    "torch/utils/data/_utils/collate.py(256): collate_tensor_fn",
)
Layout = tuple[list[int], list[int]]  # sizes and strides
SPECTRUM: Layout = ([400, 128], [1, 400])
IMAGE: Layout = ([3, 96, 128], [1, 384, 3])
Act = Callable[[TraceBuilder], None]


def view(t: TraceBuilder, name: str, values: tuple[str, ...], result: Layout, kind: str = "float") -> None:
    """A view as torch 2.1 and later record it: with the `as_strided` that makes its result."""
    told: dict[str, Any] = {"Concrete Inputs": ["", *values]}
    with t.op(f"aten::{name}", dims=[sorted(result[0])], types=[kind], **told):
        made: dict[str, Any] = {"Concrete Inputs": ["", str(result[0]), str(result[1]), ""]}
        with t.op("aten::as_strided", **made):
            t.host(1)


def on(t: TraceBuilder, name: str, sizes: list[int]) -> None:
    """An operator on a tensor of these sizes."""
    with t.op(f"aten::{name}", dims=[sizes], types=["float"]):
        t.host(2)


def spectrogram(t: TraceBuilder) -> None:
    """Decoded, turned around, and its label."""
    t.host(200)
    view(t, "transpose", ("0", "1"), SPECTRUM)
    on(t, "lift_fresh", [])
    on(t, "one_hot", [24])


def turned(*behind: str, view_of: Layout = SPECTRUM, sizes: list[int] | None = None) -> Act:
    """A sample that is turned, and on which operators follow."""

    def sample(t: TraceBuilder) -> None:
        t.host(200)
        view(t, "permute", ("[2, 0, 1]",), view_of)
        for name in behind:
            on(t, name, sizes or view_of[0])

    return sample


class Program:
    """What `train_birds.py` does in four steps: a batch made in the main thread, and training on it."""

    def __init__(self, *, marks: bool = False) -> None:
        self.t = TraceBuilder()
        self.marks = marks

    def user(self, mark: str, *frames: str) -> AbstractContextManager[None]:
        """Code of the user's: a marked line of a trace without stacks, else its functions."""
        return self.t.mark(mark) if self.marks else self.t.frame(*frames)

    def torch(self, *frames: str) -> AbstractContextManager[None]:
        """Code of torch's, which only stacks show."""
        return nullcontext() if self.marks else self.t.frame(*frames)

    def run(self, make: Act, *, range_of: str = SINGLE, behind: Act | None = None) -> TraceBuilder:
        """`make` is what the wait for a batch does, `behind` what the loop does to it."""
        t = self.t
        with self.torch("train_birds.py(88): <module>", "train_birds.py(52): fit"):
            for n in range(4):
                with t.step(n):
                    with self.user("train_birds.py:60"), t.annotation(range_of), self.torch(*FETCH):
                        make(t)
                    with self.user("train_birds.py:63", "train_birds.py(31): forward"):
                        if behind is not None:
                            behind(t)
                        with t.op("aten::_flash_attention_forward"):
                            t.launch(FLASH, us=60_000)
                        with t.op("aten::item"):
                            t.wait()
        return t

    def batch(
        self, sample: Act, stack: float = 24_000, *, samples: int = 6, own: Act | None = None,
        sizes: list[int] | None = None, parts: bool = True, strides: list[int] | None = None,
    ) -> Act:  # fmt: skip
        """Samples, and their stacking: by torch's collate, or by the user's, which does `own` before."""

        def make(t: TraceBuilder) -> None:
            for _ in range(samples):
                with self.user("birds/songs.py:41", "birds/songs.py(36): __getitem__"):
                    sample(t)
            t.host(3)
            with self.user("birds/songs.py:57", "birds/songs.py(55): together") if own else self.torch(*COLLATE):
                if own:
                    own(t)
                stacked(t, stack, [samples, *(sizes or SPECTRUM[0])], parts=parts, strides=strides)

        return make


def stacked(
    t: TraceBuilder, us: float, batch: list[int], *, parts: bool = True, strides: list[int] | None = None
) -> None:
    """`torch.stack` of samples; only torch 2.13 records how they lie (`strides`). `parts`: not all in one go."""
    told: dict[str, Any] = {"dims": [[], []], "types": ["TensorList", "Scalar"]}
    if strides is not None:
        told |= {"dims": [[batch[1:]] * batch[0], []], "Input Strides": [[strides] * batch[0], []]}
    with t.op("aten::stack", **told):
        with t.op("aten::cat", **told):
            if parts:
                on(t, "narrow", batch)
            t.host(us)
        given: dict[str, Any] = {"Concrete Inputs": ["", str(batch)]}
        with t.op("aten::view", dims=[[batch[0] * batch[1], *batch[2:]]], types=["float"], **given):
            t.host(1)


def clip(t: TraceBuilder) -> None:
    """A sample that is itself stacked, of turned frames."""
    for _ in range(3):
        view(t, "permute", ("[2, 0, 1]",), IMAGE)
    stacked(t, 900, [3, *IMAGE[0]])
    t.host(300)


def through_numpy(t: TraceBuilder) -> None:
    """Turned for a library that works on arrays, whose result is a sample of its own."""
    turned(view_of=IMAGE)(t)
    with t.frame("<built-in method numpy of Tensor object at 0x7f22b4>"):
        t.host(2)
    with t.frame("cv2.py(12): warp"), t.frame("<built-in function from_numpy>"):
        t.host(2)


def turn(t: TraceBuilder) -> None:
    """The batch turned, once."""
    view(t, "transpose", ("1", "2"), ([16, 400, 128], [51_200, 1, 400]))


def nothing(t: TraceBuilder) -> None:
    """A sample in order."""
    t.host(200)


def boxes(t: TraceBuilder) -> None:
    """An image in order, and boxes that are turned."""
    t.host(200)
    view(t, "t", (), ([4, 9], [1, 4]))


def one(sample: Act, *, marks: bool = False, **more: Any) -> TraceBuilder:
    """A program that differs in its samples only."""
    p = Program(marks=marks)
    return p.run(p.batch(sample, **more))


def turned_often(t: TraceBuilder) -> None:
    """A batch whose parts are turned one by one."""
    for _ in range(16):
        turn(t)


def in_the_loop(marks: bool) -> TraceBuilder:
    """The loop turns what it gets, often."""
    p = Program(marks=marks)
    return p.run(p.batch(nothing), behind=turned_often)


CLIPS = [3, *IMAGE[0]]
CASES = {
    "DAT002/fires-some-views": lambda: one(spectrogram, stack=3_000, samples=4),
    "DAT007/fires-spectrograms": lambda: one(spectrogram),
    "DAT007/fires-marked-lines": lambda: one(spectrogram, marks=True),
    "DAT007/fires-collate-function": lambda: one(
        turned("_to_copy", "div_", view_of=IMAGE), own=nothing, sizes=IMAGE[0]
    ),
    "DAT007/fires-recorded-strides": lambda: one(turned("augment", view_of=IMAGE), sizes=IMAGE[0], strides=IMAGE[1]),
    "DAT007/silent-recorded-in-order": lambda: one(spectrogram, strides=[128, 1]),
    "DAT007/silent-copied-in-one-go": lambda: one(spectrogram, parts=False),
    "DAT007/silent-boxes-turned": lambda: one(boxes, sizes=IMAGE[0]),
    "DAT007/silent-contiguous-behind": lambda: one(turned("contiguous")),
    "DAT007/silent-contiguous-behind-marked": lambda: one(turned("contiguous"), marks=True),
    "DAT007/silent-resized-behind": lambda: one(
        turned("unsqueeze", "upsample_bilinear2d", view_of=IMAGE), sizes=[3, 64, 64]
    ),
    "DAT007/silent-cropped-and-cloned": lambda: one(turned("slice", "clone", sizes=[200, 128]), sizes=[200, 128]),
    "DAT007/silent-turned-in-the-loop": lambda: in_the_loop(False),
    "DAT007/silent-turned-in-the-loop-marked": lambda: in_the_loop(True),
    "DAT007/silent-batch-turned-in-collate": lambda: one(nothing, own=turn),
    "DAT007/silent-quick": lambda: one(spectrogram, stack=2_500),
    "DAT007/silent-as-fast-as-in-order": lambda: one(turned(view_of=([4000, 2000], [1, 4000])), sizes=[4000, 2000]),
    "DAT007/silent-samples-in-order": lambda: one(nothing),
    "DAT007/silent-outer-dimensions-swapped": lambda: one(
        turned(view_of=([96, 3, 128], [128, 12_288, 1])), sizes=[96, 3, 128]
    ),
    "DAT007/silent-channels-last-clips": lambda: one(
        turned(view_of=([8, 3, 56, 64], [10_752, 1, 192, 3])), sizes=[8, 3, 56, 64]
    ),
    "DAT007/silent-clips-stacked-before": lambda: one(clip, sizes=CLIPS),
    "DAT007/silent-clips-stacked-before-marked": lambda: one(clip, marks=True, sizes=CLIPS),
    "DAT007/silent-through-numpy": lambda: one(through_numpy, sizes=IMAGE[0]),
    "DAT007/silent-workers": lambda: Program().run(lambda t: t.host(24_000), range_of=MULTI),
}
