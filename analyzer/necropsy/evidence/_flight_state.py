"""A job's dumps to how far each rank came in each group, and what it has outstanding.

What an entry says needs reading: the members of a coalesced batch have no events and stay
`scheduled` for ever (the batch's last entry, `coalesced`, speaks for them); gloo marks
completion only by `retired`; and since the collectives of a group run one after the
other, an older entry than a completed one is complete whatever it says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct, field

from necropsy_parsers.flight import COMPLETED, RETIRED, STARTED, FlightCall, FlightDump

from necropsy.evidence._flight_jobs import Job

COALESCED: Final = "coalesced"


class Reached(Struct):
    """One rank in one group: collectives by sequence number.

    `last` is the newest entered, `first` the oldest in the window, both -1 for none.
    `out` holds those not complete, oldest first, with the index of their entry.
    """

    last: int = -1
    first: int = -1
    last_entry: int = -1
    out: dict[int, int] = field(default_factory=dict)


class Pending(Struct):
    """Sends to, or receives from, one peer in one group: entries not complete (oldest first), and all in the window."""

    out: list[int] = field(default_factory=list)
    count: int = 0


class RankState(Struct):
    """One rank: groups by index, sends and receives by (group, peer, is a send).

    `oldest` is the index of the oldest outstanding entry, -1 for none. `from_start`: the
    window reaches back to the rank's first entry. `blind`: even the oldest entry of a
    window that does not is outstanding, so that older ones may be, too.
    """

    rank: int
    dump: FlightDump
    reached: dict[int, Reached] = field(default_factory=dict)
    pending: dict[tuple[int, int, bool], Pending] = field(default_factory=dict)
    oldest: int = -1
    from_start: bool = False
    blind: bool = False

    def call(self, entry: int) -> FlightCall:
        """What an entry asked for."""
        return self.dump.calls[self.dump.entries.call[entry]]

    @property
    def idle(self) -> bool:
        """Whether everything that the rank enqueued is complete."""
        return self.oldest < 0

    def outstanding(self) -> Iterator[int]:
        """The entries that are not complete, in no order."""
        for reached in self.reached.values():
            yield from reached.out.values()
        for pending in self.pending.values():
            yield from pending.out


def is_done(state: int) -> bool:
    """Whether an entry's state says that it is complete."""
    return bool(state & (RETIRED | COMPLETED))


def has_started(state: int) -> bool:
    """Whether the GPU has begun with it (known only where timing was enabled)."""
    return bool(state & STARTED) or is_done(state)


def states_of(job: Job) -> dict[int, RankState]:
    """How far each rank came."""
    return {rank: _state(rank, dump, job) for rank, dump in job.dumps.items()}


def _state(rank: int, dump: FlightDump, job: Job) -> RankState:
    entries, ids = dump.entries, job.ids[rank]
    state = RankState(rank, dump)
    if len(entries):
        state.from_start = entries.record[0] == 0
        state.blind = not state.from_start and not job.active_only and not is_done(entries.state[0])
    batches = _batches(dump, job.active_only)
    finished: set[tuple[int, int, bool] | int] = set()  # groups and peers of which a newer entry is complete
    for i in range(len(entries) - 1, -1, -1):
        done = batches[i] if i in batches else is_done(entries.state[i])
        if done is None:
            continue  # speaks through its batch
        group = ids[entries.group[i]]
        if entries.p2p[i] < 0:
            _collective(state, group, i, done or group in finished)
            if done:
                finished.add(group)
        else:
            key = _peer_key(dump, job, group, i)
            if key is not None:
                pending = state.pending.setdefault(key, Pending())
                pending.count += 1
                if done:
                    finished.add(key)
                elif key not in finished:
                    pending.out.append(i)
    for reached in state.reached.values():
        reached.out = dict(reversed(reached.out.items()))
    for pending in state.pending.values():
        pending.out.reverse()
    state.oldest = min(state.outstanding(), default=-1)
    return state


def _collective(state: RankState, group: int, entry: int, done: bool) -> None:
    """Note a collective; entries come newest first."""
    reached = state.reached.setdefault(group, Reached())
    number = state.dump.entries.sequence[entry]
    if number > reached.last:
        reached.last, reached.last_entry = number, entry
    reached.first = number if reached.first < 0 else min(reached.first, number)
    if not done:
        reached.out.setdefault(number, entry)


def _peer_key(dump: FlightDump, job: Job, group: int, entry: int) -> tuple[int, int, bool] | None:
    """(group, global rank of the other end, whether it is a send); None for a batch or where members are not known."""
    call = dump.calls[dump.entries.call[entry]]
    members = job.groups[group].members
    if call.peer is None or call.op not in ("send", "recv"):
        return None
    sends = call.op == "send"
    other = call.peer[1 if sends else 0]
    return (group, members[other], sends) if other < len(members) else None


def _batches(dump: FlightDump, active_only: bool) -> dict[int, bool | None]:
    """Entries of batches -> whether complete, or None for those that only repeat what another entry of it says.

    A batch is several entries with one sequence number, `coalesced` last, which has its state.
    Its first collective stands for all of them; sends and receives stand for themselves.
    A dump of active entries keeps the members of a batch whose last entry is complete.
    """
    entries, found = dump.entries, dict[int, bool | None]()
    tails = {c for c, call in enumerate(dump.calls) if call.op == COALESCED}
    keys: dict[tuple[int, bool, int], list[int]] = {}
    for i, (group, p2p, number) in enumerate(zip(entries.group, entries.p2p, entries.sequence, strict=True)):
        keys.setdefault((group, p2p >= 0, p2p if p2p >= 0 else number), []).append(i)
    batching = {
        (g, p) for (g, p, _), found_at in keys.items() if len(found_at) > 1 or entries.call[found_at[0]] in tails
    }
    for (group, p2p, _), members in keys.items() if dump.numbered else ():
        tail = members[-1] if entries.call[members[-1]] in tails else None
        if tail is None and not (active_only and (group, p2p) in batching):
            continue
        done = True if tail is None else is_done(entries.state[tail])
        for i in members:
            if p2p:
                found[i] = None if i == tail else done
            else:
                found[i] = done if i == members[0] else None
    return found
