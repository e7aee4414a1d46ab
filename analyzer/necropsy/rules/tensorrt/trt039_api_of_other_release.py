"""The program calls TensorRT's Python API of another release

What it means
    A class of TensorRT has no attribute of the name that the program uses: the script was written for
    another major release than the one that is installed.

Why it happens
    TensorRT 10 removed what numbers inputs and outputs as bindings, implicit batch and engines that
    are built and not serialized; their successors came with 8.0 to 8.5. Where `tensorrt` is not pinned
    pip installs the newest. The other way about, a new script meets an old release.

How to confirm
    `python -c "import tensorrt; print(tensorrt.__version__)"` in the program's environment.

How to fix
    Call the successor that is named, or pin the release that the script was written for.

Limits
    Precision flags and calibrators, which TensorRT 11 removed, are told by TRT009. Of names that are
    not in NVIDIA's migration guides only the exception is told.

References
    - https://docs.nvidia.com/deeplearning/tensorrt/latest/api/migration/tensorrt-8x-to-10x-python-api-reference.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy.claim import from_exception
from necropsy.conditions import NO_ENGINE, PROCESS_DIED
from necropsy.evidence.exceptions import Exceptions
from necropsy.finding import Finding, Fix, Severity
from necropsy.rule import rule

_MISSING: Final = re.compile(
    r"(?:type object |module )?'(?P<where>(?:tensorrt\w*\.)*(?:tensorrt\w*|[A-Z]\w+))' (?:object )?has no attribute "
    r"'(?P<name>\w+)'"
)
# Removed up to 10.0 (the guide from 8.x to 10.x; what the builder held itself, in 8.0), and what took their place.
_REMOVED: Final = {
    "num_bindings": "num_io_tensors",
    "binding_is_input": "get_tensor_mode(name)",
    "get_binding_name": "get_tensor_name(i)",
    "get_binding_index": "tensors by their names",
    "get_binding_shape": "get_tensor_shape(name)",
    "get_binding_dtype": "get_tensor_dtype(name)",
    "get_binding_format": "get_tensor_format(name)",
    "get_binding_vectorized_dim": "get_tensor_vectorized_dim(name)",
    "get_binding_bytes_per_component": "get_tensor_bytes_per_component(name)",
    "get_binding_components_per_element": "get_tensor_components_per_element(name)",
    "is_shape_binding": "is_shape_inference_io(name)",
    "is_execution_binding": "tensors by their names",
    "get_location": "get_tensor_location(name)",
    "get_profile_shape": "get_tensor_profile_shape(name, profile)",
    "get_profile_shape_input": "get_tensor_profile_values(profile, name)",
    "has_implicit_batch_dimension": "explicit batch, which is all that there is",
    "max_batch_size": "explicit batch: the first dimension of the profile's shapes",
    "execute": "execute_v2(bindings)",
    "execute_async": "execute_async_v3(stream) after set_tensor_address(name, pointer)",
    "execute_async_v2": "execute_async_v3(stream) after set_tensor_address(name, pointer)",
    "set_binding_shape": "set_input_shape(name, shape)",
    "set_shape_input": "set_tensor_address(name, pointer)",
    "get_strides": "get_tensor_strides(name)",
    "build_engine": "build_serialized_network(network, config)",
    "build_cuda_engine": "build_serialized_network(network, config)",
    "fp16_mode": "the builder's configuration, or the model's own types from release 11 on",
    "int8_mode": "the builder's configuration, or the model's own types from release 11 on",
    "strict_type_constraints": "the builder's configuration, or the model's own types from release 11 on",
    "max_workspace_size": "set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, bytes)",
    "min_timing_iterations": "avg_timing_iterations",
    "add_convolution": "add_convolution_nd",
    "add_deconvolution": "add_deconvolution_nd",
    "add_pooling": "add_pooling_nd",
    "add_padding": "add_padding_nd",
    "add_fully_connected": "add_matrix_multiply",
    "add_rnn_v2": "add_loop",
    "UffParser": "OnnxParser: export the model to ONNX",
    "CaffeParser": "OnnxParser: export the model to ONNX",
}
# Classes that nobody else has.
_OWN: Final = frozenset({"ICudaEngine", "IExecutionContext", "IBuilderConfig", "INetworkDefinition"})
# Added, with the release that brought them.
_ADDED: Final = {
    "num_io_tensors": "8.5", "get_tensor_name": "8.5", "get_tensor_mode": "8.5", "get_tensor_shape": "8.5",
    "get_tensor_dtype": "8.5", "set_tensor_address": "8.5", "set_input_shape": "8.5", "execute_async_v3": "8.5",
    "TensorIOMode": "8.5", "set_memory_pool_limit": "8.4", "MemoryPoolType": "8.4",
    "build_serialized_network": "8.0", "builder_optimization_level": "8.6",
}  # fmt: skip


@rule("TRT039", "api-of-other-release", Severity.FATAL)
def check(exceptions: Exceptions) -> Iterator[Finding]:
    """One finding an exception."""
    for row in exceptions:
        m = _MISSING.search(row.text) if row.name == "AttributeError" else None
        if m is None:
            continue
        name = m["name"]
        owner = m["where"].rsplit(".", 1)[-1]
        if "tensorrt" not in m["where"] and owner not in _OWN:
            continue
        if successor := _REMOVED.get(name):
            text = (
                f"TensorRT's {owner} has no {name} any more: a newer release removed it; instead there is {successor}."
            )
            fix = Fix(f"Use {successor}", "code")
            old = owner == "Builder" and name not in {"max_batch_size", "build_engine"}
            pin = Fix("Or stay on the release that the script was written for", "config", command=_pip("<10"))
            pins = () if old or owner == "tensorrt" else (pin,)
        elif since := _ADDED.get(name):
            text = f"TensorRT's {owner} has no {name} yet: it came with release {since}, and an older one is installed."
            fix = Fix(f"Install TensorRT {since} or later", "config", command=_pip(f">={since}"))
            pins = (Fix("Or use the API of the release that is installed", "code"),)
        else:
            continue
        yield from_exception(
            row,
            text,
            facts={"class": owner, "missing": name},
            fixes=(fix, *pins),
            leaves=frozenset({NO_ENGINE, PROCESS_DIED}),
        )


def _pip(bound: str) -> str:
    return f'pip install "tensorrt{bound}"'
