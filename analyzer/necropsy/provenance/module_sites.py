"""Where a class calls its modules and does an operation: expressions of `forward` in the order in which they run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from necropsy.provenance.module_classes import ModuleClass, called
from necropsy.provenance.module_paths import TRACED

# ONNX operation -> names of calls and operators that export as it (torch.onnx symbolics, opset 9 to 23).
CALLS: Final[dict[str, str]] = {
    "Add": "add add_ baddbmm addmm linear", "Sub": "sub sub_ rsub", "Mul": "mul mul_ multiply", "Div": "div div_",
    "Pow": "pow square", "Sqrt": "sqrt", "Exp": "exp", "Log": "log", "Neg": "neg", "Abs": "abs", "Erf": "erf gelu",
    "MatMul": "matmul bmm mm linear einsum scaled_dot_product_attention", "Gemm": "linear addmm mm",
    "Einsum": "einsum", "Conv": "conv1d conv2d conv3d", "ConvTranspose": "conv_transpose1d conv_transpose2d",
    "Relu": "relu relu_", "LeakyRelu": "leaky_relu", "PRelu": "prelu", "Elu": "elu", "Gelu": "gelu",
    "Sigmoid": "sigmoid sigmoid_ silu", "HardSwish": "hardswish", "HardSigmoid": "hardsigmoid hardswish",
    "Tanh": "tanh", "Softplus": "softplus mish", "Softmax": "softmax scaled_dot_product_attention",
    "LogSoftmax": "log_softmax", "Clip": "clamp clip relu6 hardtanh clamp_min clamp_max",
    "MaxPool": "max_pool1d max_pool2d max_pool3d", "AveragePool": "avg_pool1d avg_pool2d avg_pool3d",
    "GlobalAveragePool": "adaptive_avg_pool1d adaptive_avg_pool2d mean", "GlobalMaxPool": "adaptive_max_pool2d",
    "ReduceMean": "mean", "ReduceSum": "sum", "ReduceMax": "max amax", "ReduceMin": "min amin", "ReduceL2": "norm",
    "ArgMax": "argmax", "ArgMin": "argmin", "TopK": "topk sort", "CumSum": "cumsum", "NonZero": "nonzero where",
    "Transpose": "permute transpose t swapaxes movedim", "Reshape": "reshape view flatten unflatten view_as",
    "Flatten": "flatten", "Squeeze": "squeeze", "Unsqueeze": "unsqueeze", "Expand": "expand expand_as repeat",
    "Tile": "repeat tile", "Concat": "cat concat concatenate stack", "Split": "split chunk unbind",
    "Slice": "narrow chunk split", "Gather": "gather index_select embedding select", "GatherND": "gather",
    "ScatterND": "scatter index_put", "ScatterElements": "scatter scatter_", "Pad": "pad", "Where": "where masked_fill",
    "Resize": "interpolate upsample", "Cast": "to type float half int long bool bfloat16", "GridSample": "grid_sample",
    "BatchNormalization": "batch_norm", "LayerNormalization": "layer_norm", "InstanceNormalization": "instance_norm",
    "GroupNormalization": "group_norm", "Dropout": "dropout", "DepthToSpace": "pixel_shuffle",
    "NonMaxSuppression": "nms batched_nms", "RoiAlign": "roi_align",
}  # fmt: skip
_PRODUCTS: Final = "linear addmm mm bmm baddbmm matmul einsum scaled_dot_product_attention"
# ATen operation, as graphs of torch name it -> the same; others are called by their own name.
ATEN: Final[dict[str, str]] = {
    "convolution": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
    **dict.fromkeys(("addmm", "mm", "bmm", "baddbmm", "matmul", "linear"), _PRODUCTS),
    "relu": "relu relu_", "add": "add add_", "sub": "sub sub_ rsub", "mul": "mul mul_ multiply", "div": "div div_",
    "cat": "cat concat concatenate", "_softmax": "softmax", "_log_softmax": "log_softmax", "mean": "mean",
    "embedding": "embedding", "permute": "permute transpose t movedim", "transpose": "transpose", "t": "t",
    "view": "view reshape flatten", "reshape": "reshape view flatten", "unsqueeze": "unsqueeze", "squeeze": "squeeze",
    "clamp": "clamp clip", "upsample_nearest2d": "interpolate upsample", "upsample_bilinear2d": "interpolate upsample",
    "native_layer_norm": "layer_norm", "_native_batch_norm_legit_no_training": "batch_norm",
    "native_group_norm": "group_norm", "max_pool2d_with_indices": "max_pool2d", "_adaptive_avg_pool2d":
    "adaptive_avg_pool2d", "index_select": "index_select", "masked_fill": "masked_fill", "pow": "pow square",
}  # fmt: skip
_ATEN_OPERATORS: Final = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "pow": "Pow", "neg": "Neg", "eq": "Equal", "gt": "Greater",
    "lt": "Less", "ge": "GreaterOrEqual", "le": "LessOrEqual",
    **dict.fromkeys(("mm", "bmm", "matmul"), "MatMul"),
}  # fmt: skip
OPERATORS: Final[dict[str, tuple[type[ast.AST], ...]]] = {
    "Add": (ast.Add,), "Sub": (ast.Sub,), "Mul": (ast.Mult,), "Div": (ast.Div,), "Pow": (ast.Pow,),
    "MatMul": (ast.MatMult,), "Neg": (ast.USub,), "Equal": (ast.Eq,), "Greater": (ast.Gt,), "Less": (ast.Lt,),
    "GreaterOrEqual": (ast.GtE,), "LessOrEqual": (ast.LtE,), "And": (ast.BitAnd,), "Or": (ast.BitOr,),
    "Not": (ast.Invert,), "Mod": (ast.Mod,),
}  # fmt: skip


class Site(Struct, frozen=True):
    """An expression in a method: its lines, whether it stands in a loop, the method's name, a constant index."""

    line: int
    end_line: int
    function: str
    loops: bool
    item: str = ""


def module_sites(owner: ModuleClass, attribute: str) -> list[Site]:
    """Where the class calls what `self.<attribute>` holds: itself, an item of it, or what a loop takes from it."""
    found = []
    for name, method in owner.methods.items():
        if name == "__init__":
            continue
        taken = set(_names_of(method, attribute))
        for node, loops in _ordered(method):
            if isinstance(node, ast.Call) and _is_call_of(node, attribute, taken):
                found.append(Site(node.lineno, node.end_lineno or node.lineno, name, loops, _item(node.func)))
    return list(dict.fromkeys(found))


def _is_call_of(node: ast.Call, attribute: str, taken: set[str]) -> bool:
    function: ast.expr = node.func
    if isinstance(function, ast.Attribute) and function.attr == "forward":
        function = function.value
    if _holds(function, attribute) or (isinstance(function, ast.Name) and function.id in taken):
        return True
    return called(node) in ("checkpoint", "remat") and any(
        _holds(a, attribute) or (isinstance(a, ast.Name) and a.id in taken) for a in node.args
    )


def _item(node: ast.expr) -> str:
    """The constant by which an item of a container is called: `0` of `self.blocks[0](x)`."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    return ""


def _holds(node: ast.expr, attribute: str) -> bool:
    """Whether the expression is `self.a`, `self.a[..]`, or `getattr(self, "a")`."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Call) and called(node) == "getattr" and len(node.args) >= 2:
        name = node.args[1]
        return isinstance(name, ast.Constant) and name.value == attribute
    return isinstance(node, ast.Attribute) and node.attr == attribute and _is_self(node.value)


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _names_of(method: ast.AST, attribute: str) -> Iterator[str]:
    """Local names for what the attribute holds: of `for block in self.a`, `block = self.a[i]`, `zip(self.a, ..)`."""
    for node in ast.walk(method):
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            source, target = node.iter, node.target
            if _holds(source, attribute) and isinstance(target, ast.Name):
                yield target.id
            elif isinstance(source, ast.Call) and isinstance(target, ast.Tuple):
                args = [*([None] if called(source) == "enumerate" else []), *source.args]
                for arg, name in zip(args, target.elts, strict=False):
                    if arg is not None and _holds(_bare(arg), attribute) and isinstance(name, ast.Name):
                        yield name.id
        elif isinstance(node, ast.Assign) and _holds(node.value, attribute):
            yield from (t.id for t in node.targets if isinstance(t, ast.Name))


def _bare(node: ast.expr) -> ast.expr:
    """What a method without arguments is called on: `self.blocks` of `self.blocks.items()`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
        return node.func.value
    return node


def operation_sites(owner: ModuleClass, operation: str) -> list[Site]:
    """Where `forward`, and methods of the class that it calls, do an operation without a module."""
    names, kinds = _asked(operation)
    found = []
    for name in _reached(owner):
        for node, loops in _ordered(owner.methods[name]):
            if _does(node, names, kinds):
                line = getattr(node, "lineno", 0)
                found.append(Site(line, getattr(node, "end_lineno", None) or line, name, loops))
    return found


def _asked(operation: str) -> tuple[frozenset[str], tuple[type[ast.AST], ...]]:
    """Names of calls, and operators, that do an operation."""
    if not operation.startswith(TRACED):
        return frozenset(CALLS.get(operation, "").split()), OPERATORS.get(operation, ())
    own = operation.removeprefix(TRACED)
    known = next((k for k in (own, *_shorter(own)) if k in ATEN), own)
    names = frozenset(ATEN.get(known, f"{own} {own}_").split())
    return names, OPERATORS.get(_ATEN_OPERATORS.get(known, ""), ())


def _shorter(operation: str) -> Iterator[str]:
    """`convolution_bias`, which a converter made of `convolution`, without its last words."""
    while "_" in operation[1:]:
        operation = operation.rpartition("_")[0]
        yield operation


def _does(node: ast.AST, names: frozenset[str], kinds: tuple[type[ast.AST], ...]) -> bool:
    if isinstance(node, ast.Call):
        return called(node) in names and not (isinstance(node.func, ast.Attribute) and _is_self(node.func.value))
    if isinstance(node, ast.BinOp | ast.AugAssign | ast.UnaryOp):
        return isinstance(node.op, kinds) if kinds else False
    return isinstance(node, ast.Compare) and bool(kinds) and isinstance(node.ops[0], kinds)


def _reached(owner: ModuleClass) -> list[str]:
    """`forward` and methods that it calls on `self`, each once."""
    queue, seen = ["forward"], []
    while queue:
        name = queue.pop(0)
        if name in seen or name not in owner.methods:
            continue
        seen.append(name)
        for node in ast.walk(owner.methods[name]):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_self(node.func.value):
                queue.append(node.func.attr)
    return seen


def _ordered(method: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """Nodes of a function in the order in which they are evaluated (operands first), and whether a loop is around."""
    stack: list[tuple[ast.AST, bool, bool]] = [(method, False, False)]
    while stack:
        node, loops, ready = stack.pop()
        if ready:
            yield node, loops
            continue
        inside = loops or isinstance(node, ast.For | ast.AsyncFor | ast.While | ast.comprehension)
        stack.append((node, loops, True))
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
            children = [node.value, *(c for c in children if c is not node.value)]
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            inside = True
        stack += [(c, inside, False) for c in reversed(children)]
