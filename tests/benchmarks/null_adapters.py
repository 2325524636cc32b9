"""How often the gate calls adapters proved that change nothing, and those that gain 3 points,
where queries are not independent; and how often experience brings one into use that is shown to
be worse.

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

import numpy as np

from engine.core.arrays import Doubles
from engine.core.messages.report import SEARCH_MODES, SearchMode
from engine.core.records import Chunk, Document, DocumentQuery
from engine.encoders.choosing.shares import EQUAL
from engine.evaluation.document_set import group_by_text, judgment_of
from engine.evaluation.evidence import DECIDE_SHARE, Evidence, RungName
from engine.evaluation.experience import Prior
from engine.evaluation.gate.deciding import decide
from engine.evaluation.gate.decision import NO_PRIOR_KNOWLEDGE, Decision, Option, PriorKnowledge
from engine.evaluation.judgments import Judgment, clusters_of
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

CORRELATION = 0.1
TWINS = 0.8
DISCOUNTS = np.append(1 / np.log2(np.arange(2, 12)), 0.0)
EFFECTS = {"interpolated": 0.5, "adapted": 1.0}
"""Candidate → the part of the adapter's effect that it has."""
ENCODERS = tuple(EFFECTS)
REFERENCE: dict[SearchMode, Option] = {
    "semantic": Option("base", "base"),
    "hybrid": hybrid_option("base", EQUAL),
}
EXPECTED: dict[SearchMode, Normal] = {"semantic": Normal(4.0, 3.0), "hybrid": Normal(1.5, 1.5)}
"""What experience says of both candidates: it expects more than there is."""
SAME_TEXTS = 20
"""Runs that have the same queries; what these gain is drawn for each."""
Asked = tuple[str, Judgment]  # the text that a query is about, and how it is judged


class Corpus:
    """`texts` of so many `headings`, each in so many files: exact copies, the same in another
    format, or versions of it.
    """

    def __init__(self, kind: str, texts: int, files: int, headings: int, others: int = 0) -> None:
        self.documents: list[Document] = []
        self.chunks: list[Chunk] = []
        self.written: list[DocumentQuery] = []
        self.about: dict[int, str] = {}
        for text in range(texts):
            for copy in range(files):
                self._add(kind, f"text{text}", copy, headings)
        for text in range(others):
            self._add("distinct", f"other{text}", 0, headings // 2)

    def _add(self, kind: str, text: str, copy: int, headings: int) -> None:
        number = len(self.documents) + 1
        if kind == "formats":
            path = f"{text}.{'abcdef'[copy]}"
        else:
            path = f"{copy}/{text}.md"
        if kind == "formats":
            title = ""
        elif kind == "thread":
            title = f"Re: About {text}"
        else:
            title = f"About {text}"
        content = text if kind == "copies" else f"{text} {copy}"
        self.documents.append(Document(path, "s", "md", title, "", content, 1, 0.0, id=number))
        self.about[number] = text
        if title:
            self.written.append(
                DocumentQuery(f"about {text}", "title", None, number, written_in=number)
            )
        for place in range(headings):
            edited = kind in ("versions", "formats") and (place + copy) % 3 == 0
            chunk = Chunk(
                number,
                place,
                0,
                1,
                "",
                (),
                1,
                "",
                f"{text} {place} {copy * edited}",
                len(self.chunks) + 1,
            )
            self.chunks.append(chunk)
            query = DocumentQuery(
                f"part {place} of {text}", "heading", chunk.id, number, written_in=number
            )
            self.written.append(query)

    def text_of(self, document: int) -> str:
        """Versions have nine words of ten in common."""
        own = f" edited{document}" * 30
        return " ".join(f"{self.about[document]}w{place}" for place in range(300)) + own

    def asked(self, seed: int) -> list[Asked]:
        """The queries that decide, by the product's own rules."""
        related = related_documents(self.documents, self.text_of)
        sides = split_documents(group_keys(self.documents, related), 0.3, seed)
        used = {one.id for one in self.documents if sides.get(one.id) != "heldout"}
        free = written_within(unrelated_documents(used, related), self.written)
        groups = group_by_text(free, self.chunks)
        return [(self.about[same[0].document_id], judgment_of(same, related)) for same in groups]


def gains(rng: np.random.Generator, asked: Sequence[Asked], share: float) -> np.ndarray:
    """(q,) Zero in the mean: a share of the queries move in rank; twins together, and each text
    as a whole.
    """

    def moves(count: int) -> np.ndarray:
        moved = rng.random(count) < share
        return np.where(moved, rng.choice(DISCOUNTS, count) - rng.choice(DISCOUNTS, count), 0.0)

    keys: dict[object, int] = {}
    twins = [keys.setdefault((text, one.text), len(keys)) for text, one in asked]
    texts: dict[str, int] = {}
    about = [texts.setdefault(text, len(texts)) for text, _ in asked]
    found = np.where(rng.random(len(asked)) < TWINS, moves(len(keys))[twins], moves(len(asked)))
    effect = found.std() * (CORRELATION / (1 - CORRELATION)) ** 0.5
    return found + rng.normal(0, effect, len(texts))[about]


def candidates(mode: SearchMode, rung: RungName) -> list[Option]:
    """What the gate compares with the reference on a rung, that nearest to it first."""
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


def evidence(
    rng: np.random.Generator,
    rung: RungName,
    asked: Sequence[Asked],
    moving: float,
    semantic: float,
    hybrid: float,
) -> dict[SearchMode, Evidence]:
    """An adapter that gains so much in each mode, and its interpolation with half of that.

    In hybrid search four tenths of what a query gains in semantic search are left with equal
    weights, more with a larger share.
    """
    base = np.full(len(asked), 0.5)
    clusters = clusters_of([one for _, one in asked])
    own = gains(rng, asked, moving)
    chance: dict[str, Doubles] = {
        "adapted": own,
        "interpolated": 0.5 * own + 0.2 * gains(rng, asked, moving),
    }
    alone = {"base": base}
    for name, part in EFFECTS.items():
        alone[name] = base + chance[name] + part * semantic
    by_share = gains(rng, asked, moving)
    fused = {REFERENCE["hybrid"].name: base}
    beside = {name: 0.4 * part * gains(rng, asked, moving) for name, part in EFFECTS.items()}
    for option in candidates("hybrid", rung):
        share = EQUAL if option.share is None else option.share
        moved = (share - EQUAL) / EQUAL * by_share
        if option.encoder in EFFECTS:
            moved = moved + 0.4 * share / EQUAL * chance[option.encoder] + beside[option.encoder]
        fused[option.name] = base + moved + EFFECTS.get(option.encoder, 0.0) * hybrid
    return {"semantic": Evidence(rung, alone, clusters), "hybrid": Evidence(rung, fused, clusters)}


def decisions(
    measured: dict[SearchMode, Evidence], seed: int, *, expected: bool = False
) -> dict[SearchMode, Decision]:
    """What the gate decides in each mode; `expected`: with experience that expects a gain."""
    found = {}
    for mode, one in measured.items():
        options = candidates(mode, one.rung)
        foreseen = NO_PRIOR_KNOWLEDGE
        if expected:
            likely = EXPECTED[mode]
            adapted = [option.name for option in options if option.encoder in EFFECTS]
            foreseen = PriorKnowledge(
                {name: Prior(likely, 6, 5, likely.mean) for name in adapted}, {}
            )
        found[mode] = decide(
            mode, [one], REFERENCE[mode], options, prior_knowledge=foreseen, samples=400, seed=seed
        )
    return found


def judged(documents: int, each: int) -> Callable[[int], list[Asked]]:
    """Questions by a user, so many of each document."""

    def asked(_: int) -> list[Asked]:
        rows = [(row % documents, row) for row in range(documents * each)]
        return [
            (str(one), Judgment(str(row), str(row), "chunk", {row: 1}, source=one))
            for one, row in rows
        ]

    return asked


def structures() -> Iterator[tuple[str, RungName, float, Callable[[int], list[Asked]]]]:
    """What it is, its rung, the share of queries that move, and what is asked by a seed."""
    yield (
        "distinct documents, titles and headings",
        "document",
        0.3,
        Corpus("distinct", 400, 1, 4).asked,
    )
    yield "three copies of every file", "document", 0.3, Corpus("copies", 400, 3, 4).asked
    yield (
        "the same in three formats, without titles",
        "document",
        0.3,
        Corpus("formats", 400, 3, 5).asked,
    )
    yield "three versions of every file", "document", 0.3, Corpus("versions", 400, 3, 4).asked
    yield (
        "versions that are most of a project",
        "document",
        0.1,
        Corpus("versions", 1, 30, 60, others=28).asked,
    )
    yield "few long documents", "document", 0.1, Corpus("distinct", 40, 1, 30).asked
    yield "mail threads, titles alone", "document", 0.3, Corpus("thread", 1500, 3, 0).asked
    yield "240 judged questions about 40 documents", "judged", 0.15, judged(40, 6)
    yield "100 judged questions about 10 documents", "judged", 0.05, judged(10, 10)
    yield "40 judged questions about 8 documents", "judged", 0.05, judged(8, 5)


@dataclass
class Counts:
    """Of so many `runs`: in how many a candidate was proved by mode, and in either of them, and
    by experience: in how many one came into use, was shown to be worse, and came into use
    although it was.
    """

    runs: int = 0
    proved: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys((*SEARCH_MODES, "either"), 0)
    )
    in_use: int = 0
    worse: int = 0
    in_use_and_worse: int = 0

    def add(self, found: dict[SearchMode, Decision]) -> None:
        """Count what was decided without experience."""
        self.runs += 1
        proved = [mode for mode, one in found.items() if one.standing == "proved"]
        for name in (*proved, *["either"][: len(proved)]):
            self.proved[name] += 1

    def add_expected(self, found: dict[SearchMode, Decision]) -> None:
        """Count what was decided with experience."""
        rows = [row for one in found.values() for row in one.candidates]
        worse = [row for row in rows if row.difference is not None and row.difference.high < 0]
        self.in_use += any(row.in_use for row in rows)
        self.worse += bool(worse)
        self.in_use_and_worse += any(row.in_use for row in worse)

    @property
    def text(self) -> str:
        """The shares of runs with something proved."""
        return " | ".join(f"{100 * count / self.runs:.1f} %" for count in self.proved.values())


def main() -> None:
    """Print a row for each structure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--only", default="", help="structures whose name has this in it")
    wanted = parser.parse_args()
    runs = wanted.runs
    print(
        "Proved, in semantic search | hybrid search | either; the adapter gains in semantic/hybrid"
        " search:"
    )
    print("structure | queries | last word in hybrid search | null | +3/+3 | +3/+1.2")
    print("and with experience: null adapters in use | shown to be worse | both")
    for name, rung, moving, asked in structures():
        if wanted.only not in name:
            continue
        sizes = []
        decided = 0
        effects = {(0.0, 0.0): Counts(), (0.03, 0.03): Counts(), (0.03, 0.012): Counts()}
        rows: list[Asked] = []
        for seed in range(runs):
            if seed % SAME_TEXTS == 0:
                rows = asked(seed)
            rng = np.random.default_rng(seed)
            sizes.append(len(rows))
            for (semantic, hybrid), counts in effects.items():
                measured = evidence(rng, rung, rows, moving, semantic, hybrid)
                found = decisions(measured, seed)
                counts.add(found)
                if semantic == 0:
                    decided += found["hybrid"].rung is not None
                    counts.add_expected(decisions(measured, seed, expected=True))
        shares = " | ".join(one.text for one in effects.values())
        null = effects[0.0, 0.0]
        expected = f"{null.in_use} | {null.worse} | {null.in_use_and_worse}"
        print(
            f"{name} | {np.median(sizes):.0f} | {100 * decided / runs:.0f} % | {shares} |"
            f" {expected}",
            flush=True,
        )


if __name__ == "__main__":
    main()
