"""Writes the fixtures of the rules about engines."""

from __future__ import annotations

from tests.support.engine_cases.write import write_all

if __name__ == "__main__":
    write_all()
