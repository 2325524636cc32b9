"""The public sets of `experience.py`: documents, judged questions and training queries.

The two large ones are reduced, so that a run takes minutes. Of contractnli, a sixth of the
agreements is kept, and the clauses that training queries ask for. Of multihop-partial, 600
questions are kept, the passages that they and the training queries ask for, and some others.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.api import Project
from engine.core.assets import asset_path

REDUCED = ("contractnli", "multihop-partial")
SETS = (
    "sample",
    "multihop-partial",
    "contractnli",
    "cranfield",
    "cisi",
    "med",
)
EXTRACTIVE_ONLY = ("med",)
"""Sets that no model wrote queries for."""
KINDS = ("usual", "everyday", "both", "extractive")
"""Kinds of training queries: a model's in the documents' terms, a model's in everyday words, both
of these, and extractive ones.
"""
KEPT_AGREEMENTS = 6
"""One of so many agreements of contractnli is kept."""
QUESTIONS = 600
"""Questions kept of multihop-partial."""
PASSAGES = 2500
"""Passages kept of multihop-partial."""
CONSISTENCY_TOP = 100
"""The setting for queries in everyday words, which rank their chunk lower than terms do."""
Row = dict[str, Any]


@dataclass(frozen=True)
class PublicSet:
    """A set below the folder `data`. `folder`: where what is made of it is kept."""

    name: str
    data: Path
    folder: Path

    @property
    def documents(self) -> Path:
        """What is searched: a folder, or a BEIR corpus with its judgments."""
        if self.name == "sample":
            return asset_path("sample/documents")
        return self.beir_folder() / "corpus.jsonl"

    def beir_folder(self) -> Path:
        """Return the folder of the set, which is reduced first if it is a large one."""
        source = self.data / self.name
        if self.name not in REDUCED:
            return source
        target = self.folder / "data" / self.name
        if target.exists():
            return target
        if self.name == "contractnli":
            documents, questions = self._choose_clauses(source)
        else:
            documents, questions = self._choose_passages(source)
        building = target.with_suffix(".building")
        shutil.rmtree(building, ignore_errors=True)
        (building / "qrels").mkdir(parents=True)
        _write_reduced(source, building, documents, questions)
        building.rename(target)
        return target

    def has_queries(self, kind: str) -> bool:
        """Return whether there are training queries of a kind, or can be made."""
        return kind == "extractive" or self.name not in EXTRACTIVE_ONLY

    def training_queries(self, kind: str) -> list[Row]:
        """Return queries of a kind that a model wrote, as `engine import-queries` reads them."""
        everyday = _read_rows(self.data / "model-written" / f"{self.name}-everyday.jsonl")
        if kind == "everyday":
            return everyday
        usual = self._read_usual_queries(everyday)
        if kind == "usual":
            return usual
        return usual + everyday

    def _read_usual_queries(self, everyday: list[Row]) -> list[Row]:
        """Return queries in the documents' terms.

        Of multihop-partial's, which are many more, those for the passages of the everyday ones.
        """
        if self.name != "multihop-partial":
            return _read_rows(self.data / "model-written" / f"{self.name}-queries.jsonl")
        passages = {row["evidence_list"][0] for row in everyday}
        path = self.data / self.name / "generated_queries.json"
        rows = json.loads(path.read_text(encoding="utf-8"))
        return [row for row in rows if passages.intersection(row["evidence_list"][:1])]

    def _choose_clauses(self, source: Path) -> tuple[set[str], set[str]]:
        """Return the ids of documents and questions of contractnli."""
        clauses = _read_rows(source / "corpus.jsonl")
        files = {row["title"] for row in clauses if _hash(row["title"]) % KEPT_AGREEMENTS == 0}
        trained = {row["document"] for row in self.training_queries("both")}
        documents = {
            row["_id"] for row in clauses if row["title"] in files or row["_id"] in trained
        }
        questions = set()
        for row in _read_rows(source / "queries.jsonl"):
            file = row["text"].removeprefix("In ").partition(": ")[0]  # "In FILE: …"
            if file in files:
                questions.add(row["_id"])
        return documents, questions

    def _choose_passages(self, source: Path) -> tuple[set[str], set[str]]:
        """Return the ids of documents and questions of multihop-partial."""
        relevant = _read_qrels(source)
        questions = set(sorted(relevant, key=_hash)[:QUESTIONS])
        rows = _read_rows(source / "corpus.jsonl")
        evidence = {row["evidence_list"][0] for row in self.training_queries("everyday")}
        documents = {passage for question in questions for passage in relevant[question]}
        for row in rows:
            if any(text in row["text"] for text in evidence):
                documents.add(row["_id"])
        others = sorted((row["_id"] for row in rows if row["_id"] not in documents), key=_hash)
        return documents | set(others[: PASSAGES - len(documents)]), questions


def open_project(public_set: PublicSet, kind: str) -> Project:
    """Return the project of a set and a kind of training queries; create it if it is missing."""
    path = public_set.folder / "projects" / f"{public_set.name}-{kind}"
    if (path / "project.toml").exists():
        return Project.open(path)
    queries: dict[str, Any] = {"backend": "extractive"}
    if kind != "extractive":
        queries = {"backend": "imported", "consistency_top": CONSISTENCY_TOP}
    project = Project.create(
        path, [public_set.documents], queries=queries, evaluation={"use_judged": False}
    )
    if kind != "extractive":
        file = public_set.folder / "queries" / f"{public_set.name}-{kind}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        _write_rows(file, public_set.training_queries(kind))
        project.import_queries(file)
    if public_set.name == "sample":
        project.import_judgments(asset_path("sample/questions.jsonl"))
        project.import_judgments(asset_path("sample/questions-measuring.jsonl"))
    _copy_vectors(public_set, path)
    return project


def _copy_vectors(public_set: PublicSet, path: Path) -> None:
    """Copy the chunks' vectors from another project of the set to the one at `path`."""
    for cache in sorted((public_set.folder / "projects").glob(f"{public_set.name}-*/cache")):
        if cache.parent != path and any(cache.iterdir()):
            shutil.copytree(
                cache,
                path / "cache",
                dirs_exist_ok=True,
            )
            return


def _write_reduced(
    source: Path,
    target: Path,
    documents: set[str],
    questions: set[str],
) -> None:
    """Write a BEIR folder with these documents and questions, and the judgments about them."""
    for name, ids in (("corpus.jsonl", documents), ("queries.jsonl", questions)):
        _write_rows(target / name, [row for row in _read_rows(source / name) if row["_id"] in ids])
    lines = ["query-id\tcorpus-id\tscore\n"]
    for question, relevant in _read_qrels(source).items():
        if question in questions:
            for document in sorted(documents.intersection(relevant)):
                lines.append(f"{question}\t{document}\t{relevant[document]}\n")
    (target / "qrels" / "test.tsv").write_text("".join(lines), encoding="utf-8")


def _read_qrels(folder: Path) -> dict[str, dict[str, int]]:
    """Return the grades above 0, by question and document."""
    relevant: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for line in (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines():
        question, document, grade = line.split("\t")
        if grade.isdigit() and int(grade) > 0:
            relevant[question][document] = int(grade)
    return relevant


def _read_rows(path: Path) -> list[Row]:
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


def _write_rows(path: Path, rows: Iterable[Row]) -> None:
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    path.write_text("".join(lines), encoding="utf-8")


def _hash(key: str) -> int:
    """Return a number that orders keys as if by chance, alike on every machine."""
    return int(hashlib.sha256(key.encode()).hexdigest(), 16)
