"""Findings in an editor: stored reports become diagnostics on the lines they name.

`stored` reads reports, `mapping` says which local file a reported path means, `convert`
turns findings into protocol types, `features` holds one editor feature per file, and
`server` wires them to pygls.
"""
