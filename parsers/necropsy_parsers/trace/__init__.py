"""Chrome-trace JSON as torch's profiler writes it: from bytes to columns, in flat memory.

`pieces` cuts the stream at event boundaries, `event` decodes a piece at once (msgspec),
`repair` reads the events of a piece that is not JSON one by one, `kinds` says which
columns an event of each kind has, `columns` keeps them (spilled to a temporary file when
they are many), `reader` puts it together. The measured design is in
docs/decisions/0008-traces-are-columns.md.

Nothing here is imported until a trace is read: numpy alone takes longer to import than
a log to be analyzed.
"""
