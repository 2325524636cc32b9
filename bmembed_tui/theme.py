"""The theme that the user has chosen, in their state folder. Losing it loses nothing."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def _file() -> Path:
    from platformdirs import user_state_path

    return user_state_path("bmembed", appauthor=False) / "theme"


def read_theme() -> str:
    """Its name; empty where none was chosen, or what was cannot be read."""
    try:
        return _file().read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


def save_theme(name: str) -> None:
    """Take it at the next start, too."""
    target = _file()
    with suppress(OSError):  # what cannot be kept must not keep anyone from working
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        target.write_text(f"{name}\n", encoding="utf-8")
