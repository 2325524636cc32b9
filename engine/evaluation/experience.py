"""What adaptation gained on public collections, as a prior for projects with too little evidence.

`assets/experience.json` is made by `tests/benchmarks/experience.py`. Collections that share
documents with a project are left out of its prior, so that no project is evidence for itself.
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
from engine.encoders.choosing.shares import EQUAL
from engine.metrics.random_effects import MIN_COLLECTIONS, Normal, predicted_effect

QueryOrigin = Literal["model-written", "extractive"]
WIDENING = 2.0
"""Factor on √(mean² + deviation²) for an encoder or amount of training that was not measured.

The resulting standard deviation is too wide for experience to suffice on its own.
"""
SHARED = 0.1
"""Share of a collection's sampled documents from which a project counts as containing it."""
LEAST_DEVIATION: Mapping[SearchMode, float] = {"semantic": 1.0, "hybrid": 0.5}
"""Minimum deviation, in points, of effects between collections.

Four or five collections may agree by chance. Effects of model-written queries differ by 3 and 1.2
points (docs/log/evaluation.md).
"""
LIKE_RATE = 3.0
"""Factor up to which another learning rate counts as like the measured one."""
LIKE_EXAMPLES = 8.0
"""Factor up to which another number of training examples counts as like the measured one."""

FILE = "experience.json"
DIGITS = 16
"""Number of hex digits of a document's content hash, by which it is recognised."""
SAMPLED = 32
"""Number of documents by which a collection is recognised."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What an encoder gained over base on a collection's judged questions, in one training."""

    collection: str
    queries: QueryOrigin
    """How the training queries were made."""
    encoder: str
    mode: SearchMode
    share: float | None
    """Semantic share in hybrid search, while base has equal shares; None in semantic search."""
    seed: int
    points: float
    """Gain in points of nDCG@10."""
    error: float
    """Standard error of `points`."""


@dataclass(frozen=True, slots=True)
class Prior:
    """What to expect of a candidate on a new collection."""

    effect: Normal
    """Distribution of the gain in points."""
    collections: int
    """Number of collections that the candidate was measured on."""
    helped: int
    """Number of collections that it improved."""
    average: float
    """Mean gain over all collections, in points."""
    widened: bool = False
    """Whether the experience is with another encoder or amount of training."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What was trained, as far as the effect depends on it.

    `examples` counts training queries, with repetition. Experience holds for the same recipe and
    for rates and numbers of examples like those measured; for others it is widened. The defaults
    are those of the recipe for model-written queries.
    """

    objective: str
    weights: str
    adapter_scope: str
    similarity: str = "cosine"
    method: str = "FT"
    learning_rate: float = 1e-3
    examples: int = 1920

    def trains_the_same(self, other: Recipe) -> bool:
        """Return whether both train the same weights by the same loss."""
        return replace(other, learning_rate=self.learning_rate, examples=self.examples) == self

    def is_like(self, other: Recipe) -> bool:
        """Return whether both train about as much."""
        rate = self.learning_rate / other.learning_rate
        examples = self.examples / other.examples
        same_rate = 1 / LIKE_RATE <= rate <= LIKE_RATE
        same_amount = 1 / LIKE_EXAMPLES <= examples <= LIKE_EXAMPLES
        return same_rate and same_amount


@dataclass(frozen=True)
class Experience:
    """All effects measured on public collections."""

    model: str = ""
    """Fingerprint of the encoder that was adapted."""
    recipes: Mapping[QueryOrigin, Recipe] = field(default_factory=dict)
    """Origin of the training queries → how the encoder was trained."""
    effects: Sequence[Effect] = ()
    documents: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Collection → `document_digests` of its documents."""
    rung_errors: Mapping[str, Mapping[SearchMode, float]] = field(default_factory=dict)
    """Rung → search mode → standard deviation, in points, from the gain on judged questions."""

    def without(self, content_hashes: Iterable[str]) -> Experience:
        """Return the experience without collections that share documents with these hashes."""
        digests = {content_hash[:DIGITS] for content_hash in content_hashes}
        left_out = set()
        for name, sample in self.documents.items():
            shared = len(digests.intersection(sample))
            if sample and shared >= SHARED * len(sample):
                left_out.add(name)
        effects = [effect for effect in self.effects if effect.collection not in left_out]
        return replace(self, effects=effects)

    def prior(
        self,
        queries: QueryOrigin,
        encoder: str,
        mode: SearchMode,
        share: float | None,
        *,
        widened: bool = False,
    ) -> Prior | None:
        """Return what to expect of a candidate, or None if too few collections were measured.

        METHODS.md §5, "Expected". `share` is the semantic share in hybrid search. `widened`: the
        project has another encoder or amount of training, so the prior's deviation is increased.
        """
        wanted = (queries, encoder, mode, share)
        by_collection: dict[str, list[Effect]] = {}
        for effect in self.effects:
            if (effect.queries, effect.encoder, effect.mode, effect.share) == wanted:
                by_collection.setdefault(effect.collection, []).append(effect)
        if len(by_collection) < MIN_COLLECTIONS:
            return None
        # Trainings with several seeds are measured on the same questions of a collection. Their
        # mean is hardly more certain than one of them, so their errors are averaged, too.
        points = []
        errors = []
        for effects in by_collection.values():
            points.append(_mean([effect.points for effect in effects]))
            errors.append(_mean([effect.error for effect in effects]))
        predicted = predicted_effect(
            points,
            errors,
            LEAST_DEVIATION[mode],
        )
        if widened:
            deviation = WIDENING * math.hypot(predicted.mean, predicted.deviation)  # 2 √(μ² + σ²)
            predicted = Normal(predicted.mean, deviation)
        helped = sum(value > 0 for value in points)
        return Prior(
            effect=predicted,
            collections=len(points),
            helped=helped,
            average=_mean(points),
            widened=widened,
        )

    def best_share(
        self, queries: QueryOrigin, encoder: str, shares: Sequence[float]
    ) -> float | None:
        """Return the semantic share that suited an encoder on public collections, None if unknown.

        This is the share with the largest gain in hybrid search. If its lead over equal shares is
        smaller than `LEAST_DEVIATION`, equal shares are returned, since collections differ by that
        much by chance.
        """
        gains = {}
        for share in shares:
            prior = self.prior(
                queries,
                encoder,
                "hybrid",
                share,
            )
            if prior is not None:
                gains[share] = prior.effect.mean
        if not gains:
            return None
        best = max(gains, key=lambda share: gains[share])
        if EQUAL in gains and gains[best] - gains[EQUAL] < LEAST_DEVIATION["hybrid"]:
            return EQUAL
        return best


@cache
def load_experience() -> Experience:
    """Read the experience that ships with the product. Raises EngineError if it is missing."""
    return parse_experience(json.loads(asset_path(FILE).read_text(encoding="utf-8")))


@cache
def experience_fingerprint() -> str:
    """Return a fingerprint of the experience that ships with the product, empty if missing."""
    try:
        return file_sha256(asset_path(FILE))[:DIGITS]
    except EngineError:
        return ""


def parse_experience(data: Mapping[str, Any]) -> Experience:
    """Read the JSON form that `tests/benchmarks/experience.py` writes."""
    return Experience(
        model=data["model"],
        recipes={origin: Recipe(**recipe) for origin, recipe in data["recipes"].items()},
        effects=[Effect(**effect) for effect in data["effects"]],
        documents={name: frozenset(digests) for name, digests in data["documents"].items()},
        rung_errors=data.get("rung_errors", {}),
    )


def document_digests(content_hashes: Iterable[str]) -> list[str]:
    """Return the digests by which a collection is recognized: a sample of its content hashes."""
    sample = sorted(set(content_hashes))[:SAMPLED]
    return [content_hash[:DIGITS] for content_hash in sample]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
