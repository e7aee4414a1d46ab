"""A checkpoint does not fit, is damaged, or could not be written

What it means
    Loading or saving a checkpoint failed: its keys or shapes are not the model's, its
    file ends early or is no checkpoint, or there was no room to write it.

Why it happens
    The model was built with other sizes than the saved one; `module.` prefixes of
    DataParallel or `_orig_mod.` of torch.compile; a job killed while it saved; a git-LFS
    pointer instead of the file; a full disk or quota.

How to confirm
    Compare the listed keys and shapes with `model.state_dict()`; look at the file's
    size; `df -h` and `quota` on the node that wrote it.

How to fix
    Build the model with the saved configuration, rename the keys, or load an older
    checkpoint that is whole. Write to a temporary name and rename, so that a killed job
    leaves the last good file.

Limits
    torch lists all keys that differ; only the first ones are quoted here.

References
    - https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.load_state_dict
    - https://docs.pytorch.org/docs/stable/notes/serialization.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.patterns import lazily

from necropsy.claim import from_exception, match, said, saying
from necropsy.evidence.exceptions import ExceptionRow, Exceptions
from necropsy.finding import Fact, Finding, Fix, Severity
from necropsy.rule import rule

_WHOLE: Final = Fix("Load an older checkpoint that is whole, or copy the file again and compare its size", "config")
_ROOM: Final = Fix(
    "Free space or raise the quota where the job writes; keep fewer checkpoints", "config", command="df -h . ; df -i ."
)
SAYINGS: Final = (
    saying(
        r"Error\(s\) in loading state_dict for (?P<model>\w+)",
        "The checkpoint does not fit {model}: its keys or shapes differ from the model that was built.",
        Fix("Build the model with the configuration the checkpoint was saved with", "config"),
    ),
    saying(
        (
            r"loaded state dict "
            r"(?:contains a parameter group that doesn't match|has a different number of parameter groups)"
        ),
        "The saved optimizer state does not fit the optimizer: its parameter groups differ.",
        Fix(
            "Build optimizer and parameter groups as when the checkpoint was saved, or start with a fresh optimizer",
            "code",
        ),
    ),
    saying(
        (
            r"PytorchStreamReader failed (?P<what>[^\n.]+)"
            r"|failed finding central directory"
            r"|Invalid magic number"
            r"|invalid load key"
            r"|pickle data was truncated"
            r"|unexpected EOF, expected \d+ more bytes"
            r"|^EOFError: Ran out of input"
            r"|BadZipFile"
        ),
        "The checkpoint file is cut short or is no checkpoint at all.",
        _WHOLE,
        Fix("If the file is a few hundred bytes, it is a git-LFS pointer: fetch the real one", "investigate"),
    ),
    saying(
        r"SafetensorError: (?P<what>[^\n]+)|(?:HeaderTooLarge|InvalidHeaderDeserialization|MetadataIncompleteBuffer)",
        "The safetensors file is damaged or cut short. {what}",
        _WHOLE,
    ),
    saying(
        r"(?:No space left on device|Errno 28)",
        "The disk is full: no space was left where the job writes.",
        _ROOM,
    ),
    saying(r"(?:Disk quota exceeded|Errno 122)", "The disk quota is used up where the job writes.", _ROOM),
    saying(
        (
            r"PytorchStreamWriter failed"
            r"|unexpected pos \d+ vs \d+"
            r"|inline_container\.cc:\d+\] \. (?:unexpected pos|PytorchStreamWriter)"
            r"|iostream error"
        ),
        "Writing a checkpoint failed halfway; most often the disk or quota is full.",
        _ROOM,
        likely=True,
    ),
    saying(
        r"Weights only load failed",
        "torch refused to unpickle the checkpoint: since torch 2.6 `torch.load` reads weights only by default.",
        Fix(
            (
                "If you trust the file, allow the classes it holds with torch.serialization.add_safe_globals, "
                "or pass weights_only=False"
            ),
            "code",
            "unsafe",
        ),
    ),
    saying(
        (
            r"Attempting to deserialize object on (?:a CUDA device|CUDA device \d+) "
            r"but torch\.cuda\.(?P<what>is_available\(\) is False|device_count\(\) is \d+)"
        ),
        "The checkpoint holds tensors of a CUDA device that this process does not have ({what}).",
        Fix("Pass map_location to torch.load", "code"),
    ),
    saying(
        r"Missing key in checkpoint state_dict: (?P<key>\S+)",
        "The distributed checkpoint lacks {key}.",
        Fix("Load with the same model, optimizer and wrapping as it was saved with", "code"),
    ),
)
_MISSING: Final = lazily(r"Missing key\(s\) in state_dict: (?P<keys>[^\n]+)")
_UNEXPECTED: Final = lazily(r"Unexpected key\(s\) in state_dict: (?P<keys>[^\n]+)")
_SHAPE: Final = lazily(
    r"size mismatch for (?P<key>[\w.]+): copying a param with shape torch\.Size\((?P<saved>[^)]*)\) from checkpoint, "
    r"the shape in current model is torch\.Size\((?P<built>[^)]*)\)"
)


def _details(row: ExceptionRow) -> tuple[str, dict[str, Fact], tuple[Fix, ...]]:
    """What the listed keys tell: a sentence, facts, and a sharper fix where they show the reason."""
    facts: dict[str, Fact] = {}
    shapes = list(_SHAPE.finditer(row.text))
    missing, unexpected = _MISSING.search(row.text), _UNEXPECTED.search(row.text)
    keys = {
        name: re.findall(r'"([\w.]+)"', m["keys"]) if m else []
        for name, m in (("missing", missing), ("unexpected", unexpected))
    }
    facts.update({f"{name} keys": len(found) for name, found in keys.items() if found})
    fixes: tuple[Fix, ...] = ()
    sentence = ""
    if shapes:
        first = shapes[0]
        facts["size mismatches"] = len(shapes)
        sentence = f" `{first['key']}` was saved as {first['saved']}, the model has {first['built']}."
    for prefix, writer in (
        ("module.", "DataParallel"),
        ("_orig_mod.", "torch.compile"),
        ("model.", "a wrapper (Lightning?)"),
    ):
        for held, lacked, verb in (("unexpected", "missing", "strip"), ("missing", "unexpected", "add")):
            if (
                keys[held]
                and keys[lacked]
                and all(k.startswith(prefix) for k in keys[held])
                and not any(k.startswith(prefix) for k in keys[lacked])
            ):
                sentence += f" The keys differ only by the prefix `{prefix}` of {writer}."
                fixes = (
                    Fix(
                        f"Before loading, {verb} the prefix `{prefix}` on the saved keys, or save the unwrapped module",
                        "code",
                    ),
                )
    if not sentence and keys["missing"]:
        sentence = f" First missing: `{keys['missing'][0]}`."
    elif not sentence and keys["unexpected"]:
        sentence = f" First unexpected: `{keys['unexpected'][0]}`."
    return sentence, facts, fixes


@rule("CRS009", "checkpoint-mismatch", Severity.FATAL)
def check(exceptions: Exceptions) -> Iterator[Finding]:
    """Exceptions of loading and saving."""
    for row in exceptions:
        if (found := match(SAYINGS, row)) is None:
            continue
        sentence, facts, fixes = _details(row)
        yield from_exception(
            row,
            said(found).strip() + sentence,
            facts=facts,
            fixes=fixes or found[0].fixes,
            confidence=found[0].confidence,
        )
