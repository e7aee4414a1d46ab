"""Inputs with dynamic shapes, and no profile (or a wrong one) that bounds them

What it means
    A network with dynamic inputs needs an optimization profile: smallest, usual and largest shape of
    each. Without one the build fails; with one that contradicts the network, too. trtexec
    without shapes takes 1 for each dynamic axis, so that the engine accepts that shape only.

Why it happens
    The model was exported with dynamic axes, and the build gives no shapes; or a fixed axis was given
    a range, or an input was forgotten.

How to confirm
    Inputs with -1 in the log ("Adding network input: ... dimensions: (-1, ...)").

How to fix
    trtexec: --minShapes, --optShapes, --maxShapes with all dynamic inputs. Python: a profile with
    `set_shape` for each, added to the builder's configuration. Or export with fixed shapes.

Limits
    Which shapes a program will need is not known here.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/work-dynamic-shapes.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy.claim import from_record
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.trt_builds import TrtBuilds
from necropsy.evidence.trt_messages import TrtMessages
from necropsy.finding import Fact, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt._log import failure, of_build, some

_PROFILE: Final = Fix(
    "Add an optimization profile with a smallest, usual and largest shape of each dynamic input",
    "code",
    command=(
        "profile = builder.create_optimization_profile(); profile.set_shape('NAME', min, opt, max); "
        "config.add_optimization_profile(profile)"
    ),
)
_SHAPES: Final = Fix(
    "Give trtexec the shapes of all dynamic inputs", "flag",
    command="trtexec --minShapes=NAME:1x3x224x224 --optShapes=NAME:8x3x224x224 --maxShapes=NAME:32x3x224x224 ...",
)  # fmt: skip
_FIXED: Final = Fix("Or export the model with fixed shapes", "code")


@rule("TRT023", "dynamic-shape-profile", Severity.FATAL)
def check(messages: TrtMessages, builds: TrtBuilds, exceptions: Exceptions) -> Iterator[Finding]:
    """One finding a build that failed for it, or whose shapes trtexec chose."""
    for row in messages.of("no-profile"):
        yield failure(
            row,
            "The network has dynamic inputs and no optimization profile tells their shapes: "
            f"{of_build(builds.of(row))} "
            "builds no engine.",
            builds,
            exceptions,
            fixes=(_PROFILE, _SHAPES, _FIXED),
        )
    for row in messages.of("profile-incomplete"):
        told = row.words
        tensor = next((told[k] for k in ("tensor", "a", "b") if told.get(k)), "")
        parts = ("what", "at", "static", "shapes")
        what = next((told[k].rstrip(".") for k in parts if told.get(k)), "the profile's shapes are invalid")
        who = f"of input {tensor} " if tensor else ""
        yield failure(
            row,
            f"The optimization profile {who}does not fit the network ({what}): no engine is built.",
            builds,
            exceptions,
            facts={"input": tensor} if tensor else {},
            fixes=(_PROFILE, _SHAPES),
            subject=tensor,
        )
    rows = messages.of("shape-overridden")
    for row in rows:
        own = [r for r in rows if (r.anchor.input, r.build) == (row.anchor.input, row.build)]
        if row is not own[0]:
            continue
        shapes = [f"{r.words.get('tensor', '?')}: {r.words.get('shape', '?')}" for r in own]
        facts: dict[str, Fact] = {"shapes taken": shapes}
        yield from_record(
            row,
            f"No shapes were given for dynamic inputs, so trtexec built the engine for {some(shapes)} only: times "
            "are of "
            "that shape, and other shapes are refused.",
            Severity.WARNING,
            facts=facts,
            fixes=(_SHAPES,),
        )
