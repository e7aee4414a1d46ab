"""What helps when a compilation fails; the advice of `_failure_causes`."""

from __future__ import annotations

from typing import Final

from necropsy.finding import Fix

ROOM: Final = Fix(
    "Free space, or let TORCHINDUCTOR_CACHE_DIR and TRITON_CACHE_DIR name a folder with room",
    "env",
    command="df -h /tmp ; df -i /tmp",
)
WRITABLE: Final = Fix(
    "Let TORCHINDUCTOR_CACHE_DIR and TRITON_CACHE_DIR name a folder that this user may write and execute from",
    "env",
    command="export TORCHINDUCTOR_CACHE_DIR=$HOME/.cache/torchinductor TRITON_CACHE_DIR=$HOME/.cache/triton",
)
CACHE: Final = Fix(
    "Give each job a cache folder of its own that nobody cleans while it runs (TORCHINDUCTOR_CACHE_DIR)", "env"
)
MEMORY: Final = Fix(
    "Compile with fewer processes at once, and look for a kill record of the kernel",
    "env",
    command="export TORCHINDUCTOR_COMPILE_THREADS=1 ; dmesg | grep -i oom",
)
GPU: Final = Fix(
    "Run without torch.compile on this GPU (backend='aot_eager' or 'cudagraphs'), or on one of capability 7.0 or newer",
    "config",
)
PTXAS: Final = Fix(
    "Upgrade torch and Triton, or let TRITON_PTXAS_PATH name the ptxas of a newer CUDA toolkit",
    "env",
    command="export TRITON_PTXAS_PATH=$CUDA_HOME/bin/ptxas",
)
TRITON: Final = Fix(
    "See whether the Python that runs the program imports Triton; if not, install it with that very Python",
    "command",
    command="python -c 'import sys, triton; print(sys.executable, triton.__file__, triton.__version__)'",
)
CC: Final = Fix(
    "Install a C compiler in the image (build-essential, gcc), or name one",
    "env",
    command="export CC=/usr/bin/gcc",
)
DEV: Final = Fix(
    "Install the headers of the Python that runs the program (python3-dev, python3.12-devel, conda's python)",
    "command",
    command="python -c 'import sysconfig; print(sysconfig.get_paths()[\"include\"])'",
)
LIBCUDA: Final = Fix(
    "Start the container with the driver's libraries (--gpus all), refresh the linker's cache, or name their folder",
    "env",
    command="ldconfig -p | grep libcuda ; export TRITON_LIBCUDA_PATH=/usr/lib/x86_64-linux-gnu",
)
EXTENSION: Final = Fix(
    "Install a complete C++ compiler (g++, build-essential; Windows: Visual Studio's C++ build tools), or name one",
    "env",
    command="export CXX=/usr/bin/g++ ; $CXX --version",
)
ENGLISH: Final = Fix("Add the English language pack in the Visual Studio installer", "config")
VCVARS: Final = Fix(
    "Start the program from an `x64 Native Tools Command Prompt`, or run vcvars64.bat before it",
    "env",
    command='call "C:\\Program Files\\Microsoft Visual Studio\\2022\\BuildTools\\VC\\Auxiliary\\Build\\vcvars64.bat"',
)
OMP: Final = Fix(
    "Name a compiler with OpenMP in CXX, or install its runtime (macOS: brew install libomp; conda: llvm-openmp)", "env"
)
NEWER_CXX: Final = Fix("Use a newer compiler: name it in CXX (conda's gxx_linux-64, devtoolset, gcc 9 or newer)", "env")
SHARED_MEMORY: Final = Fix("Use smaller blocks or fewer `num_stages` in this kernel's configuration", "code")
UNBACKED: Final = Fix(
    "Tell the compiler what holds of the value: torch._check(...) before the line; or keep the value out of shapes",
    "code",
)
FAKE_KERNEL: Final = Fix(
    "Register one that makes an empty result of the right shape and dtype: @OPERATOR.register_fake, of operators in "
    'C++ @torch.library.register_fake("NAMESPACE::NAME")',
    "code",
)
CUSTOM_OP: Final = Fix(
    "Wrap what reads the memory in a custom operator (torch.library.custom_op) with a fake kernel, or keep it out of "
    "the compiled function (torch.compiler.disable)",
    "code",
)
CHECK_EAGER: Final = Fix(
    "Run the function without torch.compile: the same line should raise, with the shapes in its message",
    "code",
)
MINIFY: Final = Fix(
    "Make a small reproduction and report it",
    "command",
    command="TORCHDYNAMO_REPRO_AFTER=aot TORCHDYNAMO_REPRO_LEVEL=2 python YOUR_SCRIPT.py",
)
DISABLE: Final = Fix(
    "Leave this function uncompiled until it is fixed: decorate it with @torch.compiler.disable", "code"
)
ONE_BUCKET: Final = Fix(
    "Turn it off (gradients are then reduced after the whole backward pass of each graph), or run torch 2.6 or newer",
    "config",
    command="torch._dynamo.config.optimize_ddp = False",
)
