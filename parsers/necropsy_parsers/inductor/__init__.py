"""What Inductor writes about a graph, as text: generated code, graphs with the program's lines, stacks of kernels.

The same text stands in logs (`TORCH_LOGS`), in folders (`TORCH_COMPILE_DEBUG`) and in structured logs (`TORCH_TRACE`).
Each module here reads one kind of it line by line, so that all three can feed it.
"""
