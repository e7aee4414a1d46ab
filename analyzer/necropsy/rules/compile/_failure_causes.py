"""Why a compilation failed: wordings of compilers, of Triton and of torch, what they mean and what helps.

The first that fits wins; what is about the machine stands before what is about the program, since a missing compiler
also ends in `C++ compile error`. Wordings are from torch 2.1 to 2.13, Triton 2.1 to 3.5, GCC, Clang, MSVC and nvcc.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from msgspec import Struct

from necropsy.finding import Confidence, Fix
from necropsy.rules.compile._failure_fixes import (
    CACHE,
    CC,
    CHECK_EAGER,
    CUSTOM_OP,
    DEV,
    DISABLE,
    ENGLISH,
    EXTENSION,
    FAKE_KERNEL,
    GPU,
    LIBCUDA,
    MEMORY,
    MINIFY,
    NEWER_CXX,
    OMP,
    ONE_BUCKET,
    PTXAS,
    ROOM,
    SHARED_MEMORY,
    TRITON,
    UNBACKED,
    VCVARS,
    WRITABLE,
)

ENVIRONMENT: Final = "environment"
PROGRAM: Final = "program"
TORCH: Final = "torch"


class Cause(Struct, frozen=True):
    """A wording and its meaning.

    `says` is a clause in which `{name}` stands for the pattern's groups; `side` tells whose
    fault it is: the machine's, the program's, or torch's own.
    """

    key: str
    side: str
    regex: str
    says: str
    fixes: tuple[Fix, ...]
    confidence: Confidence = Confidence.CERTAIN

    @property
    def pattern(self) -> re.Pattern[str]:
        """The compiled wording."""
        return _compiled(self.regex)


@cache
def _compiled(regex: str) -> re.Pattern[str]:
    return re.compile(regex, re.MULTILINE)


def _machine(key: str, regex: str, says: str, *fixes: Fix) -> Cause:
    return Cause(key, ENVIRONMENT, regex, says, fixes)


# Operators of torch's own, for which the user registers no kernels.
_TORCHS: Final = r"(?:aten|prims?|quantized)\b[\w:.]*"
# torch/_library/fake_impl.py and custom_ops.py (2.4 to 2.13), and the dispatcher's words for operators in C++.
_NO_FAKE: Final = (
    r"no fake impl registered for <CustomOpDef\((?P<op>{name})\)>"
    r"|(?P<op2>{name}): attempted to run this operator with Meta tensors, but there was no (?:fake|abstract) impl"
    r"|Could not run '(?P<op3>{name})' with arguments from the 'Meta' backend"
    r"|UnsupportedOperatorException: (?P<op4>{name})"
)

CAUSES: Final = (
    _machine("disk-full", r"No space left on device|Errno 28\b|Disk quota exceeded|not enough space on the disk",
             "the disk or quota is full where compiled code is kept (TORCHINDUCTOR_CACHE_DIR, else /tmp)", ROOM),
    _machine("cache-not-writable",
             r"(?:Permission denied|Read-only file system|Access is denied)[^\n]*?(?P<path>[/\\][^\s'\"]*"
             r"(?:torchinductor_|\.triton|triton[/\\]|[Tt]e?mp)[^\s'\"]*)",
             "the folder of compiled code cannot be written ({path})", WRITABLE),
    _machine("cache-not-executable", r"(?P<path>\S+\.so): failed to map segment from shared object",
             "compiled code cannot be loaded from {path}: that file system forbids execution (noexec)", WRITABLE),
    _machine("cache-gone", r"FileNotFoundError: [^\n]*No such file or directory: '(?P<path>[^'\n]*"
             r"(?:torchinductor_|\.triton[/\\]cache)[^'\n]*)'",
             "a file of the compile cache vanished ({path}): another process or a cleaner of /tmp removed it", CACHE),
    _machine("compiler-killed", r"fatal error: Killed signal terminated program|virtual memory exhausted"
             r"|Cannot allocate memory|out of memory allocating \d+ bytes",
             "the host ran out of memory while its C++ compiler ran", MEMORY),
    _machine("worker-died", r"process in the process pool was terminated abruptly"
             r"|compilation subprocess exited unexpectedly|BrokenProcessPool",
             "a compile worker process died, which most often means that the host ran out of memory", MEMORY),
    _machine("gpu-too-old", r"Found (?P<gpu>[^\n]{1,80}?) which is too old to be supported by the triton GPU compiler"
             r"(?:.*?capability (?P<cc>\d+\.\d+)\s*$)?",
             "the GPU {gpu} is too old for Triton, which needs compute capability 7.0 or newer (it has {cc})", GPU),
    _machine("ptxas-too-old", r"[Vv]alue '(?P<sm>sm_\w+)' is not defined for option 'gpu-name'"
             r"|'(?P<sm2>sm_\w+)' is not a recognized processor",
             "Triton's ptxas is older than the GPU: it does not know {sm}{sm2}", PTXAS),
    _machine("triton-missing", r"Cannot find a working triton installation|No module named 'triton(?:\.\w+)*'",
             "Python finds no working Triton, which Inductor needs for GPU code", TRITON),
    _machine("no-c-compiler", r"Failed to find C compiler\. Please specify via CC",
             "Triton found no C compiler, which it needs to build its launcher", CC),
    _machine("msvc-x86", r"Optimizing Compiler Version (?P<version>[\d.]+) for x86\s*$",
             "MSVC's `cl` ran without the environment of its x64 tools: it is the compiler for x86 (32 bit), and the "
             "include paths of the 64-bit toolset do not reach it", VCVARS),
    _machine("python-headers", r"Python\.h: No such file or directory|'Python\.h' file not found"
             r"|Cannot open include file: 'Python\.h'",
             "the C headers of Python (Python.h) are not installed", DEV),
    _machine("libcuda", r"libcuda\.so cannot found|cannot find -l:?(?:lib)?cuda\b",
             "Triton finds no libcuda.so, the library of the NVIDIA driver", LIBCUDA),
    _machine("no-cxx-compiler", r"No working C\+\+ compiler found in (?:[\w.]+): (?P<tried>[^\n]+)",
             "there is no working C++ compiler (tried {tried})", EXTENSION),
    _machine("no-cxx-compiler", r"Compiler: (?P<tried>\S+) is not found"
             r"|No such file or directory: '(?P<tried2>(?:[^'\n]*[/\\])?(?:g\+\+|gcc|c\+\+|clang\+\+|cl|cl\.exe))'",
             "there is no C++ compiler `{tried}{tried2}` on this machine's PATH", EXTENSION),
    _machine("msvc-language", r"only support MSVC with English language pack",
             "MSVC speaks another language than English, and Inductor reads its messages", ENGLISH),
    _machine("msvc-environment", r"error C1083: Cannot open include file: '(?P<header>[\w./]+)'"
             r"|LINK : fatal error LNK1104: cannot open file '(?P<lib>[\w.]+)'"
             r"|fatal error LNK1112: module machine type '[^']*' conflicts",
             "MSVC's build environment is not set up: INCLUDE or LIB does not lead to {header}{lib}", VCVARS),
    _machine("openmp", r"'omp\.h' file not found|omp\.h: No such file|unsupported option '-fopenmp'"
             r"|cannot find -l[gi]?omp\w*|library '?(?:lib)?omp'? not found|OpenMP support not found",
             "the C++ compiler has no OpenMP headers or library, which Inductor's CPU code uses", OMP),
    _machine("old-compiler", r"unrecognized (?:command[- ]line )?(?:option|argument) ['‘\"](?P<option>[^'’\"\n]+)"
             r"|invalid value '(?P<value>c\+\+\d\w)' in '-std"
             r"|You need C\+\+(?P<standard>\d\d) to compile PyTorch|error: #error C\+\+\d\d",
             "the C++ compiler is too old for the generated code ({option}{value}{standard})", NEWER_CXX),
    _machine("torch-headers", r"(?:fatal error: '?|include file: ')"
             r"(?P<header>(?:torch|ATen|c10)/[\w./]+)'?(?:: No such| file not)",
             "torch's own header {header} is missing: this installation of torch is damaged", Fix(
                 "Install torch again, in a fresh environment", "command")),
    _machine("system-headers", r"fatal error: (?P<header>[\w./+-]+): No such file or directory"
             r"|fatal error: '(?P<header2>[\w./+-]+)' file not found",
             "the C++ compiler does not find the header {header}{header2}: its installation is incomplete", EXTENSION),
    _machine("library-not-found", r"ld(?:\.exe)?: cannot find (?P<lib>-l\S+|\S+\.[oa])",
             "the linker does not find {lib}", EXTENSION),
    _machine("nvcc-missing", r"nvcc: (?:command )?not found|CUDA_HOME environment variable is not set"
             r"|No such file or directory: '(?P<path>[^'\n]*nvcc)'",
             "there is no nvcc, which Inductor's CUTLASS backend needs", Fix(
                 "Install the CUDA toolkit and set CUDA_HOME, or leave CUTLASS out of max_autotune_gemm_backends",
                 "env")),
    Cause("ddp-higher-order", PROGRAM, r"DDPOptimizer backend: Found a higher order op in the graph",
          "DistributedDataParallel's optimizer cannot cut a graph with a higher-order operator (activation "
          "checkpointing, `torch.cond`) into buckets", (ONE_BUCKET,)),
    Cause("shared-memory", PROGRAM, r"out of resource: (?P<what>[\w ]+), Required: (?P<need>\d+), "
          r"Hardware limit: (?P<limit>\d+)",
          "a Triton kernel needs {need} of {what} where the GPU has {limit}", (SHARED_MEMORY,)),
    Cause("arch-feature", PROGRAM, r"Feature '(?P<what>[^'\n]+)' requires \.target (?P<sm>sm_\w+) or higher"
          r"|type (?P<type>fp8\w+) not supported in this architecture",
          "the GPU lacks what the kernel asks for ({what}{type}{sm})",
          (Fix("Use a number format that this GPU has (float16 or float32), or a newer GPU", "code"),)),
    Cause("ptxas", TORCH, r"Triton PTX codegen error|`ptxas` failed with error code (?P<code>-?\d+)|ptxas fatal",
          "ptxas rejects the code that Triton generated", (PTXAS, MINIFY)),
    Cause("compiler-crashed", TORCH, r"internal compiler error: [^\n]*|PassManager::run failed|LLVM ERROR: [^\n]*",
          "the compiler of the generated code failed by itself", (MINIFY, DISABLE)),
    Cause("dynamic-dimension", PROGRAM, r"You marked (?P<dim>\S+) as dynamic but your code specialized it to be a "
          r"constant \((?P<value>[^)\n]+)\)",
          "{dim} is marked dynamic, but the code fixes it to {value}",
          (Fix("Remove the comparison that fixes the size, or use torch._dynamo.maybe_mark_dynamic", "code"),)),
    Cause("dynamic-dimension", PROGRAM, r"Constraints violated ?(?:\((?P<dim>[^)\n]*\)?[^)\n]*)\))?!"
          r"|Not all values of (?P<range>[^\n]+?) (?:are valid|satisfy)",
          "the code asks more of a dynamic size than its declaration says ({dim}{range})",
          (Fix("Change the line that fixes or limits the size; or leave the size to torch: Dim.AUTO for torch.export, "
               "torch._dynamo.maybe_mark_dynamic for torch.compile", "code"),)),
    Cause("data-dependent", PROGRAM, r"Could not (?:guard on|extract specialized integer from) "
          r"data-dependent expression (?P<what>[^\n(]+)",
          "the program depends on a value that is unknown while compiling ({what})", (UNBACKED,)),
    Cause("no-meta-kernel", TORCH, _NO_FAKE.replace("{name}", _TORCHS),
          "torch's operator `{op}{op2}{op3}{op4}` has no fake kernel, which tells the compiler what it returns: it "
          "only runs eagerly", (DISABLE,)),
    Cause("no-fake-kernel", PROGRAM, _NO_FAKE.replace("{name}", r"[\w:.]+"),
          "the custom operator `{op}{op2}{op3}{op4}` has no fake kernel, which tells the compiler what it returns",
          (FAKE_KERNEL,)),
    Cause("reads-memory", PROGRAM, r"its data is not allocated yet|Cannot access (?:data pointer|storage) of Tensor"
          r"|access the data pointer on a [\w ]*Tensor that doesn't have storage",
          "{operation} reads the memory of its tensors, of which there is none while compiling", (CUSTOM_OP,)),
    Cause("fake-tensor", PROGRAM, r"TorchRuntimeError",
          "{operation} fails with these arguments ({reason}), most likely without the compiler, too", (CHECK_EAGER,)),
)  # fmt: skip
