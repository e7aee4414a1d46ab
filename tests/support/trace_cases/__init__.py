"""The programs whose traces are the fixtures of rules about traces: `python -m tests.support.trace_cases` writes them.

One module a family; each function of `CASES` (rule and case, `DAT001/fires-slow-loader`)
returns a `TraceBuilder`. The written files are what tests read; one test holds that the
programs still write them.
"""
