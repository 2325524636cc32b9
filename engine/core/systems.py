"""The systems that an evaluation compares: their names in report.json, how they are called, and
what each is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

BM25 = "bm25"
BASE = "base"
ADAPTED = "adapted"
IN_USE = "in_use"
HYBRID_BASE = "hybrid base"
HYBRID_IN_USE = "hybrid in use"
"""Of robustness, where hybrid search is measured only as it is in use."""
ENCODERS = (BASE, ADAPTED, IN_USE)
"""Those that rank by themselves, and fused with BM25."""
INTERPOLATED = "interpolated-"
"""What the name of an interpolation of base and adapted begins with; its weight follows."""
WAYS = ("", "rrf_", "weighted_")
"""What stands before an encoder's name: nothing, or how its ranking is fused with BM25's."""
FUSED = WAYS[1:]
"""Those of hybrid search."""


@dataclass(frozen=True, slots=True)
class System:
    """`label`: in tables and charts; `short`: where there is little room; `what` it is."""

    name: str
    label: str
    short: str
    what: str


_WITH_ENCODER = (  # label and short form, what it is
    (BASE, "base", "the encoder before adaptation"),
    (ADAPTED, "adapted", "the encoder with its adapter at full weight"),
    (IN_USE, "in use", "the encoder as semantic search uses it now"),
)
_FUSED = {
    "rrf_": ("hybrid (RRF)", "fused with keyword search by reciprocal rank fusion"),
    "weighted_": ("hybrid (weighted)", "fused with keyword search by a weighted sum"),
}


def _systems() -> Iterable[System]:
    yield System(
        BM25, "keywords (BM25)", "keywords", "search for the words of the query, without an encoder"
    )
    for name, label, what in _WITH_ENCODER:
        yield System(name, label, label, what)
    for way, (word, how) in _FUSED.items():
        for name, label, what in _WITH_ENCODER:
            yield System(f"{way}{name}", f"{word}, {label}", f"hybrid {label}", f"{what}; {how}")
    yield System(
        HYBRID_BASE, HYBRID_BASE, "hybrid base", "hybrid search with the encoder before adaptation"
    )
    yield System(HYBRID_IN_USE, HYBRID_IN_USE, "hybrid in use", "hybrid search as it is now")


SYSTEMS = {system.name: system for system in _systems()}
"""Every system by name, in the order in which reports show them; interpolations come before
`adapted`.
"""


def system_of(name: str) -> System:
    """What a system is. One that is none of ours goes by its own name."""
    if name in SYSTEMS:
        return SYSTEMS[name]
    if not name.startswith(INTERPOLATED):
        return System(name, name, name, "")
    weight = name.removeprefix(INTERPOLATED)
    what = "an interpolation of the encoder before and after adaptation"
    return System(name, f"interpolation, {weight}", f"weight {weight}", what)


def label_of(name: str) -> str:
    """How tables call a system."""
    return system_of(name).label


def own_systems(semantic: str, hybrid: str) -> tuple[str, ...]:
    """Return the systems that are what is in use, alone and fused: `semantic` and `hybrid` name
    the encoders whose rows those are (base, adapted or `IN_USE`).
    """
    return (semantic, *(f"{way}{hybrid}" for way in FUSED))


IN_USE_ALONE = own_systems(IN_USE, IN_USE)
"""Where nothing is known of what is in use but that it has rows of its own."""


def twins(own: Collection[str]) -> set[str]:
    """Return the systems that tables leave out, because their rows are those of one of `own`."""
    in_use = {f"{way}{IN_USE}": {f"{way}{BASE}", f"{way}{ADAPTED}"} for way in WAYS}
    return {name for name, others in in_use.items() if others & set(own)}


def ordered(names: Iterable[str]) -> list[str]:
    """In the order in which reports show them."""
    places = {name: place for place, name in enumerate(SYSTEMS)}

    def place(name: str) -> tuple[float, str]:
        return (
            places[ADAPTED] - 0.5
            if name.startswith(INTERPOLATED)
            else places.get(name, len(places))
        ), name

    return sorted(names, key=place)


def candidate_name(weight: float) -> str:
    """Interpolation weight → name: 0 is `base`, 1 is `adapted`, between them `interpolated-0.25`
    and so on. ValueError outside [0, 1].
    """
    if not 0 <= weight <= 1:
        raise ValueError(f"an interpolation weight must lie in [0, 1], not {weight}")
    if weight == 0:
        return BASE
    if weight == 1:
        return ADAPTED
    return f"{INTERPOLATED}{weight:g}"


def weight_of(name: str) -> float:
    """Name → interpolation weight. ValueError for a name that `candidate_name` does not give."""
    if name in (BASE, ADAPTED):
        return 1.0 if name == ADAPTED else 0.0
    if name.startswith(INTERPOLATED):
        weight = float(name.removeprefix(INTERPOLATED))
    else:
        weight = 0.0
    if not 0 < weight < 1:
        raise ValueError(
            f"{name!r} is no candidate: base, adapted or {INTERPOLATED}WEIGHT with a weight between"
            " 0 and 1"
        )
    return weight
