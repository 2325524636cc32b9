"""The ablations of the BMEmbed paper as cells, in this program's settings (METHODS.md §1, appendix D)."""

from __future__ import annotations

from typing import Any

from engine.core.errors import UsageError

_LISTS: dict[str, Any] = {"training.objective": "listnet"}
_COARSE, _UNIFORM = "fine-to-coarse", "uniform"


def _relevant(k: int, m: int, strategy: str, inverse_alpha: float) -> dict[str, Any]:
    alpha = round(1 / inverse_alpha, 4)
    own = {"ranking.k": k, "ranking.m": m, "ranking.strategy": strategy, "training.teacher_temperature": alpha}
    return {**_LISTS, **own}


TABLES: dict[str, list[dict[str, Any]]] = {
    # fewer queries, more lists of each: as many lists in all
    "table-9": [
        {**_LISTS, "training.query_share": share, "ranking.lists_per_query": lists}
        for share, lists in ((1.0, 1), (0.5, 2), (0.25, 4))
    ],
    # m and strategy at k = 1,000; k at m = 10; 1/α at k = 500 and m = 10
    "table-10": [
        *(_relevant(1000, m, strategy, 1.0) for strategy in (_COARSE, _UNIFORM) for m in range(6, 11)),
        *(_relevant(k, 10, strategy, 1.0) for strategy in (_COARSE, _UNIFORM) for k in (500, 200)),
        *(_relevant(500, 10, _COARSE, inverse) for inverse in (0.1, 0.2, 0.5, 0.7)),
    ],
}


def table(name: str) -> list[dict[str, Any]]:
    """The cells of a table: setting → value. Raises UsageError for a name that is none."""
    if name not in TABLES:
        known = ", ".join(TABLES)
        raise UsageError(
            f"There is no table '{name}'.", f"Known are {known}.", "Name one of them, or use --grid.",
            code="table-unknown",
        )  # fmt: skip
    return TABLES[name]
