"""Connections that could not be set up: no interface, no name, a port in use, nobody there, InfiniBand and EFA.

    NCCL WARN Bootstrap : no socket interface found
    RuntimeError: [enforce fail at .../gloo/transport/tcp/device.cc:84] ifa != nullptr. Unable to find address for: ib0
    DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, ... EADDRINUSE
    DistNetworkError: The client socket has timed out after 300000ms while trying to connect to (node-0, 29500).
    DistStoreError: Timed out after 601 seconds waiting for clients. 3/4 clients joined.
    NCCL WARN socketStartConnect: Connect to 192.0.2.4<43287> failed : No route to host
    NCCL WARN Call to ibv_create_cq failed with error Cannot allocate memory

c10d prints a warning for every try to connect; only the exception after the last one counts. NCCL's wordings: 2.7 to
2.28 (include/socket.h, misc/socket.cc, os/linux.cc, misc/ibvwrap.cc).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.records import Record

NAME: Final = "network_setup"
TITLE: Final = "Connections that could not be set up"
TRIGGERS: Final = (
    b"socket interface found",
    b": no interface found",
    b"No IP interface found",
    b"Unable to find address for",
    b"Unable to find interface for",
    b"Unable to resolve hostname",
    b"EADDRINUSE",
    b"ddress already in use",
    b"failed to listen on any",
    b"The client socket has",
    b"waiting for clients",
    b"RendezvousConnectionError",
    b"connectFullMesh failed",
    b"onnect to ",
    b"Call to connect",
    b"PollConnect to",
    b"Call to ibv_",
    b"Unable to open device",
    b"NET/OFI",
    b"initialize any NET plugin",
    b"Got completion ",
    b"cannot be retrieved",
    b"No usable listening",
)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "NCCL WARN Bootstrap : no socket interface found": {"kind": "no-interface"},
    "socketStartConnect: Connect to 192.0.2.4<43287> failed : No route to host": {
        "kind": "peer",
        "where": "192.0.2.4:43287",
        "why": "No route to host",
    },
    "DistStoreError: Timed out after 601 seconds waiting for clients. 3/4 clients joined.": {
        "kind": "absent",
        "why": "3 of 4 joined",
    },
}
_REASON: Final = (
    r"(?P<why>Connection refused|No route to host|Connection timed out|Network is unreachable|Host is unreachable"
    r"|Software caused connection abort|Cannot assign requested address|Operation timed out|Invalid argument)"
)
_PEER: Final = r"(?P<host>\[?[\w.:%-]+?\]?)<(?P<port>\d+)>"
# Pattern, kind, whether it counts in a line of the log (else only as what an exception says).
_FORMS: Final = (
    (
        r"(?:Bootstrap|NET/Socket|NET/IB) : (?:no socket interface found|no interface found|No IP interface "
        r"found|No usable)",
        "no-interface",
        True,
    ),
    (
        r"ifa != nullptr\. Unable to find address for: (?P<host>\S+)|Unable to find interface for: (?P<iface>\S+)",
        "no-interface",
        False,
    ),
    (r"rp != nullptr\. Unable to find address for: (?P<host>\S+)", "no-name", False),
    (r"Unable to resolve hostname to a \(local\) address", "no-name", False),
    (
        r"failed to listen on any local network address.*?(?:port: (?P<port>\d+).*)?(?:EADDRINUSE|[Aa]ddress "
        r"already in use)",
        "port",
        False,
    ),
    (r"failed to bind to (?P<host>\S+?):(?P<port>\d+) \(errno: 98", "port", False),
    (r"^RuntimeError: Address already in use$", "port", False),
    (
        r"client socket has timed out after (?P<waited>\d+ ?m?s) while trying to connect to \("
        r"(?P<host>[^,]+), (?P<port>\d+)\)",
        "master",
        False,
    ),
    (
        r"client socket has failed to connect to any network address of \((?P<host>[^,]+), (?P<port>\d+)\)",
        "master",
        False,
    ),
    (
        r"Timed out after (?P<waited>\d+ seconds) waiting for clients\. (?P<joined>\d+)/(?P<all>\d+) clients "
        r"joined",
        "absent",
        False,
    ),
    (
        r"connectFullMesh failed with .*?(?:SO_ERROR: |timed out connecting: )+(?P<why>[\w ]+), remote=\["
        r"(?P<host>[^\]]+)\]:(?P<port>\d+)",
        "peer",
        False,
    ),
    (r"RendezvousConnectionError: The connection to the C10d store has failed", "master", False),
    (rf"[Cc]onnect to {_PEER} (?:failed|returned) ?: {_REASON}", "peer", True),
    (rf"[Cc]onnect to {_PEER} returned {_REASON}, exceeded error retry count", "peer", True),
    (rf"PollConnect to {_PEER} failed with error {_REASON}", "peer", True),
    (rf"Call to connect (?:to {_PEER} )?(?:failed|returned|timed out) ?:? ?{_REASON}", "peer", True),
    (
        r"Call to ibv_(?P<call>create_cq|create_qp|reg_mr\w*|alloc_pd) failed with error (?P<why>Cannot "
        r"allocate memory)",
        "memlock",
        True,
    ),
    (
        r"Call to ibv_(?P<call>modify_qp|open_device|query_\w+|create_\w+|alloc_pd|reg_mr\w*) failed(?: with "
        r"(?:error )?(?P<why>[^\n]*))?",
        "verbs",
        True,
    ),
    (r"NET/IB : Unable to (?:open|query) device (?P<host>\w+)", "verbs", True),
    (
        r"Got completion (?:from peer (?P<host>\S+?)<(?P<port>\d+)> )?with (?:status=|error )\S*?(?P<why>12)\b",
        "retry",
        True,
    ),
    (
        r"NCCL WARN NET/OFI (?P<why>[^\n]*(?:[Uu]nable|[Ff]ailed|[Cc]ouldn't|[Cc]ould not|[Nn]ot found"
        r"|[Ff]ailing)[^\n]*)",
        "ofi",
        True,
    ),
    (r"Failed to initialize any NET plugin", "ofi", True),
    (
        r"network addresses of \((?P<host>[^,]+), \d+\) cannot be retrieved \(gai error: (?P<why>[^)]+)\)",
        "unresolved",
        True,
    ),
)


class NetworkTrouble(Record, frozen=True):
    """One failed setup.

    `kind`: no-interface, no-name, port (in use), master (rank 0 is not reached), absent (ranks did not come), peer
    (another rank is not reached), memlock, verbs, retry (InfiniBand gave up), ofi. `where` is interface, host or
    host:port, `call` the verbs call, `waited` how long, `why` the reason; "" if untold.
    """

    kind: str
    where: str
    call: str
    waited: str
    why: str
    from_exception: bool


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiled on first use: most logs need none of them."""
    return re.compile(pattern)


def read(message: Message) -> Iterator[NetworkTrouble]:
    """The failed setup that `message` reports, if it does."""
    raised = message.exception is not None
    text = " ".join(message.text.split()) if raised else message.first
    if not raised and "NCCL INFO" in text:
        return
    for form, kind, in_lines in _FORMS:
        if (raised or in_lines) and (m := _compiled(form).search(text)) is not None:
            part = {name: value or "" for name, value in m.groupdict().items()}
            host, port = part.get("host", "") or part.get("iface", ""), part.get("port", "")
            why = f"{part['joined']} of {part['all']} joined" if "joined" in part else part.get("why", "")
            yield NetworkTrouble(
                message.anchor,
                kind,
                f"{host}:{port}" if host and port else host or port,
                part.get("call", ""),
                part.get("waited", ""),
                why.strip(),
                raised,
                **message.common,
            )
            return
