"""A reranker in a project: measured by the stage that evaluates, not in use without proof, there
for whoever asks.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

from fixtures.errors import error_of
from fixtures.pipeline import engine_here
from fixtures.tiny_cross_encoder import build_cross_encoder

from engine.evaluation.reporting.report import read_report
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import EvaluationInfo

QUERY = "leave of absence"


def state(project: Path) -> str:
    stages = json.loads(engine_here("status", str(project), "--json").stdout)["stages"]
    return str(next(stage["state"] for stage in stages if stage["stage"] == "evaluate"))


def test_a_reranker_is_measured_and_used_on_request(project: Path, tmp_path: Path) -> None:
    folder = ProjectFolder.open(project)
    assert error_of("search", str(project), QUERY, "--rerank")[1]["code"] == "reranker-not-chosen"
    before = json.loads(engine_here("search", str(project), QUERY, "--json").stdout)
    assert (before["reranked"], state(project)) == (None, "done")
    reranker = build_cross_encoder(tmp_path / "reranker")
    folder.change_settings({"search.reranker": str(reranker), "search.rerank_seconds": 20.0})
    assert state(project) == "stale"
    engine_here("evaluate", str(project))
    with closing(folder.store()) as store:
        evaluation = store.artifact(EvaluationInfo)
    assert evaluation is not None
    chosen = evaluation.info.reranker
    assert chosen is not None
    assert (chosen.used, chosen.mode, chosen.seconds) == (
        False,
        "hybrid",
        20.0,
    ), "random weights prove nothing"
    measured = read_report(project / evaluation.folder)["reranker"]
    assert (measured["name"], measured["in_use"], measured["passages"]) == ("reranker", False, 100)
    assert measured["decision"]["candidates"][0]["name"] == "reranked"
    assert (
        json.loads(engine_here("search", str(project), QUERY, "--json").stdout)["reranked"] is None
    )
    folder.change_settings({"search.rerank_seconds": 10.0})
    assert state(project) == "stale", "another time is another comparison"
    folder.change_settings({"search.rerank_seconds": 20.0})
    assert state(project) == "done"
    answer = json.loads(
        engine_here("search", str(project), QUERY, "--json", "--rerank", "--passages").stdout
    )
    assert answer["reranked"]["passages"] > 10
    scores = [hit["rerank_score"] for hit in answer["hits"]]
    assert scores == sorted(scores, reverse=True)
