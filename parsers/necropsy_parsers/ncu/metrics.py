"""Which metrics are kept, under which names, and what the labels of text pages stand for.

Raw pages and reports name metrics (`sm__throughput.avg.pct_of_peak_sustained_elapsed`); details pages print labels
(`Compute (SM) Throughput`, before 2021 `SM [%]`, before 2020 `SOL SM`). Labels and names are those of the section files
that came with ncu 2019.1 to 2026.3. A report of `--set full` holds some 2,200 metrics of a launch, most of them
minima, maxima and breakdowns that nothing here asks for.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from necropsy_parsers.patterns import lazily

TIME: Final = "gpu__time_duration.sum"
_PEAK: Final = ".avg.pct_of_peak_sustained_"

WANTED: Final = lazily(
    r"(?:gpu__(?:time_duration\.sum|\w*throughput\.avg\.pct_of_peak_sustained_elapsed)"
    r"|(?:sm|l1tex|lts|dram|fbpa)__\w*throughput\.avg\.pct_of_peak_sustained_(?:elapsed|active)"
    r"|(?:sm|smsp|gpc|lts|l1tex|dram)__cycles_(?:active|elapsed)\.(?:avg|sum|max|min)(?:\.per_second)?"
    r"|sm__(?:pipe|inst_executed)_\w+\.avg\.pct_of_peak_sustained_(?:elapsed|active)"
    r"|(?:sm|smsp)__(?:sass_)?(?:thread_)?inst_(?:executed|issued)\w*"
    r"\.(?:sum|avg|ratio)(?:\.per_cycle_(?:active|elapsed)|\.pct_of_peak_sustained_(?:active|elapsed)|\.peak_sustained)?"
    r"|smsp__(?:sass_)?average_\w+\.(?:ratio|pct|max_rate)|smsp__issue_\w+\.avg\.\w+|smsp__warps_\w+\.avg\.\w+"
    r"|sm__warps_active\.avg\.\w+|smsp?__maximum_warps\w*|sm__ops_path_\w+\.sum(?:\.per_cycle_elapsed|\.peak_sustained)"
    r"|smsp__sass_branch_targets_threads_divergent\.\w+|smsp__pcsamp_\w+"
    r"|launch__(?!occupancy_per_)\w+|derived__(?!pct_occupancy|tempMetric)\w+[\w.]*|profiler__\w+"
    # Of 160 attributes those that say which device it is, and what it holds: reading one costs 50 us a launch.
    r"|device__attribute_(?:display_name|compute_capability_m\w+|device_index|multiprocessor_count|total_memory|l2_cache\w+"
    r"|max_\w+_per_(?:multiprocessor|block)|max_\w+_frequency_khz|clock_rate|memory_clock_rate|global_memory_bus_width"
    r"|ecc_enabled|warp_size)"
    r"|dram__(?:bytes|sectors)\w*\.sum(?:\.per_second|\.peak_sustained|\.pct_of_peak_sustained_elapsed)?"
    r"|l1tex__(?:data|t)_\w+\.(?:sum|pct)|l1tex__m_\w*bytes\w*\.sum(?:\.per_second)?"
    r"|lts__(?:t_(?:sectors|bytes|requests|sector)|average_gcomp|gcomp|d_sectors|lts2xbar)\w*"
    r"\.(?:sum|pct|ratio|avg)(?:\.pct_of_peak_sustained_elapsed)?"
    r"|lts__xbar\w+\.sum|(?:sm|smsp|gpu|nvlrx|nvltx|pcie)__\w*bytes\w*\.sum(?:\.per_second)?"
    r"|memory_\w+|smsp__imc_\w+|idc__request\w+\.(?:sum|pct)|numa__\w+)$"
)

# Older names -> the name since 2022 of the same quantity (section files of ncu 2019.1 to 2021.3).
ALIASES: Final = {
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "fbpa__dram_throughput.avg.pct_of_peak_sustained_elapsed": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__throughput.sum.pct_of_peak_sustained_elapsed": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__time_duration.avg": TIME,
    "smsp__cycles_elapsed.avg.per_second": "gpc__cycles_elapsed.avg.per_second",
}

_NAMED: Final = re.compile(r"[A-Za-z]\w*__[\w.:]*\w")
_SOL: Final = "SpeedOfLight"
# Identifier of a section <- its names on details pages, the newest first.
SECTIONS: Final = {
    "GPU Speed Of Light Throughput": _SOL,
    "GPU Speed Of Light": _SOL,
    "Command line profiler metrics": "",
    "Compute Workload Analysis": "ComputeWorkloadAnalysis",
    "Memory Workload Analysis": "MemoryWorkloadAnalysis",
    "Memory Workload Analysis Chart": "MemoryWorkloadAnalysis_Chart",
    "Memory Workload Analysis Tables": "MemoryWorkloadAnalysis_Tables",
    "Scheduler Statistics": "SchedulerStats",
    "Warp State Statistics": "WarpStateStats",
    "Instruction Statistics": "InstructionStats",
    "Launch Statistics": "LaunchStats",
    "Occupancy": "Occupancy",
    "GPU and Memory Workload Distribution": "WorkloadDistribution",
    "Source Counters": "SourceCounters",
    "PM Sampling": "PmSampling",
    "NUMA Affinity": "NumaAffinity",
    "NVLink Topology": "Nvlink_Topology",
    "NVLink Tables": "Nvlink_Tables",
    "NVLink": "Nvlink",
    "C2CLink": "C2CLink",
}
_ROOFLINE: Final = lazily(r"GPU Speed Of Light (?:(?P<all>Hierarchical) )?Roofline Chart(?: \((?P<kind>[^)]+)\))?")
_KINDS: Final = {
    "double precision": "Double", "half precision": "Half", "single precision": "Single", "tensor core": "Tensor",
}  # fmt: skip

# Label, lower case -> name. `SM Busy` and `Issue Slots Busy` are left out: of active cycles in older releases, of all
# cycles in newer ones.
LABELS: Final = {
    "duration": TIME,
    "elapsed cycles": "gpc__cycles_elapsed.max",
    "sm frequency": "gpc__cycles_elapsed.avg.per_second",
    "dram frequency": "dram__cycles_elapsed.avg.per_second",
    "memory frequency": "dram__cycles_elapsed.avg.per_second",
    "compute (sm) throughput": "sm__throughput" + _PEAK + "elapsed",
    "compute (sm) [%]": "sm__throughput" + _PEAK + "elapsed",
    "sm [%]": "sm__throughput" + _PEAK + "elapsed",
    "sol sm": "sm__throughput" + _PEAK + "elapsed",
    "memory [%]": "gpu__compute_memory_throughput" + _PEAK + "elapsed",
    "sol memory": "gpu__compute_memory_throughput" + _PEAK + "elapsed",
    "dram throughput": "gpu__dram_throughput" + _PEAK + "elapsed",
    "sol fb": "gpu__dram_throughput" + _PEAK + "elapsed",
    "sol dram": "gpu__dram_throughput" + _PEAK + "elapsed",
    "l1/tex cache throughput": "l1tex__throughput" + _PEAK + "active",
    "sol l1/tex cache": "l1tex__throughput" + _PEAK + "active",
    "sol tex": "l1tex__throughput" + _PEAK + "active",
    "l2 cache throughput": "lts__throughput" + _PEAK + "elapsed",
    "sol l2": "lts__throughput" + _PEAK + "elapsed",
    "sol l2 cache": "lts__throughput" + _PEAK + "elapsed",
    "sm active cycles": "sm__cycles_active.avg",
    "executed ipc active": "sm__inst_executed.avg.per_cycle_active",
    "executed ipc elapsed": "sm__inst_executed.avg.per_cycle_elapsed",
    "issued ipc active": "sm__inst_issued.avg.per_cycle_active",
    "mem busy": "gpu__compute_memory_access_throughput" + _PEAK + "elapsed",
    "max bandwidth": "gpu__compute_memory_request_throughput" + _PEAK + "elapsed",
    "mem pipes busy": "sm__memory_throughput" + _PEAK + "elapsed",
    "l1/tex hit rate": "l1tex__t_sector_hit_rate.pct",
    "l1 hit rate": "l1tex__t_sector_hit_rate.pct",
    "l2 hit rate": "lts__t_sector_hit_rate.pct",
    "l2 compression success rate": "lts__average_gcomp_input_sector_success_rate.pct",
    "l2 compression ratio": "lts__average_gcomp_output_sector_compression_achieved_rate.ratio",
    "local memory spilling requests": "derived__local_spilling_requests",
    "local memory spilling request overhead": "derived__local_spilling_requests_pct",
    "active warps per scheduler": "smsp__warps_active.avg.per_cycle_active",
    "eligible warps per scheduler": "smsp__warps_eligible.avg.per_cycle_active",
    "issued warp per scheduler": "smsp__issue_active.avg.per_cycle_active",
    "no eligible": "smsp__issue_inst0" + _PEAK + "active",
    "one or more eligible": "smsp__issue_active" + _PEAK + "active",
    "theoretical warps per scheduler": "smsp__maximum_warps_avg_per_active_cycle",
    "warp cycles per issued instruction": "smsp__average_warp_latency_per_inst_issued.ratio",
    "warp cycles per issue active": "smsp__average_warp_latency_per_inst_issued.ratio",
    "warp cycles per executed instruction": "smsp__average_warps_active_per_inst_executed.ratio",
    "avg. active threads per warp": "smsp__thread_inst_executed_per_inst_executed.ratio",
    "avg. not predicated off threads per warp": "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio",
    "executed instructions": "smsp__inst_executed.sum",
    "issued instructions": "smsp__inst_issued.sum",
    "avg. executed instructions per scheduler": "smsp__inst_executed.avg",
    "avg. issued instructions per scheduler": "smsp__inst_issued.avg",
    "block size": "launch__block_size",
    "grid size": "launch__grid_size",
    "cluster size": "launch__cluster_size",
    "threads": "launch__thread_count",
    "waves per sm": "launch__waves_per_multiprocessor",
    "registers per thread": "launch__registers_per_thread",
    "shared memory configuration size": "launch__shared_mem_config_size",
    "static shared memory per block": "launch__shared_mem_per_block_static",
    "dynamic shared memory per block": "launch__shared_mem_per_block_dynamic",
    "driver shared memory per block": "launch__shared_mem_per_block_driver",
    "stack size": "launch__stack_size",
    "# sms": "launch__sm_count",
    "# tpcs": "launch__tpc_count",
    "uses green context": "launch__uses_green_context",
    "theoretical occupancy": "sm__maximum_warps_per_active_cycle_pct",
    "theoretical active warps per sm": "sm__maximum_warps_avg_per_active_cycle",
    "achieved occupancy": "sm__warps_active" + _PEAK + "active",
    "achieved active warps per sm": "sm__warps_active.avg.per_cycle_active",
    "block limit sm": "launch__occupancy_limit_blocks",
    "block limit registers": "launch__occupancy_limit_registers",
    "block limit shared mem": "launch__occupancy_limit_shared_mem",
    "block limit warps": "launch__occupancy_limit_warps",
    "block limit barriers": "launch__occupancy_limit_barriers",
    "max active clusters": "launch__cluster_max_active",
    "max cluster size": "launch__cluster_max_potential_size",
    "cluster occupancy": "launch__occupancy_cluster_pct",
    "overall gpu occupancy": "launch__occupancy_cluster_gpu_pct",
    "branch instructions": "smsp__inst_executed_op_branch.sum",
    "branch instructions ratio": "derived__smsp__inst_executed_op_branch_pct",
    "branch efficiency": "smsp__sass_average_branch_targets_threads_uniform.pct",
    "avg. divergent branches": "smsp__sass_branch_targets_threads_divergent.avg",
    **{
        f"{what} {label} {state} cycles": f"{unit}__cycles_{state}.{roll}"
        for label, unit in (("sm", "sm"), ("smsp", "smsp"), ("l1", "l1tex"), ("l2", "lts"), ("dram", "dram"))
        for what, state, roll in (("average", "active", "avg"), ("total", "elapsed", "sum"))
    },
}


def section(name: str) -> str:
    """The identifier of a section, by its name on details pages; the name itself where it is not NVIDIA's."""
    name = name.strip()
    if (known := SECTIONS.get(name)) is not None:
        return known
    if (m := _ROOFLINE.match(name)) is not None:
        kind = _KINDS.get((m["kind"] or "").lower(), "")
        return f"{_SOL}_Hierarchical{kind}RooflineChart" if m["all"] else f"{_SOL}_RooflineChart"
    return name


@lru_cache(maxsize=4096)
def wanted(name: str) -> bool:
    """Whether a metric is kept."""
    return WANTED.match(name) is not None


@lru_cache(maxsize=4096)
def named(label: str, rate: bool) -> str:
    """The metric that a label of a details page stands for, or "". `rate` says that its unit is bytes in a time."""
    label = label.strip()
    if wanted(label):
        return label
    if "__" in label and (m := _NAMED.search(label)) is not None:  # alone, or beside its label (`label-name`)
        return m[0] if wanted(m[0]) else ""
    key = label.lower()
    if key == "memory throughput":  # of the device's memory in the section on memory, of all memory among the speeds
        return "dram__bytes.sum.per_second" if rate else "gpu__compute_memory_throughput" + _PEAK + "elapsed"
    return LABELS.get(key, "")


def canonical(metrics: dict[str, float]) -> dict[str, float]:
    """The metrics with today's names beside those of older releases."""
    found = dict(metrics)
    for old, new in ALIASES.items():
        if new not in found and old in found:
            found[new] = found[old]
    return found


def by_identity(attribute: str) -> bool:
    """Whether an attribute is words that are worth keeping."""
    return attribute in (
        "device__attribute_display_name",
        "launch__func_cache_config",
        "launch__cluster_scheduling_policy",
    )
