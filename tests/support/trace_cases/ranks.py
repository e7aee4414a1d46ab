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
        self.scatter: tuple[Sequence[float], ...] = ((),)

    @contextmanager
    def each(self, opened: Callable[[TraceBuilder], AbstractContextManager[None]]) -> Iterator[None]:
        """A context on every rank."""
        with ExitStack() as stack:
            for t in self.ranks:
                stack.enter_context(opened(t))
            yield

    def meet(self, name: str, us: float, *, elements: int = 1 << 24) -> None:
        """A collective behind what was submitted so far, over `us` after the last rank has come.

        `scatter` holds, by turns, by how many us ranks leave it later than the first.
        """
        self.count += 1
        with self.each(lambda t: t.op("record_param_comms")):
            for t in self.ranks:
                t.hold(COMM, max(t.now + CALL + LATENCY, t.idle_at(COMPUTE)))
            over = us + max(t.idle_at(COMM) - s for t, s in zip(self.ranks, self.skew, strict=True))
            more = [*self.scatter[self.count % len(self.scatter)], *[0.0] * len(self.ranks)]
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


# -- communication ------------------------------------------------------------


def embedding(job: Job, steps: int = 5) -> dict[str, TraceBuilder]:
    """Little computing, and one gradient of a large embedding at the end of backward."""
    with job.each(lambda t: t.frame(*MAIN)):
        for n in range(steps):
            with job.each(lambda t, n=n: t.step(n)):  # type: ignore[misc]
                with job.each(lambda t: t.frame(STEP)):
                    for t in job.ranks:
                        table = [[131072, 1000], [256, 16], [], [], []]
                        with t.frame("pretrain_moe.py(27): look_up"), t.op("aten::embedding", dims=table):
                            t.launch("void at::native::vectorized_gather_kernel<16, long>", us=40)
                        compute(t, 3000)
                    job.meet("allreduce", 2600, elements=(131072 + 64) * 1000)
                    job.join()
                    for t in job.ranks:
                        with t.annotation("Optimizer.step#AdamW.step"), t.op("aten::_fused_adamw_"):
                            t.launch("multi_tensor_apply_kernel", us=400)
                for t in job.ranks:
                    with t.op("aten::item"):
                        t.wait()
    return job.files()


def host_bound(job: Job, steps: int = 4) -> dict[str, TraceBuilder]:
    """The host takes longer between kernels than collectives do; these hold nothing up."""
    with job.each(lambda t: t.frame(*MAIN)):
        for n in range(steps):
            with job.each(lambda t, n=n: t.step(n)), job.each(lambda t: t.frame(STEP)):  # type: ignore[misc]
                for _ in range(8):
                    for t in job.ranks:
                        compute(t, 150, 1)
                    job.meet("allreduce", 120, elements=1 << 20)
                    for t in job.ranks:
                        t.host(600)
    return job.files()


def gradient_loop(job: Job, steps: int = 4) -> dict[str, TraceBuilder]:
    """Gradients are exchanged one by one when backward is over."""
    with job.each(lambda t: t.frame(*MAIN)):
        for n in range(steps):
            with job.each(lambda t, n=n: t.step(n)):  # type: ignore[misc]
                with job.each(lambda t: t.frame(STEP)):
                    for t in job.ranks:
                        compute(t, 9000, 3)
                    with job.each(lambda t: t.frame("pretrain_moe.py(48): average_gradients")):
                        for k in range(10):
                            job.meet("allreduce", 250, elements=(1 << 20) + k)
                            job.join()
                    for t in job.ranks:
                        with t.annotation("Optimizer.step#AdamW.step"), t.op("aten::_fused_adamw_"):
                            t.launch("multi_tensor_apply_kernel", us=400)
                for t in job.ranks:
                    with t.op("aten::item"):
                        t.wait()
    return job.files()


def barrier(job: Job) -> None:
    """A barrier from the user's function, at which the host waits."""
    with (
        job.each(lambda t: t.frame("pretrain_moe.py(62): wait_for_all")),
        job.each(lambda t: t.frame("torch/distributed/distributed_c10d.py(4861): barrier")),
    ):
        with job.each(lambda t: t.op("c10d::barrier")):
            job.meet("allreduce", 60, elements=1)
        for t in job.ranks:
            t.wait()
            t.host(700)


class BarrierOnce:
    """A barrier at the end of the first step only."""

    def __init__(self) -> None:
        self.done = False

    def __call__(self, job: Job) -> None:
        if not self.done:
            barrier(job)
        self.done = True


def pipeline(second: float, steps: int = 4) -> dict[str, TraceBuilder]:
    """Two stages, four microbatches a step."""
    job = Job(2)
    with job.each(lambda t: t.frame(*MAIN)):
        for n in range(steps):
            with job.each(lambda t, n=n: t.step(n)):  # type: ignore[misc]
                for _ in range(4):
                    for t, us in zip(job.ranks, (2000, second), strict=True):
                        with t.frame("pretrain_moe.py(40): forward"):
                            compute(t, us)
                    job.meet("send", 80, elements=1 << 22)
                for t in job.ranks:
                    t.wait()
    return job.files()


def micro_batches(job: Job, *, synchronised: bool, steps: int = 3) -> dict[str, TraceBuilder]:
    """Four micro-batches a step, gradients exchanged after each, or under `no_sync()` after the last."""
    with job.each(lambda t: t.frame(*MAIN)):
        for n in range(steps):
            with job.each(lambda t, n=n: t.step(n)):  # type: ignore[misc]
                for k in range(4):
                    with job.each(lambda t: t.frame("pretrain_moe.py(66): accumulate")):
                        for t in job.ranks:
                            with t.annotation("DistributedDataParallel.forward"):
                                compute(t, 1500)
                        for bucket in range(2):
                            for t in job.ranks:
                                compute(t, 1500, 1)
                            if synchronised or k == 3:
                                job.meet("allreduce", 900, elements=(1 << 24) + bucket)
                        job.join()
                for t in job.ranks:
                    with t.annotation("Optimizer.step#AdamW.step"), t.op("aten::_fused_adamw_"):
                        t.launch("multi_tensor_apply_kernel", us=400)
                    with t.op("aten::item"):
                        t.wait()
    return job.files()


# -- one process --------------------------------------------------------------


def replicated(devices: int) -> TraceBuilder:
    """nn.DataParallel."""
    t = TraceBuilder()
    with t.frame("finetune_vit.py(88): <module>", "finetune_vit.py(47): fit"):
        for n in range(4):
            with t.step(n):
                with t.annotation("DataParallel.forward"), t.frame("torch/nn/parallel/data_parallel.py(161): forward"):
                    with t.frame("torch/nn/parallel/replicate.py(78): replicate"):
                        t.host(1800)
                    for device in range(devices):
                        with t.op("aten::mm", dims=[[44672, 4096], [4096, 4096]]):
                            t.launch(GEMM, us=2500, stream=COMPUTE + 32 * device, device=device)
                    with t.frame("torch/nn/parallel/scatter_gather.py(133): gather"):
                        t.host(300)
                with t.op("aten::item"):
                    t.wait()
    return t


def over_gloo(elements: int, us: float) -> TraceBuilder:
    """A process with a GPU whose gradients, or whose metric alone, are summed by gloo."""
    t = TraceBuilder(rank=0, world=2)
    t.head["distributedInfo"]["backend"] = "gloo"
    with t.frame("train_tagger.py(112): <module>", "train_tagger.py(61): main"):
        for n in range(4):
            with t.step(n):
                with t.frame("train_tagger.py(22): forward"):
                    compute(t, 8000)
                with t.frame("train_tagger.py(39): reduce_gradients"), t.op("c10d::allreduce_"):
                    t.copy("DtoH (Device -> Pinned)", elements * 4, max(2.0, elements * 4 / 25e3))
                    t.wait()
                    with t.on(2177), t._range("user_annotation", "gloo:all_reduce", {
                        "Input Dims": [[elements]], "Input type": ["float"]}):  # fmt: skip
                        t.host(us)
                    t.copy("HtoD (Pinned -> Device)", elements * 4, max(2.0, elements * 4 / 25e3))
    return t


def shaken(before: Callable[[TraceBuilder, int, int], None]) -> dict[str, TraceBuilder]:
    """Ranks leave collectives up to 4 ms apart, now the one, now the other first: clocks tell nothing."""
    job = Job(2)
    job.scatter = ((0.0, 4000.0), (0.0, 0.0))
    return data_parallel(job, before, steps=6)


def searching(every: int) -> TraceBuilder:
    """DDP looks for unused parameters before the backward pass of some steps."""
    t = TraceBuilder(rank=0, world=2)
    with t.frame("train_tagger.py(71): <module>", "train_tagger.py(55): fit"):
        for n in range(4):
            with t.step(n):
                with t.annotation("DistributedDataParallel.forward"):
                    compute(t, 8000)
                    if n % every == 0:
                        with t.op("torch.distributed.ddp.reducer::search_unused_parameters"):
                            t.host(900)
                compute(t, 16_000)
                t.wait()
    return t


def idle(t: TraceBuilder, rank: int, n: int) -> None:
    """Nothing."""


CASES: dict[str, Callable[[], TraceBuilder | dict[str, TraceBuilder]]] = {
    "DST001/fires-large-embedding": lambda: embedding(Job(2)),
    "DST001/fires-one-rank-of-four": lambda: embedding(Job(4))["input.d/rank0.json"],
    "DST001/silent-hidden": lambda: data_parallel(Job(2), steps=4),
    "DST001/silent-waits-for-a-late-rank": lambda: data_parallel(Job(2), computes_more, steps=4),
    "DST001/silent-host-bound": lambda: host_bound(Job(2)),
    "DST002/fires-gradient-loop": lambda: gradient_loop(Job(2)),
    "DST002/silent-during-backward": lambda: data_parallel(Job(2), steps=4),
    "DST007/fires-writes-samples": lambda: data_parallel(Job(4), logs_alone, steps=4),
    "DST007/fires-computes-more-clocks-differ": lambda: data_parallel(
        Job(2, skew=(0.0, 41_000.0), seq=False), computes_more
    ),
    "DST007/fires-slow-loader": lambda: data_parallel(Job(2), loads_slowly),
    "DST007/silent-balanced": lambda: data_parallel(Job(2)),
    "DST007/silent-by-turns": lambda: data_parallel(Job(2), by_turns, steps=6),
    "DST007/silent-first-step-compiles": lambda: data_parallel(Job(2), once),
    "DST007/silent-not-recorded-together": another_recording,
    "DST008/fires-clocks-tell-nothing": lambda: shaken(computes_more),
    "DST008/silent-same-work": lambda: shaken(idle),
    "DST011/fires-two-gpus": lambda: replicated(2),
    "DST011/silent-one-gpu": lambda: replicated(1),
    "DST012/fires-gradients": lambda: over_gloo(6_000_000, 9000),
    "DST012/silent-metric": lambda: over_gloo(4, 150),
    "DST013/fires-head-on-last-stage": lambda: pipeline(4400),
    "DST013/silent-even": lambda: pipeline(2200),
    "DST026/fires-every-step": lambda: searching(1),
    "DST026/silent-static-graph": lambda: searching(100),
    "DST021/fires-slow-network": lambda: data_parallel(Job(2), us=11_000, hidden=11_500, steps=10),
    "DST021/silent-fast": lambda: data_parallel(Job(2), steps=10),
    "DST023/fires-four-micro-batches": lambda: micro_batches(Job(2), synchronised=True),
    "DST023/silent-no-sync": lambda: micro_batches(Job(2), synchronised=False),
    "DST022/fires-every-step": lambda: data_parallel(Job(2), after=barrier, steps=4),
    "DST022/silent-once": lambda: data_parallel(Job(2), after=BarrierOnce(), steps=4),
}
