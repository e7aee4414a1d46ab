"""The artifacts that `TORCH_LOGS` can print, by release, and how modules declare what they read of them.

The names and the releases that first registered them are those of torch/_logging/_registrations.py in the wheels of
2.1.2, 2.2.2, 2.3.1, 2.4.1, 2.5.1, 2.6.0, 2.7.1, 2.8.0, 2.9.1, 2.10.0, 2.11.0, 2.12.0 and 2.13.0.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

RELEASES: Final = ("2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8", "2.9", "2.10", "2.11", "2.12", "2.13")
_REGISTERED: Final = {
    "2.1": (
        "guards verbose_guards bytecode graph graph_code graph_sizes trace_source trace_call aot_graphs "
        "aot_joint_graph ddp_graphs recompiles graph_breaks not_implemented output_code schedule perf_hints "
        "onnx_diagnostics"
    ),
    "2.2": "post_grad_graphs compiled_autograd recompiles_verbose fusion overlap",
    "2.3": "cudagraphs sym_node",
    "2.4": "trace_bytecode compiled_autograd_verbose kernel_code",
    "2.5": "aot_graphs_effects loop_ordering trace_shape_events cudagraph_static_inputs benchmarking",
    "2.6": "graph_region_expansion",
    "2.7": "pre_grad_graphs ir_pre_fusion ir_post_fusion autotuning",
    "2.8": "graph_code_verbose loop_tiling inductor_metrics hierarchical_compile",
    "2.9": "compute_dependencies",
    "2.10": "node_runtime_estimation annotation",
    "2.11": "side_effects auto_chunker overlap_scheduling caching",
    "2.13": "incremental",
}
ARTIFACTS: Final = {name: release for release, names in _REGISTERED.items() for name in names.split()}

# Why nobody reads an artifact: its lines are counted and passed over. Where another one tells the same, which.
PASSED_OVER: Final = {
    "annotation": "marks that the program itself put on nodes",
    "aot_graphs_effects": "order of side effects inside a graph; nothing to act on",
    "aot_joint_graph": "the graph before it is cut into forward and backward; `aot_graphs` gives both with their lines",
    "auto_chunker": "how a large output layer is cut into chunks; a choice, no fault",
    "autotuning": "source and seconds of each trial; the table of trials (AUTOTUNE, on stderr) is read",
    "benchmarking": "the timer's own notes; what was measured is read in `fusion` and in the table of trials",
    "bytecode": "bytecode before and after Dynamo; `graph_breaks` names the line",
    "caching": "loading and saving of a cache of choices; what is kept out of the cache of graphs is read (`aot`)",
    "compiled_autograd": "the backward pass as a graph without lines; `compiled_autograd_verbose` says why",
    "compute_dependencies": "which operations wait for which; nothing to act on",
    "cudagraph_static_inputs": "numbers of inputs that keep their address; `cudagraphs` says why a graph is not used",
    "ddp_graphs": "the graphs as cut into buckets; how many buckets, and of what size, is read (`dynamo`)",
    "graph": "nodes in a table without lines; `graph_code` gives the same with lines",
    "graph_code_verbose": "graphs after small passes of Dynamo; `graph_code` has their lines",
    "graph_region_expansion": "search for equal regions; nothing to act on",
    "graph_sizes": "sizes of each node; `recompiles` and `dynamic` name those that change",
    "hierarchical_compile": "regions that are compiled once for all their calls; nothing to act on",
    "incremental": "kernels tuned while the job runs; a choice, no fault",
    "inductor_metrics": "estimates of bytes and time of each operation; a trace has what it really took",
    "kernel_code": "code of each kernel; `output_code` gives the same with the order of calls",
    "loop_ordering": "tries to bring loops into one order; where that fails, `fusion` has the refusal",
    "loop_tiling": "scores of tilings; those that are bad are read (`perf_hints`)",
    "node_runtime_estimation": "estimates; a trace has what it really took",
    "not_implemented": "operators that a tensor subclass handed on; if none takes them, the exception is read",
    "onnx_diagnostics": "torch.onnx's own reports",
    "overlap": "order of collectives and computation by estimates; a trace shows what overlapped",
    "overlap_scheduling": "as `overlap`",
    "pre_grad_graphs": "graphs before AOT autograd; `graph_code` has their lines",
    "sym_node": "each operation on a symbolic size; guards and specialised sizes are read (`dynamic`)",
    "trace_bytecode": "each instruction that Dynamo traced; `graph_breaks` names the line",
    "trace_call": "columns of each call in a graph; `graph_code` names the line",
    "trace_shape_events": "calls into the shape environment; guards and specialised sizes are read (`dynamic`)",
    "verbose_guards": "as `guards`, with code of torch's own",
}


class Reads(Struct, frozen=True):
    """What a module reads of an artifact, from release `since` to `until` ("" for the newest).

    `artifact` is "" for lines that torch's compiler prints without one; `what` names the fields. One that `quotes`
    programs line by line may hold any word: a traceback in it is none.
    """

    artifact: str
    since: str
    what: str
    until: str = ""
    quotes: bool = False

    def covers(self, release: str) -> bool:
        """Whether it reads what that release prints."""
        first, last = RELEASES.index(self.since), RELEASES.index(self.until or RELEASES[-1])
        return first <= RELEASES.index(release) <= last
