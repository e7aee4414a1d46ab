"""Numbers and units in the ways that ncu prints them."""

from __future__ import annotations

import pytest

from necropsy_parsers.ncu.build import demangled, dims, function_of
from necropsy_parsers.ncu.metrics import WANTED, named, section
from necropsy_parsers.ncu.units import Numbers, factor, is_rate


@pytest.mark.parametrize(
    ("seen", "text", "value"),
    [
        (["33.47", "306,418"], "1,234,567.89", 1234567.89),
        (["33.47", "306,418"], "306,418", 306418),
        (["33,47", "306.418"], "306.418", 306418),
        (["33,47"], "1.234.567,89", 1234567.89),
        (["33,47", "306\u202f418"], "306\u202f418", 306418),
        (["33,47", "306\u00a0418,5"], "306\u00a0418,5", 306418.5),
        (["33,47"], "306 418,25", 306418.25),
        (["33.47"], "306'418.25", 306418.25),
        (["33.47"], "12,34,567", 1234567),  # Indian groups
        ([], "211,886.54", 211886.54),
        (["0,001"], "0,001", 0.001),
        (["9748082.25"], "9748082", 9748082),  # no separators at all
        (["1.5"], "-3.25e+05", -325000),
    ],
)
def test_numbers_of_any_locale(seen: list[str], text: str, value: float) -> None:
    assert Numbers.of([*seen, text]).read(text) == pytest.approx(value)


@pytest.mark.parametrize(
    "text", ["n/a", "nan", "-nan", "(!) nan", "no data", "", "inf", "CachePreferNone", "all", "-", "N/A"]
)
def test_what_is_no_number_is_absent(text: str) -> None:
    assert Numbers().read(text) is None


@pytest.mark.parametrize(
    ("unit", "value"),
    [
        ("ns", 1), ("nsecond", 1), ("us", 1e3), ("usecond", 1e3), ("ms", 1e6), ("msecond", 1e6), ("s", 1e9),
        ("Ghz", 1e9), ("hz", 1), ("cycle/nsecond", 1e9), ("cycle/usecond", 1e6), ("cycle/second", 1),
        ("Kbyte", 1e3), ("Mbyte", 1e6), ("Gbyte/s", 1e9), ("Tbyte/second", 1e12), ("byte/nsecond", 1e9),
        ("Kbyte/block", 1e3), ("%", 1), ("", 1), ("inst/cycle", 1), ("register/thread", 1), ("inst/nsecond", 1e9),
        ("%/Kbyte", 1e-3), ("Kibyte", 1024), ("second", 1e9),
    ],
)  # fmt: skip
def test_units_in_base_units(unit: str, value: float) -> None:
    assert factor(unit) == pytest.approx(value)


def test_memory_throughput_is_two_things() -> None:
    assert named("Memory Throughput", is_rate("Gbyte/second")) == "dram__bytes.sum.per_second"
    assert named("Memory Throughput", is_rate("%")).startswith("gpu__compute_memory_throughput")


@pytest.mark.parametrize("label", ["Memory [%]", "SOL Memory", "Memory Throughput"])
def test_words_of_all_releases_are_one_metric(label: str) -> None:
    assert named(label, False) == "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"


def test_names_of_metrics_stand_for_themselves() -> None:
    name = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed"
    assert named(name, False) == name


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("GPU Speed Of Light", "SpeedOfLight"),
        ("GPU Speed Of Light Throughput", "SpeedOfLight"),
        ("GPU Speed Of Light Roofline Chart (Overview)", "SpeedOfLight_RooflineChart"),
        (
            "GPU Speed Of Light Hierarchical Roofline Chart (Tensor Core)",
            "SpeedOfLight_HierarchicalTensorRooflineChart",
        ),
        ("Command line profiler metrics", ""),
        ("My Own Section", "My Own Section"),
    ],
)
def test_sections_have_identifiers(name: str, identifier: str) -> None:
    assert section(name) == identifier


@pytest.mark.parametrize(
    ("kernel", "function"),
    [
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(T1::Params)", "Kernel2"),
        ("add_kernel(float *, int)", "add_kernel"),
        ("triton_red_fused_add_0", "triton_red_fused_add_0"),
        ("void at::<unnamed>::k<int, void f(g)::[lambda() (instance 1)]::operator ()() const>(T3, T4)", "k"),
        ("void (anonymous namespace)::softmax_warp<float, 9>(float *)", "softmax_warp"),
        ("void unnamed>::fill_kernel<float, 4>(float, Policy)", "fill_kernel"),  # as summaries of 2025 print them
        (
            "void vectorized_kernel<4, unnamed>::scale(It &)::[lambda() (instance 1)], std::array<char *, 2>>(int)",
            "vectorized_kernel",
        ),
        ("void (anonymous namespace)::softmax<(anonymous namespace)::Exp>(float *)", "softmax"),
    ],
)
def test_functions_have_their_own_name(kernel: str, function: str) -> None:
    assert function_of(kernel) == function


def test_dimensions() -> None:
    assert dims("(128, 1, 1)") == dims("128,1,1") == (128, 1, 1)
    assert dims("128") is None


@pytest.mark.parametrize(
    "name", ["breakdown:sm__throughput.avg", "group:smsp__pcsamp", "TPC.TriageCompute.sm__cycles_active.avg"]
)
def test_breakdowns_and_samples_are_not_kept(name: str) -> None:
    assert WANTED.match(name) is None


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("_Z10add_kernelPfi", "add_kernel"),
        (
            "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEEEEviT0_",
            "at::native::vectorized_elementwise_kernel",
        ),
        ("_ZN52_GLOBAL__N__ab12cd34_5_ab_cu_0123456789ab_cdef012345678k_insideEv", "(anonymous namespace)"),
        ("_ZTV4Base", "_ZTV4Base"),
        ("_Zone_kernel(int)", "_Zone_kernel(int)"),
        ("triton_red_fused_0", "triton_red_fused_0"),
    ],
)
def test_mangled_names(mangled: str, name: str) -> None:
    assert demangled(mangled).startswith(name)
