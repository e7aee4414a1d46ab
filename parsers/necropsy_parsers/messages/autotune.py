"""Autotuning of Inductor's templates: tables of timings, and the configurations that did not run.

    AUTOTUNE mm(16384x128, 128x256)
    strides: [128, 1], [256, 1]
    dtypes: torch.float16, torch.float16
      triton_mm_275 0.0745 ms 100.0% ACC_TYPE='tl.float32', ALLOW_TF32=True, BLOCK_K=32, ...
      mm 0.0812 ms 91.7%
    SingleProcess AUTOTUNE benchmarking takes 0.9201 seconds and 3.5530 seconds precompiling for 38 choices
    out of resource: shared memory, Required: 131072, Hardware limit: 101376. Reducing block sizes or `num_stages` ...
    Exception No valid triton configs. OutOfMemoryError: out of resource: triton_mm Required: 327680 Hardware
    limit:232448 Reducing block sizes or `num_stages` may help. for benchmark choice TritonTemplateCaller(...)

Templates: torch/_inductor/{select_algorithm,autotune_process}.py, runtime/triton_heuristics.py, and Triton's own
`OutOfResources`. The table goes to stderr without a head, the ten fastest choices at most; strides and types since
torch 2.8, configurations since 2.5, the number of choices since 2.6. `out of resource` counts bytes of shared memory of
one multiprocessor, whatever the exception is called: device memory has nothing to do with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record
from necropsy_parsers.torch_artifacts import Reads

NAME: Final = "autotune"
TITLE: Final = "Autotuning of templates"
TRIGGERS: Final = (
    b"AUTOTUNE ",
    b"out of resource",
    b"No valid triton configs",
    b"for benchmark choice",
    b"during autotuning: ",
    b"benchmark choice '",
    b"benchmarking choice '",
    b"No choices to select",
    b"All autotuning benchmarks failed",
)
READS: Final = (Reads("", "2.1", "AUTOTUNE tables on stderr, seconds, dropped configurations"),)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "AUTOTUNE mm(64x32, 32x16)\n  triton_mm_3 0.0745 ms 100.0% ACC_TYPE='tl.float32'\n  mm 0.0812 ms 91.7%": {
        "op": "mm", "shapes": ("64x32", "32x16"), "rows": (("triton_mm_3", 0.0745), ("mm", 0.0812)),
    },
    "SingleProcess AUTOTUNE benchmarking takes 0.9201 seconds and 3.5530 seconds precompiling for 38 choices": {
        "seconds": 0.9201, "precompiling": 3.553, "choices": 38,
    },
    "out of resource: shared memory, Required: 131072, Hardware limit: 101376. Reducing block sizes or "
    "`num_stages` may help.": {"kind": "shared memory", "required": 131072, "limit": 101376},
}  # fmt: skip
_TABLE: Final = lazily(r"^\W*AUTOTUNE (?P<op>[\w.:]+)\((?P<shapes>[^)\n]*)\)", re.M)
_STRIDES: Final = lazily(r"^strides: ([^\n]*)", re.M)
_DTYPES: Final = lazily(r"^dtypes: ([^\n]*)", re.M)
_ROW: Final = lazily(
    r"^[ \t]+(?P<name>[\w.:]+) (?P<ms>\d+(?:\.\d+)?|inf) ms (?:[\d.]+%|nan%|<DIVIDED BY ZERO ERROR>)"
    r" ?(?P<config>[^\n]*)",
    re.M,
)
_TIME: Final = lazily(
    r"(?P<how>\w+) AUTOTUNE (?:benchmarking )?takes (?P<seconds>\d+(?:\.\d+)?) seconds"
    r"(?: and (?P<pre>\d+(?:\.\d+)?) seconds precompiling)?(?: for (?P<choices>\d+) choices)?"
)
_RESOURCE: Final = lazily(
    r"out of resources?: (?P<what>[\w ]+?),? Required: (?P<required>\d+),? Hardware limit: ?(?P<limit>\d+)"
)
_NO_CHOICES: Final = lazily(r"No choices to select[^\n]*|All autotuning benchmarks failed[^\n]*")
_REJECTS: Final = (
    lazily(r"Exception (?P<why>.*?) for benchmark choice (?P<choice>[^\n]*)", re.DOTALL),
    lazily(r"(?P<kind>Runtime|CUDA compilation) error during autotuning: \n?(?P<why>.*?)\. \n?Ignor", re.DOTALL),
    lazily(r"(?:Failed to benchmark|Timed out benchmarking|Fail to benchmark) choice '(?P<choice>[^'\n]*)'"),
)
_UNSEEN: Final = lazily(r"No valid triton configs[^\n]*")


class AutotuneTable(Record, frozen=True):
    """The timings of one operation: `rows` are (choice, milliseconds), the fastest first; infinite ones did not run.

    `outside` are the names of those rows that no template made (cuBLAS, cuDNN, ATen).
    """

    op: str
    shapes: tuple[str, ...]
    strides: str
    dtypes: str
    rows: tuple[tuple[str, float], ...]
    outside: tuple[str, ...]


class AutotuneTime(Record, frozen=True):
    """What autotuning cost: seconds of benchmarking and of compiling, and the number of choices where told."""

    how: str
    seconds: float
    precompiling: float | None
    choices: int | None


class AutotuneReject(Record, frozen=True):
    """One configuration that did not run.

    `kind`: shared memory, registers, ... (what it needs too much of), compile, runtime, benchmark; or none: no choice
    is left. `required` and `limit` in units of `kind` (bytes of shared memory).
    """

    kind: str
    choice: str
    required: int | None
    limit: int | None
    text: str


def read(message: Message) -> Iterator[Record]:
    """What `message` says about autotuning."""
    text = message.text
    if message.exception is None:
        yield from _tables(message)
    if (none := _NO_CHOICES.search(text)) is not None:
        yield AutotuneReject(message.anchor, "none", "", None, None, none[0], **message.common)
        return
    yield from _rejects(message)


def _tables(message: Message) -> Iterator[Record]:
    text = message.text
    heads = list(_TABLE.finditer(text))
    ends = [*(m.start() for m in heads[1:]), len(text)]
    for m, end in zip(heads, ends, strict=False):
        part = text[m.end() : end]
        strides, dtypes, rows = _STRIDES.search(part), _DTYPES.search(part), list(_ROW.finditer(part))
        yield AutotuneTable(
            message.anchor,
            m["op"],
            tuple(s.strip() for s in m["shapes"].split(", ") if s.strip()),
            strides[1].strip() if strides else "",
            dtypes[1].strip() if dtypes else "",
            tuple((r["name"], float(r["ms"])) for r in rows),
            tuple(r["name"] for r in rows if _is_outside(r["name"], r["config"])),
            **message.common,
        )
    for m in _TIME.finditer(text):
        pre, choices = m["pre"], m["choices"]
        yield AutotuneTime(
            message.anchor,
            m["how"],
            float(m["seconds"]),
            float(pre) if pre else None,
            int(choices) if choices else None,
            **message.common,
        )


def _is_outside(name: str, config: str) -> bool:
    return not config.strip() and not re.match(r"(?:triton|cutlass|cuda|cpp|ck|rocm|decompose|subgraph)_", name)


def _rejects(message: Message) -> Iterator[AutotuneReject]:
    text, told = message.text, False
    for pattern in _REJECTS:
        for m in pattern.finditer(text):
            told = True
            parts = m.groupdict()
            why = parts.get("why") or m[0]
            kind = {"Runtime": "runtime", "CUDA compilation": "compile"}.get(parts.get("kind") or "", "benchmark")
            yield _reject(message, why, parts.get("choice") or "", kind)
    if not told:
        for m in _RESOURCE.finditer(text):
            told = True
            yield _reject(message, m[0], "", "")
    if not told and (unseen := _UNSEEN.search(text)) is not None:
        yield _reject(message, unseen[0], "", "compile")


def _reject(message: Message, why: str, choice: str, kind: str) -> AutotuneReject:
    need = _RESOURCE.search(why)
    if need is not None:  # torch's own launcher names the kernel where Triton names the resource
        kind = (
            need["what"].strip()
            if need["what"].strip() in ("registers", "tensor memory", "threads")
            else "shared memory"
        )
    why = " ".join(why.split())[:300]
    return AutotuneReject(
        message.anchor,
        kind,
        choice.strip(),
        int(need["required"]) if need else None,
        int(need["limit"]) if need else None,
        why,
        **message.common,
    )
