"""A finished project as version 0.1 left it: tables of figures in the database, and the keys of
then.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from fixtures.pipeline import engine_here

from engine.api import Project
from engine.core.former_systems import former_name, with_former_names
from engine.evaluation.reporting.report import read_report
from engine.evaluation.reporting.verdict import tables_of
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import FORMER_KEYS, VectorsInfo
from engine.training.history import FILE as HISTORY

FORMERLY_MISSING = {"corpus": ["tokenizer"], "queries": ["encoder"], "vectors": ["pooling"]}
CURVES = {"losses": [[2, 1.5]], "held_out": [[0, 60.0], [2, 61.5]]}
FORMER_SCOPES = {"queries": "query", "both-then-queries": "both-then-query"}


def former_layout(info: Any) -> Any:
    if not isinstance(info, dict):
        return info
    keys = {name: FORMER_KEYS.get(name, name) for name in info}
    found = {keys[name]: former_layout(value) for name, value in info.items()}
    if "semantic" in found:  # an evaluation had one encoder for both modes
        chosen = info["hybrid"]
        served = {
            "name": former_name(chosen["name"]),
            "scale": chosen["interpolation_weight"],
            "adapter": chosen["adapter"],
            "side": FORMER_SCOPES.get(chosen["adapter_scope"], chosen["adapter_scope"]),
        }
        del found["semantic"], found["hybrid"]
        found |= {"served": served, "reason": chosen["reason"]}
    return found | (
        {"side": FORMER_SCOPES.get(found["side"], found["side"])} if "side" in found else {}
    )


def former_report(file: Path) -> None:
    """Rewrite a report in schema 1."""
    report = former_names(json.loads(file.read_bytes())) | {"training": CURVES}
    chosen = report["selection"]["hybrid"]
    choice = {
        "served": former_name(chosen["encoder"]),
        "strength": chosen["weight"],
        "reason": chosen["reason"],
    }
    choice["table"] = [
        {"name": choice["served"], "strength": choice["strength"], "standing": "served"}
    ]
    report["selection"] = choice
    for part in report["query_sets"]:
        part["synthetic"] = part["comparison"].pop("synthetic")
        part["changed_system"] = former_name(part["changed_system"])
    file.write_text(json.dumps({**report, "schema": 1}))


def former_names(data: Any) -> Any:
    if isinstance(data, list):
        return [former_names(one) for one in data]
    if isinstance(data, dict):
        return {former_name(key): former_names(value) for key, value in data.items()}
    return data


@pytest.fixture
def former(project: Path) -> Path:
    with closing(sqlite3.connect(project / "project.db")) as database, database:
        for kind, folder, text in database.execute(
            "SELECT kind, folder, info FROM artifacts"
        ).fetchall():
            info = former_layout(json.loads(text))
            for name in FORMERLY_MISSING.get(kind, ()):
                del info[name]
            if kind == "adapter":
                file = project / folder / HISTORY
                info["history"] = CURVES
                file.unlink()
            if kind == "evaluation":
                info["tables"] = {
                    name: asdict(table)
                    for name, table in tables_of(read_report(project / folder)).items()
                }
                info["adapter"] = info["served"]["adapter"]
                former_report(project / folder / "report.json")
            database.execute(
                "UPDATE artifacts SET info = ? WHERE kind = ?", (json.dumps(info), kind)
            )
        database.execute("UPDATE files SET chunking = 'former'")
        database.execute("UPDATE artifacts SET fingerprint = 'former' WHERE kind = 'corpus'")
    return project


def artifacts(project: Path) -> dict[str, str]:
    with closing(sqlite3.connect(project / "project.db")) as database:
        return dict(database.execute("SELECT kind, info FROM artifacts").fetchall())


def test_it_opens_searches_shows_its_report_and_runs_on(former: Path) -> None:
    before = artifacts(former)
    assert json.loads(before["evaluation"])["tables"]
    project = Project.open(former)
    assert {stage.state for stage in project.status()} == {"stale"}
    assert project.search("leave of absence").hits
    assert project.search("leave of absence", mode="semantic").hits
    found = project.report()
    assert found.in_use["semantic"] == found.in_use["hybrid"]
    assert [one.sentence for one in found.verdict.modes] == [found.in_use["hybrid"].reason] * 2
    assert (found.gates, found.rungs) == ({}, {"semantic": "", "hybrid": ""})
    assert found.tables.keys() == json.loads(before["evaluation"])["tables"].keys()
    project.close()
    shown = json.loads(engine_here("report", str(former), "--json").stdout)
    assert shown["tables"] == with_former_names(json.loads(before["evaluation"])["tables"])
    events = [
        json.loads(line) for line in engine_here("adapt", str(former), "--json").stdout.splitlines()
    ]
    finished = {
        event["stage"]: event["summary"] for event in events if event["event"] == "stage_finished"
    }
    assert finished.keys() == {"ingest"}
    assert finished["ingest"]["files_read"] == finished["ingest"]["documents"]
    assert finished["ingest"]["new_chunks"] == 0
    curves = read_report(found.folder)["training"]
    assert curves == CURVES
    engine_here("evaluate", str(former), "--force")
    after = artifacts(former)["evaluation"]
    assert "tables" not in json.loads(after)
    assert len(after) < 4000
    again = json.loads(engine_here("report", str(former), "--json").stdout)
    assert again["tables"] == shown["tables"]
    assert read_report(Path(again["folder"]))["training"] == curves


def semantic_scores(project: Path) -> list[float]:
    answer = engine_here(
        "search", str(project), "leave of absence", "--mode", "semantic", "--top", "20", "--json"
    )
    return [hit["score"] for hit in json.loads(answer.stdout)["hits"]]


def test_a_former_index_leaves_keyword_search_and_is_made_anew_by_the_next_run(
    project: Path,
) -> None:
    plain = semantic_scores(project)
    with closing(ProjectFolder(project).store()) as store:
        artifact = store.artifact(VectorsInfo)
        assert artifact is not None
        manifest = project / artifact.folder / "manifest.json"
        manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"version": 1}))
        store.put_artifact(replace(artifact, fingerprint="of a version before"))
    found = json.loads(engine_here("search", str(project), "leave of absence", "--json").stdout)
    assert found["hits"]
    assert all(set(hit["rankers"]) == {"bm25"} for hit in found["hits"])
    engine_here("run", str(project))
    assert semantic_scores(project) == pytest.approx(plain, abs=1e-5)
