"""Which release of torch wrote a log, so that no advice names what it does not have."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from necropsy_parsers.messages.setting import Setting
from necropsy_parsers.numbers import natural

_RELEASE: Final = re.compile(r"(\d+)\.(\d+)")


def torch_release(settings: Iterable[Setting]) -> tuple[int, int] | None:
    """Major and minor number of the torch that the log names last, or None where it names none."""
    found = None
    for setting in settings:
        if setting.name == "torch" and (m := _RELEASE.match(setting.value)) is not None:
            found = (natural(m[1]), natural(m[2]))
    return found
