"""Names of Python frames in traces: `train.py(84): main`, `torch/nn/modules/module.py(1773): _call_impl`.

Kineto cuts the prefixes of `sys.path` from files, so that a package looks like a folder
of the program. Frames of built-in functions and of `nn.Module`s have no file.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from typing import Final

from msgspec import Struct

from necropsy_parsers.numbers import natural
from necropsy_parsers.trace.marks import place_of

from necropsy.provenance.frames import is_library

_FRAME: Final = re.compile(r"^(?P<file>.+?)\((?P<line>\d+)\): (?P<function>.*)$", re.S)
# The fuller name of 2024's traces: `train.py(84): Trainer.main` stays; `<lambda>` is one, too.

# Packages that a training script imports. A project whose own package has one of these names is told by its
# frames being the only ones (see `Frames`).
PACKAGES: Final = frozenset(
    """
    torch torchvision torchaudio torchtext torchdata torchao torchtitan torchtune functorch torchgen triton numpy scipy
    pandas sklearn PIL cv2 matplotlib tqdm einops transformers diffusers accelerate datasets tokenizers safetensors peft
    trl timm lightning lightning_fabric lightning_utilities pytorch_lightning torchmetrics deepspeed megatron apex
    flash_attn xformers bitsandbytes transformer_engine vllm sglang tensorrt torch_tensorrt onnx onnxruntime ray
    wandb tensorboard mlflow hydra omegaconf fsspec huggingface_hub requests urllib3 yaml pydantic fastapi uvicorn
    starlette anyio click typer rich IPython ipykernel traitlets tornado zmq jupyter_client colossalai fairscale
    composer streaming monai detectron2 mmcv mmengine mmdet ultralytics kornia albumentations webdataset nvidia cupy
    numba jax flax joblib dill cloudpickle dask distributed psutil sympy networkx debugpy pydevd _pydevd_bundle pytest
    _pytest pluggy torch_npu torch_xla habana_frameworks aiter liger_kernel unsloth fla mamba_ssm causal_conv1d
    flashinfer triton_kernels deep_gemm deep_ep tensorrt_llm lmdeploy mooncake
    torch_geometric torch_scatter dgl gym gymnasium stable_baselines3 decorator cachetools absl attr attrs packaging
    site-packages dist-packages
    """.split()
)


class FrameName(Struct, frozen=True):
    """A frame's name taken apart; `kind` is user, package, python, builtin or module.

    `mark`: it is a line that a capture marked, in a trace without frames, and has no function.
    """

    kind: str
    file: str = ""
    line: int | None = None
    function: str = ""
    mark: bool = False


@lru_cache(maxsize=65536)
def parsed(name: str) -> FrameName:
    """The parts of a frame's name."""
    if (marked := place_of(name)) is not None:
        return FrameName("user", *marked, mark=True)
    if name.startswith("<built-in") or name.startswith("<method") or name.startswith("<slot"):
        return FrameName("builtin", function=name)
    if name.startswith("nn.Module: "):
        return FrameName("module", function=name.removeprefix("nn.Module: "))
    m = _FRAME.match(name)
    if m is None:
        return FrameName("builtin", function=name)
    file = m["file"]
    return FrameName(_kind(file), file, natural(m["line"]), m["function"].strip())


def _kind(file: str) -> str:
    if is_library(file) or file.startswith(("<", "{")):
        return "python"
    parts = file.replace("\\", "/").lstrip("/").split("/")
    if file.startswith("/") or re.match(r"[A-Za-z]:", file):
        return "user"  # no prefix of sys.path was cut: installed packages would have lost theirs
    top = parts[0].removesuffix(".py")
    if top in PACKAGES:
        return "package"
    return "python" if top in sys.stdlib_module_names and not _shadowed(parts) else "user"


def _shadowed(parts: list[str]) -> bool:
    """`code/train.py` and `test/run.py` are projects more often than the standard library's modules."""
    return len(parts) > 1 and parts[0] in ("code", "test", "profile", "site", "symbol", "token", "types", "test.py")
