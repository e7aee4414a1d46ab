"""Python tracebacks, line by line, to chains of exceptions.

    Traceback (most recent call last):
      File "/home/trainer/projects/vit/train.py", line 31, in main
        loss = step(batch)
               ^^^^^^^^^^^
    ValueError: bad batch

Read in full: chains (`cause`, `context`), exceptions carried over from another process
(`original`: DataLoader workers, Ray, multiprocessing), exception groups, notes,
`SyntaxError`, caret lines, `[Previous line repeated N more times]`, Dynamo's `from user
code:` frames, rich's boxed tracebacks, C++ stack tails, wrapped lines, foreign lines in
between. A traceback without an exception line, or without its start, is kept and marked.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct, field

from necropsy_parsers.records import Frame, Record
from necropsy_parsers.text import notebook
from necropsy_parsers.text.continuations import COMPILER_SAYS, CONTINUES, ENDS, SUBPROCESS, USER_STACK
from necropsy_parsers.text.exception_line import parse_exception_line
from necropsy_parsers.text.plain import reports_step

HEADER: Final = "Traceback (most recent call last)"
_FRAME: Final = re.compile(r'\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:,? in (?P<function>.+?))?\s*$')
_FRAME_START: Final = re.compile(r'\s*File "[^"]*(?:"(?:, (?:line?(?: \d*)?)?)?)?,?(?: in ?)?$')
_REPEATED: Final = re.compile(r"\s*\[Previous line repeated (\d+) more times?\]")
_CARETS: Final = re.compile(r"\s*[\^~]+[\^~ ]*$")
_LOGURU: Final = re.compile(r"\s*[│└]")
_CAUSE: Final = "The above exception was the direct cause of the following exception:"
_CONTEXT: Final = "During handling of the above exception, another exception occurred:"
_GROUP_MARGIN: Final = re.compile(r"^(\s*)(?:\| ?|\+ (?=Exception Group))")
_GROUP_RULE: Final = re.compile(r"^\s*(?:\+-)?\+?-{4,}(?: (?P<index>[\d.]+|\.\.\.) -{4,})?$")
_RICH_FRAME: Final = re.compile(
    r"[│|] (?P<file>(?:/|[A-Za-z]:\\|\.)\S*?\.py):(?P<line>\d+)(?: in (?P<function>\S+))?\s*[│|]?$"
)
_RICH_CODE: Final = re.compile(r"[│|]\s*❱\s*\d+ [│ ]?(?P<text>.*?)\s*[│|]?$")

# A line without a traceback is an exception only with one of these endings: `FutureWarning: ...` is none.
_BARE: Final = re.compile(r"(?:Error|Exception|Unsupported|Interrupt|CompilerFailed)\d*(?:\(\w+\))?$")
_WARNING: Final = re.compile(r"\S[^:]*:\d+: \w*Warning: ")
_HERE: Final = "<--- HERE"  # below the line that TorchScript means, in a function that it quotes
MAX_QUOTED: Final = 60  # lines of such a function
MAX_MESSAGE: Final = 80  # lines of one message
MAX_OUTPUT: Final = 300  # lines of one that quotes a compiler
MAX_FOREIGN: Final = 12  # foreign lines tolerated between the lines of one traceback
MAX_FRAMES: Final = 2000


class Exc(Struct):
    """One exception of a chain.

    `relation` says how it follows the one before it in the text: "" (first), `cause`
    (raised from), `context` (raised while handling), `original` (what another process
    raised, of which the one before is a copy), `member` (of an exception group).
    `user_frames` are the frames that Dynamo names under "from user code:". `repeated`
    counts folded recursion. `at` is (line, start, end) of the line that names it.
    """

    type: str = ""
    message: str = ""
    detail: list[str] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    user_frames: list[Frame] = field(default_factory=list)
    relation: str = ""
    repeated: int = 0
    header: str = ""
    complete: bool = False
    at: tuple[int, int, int] = (0, 0, 0)

    @property
    def text(self) -> str:
        """Message and its further lines."""
        return "\n".join([self.message, *self.detail]).rstrip()


class PythonTraceback(Record, frozen=True):
    """A traceback with its chain, in printed order.

    `kind`: `plain`, `thread` (Exception in thread), `ignored` (Exception ignored in),
    `logged` (behind a logger's line), `headless` (its start is missing), `bare` (only the
    line that names the exception), `stack` (frames of no exception: Dynamo prints such).
    `lines` is how many lines of the log it takes, `lead` the line before it.
    """

    chain: tuple[Exc, ...]
    kind: str = "plain"
    lines: int = 0
    lead: str = ""


class TracebackReader:
    """Feeds on the lines of one writer; `open` while a traceback is being read.

    `feed` answers whether the line belonged to the traceback; when it did not, the
    traceback is finished (`take`) and the line is somebody else's.
    """

    def __init__(self) -> None:
        self.chain: list[Exc] = []
        self.at = (0, 0, 0)  # (line, start, end) of the line being fed
        self._state = "idle"
        self._blank = 0
        self._foreign = 0
        self._wrapped = ""
        self._pending_relation = ""
        self._user = False
        self._rich = False
        self._group = False
        self._notebook = False
        self._announced = False  # the exception line ended with a colon: its message begins further down
        self._quoted: Frame | None = None  # of TorchScript, with the line of code seen last
        self._left = 0

    @property
    def open(self) -> bool:
        """Whether a traceback is being read."""
        return self._state != "idle"

    @property
    def waiting(self) -> bool:
        """Whether its last exception line has not come yet."""
        return self._state in ("frames", "start")

    def begin(self, text: str) -> str:
        """Start with a header line, with a frame whose header is missing, or with a lone exception line.

        Answers `header`, `frame`, `bare`, or "" if the line is none of these.
        """
        if HEADER in text:
            self._push("", text)
            self._notebook = notebook.HEADER.match(text) is not None
            self._group = "Exception Group" in text
            self._rich = text.lstrip().startswith(("╭", "┌", "+-"))
            self._state = "start"
            return "header"
        if text.startswith(" ") and _FRAME.match(text):
            self._push("", "")
            self._frame(text)
            return "frame"
        if (named := parse_exception_line(text, expected=False)) is not None and named[1] and _BARE.search(named[0]):
            self._push("", "")
            self._named(named)
            return "bare"
        return ""

    def take(self) -> tuple[Exc, ...]:
        """The chain read; the reader is idle again."""
        chain = tuple(self.chain)
        self.__init__()  # type: ignore[misc]
        return chain

    def feed(self, text: str) -> bool:
        """One more line. False: it does not belong here."""
        if self._group or "Exception Group" in text:
            self._group = True
            text = self._unmargin(text)
        if self._state in ("start", "frames"):
            return self._in_frames(text)
        return self._in_message(text)

    # -- frames ---------------------------------------------------------------

    def _in_frames(self, text: str) -> bool:
        exc = self.chain[-1]
        if self._wrapped:
            joined, self._wrapped = self._wrapped + text.strip("\n"), ""
            if _FRAME.match(joined):
                return self._frame(joined)
        if HEADER in text:
            if exc.frames:  # two writers without prefixes: the first never finished
                self._push("", text)
            else:
                exc.header = text
            return True
        if self._rich:
            return self._in_box(text)
        if self._notebook and self._in_cell(text):
            return True
        if self._frame(text):
            return True
        if _FRAME_START.match(text) and len(text) > 40:
            self._wrapped = text
            return True
        if not text.strip() or _CARETS.match(text) or _LOGURU.match(text):
            return True
        if (m := _REPEATED.match(text)) is not None:
            exc.repeated += int(m[1])
            return True
        if text[0] in " \t":
            if _HERE in text and exc.frames and self._quoted is not None:
                exc.frames[-1] = Frame(
                    exc.frames[-1].file, exc.frames[-1].line, exc.frames[-1].function, self._quoted.text
                )
            else:
                self._quoted = Frame("", None, "", text.strip())
            self._code(exc, text.strip())
            return True
        named = parse_exception_line(text, expected=bool(exc.frames) or self._state == "start")
        if named is not None:
            self._named(named)
            self._announced = not named[1] and text.rstrip().endswith(":")
            return True
        self._foreign += 1
        return self._foreign <= MAX_FOREIGN and not _WARNING.match(text)

    def _named(self, named: tuple[str, str]) -> None:
        """The line that names the exception has come."""
        exc = self.chain[-1]
        exc.type, exc.message = named
        exc.complete, exc.at = True, self.at
        self._state, self._blank, self._foreign, self._user = "message", 0, 0, False
        self._announced, self._quoted = False, None

    def _frame(self, text: str) -> bool:
        m = _FRAME.match(text)
        if m is None:
            return False
        exc = self.chain[-1]
        frame = Frame(m["file"], int(m["line"]), (m["function"] or "").strip())
        into = exc.user_frames if self._user else exc.frames
        if len(into) < MAX_FRAMES:
            into.append(frame)
        self._state = "message" if self._user else "frames"
        return True

    def _code(self, exc: Exc, code: str) -> None:
        into = exc.user_frames if self._user else exc.frames
        if into and not into[-1].text:
            last = into[-1]
            into[-1] = Frame(last.file, last.line, last.function, code)

    def _in_cell(self, text: str) -> bool:
        """A line of an IPython traceback, as long as it is not the one that names the exception."""
        frames = self.chain[-1].frames
        if (frame := notebook.read_frame(text)) is not None:
            frames.append(frame)
            self._state = "frames"
        elif frames and (marked := notebook.mark(frames[-1], text)) is not None:
            frames[-1] = marked
        else:
            return notebook.is_context(text)
        return True

    def _in_box(self, text: str) -> bool:
        exc = self.chain[-1]
        if (m := _RICH_FRAME.match(text)) is not None:
            exc.frames.append(Frame(m["file"], int(m["line"]), m["function"] or ""))
        elif (m := _RICH_CODE.match(text)) is not None:
            self._code(exc, m["text"].strip())
        elif text.startswith(("╰", "└", "+-")):
            self._rich = False
            self._state = "frames"
        return text[:1] in "│|╰└+╭┌" or not text.strip()

    # -- message and what follows it -----------------------------------------

    def _in_message(self, text: str) -> bool:
        exc = self.chain[-1]
        if self._quoted is not None and self._in_quoted(exc, self._quoted, text):
            return True
        stripped = text.strip()
        if not stripped:
            self._blank += 1
            return self._blank <= (6 if self._quotes_compiler() else 3)
        if stripped in (_CAUSE, _CONTEXT):
            self._pending_relation = "cause" if stripped == _CAUSE else "context"
            return True
        if HEADER in text:
            return self._next_traceback(text)
        if self._pending_relation or (self._blank > 3 and not self._quotes_compiler()):
            return False
        if (m := _GROUP_RULE.match(text)) is not None:
            if m["index"]:
                self._push("member", "")
            return self._group
        if _FRAME.match(text):
            return self._frame_in_message(text)
        return self._continuation(exc, text)

    def _next_traceback(self, text: str) -> bool:
        """A header while a message is open: part of it, the next of the chain, or a new one."""
        if self._pending_relation:
            self._push(self._pending_relation, text)
            self._pending_relation = ""
        elif text.startswith("Original Traceback") or self._carries():
            self._push("original", text)
        else:
            return False
        self._state = "start"
        return True

    def _carries(self) -> bool:
        """Whether the message so far announces a traceback from elsewhere."""
        exc = self.chain[-1]
        last = next((d.strip() for d in reversed(exc.detail) if d.strip()), exc.message)
        # Inductor's compile workers: the kernel's name stands between since torch 2.8.
        return last == '"""' or "terminated with the following error" in last or SUBPROCESS.search(last) is not None

    def _in_quoted(self, exc: Exc, frame: Frame, text: str) -> bool:
        """A line of the function that TorchScript quotes; callers follow. Of a SyntaxError there is but one."""
        self._left -= 1
        if _HERE in text:
            exc.user_frames.insert(0, frame)
        elif _CARETS.match(text):
            self._push("original", "")
            self._state = "frames"
            self.chain[-1].frames.append(frame)
        elif self._left < 0 or HEADER in text or _FRAME.match(text) or self._is_others(text):
            self._quoted = None
            return False
        else:
            self._quoted = Frame(frame.file, frame.line, "", text.strip() or frame.text)
            exc.detail.append(text)
            return True
        self._quoted = None
        exc.detail.append(text)
        return True

    def _is_others(self, text: str) -> bool:
        """Whether a line cannot be of a function that is quoted."""
        return bool(ENDS.match(text) or reports_step(text)) or (text[:1] not in " \t" and self._looks_new(text))

    def _frame_in_message(self, text: str) -> bool:
        exc = self.chain[-1]
        m = _FRAME.match(text)
        if m is not None and not m["function"]:
            self._quoted, self._left = Frame(m["file"], int(m["line"]), ""), MAX_QUOTED
            exc.detail.append(text)
            return True
        if any(USER_STACK.fullmatch(d.strip()) for d in exc.detail[-3:]) or self._user:
            self._user = True
            return self._frame(text)
        if exc.frames or exc.detail:  # Ray: the remote stack follows the message without a header
            self._push("original", "")
        return self._frame(text)

    def _continuation(self, exc: Exc, text: str) -> bool:
        if self._user and text[0] in " \t":
            self._code(exc, text.strip())
            return True
        announced = not exc.detail and exc.message.endswith(" raised:")  # Dynamo: the backend's error is the next line
        known = CONTINUES.match(text.lstrip()) or (self._quotes_compiler() and COMPILER_SAYS.match(text))
        apart = self._blank and text[0] not in " \t|" and not known and not self._announced
        if apart or ENDS.match(text) or reports_step(text):
            return False
        if not known and text[0] not in " \t" and not announced and self._looks_new(text):
            return False
        self._announced = False
        if self._user and text.startswith("Set TORCH"):
            self._user = False
        exc.detail += [""] * self._blank + [text]
        self._blank = 0
        return len(exc.detail) <= (MAX_OUTPUT if self._quotes_compiler() else MAX_MESSAGE)

    def _quotes_compiler(self) -> bool:
        """Whether the message is Inductor's `C++ compile error` with the compiler's output."""
        exc = self.chain[-1]
        return exc.message.endswith("C++ compile error") or any(d.endswith("C++ compile error") for d in exc.detail[:2])

    @staticmethod
    def _looks_new(text: str) -> bool:
        """Whether an unindented line starts something of its own."""
        head = text.split(": ", maxsplit=1)[0]
        return parse_exception_line(head, expected=False) is not None and not text.startswith("nccl")

    def _push(self, relation: str, header: str) -> None:
        self.chain.append(Exc(relation=relation, header=header))
        self._state, self._blank, self._foreign, self._user = "start", 0, 0, False

    @staticmethod
    def _unmargin(text: str) -> str:
        """Removes the margins of exception groups: `  | RuntimeError: x`."""
        for _ in range(8):
            m = _GROUP_MARGIN.match(text)
            if m is None or text.lstrip().startswith("||"):
                return text
            text = text[m.end() :]
        return text
