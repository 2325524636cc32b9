"""Whether similarities agree with people's: Spearman's correlation on a user's sentence pairs
(METHODS.md §1, STS check).

It decides nothing. Both sentences of a pair are encoded as queries are, because it is queries whose
encoder always changes.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import DatasetError
from engine.core.figures import Difference, Interval
from engine.core.systems import BASE
from engine.evaluation.candidates import Candidate
from engine.metrics.differences import with_needed_pairs
from engine.metrics.spearman import spearman_difference, spearman_interval
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot, StageContext
from engine.settings.schema import Settings

FIELDS = ("sentence1", "sentence2", "score")
OBJECTS = (".jsonl", ".ndjson")
MIN_PAIRS = 10


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sentences, and how similar people find them, on any scale."""

    one: str
    other: str
    score: float


def pairs_file(project: ProjectFolder, settings: Settings) -> Path | None:
    """The file that `evaluation.sentence_pairs` names; None where it names none."""
    named = settings.evaluation.sentence_pairs
    if named:
        return project.path / Path(named).expanduser()
    return None


def pairs_fingerprint(snapshot: ProjectSnapshot) -> str:
    """A hash over the file; empty without one. Raises DatasetError where it cannot be read."""
    path = pairs_file(snapshot.project, snapshot.settings)
    if path:
        return hashlib.sha256(_bytes(path)).hexdigest()
    return ""


def read_pairs(path: Path) -> list[Pair]:
    """Pairs of a .jsonl file of objects with `sentence1`, `sentence2` and `score`, or of a table
    (.csv, else tabs, where quotation marks are text) with these columns, with or without a head.
    Raises DatasetError where it cannot be read, or holds fewer than `MIN_PAIRS`.
    """
    text = _bytes(path).decode("utf-8-sig", "replace")
    suffix = path.suffix.lower()
    objects = suffix in OBJECTS
    try:
        rows = list(_objects(text) if objects else _table(text, suffix))
    except csv.Error as error:
        raise _unusable(path, f"It is no table: {error}.") from None
    found = []
    for number, row in enumerate(rows, 1):
        pair = _pair(row)
        if pair is None:
            if number == 1 and not objects:  # the head
                continue
            raise _unusable(path, f"Row {number} is not two sentences and a number.")
        if not (pair.one.strip() and pair.other.strip() and math.isfinite(pair.score)):
            raise _unusable(
                path, f"Row {number} has an empty sentence, or a score that is no number."
            )
        found.append(pair)
    if len(found) < MIN_PAIRS or len({pair.score for pair in found}) < 2:
        raise _unusable(
            path, f"It holds {len(found)} pairs, and {MIN_PAIRS} with different scores are needed."
        )
    return found


def _pair(row: Sequence[Any]) -> Pair | None:
    try:
        one = row[0]
        other = row[1]
        score = float(row[2])
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    if isinstance(one, str) and isinstance(other, str):
        return Pair(one, other, score)
    return None


def _objects(text: str) -> Iterator[list[Any]]:
    for line in text.split("\n"):
        if line.strip():
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                entry = None
            yield [entry.get(name) for name in FIELDS] if isinstance(entry, dict) else []


def _table(text: str, suffix: str) -> Iterator[list[str]]:
    """Raises csv.Error where a quoted cell has no end."""
    lines = io.StringIO(text, newline="")
    if suffix == ".csv":
        rows = csv.reader(lines, strict=True)
    else:
        rows = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    yield from (row for row in rows if any(cell.strip() for cell in row))


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unusable(path, f"{error.strerror or error}.") from None


def _unusable(path: Path, why: str) -> DatasetError:
    return DatasetError(
        f"The sentence pairs in {path} cannot be used.",
        why,
        "Name a .jsonl, .csv or .tsv file of sentence1, sentence2 and score in"
        " evaluation.sentence_pairs, or leave it empty.",
        code="sentence-pairs-invalid",
    )


@dataclass(frozen=True, slots=True)
class SentenceFigures:
    """Each system's correlation with people's scores of the pairs of a `file`, and its
    difference to base.
    """

    file: str
    pairs: int
    systems: Mapping[str, Interval]
    differences: Mapping[str, Difference]


class SentencePairs:
    """The similarities of each encoder on the pairs of a project; nothing where it has none."""

    def __init__(self, context: StageContext) -> None:
        path = pairs_file(context.project, context.settings)
        self._context = context
        self._name, self._pairs = (path.name, read_pairs(path)) if path else ("", [])
        self._seed = context.settings.training.seed
        self._similarities: dict[str, NDArray[np.float64]] = {}

    def take(self, name: str, candidate: Candidate) -> None:
        """How similar a candidate finds the sentences of each pair. Raises CancelledError."""
        if self._pairs:
            one, other = (
                candidate.query_vectors([getattr(pair, part) for pair in self._pairs])
                for part in ("one", "other")
            )
            forms = candidate.similarity.query_form(one), candidate.similarity.chunk_form(other)
            found = candidate.similarity.of_products(np.einsum("nd,nd->n", *forms))
            self._similarities[name] = found.astype(np.float64)

    def figures(self) -> SentenceFigures | None:
        """Correlations times 100; None without pairs."""
        if not self._pairs or BASE not in self._similarities:
            return None
        gold = [pair.score for pair in self._pairs]
        base = self._similarities[BASE]
        intervals = {
            name: spearman_interval(found, gold, seed=self._seed)
            for name, found in self._similarities.items()
        }
        gaps = {
            name: (
                with_needed_pairs(
                    spearman_difference(found, base, gold, seed=self._seed), len(gold)
                ).percent()
            )
            for name, found in self._similarities.items()
            if name != BASE
        }
        return SentenceFigures(
            self._name, len(gold), {name: one.percent() for name, one in intervals.items()}, gaps
        )
