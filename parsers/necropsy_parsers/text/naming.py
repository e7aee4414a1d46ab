"""What an input's name tells of its writer.

logs/none_abc123/attempt_0/3/stderr.log      torchrun --log-dir: attempt 0, local rank 3
train_rank_12.log   rank-3/stdout.txt        rank 12; rank 3
restart_2/node-1.log                         attempt 2
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

_ELASTIC: Final = re.compile(
    r"(?:^|[/\\])attempt_(?P<attempt>\d+)[/\\](?P<rank>\d+)[/\\](?:stdout|stderr|error)[\w.]*$"
)
# In a file's own name anywhere, of a folder only its whole name: `eval-on-rank0/run.log` is not rank 0's.
# LoRA's rank is none of a process, a local rank counts within its node only.
_RANK: Final = re.compile(
    r"(?:^|[^A-Za-z])(?<!lora[-_ .])(?<!local[-_ .])rank[-_ .]?(?P<rank>\d{1,6})(?!\d)", re.IGNORECASE
)
_RANK_FOLDER: Final = re.compile(r"rank[-_ .]?(?P<rank>\d{1,6})", re.IGNORECASE)
_ATTEMPT: Final = re.compile(
    r"(?:^|[^A-Za-z])(?:attempt|restart|retry|try)[-_ .]?(?P<attempt>\d{1,4})(?!\d)", re.IGNORECASE
)


class Named(Struct, frozen=True):
    """Rank and attempt of all lines that do not say otherwise."""

    rank: int | None = None
    attempt: int = 0


NOBODY: Final = Named()


def named(name: str) -> Named:
    """What `name` (a path or archive member) tells.

    torchrun's folders count local ranks; on one node these are the ranks.
    """
    elastic = _ELASTIC.search(name)
    if elastic is not None:
        return Named(int(elastic["rank"]), int(elastic["attempt"]))
    *folders, file = re.split(r"[/\\!]", name)[-3:]
    ranks = list(_RANK.finditer(file)) or [m for f in folders if (m := _RANK_FOLDER.fullmatch(f)) is not None]
    attempt = next((m for part in (file, *folders) if (m := _ATTEMPT.search(part)) is not None), None)
    return Named(int(ranks[-1]["rank"]) if ranks else None, int(attempt["attempt"]) if attempt else 0)
