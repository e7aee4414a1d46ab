"""From what a trace saw inside a function call to the statement that did it, by reading the function's source.

`functions` finds the function in the file, `catalogue` says what a syntax node can show in a
trace, `graph` puts these call sites in evaluation order, `sequence` lays a call's events over them.
"""
