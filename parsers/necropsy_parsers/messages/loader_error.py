"""The dynamic loader could not start a program or load a library.

python3: /lib64/libc.so.6: version `GLIBC_2.34' not found (required by python3)
./run: error while loading shared libraries: libcudart.so.12: cannot open shared object file: No such file or directory
python: symbol lookup error: /opt/ext/ops.so: undefined symbol: _ZN3c105ErrorC2E
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record

NAME: Final = "loader_error"
TITLE: Final = "Failures of the dynamic loader"
TRIGGERS: Final = (
    b"error while loading shared libraries",
    b"symbol lookup error",
    b"' not found (required by",
    b"Could not load library",
    b"Cannot load symbol",
)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "python: symbol lookup error: /opt/ext/ops.so: undefined symbol: _ZN3c105ErrorC2E": {"library": "/opt/ext/ops.so"},
}
_FORMS: Final = (
    lazily(r"(?P<program>\S+): error while loading shared libraries: (?P<library>[^:]+): (?P<what>.+)"),
    lazily(r"(?P<program>\S+): symbol lookup error: (?P<library>[^:]+): (?P<what>undefined symbol: \w+)"),
    lazily(r"(?P<program>)Could not load library (?P<library>\S+?)\.? Error: (?P<what>.+)"),
    lazily(r"(?P<program>)(?:Invalid handle\. )?(?P<what>Cannot load symbol (?P<library>\w+))"),
    lazily(r"(?P<program>\S+): (?P<library>\S+): (?P<what>version `[\w.]+' not found \(required by [^)]+\))"),
)


class LoaderError(Record, frozen=True):
    """One failure: the program, the library, and what the loader said of it."""

    program: str
    library: str
    what: str


def read(message: Message) -> Iterator[LoaderError]:
    """The failure that `message` reports, if it does; inside an exception the exception's rule tells it."""
    if message.exception is not None:
        return
    text = message.first.strip()
    m = next((found for form in _FORMS if (found := form.match(text))), None)
    if m is not None:
        yield LoaderError(
            message.anchor,
            m["program"],
            m["library"].strip(),
            m["what"].strip(),
            **message.common,
        )
