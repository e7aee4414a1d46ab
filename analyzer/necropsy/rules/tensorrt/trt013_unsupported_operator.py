"""TensorRT's parser cannot read a node: no importer, or a plugin is not loaded

What it means
    The ONNX parser stopped at a node, so no network and no engine came of the model. Three things
    look alike in the log. The operator is one of ONNX that this release cannot import: it then
    looked for a plugin of that name, and its last words ("Plugin not found, are the plugin name, version,
    and namespace correct?") are about that attempt. Or it is not one of ONNX, and the plugin
    that implements it is missing or its library was not loaded. Or the operator is known and
    this use of it is not.

Why it happens
    A model exported with a newer opset than the parser knows; a custom operator; a plugin library
    that was not loaded (or `trt.init_libnvinfer_plugins` not called) before the parser ran.

How to confirm
    The dump of the node tells `op_type` and `domain`. An operator of the standard has the domain ""
    and stands in the operator matrix of onnx-tensorrt.

How to fix
    Standard operator: a newer TensorRT, another opset, or an ONNX graph without it. Plugin: load its
    library before parsing. Known operator, unknown use: change the export.

Limits
    Whether a later release can import the operator is not checked. A name that is no operator of
    ONNX may also be a local function of the model, which must be inlined.

References
    - https://github.com/onnx/onnx-tensorrt/blob/main/docs/operators.md
    - https://github.com/onnx/onnx-tensorrt/issues/800
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.numbers import natural
from necropsy_parsers.tensorrt_log.records import OnnxNode, TrtMessage

from necropsy.claim import from_record
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.onnx_nodes import OnnxNodes
from necropsy.evidence.sources import Sources
from necropsy.evidence.trt_builds import TrtBuilds
from necropsy.evidence.trt_messages import TrtMessages
from necropsy.finding import Fact, Finding, Fix, Related, Severity
from necropsy.rule import rule
from necropsy.rules.tensorrt._log import (
    by_onnxruntime,
    ended,
    failure,
    first_cause,
    just_before,
    of_build,
    places_of,
    short,
)
from necropsy.rules.tensorrt._operators import KNOWN_DOMAINS, is_standard
from necropsy.rules.tensorrt.trt022_batch_norm_training import is_training

_NEWER: Final = Fix("Use a newer TensorRT: its operator matrix tells since when the operator can be imported")
_REWRITE: Final = Fix(
    "Export without the operator: write it with others in `forward`, or replace it in the ONNX graph", "code"
)
_FORM: Final = Fix("Change the export so that the operator has a form that the parser knows (see its words)", "code")
_LOAD: Final = Fix(
    "Load the library with the plugin before the model is parsed",
    "code",
    command=(
        "ctypes.CDLL('libmyplugins.so'); trt.init_libnvinfer_plugins(logger, '')"
        "  # trtexec: --staticPlugins=libmyplugins.so (--plugins before 8.6)"
    ),
)
_WRITE: Final = Fix(
    "If there is no such plugin: write one, or write the operator with standard ones in `forward`", "code"
)


_FOLD: Final = Fix(
    "Fold constants and look at the types of inputs and initializers that the model is left with", "code",
    command="polygraphy surgeon sanitize m.onnx --fold-constants -o folded.onnx; polygraphy inspect model folded.onnx",
)  # fmt: skip
_NAME: Final = Fix(
    "Look up the node by its number", "code",
    command="python -c \"import onnx; print(onnx.load('model.onnx').graph.node[NUMBER])\"",
)  # fmt: skip
_QUOTED: Final = re.compile(r"&& \"(?P<words>[^\"]+)\"?")


@rule("TRT013", "unsupported-operator", Severity.FATAL)
def check(
    messages: TrtMessages, builds: TrtBuilds, exceptions: Exceptions, nodes: OnnxNodes | None, sources: Sources
) -> Iterator[Finding]:
    """One finding a node; what the Python parser repeats of it is evidence."""
    told: set[tuple[str, int]] = set()
    for row in messages.of("node-failed", "node-error"):
        where = (row.anchor.input, row.build)
        if where in told or is_training(row) or not first_cause(row, messages):
            continue
        told.add(where)
        if _elsewhere(row, builds, exceptions):
            yield _passed_on(row, (row.node or _node_of(row)).op, builds)
            continue
        node = row.node or _node_of(row)
        before = just_before(row, messages)
        reason = _words(row.words.get("assertion", "")) or (before.text if before is not None else "")
        text, fixes = _said(node, row, reason, of_build(builds.of(row)))
        facts: dict[str, Fact] = {
            "operator": node.op,
            "node": node.name or node.output,
            "node number": -1 if node.number is None else node.number,
            "domain": node.domain,
            "parser says": reason[:200],
        }
        echoes = [m for m in messages.of("plugin-missing", "no-importer") if m.build == row.build]
        yield failure(
            row,
            text,
            builds,
            exceptions,
            code=places_of([node.name or node.output], row, nodes, sources),
            facts={k: v for k, v in facts.items() if v not in ("", -1)},
            fixes=fixes,
            related=tuple(Related(m.anchor, "the attempt to import it as a plugin") for m in echoes[:1]),
            subject=node.op + node.name,
        )
    yield from _plugins(messages, builds, exceptions, told)


def _node_of(row: TrtMessage) -> OnnxNode:
    number = row.words.get("number", "")
    op = row.words.get("op", "")
    if not op and "registered for op: " in (said := row.words.get("assertion", "")):
        op = said.split("registered for op: ", 1)[1].split()[0].rstrip(".")
    function = row.words.get("function", "")
    if not op and is_standard(function.removeprefix("import"), ""):
        op = function.removeprefix("import")
    return OnnxNode(natural(number) if number.lstrip("-").isdecimal() else None, op, row.words.get("name", ""))


def _words(assertion: str) -> str:
    """What an assertion says to people: `Assertion failed: (mode != "cubic") && "..."`."""
    quoted = _QUOTED.search(assertion)
    return quoted["words"] if quoted is not None else assertion.removeprefix("Assertion failed: ")


def _said(node: OnnxNode, row: TrtMessage, reason: str, release: str) -> tuple[str, tuple[Fix, ...]]:
    name = f" (node {short(node.name or node.output)})" if node.name or node.output else ""
    if not node.op and node.number is not None and node.number >= 0:
        name = f" of node {node.number}"
    assertion = reason.rstrip(".")
    sought = "Plugin not found" in assertion or "FallbackPlugin" in row.words.get("function", "")
    sought = sought or "No importer registered" in assertion
    if not sought and not node.op and node.number == -1:
        return (
            f"{release}'s parser can not take the model's inputs or weights ({assertion}); no network came of it.",
            (_FOLD, _NEWER),
        )
    if not sought and not node.op:
        return f"{release} does not support the operator{name}: {assertion}; no network came of the model.", (_FORM,)
    if not sought:
        because = f": {assertion[:240]}" if assertion else ""
        where = f" in {row.words['function']}" if row.words.get("function") and not assertion else ""
        return (
            f"{release} does not support this use of ONNX operator {node.op or '?'}{name}{because}{where}; "
            "no network came of the model.",
            (_FORM, _NEWER),
        )
    if not node.op:
        return (
            f"{release} does not support the operator{name}: no importer knows it, and no plugin of that name is "
            "loaded.",
            (_NAME, _LOAD, _NEWER),
        )
    if is_standard(node.op, node.domain):
        return (
            f"{release} has no importer for standard ONNX operator {node.op}{name}, so the model is not supported; "
            "that no plugin of this name was found is only its last attempt.",
            (_NEWER, _REWRITE),
        )
    if node.domain and node.domain in KNOWN_DOMAINS:
        what = f"of domain {node.domain} ({KNOWN_DOMAINS[node.domain]})"
    elif node.domain:
        what = f"of domain {node.domain}"
    else:
        what = "which is no operator of ONNX"
    return (
        f"{release} does not support operator {node.op}{name}, {what}: no importer knows it, and no plugin of that "
        "name is loaded.",
        (_LOAD, _WRITE),
    )


def _elsewhere(row: TrtMessage, builds: TrtBuilds, exceptions: Exceptions) -> bool:
    """Whether onnxruntime asked what TensorRT can take, and went on with another provider for the rest."""
    return by_onnxruntime(row) and not ended(row, builds, exceptions)


def _passed_on(row: TrtMessage, op: str, builds: TrtBuilds) -> Finding:
    return from_record(
        row,
        f"{of_build(builds.of(row))} does not support ONNX operator {op or '?'}: onnxruntime runs it with another "
        "provider and splits the graph there, which costs copies and not the job.",
        Severity.NOTE,
        facts={"operator": op} if op else {},
        fixes=(_NEWER, _REWRITE),
        subject=op,
    )


def _plugins(
    messages: TrtMessages, builds: TrtBuilds, exceptions: Exceptions, told: set[tuple[str, int]]
) -> Iterator[Finding]:
    """A plugin that an engine asks for when it is loaded: there is no node then."""
    for row in messages.of("plugin-missing"):
        if (row.anchor.input, row.build) in told or row.level not in ("E", "F"):
            continue
        told.add((row.anchor.input, row.build))
        plugin = row.words.get("plugin", "?")
        if _elsewhere(row, builds, exceptions):
            yield _passed_on(row, plugin, builds)
            continue
        if is_standard(plugin, ""):
            release = of_build(builds.of(row))
            text = f"{release} does not support ONNX operator {plugin}, and no plugin of that name is loaded."
            fixes: tuple[Fix, ...] = (_NEWER, _REWRITE)
        else:
            text = f"The plugin {plugin} is not loaded, so that what needs it is not supported and there is no engine."
            fixes = (_LOAD,)
        facts: dict[str, Fact] = {"plugin": plugin, "version": row.words.get("version", "")}
        yield failure(
            row, text, builds, exceptions, facts={k: v for k, v in facts.items() if v}, fixes=fixes, subject=plugin
        )
