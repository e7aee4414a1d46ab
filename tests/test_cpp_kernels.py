"""C++ kernels to nodes by the buffers that they write: what is written twice or told in part is never guessed."""

from __future__ import annotations

from textwrap import dedent
from typing import Final

import pytest
from tests.test_inductor_kernels import told

from necropsy_parsers.inductor.code import read_code
from necropsy_parsers.inductor.records import FusedNodes, KernelCall, NodeStacks
from necropsy_parsers.records import UNKNOWN, Anchor

from necropsy.provenance.cpp_kernels import computed
from necropsy.provenance.inductor import Book

HERE: Final = Anchor("run.log", 0, 0, 1)


def node(name: str, *origins: str) -> NodeStacks:
    return NodeStacks(HERE, "run.log", name, origins, (), origin=UNKNOWN, seq=0)


def fused(nodes: str, *writes: str) -> FusedNodes:
    return FusedNodes(HERE, "run.log", tuple(nodes.split("_")), writes, origin=UNKNOWN, seq=0)


def call(*writes: str) -> KernelCall:
    return KernelCall("cpp_fused_0", extern=False, writes=writes)


NODES: Final = (node("op0", "add", "primals_1"), node("op1", "relu"), node("op2", "sum_1", "relu"))


class TestBuffers:
    """From written buffers to nodes."""

    def test_a_fused_node_is_found_by_any_of_its_buffers(self) -> None:
        groups = (fused("op0_op1", "buf0", "buf1"), fused("op0", "buf0"), fused("op1", "buf1"), fused("op2", "buf2"))
        calls = (call("buf1"), call("buf2"))
        found = computed(calls, NODES, groups)
        assert [found[id(c)].nodes for c in calls] == [("add", "relu"), ("sum_1", "relu")]
        assert all(found[id(c)].complete for c in calls)

    def test_a_buffer_that_two_nodes_write_tells_nothing(self) -> None:
        groups = (fused("op0", "buf0"), fused("op1", "buf1", "buf0"))
        calls = (call("buf0"), call("buf0"))
        assert computed(calls, NODES, groups) == {}

    def test_a_node_of_two_kernels_tells_nothing(self) -> None:
        calls = (call("buf0"), call("buf1"))
        assert computed(calls, NODES, (fused("op0_op1", "buf0", "buf1"),)) == {}

    def test_what_stays_unknown_is_told(self) -> None:
        groups = (fused("op0", "buf0"), fused("op7", "buf7"))
        calls = (call("buf0", "arg3_1"), call("buf7"))
        found = computed(calls, NODES, groups)
        assert [(f.nodes, f.complete) for f in found.values()] == [(("add",), False)]


CODE: Final = """\
cpp_fused_add_0 = async_compile.cpp_pybinding(['const float*', 'float*', 'const int64_t'], r'''
''')
cpp_fused_relu_1 = async_compile.cpp_pybinding(['float*', 'const float*'], '''
''')
def call(args):
    cpp_fused_add_0(arg0_1, buf0, s77)
    # [Provenance debug handles] cpp_fused_relu_1:2
    cpp_fused_relu_1(buf1, buf0)
    cpp_fused_add_0(arg0_1, buf4)
"""


def test_arguments_that_are_not_constant_are_written() -> None:
    calls = read_code(CODE.encode()).calls
    assert [(c.name, c.writes, c.handle) for c in calls] == [
        ("cpp_fused_add_0", ("buf0",), ""),
        ("cpp_fused_relu_1", ("buf1",), "2"),
        ("cpp_fused_add_0", (), ""),  # not as it is defined
    ]


# As torch 2.7 prints it: candidates without stacks.
FUSION: Final = """\
===== attempting fusion (1/10): 2 nodes =====
fuse_nodes_once, candidates:
  SchedulerNode(name='op0'), Pointwise(['[8]', 'origins=OrderedSet([add, arg0_1])'])
  SchedulerNode(name='op1'), Reduction(['[8]', 'sum', 'origins=OrderedSet([relu, sum_1])'])
"""
AFTER: Final = """\
AFTER FUSION
op0: SchedulerNode(ComputedBuffer)
op0.writes = [MemoryDep('buf0', c0, {c0: 8})]
op0.outputs = [
    buf0: ComputedBuffer
    buf0.layout = FixedLayout('cpu', torch.float32, size=[8], stride=[1])
    buf0.users = [NodeUser(node=SchedulerNode(name='op1'), can_inplace=True, is_weak=False)]
]
op0.sizes = ([8], [])
class op0_loop_body:
    var_ranges = {p0: 8}
op1: SchedulerNode(ComputedBuffer)
op1.outputs = [
    buf1: ComputedBuffer
    buf1.layout = MutationLayoutSHOULDREMOVE('cpu', torch.float32, size=[8], stride=[1])
    buf1.mutations = ['arg2_1']
]
"""
GRAPH: Final = """\
TRACED GRAPH
 ===== AFTER POST GRAD =====
        # File: /home/trainer/net.py:7 in forward, code: y = x + bias
        add: "f32[8]" = torch.ops.aten.add.Tensor(arg0_1, arg1_1)
        # File: /home/trainer/net.py:8 in forward, code: total.copy_(y.relu().sum(0))
        relu: "f32[8]" = torch.ops.aten.relu.default(add)
        sum_1: "f32[8]" = torch.ops.aten.sum.dim_IntList(relu, [0])
"""
OUTPUT: Final = """\
Output code:
# AOT ID: ['0_inference']
cpp_fused_add_0 = async_compile.cpp_pybinding(['const float*', 'float*'], '''
''')
cpp_fused_relu_sum_1 = async_compile.cpp_pybinding(['const float*', 'float*'], '''
''')
        cpp_fused_add_0(arg0_1, buf0)
        cpp_fused_relu_sum_1(buf0, arg2_1)
"""


def log(*left_out: str) -> bytes:
    """A log of two kernels."""
    parts = {"fusion": FUSION, "ir_post_fusion": AFTER, "post_grad_graphs": GRAPH, "output_code": OUTPUT}
    return "".join(
        f"V0512 10:01:02.118000 512 torch/_inductor/x.py:1] [0/0] [__{artifact}] {line}\n"
        for artifact in ("post_grad_graphs", "fusion", "ir_post_fusion", "output_code") if artifact not in left_out
        for line in parts[artifact].splitlines()
    ).encode()  # fmt: skip


def lines(data: bytes) -> list[list[int | None]]:
    book = Book(told(data))  # type: ignore[arg-type]
    return [[w.frame.line for w in book.resolver(c).lines(k).lines] for c in book.codes for k in c.calls]


def test_candidates_without_stacks_are_enough_with_a_graph() -> None:
    assert lines(log()) == [[7], [8]]
    assert lines(log().replace(b"\n", b"\r\n")) == [[7], [8]]


@pytest.mark.parametrize("artifact", ["fusion", "ir_post_fusion", "post_grad_graphs"])
def test_without_one_of_the_three_nothing_is_told(artifact: str) -> None:
    assert lines(log(artifact)) == [[], []]


def test_ranks_that_write_one_file() -> None:
    first = dedent(log().decode()).splitlines()
    other = [line.replace(" 512 ", " 513 ").replace("net.py:7", "net.py:9") for line in first]
    woven = "\n".join(line for pair in zip(first, other, strict=True) for line in pair) + "\n"
    assert lines(woven.encode()) == [[7], [8], [9], [8]]
