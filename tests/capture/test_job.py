"""A captured job behaves as it would alone: bytes, status, signals, standard input, terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

CAPTURE = [sys.executable, "-m", "necropsy", "capture", "--no-report", "--out", "run"]
COUNT_INTERRUPTS = """
import signal, sys, time
seen = []
signal.signal(signal.SIGINT, lambda *_: seen.append(1))
signal.signal(signal.SIGUSR1, lambda *_: (print(len(seen), flush=True), sys.exit(7)))
print("ready", flush=True)
while True:
    time.sleep(0.1)
"""


def capture(*command: str, cwd: Path, **more: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*CAPTURE, "--", *command], cwd=cwd, capture_output=True, check=False, **more)


def started(*command: str, cwd: Path, **more: Any) -> subprocess.Popen[bytes]:
    """A capture in a process group of its own, whose job has said `ready`."""
    job = subprocess.Popen(
        [*CAPTURE, "--", *command], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0, **more
    )
    assert job.stdout is not None
    assert job.stdout.readline() == b"ready\n"
    return job


def manifest(folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((folder / "run" / "manifest.json").read_text())
    return data


def test_output_and_status_are_the_jobs(tmp_path: Path) -> None:
    program = "import os, sys; os.write(1, b'a\\x00\\xff\\rb'); os.write(2, b'oops\\n'); sys.exit(3)"
    done = capture(sys.executable, "-c", program, cwd=tmp_path)
    assert done.returncode == 3
    assert done.stdout == b"a\x00\xff\rb"
    assert done.stderr.startswith(b"oops\n")
    assert sorted((tmp_path / "run" / "output.log").read_bytes().split(b"\n")) == [b"", b"a\x00\xff\rb", b"oops"] or (
        (tmp_path / "run" / "output.log").read_bytes() in (b"oops\na\x00\xff\rb", b"a\x00\xff\roops\nb")
    )
    (one,) = manifest(tmp_path)["passes"]
    assert (one["status"], one["signal"]) == (3, 0)


def test_options_behind_the_command_are_its_own(tmp_path: Path) -> None:
    program = "import sys; print(sys.argv[1:])"
    done = subprocess.run(
        [*CAPTURE, sys.executable, "-c", program, "--out", "x", "--", "-h"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.stdout == b"['--out', 'x', '--', '-h']\n"


def test_streams_that_go_to_one_file_keep_their_order(tmp_path: Path) -> None:
    program = "import os\nfor n in range(200): os.write(1 + n % 2, b'%d\\n' % n)"
    with (tmp_path / "both").open("wb") as both:
        subprocess.run(
            [*CAPTURE, "--", sys.executable, "-c", program], cwd=tmp_path, stdout=both, stderr=both, check=True
        )
    lines = (tmp_path / "both").read_bytes().splitlines()[:200]
    assert lines == [b"%d" % n for n in range(200)]


def test_standard_input_is_the_jobs(tmp_path: Path) -> None:
    done = capture("cat", cwd=tmp_path, input=b"one\ntwo")
    assert done.stdout == b"one\ntwo"


def test_a_reader_that_leaves_ends_the_job_as_it_would_alone(tmp_path: Path) -> None:
    job = subprocess.Popen([*CAPTURE, "--", "yes"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert job.stdout is not None
    assert job.stdout.read(4) == b"y\ny\n"
    job.stdout.close()
    assert job.wait(20) == 128 + signal.SIGPIPE


@pytest.mark.parametrize(("command", "status"), [("no-such-program", 127), ("./plain", 126)])
def test_a_command_that_cannot_run(tmp_path: Path, command: str, status: int) -> None:
    (tmp_path / "plain").write_text("x")
    done = capture(command, cwd=tmp_path)
    assert done.returncode == status
    assert command in done.stderr.decode()


def test_a_job_that_a_signal_kills(tmp_path: Path) -> None:
    done = capture("sh", "-c", "kill -9 $$", cwd=tmp_path)
    assert done.returncode == 137
    assert manifest(tmp_path)["passes"][0]["signal"] == 9


def test_an_interrupt_of_the_group_reaches_the_job_once(tmp_path: Path) -> None:
    job = started(sys.executable, "-c", COUNT_INTERRUPTS, cwd=tmp_path)
    os.killpg(job.pid, signal.SIGINT)
    time.sleep(0.5)
    os.kill(job.pid, signal.SIGUSR1)  # the launcher alone: passed on
    out, _ = job.communicate(timeout=20)
    assert (out, job.returncode) == (b"1\n", 7)


def test_an_interrupt_of_the_launcher_is_passed_on_once(tmp_path: Path) -> None:
    job = started(sys.executable, "-c", COUNT_INTERRUPTS, cwd=tmp_path)
    os.kill(job.pid, signal.SIGINT)
    time.sleep(0.5)
    os.kill(job.pid, signal.SIGUSR1)
    out, _ = job.communicate(timeout=20)
    assert (out, job.returncode) == (b"1\n", 7)


def test_sigterm_ends_the_job(tmp_path: Path) -> None:
    job = started("sh", "-c", "echo ready; exec sleep 30", cwd=tmp_path)
    job.terminate()
    assert job.wait(20) == 143
    assert manifest(tmp_path)["passes"][0]["signal"] == 15


def test_what_is_ignored_stays_ignored(tmp_path: Path) -> None:
    program = "import signal; print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)"
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        done = capture(sys.executable, "-c", program, cwd=tmp_path)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert done.stdout == b"True\n"


def test_the_job_dies_with_the_launcher(tmp_path: Path) -> None:
    job = started("sh", "-c", "echo ready; echo $$ > pid; exec sleep 60", cwd=tmp_path)
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
        time.sleep(0.05)
    pid = int((tmp_path / "pid").read_text())
    job.kill()
    job.communicate(timeout=20)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and Path(f"/proc/{pid}/stat").exists():
        if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
            break
        time.sleep(0.05)
    else:
        assert not Path(f"/proc/{pid}").exists()


def test_a_child_left_behind_does_not_hold_the_launcher(tmp_path: Path) -> None:
    began = time.monotonic()
    done = capture("sh", "-c", "sleep 30 & echo over", cwd=tmp_path)
    assert done.stdout == b"over\n"
    assert time.monotonic() - began < 15


class Terminal:
    """A pseudo-terminal in which a capture runs."""

    def __init__(self, command: Sequence[str], cwd: Path) -> None:
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
        self.job = subprocess.Popen(
            [*CAPTURE, "--", *command], cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)

    def text(self, until: bytes) -> bytes:
        seen = b""
        while until not in seen and select.select([self.ours], [], [], 20)[0]:
            try:
                data = os.read(self.ours, 4096)
            except OSError:
                break
            seen += data
        return seen


def test_tasks_of_one_job_write_beside_each_other(tmp_path: Path) -> None:
    for number in ("0", "1"):
        environment = {**os.environ, "SLURM_PROCID": number, "SLURM_NTASKS": "2"}
        done = capture("sh", "-c", "echo $SLURM_PROCID", cwd=tmp_path, env=environment)
        assert (done.returncode, done.stdout) == (0, f"{number}\n".encode())
        assert b"necropsy analyze run reads them together" in done.stderr
    assert (tmp_path / "run" / "rank-1" / "output.log").read_text() == "1\n"


def test_a_terminal_stays_one(tmp_path: Path) -> None:
    program = (
        "import os, sys; print(sys.stdout.isatty(), sys.stderr.isatty(), sys.stdin.isatty(), *os.get_terminal_size());"
        "sys.stdout.write('\\r 50%\\r100%\\n'); print(input().upper())"
    )
    terminal = Terminal([sys.executable, "-c", program], tmp_path)
    seen = terminal.text(b"100%")
    assert b"True True True 77 33\r\n" in seen
    assert b"\r 50%\r100%" in seen
    os.write(terminal.ours, b"yes\n")
    assert b"YES\r\n" in terminal.text(b"YES\r\n")
    terminal.text(b"are in run")
    assert terminal.job.wait(20) == 0
    assert b"100%\n" in (tmp_path / "run" / "output.log").read_bytes()
    os.close(terminal.ours)
