"""Python for Windows under Wine: where it lies, its environment and its command line."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("BMEMBED_WINE", ROOT / "build" / "windows"))
PYTHON = FOLDER / "python"
# Hypothesis reads the source of every module that is neither here nor the standard library's.
SITE = PYTHON / "Lib" / "site-packages"
PREFIX = FOLDER / "prefix"
REPORT_SECONDS = 30.0  # that Python has to say where it hangs
LIBRARIES = PREFIX / "drive_c" / "windows" / "system32"


def windows_path(path: Path) -> str:
    """Return a path of this system as programs under Wine know it."""
    return "Z:" + str(path.absolute()).replace("/", "\\")


def build_environment(seconds: float = 0.0) -> dict[str, str]:
    """Return the environment of programs under Wine.

    `seconds`: after these, each Python prints where its threads are and ends.
    """
    folders = (
        ROOT,
        ROOT / "tests",
        Path(__file__).with_name("hook"),
    )
    return {
        **os.environ,
        "WINEPREFIX": str(PREFIX),
        "WINEDEBUG": "-all",
        "WINEDLLOVERRIDES": "mscoree,mshtml=;wbemprox,explorer.exe=d",
        "KMP_AFFINITY": "disabled",
        # Modules are compiled once, whatever the shell has set.
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": windows_path(FOLDER / "compiled"),
        "BMEMBED_WINE_SECONDS": str(seconds),
        "OMP_WAIT_POLICY": "PASSIVE",
        "PYTHONPATH": ";".join(windows_path(folder) for folder in folders),
    }


def build_command(arguments: Sequence[str]) -> list[str]:
    """Return the command line of Python for Windows."""
    return [
        "wine",
        str(PYTHON / "python.exe"),
        "-P",
        *arguments,
    ]


def run_python(arguments: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
    """Run Python for Windows to its end; its output is a pipe, which Wine needs."""
    return subprocess.run(
        build_command(arguments),
        env=build_environment(seconds),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        timeout=seconds + REPORT_SECONDS,
        check=False,
    )
