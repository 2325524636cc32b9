"""The systems that an evaluation compares: names in report.json, labels and descriptions."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

BM25 = "bm25"
BASE = "base"
ADAPTED = "adapted"
IN_USE = "in_use"
HYBRID_BASE = "hybrid base"
HYBRID_IN_USE = "hybrid in use"
"""Systems that only the robustness check measures: hybrid search as it is in use, and with base."""
ENCODERS = (BASE, ADAPTED, IN_USE)
"""The encoders, which rank by themselves and fused with BM25."""
INTERPOLATED = "interpolated-"
"""Prefix of an interpolation of base and adapted; its weight follows."""
WAYS = ("", "rrf_", "weighted_")
"""Prefixes of an encoder's name: none, or how its ranking is fused with BM25's."""
FUSED = WAYS[1:]
"""The prefixes of hybrid search."""


@dataclass(frozen=True, slots=True)
class System:
    """A system that is compared.

    `label`: in tables and charts. `short`: for narrow columns. `what`: a description.
    """

    name: str
    label: str
    short: str
    what: str


# Name, label and description of each encoder; the label is also its short form.
_WITH_ENCODER = (
    (BASE, "base", "the encoder before adaptation"),
    (ADAPTED, "adapted", "the encoder with its adapter at full weight"),
    (IN_USE, "in use", "the encoder as semantic search uses it now"),
)
# Prefix of each kind of fusion → its label and description.
_FUSED = {
    "rrf_": ("hybrid (RRF)", "fused with keyword search by reciprocal rank fusion"),
    "weighted_": ("hybrid (weighted)", "fused with keyword search by a weighted sum"),
}


def _list_systems() -> Iterable[System]:
    """Yield every system in the order of reports, without interpolations."""
    yield System(
        BM25, "keywords (BM25)", "keywords", "search for the words of the query, without an encoder"
    )
    for name, label, what in _WITH_ENCODER:
        yield System(
            name,
            label,
            label,
            what,
        )
    for way, (fusion, how) in _FUSED.items():
        for name, label, what in _WITH_ENCODER:
            yield System(
                f"{way}{name}",
                f"{fusion}, {label}",
                f"hybrid {label}",
                f"{what}; {how}",
            )
    yield System(
        HYBRID_BASE, HYBRID_BASE, "hybrid base", "hybrid search with the encoder before adaptation"
    )
    yield System(
        HYBRID_IN_USE,
        HYBRID_IN_USE,
        "hybrid in use",
        "hybrid search as it is now",
    )


SYSTEMS = {system.name: system for system in _list_systems()}
"""Every system by name, in the order of reports; interpolations come before `adapted`."""


def system_of(name: str) -> System:
    """Return the system with that name; an unknown name is its own label."""
    if name in SYSTEMS:
        return SYSTEMS[name]
    if not name.startswith(INTERPOLATED):
        return System(name, name, name, "")
    weight = name.removeprefix(INTERPOLATED)
    what = "an interpolation of the encoder before and after adaptation"
    return System(
        name,
        f"interpolation, {weight}",
        f"weight {weight}",
        what,
    )


def label_of(name: str) -> str:
    """Return the label of a system in tables."""
    return system_of(name).label


def own_systems(semantic: str, hybrid: str) -> tuple[str, ...]:
    """Return the systems in use, alone and fused.

    `semantic` and `hybrid`: the encoders whose rows these are (base, adapted or `IN_USE`).
    """
    return (semantic, *(f"{way}{hybrid}" for way in FUSED))


IN_USE_ALONE = own_systems(IN_USE, IN_USE)
"""The systems in use if their encoders have rows of their own (`IN_USE`): the usual default."""


def find_twins(own: Collection[str]) -> set[str]:
    """Return the systems that tables leave out, because their rows repeat those of another.

    `own`: the systems in use. If base or adapted is among them, `IN_USE` is the same encoder.
    """
    twins = set()
    for way in WAYS:
        if f"{way}{BASE}" in own or f"{way}{ADAPTED}" in own:
            twins.add(f"{way}{IN_USE}")
    return twins


def sort_systems(names: Iterable[str]) -> list[str]:
    """Return the names in the order of reports."""
    positions = {name: position for position, name in enumerate(SYSTEMS)}

    def sort_key(name: str) -> tuple[float, str]:
        # Interpolations come before `adapted`, and unknown names last.
        if name.startswith(INTERPOLATED):
            return positions[ADAPTED] - 0.5, name
        return positions.get(name, len(positions)), name

    return sorted(names, key=sort_key)


def candidate_name(weight: float) -> str:
    """Return the name for an interpolation weight: `base`, `adapted`, or `interpolated-0.25`.

    Raises ValueError outside [0, 1].
    """
    if not 0 <= weight <= 1:
        raise ValueError(f"an interpolation weight must lie in [0, 1], not {weight}")
    if weight == 0:
        return BASE
    if weight == 1:
        return ADAPTED
    return f"{INTERPOLATED}{weight:g}"


def weight_of(name: str) -> float:
    """Return the interpolation weight of a candidate's name.

    Raises ValueError for a name that `candidate_name` does not give.
    """
    if name == BASE:
        return 0.0
    if name == ADAPTED:
        return 1.0
    if name.startswith(INTERPOLATED):
        weight = float(name.removeprefix(INTERPOLATED))
    else:
        weight = 0.0  # No candidate: refused below.
    if not 0 < weight < 1:
        raise ValueError(
            f"{name!r} is no candidate: base, adapted or {INTERPOLATED}WEIGHT with a weight between"
            " 0 and 1"
        )
    return weight
