"""From a launch to a line: marks, stacks, sources, generated code; and whose launches they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from necropsy_parsers.ncu.records import Launch, NvtxRange
from necropsy_parsers.records import UNKNOWN, Anchor, Frame

from necropsy.evidence.inductor_kernels import InductorKernel, InductorKernels
from necropsy.evidence.ncu_kernels import HELPER, PROGRAM, TUNING, NcuKernels
from necropsy.ncu.groups import groups
from necropsy.ncu.lines import places
from necropsy.provenance.inductor import Weighed
from necropsy.provenance.launches import place_of_launch

SITE = "/opt/env/lib/python3.12/site-packages"
USER = Frame("/home/trainer/projects/net/model.py", 31, "forward")
TORCH = Frame(f"{SITE}/torch/nn/functional.py", 90, "linear")
COMPILED = (
    Frame("/home/trainer/projects/net/model.py", 30, "block"),
    Frame(f"{SITE}/torch/_dynamo/eval_frame.py", 1024, "compile_wrapper"),
    Frame("/tmp/torchinductor_trainer/ab/cab.py", 186, "call"),
)
BENCH = (*COMPILED, Frame(f"{SITE}/torch/_inductor/runtime/triton_heuristics.py", 1176, "autotune_to_one_config"))


def launch(kernel: str = "k(int)", number: int = 0, process: int = 7, **more: object) -> Launch:
    function = kernel.split("(", maxsplit=1)[0].rsplit("::", maxsplit=1)[-1]
    return Launch(Anchor("r.ncu-rep", 0, 0, 1), number, kernel, function, process=process, seq=number, **more)  # type: ignore[arg-type]


def table(*launches: Launch) -> NcuKernels:
    made = NcuKernels()
    for one in launches:
        made.add(one)
    made.finish()
    return made


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("necropsy:pkg/train.py:63", ("pkg/train.py", 63)),
        ("necropsy:scripts/train:63", ("scripts/train", 63)),
        ("src/net.py:41", ("src/net.py", 41)),
        ("src/net.py:41 in forward", ("src/net.py", 41)),
        ("src/net.py:41:forward", ("src/net.py", 41)),
        ("epoch 3", None),
        ("step:12", None),
        ("forward", None),
        (f"{SITE}/torch/nn/modules/linear.py:114", None),
    ],
)
def test_ranges_that_name_lines(name: str, place: tuple[str, int] | None) -> None:
    found = place_of_launch(launch(ranges=(NvtxRange("", "epoch 3"), NvtxRange("", name))))
    assert (found and (found.file, found.line)) == place


def test_the_innermost_mark_counts() -> None:
    marks = (
        NvtxRange("", "necropsy:train.py:80"),
        NvtxRange("", "necropsy:net.py:12"),
        NvtxRange("CCCL", "cub::Reduce"),
    )
    found = place_of_launch(launch(ranges=marks))
    assert found is not None
    assert (found.file, found.line, found.exactness) == ("net.py", 12, "line")


def test_the_innermost_frame_of_the_user_counts() -> None:
    found = place_of_launch(launch(stack=(Frame("/home/trainer/run.py", 5, "main"), USER, TORCH)))
    assert found is not None
    assert (found.file, found.line, found.function, found.exactness) == (USER.file, 31, "forward", "line")


def test_a_compiled_function_is_no_line() -> None:
    found = place_of_launch(launch(stack=COMPILED))
    assert found is not None
    assert (found.line, found.exactness) == (30, "function")


def test_source_of_a_kernel_is_where_it_is_written() -> None:
    found = place_of_launch(launch(source=Frame("/home/trainer/projects/net/kernels.py", 12)))
    assert found is not None
    assert (found.line, found.function, found.exactness) == (12, "k", "function")
    assert place_of_launch(launch(source=Frame("/tmp/torchinductor_trainer/vu/cvu.py", 18))) is None


def test_nothing_tells_nothing() -> None:
    (group,) = groups(table(launch()))
    assert places(group) == ()


class Told(InductorKernels):
    """Takes rows as they are to be."""

    def read(self, told: list[Any]) -> Iterator[InductorKernel]:
        return iter(told)


def compiled_call(kernel: str, *lines: int) -> InductorKernel:
    told = tuple(Weighed(Frame(USER.file, n, "block", "y = x * w"), 1.0) for n in lines)
    return InductorKernel(
        kernel, "g", "0/0", "forward", 0, False, (), (), told, "graph nodes", True, Anchor("l", 0, 0, 1), UNKNOWN
    )


@pytest.mark.parametrize(
    ("calls", "wanted"),
    [
        ([(33,)], [(33, "line")]),
        ([(33, 34)], [(33, "statement"), (34, "statement")]),
        ([(33,), (40,)], [(30, "function")]),  # calls of one name that compute other lines
        ([], [(30, "function")]),
    ],
)
def test_generated_code_tells_lines(calls: list[tuple[int, ...]], wanted: list[tuple[int, str]]) -> None:
    inductor = Told()
    for lines in calls:
        inductor.add(compiled_call("triton_poi_fused_0", *lines))
    (group,) = groups(table(launch("triton_poi_fused_0", stack=COMPILED)))
    assert [(p.line, p.exactness) for p in places(group, inductor)] == wanted


def test_launches_for_several_lines_tell_all_of_them() -> None:
    inductor = Told()
    for line in (50, 51):
        inductor.add(compiled_call("triton_poi_fused_0", line))
    (group,) = groups(table(*(launch("triton_poi_fused_0", n, stack=COMPILED) for n in range(2))))
    found = places(group, inductor)
    assert [(p.line, p.exactness) for p in found] == [(50, "statement"), (51, "statement")]
    assert "launched for these" in found[0].how


def test_tuners_are_told_by_their_stack() -> None:
    rows = table(launch("triton_red_0", 0, stack=BENCH), launch("triton_red_0", 1, stack=COMPILED)).rows
    assert [r.role for r in rows] == [TUNING, PROGRAM]


def test_benchmarks_are_told_by_their_fills() -> None:
    fill = "void at::native::vectorized_elementwise_kernel<(int)4, at::native::FillFunctor<int>>(int, T2)"
    names = ["gemm(int)", fill, "triton_a", fill, "triton_a", fill, "triton_a", "softmax(int)", fill, "tail(int)"]
    rows = table(*(launch(name, i) for i, name in enumerate(names))).rows
    assert [r.role for r in rows] == [PROGRAM] + [TUNING] * 6 + [PROGRAM] * 3


def test_a_process_that_only_tunes_is_a_helper() -> None:
    rows = table(launch("triton_a", 0, process=8, stack=BENCH), launch("gemm(int)", 1, process=7)).rows
    assert [(r.process, r.role) for r in rows] == [(8, HELPER), (7, PROGRAM)]


def test_launches_of_one_kernel_and_place_are_one_group() -> None:
    rows = [launch("k(int)", i, metrics={"gpu__time_duration.sum": 100.0 * (i + 1)}, stack=(USER,)) for i in range(3)]
    other = launch("k(int)", 3, metrics={"gpu__time_duration.sum": 400.0}, stack=(Frame(USER.file, 77, "backward"),))
    found = groups(table(*rows, other))
    assert [(g.ns, g.share, len(g.rows), g.place and g.place.line) for g in found] == [
        (600.0, 0.6, 3, 31),
        (400.0, 0.4, 1, 77),
    ]
