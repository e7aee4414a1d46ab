"""What the columns of a trace mean: steps, launches, the functions they belong to, and where time went.

Everything here works on whole columns (numpy); `rank` is the entry: one process's trace
with its links, each computed when a rule first asks for it. Nothing here is imported
before a trace was read.
"""
