"""One story a kernel, whichever input told it: which verdict wins, what it weighs, and what its words rest on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from necropsy_parsers.ncu.records import Launch, RuleResult
from necropsy_parsers.records import Anchor

from necropsy.api import analyze
from necropsy.config import Config
from necropsy.evidence.ncu_kernels import NcuKernel, NcuKernels
from necropsy.evidence.ncu_rules import NcuRules
from necropsy.finding import Role
from necropsy.ncu import access, advice, figures, pipes, stalls, story
from necropsy.ncu.groups import Group, groups
from necropsy.profiled import bound_by
from necropsy.render import View, text
from necropsy.render.parts import kernels
from necropsy.report import KernelSummary
from necropsy.rule import all_rules, settings_of

FORMATS = Path(__file__).parents[2] / "fixtures" / "formats"
REPORT = "ncu_report/h200/report.ncu-rep.xz"
RAW, DETAILS, TEXT = "ncu_csv/h200/raw.csv.gz", "ncu_csv/h200/details.csv.gz", "ncu_page/h200/details.txt.gz"
PEAK = ".avg.pct_of_peak_sustained_elapsed"


def tables(metrics: dict[str, float], *rules: RuleResult, kernel: str = "k(int)") -> tuple[Group, NcuRules]:
    launch = Launch(
        Anchor("r.csv", 0, 0, 1), 0, kernel, kernel.split("(", 1)[0], process=7,
        metrics={"gpu__time_duration.sum": 1e5} | metrics, rules=rules, block=(128, 1, 1),
    )  # fmt: skip
    kernels, heard = NcuKernels(), NcuRules()
    for table in (kernels, heard):
        table.add(launch)
        table.finish()
    return groups(kernels)[0], heard


def row(metrics: dict[str, float], kernel: str = "k(int)") -> NcuKernel:
    return tables(metrics, kernel=kernel)[0].row


def verdicts(name: str) -> Counter[tuple[str, str, str]]:
    found = analyze([str(FORMATS / name)]).findings
    return Counter((f.rule, f.severity.name, str(f.facts.get("kernel")).split("<")[0]) for f in found)


def test_a_report_and_its_exports_tell_the_same() -> None:
    pytest.importorskip("ncu_report", reason="NVIDIA's reader has no wheel for this machine")
    told = verdicts(REPORT)
    assert told
    assert told == verdicts(TEXT) == verdicts(DETAILS)
    apart = verdicts(RAW)  # of the same launches, and one of a compiled kernel whose tuning no stack tells there
    assert not told - apart
    assert all(kernel.startswith("triton_") for _, _, kernel in apart - told)


def test_text_and_details_tell_the_same() -> None:
    assert verdicts(TEXT)
    assert verdicts(TEXT) == verdicts(DETAILS)


def test_one_finding_a_kernel() -> None:
    found = [f for f in analyze([str(FORMATS / RAW)]).findings if f.rule in story.ORDER]
    assert max(Counter(str(f.facts["kernel"]) + str(f.facts.get("grid")) for f in found).values()) == 1


def test_all_that_can_yield_do() -> None:
    rules = {r.code: r for r in all_rules()}
    assert set(story.ORDER) <= set(rules)
    causes = {"KRN018", "KRN019", "KRN002"}  # judged of other inputs, too: they lead, and yield to none
    assert all(rules[code].general for code in story.ORDER if code not in causes)


def test_a_deeper_cause_claims_the_rest() -> None:
    group, _ = tables({})
    claimed = story.weaker("KRN009", group)
    assert story.event("KRN008", group) in claimed
    assert story.event("KRN009", group) not in claimed
    assert story.event("MEM008", group) not in claimed


def test_estimates_of_one_unit_are_never_the_kernels() -> None:
    group, rules = tables(
        {},
        RuleResult("A", "S", "OPT", "x", "warps wait", 80.0, "local"),
        RuleResult("B", "S", "OPT", "x", "warps wait", 30.0, "global"),
        RuleResult("C", "S", "OPT", "x", "warps wait", 20.0, "global"),
    )
    assert story.estimate(story.said(rules, group, "warps wait")) == pytest.approx(0.3)
    assert story.estimate([r for r in rules.rows if r.rule == "A"]) is None


@pytest.mark.parametrize(("ours", "cost"), [(None, 25_000), (0.1, 10_000), (0.5, 25_000), (0.0, 0)])
def test_a_cost_is_the_lower_of_two_estimates(ours: float | None, cost: int) -> None:
    """Nothing to gain by our own estimate is an estimate, too."""
    group, rules = tables({}, RuleResult("A", "S", "OPT", "x", "warps wait", 25.0, "global"))
    found = story.tell(
        "KRN001", group, "m", story.Weight(), beside=(None, None), gain=ours, heard=rules.of(group.row.seq)
    )
    assert found.cost.ns == cost


def test_what_was_not_collected_is_not_zero() -> None:
    bare = row({})
    assert figures.latency_bound(bare) is None
    assert figures.memory(bare) is None
    assert figures.headroom(bare) is None
    assert figures.theoretical(bare) is None
    assert figures.issue(bare) is None
    assert figures.tensor(bare) is None
    assert stalls.dominant(bare, ()) is None
    assert access.global_waste(bare, ()) is None
    assert access.shared_waste(bare, ()) is None
    assert pipes.busiest(bare, ()) is None
    assert figures.figures(bare) == {}


def test_memory_is_that_of_its_busiest_part() -> None:
    metrics = {f"gpu__compute_memory_throughput{PEAK}": 70.0, f"gpu__dram_throughput{PEAK}": 21.0}
    l1 = "l1tex__throughput.avg.pct_of_peak_sustained_active"
    cycles = {"sm__cycles_active.avg": 950.0, "gpc__cycles_elapsed.max": 1000.0}
    assert figures.limiter(row(metrics | {f"lts__throughput{PEAK}": 69.9, l1: 60.0} | cycles)) == figures.L2
    assert figures.limiter(row(metrics | {f"lts__throughput{PEAK}": 45.0, l1: 73.6} | cycles)) == figures.L1
    small = {"sm__cycles_active.avg": 50.0, "gpc__cycles_elapsed.max": 1000.0}  # 90% of few cycles is little
    assert figures.limiter(row(metrics | {f"lts__throughput{PEAK}": 45.0, l1: 90.0} | small)) == figures.L2


def test_occupancy_by_the_blocks_that_fit() -> None:
    limits = {"blocks": 32.0, "registers": 5.0, "shared_mem": 32.0, "warps": 16.0, "barriers": 32.0}
    metrics = {f"launch__occupancy_limit_{k}": v for k, v in limits.items()} | {
        "smsp__warps_active.avg.peak_sustained": 16
    }
    assert figures.theoretical(row(metrics)) == pytest.approx(5 * 4 / 64 * 100)
    assert figures.occupancy_limiters(row(metrics)) == ["registers"]


@pytest.mark.parametrize(
    ("used", "hit", "lost"),
    [(4.0, 0.0, 0.875), (16.0, 50.0, 0.0), (16.0, 0.0, 0.5), (32.0, 0.0, 0.0), (32.0, 90.0, 0.0), (4.0, 100.0, 0.0)],
)
def test_sectors_that_l1_finds_again_are_not_lost(used: float, hit: float, lost: float) -> None:
    waste = access.global_waste(
        row(
            {
                "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio": used,
                "l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct": hit,
            }
        ),
        (),
    )
    assert waste is not None
    assert waste.excess == pytest.approx(lost)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)", "elementwise"),
        ("void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda()>(int)", "copy"),
        ("void at::native::vectorized_elementwise_kernel<8, at::native::bfloat16_copy_kernel_cuda>(int)", "cast"),
        ("void at::native::vectorized_gather_kernel<16, long>(char *)", "gather"),
        ("void at::native::index_elementwise_kernel<128, 4>(long)", "gather"),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(T3)", "reduction"),
        ("void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, float>(float *)", "reduction"),
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", "product"),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(T1::Params)", "product"),
        ("sm90_xmma_fprop_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc", "convolution"),
        ("void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>(Flash_fwd_params)", "attention"),
        ("void cudnn::ops::nchwToNhwcKernel<float, float>(float *)", "layout"),
        ("triton_poi_fused_add_relu_0", "compiled"),
        ("my_softmax_rows(float *)", "own"),
        ("gather_edges(const int *, float *)", "own"),
        ("vectorized_elementwise_kernel", advice.ELEMENTWISE),  # as --print-kernel-base function prints it
        ("elementwise_kernel", advice.OWN),  # whoever names a kernel so: torch's has a namespace
    ],
)
def test_whose_kernel_it_is(name: str, kind: str) -> None:
    group, _ = tables({}, kernel=name)
    assert advice.kind_of(group.row) == kind


def test_a_shared_pipe_is_no_product() -> None:
    busy = {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": 12.2}
    assert not figures.feeds_tensor_cores(row(busy, "triton_red_fused_mean_0"))
    assert figures.feeds_tensor_cores(row({}, "nvjet_sm90_tst_128x64_64x8_1x2_h_bz_coopA_NNT"))


def test_the_ratio_of_instructions_is_no_verdict() -> None:
    """The article's test calls a BF16 product at 90% of the peak idle on Hopper."""
    product = row(
        {
            "smsp__inst_executed_pipe_tensor.sum": 12.0,
            "smsp__inst_executed.sum": 100.0,
            "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": 90.3,
        },
        "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT",
    )
    assert figures.tensor_instructions(product) == pytest.approx(0.12)
    assert figures.tensor(product) == pytest.approx(90.3)
    assert not figures.could_use_tensor_cores(product)


@pytest.mark.parametrize(
    ("sm", "mem", "name", "bound"),
    [
        (20.0, 30.0, "k(int)", "latency"),
        (90.0, 40.0, "k(int)", "arithmetic"),
        (90.0, 40.0, "nvjet_sm90_tst_128x64_64x8_1x2_h_bz_coopA_NNT", "tensor cores"),
        (20.0, 90.0, "k(int)", "device memory"),
        (70.0, 65.0, "k(int)", "both sides"),
    ],
)
def test_what_a_kernel_is_bound_by(sm: float, mem: float, name: str, bound: str) -> None:
    metrics = {f"sm__throughput{PEAK}": sm, f"gpu__compute_memory_throughput{PEAK}": mem}
    assert bound_by(row(metrics | {f"gpu__dram_throughput{PEAK}": mem}, name)) == bound
    assert bound_by(row({})) == ""


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_of_kernels_fits(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FORMATS)  # a long path of the checkout does not fit anywhere
    report = analyze([TEXT])
    lines = text.render(report, View(width=width)).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("Where ") and "profiled kernels" in line)
    heads, first = lines[start + 1], lines[start + 2]
    assert max(map(len, lines)) <= width
    assert heads.split() == ["time", "share", "bound", "by", "SM", "mem", "occ"]
    assert first.split()[-4:-3] == ["arithmetic"]
    assert all(part.isdigit() for part in first.split()[-3:])
    assert [k.ns for k in report.kernels] == sorted((k.ns for k in report.kernels), reverse=True)
    assert sum(k.share or 0 for k in report.kernels) == pytest.approx(1)


def test_without_speeds_occupancy_is_not_judged() -> None:
    """Low occupancy is no fault of a kernel near its peak: what was not collected is named, and nothing claimed."""
    page = FORMATS.parent / "rules" / "KRN009" / "silent-without-speeds" / "input.log"
    lacks = {n.rule: n.supply for n in analyze([str(page)]).not_evaluated}
    assert {"KRN001", "KRN003", "KRN007", "KRN008", "KRN009", "KRN010", "MEM008", "MEM009"} <= set(lacks)
    assert "--section SpeedOfLight" in lacks["KRN009"]


def test_shared_thresholds_are_told_and_set() -> None:
    rules = {r.code: r for r in all_rules()}
    assert settings_of(rules["KRN003"])["share"] == ("float", 0.01)
    assert settings_of(rules["KRN003"])["bandwidth"] == ("float", 0.7)
    page = str(FORMATS.parent / "rules" / "KRN004" / "fires-old-words" / "input.log")
    strict = Config(rules={"KRN004": {"near": 85.0}})
    assert "KRN004" in {f.rule for f in analyze([page]).findings}
    assert "KRN004" not in {f.rule for f in analyze([page], config=strict).findings}


def test_the_articles_names_are_explained() -> None:
    by_alias = {alias: r.code for r in all_rules() for alias in r.aliases}
    assert by_alias["achieved__memory_throughput"] == "KRN003"
    assert by_alias["sm__inst_executed_pipe_tensor"] == "KRN018"


def test_compiled_kernels_are_tuned_from_python() -> None:
    """Nobody writes `__launch_bounds__` into what torch.compile generates."""
    found = [f for f in analyze([str(FORMATS / RAW)]).findings if f.rule == "KRN009"]
    assert found
    assert all("launch_bounds" not in fix.title for f in found for fix in f.fixes)
    assert any("max-autotune" in fix.command for f in found for fix in f.fixes)


@pytest.mark.parametrize("busy", [91.0, 20.0])
def test_a_single_kernel_has_its_figures_where_no_finding_tells_them(tmp_path: Path, busy: float) -> None:
    path = tmp_path / "page.csv"
    path.write_text(
        '"ID","Process ID","Process Name","Host Name","Kernel Name","Block Size","Grid Size","gpu__time_duration.sum",'
        f'"sm__throughput{PEAK}","gpu__compute_memory_throughput{PEAK}"\n"","","","","","","","us","%","%"\n'
        f'"0","77","python3.12","127.0.0.1","scale(int)","(128, 1, 1)","(8192, 1, 1)","310","9","{busy}"\n'
    )
    page = text.render(analyze(str(path)), View())
    assert ("Where 310 us of profiled kernels went" in page) == (busy > 60)  # else KRN001 tells them in full


def test_kernels_of_one_name_and_place_are_told_by_their_shape() -> None:
    rows = [
        KernelSummary("r", "copy", 3, 900, 0.5, "", None, "", "", {}, grid=(64, 2, 1), block=(32, 4, 1)),
        KernelSummary("r", "copy", 1, 500, 0.3, "", None, "", "", {}, grid=(8, 1, 1), block=(256, 1, 1)),
        KernelSummary("r", "add", 2, 300, 0.2, "", None, "", "", {}, grid=(8, 1, 1), block=(256, 1, 1)),
    ]
    assert [row.kernel + row.times for row in kernels.listed(rows)] == [
        "copy [128 x 128] x3",
        "copy [8 x 256]",
        "add x2",
    ]


def test_a_switch_that_is_off_is_told_once(tmp_path: Path) -> None:
    """Two kernels of two lines do float32 products on ordinary cores: the shorter one follows from the longer."""
    lines = (FORMATS.parent / "rules" / "KRN019" / "fires-ncu-raw" / "input.csv").read_text().splitlines(keepends=True)
    other = lines[2].replace('"0"', '"9"', 1).replace("128x128x8", "256x64x8").replace("1,140.2", "740.2")
    path = tmp_path / "two.csv"
    path.write_text("".join([*lines, other]))
    found = [f for f in analyze([str(path)]).findings if f.rule == "KRN019"]
    assert [("256x64x8" in f.message, f.role) for f in found] == [(False, Role.ROOT), (True, Role.SYMPTOM)]
