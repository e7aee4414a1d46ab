"""Where the files that a report names lie on this machine."""

from __future__ import annotations

from collections.abc import Callable

from necropsy.finding import Place
from necropsy.report import Report


def locator(report: Report) -> Callable[[str], str]:
    """File of the log -> local file that stands for it, or the same name where there is none.

    Asks the tree that the analysis has searched already, which is behind the report's
    excerpts: a second search would cost as much as the first.
    """
    from necropsy.provenance.files import SourceTree

    tree = getattr(report.excerpt, "__self__", None)
    if not isinstance(tree, SourceTree):
        return str
    return lambda file: str(tree.path(file) or file)


def teller(report: Report) -> Callable[[Place], str]:
    """Place -> what is to be said about its local source: changed since the run, or one of several that fit."""
    from necropsy.provenance.files import SourceTree
    from necropsy.provenance.standing import standing

    tree = getattr(report.excerpt, "__self__", None)
    if not isinstance(tree, SourceTree):
        return lambda _: ""
    return lambda place: standing(tree, place)
