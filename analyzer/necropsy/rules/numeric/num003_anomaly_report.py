"""Autograd's anomaly mode found the operation whose gradient is NaN

What it means
    With anomaly detection on, backward stopped at the first operation that returned NaN, and
    torch printed the line of the forward pass that made it. It is the most exact evidence of
    a NaN that there is.

Why it happens
    The derivative does not exist there: sqrt or norm at zero, log of zero or of a negative
    number, division by zero, 0 times infinity in a masked softmax, an overflow.

How to confirm
    Print the operand's minimum and maximum at that line.

How to fix
    Keep the operand away from the bad point (add a small epsilon inside the root or logarithm,
    clamp, mask before and not after).

Limits
    The report names where NaN first came out of backward; the value that caused it may have
    been made earlier.

References
    - https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from necropsy_parsers.numbers import natural
from necropsy_parsers.patterns import lazily

from necropsy.claim import from_exception
from necropsy.conditions import NOT_FINITE, PROCESS_DIED
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.python_warnings import PythonWarnings
from necropsy.finding import Finding, Fix, Place, Related, Severity
from necropsy.provenance.frames import innermost_user, place_of
from necropsy.rule import rule

_RAISED: Final = lazily(r"Function '(?P<node>\w+)' returned nan values in its (?P<n>\d+)th output")
_ADVICE: Final = {
    "Sqrt": (
        "sqrt has an infinite slope at 0 and none below: add an epsilon under the root, or clamp to a positive minimum"
    ),
    "Pow": "a fractional power has no slope at 0 and no value below: clamp the base",
    "Log": "log has no value at or below 0: clamp, or use log1p / log_softmax",
    "Div": "a division by (nearly) zero: add an epsilon to the divisor",
    "Norm": "a norm has no slope at 0: add an epsilon",
    "LinalgVectorNorm": "a norm has no slope at 0: add an epsilon",
    "Softmax": "a row that is masked completely gives NaN: keep one position, or mask after softmax",
    "LogSoftmax": "the logits hold NaN or Inf: check what comes in",
    "Acos": "acos has an infinite slope at -1 and 1: clamp inside",
    "Std": "the standard deviation of equal values has no slope: add an epsilon",
    "Exp": "exp overflows: subtract the maximum first",
}


def _advice(node: str) -> str:
    name = re.sub(r"Backward\d*$", "", node)
    return _ADVICE.get(name, "check the operand's range at that line for zeros, negative or infinite values")


@rule("NUM003", "anomaly-report", Severity.FATAL)
def check(exceptions: Exceptions, warnings: PythonWarnings) -> Iterator[Finding]:
    """The exception of anomaly mode, at the forward line that its warning names."""
    for row in exceptions:
        m = _RAISED.search(row.text)
        if m is None:
            continue
        told = [
            w
            for w in warnings
            if w.node == m["node"] and w.frames and w.attempt == row.attempt and w.origin.rank == row.origin.rank
        ]
        warning = told[-1] if told else None
        user = innermost_user(warning.frames) if warning is not None else None
        places: tuple[Place, ...] = (
            (place_of(user, how="forward call of the anomaly report"),) if user is not None else ()
        )
        places += tuple(p for p in row.places if not places or (p.file, p.line) != (places[0].file, places[0].line))
        finding = from_exception(
            row,
            f"Backward of the operation at this line returned NaN ({m['node']}, output {m['n']}).",
            code=places[:5],
            facts={"node": m["node"], "output": natural(m["n"])},
            fixes=(Fix(f"{_advice(m['node'])[0].upper()}{_advice(m['node'])[1:]}", "code"),),
            related=(Related(warning.anchor, "anomaly mode's report of the forward call"),)
            if warning is not None
            else (),
            leaves=frozenset({NOT_FINITE, PROCESS_DIED}),
        )
        yield replace(finding, message=finding.message if user else finding.message.replace("at this line ", ""))
