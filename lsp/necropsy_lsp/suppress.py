"""Comments that silence findings: `# necropsy: ignore` and `# necropsy: ignore[CMP003, OOM]`.

The comment stands on a line of the statement. Codes are rule codes or their prefixes; no
codes mean every rule. What follows the comment on its line is a reason and is not read.
`# noqa` belongs to other tools and silences nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_COMMENT = re.compile(r"[ \t]*#[ \t]*necropsy:[ \t]*ignore\b(?:[ \t]*\[([^\]\n]*)\])?.*", re.IGNORECASE)


def without_comment(line: str) -> str:
    """The line without such a comment: writing one does not change what the line does."""
    return _COMMENT.sub("", line) if "#" in line else line


def silences(line: str, code: str) -> bool:
    """Whether a comment on this line silences the rule."""
    found = _COMMENT.search(line) if "#" in line else None
    if found is None:
        return False
    if found[1] is None:
        return True
    prefixes = [part.strip().upper() for part in found[1].split(",")]
    return any(prefix and code.upper().startswith(prefix) for prefix in prefixes)


def silenced(lines: Sequence[str], first: int, last: int, code: str) -> bool:
    """Whether a comment on one of the lines `first` to `last` silences the rule."""
    return any(silences(line, code) for line in lines[first : last + 1])
