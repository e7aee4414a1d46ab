"""Peaks of GPUs by name: dense tensor throughput and memory bandwidth, for traces and Nsight Compute reports alike.

A device that is not here, or whose number of units is not that of the whole card (MIG, a
partition), has no peaks, and rules that need them say nothing. What a report itself says of its
device (`necropsy.ncu.roofline`) is better than this table, which knows no clocks.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct


class Peaks(Struct, frozen=True):
    """TFLOPS (TOPS for int8) without sparsity, GB/s of memory; 0 where the hardware has no such unit.

    `units` are the SMs or CUs of the whole card.
    """

    card: str
    units: tuple[int, ...]
    half: float  # FP16 on tensor cores, FP32 accumulation
    bfloat16: float
    tf32: float
    single: float  # FP32 outside tensor cores
    fp8: float
    int8: float
    bandwidth: float

    def flops(self, kind: str) -> float:
        """FLOP/s of a kind of `shapes.KINDS`; 0 for none."""
        return 1e12 * {
            "half": self.half, "bfloat16": self.bfloat16, "tf32": self.tf32, "float": self.single, "float8": self.fp8,
            "int8": self.int8,
        }.get(kind, 0.0)  # fmt: skip

    def ridge(self, kind: str) -> float:
        """FLOP per byte from which the arithmetic, not the memory, is the limit."""
        return self.flops(kind) / (1e9 * self.bandwidth)


# Pattern of the name -> (least memory in GiB that it needs, peaks). The first that fits counts. Vendors print
# NVIDIA's tensor figures since Ampere with sparsity: these are half of them.
_ROWS: Final[tuple[tuple[str, int, Peaks], ...]] = (
    # NVIDIA Tesla V100 datasheet (SXM2: 125 TFLOPS, PCIe: 112); 900 GB/s; V100S: 130 and 1134.
    (r"V100S", 0, Peaks("V100S PCIe", (80,), 130, 0, 0, 16.4, 0, 0, 1134)),
    (r"V100-SXM|V100-DGXS", 0, Peaks("V100 SXM2", (80,), 125, 0, 0, 15.7, 0, 0, 900)),
    (r"V100", 0, Peaks("V100 PCIe", (80,), 112, 0, 0, 14, 0, 0, 900)),
    # NVIDIA T4 datasheet: 65 TFLOPS mixed precision, 130 TOPS INT8, 320 GB/s.
    (r"\bT4\b", 0, Peaks("T4", (40,), 65, 0, 0, 8.1, 0, 130, 320)),
    # NVIDIA A100 datasheet: 312 and 156 TFLOPS; 1,555 GB/s (40 GB), 1,935 (80 GB PCIe), 2,039 (80 GB SXM).
    (r"A[18]00.*PCI", 60, Peaks("A100 80GB PCIe", (108,), 312, 312, 156, 19.5, 0, 624, 1935)),
    (r"A[18]00", 60, Peaks("A100 80GB", (108,), 312, 312, 156, 19.5, 0, 624, 2039)),
    (r"A100", 0, Peaks("A100 40GB", (108,), 312, 312, 156, 19.5, 0, 624, 1555)),
    # NVIDIA A10 datasheet: 125 TFLOPS, 62.5 TF32, 600 GB/s. (A10G is another card, of which no datasheet tells.)
    (r"\bA10\b", 0, Peaks("A10", (72,), 125, 125, 62.5, 31.2, 0, 250, 600)),
    # NVIDIA A30 datasheet: 165 TFLOPS, 82 TF32, 10.3 FP32, 933 GB/s.
    (r"\bA30\b", 0, Peaks("A30", (56,), 165, 165, 82, 10.3, 0, 330, 933)),
    # NVIDIA L4 datasheet (with sparsity 242, 120, 485): 300 GB/s.
    (r"\bL4\b", 0, Peaks("L4", (58, 60), 121, 121, 60, 30.3, 242.5, 242.5, 300)),
    # NVIDIA L40S datasheet: 362 (733 with sparsity), 183 TF32, 733 FP8, 864 GB/s.
    (r"L40S", 0, Peaks("L40S", (142,), 362, 362, 183, 91.6, 733, 733, 864)),
    # NVIDIA H200, GH200 and H20 before H100's wider pattern. GH200 Grace Hopper datasheet: 4 TB/s (96 GB HBM3),
    # 4.9 TB/s (144 GB HBM3e). H200 datasheet: as H100 SXM, 4.8 TB/s; NVL: 1,671 BF16 with sparsity, 4.8 TB/s.
    (r"GH200", 120, Peaks("GH200 144GB", (132,), 989, 989, 494, 67, 1979, 1979, 4900)),
    (r"GH200", 0, Peaks("GH200 96GB", (132,), 989, 989, 494, 67, 1979, 1979, 4000)),
    (r"H200 NVL", 0, Peaks("H200 NVL", (132,), 835.5, 835.5, 417.5, 60, 1670.5, 1670.5, 4800)),
    (r"H200", 0, Peaks("H200 SXM", (132,), 989, 989, 494, 67, 1979, 1979, 4800)),
    # H20: 148 TFLOPS BF16, 296 FP8, 4.0 TB/s (96 GB) and 4.8 TB/s (141 GB), as its vendors list it.
    (r"H20\b", 120, Peaks("H20 141GB", (78,), 148, 148, 74, 44, 296, 296, 4800)),
    (r"H20\b", 0, Peaks("H20 96GB", (78,), 148, 148, 74, 44, 296, 296, 4000)),
    # NVIDIA H100 datasheet (with sparsity: SXM 1,979, NVL 1,671, PCIe 1,513); 3.35, 3.9, 2.0 TB/s.
    (r"H100 NVL", 0, Peaks("H100 NVL", (132,), 835.5, 835.5, 417.5, 60, 1670.5, 1670.5, 3900)),
    (r"H[18]00 PCIe", 0, Peaks("H100 PCIe", (114,), 756.5, 756.5, 378, 51, 1513, 1513, 2000)),
    (r"H[18]00", 0, Peaks("H100 SXM", (132,), 989, 989, 494, 67, 1979, 1979, 3350)),
    # NVIDIA DGX B200 and GB200 NVL72 datasheets, for one GPU, without sparsity: 2.25 and 2.5 PFLOPS BF16, 8 TB/s.
    (r"GB200", 0, Peaks("GB200", (148, 152), 2500, 2500, 1250, 80, 5000, 5000, 8000)),
    (r"B200", 0, Peaks("B200", (148,), 2250, 2250, 1125, 80, 4500, 4500, 8000)),
    (r"B100", 0, Peaks("B100", (148,), 1750, 1750, 875, 60, 3500, 3500, 8000)),
    # NVIDIA GA102, AD102 and RTX Blackwell architecture whitepapers, appendices: FP16 with FP32 accumulation.
    (r"RTX 3090 Ti(?! (?:D|Laptop))", 0, Peaks("RTX 3090 Ti", (84,), 80, 80, 40, 40, 0, 320, 1008)),
    (r"RTX 3090(?! (?:Ti|Laptop))", 0, Peaks("RTX 3090", (82,), 71, 71, 35.6, 35.6, 0, 284, 936)),
    (r"RTX 4090(?! (?:D|Laptop))", 0, Peaks("RTX 4090", (128,), 165.2, 165.2, 82.6, 82.6, 330.3, 660.6, 1008)),
    (r"RTX 5090(?! (?:D|Laptop))", 0, Peaks("RTX 5090", (170,), 209.5, 209.5, 104.8, 104.8, 419, 838, 1792)),
    # RTX 40 and 50: NVIDIA Ada and RTX Blackwell architecture whitepapers; RTX 30: NVIDIA Ampere GA102 whitepaper.
    # Their laptop, SUPER and Ti cards are others, and known only where a row names them.
    (r"RTX 3080(?! (?:Ti|SUPER|Laptop))", 0, Peaks("RTX 3080", (68,), 59.5, 59.5, 29.8, 29.8, 0, 238, 760)),
    (r"RTX 3070(?! (?:Ti|SUPER|Laptop))", 0, Peaks("RTX 3070", (46,), 40.6, 40.6, 20.3, 20.3, 0, 162.6, 448)),
    (r"RTX 4080(?! (?:SUPER|Laptop))", 0, Peaks("RTX 4080", (76,), 97.5, 97.5, 48.7, 48.7, 194.9, 389.9, 716.8)),
    (r"RTX 4070 Ti(?! (?:SUPER|Laptop))", 0, Peaks("RTX 4070 Ti", (60,), 80.2, 80.2, 40.1, 40.1, 160.4, 320.7, 504.2)),
    (r"RTX 5080(?! Laptop)", 0, Peaks("RTX 5080", (84,), 112.6, 112.6, 56.3, 56.3, 225.1, 450.2, 960)),
    (r"RTX 5070 Ti(?! Laptop)", 0, Peaks("RTX 5070 Ti", (70,), 87.9, 87.9, 43.9, 43.9, 175.8, 351.5, 896)),
    (r"RTX 5070(?! (?:Ti|Laptop))", 0, Peaks("RTX 5070", (48,), 61.7, 61.7, 30.9, 30.9, 123.5, 246.9, 672)),
    (r"RTX A6000", 0, Peaks("RTX A6000", (84,), 154.8, 154.8, 77.4, 38.7, 0, 309.7, 768)),
    (r"RTX 6000 Ada", 0, Peaks("RTX 6000 Ada", (142,), 364.2, 364.2, 182.1, 91.1, 728.5, 728.5, 960)),
    # AMD Instinct data sheets; of MI250 and MI250X torch sees each half as a device. FP32 is the vector units'.
    (r"MI210", 0, Peaks("MI210", (104,), 181, 181, 0, 22.6, 0, 181, 1638)),
    (r"MI250X", 0, Peaks("MI250X (one of two dies)", (110,), 191.5, 191.5, 0, 23.9, 0, 191.5, 1638)),
    (r"MI250", 0, Peaks("MI250 (one of two dies)", (104,), 181, 181, 0, 22.6, 0, 181, 1638)),
    (r"MI300A", 0, Peaks("MI300A", (228,), 980.6, 980.6, 490.3, 122.6, 1961.2, 1961.2, 5300)),
    (r"MI300X", 0, Peaks("MI300X", (304,), 1307.4, 1307.4, 653.7, 163.4, 2614.9, 2614.9, 5300)),
    (r"MI325X", 0, Peaks("MI325X", (304,), 1307.4, 1307.4, 653.7, 163.4, 2614.9, 2614.9, 6000)),
    (r"MI355X", 0, Peaks("MI355X", (256,), 2516.6, 2516.6, 0, 157.3, 5033.2, 5033.2, 8000)),
    (r"MI350X", 0, Peaks("MI350X", (256,), 2306.9, 2306.9, 0, 144.2, 4613.7, 4613.7, 8000)),
)
_PEAKS: Final = tuple((re.compile(pattern), memory, peaks) for pattern, memory, peaks in _ROWS)


def peaks_named(name: str, *, memory: int | None = None, units: int | None = None) -> Peaks | None:
    """The peaks of the GPU that the driver calls `name`, or None for one that is not known for sure.

    `memory` (bytes) and `units` tell cards of one name apart; None where nothing tells them.
    """
    if not name or "MIG" in name:
        return None
    for pattern, least, peaks in _PEAKS:
        if pattern.search(name) and (memory is None or memory >= least << 30):
            return peaks if not units or units in peaks.units else None
    return None
