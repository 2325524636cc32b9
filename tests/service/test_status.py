from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from fixtures.errors import fails

from engine.core.errors import UsageError
from engine.project.folder import ProjectFolder
from engine.service import methods

STAGES = [
    "ingest",
    "index",
    "generate",
    "rank",
    "train",
    "evaluate",
    "embed",
]


def states(answer: dict[str, Any]) -> dict[str, str]:
    return {row["stage"]: row["state"] for row in answer["stages"]}


def test_status_of_a_project_that_is_half_built(project: ProjectFolder, call: Any) -> None:
    answer = call("status")
    assert answer["project"] == str(project.path)
    assert answer["name"] == "project"
    assert answer["running"] is False
    assert answer["problem"] is None
    assert [
        answer["counts"][what] for what in ("files", "skipped", "quarantined", "documents")
    ] == [4, 1, 1, 4]
    assert answer["counts"]["queries"] > 5
    assert list(states(answer)) == STAGES
    assert list(states(answer).values()) == ["done"] * 4 + ["to do"] * 3
    assert (answer["run"]["state"], Path(answer["run"]["folder"]).parent.name) == ("done", "runs")


def test_status_of_a_project_without_anything(tmp_path: Path) -> None:
    answer = methods(ProjectFolder.create(tmp_path / "new", {}))["status"]()()
    assert set(states(answer).values()) == {"to do"}
    assert (answer["run"], answer["problem"], answer["counts"]["documents"]) == (None, None, 0)


def test_status_while_a_run_goes_on(project: ProjectFolder, call: Any) -> None:
    with project.locked():
        answer = call("status")
    assert answer["running"] is True
    assert states(answer)["rank"] == "done"


def test_status_with_a_typo_in_the_settings(project: ProjectFolder, call: Any) -> None:
    (project.path / "project.toml").write_text("[search]\ntopp = 3\n")
    answer = call("status")
    assert answer["stages"] == []
    assert answer["counts"]["documents"] == 4
    assert answer["problem"]["type"] == "SettingsError"
    assert "search.topp" in answer["problem"]["what"]


def test_status_with_a_damaged_database(project: ProjectFolder, call: Any) -> None:
    (project.path / "project.db").write_bytes(b"no database" * 1000)
    for suffix in ("-wal", "-shm"):
        Path(f"{project.path / 'project.db'}{suffix}").unlink(missing_ok=True)
    answer = call("status")
    assert (answer["problem"]["type"], answer["stages"], answer["counts"]) == (
        "DamagedError",
        [],
        {},
    )
    assert answer["run"]["state"] == "done"


@pytest.mark.parametrize(
    ("changes", "stale"),
    [
        ({"corpus.chunk_tokens": 128}, ["ingest", "index", "generate", "rank"]),
        ({"lexical.language": "none"}, ["index", "generate", "rank"]),
        ({"queries.per_chunk": 1}, ["generate", "rank"]),
        ({"ranking.k": 21}, ["rank"]),
        ({"ranking.k": 20}, []),
        ({"search.top": 3, "training.steps": 4}, []),
        ({"ranking.k": None, "search.top": None}, ["rank"]),
    ],
)
def test_what_a_change_would_make_stale(
    project: ProjectFolder, call: Any, changes: dict[str, Any], stale: list[str]
) -> None:
    before = (project.path / "project.toml").read_bytes()
    answer = call("what_if", changes=changes)
    assert answer["problem"] is None
    assert [(row["stage"], row["before"], row["after"]) for row in answer["stages"]] == [
        (stage, "done", "stale") for stage in stale
    ]
    assert all(row["reason"] for row in answer["stages"])
    assert (project.path / "project.toml").read_bytes() == before


def test_a_change_that_would_bring_a_stage_back_is_reported(
    project: ProjectFolder, call: Any
) -> None:
    project.change_settings({"ranking.k": 30})
    answer = call("what_if", changes={"ranking.k": 20})
    assert [(row["stage"], row["before"], row["after"]) for row in answer["stages"]] == [
        ("rank", "stale", "done")
    ]


def test_a_change_to_a_model_that_is_not_there(call: Any, tmp_path: Path) -> None:
    answer = call("what_if", changes={"encoder.model": str(tmp_path / "none")})
    assert [(row["stage"], row["after"]) for row in answer["stages"]][1] == ("index", "stale")
    assert str(tmp_path / "none") in next(
        row["reason"] for row in answer["stages"] if row["stage"] == "ingest"
    )


def test_a_change_that_is_not_valid_is_a_problem(call: Any) -> None:
    answer = call("what_if", changes={"search.top": 0})
    assert answer["stages"] == []
    assert (answer["problem"]["type"], "search.top" in answer["problem"]["what"]) == (
        "SettingsError",
        True,
    )


def test_what_if_can_repair_a_broken_settings_file(project: ProjectFolder, call: Any) -> None:
    file = project.path / "project.toml"
    file.write_text(file.read_text() + "[serch]\ntop = 3\n")
    assert call("what_if", changes={"search.top": 3})["problem"]["type"] == "SettingsError"
    answer = call("what_if", changes={"serch": None, "ranking.k": 21})
    assert answer["problem"] is None
    assert {row["stage"]: (row["before"], row["after"]) for row in answer["stages"]}["rank"] == (
        "",
        "stale",
    )
    assert len(answer["stages"]) == len(STAGES)


@pytest.mark.parametrize("changes", [None, [], "search.top", {1: 2}])
def test_changes_that_are_no_object(project: ProjectFolder, changes: Any) -> None:
    for method in ("what_if", "change"):
        with pytest.raises(TypeError, match="changes"):
            methods(project)[method](changes=changes)


def test_asking_does_not_recreate_a_deleted_project(project: ProjectFolder, call: Any) -> None:
    shutil.rmtree(project.path)
    assert call("status")["problem"]["code"] == "project-missing"
    for method, params in {
        "change": {"changes": {"search.top": 3}},
        "judge": {"query": "q", "chunk_id": 1, "relevant": True},
        "delete_queries": {"ids": [1]},
        "retry": {"files": []},
    }.items():
        with fails(UsageError, "project-missing"):
            call(method, **params)
    assert not project.path.exists()
