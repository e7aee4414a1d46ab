"""Wordings of launchers, schedulers, drivers and networks, one by one, and words that mean nothing."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.reading import read

from necropsy_parsers.messages.driver_error import DriverError
from necropsy_parsers.messages.network_setup import NetworkTrouble
from necropsy_parsers.messages.process_exit import ProcessExit
from necropsy_parsers.messages.scheduler import JobStop
from necropsy_parsers.messages.worker_stopped import WorkerStopped

from necropsy.provenance.xids import XIDS, Blame, xid

HEAD = "loading\nready\nthe first epoch begins\n"


def only(kind: type[Any], text: str) -> Any:
    """The one record of a kind that a line gives."""
    found = read(HEAD + text + "\n").of(kind)
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "E1129 14:48:32.886000 25334 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -6)"
            " local_rank: 1 (pid: 88013) of binary: /opt/conda/bin/python",
            ("SIGABRT", -6, 88013, None, 1, None),
        ),
        (
            "failed (exitcode: 2) local_rank: 0 (pid: 9) of fn: main (start_method: spawn)",
            ("", 2, 9, None, 0, None),
        ),
        ("srun: error: node-3: task 3: Exited with exit code 1", ("", 1, None, None, None, "node-3")),
        ("srun: error: node-3: tasks 0-2: Aborted (core dumped)", ("SIGABRT", None, None, None, None, "node-3")),
        (
            "mpirun noticed that process rank 3 with PID 4411 on node node-3 exited on signal 9 (Killed).",
            ("SIGKILL", None, 4411, 3, None, "node-3"),
        ),
        ("  Process name: [[10916,1],3]", ("", None, None, 3, None, None)),
        ("   Process name: [prterun-node-1-812@1,12]", ("", None, None, 12, None, None)),
        (
            "[rank: 1] Child process with PID 5120 terminated with code 1. Forcefully terminating all other processes",
            ("", 1, 5120, 1, None, None),
        ),
    ],
)
def test_ends_of_processes(text: str, wanted: tuple[Any, ...]) -> None:
    e = only(ProcessExit, text)
    assert (e.signal, e.code, e.pid, e.origin.rank, e.origin.local_rank, e.origin.host) == wanted


@pytest.mark.parametrize(
    ("text", "pid", "signal", "by"),
    [
        ("Sending process 25353 closing signal SIGTERM", 25353, "SIGTERM", "torchrun"),
        ("Closing process 25353 via signal SIGTERM", 25353, "SIGTERM", "torchrun"),
        ("Unable to shutdown process 7 via 15, forcefully exitting via 9", 7, "SIGKILL", "torchrun"),
        (
            "[2026-11-29 10:44:01,310] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 3301",
            3301,
            "",
            "DeepSpeed",
        ),
        ("Terminating process 17818 via signal SIGTERM", 17818, "SIGTERM", "torch.multiprocessing"),
        ("srun: Terminating StepId=613.0", None, "", "srun"),
    ],
)
def test_stopped_processes(text: str, pid: int | None, signal: str, by: str) -> None:
    s = only(WorkerStopped, text)
    assert (s.pid, s.signal, s.by) == (pid, signal, by)


BANNER = "slurmstepd: error: *** {} ON node-3 CANCELLED AT 2026-11-29T04:00:12{} ***"


@pytest.mark.parametrize(
    ("text", "kind", "by"),
    [
        (BANNER.format("JOB 8", " DUE TO TIME LIMIT"), "time-limit", "Slurm"),
        (BANNER.format("STEP 8.0", " DUE TO PREEMPTION"), "preempted", "Slurm"),
        (BANNER.format("JOB 8", " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"), "node-failure", "Slurm"),
        (BANNER.format("JOB 8", " DUE TO JOB REQUEUE"), "requeued", "Slurm"),
        (BANNER.format("STEP 8.1", " DUE to SIGNAL Terminated"), "cancelled", "Slurm"),
        (BANNER.format("STEP 8.1", " DUE TO TASK FAILURE"), "task-failure", "Slurm"),
        (BANNER.format("JOB 8", ""), "cancelled", "Slurm"),
        ("slurmd[node-3]: *** JOB 8 CANCELLED AT 2012-11-29T04:00:12 DUE TO TIME LIMIT ***", "time-limit", "Slurm"),
        ("srun: error: Node failure on node-7", "node-failure", "Slurm"),
        ("salloc: Job 8 has exceeded its time limit and its allocation has been revoked.", "time-limit", "Slurm"),
        ("srun: sending Ctrl-C to StepId=8.0", "interrupted", "srun"),
        ("State: TIMEOUT (exit code 0)", "time-limit", "Slurm's accounting"),
        ("8123.batch         batch   trainer   64  CANCELLED by 1000   0:15", "cancelled", "Slurm's accounting"),
        ("=>> PBS: job killed: walltime 3611 exceeded limit 3600", "time-limit", "PBS"),
        ("=>> PBS: job killed: node 2 (node-7) requested job terminate, 'EOF' (code 1099)", "node-failure", "PBS"),
        ("TERM_RUNLIMIT: job killed after reaching LSF run time limit.", "time-limit", "LSF"),
        ("TERM_OWNER: job killed by owner.", "cancelled", "LSF"),
        ("job 48.1 exceeded hard wallclock time - initiate terminate method", "time-limit", "Grid Engine"),
        ("Pod was active on the node longer than the specified deadline", "time-limit", "Kubernetes"),
        ("Preempted by pod 3f8a on node node-3", "preempted", "Kubernetes"),
        ("Pod is evicted, because of preempt", "preempted", "Volcano"),
        ("TaintManagerEviction: Marking for deletion Pod research/trainer-0", "node-failure", "Kubernetes"),
        ("Received Signals.SIGTERM death signal, shutting down workers", "terminated", "torchrun"),
        ("Received 1 death signal, shutting down workers", "hangup", "torchrun"),
        ("[rank: 0] Received SIGTERM: 15", "terminated", "Lightning"),
        ("Detected KeyboardInterrupt, attempting graceful shutdown ...", "interrupted", "Lightning"),
        (
            "[2026-11-29 10:44:01,310] [INFO] [launch.py:344:sigkill_handler] Main process received SIGINT, exiting",
            "interrupted",
            "DeepSpeed",
        ),
        ("SIGTERM received, will request JIT checkpoint after 3s", "terminated", "the HF Trainer"),
        ("WARNING: instance node-2 is being preempted, 30 s left", "preempted", "the cloud"),
    ],
)
def test_stops_of_jobs(text: str, kind: str, by: str) -> None:
    s = only(JobStop, text)
    assert (s.kind, s.by) == (kind, by)


@pytest.mark.parametrize(
    "text",
    [
        'the log said "*** JOB 8 ON node-3 CANCELLED AT 2026-11-29T04:00:12 DUE TO TIME LIMIT ***" last week',
        "save a checkpoint when the node is preempted",
        "TaintManagerEviction: Cancelling deletion of Pod research/trainer-0",
        "SIGTERM handler registered",
        "State: COMPLETED (exit code 0)",
        "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC TIMEOUT 600",
        "spot price 0.91",
    ],
)
def test_words_that_stop_nothing(text: str) -> None:
    assert read(HEAD + text + "\n").of(JobStop) == []


@pytest.mark.parametrize(
    ("text", "kind", "code", "bus", "process"),
    [
        (
            "NVRM: Xid (PCI:0000:65:00): 79, pid=4411, name=python, GPU has fallen off the bus.",
            "xid",
            79,
            "0000:65:00",
            4411,
        ),
        (
            "NVRM: Xid (PCI:0000:65:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off",
            "xid",
            79,
            "0000:65:00",
            None,
        ),
        ("NVRM: Xid (0000:01:00): 31, Ch 0000000b, engmask 00000120, intr 10000000", "xid", 31, "0000:01:00", None),
        (
            "[ 12.000001] NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). "
            "RST: No, D-RST: No",
            "xid",
            94,
            "0000:01:00",
            7194,
        ),
        (
            "nvidia-nvswitch3: SXid (PCI:0000:c5:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
            "sxid",
            20034,
            "0000:c5:00",
            None,
        ),
        ("NVRM: GPU 0000:65:00.0: GPU has fallen off the bus.", "lost", None, "0000:65:00", None),
        (
            "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  Reboot the system to "
            "recover this GPU",
            "lost",
            None,
            "0000:02:00",
            None,
        ),
        (
            "pcieport 0000:64:01.0: AER: Uncorrected (Fatal) error received: 0000:65:00.0",
            "pcie",
            None,
            "0000:65:00",
            None,
        ),
        ("thermal thermal_zone0: critical temperature reached (105 C), shutting down", "heat", None, "", None),
    ],
)
def test_device_errors(text: str, kind: str, code: int | None, bus: str, process: int | None) -> None:
    e = only(DriverError, text)
    assert (e.kind, e.code, e.bus, e.process) == (kind, code, bus, process)


def test_programs_faults_do_not_accuse_hardware() -> None:
    assert {xid(n).blame for n in (8, 13, 31, 43)} == {Blame.PROGRAM}
    assert xid(45).blame is Blame.EVENT
    assert {xid(n).blame for n in (48, 64, 74, 79, 94, 95, 140)} == {Blame.DEVICE}
    assert {xid(n).blame for n in (109, 119, 120)} == {Blame.DRIVER}
    assert all(x.means and not x.means.endswith(".") for x in XIDS.values())


@pytest.mark.parametrize(
    ("text", "kind", "where"),
    [
        ("node-2:41:41 [2] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found", "no-interface", ""),
        (
            "a:1:2 [0] NCCL WARN socketStartConnect: Connect to 192.0.2.4<43287> failed : No route to host",
            "peer",
            "192.0.2.4:43287",
        ),
        (
            "a:1:2 [0] NCCL WARN Call to connect to 192.0.2.4<1234> failed : Connection refused",
            "peer",
            "192.0.2.4:1234",
        ),
        ("a:1:2 [0] NCCL WARN Call to ibv_create_cq failed with error Cannot allocate memory", "memlock", ""),
        (
            "a:1:2 [0] NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1",
            "verbs",
            "",
        ),
        ("a:1:2 [0] NCCL WARN NET/OFI Unable to find a protocol that worked.  Failing initialization.", "ofi", ""),
    ],
)
def test_connections_not_set_up(text: str, kind: str, where: str) -> None:
    t = only(NetworkTrouble, text)
    assert (t.kind, t.where) == (kind, where)


@pytest.mark.parametrize(
    "text",
    [
        "[W1129 15:17:33 socket.cpp:752] [c10d] The client socket has failed to connect to [node-0]:29500 "
        "(errno: 111 - Connection refused).",
        "a:1:2 [0] NCCL INFO socketPollConnect: connect to 192.0.2.4<4328> returned Connection refused, retrying "
        "(1/34)",
        "a:1:2 [0] NCCL INFO NET/OFI Could not disable CUDA API usage for HMEM",
        "OSError: [Errno 98] Address already in use",
    ],
)
def test_tries_and_other_sockets_are_no_failed_setup(text: str) -> None:
    assert read(HEAD + text + "\n").of(NetworkTrouble) == []
