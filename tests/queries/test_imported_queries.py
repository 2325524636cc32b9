"""Imported queries: what the stage counts of those that belong to no chunk."""

from __future__ import annotations

import json
from pathlib import Path

from fixtures.pipeline import generate_here
from fixtures.written_queries import Make, info, queries_of

from engine.datasets.imports import import_queries


def test_queries_without_a_chunk_count_as_made_and_rejected(
    asked_project: Make, tmp_path: Path
) -> None:
    project = asked_project(backend="imported")
    lines = [
        {"query": "Where is the kiln?", "evidence": ["The kiln stands in hall"]},
        {"query": "Who came by boat?", "evidence": ["This sentence stands in no document at all."]},
        {"query": "Why was it built?"},
    ]
    path = tmp_path / "queries.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    import_queries(project, path)
    generate_here(project)
    assert [query.text for query in queries_of(project)] == ["Where is the kiln?"]
    summary = info(project)
    assert summary["made"] == 3
    assert summary["rejected"] == {"evidence-not-found": 1, "no-evidence": 1}
