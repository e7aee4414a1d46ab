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
