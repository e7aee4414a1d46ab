"""Kernels of a trace laid over the calls of generated code: products by their place, replays, runs that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

import necropsy
from necropsy.evidence.inductor_kernels import InductorKernels
from necropsy.evidence.traces import Traces
from necropsy.finding import Finding, Severity
from necropsy.provenance.resolvers.generated import with_generated
from necropsy.trace.claim import about
from necropsy.trace.generated import Generated, by_line
from necropsy.trace.profile import Profile

RUN: Final = Path(__file__).parents[2] / "fixtures" / "rules" / "KRN024" / "fires-attention-in-bf16" / "input.d"


@pytest.fixture(scope="module")
def run() -> tuple[Profile, InductorKernels]:
    evidence = necropsy.load(str(RUN))
    return evidence.get(Traces).profiles[0], evidence.get(InductorKernels)


def named(p: Profile, row: int) -> str:
    return p.trace.names[int(p.rank.kernels["name"][row])]


def test_every_kernel_of_compiled_regions_has_its_calls(run: tuple[Profile, InductorKernels]) -> None:
    p, table = run
    known = Generated(p, table)
    untold = {named(p, row) for row in range(len(p.rank.kernels)) if row not in known.calls}
    assert not any(name.startswith(("triton_", "nvjet_", "void cutlass", "void cudnn")) for name in untold)
    assert len(known.calls) == 483


def test_a_product_is_the_call_between_its_neighbours(run: tuple[Profile, InductorKernels]) -> None:
    p, table = run
    known = Generated(p, table)
    products = [r for r in known.calls if named(p, r).startswith("nvjet")]
    assert len(products) > 80
    assert {len(known.calls[r]) for r in products} == {1}
    assert {len(known.lines(r)[0]) for r in products} == {1}
    # The bias that cuBLASLt adds is the forward pass's addmm; its lines are those of nn.Linear.
    biased = {line for r in products if "_bias_" in named(p, r) for _, line in known.lines(r)[0]}
    assert biased == {16, 20, 32, 34}


def test_shares_add_up_to_what_is_known(run: tuple[Profile, InductorKernels]) -> None:
    told = by_line(*run)
    assert sum(s.ns for s in told.shares) == pytest.approx(told.known)
    assert told.known == told.compiled
    assert 0.9 < told.compiled / told.total < 1


def test_a_run_that_does_not_fit_tells_names_only(run: tuple[Profile, InductorKernels]) -> None:
    p, table = run
    shorter = [r for r in table if r.call != 0]
    known = Generated(p, shorter)
    backward = [r for r in known.calls if named(p, r) == "triton_per_fused_sum_5"]
    assert backward
    assert not any(named(p, r).startswith("nvjet") for r in known.calls)


def test_replays_of_cuda_graphs_are_told_by_line(shared: Path) -> None:
    captures = shared / "captures"
    for log in ("torch_trace/lm.log.gz", "torch_logs/lm_compile.log.gz"):
        evidence = necropsy.load([str(captures / log), str(captures / "profiler" / "lm_compile.json.gz")])
        p = evidence.get(Traces).profiles[0]
        told = by_line(p, evidence.get(InductorKernels))
        assert p.graphs
        assert told.known > 0.6 * told.compiled
        assert told.shares[0].frame.line == 53  # the product with the vocabulary
        assert {s.frame.line for s in told.shares} == {19, 20, 21, 22, 23, 24, 35, 36, 50, 53}


def test_places_of_compiled_kernels_become_lines(run: tuple[Profile, InductorKernels]) -> None:
    p, table = run
    names = p.rank.kernels["name"]

    def found(name: str) -> Finding:
        sites = p.work_sites(p.rank.kernels, names == p.trace.names.index(name))
        said = about(p, "Some kernel is slow.", Severity.NOTE, shows=name, places=[s.place for s in sites])
        return with_generated([said], table)[0]

    one = found("nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_bias_TNT")
    assert [(c.line, c.exactness) for c in one.code] == [(16, "line")]
    fused = found("triton_per_fused__softmax__to_copy_amax_mul_sub_view_11")
    assert [(c.line, c.exactness) for c in fused.code] == [(18, "statement"), (19, "statement"), (17, "statement")]
    eager = found(next(n for n in p.trace.names if "nll_loss_forward_reduce" in n))
    assert all(c.exactness == "function" for c in eager.code)


def test_the_line_that_called_a_compiled_region_gives_way(run: tuple[Profile, InductorKernels]) -> None:
    """A capture's marks tell the call; the generated code tells what each kernel computes."""
    p, table = run
    site = p.work_sites(p.rank.kernels, p.rank.where(p.rank.kernels, "triton_per_fused_sum_5"))[0]
    assert site.place is not None
    call = replace(site.place, line=3, function="", exactness="line", how="marked while it ran")
    (found,) = with_generated([about(p, "slow", Severity.NOTE, shows="x", places=[call])], table)
    (plain,) = with_generated([about(p, "slow", Severity.NOTE, shows="x", places=[site.place])], table)
    assert found.code == plain.code
    assert found.code[0].line != 3
