"""Loaded by Python under Wine alone: hides a function that Wine 8 announces but does not have.

Also ends a Python that hangs, after it has printed where.
"""

import _winapi
import faulthandler
import os
import sys

if hasattr(_winapi, "CopyFile2"):
    del _winapi.CopyFile2

_seconds = float(os.environ.get("BMEMBED_WINE_SECONDS", "0"))
if _seconds and sys.stderr is not None:
    faulthandler.dump_traceback_later(_seconds, exit=True)
