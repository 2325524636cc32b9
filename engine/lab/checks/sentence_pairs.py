"""Whether similarities agree with people's: Spearman's correlation on a user's sentence pairs.

METHODS.md §1, STS check. It decides nothing. Both sentences of a pair are encoded as queries,
because adaptation always changes the query encoder.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.core.arrays import Doubles
from engine.core.errors import DatasetError
from engine.core.figures import Difference, Interval
from engine.core.systems import BASE
from engine.evaluation.candidates import Candidate
from engine.metrics.differences import add_needed_pairs
from engine.metrics.spearman import spearman_difference, spearman_interval

FIELDS = ("sentence1", "sentence2", "score")
JSON_LINES = (".jsonl", ".ndjson")
MIN_PAIRS = 10


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sentences, and how similar people find them, on any scale."""

    first: str
    second: str
    score: float


def read_pairs(path: Path) -> list[Pair]:
    """Read pairs from a .jsonl file or a table with columns sentence1, sentence2 and score.

    A table is .csv, or else separated by tabs without quoting; it may have a header. Raises
    DatasetError if the file cannot be read, has an unusable row, or has fewer than `MIN_PAIRS`.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig", "replace")
    except OSError as error:
        raise _unusable(path, f"{error.strerror or error}.") from None
    suffix = path.suffix.lower()
    try:
        rows = list(_read_objects(text) if suffix in JSON_LINES else _read_table(text, suffix))
    except csv.Error as error:
        raise _unusable(path, f"It is no table: {error}.") from None
    pairs = []
    for number, row in enumerate(rows, 1):
        pair = _parse_pair(row)
        if pair is None:
            may_be_header = number == 1 and suffix not in JSON_LINES
            if may_be_header:
                continue
            raise _unusable(path, f"Row {number} is not two sentences and a number.")
        has_sentences = pair.first.strip() and pair.second.strip()
        if not has_sentences or not math.isfinite(pair.score):
            raise _unusable(
                path, f"Row {number} has an empty sentence, or a score that is no number."
            )
        pairs.append(pair)
    if len(pairs) < MIN_PAIRS or len({pair.score for pair in pairs}) < 2:
        raise _unusable(
            path, f"It holds {len(pairs)} pairs, and {MIN_PAIRS} with different scores are needed."
        )
    return pairs


def _parse_pair(row: Sequence[Any]) -> Pair | None:
    """Return the pair of a row, or None if it is not two strings and a number."""
    try:
        first = row[0]
        second = row[1]
        score = float(row[2])
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    if isinstance(first, str) and isinstance(second, str):
        return Pair(first, second, score)
    return None


def _read_objects(text: str) -> Iterator[list[Any]]:
    """Yield the values of `FIELDS` on each line; an empty list for a line without a JSON object."""
    for line in text.split("\n"):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        if isinstance(entry, dict):
            yield [entry.get(name) for name in FIELDS]
        else:
            yield []


def _read_table(text: str, suffix: str) -> Iterator[list[str]]:
    """Yield the rows of a table that are not blank. Raises csv.Error for an unclosed quote."""
    lines = io.StringIO(text, newline="")
    if suffix == ".csv":
        rows = csv.reader(lines, strict=True)
    else:
        rows = csv.reader(
            lines,
            delimiter="\t",
            quoting=csv.QUOTE_NONE,
        )
    for row in rows:
        if any(cell.strip() for cell in row):
            yield row


def _unusable(path: Path, why: str) -> DatasetError:
    """Return the error for a file of sentence pairs."""
    return DatasetError(
        f"The sentence pairs in {path} cannot be used.",
        why,
        "Name a .jsonl, .csv or .tsv file of sentence1, sentence2 and score.",
        code="sentence-pairs-invalid",
    )


@dataclass(frozen=True, slots=True)
class SentenceFigures:
    """Each system's correlation with people's scores of a file's pairs, and differences to base."""

    file: str
    pairs: int
    systems: Mapping[str, Interval]
    differences: Mapping[str, Difference]


class SentencePairs:
    """The similarities of each encoder on the pairs of a file; none if `path` is None."""

    def __init__(self, path: Path | None, seed: int) -> None:
        self._name = ""
        self._pairs: list[Pair] = []
        if path:
            self._name = path.name
            self._pairs = read_pairs(path)
        self._seed = seed
        self._similarities: dict[str, Doubles] = {}

    def record(self, name: str, candidate: Candidate) -> None:
        """Record how similar a candidate finds the pairs' sentences. Raises CancelledError."""
        if not self._pairs:
            return
        similarity = candidate.similarity
        first = candidate.query_vectors([pair.first for pair in self._pairs])  # (n, d)
        second = candidate.query_vectors([pair.second for pair in self._pairs])  # (n, d)
        first_form = similarity.query_form(first)
        second_form = similarity.chunk_form(second)
        products = np.einsum("nd,nd->n", first_form, second_form)  # (n,)
        self._similarities[name] = similarity.of_products(products).astype(np.float64)

    def figures(self) -> SentenceFigures | None:
        """Return correlations times 100, or None without pairs."""
        if not self._pairs or BASE not in self._similarities:
            return None
        scores = [pair.score for pair in self._pairs]
        base = self._similarities[BASE]
        systems = {}
        differences = {}
        for name, similarities in self._similarities.items():
            systems[name] = spearman_interval(similarities, scores, seed=self._seed).percent()
            if name != BASE:
                gap = spearman_difference(
                    similarities,
                    base,
                    scores,
                    seed=self._seed,
                )
                differences[name] = add_needed_pairs(gap, len(scores)).percent()
        return SentenceFigures(
            self._name,
            len(scores),
            systems,
            differences,
        )
