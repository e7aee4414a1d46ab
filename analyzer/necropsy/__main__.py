"""`python -P -m necropsy`: the same as the console script.

Without `-P` Python puts the working folder first on the path, where a user's own
`dataclasses.py` would be imported instead of the library's; the console script does not.
"""

from __future__ import annotations

from necropsy.commands import main

if __name__ == "__main__":
    main()
