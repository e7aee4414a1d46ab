"""Libraries of different versions or builds were mixed

What it means
    A compiled library was built against another version than the one it met: symbols are
    missing, the C library is too old, the driver is older than the CUDA runtime, or this
    build of torch has no CUDA at all.

Why it happens
    A package compiled for another torch (flash-attn, torchvision, xformers), a system
    cuDNN found before the one in the wheel (LD_LIBRARY_PATH, apt), a container newer than
    the host's driver, `pip install` that replaced the CUDA build by a CPU one.

How to confirm
    `python -m torch.utils.collect_env`; `ldd` on the library that the message names;
    `nvidia-smi` shows the newest CUDA that the driver serves.

How to fix
    Install a build made for the installed torch and CUDA, keep one copy of each CUDA
    library, update the driver.

Limits
    A warning of this kind is a finding above a note only if something failed after it.

References
    - https://docs.nvidia.com/deploy/cuda-compatibility/
    - https://pytorch.org/get-started/previous-versions/
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from necropsy_parsers.messages.loader_error import LoaderError
from necropsy_parsers.numbers import natural
from necropsy_parsers.patterns import lazily

from necropsy.claim import Saying, from_exception, from_record, match, one_line, said, saying
from necropsy.conditions import LIBRARY_CLASH, NO_DEVICE, PROCESS_DIED
from necropsy.evidence.activity import Activity
from necropsy.evidence.exceptions import Exceptions
from necropsy.evidence.library_statuses import LibraryStatuses
from necropsy.evidence.loader_errors import LoaderErrors
from necropsy.evidence.python_warnings import PythonWarnings
from necropsy.finding import Confidence, Finding, Fix, Severity
from necropsy.rule import rule

_ENV: Final = Fix(
    "Compare the versions of torch, CUDA and the package", "command", command="python -m torch.utils.collect_env"
)
_REBUILD: Final = Fix(
    "Install a build of the package made for the installed torch and CUDA, or rebuild it from source", "command"
)
_ONE_CUDNN: Final = Fix(
    (
        "Keep only the cuDNN that torch brings: remove the system's (apt remove libcudnn8 / libcudnn9) "
        "or take its folder out of LD_LIBRARY_PATH"
    ),
    "env",
    command="ldconfig -p | grep cudnn ; echo $LD_LIBRARY_PATH",
)
_DRIVER: Final = Fix(
    "Update the NVIDIA driver, or install a torch built for the CUDA version that the driver serves",
    "command",
    command="nvidia-smi",
)
_CUDA_BUILD: Final = Fix(
    "Install a CUDA build of torch; the installed one is for the CPU only",
    "command",
    command="python -c 'import torch; print(torch.__version__, torch.version.cuda)'",
)
_OLD_SYSTEM: Final = Fix(
    "Run on a newer system image, or install a build made for an older one (manylinux wheel, conda's libstdcxx-ng)",
    "config",
)
SAYINGS: Final = (
    saying(
        (
            r"(?P<lib>\S*(?:cudnn|cublas|nvrtc|cusparse|nccl)[\w.]*\.so[\w.]*)"
            r":? (?:undefined symbol|cannot open shared object|version)"
        ),
        "Mixed CUDA libraries: {lib} does not fit the others that are loaded (undefined symbol or missing version).",
        _ONE_CUDNN,
        _ENV,
    ),
    saying(
        r"^(?:ImportError|OSError|RuntimeError): (?P<lib>\S+\.so[\w.]*): undefined symbol: (?P<symbol>\w+)",
        (
            "{lib} was built against another version: the symbol {symbol} "
            "does not exist in the installed one (ABI mismatch)."
        ),
        _REBUILD,
        _ENV,
    ),
    saying(
        r"version `(?P<what>(?:GLIBC|GLIBCXX|CXXABI)_[\d.]+)' not found(?: \(required by (?P<lib>[^)]+)\))?",
        "The C or C++ library of the system is older than the package needs: {what} not found (version mismatch).",
        _OLD_SYSTEM,
    ),
    saying(
        (
            r"NVIDIA driver on your system is too old \(found version (?P<found>\d+)\)"
            r"|CUDA driver version is insufficient for CUDA runtime version"
        ),
        "The NVIDIA driver is older than the CUDA runtime of this torch (version mismatch{found}).",
        _DRIVER,
    ),
    saying(
        r"Torch not compiled with CUDA enabled|torch\.cuda\.is_available\(\) is False.{0,80}CPU-only",
        "This build of torch has no CUDA: it was compiled without it.",
        _CUDA_BUILD,
        _ENV,
    ),
    saying(
        r"Found no NVIDIA driver on your system",
        "There is no NVIDIA driver where the job ran.",
        Fix("Run on a GPU node, or start the container with GPU access (--gpus all, nvidia runtime)", "config"),
    ),
    saying(
        (
            r"operator torchvision::nms does not exist"
            r"|Couldn't load custom C\+\+ ops"
            r"|[Dd]etected that PyTorch and torch(?P<x>\w+) were compiled with different CUDA (?:major )?versions"
        ),
        "torch and torchvision (or torchaudio) are of versions that do not belong together.",
        Fix("Install the torchvision that was released with the installed torch", "command"),
        _ENV,
    ),
    saying(
        (
            r"cuDNN version incompatibility: PyTorch was compiled\s+"
            r"against (?P<a>\([\d, ]+\)) "
            r"but found runtime version (?P<b>\([\d, ]+\))"
        ),
        "cuDNN version mismatch: torch was compiled against {a} and found {b} at run time.",
        _ONE_CUDNN,
    ),
    saying(
        (
            r"(?:lib(?P<name>cudart|cublas|cudnn|nvrtc|nccl|cusparse|cufft|curand|cusolver|nvJitLink|cupti|nvToolsExt)"
            r"[\w-]*\.so[\w.]*): cannot open shared object file"
            r"|Unable to load any of \{lib(?P<n2>cudnn)"
        ),
        "The CUDA library lib{name}{n2} that the package was built for is not installed (version mismatch).",
        _REBUILD,
        _ENV,
    ),
    saying(
        (
            r"Numpy is not available"
            r"|compiled using NumPy 1\.x cannot be run in"
            r"|numpy\.dtype size changed, may indicate binary incompatibility"
            r"|_ARRAY_API not found"
            r"|numpy\.core\.multiarray failed to import"
        ),
        "A package was compiled against another NumPy than the installed one (ABI mismatch).",
        Fix("Upgrade that package, or install numpy<2", "command", command="python -m pip install 'numpy<2'"),
    ),
    saying(
        (
            r"The detected CUDA version \((?P<a>[\d.]+)\) "
            r"mismatches the version that was used to compile\s+"
            r"PyTorch \((?P<b>[\d.]+)\)"
        ),
        "CUDA {a} on the system does not match CUDA {b} of torch; the extension was not built.",
        Fix("Point CUDA_HOME at the toolkit of torch's version, or install the torch of the system's", "env"),
    ),
    saying(
        (
            r"(?P<what>(?:requires|require|needs) "
            r"(?:torch|transformers|numpy|triton|accelerate|tokenizers|huggingface[-_]hub|flash[-_]attn|CUDA|cuDNN)"
            r" ?(?:version )?[<>=!~]=?[^\n,;]+)"
            r"[^\n]*(?:but found|but you have|is installed|found)[^\n]*"
        ),
        "Package versions do not fit: {what}.",
        _ENV,
    ),
    saying(
        (
            r"cannot import name '(?P<name>\w+)' "
            r"from (?:partially initialized module )?'"
            r"(?P<module>(?:"
            r"torch|transformers|numpy|triton|accelerate|diffusers|huggingface_hub|pytorch_lightning"
            r"|lightning|torchvision|xformers|flash_attn|peft|deepspeed|timm|tokenizers|pydantic|jax|scipy)[\w.]*)'"
        ),
        "`{name}` does not exist in the installed `{module}`: the versions do not fit.",
        Fix("Install the version of the package that the code was written for", "command"),
    ),
)


_FOUND: Final = lazily(r"version mismatch(?P<code>\d{5})\)")


def _message(found: tuple[Saying, re.Match[str]]) -> str:
    """The sentence; a driver's version code (11040) is written as people do (CUDA 11.4)."""
    return _FOUND.sub(
        lambda m: (
            f"version mismatch: the driver serves CUDA {natural(m['code']) // 1000}.{natural(m['code']) % 1000 // 10})"
        ),
        said(found),
    )


def _of_driver(text: str) -> bool:
    return "driver on your system is too old" in text or "Found no NVIDIA driver" in text


def _load_fixes(load: LoaderError) -> tuple[Fix, ...]:
    if "GLIBC" in load.what or "CXXABI" in load.what:
        return (_OLD_SYSTEM,)
    return (_ONE_CUDNN, _ENV) if "cudnn" in load.library.lower() else (_REBUILD, _ENV)


@rule("CRS021", "version-mismatch", Severity.FATAL, aliases=("abi-mismatch", "cudnn-clash"))
def check(
    exceptions: Exceptions, warnings: PythonWarnings, statuses: LibraryStatuses, loads: LoaderErrors, activity: Activity
) -> Iterator[Finding]:
    """Exceptions that say it, the loader's refusals, and warnings that a later failure makes matter."""
    for load in loads:
        yield from_record(
            load,
            (
                f"{load.library} could not be loaded{f' by `{load.program}`' if load.program else ''}: "
                f"{one_line(load.what)} (version mismatch)."
            ),
            Severity.FATAL,
            activity=activity,
            facts={"library": load.library, "loader": load.what},
            fixes=_load_fixes(load),
            leaves=frozenset({PROCESS_DIED}),
        )
    for row in exceptions:
        if (found := match(SAYINGS, row)) is not None:
            yield from_exception(
                row, _message(found), fixes=found[0].fixes, shows=frozenset({NO_DEVICE, LIBRARY_CLASH})
            )
    for w in warnings:
        text = f"{w.category}: {w.message}"
        hit = next(((s, m) for s in SAYINGS if (m := s.pattern.search(text))), None)
        unseen = _of_driver(text)
        if hit is not None:
            yield from_record(
                w,
                _message(hit) + (" torch sees no GPU: a job meant for one runs on the CPU." if unseen else ""),
                Severity.WARNING if unseen else Severity.NOTE,
                fixes=hit[0].fixes,
                facts={"warning": one_line(w.message)},
                confidence=Confidence.LIKELY,
                leaves=frozenset({LIBRARY_CLASH, NO_DEVICE}),
            )
    for s in statuses:
        if "VERSION_MISMATCH" in s.status or "ARCH_MISMATCH" in s.status:
            yield from_record(
                s,
                f"{s.library} reports {s.status}: versions or architecture do not fit.",
                Severity.ERROR,
                fixes=(_ONE_CUDNN, _ENV),
            )
