"""Loaded by Python under Wine alone: hides a function that Wine 8 announces but does not have.

Also ends a Python that hangs, after it has printed where, and remembers the real paths of files,
for which Wine asks three processes. Wine has no links, and torch asks for those of all modules.
"""

import _winapi
import faulthandler
import functools
import ntpath
import os
import sys

if hasattr(_winapi, "CopyFile2"):
    del _winapi.CopyFile2

_find_realpath = ntpath.realpath
_remember_realpath = functools.lru_cache(maxsize=None)(_find_realpath)


def _realpath(path, *, strict=False):
    if strict or not ntpath.isabs(path):
        return _find_realpath(path, strict=strict)
    return _remember_realpath(os.fspath(path))


ntpath.realpath = _realpath

_seconds = float(os.environ.get("BMEMBED_WINE_SECONDS", "0"))
if _seconds and sys.stderr is not None:
    faulthandler.dump_traceback_later(_seconds, exit=True)
