"""The systems that an evaluation compares: their names in report.json, how they are called, and what each is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engine.core.messages.project import SystemName

BM25, BASE, CL, ADAPTED, SERVED = "bm25", "base", "cl", "adapted", "served"
BASE_CSLS = "base_less_hubs"
"""Base with hubs taken off, where what is served is adapted and has them taken off."""
PLAIN = "served_cosine"
"""A merge that is served, by plain cosines, where it is served with hubs taken off."""
HYBRID_BASE, HYBRID_SERVED = "hybrid base", "hybrid served"
"""Of robustness, where hybrid search is measured as it is served alone."""
ENCODERS = (BASE, BASE_CSLS, CL, ADAPTED, PLAIN, SERVED)
"""Those that rank by themselves, and joined with BM25."""
MERGE = "merge-"
"""What a merge's name begins with; its λ follows."""
WAYS = ("", "rrf_", "weighted_")
"""What stands before an encoder's name: nothing, or how its ranking is joined with BM25's."""
JOINED = WAYS[1:]
"""Those of hybrid search."""


@dataclass(frozen=True, slots=True)
class System:
    """`label`: in tables and charts; `short`: where there is little room; `what` it is."""

    name: str
    label: str
    short: str
    what: str


_WITH_ENCODER = (  # label, short form, short form with "hybrid, " before it, what it is
    (BASE, "base", "base", "base", "the encoder before adaptation, by cosine"),
    (
        BASE_CSLS, "base, hubs taken off", "base − hubs", "base − hubs",
        "the encoder before adaptation, with hubs taken off by the same training queries as for what is served",
    ),
    (CL, "CL", "CL (contrastive)", "CL", "the baseline that plain contrastive learning gives, by cosine"),
    (ADAPTED, "adapted", "adapted", "adapted", "the encoder with the whole of its adapter, by cosine"),
    (PLAIN, "served, by cosine", "served, cosine", "cosine", "the encoder that search serves, by cosine: hubs are not taken off"),
    (SERVED, "served", "served", "served", "the encoder that search serves, as search serves it"),
)  # fmt: skip
_JOINED = {
    "rrf_": ("hybrid (RRF)", "joined with BM25 by reciprocal rank fusion"),
    "weighted_": ("hybrid (weighted)", "joined with BM25 by a weighted sum"),
}


def _systems() -> Iterable[System]:
    yield System(BM25, "BM25", "BM25", "search for the words of the query, without an encoder")
    for name, label, short, _, what in _WITH_ENCODER:
        yield System(name, label, short, what)
    for way, (word, how) in _JOINED.items():
        for name, label, _, short, what in _WITH_ENCODER:
            yield System(f"{way}{name}", f"{word}, {label}", f"hybrid, {short}", f"{what}; {how}")
    yield System(
        HYBRID_BASE, HYBRID_BASE, "hybrid, base", "hybrid search with the encoder before adaptation, and BM25 as it is"
    )
    yield System(HYBRID_SERVED, HYBRID_SERVED, "hybrid, served", "hybrid search as search serves it")


SYSTEMS = {system.name: system for system in _systems()}
"""Every system by name, in the order in which reports show them; merges, whose λ differ, come before `adapted`."""


def is_merge(name: str) -> bool:
    """Whether a system is a merge of base and adapted, or one joined with BM25."""
    return _parted(name)[1].startswith(MERGE)


def system_of(name: str) -> System:
    """What a system is. One that is none of ours goes by its own name."""
    if name in SYSTEMS:
        return SYSTEMS[name]
    way, encoder = _parted(name)
    if not encoder.startswith(MERGE):
        return System(name, name, name, "")
    strength, what = encoder.removeprefix(MERGE), "a merge of the encoder before and after adaptation, by cosine"
    if not way:
        return System(name, f"merge, λ = {strength}", f"merge, {strength}", what)
    word, how = _JOINED[way]
    return System(name, f"{word}, merge, λ = {strength}", f"hybrid, {strength}", f"{what}; {how}")


def label_of(name: str) -> str:
    """How tables call a system."""
    return system_of(name).label


def ordered(names: Iterable[str]) -> list[str]:
    """In the order in which reports show them."""
    places = {name: place for place, name in enumerate(SYSTEMS)}

    def place(name: str) -> tuple[float, str]:
        way, encoder = _parted(name)
        return (places[way + ADAPTED] - 0.5 if encoder.startswith(MERGE) else places.get(name, len(places))), name

    return sorted(names, key=place)


def named(names: Iterable[str]) -> dict[str, SystemName]:
    """What systems are called, in the order of reports."""
    systems = map(system_of, ordered(names))
    return {system.name: SystemName(system.label, system.short, system.what) for system in systems}


def _parted(name: str) -> tuple[str, str]:
    """How a system joins, and its encoder."""
    way = next((way for way in _JOINED if name.startswith(way)), "")
    return way, name.removeprefix(way)


def candidate_name(strength: float) -> str:
    """λ → name: 0 is `base`, 1 is `adapted`, between them `merge-0.25` and so on. ValueError outside [0, 1]."""
    if not 0 <= strength <= 1:
        raise ValueError(f"a merge's strength must lie in [0, 1], not {strength}")
    return BASE if strength == 0 else ADAPTED if strength == 1 else f"merge-{strength:g}"


def strength_of(name: str) -> float:
    """Name → λ. ValueError for a name that `candidate_name` does not give."""
    if name in (BASE, ADAPTED):
        return 1.0 if name == ADAPTED else 0.0
    kind, _, strength = name.partition("-")
    if kind != "merge" or not 0 < float(strength) < 1:
        raise ValueError(f"{name!r} is no candidate: base, adapted or merge-λ with λ between 0 and 1")
    return float(strength)
