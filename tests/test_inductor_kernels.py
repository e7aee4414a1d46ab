"""Kernels of generated code to lines: against torch's own provenance, with less evidence, as old releases print it."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Final

import pytest

from necropsy_parsers.inductor.records import (
    FusedNodes,
    GeneratedCode,
    GraphLines,
    KernelNodes,
    KernelStacks,
    NodeStacks,
)
from necropsy_parsers.issues import Issues
from necropsy_parsers.records import Frame, Record
from necropsy_parsers.structured.reading import StructuredReader
from necropsy_parsers.tallies import fused_nodes, fusion_stacks, generated_code, graph_lines, schedule
from necropsy_parsers.text.log import LogReader
from necropsy_parsers.text.naming import named

import necropsy
from necropsy.evidence.inductor_kernels import InductorKernels
from necropsy.provenance.inductor import Book, Lines

FIXTURES: Final = Path(__file__).parents[1] / "fixtures"
RUN: Final = FIXTURES / "rules" / "KRN024" / "fires-attention-in-bf16" / "input.d" / "run.log.gz"
H200: Final = FIXTURES / "kernels" / "h200"
KINDS: Final = (FusedNodes, GeneratedCode, GraphLines, KernelNodes, KernelStacks, NodeStacks)


def told(data: bytes) -> list[Record]:
    """What the tallies read of a log."""
    found: list[Record] = []
    for module in (generated_code, graph_lines, fusion_stacks, fused_nodes, schedule):
        tally = module.Tally("run.log", 0)
        tally.feed(data, 0, 0)
        found += tally.records()
    return found


def structured(data: bytes) -> list[Record]:
    """The same of a structured log."""
    reader = StructuredReader("trace.log", Issues(), 0, named("trace.log"))
    return [r for r in reader.records([data]) if isinstance(r, KINDS)]


def places(frames: tuple[Frame, ...]) -> set[tuple[str, int | None]]:
    return {(f.file, f.line) for f in frames}


def measured(
    records: list[Record], truth: list[Record], *, products: bool = False, extern: bool = True
) -> tuple[float, float, int]:
    """Precision and recall of (call, line) pairs against torch's own stacks, and how many calls were compared.

    `products` only: libraries' kernels of which torch knows the one operation. Of others (`convolution_backward`) it
    lists what was fused into their inputs; the operation's own line must be among those. Without `extern`: generated
    kernels alone.
    """
    stacks = [dict(r.stacks) for r in truth if isinstance(r, KernelStacks)]
    book = Book(records)  # type: ignore[arg-type]
    right = wrong = missed = calls = 0
    assert len(book.codes) == len(stacks)
    for code, own in zip(book.codes, stacks, strict=True):
        resolver = book.resolver(code, provenance=False)
        for call in code.calls:
            if call.extern and not extern:
                continue
            theirs = places(own[f"{call.name}:{call.handle}"])
            mine = places(tuple(w.frame for w in resolver.lines(call).lines))
            if products and (not call.extern or len(theirs) > 1):
                assert mine <= theirs
                continue
            right, wrong, missed = right + len(mine & theirs), wrong + len(mine - theirs), missed + len(theirs - mine)
            calls += 1
    return right / max(1, right + wrong), right / max(1, right + missed), calls


@pytest.fixture(scope="module")
def log() -> bytes:
    return gzip.decompress(RUN.read_bytes())


@pytest.fixture(scope="module")
def trace() -> bytes:
    return gzip.decompress((H200 / "torch_trace.log.gz").read_bytes())


def without(log: bytes, *artifacts: str) -> bytes:
    """The log as it were if those had not been asked for."""
    marks = [f"[__{a}]".encode() for a in artifacts]
    return b"\n".join(line for line in log.split(b"\n") if not any(m in line for m in marks))


def test_the_text_log_tells_what_torchs_own_provenance_tells(log: bytes, trace: bytes) -> None:
    precision, recall, calls = measured(told(log), structured(trace))
    assert calls == 148
    assert precision >= 0.98
    assert recall >= 0.95


def test_the_structured_log_tells_it_without_its_provenance(trace: bytes) -> None:
    precision, recall, calls = measured(structured(trace), structured(trace))
    assert calls == 148
    assert precision >= 0.98
    assert recall >= 0.95


@pytest.mark.parametrize(
    ("left_out", "least"),
    [
        (("graph_code",), 0.85),
        (("post_grad_graphs",), 0.95),
        (("aot_graphs",), 0.95),
        (("graph_code", "aot_graphs"), 0.85),
        (("graph_code", "aot_graphs", "post_grad_graphs"), 0.5),
        (("aot_graphs", "post_grad_graphs", "fusion"), 0.2),
    ],
)
def test_less_evidence_is_fewer_lines_and_none_wrong(
    log: bytes, trace: bytes, left_out: tuple[str, ...], least: float
) -> None:
    precision, recall, _ = measured(told(without(log, *left_out)), structured(trace))
    assert precision >= 0.98
    assert recall >= least


def test_cut_into_chunks_it_says_the_same(log: bytes) -> None:
    whole, parts = told(log), []
    for module in (generated_code, graph_lines, fusion_stacks, fused_nodes, schedule):
        tally, start, line = module.Tally("run.log", 0), 0, 0
        while start < len(log):
            end = log.find(b"\n", min(len(log) - 1, start + 50_000)) + 1 or len(log)
            tally.feed(log[start:end], start, line)
            line += log.count(b"\n", start, end)
            start = end
        parts += list(tally.records())
    assert parts == whole


def test_the_table_has_a_row_a_call_with_the_heaviest_line_first() -> None:
    table = necropsy.load(str(RUN)).get(InductorKernels)
    assert len(table) == 148
    softmax = next(r for r in table if r.kernel == "triton_per_fused__softmax__to_copy_amax_mul_sub_view_11")
    assert [f.line for f in softmax.frames] == [18, 19, 17]
    assert softmax.how == "graph nodes"
    assert softmax.direction == "forward"
    products = [r.frames[0].line for r in table if r.kernel == "extern_kernels.bmm" and r.direction == "forward"]
    assert products == [17, 19, 17, 19]
    assert all(len(r.lines) == 1 for r in table if r.extern)


def lines(text: str) -> list[Lines]:
    """The lines of each call of a log's code."""
    book = Book(told(text.encode()))  # type: ignore[arg-type]
    return [book.resolver(code).lines(call) for code in book.codes for call in code.calls]


HEAD: Final = {
    "2.1": "[2024-02-08 09:14:02,118] [0/0] torch._inductor.graph.__output_code: [DEBUG] ",
    "2.6": "V0208 09:14:02.118000 512 torch/_inductor/graph.py:2053] [0/0] [__output_code] ",
}
GRAPH_HEAD: Final = {
    "2.1": "[2024-02-08 09:14:01,902] [0/0] torch._functorch.aot_autograd.__aot_graphs: [INFO] ",
    "2.6": "I0208 09:14:01.902000 512 torch/_functorch/aot_autograd.py:584] [0/0] [__aot_graphs] ",
}
DYNAMO_HEAD: Final = {
    "2.1": "[2024-02-08 09:14:01,102] [0/0] torch._dynamo.output_graph.__graph_code: [DEBUG] ",
    "2.6": "V0208 09:14:01.102000 512 torch/_dynamo/output_graph.py:1353] [0/0] [__graph_code] ",
}
# Functions stand in the comments since 2.4; nodes are called as the program's variables, too.
WORDS: Final = {
    "2.1": {"where": "", "up": "l__self___up", "z": "mul"},
    "2.6": {"where": " in forward", "up": "y", "z": "z"},
}
# After torch/_inductor/utils.py (`get_kernel_metadata`) and torch/fx/graph.py of these releases.
DYNAMO: Final = """\
TRACED GRAPH
 ===== __compiled_fn_1 =====
 <eval_with_key>.0 class GraphModule(torch.nn.Module):
    def forward(self, L_x_ : torch.Tensor):
        # File: /home/trainer/net.py:11{where}, code: y = self.up(x)
        {up} = self.L__self___up(l_x_);  l_x_ = None

        # File: /home/trainer/net.py:12{where}, code: z = torch.relu(y) * 2
        relu = torch.relu({up});  {up} = None
        {z} = relu * 2;  relu = None
        return ({z},)
"""
AOT: Final = """\
TRACED GRAPH
 ===== Forward graph 0 =====
 <eval_with_key>.7 class GraphModule(torch.nn.Module):
    def forward(self, primals_1: f32[64, 64], primals_2: f32[64], primals_3: f32[8, 64]):
        # File: /home/trainer/net.py:11{where}, code: y = self.up(x)
        t: f32[64, 64] = torch.ops.aten.t.default(primals_1);  primals_1 = None
        addmm: f32[8, 64] = torch.ops.aten.addmm.default(primals_2, primals_3, t);  primals_2 = None

        # File: /home/trainer/net.py:12{where}, code: z = torch.relu(y) * 2
        relu: f32[8, 64] = torch.ops.aten.relu.default(addmm);  addmm = None
        mul: f32[8, 64] = torch.ops.aten.mul.Tensor(relu, 2)

        # No stacktrace found for following nodes
        alias: f32[8, 64] = torch.ops.aten.alias.default(relu)
        return [mul, alias]
"""
OLD: Final = """\
Output code:

from ctypes import c_void_p, c_long
async_compile = AsyncCompile()


# kernel path: /tmp/torchinductor_trainer/ab/cabx.py
# Source Nodes: [mul, relu], Original ATen: [aten.mul, aten.relu]
# mul => mul
# relu => relu
triton_poi_fused_mul_relu_0 = async_compile.triton('triton_', '''
import triton
@triton.jit
def triton_(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    tmp0 = tl.load(in_ptr0 + (x0), None)
''')

def call(args):
    primals_1, primals_2, primals_3 = args
    args.clear()
    with torch.cuda._DeviceGuard(0):
        buf0 = empty_strided((8, 64), (64, 1), device='cuda', dtype=torch.float32)
        # Source Nodes: [l__self___up], Original ATen: [aten.addmm]
        extern_kernels.addmm(primals_2, primals_3, reinterpret_tensor(primals_1, (64, 64), (1, 64), 0), out=buf0)
        # Source Nodes: [mul, relu], Original ATen: [aten.mul, aten.relu]
        stream0 = get_cuda_stream(0)
        triton_poi_fused_mul_relu_0.run(buf0, buf1, 512, grid=grid(512), stream=stream0)
"""
NEWER: Final = """\
Output code:
# AOT ID: ['0_forward']
async_compile = AsyncCompile()


# kernel path: /tmp/torchinductor_trainer/ab/cabx.py
# Topologically Sorted Source Nodes: [relu, z], Original ATen: [aten.relu, aten.mul]
# Source node to ATen node mapping:
#   relu => relu
#   z => mul
# Graph fragment:
#   %relu : [num_users=2] = call_function[target=torch.ops.aten.relu.default](args = (%addmm,), kwargs = {})
#   %mul : [num_users=1] = call_function[target=torch.ops.aten.mul.Tensor](args = (%relu, 2), kwargs = {})
triton_poi_fused_mul_relu_0 = async_compile.triton('triton_poi_fused_mul_relu_0', '''
import triton
''', device_str='cuda')

def call(args):
    primals_1, primals_2, primals_3 = args
    args.clear()
    with torch.cuda._DeviceGuard(0):
        # Topologically Sorted Source Nodes: [y], Original ATen: [aten.addmm]
        extern_kernels.addmm(primals_2, primals_3, reinterpret_tensor(primals_1, (64, 64), (1, 64), 0), out=buf0)
        # Topologically Sorted Source Nodes: [relu, z], Original ATen: [aten.relu, aten.mul]
        stream0 = get_raw_stream(0)
        triton_poi_fused_mul_relu_0.run(buf0, buf1, 512, grid=grid(512), stream=stream0)
"""


@pytest.mark.parametrize(("release", "code"), [("2.1", OLD), ("2.6", NEWER)])
def test_forms_of_old_releases(release: str, code: str) -> None:
    texts = [(DYNAMO_HEAD, DYNAMO), (GRAPH_HEAD, AOT), (HEAD, code)]
    log = "\n".join(f"{h[release]}{line}" for h, t in texts for line in t.splitlines())
    for word, stands in WORDS[release].items():
        log = log.replace("{" + word + "}", stands)
    product, fused = lines(log)
    assert [w.frame.line for w in product.lines] == [11]
    assert [w.frame.line for w in fused.lines] == [12]
    assert fused.lines[0].frame.text == "z = torch.relu(y) * 2"


def test_an_old_name_that_no_graph_holds_stays_untold() -> None:
    log = "\n".join(f"{HEAD['2.1']}{line}" for line in OLD.splitlines())
    assert [found.lines for found in lines(log)] == [(), ()]


def test_a_log_without_graphs_says_what_the_structured_log_of_the_run_says(shared: Path) -> None:
    text = gzip.decompress((shared / "captures" / "torch_logs" / "lm_compile.log.gz").read_bytes())
    trace = gzip.decompress((shared / "captures" / "torch_trace" / "lm.log.gz").read_bytes())
    poor, rich = Book(told(text)), Book(structured(trace))  # type: ignore[arg-type]
    right = wrong = missed = 0
    for a, b in zip(poor.codes, rich.codes, strict=True):
        one, two = poor.resolver(a), rich.resolver(b)
        for x, y in zip(a.calls, b.calls, strict=True):
            assert x.name == y.name
            mine, theirs = (places(tuple(w.frame for w in r.lines(c).lines)) for r, c in ((one, x), (two, y)))
            right, wrong, missed = right + len(mine & theirs), wrong + len(mine - theirs), missed + len(theirs - mine)
    assert wrong == 0
    assert right / (right + missed) > 0.8


def test_generated_code_is_read_when_asked_for(tmp_path: Path, log: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run.log").write_bytes(log)
    fed: list[int] = []
    feed = generated_code.Tally.feed

    def counted(self: generated_code.Tally, chunk: bytes, start: int, line: int) -> None:
        fed.append(start)
        feed(self, chunk, start, line)

    monkeypatch.setattr(generated_code.Tally, "feed", counted)
    evidence = necropsy.load(str(tmp_path / "run.log"))
    assert not fed
    late = evidence.get(InductorKernels).rows
    assert fed == [0]
    assert len(late) > 10 and evidence.get(InductorKernels).rows is late
    assert fed == [0]
    issues = Issues()
    at_once = LogReader(late[0].anchor.input, issues, 0, named("run.log"))
    told = [r for r in at_once.records([log]) if isinstance(r, KINDS)]
    table = InductorKernels()
    for record in told:
        table.add(record)
    assert [(r.kernel, r.call, r.lines) for r in table] == [(r.kernel, r.call, r.lines) for r in late]


def test_what_cannot_be_read_twice_is_read_at_once(log: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(log)))
    assert len(necropsy.load("-").get(InductorKernels)) > 10
