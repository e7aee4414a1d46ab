"""Tables of what Inductor says: autotuning, fallbacks, hints and CUDA graphs, from text as torch prints it."""

from __future__ import annotations

from pathlib import Path

import pytest

import necropsy

TABLE = """\
W0306 13:10:15.990000 1719 torch/_inductor/select_algorithm.py:1697] [2/0] out of resource: shared memory, Required: \
131072, Hardware limit: 101376. Reducing block sizes or `num_stages` may help.
AUTOTUNE addmm(4096, 4096x1024, 1024x4096)
strides: [0, 1], [1024, 1], [1, 1024]
dtypes: torch.bfloat16, torch.bfloat16, torch.bfloat16
  triton_mm_17 0.1034 ms 100.0% ACC_TYPE='tl.float32', ALLOW_TF32=False, num_stages=4, num_warps=8
  bias_addmm 0.1101 ms 93.9%\x20
  addmm 0.1240 ms 83.4%\x20
  triton_mm_3 inf ms 0.0% ACC_TYPE='tl.float32', ALLOW_TF32=False, num_stages=5, num_warps=8
SingleProcess AUTOTUNE benchmarking takes 0.8123 seconds and 2.1034 seconds precompiling for 21 choices
AUTOTUNE mm(64x32, 32x16)
  mm 0.0100 ms 100.0%
  triton_mm_1 0.0120 ms 83.3%
SubProcess AUTOTUNE takes 1.5000 seconds
"""


def frame(tmp_path: Path, text: str, table: str) -> list[dict[str, object]]:
    log = tmp_path / "run.log"
    log.write_text(text, encoding="utf-8")
    rows: list[dict[str, object]] = getattr(necropsy.load(str(log)), table).to_dict("records")
    return rows


def test_a_row_a_table_of_timings(tmp_path: Path) -> None:
    new, old = frame(tmp_path, TABLE, "autotune")
    assert (new["op"], new["shapes"]) == ("addmm", ("4096", "4096x1024", "1024x4096"))
    assert (new["winner"], new["ms"], new["outside"], new["outside_ms"]) == (
        "triton_mm_17",
        0.1034,
        "bias_addmm",
        0.1101,
    )
    assert (new["choices"], new["rejected"], new["seconds"], new["precompiling"]) == (21, 1, 0.8123, 2.1034)
    assert (old["winner"], old["outside"], old["rejected"], old["seconds"]) == ("mm", "mm", 0, 1.5)


@pytest.mark.parametrize("rank", ["", "[rank0]: ", "[rank0]:"])
def test_a_table_behind_a_prefix(tmp_path: Path, rank: str) -> None:
    text = "".join(rank + line + "\n" for line in TABLE.splitlines())
    assert [r["winner"] for r in frame(tmp_path, text, "autotune")] == ["triton_mm_17", "mm"]


def test_an_operator_is_one_row_with_all_who_name_it(tmp_path: Path) -> None:
    lines = [
        f"[rank{r}]:I0612 09:14:02.12{r}000 41{r} torch/_inductor/graph.py:1002] [{c}/0] [__perf_hints] "
        "Using FallbackKernel: torch.ops.detkit.nms.default\n"
        for r in (0, 1)
        for c in (0, 1)
    ]
    (row,) = frame(tmp_path, "".join(lines), "fallbacks")
    assert (row["op"], row["count"], row["ranks"], row["compile_ids"]) == ("detkit.nms", 4, (0, 1), ("0/0", "1/0"))


def test_ten_thousand_hints_are_one_row(tmp_path: Path) -> None:
    head = "I1129 12:20:53.528000 502 torch/_inductor/codegen/simd.py:3150] [0/0] [__perf_hints] "
    lines = [f"{head}possibly bad tiling: [{{'x': {n}}}, {{'y': {n + 1}}}]\n" for n in range(500)]
    (row,) = frame(tmp_path, "".join(lines), "perf_hints")
    assert (row["kind"], row["count"]) == ("tiling", 500)


def test_the_stack_behind_a_node_left_out_belongs_to_it(tmp_path: Path) -> None:
    head = "V0301 08:00:12.002000 77 torch/_inductor/scheduler.py:{}] [0/0] [__cudagraphs] "
    text = (
        head.format(9194) + "    op12: reason=DeviceCopy ops, ir=DeviceCopy, fx=prims.device_put.default(add_3)\n"
        + head.format(9201) + '         File "/home/trainer/projects/rl/agent.py", line 90, in act\n'
        + head.format(9201) + "             return out.cpu()\n"
    )  # fmt: skip
    (row,) = frame(tmp_path, text, "cudagraph_skips")
    assert (row["kind"], row["name"], row["partial"]) == ("node", "prims.device_put.default", True)
    assert [(f.file, f.line) for f in row["frames"]] == [("/home/trainer/projects/rl/agent.py", 90)]  # type: ignore[attr-defined]
