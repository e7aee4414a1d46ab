"""Printed by the user's interpreter as JSON: what is there for a capture. Standard library only, Python 3.10 and newer.

Run as a script, never imported: `python probe.py`.
"""

import importlib
import json
import sys
from typing import Any


def version(name: str) -> tuple[str | None, str]:
    """The version of a module, or why it cannot be imported ("" when it is not installed)."""
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        return None, "" if error.name == name else str(error)
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"
    return str(getattr(module, "__version__", "") or "installed"), ""


def main() -> None:
    """Ask for each module, and torch for its devices."""
    found: dict[str, Any] = {
        "python": sys.version.split()[0],
        "executable": sys.executable,
        "modules": {},
        "devices": [],
    }
    for name in ("torch", "triton", "nvtx", "tensorrt", "tensorrt_rtx"):
        is_there, error = version(name)
        found["modules"][name] = {"version": is_there, "error": error[:300]}
    torch: Any = sys.modules.get("torch")
    try:
        found["cuda"] = torch.version.cuda or ""
        found["hip"] = getattr(torch.version, "hip", None) or ""
        found["available"] = torch.cuda.is_available()
        found["devices"] = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        found["profiler"] = sorted(str(a).rpartition(".")[2] for a in torch.profiler.supported_activities())
    except Exception as error:
        found["trouble"] = f"{type(error).__name__}: {error}"[:300]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
