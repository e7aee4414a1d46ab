"""Work of products and convolutions, and the peaks it is held against."""

from __future__ import annotations

import pytest

from necropsy_parsers.trace.model import Device

from necropsy.trace.devices import capability, peaks_of
from necropsy.trace.shapes import work_of

BF16 = "c10::BFloat16"


def test_a_product() -> None:
    work = work_of("aten::addmm", [[7], [3, 5], [5, 7], [], []], [BF16, BF16, BF16, "Scalar", "Scalar"], None)
    assert work is not None
    assert (work.flops, work.bytes) == (2 * 3 * 5 * 7, 2 * (15 + 35 + 21))


def test_a_batch_of_products() -> None:
    work = work_of("aten::bmm", [[4, 3, 5], [4, 5, 7]], ["float", "float"], None)
    assert work is not None
    assert (work.flops, work.kind) == (2 * 4 * 3 * 5 * 7, "float")


def test_a_convolution_and_its_backward() -> None:
    dims = [[2, 3, 16, 16], [8, 3, 3, 3], [], [], [], [], [], [], []]
    values = ["", "", "[1, 1]", "[2, 2]", "[1, 1]", "1", "False", "False", "True"]
    work = work_of("aten::cudnn_convolution", dims, ["float", "float"], values)
    assert work is not None
    assert work.flops == 2 * (2 * 8 * 8 * 8) * (3 * 3 * 3)
    dims = [[2, 8, 8, 8], [2, 3, 16, 16], [8, 3, 3, 3]]
    values = ["", "", "", "[0]", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", "[True, True, False]"]
    back = work_of("aten::convolution_backward", dims, ["float"] * 3, values)
    assert back is not None
    assert back.flops == 2 * work.flops


@pytest.mark.parametrize("values", [None, [], ["", "", "?"]])
def test_untold_arguments_are_no_work(values: list[str] | None) -> None:
    assert work_of("aten::cudnn_convolution", [[2, 3, 16, 16], [8, 3, 3, 3]], ["float", "float"], values) is None
    assert work_of("aten::mm", None, None, None) is None
    assert work_of("aten::mm", [[3, 5], [6, 7]], [BF16, BF16], None) is None


@pytest.mark.parametrize(
    ("name", "gib", "units", "card"),
    [
        ("NVIDIA H200", 140, 132, "H200 SXM"),
        ("NVIDIA H100 80GB HBM3", 79, 132, "H100 SXM"),
        ("NVIDIA H100 PCIe", 79, 114, "H100 PCIe"),
        ("NVIDIA A100-SXM4-40GB", 39, 108, "A100 40GB"),
        ("NVIDIA A100-PG509-200", 39, 108, "A100 40GB"),
        ("NVIDIA A100-SXM4-80GB", 79, 108, "A100 80GB"),
        ("NVIDIA A100 80GB PCIe", 79, 108, "A100 80GB PCIe"),
        ("Tesla V100-SXM2-32GB", 31, 80, "V100 SXM2"),
        ("Tesla T4", 14, 40, "T4"),
        ("NVIDIA B200", 178, 148, "B200"),
        ("NVIDIA GH200 480GB", 94, 132, "GH200 96GB"),
        ("NVIDIA H20", 95, 78, "H20 96GB"),
        ("AMD Instinct MI300X VF", 191, 304, "MI300X"),
        ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", 19, 42, None),
        ("NVIDIA H100 80GB HBM3", 79, 66, None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", 15, 76, None),
        ("NVIDIA A10G", 22, 80, None),
        ("AMD Radeon Graphics", 63, 104, None),
    ],
)
def test_peaks(name: str, gib: int, units: int, card: str | None) -> None:
    peaks = peaks_of(Device(0, name, gib << 30, 9, 0, units, 32))
    assert (peaks.card if peaks else None) == card


def test_the_ridge_of_an_a100_is_about_156_operations_a_byte() -> None:
    peaks = peaks_of(Device(0, "NVIDIA A100-SXM4-80GB", 79 << 30, 8, 0, 108, 32))
    assert peaks is not None
    assert peaks.ridge("half") == pytest.approx(153, abs=1)


def test_amd_has_no_compute_capability() -> None:
    assert capability(Device(0, "AMD Instinct MI300X", 191 << 30, 9, 4, 304, 64)) == (0, 0)
    assert capability(Device(0, "Tesla T4", 14 << 30, 7, 5, 40, 32)) == (7, 5)
