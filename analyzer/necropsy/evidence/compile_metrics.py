"""What compilations say of themselves at their end, in structured logs."""

from __future__ import annotations

from typing import ClassVar

from necropsy_parsers.structured.kinds.metrics import CompilationMetrics

from necropsy.evidence._records import COMMON, RecordTable


class CompileMetrics(RecordTable[CompilationMetrics]):
    """One row a compilation, and one a backward graph."""

    name = "compile_metrics"
    row = CompilationMetrics
    accepts = (CompilationMetrics,)
    formats = ("torch_trace",)
    supply = "structured logs of the run (TORCH_TRACE=folder)"
    columns: ClassVar[dict[str, str]] = {
        **COMMON,
        "compile_id": "Dynamo's frame/compilation, without the number of the restart",
        "backward": "the backward graph's, which is compiled at its first use",
        "function": "function as Dynamo names it",
        "file": "its file",
        "line": "line of its header",
        "entire": "seconds that the frame took, all in all",
        "backend": "seconds of it in AOT autograd and the backend",
        "inductor": "seconds of that in Inductor",
        "codegen": "seconds of that for generating code",
        "restarts": "why the analysis began anew",
        "before_restart": "seconds of analysis thrown away by restarts; all of it where the compilation failed",
        "failure": "class of the exception that ended it, or empty",
        "fail_reason": "what it said",
        "fail_file": "the user's file at which it failed",
        "fail_line": "line in it",
        "ops": "operators in the graph",
        "guards": "guards of the compiled code",
        "cudagraphs_skipped": "why CUDA graphs were left out, or empty",
    }
