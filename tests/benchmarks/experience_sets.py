"""The public sets that `experience.py` measures on: their documents, judged questions and training queries, by kind.

The two large sets are reduced, so that a run fits into minutes: contractnli to a sixth of its agreements, with the clauses that
training queries ask for; multihop-partial to 600 questions, the passages that they and the training queries ask for, and others.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.api import Project
from engine.core.assets import asset_path

SETS = ("sample", "multihop-partial", "contractnli", "cranfield", "cisi")
KINDS = ("usual", "everyday", "both", "extractive")
"""Of training queries: a model's, in the documents' terms or in everyday words; all of these; sentences of the documents."""
AGREEMENTS = 6
"""One of so many agreements of contractnli is kept."""
QUESTIONS, PASSAGES = 600, 2500
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
        """What is searched: a folder, or the corpus of a BEIR folder, with its judgments beside it."""
        if self.name == "sample":
            return asset_path("sample/documents")
        return self.beir_folder() / "corpus.jsonl"

    def beir_folder(self) -> Path:
        """The set as it is, or reduced."""
        source = self.data / self.name
        reduce = {"contractnli": self._reduced_contracts, "multihop-partial": self._reduced_passages}.get(self.name)
        if reduce is None:
            return source
        target = self.folder / "data" / self.name
        if not target.exists():
            building = target.with_suffix(".building")
            shutil.rmtree(building, ignore_errors=True)
            (building / "qrels").mkdir(parents=True)
            _write_reduced(source, building, *reduce(source))
            building.rename(target)
        return target

    def training_queries(self, kind: str) -> list[Row]:
        """Rows as `engine import-queries` reads them, of one of `KINDS` that a model wrote."""
        everyday = _read_rows(self.data / "model-written" / f"{self.name}-everyday.jsonl")
        if kind == "everyday":
            return everyday
        usual = self._usual_queries(everyday)
        return usual if kind == "usual" else usual + everyday

    def _usual_queries(self, everyday: list[Row]) -> list[Row]:
        """Those of multihop-partial are for the same passages as the everyday ones, as in the other sets."""
        if self.name != "multihop-partial":
            return _read_rows(self.data / "model-written" / f"{self.name}-queries.jsonl")
        asked = {row["evidence_list"][0] for row in everyday}
        rows = json.loads((self.data / self.name / "generated_queries.json").read_text(encoding="utf-8"))
        return [row for row in rows if row["evidence_list"] and row["evidence_list"][0] in asked]

    def _reduced_contracts(self, source: Path) -> tuple[set[str], set[str]]:
        chunks = _read_rows(source / "corpus.jsonl")
        kept = {row["title"] for row in chunks if _number(row["title"]) % AGREEMENTS == 0}
        trained = {row["document"] for row in self.training_queries("both")}
        ids = {row["_id"] for row in chunks if row["title"] in kept or row["_id"] in trained}
        asked = {
            row["_id"]
            for row in _read_rows(source / "queries.jsonl")
            if row["text"].removeprefix("In ").partition(": ")[0] in kept
        }
        return ids, asked

    def _reduced_passages(self, source: Path) -> tuple[set[str], set[str]]:
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
    """The project of a set and a kind of training queries, up to its rankings; made where it is missing."""
    place = one.folder / "projects" / f"{one.name}-{kind}"
    if (place / "project.toml").exists():
        return Project.open(place)
    backend = {"backend": "extractive"}
    if kind != "extractive":
        backend = {"backend": "imported", "consistency_top": CONSISTENCY_TOP}
    project = Project.create(place, [one.documents], queries=backend, evaluation={"use_judged": False})
    if kind != "extractive":
        path = one.folder / "queries" / f"{one.name}-{kind}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_rows(path, one.training_queries(kind))
        project.import_queries(path)
    if one.name == "sample":
        project.import_judgments(asset_path("sample/questions.jsonl"))
        project.import_judgments(one.data / "sample-questions" / "questions.jsonl")
    _share_vectors(one, place)
    return project


def _share_vectors(one: PublicSet, place: Path) -> None:
    """Copy the chunks' vectors that another project of the set has."""
    for other in sorted((one.folder / "projects").glob(f"{one.name}-*/cache")):
        if other.parent != place and any(other.iterdir()):
            shutil.copytree(other, place / "cache", dirs_exist_ok=True)
            return


def _write_reduced(source: Path, target: Path, documents: set[str], questions: set[str]) -> None:
    """A BEIR folder with these documents and questions alone, and the judgments that are about them."""
    _write_rows(target / "corpus.jsonl", _kept_rows(source / "corpus.jsonl", lambda row: row["_id"] in documents))
    _write_rows(target / "queries.jsonl", _kept_rows(source / "queries.jsonl", lambda row: row["_id"] in questions))
    lines = ["query-id\tcorpus-id\tscore\n"]
    for question, relevant in _read_qrels(source).items():
        if question in questions:
            lines.extend(f"{question}\t{key}\t{grade}\n" for key, grade in relevant.items() if key in documents)
    (target / "qrels" / "test.tsv").write_text("".join(lines), encoding="utf-8")


def _read_qrels(folder: Path) -> dict[str, dict[str, int]]:
    relevant: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for line in (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines():
        question, document, grade = line.split("\t")
        if grade.isdigit() and int(grade) > 0:
            relevant[question][document] = int(grade)
    return relevant


def _read_rows(path: Path) -> list[Row]:
    return list(_kept_rows(path, lambda _row: True))


def _kept_rows(path: Path, keep: Callable[[Row], bool]) -> Iterator[Row]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            if keep(row):
                yield row


def _write_rows(path: Path, rows: Iterable[Row]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def _number(key: str) -> int:
    """A number that looks drawn by chance, the same one everywhere."""
    return int(hashlib.sha256(key.encode()).hexdigest(), 16)
