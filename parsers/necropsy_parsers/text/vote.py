"""Prefixes that look like ordinary text, taken only when most lines of the head bear them.

`3: ` is srun's task label or a numbered list; `node-17: ` is pdsh or a sentence;
`svc-1  | ` is docker compose or a table. One line cannot tell, the head of a log can.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from necropsy_parsers.records import Origin
from necropsy_parsers.text.prefix import Update

SHARE: Final = 0.6  # of the non-blank lines; wrapped and foreign lines make up the rest
MAX_WRITERS: Final = 4096


def _task(o: Origin, m: re.Match[str]) -> Origin:
    return replace(o, rank=int(m["rank"]))


def _host(o: Origin, m: re.Match[str]) -> Origin:
    local = m["local"]
    return replace(o, host=m["host"], local_rank=int(local) if local else o.local_rank)


def _service(o: Origin, m: re.Match[str]) -> Origin:
    return replace(o, source=m["source"])


CANDIDATES: Final[tuple[tuple[re.Pattern[str], Update], ...]] = (
    (re.compile(r" {0,4}(?P<rank>\d{1,5}): ?(?!\d\d:)"), _task),
    (
        re.compile(
            r"(?P<host>(?=[\w.-]*[A-Za-z])(?=[\w.-]*[\d-])[A-Za-z0-9][\w.-]{1,62}?)(?::(?P<local>\d{1,3}))?:(?: |$)"
        ),
        _host,
    ),
    (re.compile(r"(?P<source>[A-Za-z0-9][\w.-]{0,62}?) *\| ?"), _service),
)


def vote(lines: Sequence[str]) -> list[tuple[re.Pattern[str], Update]]:
    """The candidate prefixes that most of `lines` bear."""
    full = [line for line in lines if line.strip()]
    if len(full) < 3:
        return []
    chosen = []
    for pattern, update in CANDIDATES:
        found = [m[0] for line in full if (m := pattern.match(line)) is not None]
        writers = set(found)
        numbered = len(found) > 2 and len(writers) > 0.9 * len(found) and len(found) > 8
        if len(found) >= SHARE * len(full) and len(writers) <= MAX_WRITERS and not numbered:
            chosen.append((pattern, update))
    return chosen
