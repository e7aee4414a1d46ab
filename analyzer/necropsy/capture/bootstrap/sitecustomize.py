"""Starts the collectors of `necropsy capture` in a Python process of the job, then the user's own sitecustomize.

`site` imports this module when the interpreter starts, because its folder stands first on PYTHONPATH. Interpreters
before 3.10 (a build tool, a system script) pass through untouched.
"""

import sys

if sys.version_info >= (3, 10):  # noqa: UP036
    try:
        import _necropsy_capture

        _necropsy_capture.start()
    except Exception:
        pass  # whatever it is, the job comes first; what could be noted is in the run folder


def _chain() -> None:
    """Import the next sitecustomize on the path as if this folder were not there."""
    import os

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if not entry or os.path.abspath(entry) != here]
    sys.path_importer_cache.pop(here, None)
    sys.modules.pop("sitecustomize", None)
    import sitecustomize  # noqa: F401


# Not guarded: errors in it are reported by `site` as they would be without this folder.
_chain()
