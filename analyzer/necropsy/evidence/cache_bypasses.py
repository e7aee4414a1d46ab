"""Graphs that torch's compiler kept out of its cache."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.messages.cache_bypass import CacheBypass

from necropsy.evidence._records import COMMON, RecordTable


class CacheBypasses(RecordTable[CacheBypass]):
    """One row a graph and cache."""

    name = "cache_bypasses"
    row = CacheBypass
    accepts = (CacheBypass,)
    formats = ("log", "elastic_error_file", "torch_trace")
    supply = "the log of a run with TORCH_LOGS=inductor,aot"
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "cache": "FX graph cache or autograd cache",
        "reason": "why, in torch's words",
    }
