"""An option, key or argument that the program does not accept

What it means
    The command line, a configuration or a call names something that does not exist, or
    leaves out something required. The job ended before or while it was set up. A GPU number
    that the process does not have is such an argument, too.

Why it happens
    A typing error, an option that another version renamed, a configuration written for
    another script, a call that passes arguments of a newer or older library. GPU numbers:
    more ranks on the node than GPUs, a global rank used as a device number, a
    CUDA_VISIBLE_DEVICES that shows fewer GPUs.

How to confirm
    The message names the option, key or argument; compare it with `--help`, the schema
    of the configuration, or the signature of the installed version; GPU numbers with
    `nvidia-smi -L` and CUDA_VISIBLE_DEVICES in the job's environment.

How to fix
    Correct the name, or align the versions of script and library. Select the GPU by local
    rank, and start no more ranks than GPUs.

Limits
    A plain `KeyError` counts only where the quoted source reads a configuration.

References
    - https://docs.python.org/3/library/argparse.html
    - https://omegaconf.readthedocs.io/en/latest/structured_config.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.patterns import lazily

from necropsy.claim import from_exception, from_record, match, one_line, said, saying
from necropsy.evidence.exceptions import ExceptionRow, Exceptions
from necropsy.evidence.settings import Settings
from necropsy.evidence.usage_errors import UsageErrors
from necropsy.finding import Fact, Finding, Fix, Severity
from necropsy.rule import rule

_SIGNATURE: Final = Fix("Compare the call with the signature in the installed version of the library", "code")
SAYINGS: Final = (
    saying(
        r"^TypeError: (?P<call>[\w.<>]+)\(\) got an unexpected keyword argument '(?P<name>\w+)'(?P<hint>.*)",
        "`{call}()` does not accept the argument `{name}`.",
        _SIGNATURE,
    ),
    saying(
        (
            r"^TypeError: (?P<call>[\w.<>]+)\(\) "
            r"missing \d+ required (?:positional|keyword-only) arguments?: "
            r"(?P<names>.+)"
        ),
        "`{call}()` was called without {names}.",
        _SIGNATURE,
    ),
    saying(
        (
            r"^TypeError: (?P<call>[\w.<>]+)\(\) "
            r"takes (?P<takes>.+?) positional arguments? "
            r"but (?P<given>\d+) (?:was|were) given"
        ),
        "`{call}()` takes {takes} positional arguments but {given} were given.",
        _SIGNATURE,
    ),
    saying(
        (
            r"^(?:"
            r"Config(?:Attribute|Key)Error"
            r"|MissingConfigException"
            r"|MissingMandatoryValue"
            r"|ConfigCompositionException"
            r"|InterpolationKeyError"
            r"): (?P<what>[^\n]+)"
        ),
        "The configuration does not fit: {what}.",
        Fix("Correct the key in the configuration file or in the override on the command line", "config"),
    ),
    saying(
        (
            r"^AttributeError: '"
            r"(?P<kind>Namespace|(?:\w*(?:Config|Cfg|Args|Arguments|Params|Options|EasyDict|DictConfig|Struct)))"
            r"' object has no attribute '(?P<name>\w+)'"
        ),
        "The configuration ({kind}) has no `{name}`.",
        Fix("Add the option to the parser or configuration, or correct its name where it is read", "config"),
    ),
    saying(
        (
            r"^(?:ValueError|KeyError|NotImplementedError|AssertionError|Exception|RuntimeError)"
            r": \W?(?P<what>"
            r"(?:[Uu]nknown|[Uu]nrecognized|[Uu]nsupported|[Ii]nvalid|[Nn]o such) "
            r"(?:\w+ ){0,3}(?:"
            r"option|argument|optimizer|scheduler|model|dataset|backbone|config\w*|key|name|type"
            r"|value|choice|loss|activation|backend|mode|precision|strategy|architecture|device)\b[^\n]*)"
        ),
        "A setting was refused: {what}.",
        Fix("Correct the setting; the message or the source line lists what is accepted", "config"),
        likely=True,
    ),
    saying(
        (
            r"^(?:ValueError|AssertionError): "
            r"(?P<what>(?:Invalid|invalid) "
            r"(?:learning rate|beta parameter|epsilon value|weight_decay value|momentum value"
            r"|\w+ (?:value|parameter))\b[^\n]*)"
        ),
        "A value was refused: {what}.",
        Fix("Correct the value where it is set: configuration, command line or the call at this line", "config"),
    ),
    saying(
        r"^ValidationError: (?P<what>\d+ validation errors? for \w+)",
        "The configuration was refused by its schema: {what}.",
        Fix("Correct the fields listed below the message", "config"),
    ),
    saying(
        r"^(?P<kind>ScannerError|ParserError|TOMLDecodeError|ConstructorError): (?P<what>[^\n]+)",
        "A configuration file cannot be parsed: {what}.",
        Fix("Correct the file at the line that the message names", "config"),
        types=("ScannerError", "ParserError", "TOMLDecodeError", "ConstructorError"),
    ),
)
_READS_CONFIG: Final = lazily(
    r"\b(?:cfg|config|conf|args|opt|opts|options|params|hparams|hp|settings|hyp)\w*(?:\.\w+)*\s*\["
)


def _config_key(row: ExceptionRow) -> str:
    """The missing key if a `KeyError` comes from reading a configuration."""
    text = row.main.frames[-1].text if row.main.frames else ""
    return row.message.strip("'\" ") if row.name == "KeyError" and _READS_CONFIG.search(text) else ""


_NO_MEMBER: Final = lazily(r"^module '(?P<module>[\w.]+)' has no attribute '(?P<name>\w+)'")


def _no_member(row: ExceptionRow) -> str:
    """The name that `getattr(module, name)` looked up in vain: a class chosen by a setting."""
    text = row.places[0].text if row.places else ""
    m = _NO_MEMBER.match(row.message) if row.name == "AttributeError" and "getattr(" in text else None
    return f"`{m['module']}` has no `{m['name']}`, which a setting asked for." if m else ""


_ORDINAL: Final = lazily(
    r"(?:CUDA (?:driver )?error: ?|cuda runtime error \(\d+\) ?: ?|HIP error: ?)invalid device ordinal"
)


def _device_number(row: ExceptionRow, settings: Settings) -> Finding:
    seen = next((s.value for s in settings if s.name == "CUDA_VISIBLE_DEVICES" and s.attempt == row.attempt), None)
    shown = f" (CUDA_VISIBLE_DEVICES={seen})" if seen is not None else ""
    facts: dict[str, Fact] = {"error": "invalid device ordinal"}
    if seen is not None:
        facts["CUDA_VISIBLE_DEVICES"] = seen
    return from_exception(
        row,
        f"The process selected a GPU number that it does not have{shown}: more ranks than GPUs, or a wrong index.",
        facts=facts,
        fixes=(
            Fix(
                "Select the device by local rank, not by global rank",
                "code",
                command="torch.cuda.set_device(int(os.environ['LOCAL_RANK']))",
            ),
            Fix("Start at most as many ranks on a node as the job sees GPUs there", "config", command="nvidia-smi -L"),
        ),
    )


@rule("CRS007", "bad-option", Severity.FATAL, aliases=("X07", "invalid-device-ordinal"))
def check(exceptions: Exceptions, refusals: UsageErrors, settings: Settings) -> Iterator[Finding]:
    """Refused command lines, and exceptions in the words of a bad option."""
    for refusal in refusals:
        who = f"`{refusal.program}`" if refusal.program else "The program"
        yield from_record(
            refusal,
            f"{who} refused its command line: {one_line(refusal.what)}.",
            Severity.FATAL,
            facts={"refused": refusal.what},
            fixes=(Fix("Correct the command line; `--help` lists what is accepted", "flag"),),
        )
    for row in exceptions:
        if (found := match(SAYINGS, row)) is not None:
            yield from_exception(row, said(found), fixes=found[0].fixes, confidence=found[0].confidence)
        elif _ORDINAL.search(f"{row.name}: {row.text}"):
            yield _device_number(row, settings)
        elif message := _no_member(row):
            yield from_exception(row, message, fixes=(Fix("Correct the name in the setting", "config"),))
        elif key := _config_key(row):
            yield from_exception(
                row,
                f"The configuration has no key `{key}`.",
                fixes=(Fix("Add the key to the configuration, or correct its name where it is read", "config"),),
            )
