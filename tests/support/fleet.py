"""Files of jobs with many ranks, written as torch and NCCL write them.

One rank fails with a traceback in the middle of its work; the others' connections break, and
their watchdogs stop them ten minutes later. Nothing in the files of the others names the culprit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

FAILURE: Final = """\
[rank{rank}]: Traceback (most recent call last):
[rank{rank}]:   File "/home/trainer/projects/lm/train.py", line 88, in <module>
[rank{rank}]:     main()
[rank{rank}]:   File "/home/trainer/projects/lm/train.py", line 71, in main
[rank{rank}]:     batch = collate(rows)
[rank{rank}]:             ^^^^^^^^^^^^^
[rank{rank}]:   File "/home/trainer/projects/lm/data.py", line 34, in collate
[rank{rank}]:     ids[i, : len(row)] = torch.tensor(row)
[rank{rank}]:     ~~~^^^^^^^^^^^^^^^
[rank{rank}]: ValueError: row 4711 is longer than 4096
"""
_PG: Final = "[PG ID 0 PG GUID 0(default_pg) Rank {rank}] "
_GLOG: Final = "[rank{rank}]:[E603 09:{minute}:1{s}.{us} ProcessGroupNCCL.cpp:{line}] "


def _said(minute: int, us: int, line: int, text: str) -> str:
    """A line of the watchdog, with `{rank}` and `{s}` (a digit of the second) still open."""
    return (
        _GLOG.replace("{minute}", str(minute)).replace("{us}", f"{us:09d}").replace("{line}", str(line)) + text + "\n"
    )


_CORRUPT: Final = (
    "[Rank {rank}] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, "
    "subsequent GPU operations might run on corrupted/incomplete data."
)
_DOWN: Final = "[Rank {rank}] To avoid data inconsistency, we are taking the entire process down."
_REMOTE: Final = (
    "Process group watchdog thread terminated with exception: NCCL error: remote process exited or there was a "
    "network error, NCCL version 2.26.2"
)
_TIMEOUT: Final = (
    "[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8112, OpType=ALLREDUCE, "
    "NumelIn=13107200, NumelOut=13107200, Timeout(ms)=600000) ran for 60{s}018 milliseconds before timing out."
)
_COUNTERS: Final = (
    " failure detected by watchdog at work sequence id: 8112 PG status: last enqueued work: 8114, "
    "last completed work: 8111"
)
LOST: Final = (
    _said(32, 18044012, 684, _CORRUPT)
    + _said(32, 18059114, 698, _DOWN)
    + _said(32, 18100771, 1902, _PG + _REMOTE)
    + "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n"
    + "Last error:\n"
    + "socketProgressOpt: Call to recv from 192.0.2.{peer}<4{port:04d}> failed : Connection reset by peer\n"
)
WAITED: Final = (
    _said(42, 160918398, 632, _TIMEOUT)
    + _said(42, 161004398, 2271, _PG + _COUNTERS)
    + _said(42, 161704398, 698, _DOWN)
    + "terminate called after throwing an instance of 'c10::DistBackendError'\n"
)
STEPS: Final = 240  # healthy lines of every rank


def progress(rank: int, steps: int = STEPS) -> str:
    """Healthy lines of a rank."""
    return "".join(
        f"2026-06-03 09:{step // 8 % 60:02d}:{step % 8 * 7:02d},{rank % 1000:03d} INFO train: step {step * 10} "
        f"loss {5 - step / 1000:.4f} grad_norm {1 + (step * rank) % 7 / 10:.2f} tokens/s {41000 + rank}\n"
        for step in range(steps)
    )


def text_of(rank: int, culprit: int) -> str:
    """The whole file of a rank; even ranks lose a connection, odd ones wait until their limit."""
    if rank == culprit:
        return progress(rank) + FAILURE.format(rank=rank)
    form = WAITED if rank % 2 else LOST
    return progress(rank) + form.format(rank=rank, s=rank % 10, peer=rank % 250 + 1, port=rank)


def fleet(folder: Path, ranks: int, culprit: int, name: str = "rank_{rank}.log") -> Path:
    """Write the files of a job below `folder`; `name` may hold folders."""
    for rank in range(ranks):
        path = folder / name.format(rank=rank, node=rank // 8, local=rank % 8)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text_of(rank, culprit))
    return folder
