"""How often the gate lets in adapters that change nothing, and those that gain 3 points, where queries are not independent.

Documents are split, related, grouped and clustered by the product's own code; what each query gains is drawn. A query of the same
words about the same text moves with its twins in four of five cases, and every text has an effect of its own.
`python tests/benchmarks/null_adapters.py [--runs 400]`
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from engine.core.records import Chunk, Document, DocumentQuery
from engine.evaluation.document_set import grouped_by_text, judgment_of
from engine.evaluation.evidence import Evidence, Measured
from engine.evaluation.gate import decide
from engine.evaluation.judgments import Judgment, clusters_of
from engine.queries.document_written import held_by
from engine.queries.heldout import related_documents, split_documents, text_keys, unrelated_documents

CORRELATION, TWINS = 0.1, 0.8
DISCOUNTS = np.append(1 / np.log2(np.arange(2, 12)), 0.0)
CANDIDATES = ("interpolated", "adapted")
Asked = tuple[str, Judgment]  # the text that a query is about, and how it is judged


class Corpus:
    """`texts` of so many `headings`, each in so many files: exact copies, the same in another format, or versions of it."""

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
        path = f"{text}.{'abcdef'[copy]}" if kind == "formats" else f"{copy}/{text}.md"
        title = "" if kind == "formats" else f"Re: About {text}" if kind == "thread" else f"About {text}"
        content = text if kind == "copies" else f"{text} {copy}"
        self.documents.append(Document(path, "s", "md", title, "", content, 1, 0.0, id=number))
        self.about[number] = text
        if title:
            self.written.append(DocumentQuery(f"about {text}", "title", None, number, written_in=number))
        for place in range(headings):
            edited = kind in ("versions", "formats") and (place + copy) % 3 == 0
            chunk = Chunk(number, place, 0, 1, "", (), 1, "", f"{text} {place} {copy * edited}", len(self.chunks) + 1)
            self.chunks.append(chunk)
            query = DocumentQuery(f"part {place} of {text}", "heading", chunk.id, number, written_in=number)
            self.written.append(query)

    def text_of(self, document: int) -> str:
        """Versions have nine words of ten in common."""
        own = f" edited{document}" * 30
        return " ".join(f"{self.about[document]}w{place}" for place in range(300)) + own

    def asked(self, seed: int) -> list[Asked]:
        """The queries that decide, by the product's own rules."""
        related = related_documents(self.documents, self.text_of)
        sides = split_documents(text_keys(self.documents, related), 0.3, seed)
        used = {one.id for one in self.documents if sides.get(one.id) != "heldout"}
        free = held_by(unrelated_documents(used, related), self.written)
        groups = grouped_by_text(free, self.chunks)
        return [(self.about[same[0].document_id], judgment_of(same, related)) for same in groups]


def gains(rng: np.random.Generator, asked: Sequence[Asked], share: float) -> np.ndarray:
    """(q,) Zero in the mean: a share of the queries move in rank; twins together, and each text as a whole."""

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


def evidence(
    rng: np.random.Generator, rung: str, asked: Sequence[Asked], moving: float, gain: float, default: float
) -> Evidence:
    """An adapter that gains so much by semantic search and in the default mode, and its interpolation with half of that."""
    base = np.full(len(asked), 0.5)
    semantic = gains(rng, asked, moving)
    halved = 0.5 * semantic + 0.2 * gains(rng, asked, moving)
    systems = {"base": Measured(base, base)}
    for name, own, share in ((CANDIDATES[0], halved, 0.5), (CANDIDATES[1], semantic, 1.0)):
        also = 0.4 * own + 0.4 * share * gains(rng, asked, moving) + share * default
        systems[name] = Measured(base + own + share * gain, base + also)
    return Evidence(rung, systems, clusters_of([one for _, one in asked]))  # type: ignore[arg-type]


def judged(documents: int, each: int) -> Callable[[int], list[Asked]]:
    """Questions by a user, so many of each document."""

    def asked(_: int) -> list[Asked]:
        rows = [(row % documents, row) for row in range(documents * each)]
        return [(str(one), Judgment(str(row), str(row), "chunk", {row: 1}, source=one)) for one, row in rows]

    return asked


def structures() -> Iterator[tuple[str, str, float, Callable[[int], list[Asked]]]]:
    """What it is, its rung, the share of queries that move, and what is asked by a seed."""
    yield "distinct documents, titles and headings", "document", 0.3, Corpus("distinct", 400, 1, 4).asked
    yield "three copies of every file", "document", 0.3, Corpus("copies", 400, 3, 4).asked
    yield "the same in three formats, without titles", "document", 0.3, Corpus("formats", 400, 3, 5).asked
    yield "three versions of every file", "document", 0.3, Corpus("versions", 400, 3, 4).asked
    yield "versions that are most of a project", "document", 0.1, Corpus("versions", 1, 30, 60, others=28).asked
    yield "few long documents", "document", 0.1, Corpus("distinct", 40, 1, 30).asked
    yield "mail threads, titles alone", "document", 0.3, Corpus("thread", 1500, 3, 0).asked
    yield "240 judged questions about 40 documents", "judged", 0.15, judged(40, 6)
    yield "100 judged questions about 10 documents", "judged", 0.05, judged(10, 10)
    yield "40 judged questions about 8 documents", "judged", 0.05, judged(8, 5)


def main() -> None:
    """Print a row for each structure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=400)
    runs = parser.parse_args().runs
    print("structure | queries | decides | null let in | +3/+3 let in | +3/+1.2 let in")
    for name, rung, moving, asked in structures():
        sizes, decided, let_in = [], 0, [0, 0, 0]
        for seed in range(runs):
            rows, rng = asked(seed), np.random.default_rng(seed)
            sizes.append(len(rows))
            for place, (gain, default) in enumerate(((0.0, 0.0), (0.03, 0.03), (0.03, 0.012))):
                ladder = [evidence(rng, rung, rows, moving, gain, default)]
                found = decide(ladder, "base", CANDIDATES, samples=400, seed=seed)
                decided += found.rung is not None and not place
                let_in[place] += found.chosen != "base"
        shares = " | ".join(f"{100 * count / runs:.1f} %" for count in let_in)
        print(f"{name} | {np.median(sizes):.0f} | {100 * decided / runs:.0f} % | {shares}", flush=True)


if __name__ == "__main__":
    main()
