"""How much a file's name should weigh in BM25: what names, words of names, and questions find at
each weight.

python tests/benchmarks/file_names.py PROJECT [--weights 0 1 2 3] [--questions FILE.jsonl …] [--seed
0]

PROJECT has been read ('engine ingest'). Known-item queries are made of its files' names: the whole
name, its rarest word where at most two files have that, and its two rarest words; and of five words
of a sentence in the text, which know nothing of the name. Right is each file of that name or that
text. Prints Hit@1, Hit@10 and MRR of documents, and nDCG@10 of passages for questions.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from math import log2
from pathlib import Path, PurePosixPath
from typing import Any

from engine.core.records import Chunk, Document
from engine.lexical.analysis import Analyzer
from engine.lexical.filenames import find_search_names
from engine.lexical.index import LexicalIndex
from engine.lexical.languages import detect_language
from engine.project.folder import ProjectFolder

DEPTH = 300
WORDS_OF_A_SENTENCE = 5
RARE = 2  # files


@dataclass(frozen=True)
class KnownItem:
    """A query, and the documents of which one must be found."""

    query: str
    right: frozenset[int]


@dataclass(frozen=True)
class Corpus:
    """The documents of a project by id, and their chunks."""

    documents: dict[int, Document]
    chunks: list[Chunk]

    def chunks_with(self, path: str, evidence: Iterable[str]) -> set[int]:
        """Ids of the chunks of a file that hold one of these texts."""
        wanted = [" ".join(text.split()) for text in evidence]
        found = set()
        for chunk in self.chunks:
            text = " ".join(chunk.text.split())
            if self.documents[chunk.document_id].path == path and any(
                one in text for one in wanted
            ):
                found.add(chunk.id)
        return found


def read_corpus(project: Path) -> Corpus:
    """Read what 'engine ingest' has stored."""
    with closing(ProjectFolder(project).store()) as store:
        documents = {document.id: document for document in store.documents(with_text=True)}
        return Corpus(documents, list(store.each_chunk()))


def build_known_items(corpus: Corpus, seed: int) -> dict[str, list[KnownItem]]:
    """Queries by kind."""
    analyzer = Analyzer("none")
    rng = random.Random(seed)
    by_text: dict[str, set[int]] = defaultdict(set)
    by_name: dict[str, set[int]] = defaultdict(set)
    by_word: dict[str, set[int]] = defaultdict(set)
    stems: dict[int, str] = {}
    for key, document in corpus.documents.items():
        by_text[document.text].add(key)
        if not (names := find_search_names(document.file_path)):
            continue
        stems[key] = PurePosixPath(document.path).stem
        by_name[stems[key].lower()].add(key)
        for word in set(analyzer.terms(" ".join(names)).words):
            by_word[word].add(key)
    items: dict[str, list[KnownItem]] = defaultdict(list)
    for key, stem in stems.items():
        document = corpus.documents[key]
        right = frozenset(by_name[stem.lower()] | by_text[document.text])
        items["the whole name"].append(KnownItem(stem, right))
        words = [
            word
            for word in dict.fromkeys(analyzer.terms(stem).words)
            if len(word) > 2 and word.isalpha()
        ]
        words.sort(key=lambda word: len(by_word[word]))
        if words and len(by_word[words[0]]) <= RARE:
            items["its rarest word"].append(KnownItem(words[0], right | by_word[words[0]]))
        if len(words) > 2:
            items["two rare words"].append(KnownItem(" ".join(words[:2]), right))
        sentences = [
            one for one in re.split(r"(?<=[.!?])\s+", document.text) if 40 < len(one) < 200
        ]
        if (
            sentences
            and len(long_words := re.findall(r"\w{4,}", rng.choice(sentences)))
            >= WORDS_OF_A_SENTENCE
        ):
            items["words of the text"].append(
                KnownItem(" ".join(rng.sample(long_words, WORDS_OF_A_SENTENCE)), right)
            )
    return items


def build_index(folder: Path, corpus: Corpus, weight: int) -> LexicalIndex:
    """Build the index with each name put `weight` times before each chunk, after the title."""
    labels = {
        key: "\n".join((one.title, *(weight * find_search_names(one.file_path))))
        for key, one in corpus.documents.items()
    }
    language, _ = detect_language(
        [chunk.text for chunk in corpus.chunks[:: max(1, len(corpus.chunks) // 200)]]
    )
    texts = (
        (chunk.id, f"{labels[chunk.document_id]}\n{chunk.embedded_text}") for chunk in corpus.chunks
    )
    return LexicalIndex.build(folder, texts, language)


def measure_items(index: LexicalIndex, items: list[KnownItem], owners: dict[int, int]) -> str:
    """Hit@1, Hit@10 and MRR@10 of documents, in percent."""
    totals = Counter[str]()
    for item in items:
        ids, _ = index.search(item.query, DEPTH)
        documents = list(dict.fromkeys(owners[chunk] for chunk in ids.tolist()))[:10]
        rank = next(
            (place for place, document in enumerate(documents, 1) if document in item.right), 0
        )
        totals["first"] += rank == 1
        totals["ten"] += rank > 0
        totals["reciprocal"] += 1 / rank if rank else 0
    return " / ".join(
        f"{100 * totals[name] / len(items):.1f}" for name in ("first", "ten", "reciprocal")
    )


def measure_questions(index: LexicalIndex, questions: list[dict[str, Any]], corpus: Corpus) -> str:
    """nDCG@10 of passages, in percent."""
    total = 0.0
    count = 0
    for question in questions:
        answers = [question, *question.get("also", ())]
        right = set[int]().union(
            *(corpus.chunks_with(one["path"], one["evidence"]) for one in answers)
        )
        if not right:
            continue
        ids, _ = index.search(question["query"], 10)
        gains = sum(
            1 / log2(place + 1) for place, chunk in enumerate(ids.tolist(), 1) if chunk in right
        )
        total += gains / sum(1 / log2(place + 1) for place in range(1, min(10, len(right)) + 1))
        count += 1
    return f"{100 * total / max(count, 1):.2f} ({count} questions)"


def main() -> None:
    """Print a line for each weight and kind of query."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("project", type=Path)
    parser.add_argument("--weights", type=int, nargs="+", default=[0, 1, 2, 3])
    parser.add_argument("--questions", type=Path, nargs="*", default=[])
    parser.add_argument("--seed", type=int, default=0)
    wanted = parser.parse_args()
    corpus = read_corpus(wanted.project)
    items = build_known_items(corpus, wanted.seed)
    owners = {chunk.id: chunk.document_id for chunk in corpus.chunks}
    questions = [
        json.loads(line) for file in wanted.questions for line in file.read_text().splitlines()
    ]
    for weight in wanted.weights:
        with tempfile.TemporaryDirectory() as folder:
            index = build_index(Path(folder) / "index", corpus, weight)
            for kind, listed in items.items():
                print(
                    f"weight {weight}: {kind} ({len(listed)}):"
                    f" {measure_items(index, listed, owners)}",
                    flush=True,
                )
            if questions:
                print(
                    f"weight {weight}: questions: {measure_questions(index, questions, corpus)}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
