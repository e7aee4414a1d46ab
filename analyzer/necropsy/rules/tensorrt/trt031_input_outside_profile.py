"""An input has a shape that the engine was not built for

What it means
    A program set an input shape that no optimization profile of the engine allows, or that
    contradicts a fixed axis. The call fails, and what runs after it uses the old shape, or nothing.

Why it happens
    The engine was built for other shapes (another resolution, sequence length or batch), with a profile that is too
    narrow, or for fixed shapes; or the wrong profile is active.

How to confirm
    `polygraphy inspect model FILE.engine` lists the profiles.

How to fix
    Build with a profile that covers the shapes that occur, select the right profile, or bring
    the input into the range (pad, resize, split the batch).

Limits
    The message tells the shape only in some releases.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/work-dynamic-shapes.html
    - https://github.com/NVIDIA/TensorRT-LLM/issues/1332
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy.claim import from_record
from necropsy.evidence.activity import Activity
from necropsy.evidence.trt_messages import TrtMessages
from necropsy.finding import Fact, Finding, Fix, Severity
from necropsy.rule import rule

_RANGE: Final = re.compile(
    r"dimension \[(?P<shape>[\d,]+)\] for bindings\[(?P<index>\d+)\].*?maximum dimension in profile is (?P<high>\d+), "
    r"minimum dimension in profile is (?P<low>\d+), but supplied dimension is (?P<got>-?\d+)", re.DOTALL,
)  # fmt: skip
_WIDER: Final = Fix(
    "Build the engine with a profile that covers the shapes that occur", "flag",
    command="trtexec --minShapes=.. --optShapes=.. --maxShapes=.. ...",
)  # fmt: skip
_FIT: Final = Fix("Or bring the input into the range: pad, resize or split it; or select the profile that fits", "code")


@rule("TRT031", "input-outside-profile", Severity.ERROR)
def check(messages: TrtMessages, activity: Activity) -> Iterator[Finding]:
    """One finding a build and wording."""
    for row in messages.of("input-shape"):
        facts: dict[str, Fact] = {"times": row.count} if row.count > 1 else {}
        where = ""
        if (m := _RANGE.search(row.text)) is not None:
            where = f" (axis of size {m['got']}, the profile allows {m['low']} to {m['high']})"
            facts |= {"shape": m["shape"], "profile": f"{m['low']}..{m['high']}"}
        elif "Static dimension mismatch" in row.text:
            where = " (a fixed axis has another size)"
        yield from_record(
            row,
            f"An input shape is outside of what the engine was built for{where}: the call failed"
            f"{f', {row.count} times' if row.count > 1 else ''}.",
            Severity.ERROR,
            activity=activity,
            facts=facts,
            fixes=(_WIDER, _FIT),
            subject=where,
        )
