"""An input could not be read, or is damaged

What it means
    A path does not exist or may not be read, a compressed file or flight-recorder dump is
    damaged, or a pickle asks for more than plain data (code to run) and was refused; an Nsight
    Compute report is damaged, or NVIDIA's reader for it is not installed. What it held is missing
    from this report.

Why it happens
    A typing error, a file that another user owns, a copy that broke, two writers in one
    gzip file. A pickle that asks for code was not written by torch.

How to confirm
    `ls -l` and `file` on the path; `gzip -t`, `xz -t`, `zstd -t`.

How to fix
    Correct the path, or copy the file again. For Nsight Compute reports, `pip install
    'necropsy[ncu]'`, or give what `ncu --import FILE --page raw --csv` prints.

Limits
    What stands before the damage has been read and judged.

References
    - https://www.rfc-editor.org/rfc/rfc1952
    - https://docs.python.org/3/library/pickle.html#restricting-globals
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.records import Anchor

from necropsy.evidence.reading_issues import ReadingIssues
from necropsy.finding import Finding, Fix, Role, Severity
from necropsy.rule import rule

_COPY: Final = Fix("Check the path and its permissions, or copy the file again", "investigate")
_DUMP: Final = Fix("Copy the dump again from the machine that wrote it", "investigate")
_NCU: Final = Fix("Copy the report again, or collect it again", "investigate")
_STRANGE: Final = Fix(
    "Do not unpickle it with other tools before you know who wrote it; take torch's own dump of that rank",
    "investigate",
)
_EXPORT: Final = "ncu --import FILE --page raw --csv"
_SAYS: Final[dict[str, tuple[str, *tuple[Fix, ...]]]] = {
    "source/unreadable": ("could not be read", _COPY),
    "source/corrupt": ("could not be read to its end", _COPY),
    "ncu/no-reader": (
        "is an Nsight Compute report, which needs the extra ncu (NVIDIA's ncu-report), and was not read",
        Fix("Install the extra", "command", command="pip install 'necropsy[ncu]'"),
        Fix("Or export the report with ncu itself, and give that", "command", command=_EXPORT),
    ),
    "ncu/undecodable": ("is an Nsight Compute report that NVIDIA's reader could not read", _NCU),
    "ncu/damaged": ("is a damaged Nsight Compute report", _NCU),
    "ncu/empty": (
        "is an Nsight Compute report without any profiled kernel",
        Fix("See what ncu printed: an error, or filters that fit no kernel", "investigate"),
    ),
    "ncu/lost": (
        "is an Nsight Compute report of which launches could not be read",
        Fix("Export them with ncu itself, and give that", "command", command=_EXPORT),
    ),
    "flight/damaged": ("is a damaged flight-recorder dump, of which only the beginning was read", _DUMP),
    "flight/no-dump": ("has keys of a flight-recorder dump, but is none", _DUMP),
    "pickle/refused": ("is a pickle that asks for more than plain data and was not read", _STRANGE),
}


@rule("INP001", "unreadable-input", Severity.WARNING)
def check(issues: ReadingIssues) -> Iterator[Finding]:
    """One finding an input that cannot be read, is damaged or is refused."""
    for i in issues:
        if i.kind not in _SAYS:
            continue
        what, *fixes = _SAYS[i.kind]
        detail = f": {i.detail}" if i.detail else ""
        yield Finding(
            message=f"{i.input} {what}{detail}.",
            anchor=i.first or Anchor(i.input, 0, 0, 1),
            severity=Severity.WARNING,
            role=Role.SYMPTOM,
            fixes=tuple(fixes),
            event=f"{i.kind}@{i.input}",
        )
