"""TORCH_TRACE: the structured log of torch's compiler, from bytes to the records that its text log gives, too.

`framing` cuts the bytes into entries, `entry` says whose they are; each module of `structured.kinds` reads some kinds
of entries, `reading` runs them in one pass. What nothing here reads is passed over without being decoded.
"""
