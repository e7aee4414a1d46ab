"""Nothing was compiled

What it means
    The compiler's log was on and the processes say at their end that they compiled nothing:
    `torch.compile` had no effect, everything ran eagerly.

Why it happens
    The compiled object was never called (the original module is trained instead), compiling
    is switched off (`TORCHDYNAMO_DISABLE`, `TORCH_COMPILE_DISABLE`, a stance of
    `force_eager`), or every frame that was tried fell back.

How to confirm
    `TORCH_LOGS=dynamo` prints at the end of each process which frames Dynamo attempted;
    the list is empty, or no line says "calling compiler function".

How to fix
    Call what `torch.compile` returned, or compile in place (`model.compile()`); remove the
    switch; mend what made each frame fall back.

Limits
    Helper processes print empty lists, too: this rule speaks only if no process of the job
    compiled anything. Releases before 2.6 print no list of frames.

References
    - https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy.claim import from_exception, from_record
from necropsy.evidence.compiles import CompileRow, Compiles
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.settings import Settings
from necropsy.finding import Confidence, Finding, Fix, Place, Severity
from necropsy.provenance.dynamo import plain_function
from necropsy.provenance.frames import is_library
from necropsy.rule import rule

_CALL: Final = Fix("Call the object that `torch.compile` returned, or compile in place with `model.compile()`", "code")
_FRAMES: Final = Fix("Mend what made each frame fall back (`TORCH_LOGS=graph_breaks` says it)", "code")
_SWITCHES: Final = ("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE")
# torch 2.13, torch/_dynamo/eval_frame.py; 2.12 warns in the same words.
_NO_FRAMES: Final = "torch.compile with fullgraph=True found no compiled frames"


@rule("CMP016", "nothing-compiled", Severity.WARNING, aliases=("no-graphs",))
def check(compiles: Compiles, exceptions: Exceptions, settings: Settings | None) -> Iterator[Finding]:
    """What torch raises, or a job whose processes all say that they compiled nothing."""
    for row in exceptions:
        if _NO_FRAMES in row.text:
            yield from_exception(
                row, "`torch.compile(fullgraph=True)` compiled nothing: the frame was skipped.", fixes=(_FRAMES,)
            )
    ends = [s for s in compiles.steps if s.step in ("attempted", "metrics")]
    compiled = any(r.backend_calls for r in compiles) or any(s.seconds for s in ends)
    attempted = [s for s in ends if s.step == "attempted"]
    if not attempted:
        return
    if not compiled and not any(s.frames for s in attempted):
        off = _switched_off(settings)
        yield from_record(
            attempted[0],
            f"Nothing was compiled: {off} is set." if off else "Nothing was compiled: no compiled function was called.",
            Severity.WARNING,
            confidence=Confidence.CERTAIN,
            facts={"processes": len(attempted), "frames attempted": 0},
            fixes=(Fix(f"Unset {off}", "env"),) if off else (_CALL,),
        )
    elif compiles.rows and any(s.frames for s in attempted) and not any(r.backend_calls for r in compiles):
        frames = {(r.file, r.line, r.function): r for r in compiles if r.file and not is_library(r.file)}
        yield from_record(
            attempted[0],
            f"Nothing was compiled: none of the {max(s.frames or 0 for s in attempted)} frames that were tried gave "
            "the backend a graph; all of them run eagerly.",
            Severity.WARNING,
            code=tuple(_place(r) for r in list(frames.values())[:5]),
            facts={"processes": len(attempted), "frames attempted": max(s.frames or 0 for s in attempted)},
            fixes=(_FRAMES,),
        )


def _switched_off(settings: Settings | None) -> str:
    for row in settings or ():
        if row.name in _SWITCHES and row.value not in ("", "0"):
            return str(row.name)
    return ""


def _place(row: CompileRow) -> Place:
    return Place(row.file, row.line, None, plain_function(row.function), "", "function", "compile log")
