"""What an event leaves behind, and what a later event can be a sign of.

A finding `leaves` conditions and `shows` others; `correlate` hangs a later finding
under an earlier one that left what it shows. The vocabulary is deliberately small:
each word is a state of a process (or of its peers), not a message.
"""

from __future__ import annotations

from typing import Final

NOT_FINITE: Final = "values are not finite"
NO_GRADIENTS: Final = "a step without gradients"
OUT_OF_RANGE: Final = "ids exceed the table that they index"
DEVICE_FAULT: Final = "the CUDA context is unusable"  # every later CUDA call reports the same error
DEVICE_FULL: Final = "device memory is exhausted"
NO_DEVICE: Final = "CUDA could not be initialised"
NO_KERNELS: Final = "the build holds no code for the GPU"
LIBRARY_CLASH: Final = "a CUDA library does not load or fit"
HOST_FULL: Final = "host memory is exhausted"
SHM_FULL: Final = "shared memory is exhausted"
WORKER_DIED: Final = "a worker process is gone"
PEER_ABSENT: Final = "a rank did not take part in a collective"  # late, hung, elsewhere or gone
GARBAGE: Final = "buffers of an unfinished collective hold garbage"
JOB_STOPPED: Final = "the job was told to stop"  # by a scheduler, a launcher or a person
PROCESS_DIED: Final = "a process of the job is gone"
NO_ENGINE: Final = "no TensorRT engine came of a build or a file"

# Conditions that reach beyond the process in which they arose.
SHARED: Final = frozenset({PROCESS_DIED, PEER_ABSENT, GARBAGE, JOB_STOPPED, HOST_FULL, SHM_FULL, WORKER_DIED})
