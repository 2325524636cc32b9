"""The public sets that `experience.py` measures on: documents, judged questions, training
queries.

The two large ones are reduced, so that a run takes minutes: contractnli to a sixth of its
agreements and the clauses that training queries ask for; multihop-partial to 600 questions, the
passages that they and the training queries ask for, and some others.
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
SETS = ("sample", "multihop-partial", "contractnli", "cranfield", "cisi", "med")
EXTRACTIVE_ONLY = ("med",)
"""Sets that no model wrote queries for."""
KINDS = ("usual", "everyday", "both", "extractive")
"""Of training queries: a model's in the documents' terms, or in everyday words; both;
extractive.
"""
AGREEMENTS = 6
"""One of so many agreements of contractnli is kept."""
QUESTIONS = 600
PASSAGES = 2500
"""Of multihop-partial."""
CONSISTENCY_TOP = 100
"""Everyday words rank their chunk lower than the documents' terms do."""
Row = dict[str, Any]


@dataclass(frozen=True)
class PublicSet:
    """A set below the folder `data`; `folder` holds what is made of it."""

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
        """The set as it is, or reduced."""
        source = self.data / self.name
        if self.name not in REDUCED:
            return source
        target = self.folder / "data" / self.name
        if target.exists():
            return target
        if self.name == "contractnli":
            choose = self._choose_clauses
        else:
            choose = self._choose_passages
        documents, questions = choose(source)
        building = target.with_suffix(".building")
        shutil.rmtree(building, ignore_errors=True)
        (building / "qrels").mkdir(parents=True)
        _write_reduced(source, building, documents, questions)
        building.rename(target)
        return target

    def has_queries(self, kind: str) -> bool:
        """Whether there are training queries of a kind, or can be."""
        return kind == "extractive" or self.name not in EXTRACTIVE_ONLY

    def training_queries(self, kind: str) -> list[Row]:
        """Rows as `engine import-queries` reads them, of a kind that a model wrote."""
        everyday = _read_rows(self.data / "model-written" / f"{self.name}-everyday.jsonl")
        if kind == "everyday":
            return everyday
        usual = self._usual_queries(everyday)
        return usual if kind == "usual" else usual + everyday

    def _usual_queries(self, everyday: list[Row]) -> list[Row]:
        """Those for the passages of the everyday ones: multihop-partial has many more."""
        if self.name != "multihop-partial":
            return _read_rows(self.data / "model-written" / f"{self.name}-queries.jsonl")
        asked = {row["evidence_list"][0] for row in everyday}
        path = self.data / self.name / "generated_queries.json"
        rows = json.loads(path.read_text(encoding="utf-8"))
        return [row for row in rows if asked.intersection(row["evidence_list"][:1])]

    def _choose_clauses(self, source: Path) -> tuple[set[str], set[str]]:
        """Ids of documents and questions of contractnli; a question begins with "In FILE: "."""
        clauses = _read_rows(source / "corpus.jsonl")
        files = {row["title"] for row in clauses if _number(row["title"]) % AGREEMENTS == 0}
        trained = {row["document"] for row in self.training_queries("both")}
        kept = {row["_id"] for row in clauses if row["title"] in files or row["_id"] in trained}
        asked = set()
        for row in _read_rows(source / "queries.jsonl"):
            if row["text"].removeprefix("In ").partition(": ")[0] in files:
                asked.add(row["_id"])
        return kept, asked

    def _choose_passages(self, source: Path) -> tuple[set[str], set[str]]:
        """Ids of documents and questions of multihop-partial."""
        relevant = _read_qrels(source)
        asked = set(sorted(relevant, key=_number)[:QUESTIONS])
        rows = _read_rows(source / "corpus.jsonl")
        evidence = {row["evidence_list"][0] for row in self.training_queries("everyday")}
        ids = {passage for question in asked for passage in relevant[question]}
        for row in rows:
            if any(text in row["text"] for text in evidence):
                ids.add(row["_id"])
        others = sorted((row["_id"] for row in rows if row["_id"] not in ids), key=_number)
        return ids | set(others[: PASSAGES - len(ids)]), asked


def open_project(one: PublicSet, kind: str) -> Project:
    """The project of a set and a kind of training queries; made where it is missing."""
    place = one.folder / "projects" / f"{one.name}-{kind}"
    if (place / "project.toml").exists():
        return Project.open(place)
    backend = {"backend": "extractive"}
    if kind != "extractive":
        backend = {"backend": "imported", "consistency_top": CONSISTENCY_TOP}
    unjudged = {"use_judged": False}
    project = Project.create(place, [one.documents], queries=backend, evaluation=unjudged)
    if kind != "extractive":
        path = one.folder / "queries" / f"{one.name}-{kind}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_rows(path, one.training_queries(kind))
        project.import_queries(path)
    if one.name == "sample":
        project.import_judgments(asset_path("sample/questions.jsonl"))
        project.import_judgments(asset_path("sample/questions-measuring.jsonl"))
    _share_vectors(one, place)
    return project


def _share_vectors(one: PublicSet, place: Path) -> None:
    """Copy the chunks' vectors that another project of the set has."""
    for other in sorted((one.folder / "projects").glob(f"{one.name}-*/cache")):
        if other.parent != place and any(other.iterdir()):
            shutil.copytree(other, place / "cache", dirs_exist_ok=True)
            return


def _write_reduced(source: Path, target: Path, documents: set[str], questions: set[str]) -> None:
    """A BEIR folder with these documents and questions, and the judgments that are about them."""
    for name, ids in (("corpus.jsonl", documents), ("queries.jsonl", questions)):
        _write_rows(target / name, [row for row in _read_rows(source / name) if row["_id"] in ids])
    lines = ["query-id\tcorpus-id\tscore\n"]
    for question, relevant in _read_qrels(source).items():
        if question in questions:
            for document in sorted(documents.intersection(relevant)):
                lines.append(f"{question}\t{document}\t{relevant[document]}\n")
    (target / "qrels" / "test.tsv").write_text("".join(lines), encoding="utf-8")


def _read_qrels(folder: Path) -> dict[str, dict[str, int]]:
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


def _number(key: str) -> int:
    """A number that looks drawn by chance, the same one everywhere."""
    return int(hashlib.sha256(key.encode()).hexdigest(), 16)
