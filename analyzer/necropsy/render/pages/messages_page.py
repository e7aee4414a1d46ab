"""The message kinds that are read inside logs -> one page: what writes them, and what they look like."""

from __future__ import annotations

from collections.abc import Iterable

from necropsy_parsers.messages import MessageFormat

from necropsy.render.markdown import fence
from necropsy.render.pages import MARK, from_docstring


def messages_page(kinds: Iterable[MessageFormat]) -> str:
    """Every kind with its docstring and sample lines."""
    intro = "What a log is searched for, one module a kind in `parsers/necropsy_parsers/messages/`."
    parts = [MARK, "# Messages read in logs", intro]
    for kind in kinds:
        parts += [f"## {kind.title}", f"Name: `{kind.name}`", from_docstring(kind.doc)]
        parts.append(fence([line for sample in kind.samples for line in sample.splitlines()]))
    return "\n\n".join(parts) + "\n"
