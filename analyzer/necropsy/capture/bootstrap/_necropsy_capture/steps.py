"""Counts the job's steps without the job's help: optimizer steps, or calls of a model where nothing is optimized.

- An optimizer's `step()` tells torch's hook for all optimizers. The one that steps first sets the pace, so that a GAN's
  two optimizers are one step.
- Until an optimizer exists, calls of modules that no other module makes are seen by a wrapper around
  `Module.__call__`, which goes as soon as it is not needed. The module called most sets the pace: tokens of a decoder,
  batches of a classifier. Dynamo is told to pass the frames of wrapper and hook over, and is off in what they call.

Hooks of modules would do, too, but Dynamo guards on them and traces into them. A compiled `opt.step` is not seen: the
hook returns at once where Dynamo asks, so that it changes no graph.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from threading import get_ident
from typing import Any

from _necropsy_capture import dynamo
from _necropsy_capture.process import Process

Boundary = Callable[[int], None]  # takes the number of steps that are over

_MOST_MODULES = 64  # distinct outermost modules that are counted before the pace is given up


class Steps:
    """`kind` says what is counted: "" (nothing yet), "optimizer" or "forward"."""

    def __init__(self, process: Process, boundary: Boundary) -> None:
        self.kind = ""
        self.count = 0
        self.optimizers = 0
        self._process = process
        self._boundary = boundary
        self._pace: Any = None  # weak reference to the optimizer that sets it
        self._thread = 0
        self._undo: list[Callable[[], None]] = []
        self._unwrap: Callable[[], None] | None = None
        self._over_with = False

    def watch(self) -> None:
        """Begin to count; torch is there."""
        self._watch_optimizers()
        self._unwrap = _wrap_calls(self._called)

    def stop(self) -> None:
        """Count no more."""
        self._over_with = True
        for undo in self._undo:
            with self._process.guard("profiler"):
                undo()
        self._undo = []
        self._forget_modules()

    def _forget_modules(self) -> None:
        if self._unwrap is not None:
            self._unwrap()
            self._unwrap = None

    def _watch_optimizers(self) -> None:
        torch: Any = sys.modules["torch"]
        optimizer: Any = sys.modules["torch.optim.optimizer"]
        is_compiling = getattr(torch.compiler, "is_compiling", None) or torch._utils.is_compiling
        set_eval_frame = dynamo.set_eval_frame()

        def after_step(stepped: Any, args: Any, kwargs: Any) -> None:
            if is_compiling() or self._over_with:
                return
            before = set_eval_frame(None)
            try:
                self._stepped(stepped)
            finally:
                set_eval_frame(before)

        dynamo.skip(after_step)
        # It stays: taken out by itself, while torch goes through all hooks, it would make the job's next one fail.
        optimizer.register_optimizer_step_post_hook(after_step)
        made = optimizer.Optimizer._patch_step_function

        def patch_step_function(new: Any) -> None:
            made(new)
            self._made()

        optimizer.Optimizer._patch_step_function = patch_step_function
        self._undo.append(lambda: setattr(optimizer.Optimizer, "_patch_step_function", made))

    def _made(self) -> None:
        self.optimizers += 1
        if self._process.mine:
            self._forget_modules()

    def _stepped(self, optimizer: Any) -> None:
        if not self._process.mine:
            return
        pace = self._pace() if self._pace is not None else None
        if pace is None:
            self._pace, self._thread = weakref.ref(optimizer), get_ident()
            if self.kind != "optimizer":  # evaluation before training
                self.kind, self.count = "optimizer", 0
        elif pace is not optimizer or get_ident() != self._thread:
            return
        self._over()

    def _called(self, first: bool) -> None:
        if self._process.mine:
            if first and not self.kind:
                self.kind = "forward"
            elif self.kind == "forward":
                self._over()

    def _over(self) -> None:
        self.count += 1
        with self._process.guard("profiler"):
            self._boundary(self.count)


def _wrap_calls(called: Callable[[bool], None]) -> Callable[[], None]:
    """Tell of each outermost call of the module that is called most (the first of all: True); gives what undoes it."""
    module: Any = sys.modules["torch.nn.modules.module"]
    set_eval_frame = dynamo.set_eval_frame()
    original = module.Module.__call__
    counts: dict[int, int] = {}
    inside: set[int] = set()  # threads

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        thread = get_ident()
        if thread in inside:
            return original(self, *args, **kwargs)
        inside.add(thread)
        try:
            before = set_eval_frame(None)
            try:
                tell(self)
            finally:
                set_eval_frame(before)
            return original(self, *args, **kwargs)
        finally:
            inside.discard(thread)

    def tell(root: Any) -> None:
        if len(counts) < _MOST_MODULES or id(root) in counts:
            counts[id(root)] = counts.get(id(root), 0) + 1
            if counts[id(root)] == max(counts.values()):
                called(len(counts) == 1 and counts[id(root)] == 1)

    dynamo.skip(__call__)
    module.Module.__call__ = __call__

    def undo() -> None:
        if module.Module.__call__ is __call__:
            module.Module.__call__ = original

    return undo
