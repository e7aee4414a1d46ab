"""How fast verbose build logs of TensorRT are analyzed: megabytes a second of processor time, and peak memory.

    python -m tests.benchmarks.tensorrt_log_throughput [--sizes 20 100] [--base build.log ...] [--folder DIR]

All rules are on. `made` is a log in the proportions of a real one (TensorRT 8.6, a convolutional network in fp16 and
int8): tactics with long kernel names, three times as many reformats as layers, then the list of layers. Names, times
and numbers of tactics differ. `--base` adds real verbose logs, plain or .gz, in three forms: `one build`, whose timing
is repeated (where it has any), `builds`, the whole log again and again, and `ranks`, the same by four ranks at once, a
few lines of each in turn behind `[rank3]: `; each time with other layers, formats and times, so that nothing profits
from lines seen before. The floor is counting line feeds with `bytes.count` in the same run; `each further MB`
is the speed without what the smallest log of the kind cost (start-up, imports, patterns).
"""

from __future__ import annotations

import argparse
import gzip
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tests.benchmarks.measured import measured
from tests.benchmarks.text_throughput import ANALYZE, FLOOR

HEAD: Final = "[01/31/2026-12:{:02d}:{:02d}] [V] [TRT] "
START: Final = """&&&& RUNNING TensorRT.trtexec [TensorRT v8601] # trtexec --onnx=net.onnx --int8 --fp16 --verbose
[01/31/2026-12:00:00] [I] Precision: FP32+FP16+INT8
[01/31/2026-12:00:00] [I] TensorRT version: 8.6.1
[01/31/2026-12:00:01] [I] [TRT] Input filename:   net.onnx
"""
END: Final = "[01/31/2026-12:59:59] [I] Engine built in 3541.2 sec.\n"
TYPES: Final = ("Float", "Half", "Int8")
ELEMENTS: Final = {"Float": "f32", "Half": "f16", "Int8": "i8"}
KERNEL: Final = (
    "sm80_xmma_fprop_implicit_gemm_{a}{a}_{a}{a}_{a}_nhwckrsc_nhwc_tilesize{m}x{n}x32_stage{s}_warpsize2x2x1_g1"
    "_tensor16x8x16"
)


def layer_block(n: int) -> list[str]:
    """A layer timed in one combination of formats, and the reformats between that and others."""
    name = f"/stages/stages.{n % 7}/blocks.{n}/conv{n % 3}/Conv + /stages/stages.{n % 7}/blocks.{n}/act/Relu"
    kind = TYPES[n % 3]
    strides = f"({802816 + n},1:8,{896 + n % 64},8)"
    lines = [f"*************** Autotuning format combination: {kind}{strides} -> {kind}{strides} ***************"]
    lines.append(f"--------------- Timing Runner: {name} (CaskConvolution[0x80000009])")
    best = 0.0
    for k in range(6 + n % 19):
        kernel = KERNEL.format(a=ELEMENTS[kind], m=64 << k % 3, n=32 << k % 4, s=k % 6)
        time = 0.02 + (n * 7919 + k * 104729) % 9973 / 1e4
        best = min(best or time, time)
        lines.append(f"Tactic Name: {kernel} Tactic: 0x{n * 31 + k:016x} Time: {time:.7g}")
    done = "profiling completed in 0.04 seconds. Fastest Tactic:"
    lines.append(f"{name} (CaskConvolution[0x80000009]) {done} 0x{n * 31:016x} Time: {best:.7g}")
    lines.append(f"--------------- Timing Runner: {name} (CaskFlattenConvolution[0x80000036])")
    lines.append("CaskFlattenConvolution has no valid tactics for this config, skipping")
    lines.append(f">>>>>>>>>>>>>>> Chose Runner Type: CaskConvolution Tactic: 0x{n * 31:016x}")
    lines.append("=============== Computing reformatting costs: ")
    runner = f"Optimizer Reformat(/blocks.{n}/act/Relu_output_0 -> <out>) (Reformat[0x80000006])"
    for k in range(3):
        target = f"{TYPES[k]}({n + k},1:4,{n % 99},4)"
        lines.append(f"*************** Autotuning Reformat: {kind}{strides} -> {target} ***************")
        lines.append(f"--------------- Timing Runner: {runner}")
        lines += [f"Tactic: 0x{t:016x} Time: {0.005 + (n + t) % 97 / 1e4:.6g}" for t in (1000, 1002, 0)]
        lines.append(f"{runner} {done} 0x00000000000003e8 Time: {0.005 + n % 97 / 1e4:.6g}")
    return lines


def blocks() -> Iterator[str]:
    """Pieces of a log."""
    n = 0
    while True:
        head = HEAD.format(n // 600 % 60, n // 10 % 60)
        yield "".join(f"{head}{line}\n" for line in layer_block(n))
        n += 1


def layers(count: int) -> str:
    """The list at the end."""
    tensor = "(Half[8,64:8,56,56])"
    rows = [
        f"Layer(CaskConvolution): /b.{n}/Conv, Tactic: 0x{n:016x}, t{n} {tensor} -> t{n + 1} {tensor}"
        for n in range(count)
    ]
    return HEAD.format(59, 58) + "Engine Layer Information:\n" + "\n".join(rows) + "\n"


def made(size: int) -> Iterator[bytes]:
    """A log of about `size` bytes."""
    source = blocks()
    yield START.encode()
    written = 0
    while written < size:
        piece = "".join(next(source) for _ in range(200)).encode()
        written += len(piece)
        yield piece
    yield (layers(400) + END).encode()


FEW: Final = 100  # runners timed in a log that has a timing to repeat; TensorRT for RTX times one, ahead of time
_TIMING: Final = re.compile(rb"Timing Runner: |Autotuning ")
_CHANGED: Final = re.compile(rb"/(?=[A-Za-z])|(?<=[Tt]ime: 0\.)\d|(?<=[(,:])\d{2,}(?=[,:)])|(?<=[a-z]_)\d+(?=[ \[])")


def other(text: bytes, turn: int) -> bytes:
    """Text of a real log with other names of layers, times and formats."""

    def changed(m: re.Match[bytes]) -> bytes:
        found = m[0]
        if found == b"/":
            return b"/t%d_" % turn
        return b"%d" % (int(found) + turn) if len(found) > 1 else b"%d" % ((int(found) + turn) % 10)

    return _CHANGED.sub(changed, text)


def read(base: Path) -> bytes:
    """A real log."""
    return gzip.decompress(base.read_bytes()) if base.suffix == ".gz" else base.read_bytes()


def woven(base: Path, ranks: int = 4) -> Callable[[int], Iterator[bytes]]:
    """A real log of any size, as ranks write it that build at the same time: runs of one to six lines."""
    text = read(base)

    def pieces(size: int) -> Iterator[bytes]:
        written = turn = 0
        while written < size:
            left = [other(text, turn + rank).splitlines(keepends=True)[::-1] for rank in range(ranks)]
            turn += ranks
            piece, n = [], 0
            while any(left):
                n += 1
                rank = n * 7919 % 99991 % ranks
                for _ in range(min(1 + n * 104729 % 99991 % 6, len(left[rank]))):
                    piece.append(b"[rank%d]: " % rank + left[rank].pop())
            written += sum(map(len, piece))
            yield b"".join(piece)

    return pieces


def repeated(base: Path, *, builds: bool) -> Callable[[int], Iterator[bytes]]:
    """A real log of any size: its timing repeated, or all of it."""
    text = read(base)
    places = [m.start() for m in _TIMING.finditer(text)]
    begin = text.rfind(b"\n", 0, places[0]) + 1 if places and not builds else 0
    end = text.rfind(b"\n", 0, places[-1]) + 1 if places and not builds else len(text)

    def pieces(size: int) -> Iterator[bytes]:
        yield text[:begin]
        written = turn = 0
        while written < size:
            piece = other(text[begin:end], turn)
            written += len(piece)
            turn += 1
            yield piece
        yield text[end:]

    return pieces


def write(path: Path, pieces: Iterator[bytes]) -> int:
    """Write a log; returns its size in bytes."""
    with path.open("wb") as file:
        return sum(map(file.write, pieces))


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[20, 100], help="megabytes (10^6)")
    parser.add_argument("--base", type=Path, nargs="*", default=[], help="real verbose logs to repeat")
    parser.add_argument("--folder", type=Path, help="where the logs are made (default: the system's temporary folder)")
    options = parser.parse_args()
    kinds: dict[str, Callable[[int], Iterator[bytes]]] = {"made": made}
    for base in options.base:
        name = base.name.partition(".")[0]
        if read(base).count(b"Timing Runner: ") > FEW:
            kinds[f"{name}, one build"] = repeated(base, builds=False)
        kinds[f"{name}, builds"] = repeated(base, builds=True)
        kinds[f"{name}, ranks"] = woven(base)
    print(f"{'log':32s}   MB  floor MB/s  analyze MB/s  of floor  each further MB  peak MB  findings")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "build.log"
        for kind, pieces in kinds.items():
            first = (0.0, 0.0)
            for size in options.sizes:
                megabytes = write(path, pieces(size * 10**6)) / 10**6
                floor = megabytes / measured(FLOOR, str(path)).cpu
                run = measured(ANALYZE, str(path), cwd=Path(folder))
                speed = megabytes / run.cpu
                further = f"{(megabytes - first[0]) / (run.cpu - first[1]):.0f} MB/s" if first[0] else ""
                first = first if first[0] else (megabytes, run.cpu)
                found = run.result[0] if isinstance(run.result, list) else "?"
                row = f"{kind:32s} {megabytes:4.0f} {floor:11.0f} {speed:13.0f} {speed / floor:9.1%} {further:>16}"
                print(f"{row} {run.peak / 1e6:8.0f} {found:>9}")


if __name__ == "__main__":
    main()
