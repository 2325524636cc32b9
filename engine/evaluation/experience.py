"""What adaptation did to public collections, as a prior for a project without enough evidence of
its own.

`assets/experience.json` is made by `tests/benchmarks/experience.py`. Collections that share
documents with a project are left out of its prior, so that nothing is expected of a collection
because of itself.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal

from engine.core.assets import asset_path
from engine.core.disk import file_sha256
from engine.core.errors import EngineError
from engine.core.messages.report import SearchMode
from engine.metrics.random_effects import MIN_COLLECTIONS, Normal, predicted_effect

QueryOrigin = Literal["model-written", "extractive"]
WIDENING = 2.0
"""Of an encoder that nothing was measured with, the standard deviation is so many times √(mean²
+ deviation²): too wide for experience to suffice without evidence of the project's own.
"""
SHARED = 0.1
"""Of a collection's sampled documents, the share that a project must have for its prior to do
without that collection.
"""
LEAST_DEVIATION: Mapping[SearchMode, float] = {"semantic": 1.0, "hybrid": 0.5}
"""Points that effects differ by from collection to collection, at least: where four or five seem
to agree, one more may not. Those of model-written queries differ by 3 and 1.2
(docs/log/evaluation.md).
"""
LIKE_RATE = 3.0
LIKE_EXAMPLES = 8.0
"""A learning rate, and a number of training examples, up to so many times as large or small are
like those measured.
"""


FILE = "experience.json"
DIGITS = 16
SAMPLED = 32


@dataclass(frozen=True, slots=True)
class Effect:
    """Points of nDCG@10 that an encoder gained over base on the judged questions of a
    collection, with the standard error.

    `share`: of the semantic score in hybrid search, compared with base at equal weights; None in
        semantic search.
    """

    collection: str
    queries: QueryOrigin
    encoder: str
    mode: SearchMode
    share: float | None
    seed: int
    points: float
    error: float


@dataclass(frozen=True, slots=True)
class Prior:
    """What to expect of a candidate on a new collection, in points; it `helped` on so many of
    the `collections`.
    """

    effect: Normal
    collections: int
    helped: int
    average: float
    widened: bool = False


@dataclass(frozen=True, slots=True)
class Recipe:
    """What was trained, as far as the effect depends on it.

    `examples`: training queries, with repetition.

    Experience holds for the same again, and for rates and examples that are like those measured; it
    is widened for others.
    """

    objective: str
    weights: str
    adapter_scope: str
    similarity: str = "cosine"
    method: str = "FT"
    learning_rate: float = 1e-3
    examples: int = 1920

    def trains_the_same(self, other: Recipe) -> bool:
        """Whether both train the same weights by the same loss."""
        return replace(other, learning_rate=self.learning_rate, examples=self.examples) == self

    def is_like(self, other: Recipe) -> bool:
        """Whether both train about as much."""
        rate = self.learning_rate / other.learning_rate
        examples = self.examples / other.examples
        return 1 / LIKE_RATE <= rate <= LIKE_RATE and 1 / LIKE_EXAMPLES <= examples <= LIKE_EXAMPLES


@dataclass(frozen=True)
class Experience:
    """All effects. `model`: fingerprint of the encoder; `recipes`: by origin of the queries.

    `documents`: collection → `document_digests` of it. `rung_errors`: kind of evidence → search
        mode → standard
    deviation, in points, of how far what it says of an adapter lies from what judged questions say.
    """

    model: str = ""
    recipes: Mapping[QueryOrigin, Recipe] = field(default_factory=dict)
    effects: Sequence[Effect] = ()
    documents: Mapping[str, Collection[str]] = field(default_factory=dict)
    rung_errors: Mapping[str, Mapping[SearchMode, float]] = field(default_factory=dict)

    def without(self, content_hashes: Iterable[str]) -> Experience:
        """Leave out the collections that have documents of these hashes."""
        known = {one[:DIGITS] for one in content_hashes}
        left_out = {
            name
            for name, sample in self.documents.items()
            if sample and len(known.intersection(sample)) >= SHARED * len(sample)
        }
        return replace(
            self, effects=[one for one in self.effects if one.collection not in left_out]
        )

    def prior(
        self,
        queries: QueryOrigin,
        encoder: str,
        mode: SearchMode,
        share: float | None,
        *,
        widened: bool = False,
    ) -> Prior | None:
        """Return what to expect of a candidate; None where too few collections were measured."""
        by_collection: dict[str, list[Effect]] = {}
        for one in self.effects:
            if (one.queries, one.encoder, one.mode, one.share) == (queries, encoder, mode, share):
                by_collection.setdefault(one.collection, []).append(one)
        if len(by_collection) < MIN_COLLECTIONS:
            return None
        # Seeds of one collection ask the same questions: their mean is hardly surer than one of
        # them.
        points = [_mean(one.points for one in same) for same in by_collection.values()]
        errors = [_mean(one.error for one in same) for same in by_collection.values()]
        effect = predicted_effect(points, errors, LEAST_DEVIATION[mode])
        if widened:
            effect = Normal(effect.mean, WIDENING * math.hypot(effect.mean, effect.deviation))
        helped = sum(value > 0 for value in points)
        return Prior(effect, len(points), helped, _mean(points), widened)

    def best_share(
        self, queries: QueryOrigin, encoder: str, shares: Sequence[float]
    ) -> float | None:
        """Return the share of the semantic score with which hybrid search gained most; None
        where nothing is known.
        """
        found = {share: self.prior(queries, encoder, "hybrid", share) for share in shares}
        known = {share: prior.effect.mean for share, prior in found.items() if prior is not None}
        if known:
            return max(known, key=lambda share: known[share])
        return None


@cache
def load_experience() -> Experience:
    """Read what ships with the product. Raises EngineError where it is missing."""
    return experience_of(json.loads(asset_path(FILE).read_text(encoding="utf-8")))


@cache
def experience_fingerprint() -> str:
    """Return what names the experience that ships with the product; empty where it is missing."""
    try:
        return file_sha256(asset_path(FILE))[:DIGITS]
    except EngineError:
        return ""


def experience_of(data: Mapping[str, Any]) -> Experience:
    """Read the JSON form, as `tests/benchmarks/experience.py` writes it."""
    return Experience(
        model=data["model"],
        recipes={origin: Recipe(**recipe) for origin, recipe in data["recipes"].items()},
        effects=[Effect(**one) for one in data["effects"]],
        documents={name: frozenset(digests) for name, digests in data["documents"].items()},
        rung_errors=data.get("rung_errors", {}),
    )


def document_digests(content_hashes: Iterable[str]) -> list[str]:
    """Return what a collection is known by: the first of the hashes of its documents' contents."""
    return [one[:DIGITS] for one in sorted(set(content_hashes))[:SAMPLED]]


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers)
