"""How much each system loses when queries are mistyped, lack words, or use other ones (METHODS.md §1 and §4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.evaluation.comparison import DocumentOf, compared, measure
from engine.evaluation.neighbours import corpus_synonyms
from engine.evaluation.perturbing import CONDITIONS, Perturber, words_of
from engine.evaluation.query_sets import QuerySet
from engine.lexical.named import Meant
from engine.metrics import Difference, Interval
from engine.metrics.bootstrap import SAMPLES
from engine.queries.heldout import cap_queries
from engine.records import Chunk

METRICS = ("ndcg@10", "hit@10")
MOST_QUERIES = 500
MOST_TEXTS = 20_000
Rankings = Mapping[str, NDArray[np.int64]]
Terms = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class Row:
    """One condition, in percent: `systems` → metric → figure, and `losses`: system → difference of nDCG@10 to the
    queries as they were. `changed`: words that were changed per query, on average."""

    kind: str
    words: int
    changed: float
    systems: Mapping[str, Mapping[str, Interval]]
    losses: Mapping[str, Difference]


@dataclass(frozen=True, slots=True)
class Robustness:
    """`name` and `kind` of the query set, how many `queries` of it, and a row for each condition."""

    name: str
    kind: str
    queries: int
    rows: tuple[Row, ...]

    def as_dict(self) -> dict[str, Any]:
        """For the report."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Trial:
    """Queries under every condition, one block of `queries` after the other: what the systems are to rank."""

    source: QuerySet
    perturbed: QuerySet
    queries: int
    changed: tuple[float, ...]


def make_trial(source: QuerySet, chunks: Sequence[Chunk], terms: Terms, seed: int = 0) -> Trial | None:
    """The usable queries of `source`, at most `MOST_QUERIES`, under every condition; None where there are none."""
    usable = [row for row, judgment in enumerate(source.judgments) if judgment.usable]
    if not usable:
        return None
    rows = [usable[place] for place in cap_queries([source.texts[row] for row in usable], MOST_QUERIES, seed)]
    texts = [chunk.text for chunk in chunks]
    sample = [texts[place] for place in cap_queries([chunk.content_hash for chunk in chunks], MOST_TEXTS, seed)]
    wanted = {word for row in rows for word in words_of(source.texts[row])}
    perturber = Perturber(terms, corpus_synonyms(sample, wanted, terms), seed)
    text_of = {chunk.id: chunk.text for chunk in chunks}
    answers = [_answer_terms(source, row, text_of, terms) for row in rows]
    meant, changed = [], []
    for condition in CONDITIONS:
        found = [
            perturber.perturb(source.texts[row], condition, answer) for row, answer in zip(rows, answers, strict=True)
        ]
        meant += [Meant(one.text, source.meant[row].documents) for one, row in zip(found, rows, strict=True)]
        changed.append(sum(one.changed for one in found) / len(found))
    judgments = [source.judgments[row] for row in rows] * len(CONDITIONS)
    return Trial(source, QuerySet(source.name, "perturbed", judgments, meant), len(rows), tuple(changed))


def measure_trial(
    trial: Trial, rankings: Rankings, document_of: DocumentOf, samples: int = SAMPLES, seed: int = 0
) -> Robustness:
    """Figures of every system's rankings of `trial.perturbed`. All conditions share the bootstrap's resamples."""
    values: dict[str, dict[str, NDArray[np.float64]]] = {}
    for system, ids in rankings.items():
        found = measure(ids, trial.perturbed.judgments, document_of)
        parts = {metric: found[metric].reshape(len(CONDITIONS), trial.queries) for metric in METRICS}
        for place in range(len(CONDITIONS)):
            values[_key(place, system)] = {metric: part[place] for metric, part in parts.items()}
    pairs = {
        (_key(place, system), _key(0, system)): METRICS[:1]
        for place in range(1, len(CONDITIONS))
        for system in rankings
    }
    figures, gaps = compared(values, pairs, samples, seed)
    rows = []
    for place, condition in enumerate(CONDITIONS):
        losses = {
            system: gaps[_key(place, system), _key(0, system)][METRICS[0]] for system in (rankings if place else ())
        }
        systems = {system: figures[_key(place, system)] for system in rankings}
        rows.append(Row(condition.kind, condition.words, trial.changed[place], systems, losses))
    return Robustness(trial.source.name, trial.source.kind, trial.queries, tuple(rows))


def _answer_terms(source: QuerySet, row: int, text_of: Mapping[int, str], terms: Terms) -> frozenset[str]:
    judgment = source.judgments[row]
    if judgment.level != "chunk":
        return frozenset()
    return frozenset(term for chunk in judgment.grades for term in terms(text_of.get(chunk, "")))


def _key(place: int, system: str) -> str:
    return f"{place} {system}"
