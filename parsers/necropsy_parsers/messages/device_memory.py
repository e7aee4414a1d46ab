"""Out-of-memory messages of device allocators, in every wording since torch 1.8.

Written by `CUDACachingAllocator` (and its HIP, XPU, NPU and MPS relatives), by CUDA
itself without numbers, and by torch when a size cannot be meant. Three layouts: one
parenthesis with semicolons (to torch 2.0), sentences (from 2.1, which wrote "capacty"),
MPS's own::

    CUDA out of memory. Tried to allocate 50.00 MiB (GPU 0; 31.75 GiB total capacity; 5.22 GiB already
    allocated; 44.69 MiB free; 5.22 GiB reserved in total by PyTorch) If reserved memory is >> ...
    CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 139.80 GiB of which 19.29
    GiB is free. Including non-PyTorch memory, this process has 120.51 GiB memory in use. Of the ...
    MPS backend out of memory (MPS allocated: 17.90 GB, other allocations: 256.00 KB, max allowed: 18.13 GB).
    RuntimeError: CUDA error: out of memory
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages import Message, is_label
from necropsy_parsers.patterns import lazily
from necropsy_parsers.records import Record

NAME: Final = "device_memory"
TITLE: Final = "Out-of-memory messages of device allocators"
TRIGGERS: Final = (b"out of memory", b"Tried to allocate")
SAMPLES: Final[dict[str, dict[str, object]]] = {
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.15 GiB of which 1.44 GiB is "
    "free. Including non-PyTorch memory, this process has 77.70 GiB memory in use. Of the allocated memory 76.00 GiB "
    "is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated.": {
        "tried": 2147483648,
        "device": "GPU 1",
        "unallocated": 536870912,
    },
    "CUDA out of memory. Tried to allocate 50.00 MiB (GPU 0; 31.75 GiB total capacity; 5.22 GiB already allocated; "
    "44.69 MiB free; 5.22 GiB reserved in total by PyTorch)": {"tried": 52428800, "device": "GPU 0"},
}

_UNITS: Final = {"bytes": 1, "b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "pib": 2**50,
                 "kb": 2**10, "mb": 2**20, "gb": 2**30, "tb": 2**40}  # fmt: skip
_SIZE: Final = r"(?<![\d.])(-?[\d.]{1,24}) ?([KMGTP]i?B|bytes|B)\b"
_HEAD: Final = lazily(
    r"(?P<backend>CUDA|HIP|XPU|NPU|MPS|MUSA|HPU|Privateuse\w*) (?:backend )?out of memory"
    r"|Tried to allocate (?=[\d]|more than)"
    r"|(?:CUDA error|cuda runtime error \(2\) ?|CUDA driver error"
    r"|hipErrorOutOfMemory|Triton Error \[\w+\]):? ?:? out of memory"
)
_FIELDS: Final = {
    "tried": lazily(r"(?:Tried to allocate|Requested size:) " + _SIZE),
    "total": lazily(r"total capaci?ty of " + _SIZE + r"|" + _SIZE + r" total capacity|max allowed: " + _SIZE),
    "free": lazily(r"of which " + _SIZE + r" is free|; " + _SIZE + r" free"),
    "in_use": lazily(r"this process has " + _SIZE),
    "allocated": lazily(
        r"allocated memory " + _SIZE + r" is allocated|" + _SIZE + r" already allocated|MPS allocated: " + _SIZE
    ),
    "unallocated": lazily(_SIZE + r" is reserved by (?:PyTorch|\w+) but unallocated"),
    "reserved": lazily(_SIZE + r" (?:reserved in total by PyTorch|cached)"),
    "pools": lazily(r"with " + _SIZE + r" allocated in private pools"),
    "allowed": lazily(_SIZE + r" allowed[;.]"),
}
_DEVICE: Final = lazily(r"\b((?:GPU|NPU|XPU|Tile)\s?\d+)(?: has|;)")
_OTHERS: Final = lazily(r"Process (\d+) has " + _SIZE)
_ABSURD: Final = lazily(r"Tried to allocate more than 1EB")


class OutOfDeviceMemory(Record, frozen=True):
    """One refused allocation. Sizes in bytes; None where the wording does not give it.

    `backend` is CUDA, HIP, ...; `in_use` is what this process holds including the
    context; `unallocated` is reserved by torch but free inside its blocks; `others` are
    (pid, bytes) of processes that the message names; `absurd` marks a size that no device has.
    `old` is the wording to torch 2.0, whose allocator has no expandable segments.
    """

    backend: str
    device: str
    tried: int | None
    total: int | None
    free: int | None
    in_use: int | None
    allocated: int | None
    unallocated: int | None
    pools: int | None
    allowed: int | None
    others: tuple[tuple[int, int], ...]
    absurd: bool
    old: bool
    from_exception: bool


def size(number: str, unit: str) -> int:
    """Bytes of a printed size; torch prints two decimals, so this is exact to 0.5%."""
    return round(float(number) * _UNITS[unit.lower()])


def _find(name: str, text: str) -> int | None:
    m = _FIELDS[name].search(text)
    if m is None:
        return None
    parts = [g for g in m.groups() if g is not None]
    try:
        return size(parts[0], parts[1])
    except ValueError:
        return None


def _own(reserved: int, others: tuple[tuple[int, int], ...]) -> tuple[int | None, tuple[tuple[int, int], ...]]:
    """This process among those listed: in a container NVML shows host pids, so torch does not find itself.

    It holds what torch reserved plus a CUDA context and libraries (0.2 to 2 GiB seen).
    """
    fitting = [o for o in others if reserved <= o[1] * 1.005 and o[1] <= reserved * 1.05 + 3 * 2**30]
    if not fitting:
        return None, others
    own = min(fitting, key=lambda o: o[1] - reserved)
    return own[1], tuple(o for o in others if o is not own)


def read(message: Message) -> Iterator[OutOfDeviceMemory]:
    """The refused allocation that `message` reports, if it does."""
    text = " ".join(message.text.split())
    head = _HEAD.search(text)
    if head is None or "DefaultCPUAllocator" in text:
        return
    if message.exception is None and not is_label(text[: head.start()]):
        return  # prose about running out of memory
    allocated, unallocated = _find("allocated", text), _find("unallocated", text)
    reserved = _find("reserved", text)
    if unallocated is None and reserved is not None and allocated is not None:
        unallocated = max(0, reserved - allocated)
    device = _DEVICE.search(text)
    in_use = _find("in_use", text) or reserved
    others = tuple((int(m[1]), size(m[2], m[3])) for m in _OTHERS.finditer(text))
    if in_use is None and allocated is not None:
        in_use, others = _own(allocated + (unallocated or 0), others)
    yield OutOfDeviceMemory(
        message.anchor,
        backend=head["backend"] or "CUDA",
        device=device[1] if device else "",
        tried=_find("tried", text),
        total=_find("total", text),
        free=_find("free", text),
        in_use=in_use,
        allocated=allocated,
        unallocated=unallocated,
        pools=_find("pools", text),
        allowed=_find("allowed", text),
        others=others,
        absurd=bool(_ABSURD.search(text)),
        old="total capacity;" in text,
        from_exception=message.exception is not None,
        **message.common,
    )
