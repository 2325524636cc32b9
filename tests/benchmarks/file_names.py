"""How much a file's name should weigh in BM25: what is found at each weight.

python tests/benchmarks/file_names.py PROJECT [--weights 0 1 2 3] [--questions FILE.jsonl …] [--seed
0]

PROJECT has been read ('engine ingest'). Known-item queries are made of its files' names: the whole
name, its rarest word where at most two files have that, and its two rarest words; and of five words
of a sentence in the text, whatever the name is. Right is each file of that name or that text.
Prints Hit@1, Hit@10 and MRR of documents, and nDCG@10 of passages for questions.
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

DEPTH = 300  # chunks of an answer
WORDS_OF_A_SENTENCE = 5
RARE_FILES = 2  # files that may have a rare word


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
        """Return the ids of the chunks of a file that hold one of these texts."""
        texts = [" ".join(text.split()) for text in evidence]
        ids = set()
        for chunk in self.chunks:
            if self.documents[chunk.document_id].path != path:
                continue
            chunk_text = " ".join(chunk.text.split())
            if any(text in chunk_text for text in texts):
                ids.add(chunk.id)
        return ids


def read_corpus(project: Path) -> Corpus:
    """Read what 'engine ingest' has stored."""
    with closing(ProjectFolder(project).store()) as store:
        documents = {document.id: document for document in store.documents(with_text=True)}
        return Corpus(documents, list(store.each_chunk()))


def build_known_items(corpus: Corpus, seed: int) -> dict[str, list[KnownItem]]:
    """Return queries of each kind, made of the names and the texts of files."""
    analyzer = Analyzer("none")
    rng = random.Random(seed)
    by_text: dict[str, set[int]] = defaultdict(set)
    by_name: dict[str, set[int]] = defaultdict(set)
    by_word: dict[str, set[int]] = defaultdict(set)
    stems: dict[int, str] = {}
    for document_id, document in corpus.documents.items():
        by_text[document.text].add(document_id)
        names = find_search_names(document.file_path)
        if not names:
            continue
        stems[document_id] = PurePosixPath(document.path).stem
        by_name[stems[document_id].lower()].add(document_id)
        for word in set(analyzer.terms(" ".join(names)).words):
            by_word[word].add(document_id)
    items: dict[str, list[KnownItem]] = defaultdict(list)
    for document_id, stem in stems.items():
        document = corpus.documents[document_id]
        right = frozenset(by_name[stem.lower()] | by_text[document.text])
        items["the whole name"].append(KnownItem(stem, right))
        words = [
            word
            for word in dict.fromkeys(analyzer.terms(stem).words)
            if len(word) > 2 and word.isalpha()
        ]
        words.sort(key=lambda word: len(by_word[word]))
        if words and len(by_word[words[0]]) <= RARE_FILES:
            items["its rarest word"].append(KnownItem(words[0], right | by_word[words[0]]))
        if len(words) > 2:
            items["two rare words"].append(KnownItem(" ".join(words[:2]), right))
        query = _draw_sentence_words(document.text, rng)
        if query:
            items["words of the text"].append(KnownItem(query, right))
    return items


def _draw_sentence_words(text: str, rng: random.Random) -> str:
    """Return long words of a sentence drawn from the text, "" if it has too few."""
    pieces = re.split(r"(?<=[.!?])\s+", text)
    sentences = [sentence for sentence in pieces if 40 < len(sentence) < 200]
    if not sentences:
        return ""
    long_words = re.findall(r"\w{4,}", rng.choice(sentences))
    if len(long_words) < WORDS_OF_A_SENTENCE:
        return ""
    return " ".join(rng.sample(long_words, WORDS_OF_A_SENTENCE))


def build_index(
    folder: Path,
    corpus: Corpus,
    weight: int,
) -> LexicalIndex:
    """Build the index with each name put `weight` times before each chunk, after the title."""
    labels = {
        key: "\n".join((document.title, *(weight * find_search_names(document.file_path))))
        for key, document in corpus.documents.items()
    }
    step = max(1, len(corpus.chunks) // 200)
    language, _ = detect_language([chunk.text for chunk in corpus.chunks[::step]])
    texts = (
        (chunk.id, f"{labels[chunk.document_id]}\n{chunk.embedded_text}") for chunk in corpus.chunks
    )
    return LexicalIndex.build(folder, texts, language)


def measure_items(
    index: LexicalIndex,
    items: list[KnownItem],
    owners: dict[int, int],
) -> str:
    """Return Hit@1, Hit@10 and MRR@10 of documents, in percent.

    `owners`: by id of a chunk, that of its document.
    """
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


def measure_questions(
    index: LexicalIndex,
    questions: list[dict[str, Any]],
    corpus: Corpus,
) -> str:
    """Return nDCG@10 of passages, in percent."""
    total = 0.0
    count = 0
    for question in questions:
        answers = [question, *question.get("also", ())]
        right = set[int]().union(
            *(corpus.chunks_with(answer["path"], answer["evidence"]) for answer in answers)
        )
        if not right:
            continue
        ids, _ = index.search(question["query"], 10)
        gains = sum(
            1 / log2(place + 1) for place, chunk in enumerate(ids.tolist(), 1) if chunk in right
        )
        best_places = range(1, min(10, len(right)) + 1)
        total += gains / sum(1 / log2(place + 1) for place in best_places)
        count += 1
    return f"{100 * total / max(count, 1):.2f} ({count} questions)"


def main() -> None:
    """Print a line for each weight and kind of query."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("project", type=Path)
    parser.add_argument(
        "--weights",
        type=int,
        nargs="+",
        default=[0, 1, 2, 3],
    )
    parser.add_argument(
        "--questions",
        type=Path,
        nargs="*",
        default=[],
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
    )
    options = parser.parse_args()
    corpus = read_corpus(options.project)
    items = build_known_items(corpus, options.seed)
    owners = {chunk.id: chunk.document_id for chunk in corpus.chunks}
    questions = [
        json.loads(line) for file in options.questions for line in file.read_text().splitlines()
    ]
    for weight in options.weights:
        with tempfile.TemporaryDirectory() as folder:
            index = build_index(
                Path(folder) / "index",
                corpus,
                weight,
            )
            for kind, kind_items in items.items():
                figures = measure_items(index, kind_items, owners)
                print(f"weight {weight}: {kind} ({len(kind_items)}): {figures}", flush=True)
            if questions:
                figures = measure_questions(index, questions, corpus)
                print(f"weight {weight}: questions: {figures}", flush=True)


if __name__ == "__main__":
    main()
