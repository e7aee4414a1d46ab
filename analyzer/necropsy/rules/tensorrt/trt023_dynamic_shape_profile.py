"""Inputs with dynamic shapes, and no profile (or a wrong one) that bounds them

What it means
    A network with dynamic inputs needs an optimization profile: smallest, usual and largest shape of
    each. Without one the build fails; with one that contradicts the network, too. trtexec
    without shapes takes 1 for each dynamic axis, so that the engine accepts that shape only.

Why it happens
    The model was exported with dynamic axes, and the build gives no shapes; or a fixed axis was given
    a range, or an input was forgotten. "violate shape constraints": a node of the model can not
    have the profile's shapes, because `forward` holds a size of the export (`view(8, -1)`), or the
    shapes of several inputs do not go together.

How to confirm
    Inputs with -1 in the log ("Adding network input: ... dimensions: (-1, ...)").

How to fix
    trtexec: --minShapes, --optShapes, --maxShapes with all dynamic inputs. Python: a profile with
    `set_shape` for each, added to the builder's configuration. Or export with fixed shapes. Where a
    node refuses the shapes: take sizes from the input in `forward` and export again.

Limits
    Which shapes a program will need is not known here.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/work-dynamic-shapes.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.tensorrt_log.records import TrtMessage

from necropsy.claim import from_record
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.onnx_nodes import OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_builds import TrtBuilds
from necropsy.evidence.trt_messages import TrtMessages
from necropsy.finding import Fact, Finding, Fix, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt._log import failure, of_build, places_of, short, some

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
_SIZES: Final = Fix(
    "Take sizes from the input in `forward`, export again with these axes dynamic", "code",
    command="x.view(x.shape[0], -1)  # not x.view(8, -1)",
)  # fmt: skip
_SHAPES_THAT_GO: Final = Fix(
    "Or give the profile shapes that the model accepts: run it with them in PyTorch or onnxruntime first", "config"
)
# A node before what TensorRT says of it: `IShuffleLayer Reshape_5: ...`, `node_of_7: ISliceLayer has ...`.
_NODE: Final = re.compile(r"(?:^|\. )(?:I[A-Z]\w+Layer )?(?P<node>[^\s:'.]\S*): (?=\S)")
_OF_PROFILE: Final = re.compile(
    r"k(?P<which>MIN|OPT|MAX) values for (?P<profile>profile \d+) violate shape constraints: (?P<why>.+)", re.DOTALL
)
_WHICH: Final = {"MIN": "smallest", "OPT": "usual", "MAX": "largest"}
_FIXED: Final = Fix("Or export the model with fixed shapes", "code")


@rule("TRT023", "dynamic-shape-profile", Severity.FATAL)
def check(
    messages: TrtMessages, builds: TrtBuilds, exceptions: Exceptions, nodes: OnnxNodes | None, sources: Sources
) -> Iterator[Finding]:
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
    violated: set[tuple[str, int, str]] = set()
    for row in messages.of("profile-incomplete"):
        told = row.words
        if (m := _OF_PROFILE.search(told.get("shapes", ""))) is not None:
            key = (row.anchor.input, row.build, m[0].rstrip(". "))
            if key not in violated:  # 8.6 and later say it twice
                violated.add(key)
                yield _violated(row, m, builds, exceptions, nodes, sources)
            continue
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


def _violated(
    row: TrtMessage,
    m: re.Match[str],
    builds: TrtBuilds,
    exceptions: Exceptions,
    nodes: OnnxNodes | None,
    sources: Sources,
) -> Finding:
    """Of a node that can not have the shapes of a profile."""
    why = " ".join(m["why"].split()).rstrip(". ")
    found = _NODE.search(why)
    node = found["node"] if found is not None else ""
    reason = why.replace(found[0], "" if found.start() == 0 else ". ", 1) if found is not None else why
    who = f"Node {short(node)}" if node else "A node of the model"
    return failure(
        row,
        f"{who} can not have the {_WHICH[m['which']]} shapes of optimization {m['profile']} ({reason}): either "
        f"`forward` holds a size of the export, or the profile's shapes do not go together; {of_build(builds.of(row))} "
        "builds no engine.",
        builds,
        exceptions,
        code=places_of([node], row, nodes, sources),
        facts={"node": node} if node else {},
        fixes=(_SIZES, _SHAPES_THAT_GO),
        subject=node,
    )
