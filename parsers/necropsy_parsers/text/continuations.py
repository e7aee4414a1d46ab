"""What may go on with an exception's message, and what cannot: words of torch, NCCL, Triton, compilers, launchers."""

from __future__ import annotations

import re
from typing import Final

# Lines without indentation that torch, NCCL and Triton write after the first line of a message.
CONTINUES: Final = re.compile(
    r"Search for `cuda|CUDA kernel errors might|For debugging consider|Compile with `TORCH_USE|Device-side assert"
    r"|from user code:|Set TORCH|You can suppress|ncclInvalid|ncclUnhandled|ncclSystem|ncclInternal|ncclRemote"
    r"|Last error:|Exception raised from|frame #\d+|C\+\+ CapturedTraceback|The above|Original Traceback|-- Process"
    r'|"""|While executing|GraphModule|Explanation:|Hint:|Developer debug|For more details|Parameter(?:s| indices)'
    r"|Duplicate GPU|size mismatch for|Missing key|Unexpected key|making sure|If you already|In addition|\{|\}|\]|\)"
    r"|User [Ss]tack|Found from ?:|Caused by: |For extended logs|For more information, run|If you suspect the guard"
    r"|ATTENTION: guard_size|Potential framework code culprit|consider using data-dependent"
    r"|For more debugging help|For C\+\+ stack|Command:$|Output:$|Name=\w+$|OpenMP support not found"
)
# Headings of the user's stack inside a message: Dynamo's, symbolic shapes', Inductor's (torch 2.11 and later).
USER_STACK: Final = re.compile(r"from user code:|User [Ss]tack(?: \(most recent call last\))?:|Found from ?:")
# What compilers, linkers and assemblers write behind a blank line; Inductor quotes their output in its exception.
COMPILER_SAYS: Final = re.compile(
    r"\S*\.(?:cpp|cc|cu|cuh|h|hpp|c|o|obj|so|lib|exp|pyd|dll)\b"
    r"|\S*(?:g\+\+|clang|\bcl|\bld|collect2|cc1plus|nvcc|ptxas|c\+\+|link|LINK|icx)[\w.-]*\s?: "
    r"|In file|compilation terminated|\d+ (?:errors?|warnings?) |Microsoft|Copyright|Generating|Creating library"
    r"|\([1-9]\) "
)
SUBPROCESS: Final = re.compile(r"An exception occurred in a subprocess:$|^Name=[\w<>]+$")
# What ends a message: the next thing that a shell, launcher or logger says.
ENDS: Final = re.compile(
    r"exit(?: code)? ?\d|wandb:|srun:|slurmstepd|terminate called|Killed$|Aborted|Segmentation fault"
    r"|real\t|make: |\$ |\+ "
    r"|Epoch|AUTOTUNE \w"
)
