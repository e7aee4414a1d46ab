"""What the NVIDIA driver and the kernel say of a failing device.

    NVRM: Xid (PCI:0000:65:00): 79, pid=4411, name=python, GPU has fallen off the bus.
    NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No
    nvidia-nvswitch3: SXid (PCI:0000:c5:00.0): 20034, Fatal, Link 30 LTSSM Fault Up
    Unable to determine the device handle for GPU0000:17:00.0: Unknown Error             nvidia-smi
    pcieport 0000:64:01.0: AER: Uncorrected (Fatal) error received: 0000:65:00.0
    thermal thermal_zone0: critical temperature reached (105 C), shutting down

The form of an Xid line is `krcReportXid` of the open kernel modules: pid and name are missing where no process was
known, drivers before 450 leave the name out, before 370 also `PCI:`. pid='<unknown>' is printed by some.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record

NAME: Final = "driver_error"
TITLE: Final = "Device errors reported by driver and kernel"
TRIGGERS: Final = (
    b"Xid (",
    b"fallen off the bus",
    b"determine the device handle",
    b"GPU is lost",
    b"GpuIsLost",
    b"AER: Uncorrect",
    b"Uncorrected (Fatal)",
    b"Uncorrectable (Fatal)",
    b"critical temperature reached",
)
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "NVRM: Xid (PCI:0000:65:00): 79, pid=4411, name=python, GPU has fallen off the bus.": {
        "kind": "xid",
        "code": 79,
        "bus": "0000:65:00",
        "process": 4411,
        "name": "python",
    },
    "SXid (PCI:0000:c5:00.0): 20034, Fatal, Link 30 LTSSM Fault Up": {
        "kind": "sxid",
        "code": 20034,
        "fatal": True,
    },
}
_BUS: Final = r"(?:PCI:)?(?P<bus>[0-9a-fA-F]{3,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-9a-fA-F])?"
_XID: Final = lazily(
    rf"NVRM: Xid \({_BUS}(?: GPU-I:\d+)?(?: GPU-CI:\d+)?\): (?P<code>\d+), ?"
    r"(?:pid='?<?(?P<pid>\d+|\w+)>?'?, ?)?(?:Ch \w+, ?)?(?:name=(?P<name>[^,]+), ?)?(?P<detail>.*)$"
)
_SXID: Final = lazily(rf"SXid \({_BUS}\): (?P<code>\d+), ?(?P<detail>(?P<how>Non-fatal|Fatal)?.*)$")
_FORMS: Final = (
    (lazily(rf"NVRM: (?:GPU {_BUS}: )?(?:GPU has )?fallen off the bus"), "lost"),
    (lazily(rf"Unable to determine the device handle for (?:GPU ?)?(?:\d+: ?)?{_BUS}: (?P<detail>.+)$"), "lost"),
    (lazily(r"NVMLError_GpuIsLost|NVML: GPU is lost|GPU is lost\. +Reboot the system"), "lost"),
    (lazily(rf"AER: Uncorrect(?:ed|able) \(Fatal\) error (?:message )?received:? (?:from )?{_BUS}"), "pcie"),
    (lazily(rf"{_BUS}: (?:AER: )?PCIe Bus Error: severity=Uncorrect(?:ed|able) \(Fatal\)"), "pcie"),
    (lazily(r"critical temperature reached(?: \((?P<detail>\d+ C)\))?,? shutting down"), "heat"),
)


class DriverError(Record, frozen=True):
    """One error.

    `kind`: xid, sxid (of an NVSwitch), lost (the GPU does not answer), pcie (fatal bus error), heat (the node shut
    down). `code` is the number of an (S)Xid, `fatal` whether an SXid says so, `bus` the PCI address without function,
    lower case ("" if untold); `process` and `name` whose work it was; `detail` the driver's own words.
    """

    kind: str
    code: int | None
    bus: str
    process: int | None
    name: str
    detail: str
    fatal: bool


def read(message: Message) -> Iterator[DriverError]:
    """The error that `message` reports, if it does."""
    text = " ".join(message.text.split()) if message.exception is not None else message.first.strip()
    if (m := _XID.search(text)) is not None:
        pid = m["pid"] or ""
        process = int(pid) if pid.isdecimal() else None
        name = (m["name"] or "").strip("'<> ")
        yield _error(message, "xid", m, code=int(m["code"]), process=process, name=name)
    elif (m := _SXID.search(text)) is not None:
        yield _error(message, "sxid", m, code=int(m["code"]), fatal=m["how"] == "Fatal")
    else:
        for form, kind in _FORMS:
            if (m := form.search(text)) is not None:
                yield _error(message, kind, m, fatal=True)
                return


def _error(
    message: Message,
    kind: str,
    m: re.Match[str],
    *,
    code: int | None = None,
    process: int | None = None,
    name: str = "",
    fatal: bool = False,
) -> DriverError:
    part = m.groupdict()
    return DriverError(
        message.anchor,
        kind,
        code,
        (part.get("bus") or "").lower(),
        process,
        "" if name == "unknown" else name,
        (part.get("detail") or "").strip(),
        fatal,
        **message.common,
    )
