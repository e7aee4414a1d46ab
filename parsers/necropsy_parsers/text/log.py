"""A log to records: scan, clean, peel, un-weave, assemble.

Every line goes to the writer that its prefix names; each writer has its own open
traceback and its own open message, so that woven ranks come apart. A line without any
prefix continues the record above if that one is still open, and is a writer of its own
otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from necropsy_parsers.issues import Issues
from necropsy_parsers.messages import Common, Message, MessageFormat, all_messages, kinds_of, read_all
from necropsy_parsers.records import UNKNOWN, Anchor, Origin, Record, Stamp, input_number
from necropsy_parsers.tallies import all_tallies
from necropsy_parsers.text.attempt import AttemptCounter
from necropsy_parsers.text.clean import pieces, split_glued
from necropsy_parsers.text.entry import BEGINS, Entry, head_of, of_compiler
from necropsy_parsers.text.memory import Memory
from necropsy_parsers.text.naming import NOBODY, Named
from necropsy_parsers.text.plain import ANYBODY, PROGRESS, TEARDOWN, TextRun, is_error
from necropsy_parsers.text.prefix import Peeled, Peeler
from necropsy_parsers.text.repeats import FOLD_ENTRIES_AFTER, Repeats, shape_of
from necropsy_parsers.text.scan import Gap, RawLine, Scanner, Taken
from necropsy_parsers.text.tail import last_words
from necropsy_parsers.text.tallying import Tallies, postponed
from necropsy_parsers.text.told import told
from necropsy_parsers.text.traceback import HEADER, PythonTraceback
from necropsy_parsers.text.unknown import UnknownErrors
from necropsy_parsers.text.vote import vote
from necropsy_parsers.text.writer import Writer, belongs, kind_of, same_head

# Literals besides the messages' own that make a line worth reading.
BASE_TRIGGERS: Final = (b"Traceback", b'  File "', b"rror", b"ERROR", b"xception", b"exit", b"[E] ", b"FAILED")
PATIENCE: Final = 40  # lines of others after which a silent writer's message is over; woven, each has its turn
TRACE_PATIENCE: Final = 200  # the same of a traceback in its middle, which torn apart is lost
WATCH: Final = 60  # lines read after a traceback: did its writer go on working?
SAMPLE_LINES: Final = 400  # of the head, for `vote`


class LogReader:
    """Reads one log; `records(chunks)` yields its records in the order in which they end, without what is postponed."""

    def __init__(
        self, name: str, issues: Issues, first_seq: int = 0, defaults: Named = NOBODY, *, postpone: bool = False
    ) -> None:
        self.name = name
        self.issues = issues
        self._seq = first_seq
        self._writers: dict[str, Writer] = {}
        # Jobs have thousands of writers, and nobody can ask each of them at every line.
        self._open: dict[int, int] = {}  # number of those that are `open` -> line last heard of, the oldest first
        self._entry: Entry | None = None  # the one opened last
        self._heard: dict[int, Writer] = {}  # those that spoke since the last gap, by number
        self._last = ""
        self._watch = 0  # lines up to here are read whatever they hold
        self._peeler = Peeler()
        self._attempts = AttemptCounter(defaults.attempt)
        self._defaults = defaults
        self._now: Stamp | None = None
        self._last_unnamed = UNKNOWN
        self._repeats = Repeats(name, issues)
        self._memory = Memory()
        self._unread = UnknownErrors(name, issues)
        later = postponed() if postpone else ()
        self.tallies = Tallies(name, first_seq, self._whose, issues, kinds=all_tallies(), later=later)
        self._repeated: dict[str, PythonTraceback] = {}
        triggers = {*BASE_TRIGGERS, *(t.encode() for kind in all_messages() for t in kind.triggers)}
        compilers = {HEADER.encode(), *(t.encode() for kind in all_messages() if kind.reads for t in kind.triggers)}
        # Those in which a traceback is one; "" for lines without any.
        self._artifacts = {r.artifact for kind in all_messages() for r in kind.reads if not r.quotes}
        self._scanner = Scanner(
            sorted(triggers | compilers),
            name,
            issues,
            self._busy,
            compilers,
            input_number(first_seq),
            self._take,
            self.tallies.literals,
        )

    @property
    def lines(self) -> int:
        """Lines read so far."""
        return self._scanner.lines

    def records(self, chunks: Iterable[bytes]) -> Iterator[Record]:
        """All records of the text; chunks as `decode.text_chunks` makes them."""
        for item in self._scanner.scan(self._prepared(chunks)):
            if isinstance(item, Gap):
                if not isinstance(item, Taken):
                    yield from self._gap(item)
            elif (entry := self._entry) is None or not entry.goes_on(item.data, item.end):
                for piece in pieces(item.data):
                    peeled = self._placed(self._peeler.peel(piece))
                    for text in split_glued(peeled.text):
                        yield from self._line(item, peeled if text is peeled.text else replace(peeled, text=text))
                yield from self._close_stale(item.number)
            else:  # a further line under the head of the line before
                self._open[entry.writer] = item.number
        yield from self._close_all(at_end=True)
        for record in self._repeated.values():  # of many alike ones the last may be the one that ended the job
            yield from told(record)
        yield from self.tallies.records()
        self._unread.settle(self.tallies.explained())

    # -- lines ----------------------------------------------------------------

    def _prepared(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        first = True
        for chunk in chunks:
            if first:
                head = [pieces(line)[-1] for line in chunk[:65536].split(b"\n")[:SAMPLE_LINES]]
                self._peeler = Peeler(vote(head))
                first = False
            start, lines = self._scanner.bytes, self._scanner.lines
            yield chunk
            self.tallies.feed(chunk, start, lines, self._scanner.held)
            self._scanner.place(self.tallies.placed)

    def _placed(self, peeled: Peeled) -> Peeled:
        """With what the input's name tells of its writer, and the last clock reading."""
        origin, named = peeled.origin, self._defaults
        self._now = origin.time or self._now
        rank = named.rank if origin.rank is None else origin.rank
        if rank == origin.rank and (origin.time is not None or self._now is None):
            return peeled
        time = origin.time or self._now
        if origin is UNKNOWN:
            origin = self._unnamed(rank, time)
        else:
            o = origin  # `replace` takes three times as long
            origin = Origin(
                rank, o.local_rank, o.host, o.pid, o.source, o.stream, o.level, o.place, time, o.compile_id, o.artifact
            )
        return Peeled(peeled.text, origin, peeled.key, peeled.headed)

    def _whose(self, line: bytes, start: int) -> tuple[str, Origin, int]:
        """The text, origin and attempt of a line, for tallies."""
        peeled = self._placed(self._peeler.peel(pieces(line)[-1]))
        return peeled.text, peeled.origin, self._attempts.at(start)

    def _unnamed(self, rank: int | None, time: Stamp | None) -> Origin:
        """The origin of a line that tells nothing itself: the same for all until the next clock."""
        if self._last_unnamed.time is not time or self._last_unnamed.rank != rank:
            self._last_unnamed = Origin(rank=rank, time=time)
        return self._last_unnamed

    def _busy(self) -> bool:
        if self._scanner.lines < self._watch:
            return True
        entry = self._entry
        return bool(self._open) and (entry is None or not entry.over or entry.closed or len(self._open) > 1)

    def _take(self, chunk: bytes, begin: int, base: int) -> tuple[int, int]:
        """Further lines under the head of the entry opened last, all at once; see `Scanner`."""
        entry = self._entry
        if entry is None or entry.closed or entry.over:
            return begin, 0
        end, lines = entry.take(chunk, begin, base)
        if lines:
            self._open[entry.writer] = self._scanner.lines + lines
        entry.over = len(self._open) == 1 and entry.ends_before(chunk, end)
        return end, lines

    def _gap(self, gap: Gap) -> Iterator[Record]:
        """Lines nobody looked at: whatever was open ends before them."""
        yield from self._close_all()
        last = last_words(gap.tail, self._peeler, self._placed)
        self._now = last[-1].origin.time or self._now
        anchor = Anchor(self.name, gap.start, gap.end, gap.number)
        common: Common = {"origin": last[-1].origin, "seq": gap.start + self._seq, "attempt": self._attempts.current}
        key = ANYBODY if self._defaults.rank is None else ""
        yield TextRun(anchor, gap.lines, gap.lines, 0, key, last[-1].text.strip()[:200], **common)
        for peeled in last[:-1]:
            own: Common = {**common, "origin": peeled.origin}
            yield TextRun(anchor, 0, 0, 0, key, peeled.text.strip()[:200], **own)

    def _line(self, raw: RawLine, peeled: Peeled) -> Iterator[Record]:
        if not of_compiler(peeled.origin):
            self._attempts.see(peeled.text, raw.start)
        key = self._writer_key(peeled)
        writer = self._writers.get(key)
        if writer is None:
            writer = self._writers[key] = Writer(len(self._writers))
        self._last = key
        self._heard[writer.number] = writer
        yield from self._said(writer, raw, peeled, key)
        self._open.pop(writer.number, None)
        if writer.open:
            self._open[writer.number] = raw.number

    def _said(self, writer: Writer, raw: RawLine, peeled: Peeled, key: str) -> Iterator[Record]:
        """A line of a writer: it goes on with what is open, or begins something."""
        text = peeled.text
        if writer.entry is not None:
            if writer.entry.takes(text, peeled.origin, headed=peeled.headed):
                writer.entry.feed(text, raw.end)
                return
            yield from self._finish_entry(writer)
        writer.trace.at = (raw.number, raw.start, raw.end)
        if writer.trace.open:
            writer.all_headed = writer.all_headed and (peeled.headed or not text.strip())
            ends = peeled.headed and not writer.trace.waiting and not (writer.all_headed and same_head(writer, peeled))
            if not ends and writer.trace.feed(text):
                writer.trace_end, writer.trace_lines = raw.end, writer.trace_lines + 1
                return
            yield from self._finish_trace(writer)
        continues = not peeled.headed or (writer.block_headed and text[:1] in " \t")
        if writer.block is not None and continues and belongs(writer.block, text):
            self._extend(writer, text, raw.end)
            return
        # What the compiler quotes of programs holds any word: under its heads only its own messages count.
        own = peeled.headed and of_compiler(peeled.origin)
        failed = HEADER in text and peeled.origin.artifact in self._artifacts
        if raw.hit and (not own or failed) and (begun := writer.trace.begin(text)):
            yield from self._finish_block(writer)
            self._open_trace(writer, raw, peeled, begun)
            return
        yield from self._finish_block(writer)
        kinds = kinds_of(text) if raw.hit else []
        if kinds and (not own or any(kind.reads for kind in kinds)):
            yield from self._finish_run(writer)
            yield from self._open_block(writer, raw, peeled)
            writer.block_kinds = kinds
            if writer.entry is not None:
                writer.entry.kinds = kinds
        else:
            yield from self._plain(writer, raw, peeled, key)

    def _writer_key(self, peeled: Peeled) -> str:
        """The writer of a line; one without prefix may belong to the record above."""
        if peeled.key or peeled.headed:
            return peeled.key
        last, text = self._writers.get(self._last), peeled.text
        if not self._last or last is None or not text.strip() or HEADER in text:
            return ""
        plain = self._writers.get("")
        if plain is not None and plain.trace.open:
            return ""
        goes_on = last.trace.open or (last.block is not None and belongs(last.block, text))
        goes_on = goes_on or (last.entry is not None and last.entry.loose)
        return self._last if goes_on else ""

    # -- messages ---------------------------------------------------------------

    def _open_block(self, writer: Writer, raw: RawLine, peeled: Peeled) -> Iterator[Record]:
        anchor = self._anchor(raw, peeled.text)
        if (peeled.headed and of_compiler(peeled.origin)) or (not peeled.headed and BEGINS.match(peeled.text)):
            muted = self._repeats.folded(peeled.origin, peeled.text[:200], FOLD_ENTRIES_AFTER)
            seq, attempt = raw.start + self._seq, self._attempts.current
            head = Message(peeled.text, anchor, peeled.origin, seq, attempt, headed=peeled.headed)
            writer.entry = self._entry = Entry(head, raw.end, writer.number, head_of(raw.data, peeled.text), muted)
            return
        if not raw.sampled and self._repeats.folded(peeled.origin, peeled.text[:200]):
            return
        writer.block = Message(
            peeled.text, anchor, peeled.origin, raw.start + self._seq, self._attempts.current, peeled.headed
        )
        writer.block_end, writer.block_headed = raw.end, peeled.headed
        writer.lead = peeled.text
        yield from ()

    def _finish_entry(self, writer: Writer) -> Iterator[Record]:
        if (entry := writer.entry) is not None:
            writer.entry, entry.closed = None, True
            if not entry.muted:
                message = entry.message()
                yield from self._told(message, self._memory.read(message, None if entry.count else entry.kinds))

    def _close_stale(self, number: int) -> Iterator[Record]:
        """Ends what a writer that has long been silent left open: it makes every line worth reading."""
        oldest, heard = next(iter(self._open.items()), (0, number))
        if number - heard <= max(PATIENCE, 4 * len(self._heard)):
            return
        writer = self._heard[oldest]
        if not writer.trace.waiting or number - heard > max(TRACE_PATIENCE, 20 * len(self._heard)):
            del self._open[oldest]
            yield from self._close(writer)

    def _extend(self, writer: Writer, text: str, end: int) -> None:
        b = writer.block
        assert b is not None
        anchor = Anchor(b.anchor.input, b.anchor.start, end, b.anchor.line, b.anchor.text)
        writer.block = Message(f"{b.text}\n{text}", anchor, b.origin, b.seq, b.attempt, b.headed)
        writer.block_kinds = None

    def _finish_block(self, writer: Writer) -> Iterator[Record]:
        if (block := writer.block) is not None:
            writer.block = None
            yield from self._read(block, writer.block_kinds)

    def _read(self, message: Message, kinds: Sequence[MessageFormat] | None = None) -> Iterator[Record]:
        yield from self._told(message, list(read_all(message, kinds)))

    def _told(self, message: Message, records: list[Record]) -> Iterator[Record]:
        """What was read from a message; that nothing was is counted, where it is an error."""
        if not records:
            self._unknown(message.first, message.origin, message.anchor)
        yield from records

    def _unknown(self, text: str, origin: Origin, anchor: Anchor) -> None:
        """Counts a line that nothing here reads, if it is an error's."""
        if is_error(text, origin.level):
            self._unread.add(anchor)

    # -- tracebacks ---------------------------------------------------------------

    def _open_trace(self, writer: Writer, raw: RawLine, peeled: Peeled, begun: str) -> None:
        writer.trace_head = (self._anchor(raw, peeled.text), peeled.origin, raw.start + self._seq)
        writer.trace_end, writer.trace_lines = raw.end, 1
        writer.trace_attempt = self._attempts.current
        writer.all_headed = peeled.headed
        writer.trace_kind = kind_of(begun, peeled, writer.lead)

    def _finish_trace(self, writer: Writer, *, at_end: bool = False) -> Iterator[Record]:
        head, kind, lines = writer.trace_head, writer.trace_kind, writer.trace_lines
        chain = writer.trace.take()
        if head is None or not chain:
            return
        anchor, origin, seq = head
        anchor = Anchor(anchor.input, anchor.start, writer.trace_end, anchor.line, anchor.text)
        whole = chain[-1].complete
        if not whole and (kind == "headless" or not at_end):
            kind = "stack"  # frames of no exception: Dynamo and NumPy print such
        elif not whole:
            self.issues.add("text/cut-traceback", self.name, first=anchor)
        elif kind == "headless":
            self.issues.add("text/headless-traceback", self.name, first=anchor)
        attempt = writer.trace_attempt
        record = PythonTraceback(anchor, chain, kind, lines, writer.lead, origin=origin, seq=seq, attempt=attempt)
        writer.trace_head = None
        if not of_compiler(origin):  # what the compiler logs ends no process
            self._watch = self._scanner.lines + WATCH
        yield from self._finish_run(writer)
        last = chain[-1]
        where = last.frames[-1].line if last.frames else None
        shape = f"{kind} {len(chain)} {where} {last.type}: {last.text[:200]}"
        if self._repeats.folded(origin, shape):
            self._repeated[f"{origin.rank} {shape_of(shape)}"] = record
        else:
            yield from told(record)

    # -- plain text ---------------------------------------------------------------

    def _plain(self, writer: Writer, raw: RawLine, peeled: Peeled, key: str) -> Iterator[Record]:
        text = peeled.text
        if text.strip():
            writer.lead = text
        quoted = bool(peeled.origin.artifact)  # what the compiler quotes of programs reports no step of them
        ordinary = int(text[:1] not in (" ", "") if quoted else not TEARDOWN.match(text))
        progress = int(bool(ordinary and not quoted and PROGRESS.search(text)))
        run = writer.run
        own = self._anchor(raw, text)
        self._unknown(text, peeled.origin, own)
        anchor = own if run is None else Anchor(self.name, run.anchor.start, raw.end, run.anchor.line, run.anchor.text)
        last = text.strip()[:200] if ordinary else run.last if run is not None else ""
        writer.run = TextRun(
            anchor,
            lines=1 + (run.lines if run else 0),
            ordinary=ordinary + (run.ordinary if run else 0),
            progress=progress + (run.progress if run else 0),
            key=key,
            last=last,
            origin=run.origin if run else peeled.origin,
            seq=run.seq if run else raw.start + self._seq,
            attempt=run.attempt if run else self._attempts.current,
        )
        yield from ()

    def _finish_run(self, writer: Writer) -> Iterator[Record]:
        if writer.run is not None:
            yield writer.run
            writer.run = None

    def _close_all(self, *, at_end: bool = False) -> Iterator[Record]:
        """Ends whatever is open: of those that said nothing since the last gap nothing is."""
        for number in sorted(self._heard):
            yield from self._close(self._heard[number], at_end=at_end)
        self._heard.clear()
        self._open.clear()

    def _close(self, writer: Writer, *, at_end: bool = False) -> Iterator[Record]:
        if writer.trace.open:
            yield from self._finish_trace(writer, at_end=at_end)
        yield from self._finish_entry(writer)
        yield from self._finish_block(writer)
        yield from self._finish_run(writer)

    def _anchor(self, raw: RawLine, text: str) -> Anchor:
        return Anchor(self.name, raw.start, raw.end, raw.number, text.strip()[:400])
