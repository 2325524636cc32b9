"""What differs between Linux, macOS and Windows, one module for each kind of difference.

No other module asks for the system. A few, which tests/lint/platforms.py lists, choose by `SYSTEM`.
"""

from __future__ import annotations

import sys
from typing import Literal

System = Literal["linux", "macos", "windows"]

if sys.platform == "win32":
    SYSTEM: System = "windows"
elif sys.platform == "darwin":
    SYSTEM: System = "macos"
else:
    SYSTEM: System = "linux"
