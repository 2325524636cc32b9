"""The files that ship with the product: in a checkout's `assets`, or inside the wheel."""

from __future__ import annotations

from pathlib import Path

from engine.core.errors import EngineError

_ROOTS = (
    Path(__file__).resolve().parents[2] / "assets",
    Path(__file__).resolve().parents[1] / "_assets",
)


def asset_path(name: str) -> Path:
    """Return the path of a shipped file or folder, such as `report/report.html.j2`.

    Raises EngineError if it is missing.
    """
    for root in _ROOTS:
        if (root / name).exists():
            return root / name
    raise EngineError(
        f"The file assets/{name} is missing.",
        "The installation is incomplete.",
        "Install bmembed-tui again.",
        code="installation-incomplete",
    )
