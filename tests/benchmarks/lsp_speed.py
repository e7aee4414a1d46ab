"""How soon the language server shows stored findings, and how much memory that takes.

    python -m tests.benchmarks.lsp_speed [--runs 10]

A real server over stdio. Medians: from `didOpen` of a 1,000-line file with 500 findings to its
diagnostics, the same after a key was pressed (with the pause in which further keys are awaited),
and after a 50 MB report was stored (from `didSave` on). The first opening of a server, which also
looks for the evidence on disk, is told apart. Beside them the processor time of the server, which
other work on the machine does not change; its peak resident memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from tests.benchmarks.measured import environment

from necropsy_parsers.records import Anchor

from necropsy.finding import Cost, Finding, Fix, Place, Related, Severity
from necropsy.report import Report

LINES: Final = 1000
FINDINGS: Final = 500
BIG: Final = 50_000_000


def source() -> str:
    """A file of `LINES` lines, every second of them in a finding."""
    return "".join(f"    loss_{n} = criterion(model(batch[{n}]), target[{n}]).item()\n" for n in range(LINES))


def finding(number: int, file: str = "train.py") -> Finding:
    """One finding of usual size on line `number`."""
    text = f"loss_{number - 1} = criterion(model(batch[{number - 1}]), target[{number - 1}]).item()"
    evidence = Anchor("run.log", 0, 200, number, f"Graph break in user code at /job/{file}:{number}")
    return Finding(
        message=f"`{text}` reads a value of the GPU into Python: each call waits for the GPU.",
        anchor=evidence,
        severity=Severity.WARNING,
        rule="CMP003",
        name="scalar-read",
        code=(Place(f"/job/{file}", number, function="train", text=text),),
        related=tuple(Related(evidence, f"recompilation {n}") for n in range(4)),
        facts={"calls": 12, "reason": "Tensor.item()"},
        fixes=(Fix("Keep the value a tensor on the device", "code"), Fix("Capture scalar reads", "config")),
        cost=Cost(12_400_000, 0.031, "measured"),
    )


def store(folder: Path, name: str, findings: list[Finding], size: int = 0) -> int:
    """Store a report, repeated for other files until it has `size` bytes; returns its bytes."""
    report: dict[str, Any] = Report("0", findings=findings).to_json()
    if size:
        once = len(json.dumps(report["findings"], indent=2))
        more = [finding(n + 1, f"other_{k}.py") for k in range(size // once) for n in range(len(findings))]
        report["findings"] += Report("0", findings=more).to_json()["findings"]
    path = folder / ".necropsy" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(report, indent=2), encoding="utf-8")
    return path.stat().st_size


class Editor:
    """A client on one server that speaks plain JSON, so that its own work does not count."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.uri = (folder / "train.py").as_uri()
        self.version = 0
        command = [sys.executable, "-P", "-m", "necropsy_lsp"]
        self.server = subprocess.Popen(
            command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        shows = {"relatedInformation": True, "codeDescriptionSupport": True}
        self.send(
            "initialize",
            processId=os.getpid(),
            rootUri=None,
            capabilities={"textDocument": {"publishDiagnostics": shows}},
            workspaceFolders=[{"uri": folder.as_uri(), "name": "benchmark"}],
        )
        self.receive()
        self.send("initialized")
        time.sleep(1)  # what is done once at the start, as before a user opens a file

    def send(self, method: str, **params: object) -> None:
        """Send a notification, or the first request."""
        message: dict[str, object] = {"jsonrpc": "2.0", "method": method, "params": params}
        if method in ("initialize", "shutdown"):
            message["id"] = method
        body = json.dumps(message).encode()
        assert self.server.stdin is not None
        self.server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.server.stdin.flush()

    def receive(self) -> bytes:
        """The next message."""
        assert self.server.stdout is not None
        size = 0
        while (line := self.server.stdout.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        return self.server.stdout.read(size)

    def seconds(self, count: int, method: str, **params: object) -> Spent:
        """Wall and server's processor time from a notification until `count` diagnostics are shown."""
        start, used = time.perf_counter(), self.used()
        self.send(method, **params)
        while True:
            body = self.receive()
            if b"publishDiagnostics" in body and body.count(b'"severity"') == count:
                return Spent(time.perf_counter() - start, self.used() - used)

    def open(self) -> Spent:
        """Open the file, which was closed before."""
        item = {"uri": self.uri, "languageId": "python", "version": self.version, "text": source()}
        return self.seconds(FINDINGS, "textDocument/didOpen", textDocument=item)

    def type(self) -> Spent:
        """Press enter at the top of the file."""
        self.version += 1
        at = {"line": 0, "character": 0}
        changes = [{"range": {"start": at, "end": at}, "text": "\n"}]
        document = {"uri": self.uri, "version": self.version}
        return self.seconds(FINDINGS, "textDocument/didChange", textDocument=document, contentChanges=changes)

    def save(self, count: int) -> Spent:
        """Save the file."""
        return self.seconds(count, "textDocument/didSave", textDocument={"uri": self.uri})

    def close(self) -> Spent:
        """Close the file."""
        return self.seconds(0, "textDocument/didClose", textDocument={"uri": self.uri})

    def used(self) -> float:
        """The server's processor time so far; 0 where the system does not tell."""
        try:
            fields = Path(f"/proc/{self.server.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak(self) -> float:
        """The server's peak resident memory in MB; 0 where the system does not tell."""
        try:
            status = Path(f"/proc/{self.server.pid}/status").read_text()
        except OSError:
            return 0
        found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
        return int(found[0]) * 1024 / 1e6


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of wall time, and of the server's processor time."""

    wall: float
    cpu: float


def told(name: str, spent: Sequence[Spent], target: str = "") -> None:
    """Print the median wall time and the mean processor time, which the system counts in 10 ms."""
    wall, cpu = median(s.wall for s in spent), sum(s.cpu for s in spent) / len(spent)
    print(f"  {name:<22} {1e3 * wall:7.0f} ms, {1e3 * cpu:6.0f} ms of the processor{target}")


def measure(runs: int) -> None:
    """Print the times."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(source(), encoding="utf-8")
        (folder / "run.log").write_text("log\n", encoding="utf-8")
        findings = [finding(2 * n + 1) for n in range(FINDINGS)]
        small = store(folder, "small.json", findings)
        editor = Editor(folder)
        print(f"{LINES:,} lines, {FINDINGS} findings ({small / 1e6:.1f} MB)")
        told("first open", [editor.open()], " (target 100)")
        print(f"  peak {editor.peak():.0f} MB")
        opened = []
        for _ in range(runs):
            editor.close()
            opened.append(editor.open())
        told("open", opened, " (target 100)")
        told("key, with its pause", [editor.type() for _ in range(runs)])
        (folder / ".necropsy" / "small.json").unlink()
        editor.save(0)
        size = store(folder, "big.json", findings, BIG)
        print(f"report of {size / 1e6:.1f} MB")
        told("shown after saving", [editor.save(FINDINGS)], " (target 1000)")
        told("key, with its pause", [editor.type() for _ in range(runs)])
        print(f"  peak {editor.peak():.0f} MB")
        editor.server.kill()
        editor.server.wait()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=10)
    measure(parser.parse_args().runs)


if __name__ == "__main__":
    main()
