"""How often the gate calls adapters proved that change nothing, and those that gain 3 points.

The queries are not independent. It is also counted how often experience brings an adapter into use
that is shown to be worse.

Documents are split, related, grouped and clustered by the product's own code; what each query gains
is drawn. A query of the same words about the same text moves with its twins in four of five cases,
and every text has an effect of its own. Titles and headings compare each encoder with one share of
the score in hybrid search, judged questions with four. `python tests/benchmarks/null_adapters.py
[--runs 400] [--only judged]`
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from engine.core.arrays import Doubles
from engine.core.messages.report import SEARCH_MODES, SearchMode
from engine.core.records import Chunk, Document, DocumentQuery
from engine.encoders.choosing.shares import EQUAL
from engine.evaluation.document_set import group_by_text, judgment_of
from engine.evaluation.experience import Prior
from engine.evaluation.gate.deciding import decide
from engine.evaluation.gate.decision import NO_PRIOR_KNOWLEDGE, Decision, Option, PriorKnowledge
from engine.evaluation.judgments import Judgment, clusters_of
from engine.evaluation.rungs import DECIDE_SHARE, Evidence, RungName
from engine.evaluation.selection import hybrid_option
from engine.metrics.random_effects import Normal
from engine.models.catalogue import SHARES
from engine.queries.from_documents import written_within
from engine.queries.heldout import (
    group_keys,
    related_documents,
    split_documents,
    unrelated_documents,
)

CORRELATION = 0.1  # of what queries about the same text gain
TWINS = 0.8  # share of the queries that move with their twins
DISCOUNTS = np.append(1 / np.log2(np.arange(2, 12)), 0.0)  # of nDCG@10, the last one beyond rank 10
EFFECTS = {"interpolated": 0.5, "adapted": 1.0}  # by candidate, its part of the adapter's effect
ENCODERS = tuple(EFFECTS)
REFERENCE: dict[SearchMode, Option] = {
    "semantic": Option("base", "base"),
    "hybrid": hybrid_option("base", EQUAL),
}
# What experience says of both candidates. It expects more than there is.
EXPECTED: dict[SearchMode, Normal] = {"semantic": Normal(4.0, 3.0), "hybrid": Normal(1.5, 1.5)}
SAME_QUERIES_RUNS = 20  # that have the same queries; what these gain is drawn for each run


class Query(NamedTuple):
    """The text that a query is about, and how it is judged."""

    text: str
    judgment: Judgment


class Corpus:
    """Documents, their chunks, and queries written of titles and headings.

    There are `texts` of so many `headings`, each in so many files: exact copies, the same in
    another format, or versions of it, by `kind`.
    """

    def __init__(
        self,
        kind: str,
        texts: int,
        files: int,
        headings: int,
        others: int = 0,
    ) -> None:
        self.documents: list[Document] = []
        self.chunks: list[Chunk] = []
        self.written: list[DocumentQuery] = []
        self.about: dict[int, str] = {}
        for text in range(texts):
            for copy in range(files):
                self._add(
                    kind,
                    f"text{text}",
                    copy,
                    headings,
                )
        for text in range(others):
            self._add(
                "distinct",
                f"other{text}",
                0,
                headings // 2,
            )

    def _add(
        self,
        kind: str,
        text: str,
        copy: int,
        headings: int,
    ) -> None:
        number = len(self.documents) + 1
        path = f"{copy}/{text}.md"
        title = f"About {text}"
        if kind == "formats":
            path = f"{text}.{'abcdef'[copy]}"
            title = ""
        elif kind == "thread":
            title = f"Re: About {text}"
        content = text if kind == "copies" else f"{text} {copy}"
        self.documents.append(Document(path, "s", "md", title, "", content, 1, 0.0, id=number))
        self.about[number] = text
        if title:
            self.written.append(
                DocumentQuery(f"about {text}", "title", None, number, written_in=number)
            )
        for place in range(headings):
            is_edited = kind in ("versions", "formats") and (place + copy) % 3 == 0
            chunk = Chunk(
                number,
                place,
                0,
                1,
                "",
                (),
                1,
                "",
                f"{text} {place} {copy * is_edited}",
                len(self.chunks) + 1,
            )
            self.chunks.append(chunk)
            query = DocumentQuery(
                f"part {place} of {text}", "heading", chunk.id, number, written_in=number
            )
            self.written.append(query)

    def text_of(self, document: int) -> str:
        """Return the text of a document. Versions have nine words of ten in common."""
        common_words = [f"{self.about[document]}w{place}" for place in range(300)]
        return " ".join(common_words) + f" edited{document}" * 30

    def select_queries(self, seed: int) -> list[Query]:
        """Return the queries that decide, by the product's own rules."""
        related = related_documents(self.documents, self.text_of)
        sides = split_documents(
            group_keys(self.documents, related),
            0.3,
            seed,
        )
        training = {
            document.id for document in self.documents if sides.get(document.id) != "heldout"
        }
        heldout = written_within(unrelated_documents(training, related), self.written)
        groups = group_by_text(heldout, self.chunks)
        return [
            Query(self.about[group[0].document_id], judgment_of(group, related)) for group in groups
        ]


def draw_gains(
    rng: np.random.Generator,
    queries: Sequence[Query],
    share: float,
) -> np.ndarray:
    """Draw what each query gains, zero in the mean.

    A share of the queries move in rank, most of them together with their twins. Every text has an
    effect of its own besides.
    """

    def draw_moves(count: int) -> np.ndarray:
        is_moved = rng.random(count) < share
        return np.where(
            is_moved,
            rng.choice(DISCOUNTS, count) - rng.choice(DISCOUNTS, count),
            0.0,
        )

    twin_numbers: dict[object, int] = {}
    twins = [
        twin_numbers.setdefault((query.text, query.judgment.text), len(twin_numbers))
        for query in queries
    ]
    text_numbers: dict[str, int] = {}
    texts = [text_numbers.setdefault(query.text, len(text_numbers)) for query in queries]
    moves_with_twins = rng.random(len(queries)) < TWINS
    twin_moves = draw_moves(len(twin_numbers))[twins]
    moves = np.where(
        moves_with_twins,
        twin_moves,
        draw_moves(len(queries)),
    )
    text_deviation = moves.std() * (CORRELATION / (1 - CORRELATION)) ** 0.5
    return moves + rng.normal(0, text_deviation, len(text_numbers))[texts]


def list_candidates(mode: SearchMode, rung: RungName) -> list[Option]:
    """Return what the gate compares with the reference on a rung, that nearest to it first."""
    if mode == "semantic":
        return [Option(name, name) for name in ENCODERS]
    if rung not in DECIDE_SHARE:
        return [hybrid_option(name, EQUAL) for name in ENCODERS]
    shares = sorted(SHARES, key=lambda share: (round(abs(share - EQUAL), 1), share))
    return [
        hybrid_option(name, share)
        for name in ("base", *ENCODERS)
        for share in shares
        if (name, share) != ("base", EQUAL)
    ]


def draw_evidence(
    rng: np.random.Generator,
    rung: RungName,
    queries: Sequence[Query],
    moving: float,
    semantic: float,
    hybrid: float,
) -> dict[SearchMode, Evidence]:
    """Draw what an adapter and its interpolation gain, and return the evidence of each mode.

    `moving`: share of the queries that move. `semantic` and `hybrid`: the adapter's effect in each
    mode; its interpolation has half of that. In hybrid search four tenths of what a query gains in
    semantic search are left with equal weights, more with a larger share.
    """
    base = np.full(len(queries), 0.5)
    clusters = clusters_of([query.judgment for query in queries])
    adapter_gains = draw_gains(rng, queries, moving)
    chance_gains: dict[str, Doubles] = {
        "adapted": adapter_gains,
        "interpolated": 0.5 * adapter_gains + 0.2 * draw_gains(rng, queries, moving),
    }
    alone = {"base": base}
    for name, part in EFFECTS.items():
        alone[name] = base + chance_gains[name] + part * semantic
    share_gains = draw_gains(rng, queries, moving)
    fused = {REFERENCE["hybrid"].name: base}
    fusion_gains = {
        name: 0.4 * part * draw_gains(rng, queries, moving) for name, part in EFFECTS.items()
    }
    for option in list_candidates("hybrid", rung):
        share = EQUAL if option.share is None else option.share
        option_gains = (share - EQUAL) / EQUAL * share_gains
        encoder = option.encoder
        if encoder in EFFECTS:
            encoder_gains = 0.4 * share / EQUAL * chance_gains[encoder]
            option_gains = option_gains + encoder_gains + fusion_gains[encoder]
        fused[option.name] = base + option_gains + EFFECTS.get(encoder, 0.0) * hybrid
    return {"semantic": Evidence(rung, alone, clusters), "hybrid": Evidence(rung, fused, clusters)}


def decide_modes(
    evidence: dict[SearchMode, Evidence], seed: int, *, expected: bool = False
) -> dict[SearchMode, Decision]:
    """Return what the gate decides in each mode.

    `expected`: with experience that expects a gain.
    """
    decisions = {}
    for mode, mode_evidence in evidence.items():
        options = list_candidates(mode, mode_evidence.rung)
        prior_knowledge = NO_PRIOR_KNOWLEDGE
        if expected:
            gain = EXPECTED[mode]
            adapted = [option.name for option in options if option.encoder in EFFECTS]
            prior_knowledge = PriorKnowledge(
                {name: Prior(gain, 6, 5, gain.mean) for name in adapted}, {}
            )
        decisions[mode] = decide(
            mode,
            [mode_evidence],
            REFERENCE[mode],
            options,
            prior_knowledge=prior_knowledge,
            samples=400,
            seed=seed,
        )
    return decisions


def build_questions(documents: int, each: int) -> list[Query]:
    """Return judged questions, so many about each document."""
    questions = []
    for row in range(documents * each):
        document = row % documents
        judgment = Judgment(
            str(row),
            str(row),
            "chunk",
            {row: 1},
            source=document,
        )
        questions.append(Query(str(document), judgment))
    return questions


class Structure(NamedTuple):
    """How queries hang together.

    `moving`: share of the queries that move. `select_queries`: returns the queries of a seed.
    """

    name: str
    rung: RungName
    moving: float
    select_queries: Callable[[int], list[Query]]


def build_structures() -> Iterator[Structure]:
    """Yield all structures, those of titles and headings first."""

    def of_documents(
        name: str,
        moving: float,
        corpus: Corpus,
    ) -> Structure:
        return Structure(
            name,
            "document",
            moving,
            corpus.select_queries,
        )

    def of_questions(
        name: str,
        moving: float,
        documents: int,
        each: int,
    ) -> Structure:
        return Structure(
            name,
            "judged",
            moving,
            lambda _: build_questions(documents, each),
        )

    yield of_documents(
        "distinct documents, titles and headings", 0.3, Corpus("distinct", 400, 1, 4)
    )
    yield of_documents(
        "three copies of every file",
        0.3,
        Corpus("copies", 400, 3, 4),
    )
    yield of_documents(
        "the same in three formats, without titles", 0.3, Corpus("formats", 400, 3, 5)
    )
    yield of_documents(
        "three versions of every file",
        0.3,
        Corpus("versions", 400, 3, 4),
    )
    yield of_documents(
        "versions that are most of a project", 0.1, Corpus("versions", 1, 30, 60, others=28)
    )
    yield of_documents(
        "few long documents",
        0.1,
        Corpus("distinct", 40, 1, 30),
    )
    yield of_documents(
        "mail threads, titles alone",
        0.3,
        Corpus("thread", 1500, 3, 0),
    )
    yield of_questions(
        "240 judged questions about 40 documents",
        0.15,
        40,
        6,
    )
    yield of_questions(
        "100 judged questions about 10 documents",
        0.05,
        10,
        10,
    )
    yield of_questions(
        "40 judged questions about 8 documents",
        0.05,
        8,
        5,
    )


@dataclass
class Counts:
    """In how many of so many `runs` something happened to a candidate.

    `proved`: by mode, and in either of them. The others are of decisions with experience: a
    candidate came into use, was shown to be worse, and came into use although it was.
    """

    runs: int = 0
    proved: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys((*SEARCH_MODES, "either"), 0)
    )
    in_use: int = 0
    worse: int = 0
    in_use_and_worse: int = 0

    def add(self, decisions: dict[SearchMode, Decision]) -> None:
        """Count what was decided without experience."""
        self.runs += 1
        is_any_proved = False
        for mode, decision in decisions.items():
            if decision.standing == "proved":
                self.proved[mode] += 1
                is_any_proved = True
        self.proved["either"] += is_any_proved

    def add_expected(self, decisions: dict[SearchMode, Decision]) -> None:
        """Count what was decided with experience."""
        rows = [row for decision in decisions.values() for row in decision.candidates]
        worse = [row for row in rows if row.difference is not None and row.difference.high < 0]
        self.in_use += any(row.in_use for row in rows)
        self.worse += bool(worse)
        self.in_use_and_worse += any(row.in_use for row in worse)

    @property
    def text(self) -> str:
        """The shares of runs with something proved, as cells of a table."""
        return " | ".join(f"{100 * count / self.runs:.1f} %" for count in self.proved.values())


def main() -> None:
    """Print a row for each structure."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--runs",
        type=int,
        default=400,
    )
    parser.add_argument(
        "--only",
        default="",
        help="structures whose name has this in it",
    )
    options = parser.parse_args()
    runs = options.runs
    print(
        "Proved, in semantic search | hybrid search | either; the adapter gains in semantic/hybrid"
        " search:"
    )
    print("structure | queries | last word in hybrid search | null | +3/+3 | +3/+1.2")
    print("and with experience: null adapters in use | shown to be worse | both")
    for structure in build_structures():
        if options.only not in structure.name:
            continue
        sizes = []
        decided = 0
        # By the adapter's effect in semantic and in hybrid search.
        counts_by_effect = {
            (0.0, 0.0): Counts(),
            (0.03, 0.03): Counts(),
            (0.03, 0.012): Counts(),
        }
        queries: list[Query] = []
        for seed in range(runs):
            if seed % SAME_QUERIES_RUNS == 0:
                queries = structure.select_queries(seed)
            rng = np.random.default_rng(seed)
            sizes.append(len(queries))
            for (semantic, hybrid), counts in counts_by_effect.items():
                evidence = draw_evidence(
                    rng, structure.rung, queries, structure.moving, semantic, hybrid
                )
                decisions = decide_modes(evidence, seed)
                counts.add(decisions)
                if semantic == 0:
                    decided += decisions["hybrid"].rung is not None
                    counts.add_expected(decide_modes(evidence, seed, expected=True))
        shares = " | ".join(counts.text for counts in counts_by_effect.values())
        null = counts_by_effect[0.0, 0.0]
        expected = f"{null.in_use} | {null.worse} | {null.in_use_and_worse}"
        print(
            f"{structure.name} | {np.median(sizes):.0f} | {100 * decided / runs:.0f} % | {shares} |"
            f" {expected}",
            flush=True,
        )


if __name__ == "__main__":
    main()
