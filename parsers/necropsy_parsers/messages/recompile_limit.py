"""A function was compiled as often as is allowed: from here on it runs eagerly.

torch._dynamo hit config.recompile_limit (8)
   function: 'blend' (/home/trainer/blend.py:4)
   last reason: 0/7: y == 7      # return x + y  # er/blend.py:5 in blend
torch._dynamo.exc.FailOnRecompileLimitHit: Hard failure due to fullgraph=True
torch._dynamo.exc.FailOnRecompileLimitHit: recompile_limit reached with fullgraph=True. Excessive recompilations ...
torch._dynamo.exc.Unsupported: cache_size_limit reached

The limit is called cache_size_limit up to torch 2.6 and recompile_limit since; accumulated_... counts all copies of the
function's code. The last reason is that of the oldest compiled version up to 2.6, of the newest since.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record
from necropsy_parsers.text.guard_failure import GuardFailure, failure
from necropsy_parsers.torch_artifacts import Reads

NAME: Final = "recompile_limit"
TITLE: Final = "The limit of recompilations, after which a function runs eagerly"
TRIGGERS: Final = (
    b"torch._dynamo hit config.",
    b"last reason: ",
    b" function: '",
    b"FailOnRecompileLimitHit",
    b"FailOnCacheLimitHit",
    b"e limit exceeded",  # Dynamo recompile limit exceeded, Dynamo cache limit exceeded
    b"_limit reached",
)
READS: Final = (Reads("", "2.1", "the limit that was hit, function, last reason"),)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "torch._dynamo hit config.cache_size_limit (8)": {"option": "cache_size_limit", "limit": 8, "form": "warning"},
    "   last reason: 1/0: tensor 'L['images']' size mismatch at index 2. expected 1696, actual 1248": {
        "option": "",
        "function": "",
        "form": "warning",
    },
    "   function: 'forward' (/home/trainer/head.py:131)": {"function": "forward", "line": 131, "form": "function"},
}
_HIT: Final = lazily(r"(?:^|[\]:])[ \t]*torch\._dynamo hit config\.(?P<option>\w+) \((?P<limit>\d+)\)", re.MULTILINE)
_FUNCTION: Final = lazily(r"^ *function: '(?P<function>[^'\n]+)' \((?P<file>[^\n]+):(?P<line>\d+)\)", re.MULTILINE)
_REASON: Final = lazily(
    r"(?:last reason|reasons):(?:\s*reasons:)?[ \t]*(?P<reason>.*?)"
    r"(?=\n\s*[Tt]o (?:log all recompilation|diagnose recompilation)|\Z)",
    re.DOTALL,
)
_NO_GUARD: Final = frozenset({"unknown", "condition", "bool"})
_ENDS: Final = lazily(
    r"(?:FailOnRecompileLimitHit|FailOnCacheLimitHit)|Dynamo (?:re)?(?:compile|cache) limit exceeded"
    r"|(?P<option>(?:accumulated_)?(?:cache_size|recompile)_limit) reached"
)
_OPTION: Final = lazily(r"Limit type: (?P<a>\w+)|exceeding the (?P<b>\w+) cache size limit|(?P<c>\w*_limit) reached")
_VALUE: Final = lazily(r"currently set to (?P<limit>\d+)")


class RecompileLimit(Record, frozen=True):
    """The limit was hit.

    `form`: warning; function (the middle line of a torn warning, no claim by itself); exception (the run may not go
    on eagerly). `option` is the setting's name as printed, `limit` its value, `reason` the guard that failed last;
    `wording` is "2.1" where it is that release's.
    """

    form: str
    option: str
    limit: int | None
    function: str
    file: str
    line: int | None
    compile_id: str
    reason: GuardFailure | None
    wording: str


def read(message: Message) -> Iterator[RecompileLimit]:
    """The limit that a message tells."""
    text = message.text
    if message.exception is not None:
        if _ENDS.search(text) is not None:
            option, value = _OPTION.search(text), _VALUE.search(text)
            yield _limit(
                message, "exception", next((g for g in option.groups() if g), "") if option else "", value, text
            )
        return
    hits = list(_HIT.finditer(text))
    if hits:
        for i, hit in enumerate(hits):
            end = hits[i + 1].start() if i + 1 < len(hits) else len(text)
            yield _limit(message, "warning", hit["option"], hit, text[hit.start() : end])
    elif "last reason: " in text:
        torn = _limit(message, "warning", "", None, text)
        guard = torn.reason.guard.kind if torn.reason is not None else "unknown"
        if message.origin.compile_id or guard not in _NO_GUARD:  # others have last reasons, too
            yield torn
    elif _FUNCTION.match(text) is not None and "\n" not in text.strip():
        yield _limit(message, "function", "", None, text)


def _limit(message: Message, form: str, option: str, value: re.Match[str] | None, text: str) -> RecompileLimit:
    named, reason = _FUNCTION.search(text), _REASON.search(text)
    return RecompileLimit(
        message.anchor,
        form,
        option,
        int(value["limit"]) if value else None,
        named["function"] if named else "",
        named["file"] if named else "",
        int(named["line"]) if named else None,
        message.origin.compile_id,
        failure(reason["reason"]) if reason and form == "warning" else None,
        "2.1" if "REPORT_GUARD_FAILURES" in text or (reason and reason[0].startswith("reasons")) else "",
        **message.common,
    )
