"""A file or folder is missing, or may not be used

What it means
    The program asked for a path that does not exist there, or that its user may not
    read or write.

Why it happens
    A relative path seen from another working folder, a path of another machine or
    container, a data set or checkpoint that was not mounted on this node, a name of a
    hub model on a machine without network.

How to confirm
    List the path on the very node (and inside the container) that ran the job, as the
    user that ran it.

How to fix
    Correct the path or the mount; give absolute paths to batch jobs; create output
    folders before the job starts.

Limits
    Network file systems can lose a path for a moment; a file that exists now may not
    have existed then.

References
    - https://docs.python.org/3/library/exceptions.html#os-exceptions
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy.claim import from_exception, from_record, match, said, saying
from necropsy.conditions import PROCESS_DIED
from necropsy.evidence.activity import Activity
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.shell_refusals import ShellRefusals
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule

_CHECK: Final = Fix("Check the path on the node and in the container that ran the job; prefer absolute paths", "config")
SAYINGS: Final = (
    saying(
        r"^\w+: \[Errno 13\] (?:[Pp]ermission denied)(?:: (?P<path>.+?))?$|^PermissionError: (?P<other>[^\n]+)",
        "The job's user may not use {path}{other} (permission denied).",
        Fix("Give the job's user access to the path, or write somewhere it may", "config"),
    ),
    saying(
        r"^\w+: \[Errno 2\] No such file or directory: (?P<path>[^\n]+?)(?: -> [^\n]+)?$",
        "There is no {path} where the job ran.",
        _CHECK,
    ),
    saying(
        r"^FileNotFoundError: (?P<what>[^\n]+)",
        "A file is missing: {what}.",
        _CHECK,
    ),
    saying(
        r"^(?:IsADirectoryError|NotADirectoryError|FileExistsError): (?:\[Errno \d+\] )?(?P<what>[^\n]+)",
        "A path is not what the program expects: {what}.",
        _CHECK,
    ),
    saying(
        (
            r"^(?:"
            r"OSError|EnvironmentError|RepositoryNotFoundError|LocalEntryNotFoundError|ValueError|HFValidationError"
            r"): "
            r"(?P<what>[^\n]*(?:"
            r"is not a local folder and is not a valid model identifier"
            r"|does not appear to have a file named"
            r"|Can't load (?:tokenizer|the model|config\w*|feature extractor|image processor) for"
            r"|Error no file named"
            r"|couldn't connect to 'https://huggingface\.co'"
            r"|Repository Not Found)[^\n]*)"
        ),
        "A model or tokenizer was found neither here nor on the hub: {what}.",
        Fix("Give the local folder, or download it beforehand on a machine with network access", "config"),
    ),
    saying(
        (
            r"(?:RuntimeError|OSError|IOError|\w*Error): "
            r"(?P<what>[^\n]*(?:File|file|directory|folder|[Pp]ath|Parent directory) "
            r"[^\n]{0,200}?(?:does not exist|not found|cannot be opened|can't be opened|doesn't exist)[^\n]*)"
        ),
        "A file or folder is missing: {what}.",
        _CHECK,
        types=(
            "RuntimeError",
            "OSError",
            "IOError",
            "ValueError",
            "AssertionError",
            "Exception",
            "DatasetNotFoundError",
        ),
        likely=True,
    ),
)


_START: Final = {
    "permission denied": Fix(
        "Make the script executable, or start it through its interpreter", "command", command="chmod +x SCRIPT"
    ),
    "command not found": Fix("Activate the environment that holds the command, or install it there", "command"),
}


@rule("CRS008", "missing-file", Severity.FATAL)
def check(exceptions: Exceptions, refusals: ShellRefusals, activity: Activity) -> Iterator[Finding]:
    """Exceptions of the operating system about paths, and what shells and launchers could not start."""
    for refusal in refusals:
        yield from_record(
            refusal,
            f"`{refusal.path}` could not be started or opened: {refusal.reason}.",
            Severity.FATAL,
            activity=activity,
            facts={"path": refusal.path, "reason": refusal.reason, "said by": refusal.by},
            fixes=(_START.get(refusal.reason.lower(), _CHECK),),
            leaves=frozenset({PROCESS_DIED}),
        )
    for row in exceptions:
        if (found := match(SAYINGS, row)) is not None:
            yield from_exception(row, said(found), fixes=found[0].fixes, confidence=found[0].confidence)
