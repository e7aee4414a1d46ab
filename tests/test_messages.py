"""Messages and tracebacks: every kind's own samples, and what a real interpreter prints, behind any prefix."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.failing import PROGRAMS, Program
from tests.support.programs import Ran, run
from tests.support.reading import Reading, anchor_faults, read
from tests.support.wrappings import WRAPPINGS, Wrapping

from necropsy_parsers.messages import Message, MessageFormat, all_messages, read_all
from necropsy_parsers.messages.process_exit import ProcessExit
from necropsy_parsers.messages.python_warning import PythonWarning
from necropsy_parsers.messages.thread_stack import ThreadStack
from necropsy_parsers.records import UNKNOWN, Anchor, Frame, Record
from necropsy_parsers.tallies import all_tallies
from necropsy_parsers.text.traceback import Exc, PythonTraceback
from necropsy_parsers.torch_artifacts import ARTIFACTS, PASSED_OVER

from necropsy.evidence import all_tables
from necropsy.provenance.frames import primary, user_places

SAMPLES = [(kind, text, wanted) for kind in all_messages() for text, wanted in kind.samples.items()]
SAYS_CLASS = re.compile(r"[\w.]+(?:Error|Exception): ")  # the sample is what an exception says
SAMPLE_IDS = [f"{kind.name}-{n}" for n, (kind, _, _) in enumerate(SAMPLES)]


def differences(record: Record, wanted: dict[str, Any]) -> dict[str, Any]:
    """The attributes of `record` that are not as wanted."""
    absent = object()
    return {k: getattr(record, k, absent) for k, v in wanted.items() if getattr(record, k, absent) != v}


def closest(records: list[Record], wanted: dict[str, Any]) -> dict[str, Any] | None:
    """What the best record of them gets wrong; None if there is no record."""
    return min((differences(r, wanted) for r in records), key=len, default=None)


# -- samples ------------------------------------------------------------------


def test_every_kind_is_found_and_named() -> None:
    names = [kind.name for kind in all_messages()]
    assert len(names) > 10
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("kind", all_messages(), ids=lambda k: k.name)
def test_a_kind_says_what_it_is(kind: MessageFormat) -> None:
    assert kind.title
    assert kind.doc.strip()
    assert kind.triggers
    assert kind.samples
    assert all(kind.samples.values()), "a sample names what is read from it"


@pytest.mark.parametrize(("kind", "text", "wanted"), SAMPLES, ids=SAMPLE_IDS)
class TestSample:
    """A module's samples, alone, in a log and behind prefixes."""

    def test_it_holds_a_trigger(self, kind: MessageFormat, text: str, wanted: dict[str, Any]) -> None:
        assert any(t in text for t in (*kind.triggers, *kind.sampled))

    def test_its_module_reads_it(self, kind: MessageFormat, text: str, wanted: dict[str, Any]) -> None:
        anchor = Anchor("run.log", 0, len(text), 1, text)
        name, _, said = text.partition(": ")
        raised = PythonTraceback(anchor, (Exc(name, said),)) if SAYS_CLASS.match(text) else None
        message = Message(text, anchor, UNKNOWN, 0, 0, exception=raised)
        own = list(kind.read(message))
        assert closest(list(own), wanted) == {}
        assert [repr(r) for r in read_all(message) if type(r) is type(own[0])] == [repr(r) for r in own]

    @pytest.mark.parametrize("wrapping", WRAPPINGS, ids=lambda w: w.name)
    def test_a_log_gives_it(self, kind: MessageFormat, text: str, wanted: dict[str, Any], wrapping: Wrapping) -> None:
        lines = "loading\nready\nthe first epoch begins\n"
        if SAYS_CLASS.match(text):
            lines += 'Traceback (most recent call last):\n  File "train.py", line 3, in main\n    step(batch)\n'
        if "rank" in wrapping.origin:  # a message that names its rank would contradict the prefix
            wanted = {k: v for k, v in wanted.items() if k != "rank"}
        reading = read(wrapping.wrap(lines + text + "\n"))
        of_kind = [r for r in reading.records if not differences(r, wanted)]
        assert of_kind, closest(reading.records, wanted)
        assert differences_of_origin(of_kind[0], wrapping) == {}
        assert list(anchor_faults([r.anchor for r in of_kind], reading.text)) == []


def test_every_record_has_a_table() -> None:
    taken = {t for table in all_tables() for t in table.accepts}
    made = {type(r) for _, text, _ in SAMPLES for r in read(text).records} | {PythonTraceback}
    assert {t.__name__ for t in made - taken} == set()


# -- tracebacks of a real interpreter --------------------------------------------


def differences_of_origin(record: Record, wrapping: Wrapping) -> dict[str, Any]:
    """The attributes of the record's origin that the wrapping's prefix tells otherwise."""
    return {k: getattr(record.origin, k) for k, v in wrapping.origin.items() if getattr(record.origin, k) != v}


def the_traceback(reading: Reading) -> PythonTraceback:
    """The one traceback of a reading."""
    found = reading.of(PythonTraceback)
    assert len(found) == 1, [[(e.type, len(e.frames)) for e in t.chain] for t in found]
    return found[0]


def seen(exc: Exc) -> dict[str, Any]:
    """An exception as it was read, in the form of `truth.json`."""
    frames = [[f.file, f.line, f.function, f.text] for f in exc.frames]
    return {"type": exc.type, "message": exc.message, "relation": exc.relation, "frames": frames}


def folded(exc: dict[str, Any]) -> dict[str, Any]:
    """What of an exception is printed: of a recursion the first three calls of each run."""
    kept: list[Any] = []
    for frame in exc["frames"]:
        if kept[-3:] != [frame] * 3:
            kept.append(frame)
    return {**exc, "frames": kept}


def places(ran: Ran, record: PythonTraceback) -> tuple[str, str, int | None]:
    """Class of the telling exception, file and line of its place."""
    main = primary(record.chain)
    place = user_places(record.chain, main)[0]
    return main.type, place.file, place.line


@pytest.mark.parametrize("wrapping", WRAPPINGS, ids=lambda w: w.name)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_a_real_traceback_is_read_in_full(program: Program, wrapping: Wrapping) -> None:
    ran = run(program.name)
    reading = read(wrapping.wrap(ran.output))
    record = the_traceback(reading)
    assert places(ran, record) == (program.type, ran.file, ran.line)
    assert record.kind == program.kind
    assert differences_of_origin(record, wrapping) == {}
    assert all(e.complete for e in record.chain)
    assert list(anchor_faults([r.anchor for r in reading.records], reading.text)) == []
    if ran.truth is not None:
        assert [seen(e) for e in record.chain] == [folded(e) for e in ran.truth]


def test_the_interpreter_told_the_truth_of_most() -> None:
    assert sum(run(p.name).truth is not None for p in PROGRAMS) > len(PROGRAMS) // 2


def test_folded_recursion_is_counted() -> None:
    ran = run("recursion")
    exc = the_traceback(read(ran.output)).chain[0]
    assert ran.truth is not None
    assert exc.repeated + len(exc.frames) == len(ran.truth[0]["frames"])


def test_further_lines_belong_to_the_message() -> None:
    (exc,) = the_traceback(read(run("lines-in-message").output)).chain
    assert exc.text.split("\n")[1:] == ['\tMissing key(s): "a.b"', "\tsize mismatch for c"]
    (noted,) = the_traceback(read(run("notes").output)).chain
    assert noted.detail == ["shard: data/012.tar", "worker: 3"]


@pytest.mark.parametrize("name", ["pool-worker", "futures-worker"])
def test_a_workers_exception_comes_before_the_loop_that_met_it(name: str) -> None:
    record = the_traceback(read(run(name).output))
    worker, parent = record.chain
    assert (worker.type, parent.type) == ("ValueError", "ValueError")
    assert (worker.relation, parent.relation) == ("", "cause")
    assert primary(record.chain) is worker


# -- several writers ---------------------------------------------------------------


def woven(*texts: str) -> str:
    """Lines of several writers, taken in turns."""
    rows = [t.splitlines(True) for t in texts]
    return "".join(r[i] for i in range(max(map(len, rows))) for r in rows if i < len(r))


@pytest.mark.parametrize(
    "prefix", ["[rank{}]: ", "{}: ", "[1,{}]<stderr>:", "(Worker rank={} pid=88) ", "[default0]:[rank{}]:"]
)
def test_woven_ranks_come_apart(prefix: str) -> None:
    names = ["cause", "syntax-error", "plain"]
    texts = ["".join(prefix.format(r) + x for x in run(n).output.splitlines(True)) for r, n in enumerate(names)]
    found = {t.origin.rank: t for t in read(woven(*texts)).of(PythonTraceback)}
    assert sorted(found, key=str) == [0, 1, 2]
    for rank, name in enumerate(names):
        assert [seen(e) for e in found[rank].chain] == [folded(e) for e in run(name).truth or ()]


@pytest.mark.parametrize("first", ["plain", "cause", "notes"])
@pytest.mark.parametrize("second", ["no-message", "from-none"])
def test_tracebacks_that_follow_each_other_are_two(first: str, second: str) -> None:
    found = read(run(first).output + run(second).output).of(PythonTraceback)
    assert [[seen(e) for e in t.chain] for t in found] == [
        [folded(e) for e in run(name).truth or ()] for name in (first, second)
    ]


# -- warnings and crashes of a real interpreter -----------------------------------------


def lines_of(source: str, *options: str) -> str:
    """What a one-file program prints."""
    done = subprocess.run(
        [sys.executable, *options, "-c", source],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )
    return done.stdout


@pytest.mark.parametrize("wrapping", WRAPPINGS, ids=lambda w: w.name)
def test_a_real_warning_is_read(wrapping: Wrapping, warning_output: tuple[str, str]) -> None:
    file, output = warning_output
    found = read(wrapping.wrap("one\ntwo\nthree\n" + output)).of(PythonWarning)
    assert [(w.category, w.file, w.line, w.message) for w in found] == [
        ("UserWarning", file, 4, "labels overlap"),
        ("DeprecationWarning", file, 7, "use train2"),
        ("OwnWarning", file, 12, "custom: text"),
    ]
    assert [differences_of_origin(w, wrapping) for w in found] == [{}] * 3


@pytest.fixture(scope="module")
def warning_output(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The file of a program that warns three times, and its output."""
    file = tmp_path_factory.mktemp("projects") / "warn.py"
    file.write_text(
        "import warnings\n\ndef check():\n    warnings.warn('labels overlap')\n\n"
        "def old():\n    warnings.warn('use train2', DeprecationWarning)\n\nclass OwnWarning(FutureWarning): pass\n\n"
        "check(); old()\nwarnings.warn('custom: text', OwnWarning)\n"
    )
    source = f"import runpy; runpy.run_path({str(file)!r}, run_name='__main__')"
    yield str(file), lines_of(source, "-W", "always")


@pytest.mark.parametrize("wrapping", WRAPPINGS, ids=lambda w: w.name)
def test_a_real_segmentation_fault_is_read(wrapping: Wrapping) -> None:
    source = "import faulthandler\ndef gather():\n    faulthandler._sigsegv()\ndef main():\n    gather()\nmain()"
    output = lines_of(source, "-X", "faulthandler")
    reading = read(wrapping.wrap("one\ntwo\nthree\n" + output))
    (end,) = reading.of(ProcessExit)
    assert (end.signal, end.by, end.reason) == ("SIGSEGV", "interpreter", "Segmentation fault")
    (stack,) = reading.of(ThreadStack)
    assert stack.current
    assert stack.frames == (
        Frame("<string>", 6, "<module>"),
        Frame("<string>", 5, "main"),
        Frame("<string>", 3, "gather"),
    )
    assert differences_of_origin(stack, wrapping) == {}


def test_what_nobody_reads_of_the_compilers_log_has_a_reason() -> None:
    read_ones = {r.artifact for kind in all_messages() for r in kind.reads}
    read_ones |= {r.artifact for kind in all_tallies() for r in kind.reads}
    assert set(PASSED_OVER) == set(ARTIFACTS) - read_ones
