"""Command line to a running language server: `necropsy-lsp [--tcp HOST:PORT]`.

Only the standard library is imported here, so that a missing extra is one clear line
and not a traceback.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

USAGE_ERROR: Final = 2
EXTRA: Final = frozenset({"pygls", "lsprotocol"})


def tcp_address(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT` or `[IPV6]:PORT`. Raises `ArgumentTypeError` for anything else."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise argparse.ArgumentTypeError(f"not HOST:PORT: {text!r}")
    return host, int(port)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="necropsy-lsp",
        description="Language server: shows findings stored by `necropsy analyze --save` on their Python lines.",
    )
    parser.add_argument(
        "--tcp", type=tcp_address, metavar="HOST:PORT", help="serve one client over TCP instead of stdin and stdout"
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until the client leaves; returns the exit status: 2 without the `lsp` extra or the address."""
    arguments = _arguments(argv)
    try:
        from necropsy_lsp.server import NecropsyServer
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA:
            raise
        print("necropsy-lsp: the editor support is not installed; run: pip install 'necropsy[lsp]'", file=sys.stderr)
        return USAGE_ERROR
    server = NecropsyServer()
    if arguments.tcp is None:
        server.start_io()
        return 0
    host, port = arguments.tcp
    try:
        server.start_tcp(host, port)
    except OSError as error:
        print(f"necropsy-lsp: cannot listen on {host} port {port}: {error.strerror}", file=sys.stderr)
        return USAGE_ERROR
    return 0


if __name__ == "__main__":
    sys.exit(main())
