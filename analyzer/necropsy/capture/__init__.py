"""Runs a job as it would run without it, with collectors in its Python processes, and keeps what they leave.

`plan` decides what to collect, `job` runs the command and passes everything on, `folder` holds the run folder with its
manifest. What runs inside of the job is in `bootstrap/`, which no module here imports.
"""
