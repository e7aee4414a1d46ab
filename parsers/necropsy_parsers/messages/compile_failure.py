"""Frames and kernels that torch.compile or Triton could not compile.

torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:
RuntimeError: Failed to find C compiler. Please specify via CC environment variable.

torch._inductor.exc.InductorError: CppCompileError: C++ compile error

Command:
g++ /tmp/torchinductor_trainer/ab/cabc.main.cpp -D TORCH_INDUCTOR_CPP_WRAPPER -O3 -o cabc.main.so

Output:
/usr/include/c++/13/cstdlib:79:15: fatal error: stdlib.h: No such file or directory

torch._dynamo.exc.TorchRuntimeError: Failed running call_function <built-in function add>(*(FakeTensor(..., size=(4,
[0/0] WON'T CONVERT forward /home/trainer/projects/vit/model.py line 31

From torch/_dynamo/exc.py, convert_frame.py, torch/_inductor/exc.py, async_compile.py, compile_worker/subproc_pool.py,
cpp_builder.py, torch/fx/experimental/symbolic_shapes.py (2.1 to 2.13; Inductor's own class of error since 2.7), and
Triton's runtime/build.py, driver.py and compiler (2.1 to 3.5). `Unsupported` and `UserError` are graph breaks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.messages.graph_break import CONSTRAINT
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Frame, Record
from necropsy_parsers.text.traceback import HEADER, Exc, TracebackReader
from necropsy_parsers.torch_artifacts import Reads

NAME: Final = "compile_failure"
TITLE: Final = "Failures of torch.compile and Triton"
TRIGGERS: Final = (
    b"BackendCompilerFailed",
    b"InductorError",
    b"LoweringException",
    b"MissingOperatorWith",
    b"TorchRuntimeError",
    b"InternalTorchDynamoError",
    b"ConstraintViolationError",
    b"Constraints violated",
    b"GuardOnDataDependentSymNode",
    b"Error while creating guard",
    b"WON'T CONVERT ",
    b"' raised:",
    b"C++ compile error",
    b"CppWrapperCodegenError",
    b"InvalidCxxCompiler",
    b"No working C++ compiler found",
    b"SubprocException",
    b"compilation subprocess exited unexpectedly",
    b"Cannot find a working triton",
    b"too old to be supported by the triton",
    b"NoTritonConfigsError",
    b"Failed to find C compiler",
    b"libcuda.so cannot found",
    b"Triton PTX codegen error",
    b"PTXASError",
    b"PassManager::run failed",
    b"returned non-zero exit status",
)
READS: Final = (
    Reads(
        "", "2.1", "exceptions of backends, fake tensors, Dynamo, Inductor, Triton: cause, operator, compiler's output"
    ),
    Reads("", "2.5", "exceptions of compile workers, with their own traceback; kernel's name (2.8)"),
    Reads("", "2.7", "`InductorError`; stack of a failed lowering (2.11)"),
    Reads("", "2.1", "`WON'T CONVERT`: function, error and stack of what `suppress_errors` hid"),
    Reads("", "2.1", "`Error while creating guard`, constraint violations; user's stack (2.8)"),
)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "torch._inductor.exc.InductorError: RuntimeError: Failed to find C compiler. Please specify via CC environment "
    "variable or set triton.knobs.build.impl.": {
        "kind": "InductorError",
        "backend": "inductor",
        "error": "RuntimeError",
        "reason": "Failed to find C compiler. Please specify via CC environment variable or set "
        "triton.knobs.build.impl.",
    },
    "torch._dynamo.exc.TorchRuntimeError: Dynamo failed to run FX node with fake tensors: call_function <built-in "
    "function add>(*(FakeTensor(..., size=(4, 8)), FakeTensor(..., size=(4, 6))), **{}): got "
    "RuntimeError('shapes (4, 8) and (4, 6) do not broadcast')": {
        "kind": "TorchRuntimeError",
        "operator": "add",
        "error": "RuntimeError",
        "reason": "shapes (4, 8) and (4, 6) do not broadcast",
    },
    "torch._inductor.exc.LoweringException: NotImplementedError: float8": {
        "kind": "LoweringException",
        "error": "NotImplementedError",
        "reason": "float8",
    },
}

# The classes that only wrap what a backend raised; what stands behind them is the failure itself.
WRAPPERS: Final = frozenset({"BackendCompilerFailed", "InductorError", "LoweringException", "SubprocException"})
_DYNAMO: Final = WRAPPERS | {
    "TorchRuntimeError", "InternalTorchDynamoError", "ConstraintViolationError", "GuardOnDataDependentSymNode",
    "CppCompileError", "CUDACompileError", "InvalidCxxCompiler", "CppWrapperCodegenError", "TritonMissing",
    "GPUTooOldForTriton", "NoTritonConfigsError", "PTXASError", "MissingOperatorWithoutDecomp",
    "MissingOperatorWithDecomp",
}  # fmt: skip
# What Triton and Inductor's workers say in plain classes (RuntimeError, AssertionError).
_PLAIN: Final = lazily(
    r"Failed to find C compiler|libcuda\.so cannot found|Internal Triton PTX codegen error|PassManager::run failed"
    r"|Cannot find a working triton|too old to be supported by the triton|No working C\+\+ compiler found"
    r"|compilation subprocess exited unexpectedly|C\+\+ compile error"
)
_BREAKS: Final = frozenset({"Unsupported", "UserError", "FailOnRecompileLimitHit"})
_BACKEND: Final = lazily(r"backend='(?P<backend>[^'\n]*)' raised:")
_INNER: Final = lazily(
    r"(?:(?:\w+\.)*(?:BackendCompilerFailed|InductorError|LoweringException|SubprocException): )?"
    r"(?:backend='[^'\n]*' raised:\s*)?(?P<error>(?:\w+\.)*[A-Z]\w+): (?P<reason>[^\n]*)"
)
_OPERATOR: Final = lazily(r"^ *target: (?P<operator>[\w.:<>]+)", re.MULTILINE)
_KERNEL: Final = lazily(r"^Name=(?P<kernel>\w+)$", re.MULTILINE)
_COMMAND: Final = lazily(r"^Command:\s*\n(?P<command>[^\n]+)", re.MULTILINE)
_OUTPUT: Final = lazily(r"^Output:[^\S\n]*\n(?P<output>.*)", re.MULTILINE | re.DOTALL)
_NOT_OUTPUT: Final = lazily(r"^(?:Set TORCH|You can suppress|from user code:).*", re.MULTILINE | re.DOTALL)
_GAVE_UP: Final = lazily(r"WON'T CONVERT (?P<function>\S+) (?P<file>[^\n]+?) line (?P<line>\d+)[ \t]*$", re.MULTILINE)
# What Dynamo ran on fake tensors, and what it raised: 2.1 to 2.5 on the next line, since 2.6 as `got ...`.
_NODE: Final = lazily(
    r"(?:Failed running|failed to run FX node with fake tensors:) call_\w+ "
    r"(?:<(?:built-in )?(?:function|method|bound method) (?P<function>[\w.]+)[^>\n]*>|(?P<operator>[\w.:]+))"
)
_GOT: Final = lazily(r"\): got (?P<error>\w+)\((?P<quote>['\"])(?P<reason>.*?)(?P=quote),?\)\s*$", re.MULTILINE)
_RAN: Final = lazily(r"Failed running call_\w+ [^\n]*:\n(?P<reason>[^\n]+)")
_VERBOSE: Final = lazily(r"^=+ The above exception occurred while processing the following code =+$", re.MULTILINE)
MAX_TEXT: Final = 16_000  # characters kept of what a failure says


class CompileFailure(Record, frozen=True):
    """One failure. `kind` is the class that was raised, `backend` the compiler's name.

    `error` and `reason` are class and first line of what the compiler met;
    `text` is everything said; `operator` the one being lowered or run, `kernel` the Triton kernel, `command` and
    `output` those of a host compiler, `frame` the function that runs eagerly instead (None where the failure was
    raised), `frames` the user's stack, `raised` the innermost frame of the compiler's own, `through` whether
    torch.compile was at work at all.
    """

    kind: str
    backend: str
    error: str
    reason: str
    text: str
    operator: str
    kernel: str
    command: str
    output: str
    frame: Frame | None
    frames: tuple[Frame, ...]
    raised: Frame | None
    through: bool
    from_exception: bool


def read(message: Message) -> Iterator[CompileFailure]:
    """The failure in `message`: an exception's, an entry of Dynamo's log, or a pasted line without its class."""
    if message.exception is not None:
        chain = message.exception.chain
        telling = [e for e in chain if e.type and _tells(e)]
        if telling and message.text == f"{telling[0].type}: {telling[0].text}" and not _breaks(chain):
            yield _failure(message, chain, telling[0], None)
        return
    gave_up = _GAVE_UP.search(message.text)
    if gave_up is not None:
        chain = _chain(message.text)
        if chain and not _breaks(chain) and message.origin.level not in ("I", "INFO", "V", "DEBUG"):
            frame = Frame(gave_up["file"], int(gave_up["line"]), gave_up["function"])
            yield _failure(message, chain, next((e for e in chain if _tells(e)), chain[-1]), frame)
    elif message.first.startswith("Error while creating guard"):
        chain = _chain(message.text)
        telling = [e for e in chain if _tells(e)]
        if telling:
            yield _failure(message, chain, telling[0], None)


def from_traceback(message: Message) -> Iterator[CompileFailure]:
    """The failure that a traceback in a structured log tells: there is no line of the log besides."""
    chain = _chain(message.text)
    if chain and not _breaks(chain):
        yield _failure(message, chain, next((e for e in chain if _tells(e)), chain[-1]), None)


def _name(exc: Exc) -> str:
    return exc.type.rsplit(".", 1)[-1]


def _tells(exc: Exc) -> bool:
    """Whether the exception is a compiler's."""
    if _name(exc) == "CalledProcessError":  # Triton's launcher is built by gcc, whose words go to stderr
        return any(re.search(r"[/\\]triton[/\\]", f.file) for f in exc.frames)
    return (
        _name(exc) in _DYNAMO
        or exc.text.startswith(CONSTRAINT)
        or (_name(exc) not in _BREAKS and _PLAIN.search(exc.text) is not None)
    )


def _breaks(chain: tuple[Exc, ...]) -> bool:
    """Whether what surfaced is a graph break or a limit, which have rules of their own."""
    return _name(chain[-1]) in _BREAKS and not chain[-1].text.startswith(CONSTRAINT)


def _chain(text: str) -> tuple[Exc, ...]:
    """The first whole traceback in an entry; Dynamo prints it twice, and its user's stack apart if it is verbose."""
    at = text.find(HEADER)
    if at < 0:
        return ()
    reader = TracebackReader()
    lines = text[at:].split("\n")
    reader.begin(lines[0])
    for line in lines[1:]:
        if not reader.feed(line):
            break
    chain = reader.take()
    if not chain[-1].complete:
        return ()
    verbose = _VERBOSE.search(text)
    if verbose is not None and not any(e.user_frames for e in chain):
        reader.begin(HEADER)
        for line in text[verbose.end() :].split("\n"):
            if line.startswith("=="):
                break
            reader.feed(line)
        chain[-1].user_frames.extend(reader.take()[-1].frames)
    return chain


def _failure(message: Message, chain: tuple[Exc, ...], telling: Exc, frame: Frame | None) -> CompileFailure:
    text = "\n".join(f"{e.type}: {e.text}" for e in chain if e.type)[:MAX_TEXT]
    lead = message.exception.lead if message.exception is not None else ""
    backend = _BACKEND.search(text) or _BACKEND.search(lead)
    error, reason = _inner(telling, chain)
    own = _name(telling)
    return CompileFailure(
        message.anchor,
        "BackendCompilerFailed" if backend and own not in _DYNAMO else own,
        backend["backend"] if backend else "inductor" if own in ("InductorError", "LoweringException") else "",
        error,
        reason,
        text,
        _operator(text),
        _group(_KERNEL, text, "kernel"),
        _group(_COMMAND, text, "command"),
        _NOT_OUTPUT.sub("", _group(_OUTPUT, text, "output")).strip(),
        frame,
        next((tuple(e.user_frames) for e in reversed(chain) if e.user_frames), ()),
        next((e.frames[-1] for e in reversed(chain) if e.complete and e.frames), None),
        own in _DYNAMO - {"PTXASError"} or backend is not None or _by_torch(chain),
        message.exception is not None,
        **message.common,
    )


def _inner(telling: Exc, chain: tuple[Exc, ...]) -> tuple[str, str]:
    """Class and first line of what the compiler met: of a worker's own exception, else of what the wrapper quotes."""
    original = next((e for e in reversed(chain) if e.relation == "original" and e.complete and e is not telling), None)
    if original is not None:
        return _name(original), original.message
    if (m := _GOT.search(telling.text)) is not None:
        return m["error"], m["reason"]
    if (m := _RAN.search(telling.text)) is not None:
        return "", m["reason"].strip()
    error, reason = "", ""
    for _ in range(4):
        m = _INNER.match(reason if error else telling.text)
        if m is None:
            break
        error, reason = m["error"].rsplit(".", 1)[-1], m["reason"]
        if error not in WRAPPERS:
            break
    return error, reason.strip() if error else telling.message


def _by_torch(chain: tuple[Exc, ...]) -> bool:
    """Whether Dynamo or Inductor stands in the stack, rather than a Triton kernel called by the user."""
    return any("_inductor" in f.file or "_dynamo" in f.file for e in chain for f in e.frames)


def _operator(text: str) -> str:
    """What was being lowered, or run on fake tensors."""
    if (m := _OPERATOR.search(text)) is not None:
        return m["operator"]
    m = _NODE.search(text)
    return (m["function"] or m["operator"]) if m else ""


def _group(pattern: re.Pattern[str], text: str, name: str) -> str:
    m = pattern.search(text)
    return m[name] if m else ""
