"""The ranks could not connect to each other

What it means
    The job failed before its ranks were connected: no usable network interface, a name that
    does not resolve, a port in use, nobody listening at the address of rank 0, ranks that did
    not come, InfiniBand or EFA that could not be opened.

Why it happens
    NCCL_SOCKET_IFNAME or GLOO_SOCKET_IFNAME names an interface that this node does not have; a
    host name that maps to 127.0.1.1; an old job (or another one) that holds the port; a
    firewall; MASTER_ADDR of another node; a limit on locked memory in the container; a driver
    or plugin that does not fit.

How to confirm
    `ip -br addr`, `getent hosts NAME`, `ss -ltnp | grep PORT`, `nc -vz HOST PORT` from the other
    node, `ibv_devinfo`, `ulimit -l` inside the container, NCCL_DEBUG=INFO.

How to fix
    As the finding says: correct the interface, name, address or port; allow the ports between
    the nodes; raise the limit.

Limits
    A refused connection can also mean that the other rank died before: an earlier failure of
    another rank is then the root. c10d's warnings of single tries are no findings; healthy
    jobs print them while rank 0 starts. A connection that NCCL could not make to an ordinary
    address is told by CRS018.

References
    - https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
    - https://pytorch.org/docs/stable/distributed.html
    - https://pytorch.org/docs/stable/elastic/run.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from necropsy_parsers.messages.network_setup import NetworkTrouble

from necropsy.claim import event_of, from_exception, from_record
from necropsy.conditions import PEER_ABSENT, PROCESS_DIED
from necropsy.evidence.activity import Activity
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.network_troubles import NetworkTroubles
from necropsy.evidence.settings import Settings
from necropsy.finding import Fact, Finding, Fix, Related, Severity
from necropsy.rule import rule

_SAYS: Final = {
    "no-interface": "No network interface to use{where}: the one that the settings name does not exist on this node",
    "no-name": "The host name{where} does not resolve to an address of this machine",
    "port": "The port{where} for the rendezvous is already in use on this node",
    "master": "Rank 0 (the store) cannot be reached{where}",
    "absent": "Not all ranks came to the rendezvous ({why})",
    "peer": "Another rank cannot be reached{where} ({why})",
    "memlock": "InfiniBand could not lock memory (ibv_{call}): the limit on locked memory is too low",
    "verbs": "InfiniBand could not be set up{what}",
    "ofi": "The network plugin of NCCL could not start{what}",
}
_NCCL_IF: Final = Fix(
    "Name an interface that every node has, or leave it to NCCL",
    "env",
    "safe",
    "ip -br addr ; unset NCCL_SOCKET_IFNAME",
)
_GLOO_IF: Final = Fix(
    "Name an interface that every node has", "env", "safe", "ip -br addr ; export GLOO_SOCKET_IFNAME=eth0"
)
_FIXES: Final[dict[str, tuple[Fix, ...]]] = {
    "no-name": (
        Fix(
            "Make the node's own name resolve to its address (/etc/hosts, DNS)",
            "config",
            command="getent hosts $(hostname)",
        ),
        _GLOO_IF,
    ),
    "port": (
        Fix(
            "See who holds the port; often it is a process of an earlier run",
            "command",
            command="ss -ltnp | grep {port}",
        ),
        Fix(
            "Let torchrun take a free port, or choose one a job",
            "flag",
            command="torchrun --standalone ... (one node) or --rdzv-endpoint HOST:0",
        ),
    ),
    "master": (
        Fix(
            "Check that rank 0 runs, and that its address and port are the same on all nodes",
            "investigate",
            command="echo $MASTER_ADDR $MASTER_PORT",
        ),
        Fix("Try the port from this node; a firewall may stand between", "command", command="nc -vz {host} {port}"),
    ),
    "absent": (
        Fix(
            "Look why the missing ranks did not start: their logs, the number of nodes and processes asked for",
            "investigate",
        ),
        Fix(
            "If they only come late (loading, compiling), give the rendezvous more time",
            "code",
            command="dist.init_process_group(timeout=timedelta(minutes=30))",
        ),
    ),
    "memlock": (
        Fix(
            "Raise the limit on locked memory for the job and the container",
            "config",
            command="docker run --ulimit memlock=-1 ... ; ulimit -l unlimited",
        ),
        Fix(
            "Under Slurm, raise it for slurmd (LimitMEMLOCK=infinity), or do not propagate the login node's",
            "config",
            command="srun --propagate=NONE",
        ),
    ),
    "verbs": (
        Fix("Check the adapters and their state on this node", "command", command="ibv_devinfo ; ibstat"),
        Fix(
            "Choose adapters and GID that fit, or do without InfiniBand",
            "env",
            "safe",
            "NCCL_IB_HCA=mlx5_0 NCCL_IB_GID_INDEX=3   # or NCCL_IB_DISABLE=1",
        ),
    ),
    "ofi": (
        Fix(
            "Check the fabric inside the container (provider, device files, versions)",
            "command",
            command="fi_info -p efa",
        ),
        Fix("Do without the plugin to see whether it is the cause", "env", "safe", "NCCL_NET=Socket"),
    ),
}
# Addresses that other nodes cannot reach: loopback, link-local, Docker's bridge.
_UNREACHABLE: Final = re.compile(r"^\[?(?:127\.|169\.254\.|172\.17\.|::1\b|fe80:)")
_NCCL_WORDS: Final = re.compile(r"NCCL|ncclSystem|ncclInternal|ncclRemote|onnect to \S+<\d+>")


def _what(trouble: NetworkTrouble) -> dict[str, str]:
    call = f" (ibv_{trouble.call}{': ' + trouble.why if trouble.why else ''})" if trouble.call else ""
    return {
        "where": f" ({trouble.where})" if trouble.where else "",
        "why": trouble.why or "refused",
        "call": trouble.call,
        "what": call or (f": {trouble.why.rstrip('.')}" if trouble.why else ""),
    }


def _fixes(trouble: NetworkTrouble, settings: Settings, nccl: bool) -> tuple[Fix, ...]:
    if trouble.kind == "no-interface":
        return (_NCCL_IF if nccl or settings.named("NCCL_SOCKET_IFNAME") else _GLOO_IF,)
    if trouble.kind == "peer" and _UNREACHABLE.match(trouble.where):
        return (_NCCL_IF if nccl else _GLOO_IF,)
    host, _, port = trouble.where.rpartition(":")
    words = {"host": host or "HOST", "port": port or "PORT"}
    fixes = _FIXES["master"][1:] if trouble.kind == "peer" else _FIXES[trouble.kind]
    return tuple(
        Fix(f.title, f.kind, f.safety, f.command.format(**words) if "{" in f.command else f.command) for f in fixes
    )


def _sentence(trouble: NetworkTrouble, troubles: NetworkTroubles) -> str:
    sentence = _SAYS[trouble.kind].format(**_what(trouble))
    host = trouble.where.rpartition(":")[0]
    if trouble.kind == "master" and troubles.unresolved(host):
        sentence += ", because its name does not resolve on this node"
    elif trouble.kind == "master" and _UNREACHABLE.match(trouble.where):
        sentence += ", an address that on every node means that node itself"
    if trouble.waited:
        sentence += f"; it was tried for {trouble.waited.replace('ms', ' ms')}"
    if trouble.kind == "peer" and _UNREACHABLE.match(trouble.where):
        sentence += "; that address is not reachable from other nodes, so the wrong interface was chosen"
    return sentence + "."


def _rest(trouble: NetworkTrouble, settings: Settings, nccl: bool) -> dict[str, Any]:
    facts: dict[str, Fact] = {"what": trouble.kind.replace("-", " ")}
    for name, value in (("where", trouble.where), ("reason", trouble.why)):
        if value:
            facts[name] = value
    for s in settings.of_attempt(trouble.attempt):
        if s.name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
            facts[s.name] = s.value
    dead = trouble.kind in ("master", "peer", "absent")  # may be a sign that the others have failed
    return {
        "facts": facts,
        "fixes": _fixes(trouble, settings, nccl),
        "shows": frozenset({PROCESS_DIED}) if dead else frozenset(),
        "leaves": frozenset({PROCESS_DIED, PEER_ABSENT}),
        "seq": trouble.seq - 1,  # NCCL's own report of it stands at the same place and follows from it
    }


@rule("CRS020", "network-setup", Severity.FATAL, aliases=("X20", "eaddrinuse", "rendezvous-error"))
def check(
    troubles: NetworkTroubles, exceptions: Exceptions, settings: Settings, activity: Activity
) -> Iterator[Finding]:
    """One finding a kind and attempt, at the first exception that says it."""
    by_kind: dict[tuple[int, str], list[NetworkTrouble]] = {}
    for t in troubles:
        if t.kind in _SAYS and _is_setup(t, exceptions):
            by_kind.setdefault((t.attempt, t.kind), []).append(t)
    for attempt in sorted({attempt for attempt, _ in by_kind}):
        for kind in _SAYS:
            if not (found := by_kind.get((attempt, kind))):
                continue
            said = [(t, row) for t in found if (row := exceptions.said(t)) is not None]
            first, row = said[0] if said else (found[0], None)
            named = next((t for t in found if t.where or t.why), first)
            words = [t.anchor.text for t in found] + [r.everything for _, r in said]
            nccl = any(_NCCL_WORDS.search(w) for w in words)
            rest = _rest(named, settings, nccl)
            rest["seq"] = min(t.seq for t in found) - 1
            rest["ranks"] = tuple(sorted({t.origin.rank for t in found if t.origin.rank is not None}))
            rest["claims"] = frozenset(event_of(r) for _, r in said)
            rest["related"] = tuple(Related(t.anchor, "again") for t in found if t is not first)[:3]
            if row is not None:
                yield from_exception(row, _sentence(named, troubles), **rest)
            elif not activity.job_went_on(first.seq, attempt):
                yield from_record(first, _sentence(named, troubles), Severity.FATAL, activity=activity, **rest)


def _is_setup(trouble: NetworkTrouble, exceptions: Exceptions) -> bool:
    """Whether it is about setting up: NCCL's failed connections only where the address itself is wrong."""
    row = exceptions.said(trouble)
    if row is not None and row.handled:
        return False
    if trouble.kind != "peer" or (row is not None and "connectFullMesh" in row.everything):
        return True
    return _UNREACHABLE.match(trouble.where) is not None
