"""What the Xid numbers of NVIDIA's driver mean, and whose fault each one is.

Numbers and names follow the public catalogue and the open kernel modules (`nverror.h`); the words are ours.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct


class Blame(StrEnum):
    """Whose fault an Xid usually is."""

    DEVICE = "device"  # GPU, its memory, link or board
    DRIVER = "driver"  # driver or firmware; may be a failing device
    PROGRAM = "program"  # what a kernel of the job did
    EVENT = "event"  # bookkeeping: nothing failed by it


class Xid(Struct, frozen=True):
    """One number: what happened, whose fault it is, whether the process that used the GPU is lost with it."""

    means: str
    blame: Blame
    fatal: bool = True


def _all(blame: Blame, fatal: bool, *rows: tuple[int, str]) -> dict[int, Xid]:
    return {number: Xid(means, blame, fatal) for number, means in rows}


XIDS: Final[dict[int, Xid]] = {
    **_all(
        Blame.DEVICE,
        True,
        (48, "a double-bit ECC error in GPU memory that cannot be corrected"),
        (64, "a bad memory row could not be taken out of use"),
        (74, "an NVLink connection failed"),
        (79, "the GPU has fallen off the PCIe bus: the host cannot reach it any more"),
        (95, "a memory error that could not be contained: every process on the GPU is lost"),
        (94, "an uncorrectable memory error, contained to the process that used that memory"),
        (140, "an ECC error that the GPU cannot recover from"),
        (143, "the GPU could not be initialised"),
        (56, "the display engine failed"),
        (57, "the link to the GPU's memory could not be trained"),
        (58, "the link to the GPU's memory is unstable"),
        (110, "a security fault on the GPU"),
        (136, "an NVLink connection could not be trained"),
        (137, "an NVLink access to another GPU's memory failed"),
        (144, "an NVLink connection failed (SAW unit)"),
        (145, "an NVLink connection failed (RLW unit)"),
        (146, "an NVLink connection failed (TLW unit)"),
        (147, "an NVLink connection failed (TREX unit)"),
        (148, "an NVLink connection failed (NVLPW_CTRL unit)"),
        (149, "an NVLink connection failed (NETIR unit)"),
        (150, "an NVLink connection failed (MSE unit)"),
        (157, "a bad resource of the GPU could not be taken out of use"),
        (158, "the GPU did not answer in time"),
        (161, "a bad memory channel could not be taken out of use"),
        (167, "the PCIe link to the GPU timed out"),
        (171, "an uncorrectable error in the GPU's DRAM"),
        (172, "an uncorrectable error in the GPU's SRAM"),
        (173, "the chip-to-chip link between CPU and GPU failed"),
        (175, "the GPU's memory subsystem failed"),
    ),
    **_all(
        Blame.DEVICE,
        False,
        (92, "single-bit ECC errors come at a high rate; each was corrected"),
        (121, "the chip-to-chip link between CPU and GPU reported errors and corrected them"),
        (168, "the GPU runs with less memory than it has"),
        (176, "the PCIe link of the GPU reports correctable errors"),
    ),
    **_all(
        Blame.DRIVER,
        True,
        (32, "the GPU read a corrupted command stream"),
        (38, "the driver's firmware reported an error"),
        (44, "a fault while the GPU switched contexts"),
        (46, "the GPU stopped processing"),
        (61, "the GPU's own controller stopped at a breakpoint"),
        (62, "the GPU's own controller halted"),
        (109, "the GPU did not switch contexts in time"),
        (119, "the GPU's system processor (GSP) did not answer the driver in time"),
        (120, "the GPU's system processor (GSP) failed"),
        (122, "the GPU's flash memory could not be read"),
        (123, "the GPU's flash memory could not be written"),
        (125, "the GPU's InfoROM cannot be read"),
        (155, "NVLink was shut down by software"),
        (169, "the GPU's security processor halted"),
    ),
    **_all(
        Blame.PROGRAM,
        True,
        (8, "a kernel or copy did not finish in time"),
        (13, "a kernel did something illegal (bad address or instruction)"),
        (31, "a kernel or copy touched an address that is not mapped"),
        (39, "a copy engine met an illegal copy"),
        (40, "a copy engine met an illegal copy"),
        (41, "a copy engine met an illegal copy"),
        (43, "the GPU stopped this process's work after an error of its own"),
        (68, "the video decoder met something illegal"),
        (69, "a kernel launch used the GPU's class interface wrongly"),
    ),
    **_all(
        Blame.EVENT,
        False,
        (45, "the driver cleaned up the work of a process that ended or failed before"),
        (63, "a bad memory row was marked for replacement at the next reset"),
        (154, "the driver says what the GPU needs now"),
        (156, "a bad resource of the GPU was taken out of use"),
        (160, "a bad memory channel was taken out of use"),
    ),
}
UNKNOWN: Final = Xid("an error that this version does not know", Blame.DRIVER)


def xid(number: int) -> Xid:
    """What an Xid number means; unknown ones count as the driver's."""
    return XIDS.get(number, UNKNOWN)
