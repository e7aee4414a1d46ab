"""Writes the fixtures of all families."""

from __future__ import annotations

from tests.support.trace_cases.write import write_all

if __name__ == "__main__":
    write_all()
