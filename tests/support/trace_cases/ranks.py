"""Jobs of several ranks: data parallel, pipelines, nn.DataParallel; and single ranks of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

from tests.support.tracing import LATENCY, TraceBuilder

LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
MAIN = ("pretrain_moe.py(140): <module>", "pretrain_moe.py(96): main")
STEP = "pretrain_moe.py(71): train_step"
GEMM = "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN"
COMPUTE, COMM = 7, 20  # streams
CALL = 5.0  # us of a launch


class Job:
    """Ranks with a builder each, which leave every collective together. `skew`: us by which a clock is ahead."""

    def __init__(self, ranks: int, *, skew: Sequence[float] = (), seq: bool = True) -> None:
        self.skew = [*skew, *[0.0] * ranks][:ranks]
        start = 5_097_944_720_000.0
        self.ranks = [TraceBuilder(rank=r, world=ranks, pid=2100 + r, start=start + self.skew[r]) for r in range(ranks)]
        self.seq = seq
        self.count = 0

    @contextmanager
    def each(self, opened: Callable[[TraceBuilder], AbstractContextManager[None]]) -> Iterator[None]:
        """A context on every rank."""
        with ExitStack() as stack:
            for t in self.ranks:
                stack.enter_context(opened(t))
            yield

    def meet(self, name: str, us: float, *, elements: int = 1 << 24, ends: Sequence[float] = ()) -> None:
        """A collective behind what was submitted so far, over `us` after the last rank has come.

        `ends`: us by which ranks leave it later than the first.
        """
        self.count += 1
        with self.each(lambda t: t.op("record_param_comms")):
            for t in self.ranks:
                t.hold(COMM, max(t.now + CALL + LATENCY, t.idle_at(COMPUTE)))
            over = us + max(t.idle_at(COMM) - s for t, s in zip(self.ranks, self.skew, strict=True))
            more = [*ends, *[0.0] * len(self.ranks)]
            args = {"Seq": self.count} if self.seq else {}
            for t, skew, later in zip(self.ranks, self.skew, more, strict=False):
                length = over + skew + later - t.idle_at(COMM)
                t.collective(name, length, stream=COMM, elements=elements, size=len(self.ranks), **args)

    def join(self) -> None:
        """The compute streams wait for the collectives."""
        for t in self.ranks:
            t.hold(COMPUTE, t.idle_at(COMM))

    def files(self) -> dict[str, TraceBuilder]:
        """The traces by file name."""
        return {f"input.d/rank{n}.json": t for n, t in enumerate(self.ranks)}


def compute(t: TraceBuilder, us: float, parts: int = 2) -> None:
    """Matrix products of that length in all, of sizes that take it on a busy H100 (600 TFLOP/s)."""
    rows = max(128, int(us / parts * 600e6 / (2 * 4096 * 4096)) // 128 * 128)
    for _ in range(parts):
        with t.op("aten::mm", dims=[[rows, 4096], [4096, 4096]]):
            t.launch(GEMM, us=us / parts)


def data_parallel(
    job: Job, before: Callable[[TraceBuilder, int, int], None] = lambda t, rank, n: None, *, us: float = 1500,
    hidden: float = 3000, overlap: bool = True, steps: int = 5, forward: float = 4000,
    after: Callable[[Job], None] = lambda job: None,
) -> dict[str, TraceBuilder]:  # fmt: skip
    """DDP: forward, backward with two all-reduces beside it, an optimizer; the host waits at the end of each step."""
    with job.each(lambda t: t.frame(*MAIN)):
        for n in range(steps):
            with job.each(lambda t, n=n: t.step(n)):  # type: ignore[misc]
                with job.each(lambda t: t.frame(STEP)):
                    for rank, t in enumerate(job.ranks):
                        before(t, rank, n)
                        with t.frame("pretrain_moe.py(40): forward"):
                            compute(t, forward)
                    for _ in range(2):
                        if not overlap:
                            job.join()
                        for t in job.ranks:
                            compute(t, hidden / 2, 1)
                    for k in range(2):
                        job.meet("allreduce", us, elements=(1 << 24) + k)
                        for t in job.ranks:
                            if overlap:
                                compute(t, hidden)
                    job.join()
                    for t in job.ranks:
                        with t.annotation("Optimizer.step#AdamW.step"), t.op("aten::_fused_adamw_"):
                            t.launch("multi_tensor_apply_kernel", us=400)
                    after(job)
                for t in job.ranks:
                    with t.op("aten::item"):
                        t.wait()
    return job.files()


# -- late ranks ---------------------------------------------------------------


def logs_alone(t: TraceBuilder, rank: int, n: int) -> None:
    """Rank 2 writes samples before each step."""
    if rank == 2:
        with t.frame("pretrain_moe.py(55): write_samples", "<built-in method write of _io.TextIOWrapper>"):
            t.host(6000)


def computes_more(t: TraceBuilder, rank: int, n: int) -> None:
    """Rank 1 evaluates something on its device before each step."""
    if rank == 1:
        with t.frame("pretrain_moe.py(31): probe_experts"):
            compute(t, 7000)


def loads_slowly(t: TraceBuilder, rank: int, n: int) -> None:
    """All ranks load; rank 1 waits for its batches."""
    with t.frame("pretrain_moe.py(84): batches"), t.annotation(LOADER):
        t.host(8000 if rank == 1 else 150)


def by_turns(t: TraceBuilder, rank: int, n: int) -> None:
    """In each step another rank is slower."""
    if rank == n % 2:
        with t.frame("pretrain_moe.py(55): write_samples"):
            t.host(3000)


def once(t: TraceBuilder, rank: int, n: int) -> None:
    """Rank 1 compiles in the first step."""
    if rank == 1 and n == 0:
        with t.frame("torch/_dynamo/convert_frame.py(1100): _compile"):
            t.host(20_000)


def another_recording() -> dict[str, TraceBuilder]:
    """Traces of two ranks of the same steps, one recorded a minute after the other."""
    return data_parallel(Job(2, skew=(0.0, 60e6)), computes_more)


CASES: dict[str, Callable[[], TraceBuilder | dict[str, TraceBuilder]]] = {
    "DST007/fires-writes-samples": lambda: data_parallel(Job(4), logs_alone, steps=4),
    "DST007/fires-computes-more-clocks-differ": lambda: data_parallel(
        Job(2, skew=(0.0, 41_000.0), seq=False), computes_more
    ),
    "DST007/fires-slow-loader": lambda: data_parallel(Job(2), loads_slowly),
    "DST007/silent-balanced": lambda: data_parallel(Job(2)),
    "DST007/silent-by-turns": lambda: data_parallel(Job(2), by_turns, steps=6),
    "DST007/silent-first-step-compiles": lambda: data_parallel(Job(2), once),
    "DST007/silent-not-recorded-together": another_recording,
}  # fmt: skip
