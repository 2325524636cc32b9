"""The system libraries that the window needs on Linux, without which Qt ends the process."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping

from engine.core.errors import EngineError

# Library → Debian's package. Qt's window on X11 needs these; systems without a desktop lack some.
FOR_X11 = {
    "libX11-xcb.so.1": "libx11-xcb1",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-render.so.0": "libxcb-render0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-shm.so.0": "libxcb-shm0",
    "libxcb-sync.so.1": "libxcb-sync1",
    "libxcb-util.so.1": "libxcb-util1",
    "libxcb-xfixes.so.0": "libxcb-xfixes0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
}
# Qt's web view needs these.
FOR_PAGES = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libXcomposite.so.1": "libxcomposite1",
    "libXdamage.so.1": "libxdamage1",
    "libXrandr.so.2": "libxrandr2",
    "libXtst.so.6": "libxtst6",
    "libasound.so.2": "libasound2",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
    "libgbm.so.1": "libgbm1",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libnspr4.so": "libnspr4",
    "libnss3.so": "libnss3",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libxkbfile.so.1": "libxkbfile1",
}


def list_needed_libraries() -> Mapping[str, str]:
    """Return the libraries that the present display needs, with Debian's package for each."""
    if os.environ.get("WAYLAND_DISPLAY"):
        return FOR_PAGES
    return {**FOR_PAGES, **FOR_X11}


def find_missing_libraries() -> dict[str, str]:
    """Return the needed libraries that cannot be loaded, with Debian's package for each."""
    return {
        name: package for name, package in list_needed_libraries().items() if not _can_load(name)
    }


def _can_load(name: str) -> bool:
    """Return whether the system has a library, such as `libEGL.so.1`."""
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def check_libraries() -> None:
    """Raise EngineError that names the missing libraries. For Linux."""
    missing = find_missing_libraries()
    if missing:
        names = ", ".join(missing)
        packages = " ".join(missing.values())
        raise EngineError(
            f"A window cannot be opened: the system lacks {names}. Install them (Debian"
            f" and Ubuntu: apt install {packages}), or use bmembed-tui, which works"
            " in a terminal.",
            code="window-unavailable",
        )


if __name__ == "__main__":
    for name, package in find_missing_libraries().items():
        print(f"THE WINDOW IS NOT TESTED: {name} is not installed (Debian: {package}).")
