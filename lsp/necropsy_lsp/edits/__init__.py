"""Changes of a source text that a syntax tree proves: one kind a file, found by walking.

Each kind declares one `Edit`; `table` says which fix of a finding asks for which kind.
Nothing here runs or imports the text. A change is given only when the text with the
change parses to the tree that was wanted, and every comment is still in it.
"""
