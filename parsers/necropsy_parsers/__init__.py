"""Records from bytes: what a GPU run left behind, read without judging it.

`source` opens inputs, `sniff` names their format, `formats` turn them into typed,
anchored records, `issues` counts what could not be read. Nothing here knows about
findings or rules; `necropsy` builds on this package and never the other way round.
"""
