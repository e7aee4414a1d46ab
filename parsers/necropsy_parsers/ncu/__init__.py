"""Nsight Compute: what a report, its CSV and its text pages say of each profiled launch, in one form.

Four kinds of input hold the same things in different words. A `.ncu-rep` is decoded by NVIDIA's `ncu-report` in
short-lived processes (`decode`, `worker`); what that library has no call for (process, Python stack) is read
from the file's own frames (`container`). CSV (`table`) and text (`page`) are read here. All of them yield
`records.Launch`: metrics under ncu's own names (`metrics`), in base units (`units`).
"""
