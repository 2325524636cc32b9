"""The user's choice of theme, in the user's state folder. The file may be lost without harm."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def _get_theme_file() -> Path:
    from platformdirs import user_state_path

    return user_state_path("bmembed", appauthor=False) / "theme"


def read_theme() -> str:
    """Return the name of the chosen theme; empty if there is none or it cannot be read."""
    try:
        return _get_theme_file().read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


def save_theme(name: str) -> None:
    """Save the theme for the next start."""
    target = _get_theme_file()
    with suppress(OSError):  # the app works without it
        target.parent.mkdir(
            mode=0o700,
            parents=True,
            exist_ok=True,
        )
        target.write_text(f"{name}\n", encoding="utf-8")
