"""The extra `desktop`, and a shortcut to its window among the system's applications."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from engine import __version__
from engine.core.assets import asset_path
from engine.core.errors import EngineError, reason_of
from engine.core.extras import install_command, missing_packages
from engine.core.platforms import SYSTEM, System
from engine.core.platforms.own_parts import system_program, without_console

NAME = "bmembed"
POWERSHELL = system_program("WindowsPowerShell", "v1.0", "powershell.exe")
LINK_SECONDS = 60.0  # for PowerShell to start and write the link
_LINK_SCRIPT = """
$link = (New-Object -ComObject WScript.Shell).CreateShortcut($env:BMEMBED_LINK)
$link.TargetPath = $env:BMEMBED_PROGRAM
$link.Arguments = $env:BMEMBED_ARGUMENTS
$link.Save()
"""
COMMAND = (
    sys.executable,
    "-P",
    "-m",
    "bmembed_tui.window.desktop",
)


def check_extra() -> None:
    """Raise EngineError where a package of the extra `desktop` is missing."""
    missing = missing_packages("desktop")
    if SYSTEM == "linux" and importlib.util.find_spec("PySide6") is None:
        missing.append("PySide6")  # elsewhere the system has a web view of its own
    if missing:
        raise EngineError(
            f"A window cannot be opened: {missing[0]} is not installed. Install what it needs "
            f"({install_command('desktop')}), or use bmembed-tui.",
            code="window-unavailable",
        )


def install_shortcut(
    system: System = SYSTEM, home: Path | None = None, command: Sequence[str] = COMMAND
) -> list[Path]:
    """Write a shortcut to a command and its icon, for this user, and return the files.

    Raises EngineError where they cannot be written.
    """
    home = home or Path.home()
    try:
        if system == "macos":
            return _install_on_macos(home, command)
        if system == "windows":
            return _install_on_windows(home, command)
        return _install_on_linux(home, command)
    except (OSError, subprocess.SubprocessError) as error:
        raise EngineError(
            "The shortcut could not be made.",
            reason_of(error),
            "Check the folder's permissions.",
            code="write-failed",
        ) from error


def _install_on_linux(home: Path, command: Sequence[str]) -> list[Path]:
    """Write to freedesktop.org's folders applications/ and icons/hicolor/ of the user's data."""
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    icons = data / "icons" / "hicolor"
    assets = asset_path("desktop")
    copies = {
        icons / "scalable" / "apps" / f"{NAME}.svg": assets / "bmembed.svg",
        icons / "256x256" / "apps" / f"{NAME}.png": assets / "bmembed.png",
    }
    for target, source in copies.items():
        _copy(source, target)
    entry = data / "applications" / f"{NAME}.desktop"
    text = (assets / "bmembed.desktop").read_text(encoding="utf-8")
    quoted = " ".join(_quote(part) for part in command)
    _write(entry, re.sub(r"(?m)^Exec=.*$", lambda _match: f"Exec={quoted}", text))
    return [entry, *copies]


def _quote(part: str) -> str:
    r"""Return an argument of Exec as the desktop entry specification demands.

    One with a reserved character is quoted, then escaped as a string value: `a b$` becomes
    `"a b\\$"`.
    """
    if not re.search(r'[\s"\'\\><~|&;$*?#()`%]', part):
        return part
    escaped = re.sub(r'(["`$\\])', r"\\\1", part).replace("%", "%%")
    return f'"{escaped}"'.replace("\\", "\\\\")


def _install_on_macos(home: Path, command: Sequence[str]) -> list[Path]:
    """Write an application folder that runs the command."""
    import plistlib  # It parses XML, and the app starts without it.

    bundle = home / "Applications" / f"{NAME}.app" / "Contents"
    program = bundle / "MacOS" / NAME
    plist = bundle / "Info.plist"
    icon = bundle / "Resources" / f"{NAME}.icns"
    _write(program, f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    program.chmod(0o755)
    facts = {
        "CFBundleName": NAME,
        "CFBundleExecutable": NAME,
        "CFBundleIconFile": NAME,
        "CFBundlePackageType": "APPL",
        "CFBundleIdentifier": f"org.{NAME}.desktop",
        "CFBundleInfoDictionaryVersion": "6.0",
        "CFBundleShortVersionString": __version__,
        "CFBundleVersion": __version__,
        "NSHighResolutionCapable": True,
        # Otherwise macOS would run a script with Rosetta.
        "LSArchitecturePriority": ["arm64", "x86_64"],
    }
    plist.write_bytes(plistlib.dumps(facts))
    _copy(asset_path("desktop") / "bmembed.icns", icon)
    return [plist, program, icon]


def _install_on_windows(home: Path, command: Sequence[str]) -> list[Path]:
    """Have PowerShell write a link into the start menu, since links are binary files."""
    data = Path(os.environ.get("APPDATA") or home / "AppData" / "Roaming")
    link = data / "Microsoft" / "Windows" / "Start Menu" / "Programs" / f"{NAME}.lnk"
    link.parent.mkdir(parents=True, exist_ok=True)
    # pythonw.exe opens no console window.
    program = Path(command[0]).with_name("pythonw.exe")
    values = {
        "BMEMBED_LINK": str(link),
        "BMEMBED_PROGRAM": str(program),
        # An embedded Python ignores variables, so that UTF-8 is an option.
        "BMEMBED_ARGUMENTS": subprocess.list2cmdline(["-X", "utf8", *command[1:]]),
    }
    subprocess.run(
        [POWERSHELL, "-NoProfile", "-NonInteractive", "-Command", _LINK_SCRIPT],
        env={**os.environ, **values},
        check=True,
        timeout=LINK_SECONDS,
        capture_output=True,
        **without_console(),
    )
    return [link]


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
