"""From evidence to a line of the user's Python. Nothing else in the package decides on lines.

In order, the best one wins, and a place says how it was found and how exact it is:

1. What the text says: `frames` picks the user's frame of a stack; `breaks`, `recompiles`, `guards`, `sizes`, `dynamo`,
   `triton` and `device_faults` read the compiler's and the runtime's own words.
2. Kernels of generated code: `inductor` joins names, nodes of graphs and torch's own provenance; `cpp_kernels` goes by
   the buffers that a kernel writes.
3. Functions that traces name: `resolvers` make them lines by generated code, by marks, and by the statements of the
   source (`statements`).
4. `paths`, `files`, `standing` and `notebooks` find the source on this machine, and say where it has changed; the
   language server asks `paths`, too.
"""
