"""`engine config`: settings read and changed from the command line."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from fixtures.errors import error_of
from fixtures.pipeline import engine_here

from engine.project.folder import ProjectFolder
from engine.settings.load import validate
from engine.settings.values import list_settings


def config(
    action: str,
    project: ProjectFolder,
    *words: str,
) -> Any:
    return engine_here(
        "config",
        action,
        str(project.path),
        *words,
    )


def test_what_is_set_is_listed_first_and_alone_without_all(project: ProjectFolder) -> None:
    project.change_settings({"ranking.k": 7})
    set_here = tomllib.loads(config("list", project).stdout)
    assert validate(set_here) == project.settings()
    assert set_here["ranking"] == {"k": 7}
    every = json.loads(config("list", project, "--all", "--json").stdout)
    assert {row["key"] for row in every} == list_settings().keys()
    assert [row["set"] for row in every] == sorted((row["set"] for row in every), reverse=True)
    lines = config("list", project, "--all").stdout.splitlines()
    assert tomllib.loads("\n".join(lines)) == set_here
    assert (
        validate(tomllib.loads("\n".join(line.removeprefix("# ") for line in lines))).ranking.k == 7
    )


def test_a_value_is_set_read_and_unset(project: ProjectFolder) -> None:
    file = project.path / "project.toml"
    former = file.read_text()
    assert config("get", project, "search.mode").stdout == "hybrid\n"
    (changed,) = config("set", project, "search.mode", "bm25").stderr.splitlines()
    assert "search.mode" in changed
    assert '"keywords"' in changed
    assert '"hybrid"' in changed
    config("set", project, "corpus.exclude", "drafts/**, *.tmp")
    config("set", project, "queries.endpoint_model", "7")
    assert config("get", project, "search.mode").stdout == "keywords\n"
    settings = project.settings()
    assert (settings.corpus.exclude, settings.queries.endpoint_model) == (
        ["drafts/**", "*.tmp"],
        "7",
    )
    for key in ("search.mode", "corpus.exclude", "queries.endpoint_model"):
        config("unset", project, key)
    assert file.read_text() == former


def test_both_names_of_a_search_by_keyword_count(project: ProjectFolder) -> None:
    for name in ("keywords", "bm25"):
        config("set", project, "search.mode", name)
        search = project.settings().search
        assert (search.mode, search.mode_in_json) == ("keywords", "bm25")


def test_a_folder_of_documents_that_is_not_there_is_named(
    project: ProjectFolder, tmp_path: Path
) -> None:
    (_, missing, *_) = config(
        "set", project, "corpus.paths", f"{tmp_path}, {tmp_path / 'nope'}"
    ).stderr.splitlines()
    assert missing.startswith(str(tmp_path / "nope "))
    assert str(tmp_path) not in "".join(
        config("set", project, "corpus.paths", str(tmp_path)).stderr.splitlines()[1:]
    )


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("encoder.model", "/nowhere", "/nowhere"),
        ("queries.endpoint", "http://127.0.0.1:9/v1", "queries.backend endpoint"),
        ("queries.model", "/nowhere.gguf", "queries.backend gguf"),
    ],
)
def test_a_value_without_effect_is_remarked_on_once_set(
    project: ProjectFolder, key: str, value: str, named: str
) -> None:
    (_, remark) = config("set", project, key, value).stderr.splitlines()
    assert named in remark
    assert "engine adapt" not in remark
    assert len(config("unset", project, key).stderr.splitlines()) == 1


def test_a_section_is_not_taken_for_a_misspelt_key(project: ProjectFolder) -> None:
    code, error = error_of(
        "config",
        "get",
        str(project.path),
        "search",
    )
    assert (code, error["code"]) == (2, "settings-unknown-key")
    assert "search." not in error["to_do"]


def test_a_change_names_the_stages_that_it_makes_stale(project: ProjectFolder) -> None:
    assert "rank" in config("set", project, "ranking.k", "7").stderr


def test_what_a_stage_then_lacks_is_said(project: ProjectFolder) -> None:
    *_, remark = config("set", project, "queries.backend", "endpoint").stderr.splitlines()
    assert remark.startswith("generate ")
    assert "endpoint" in remark


def test_what_the_preset_decides_is_read_as_it_holds(project: ProjectFolder) -> None:
    project.change_settings({"training.preset": "quick"})
    row = json.loads(config("get", project, "training.steps", "--json").stdout)
    assert (row["value"], row["default"], row["set"]) == (40, 40, False)
    assert config("get", project, "encoder.query_prompt").stdout == "\n"


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        (("get", "serch.top"), "settings-unknown-key", "search.top"),
        (("set", "search.tops", "3"), "settings-unknown-key", "search.top"),
        (("unset", "search.tops"), "settings-unknown-key", "search.top"),
        (("set", "search.top", "0"), "settings-invalid", "search.top"),
        (("set", "search.top", ""), "settings-invalid", "search.top"),
        (("set", "search.mode", "telepathy"), "settings-invalid", "hybrid"),
        (("set", "training.steps", "ten"), "settings-invalid", '"ten"'),
        (("set", "corpus.ocr", "perhaps"), "settings-invalid", "true or false"),
        (
            ("set", "encoder.endpoint", "http://8.8.8.8/v1"),
            "endpoint-public",
            "encoder.endpoint_allow_public",
        ),
        (
            ("set", "queries.endpoint", "https://1.1.1.1/v1"),
            "endpoint-public",
            "queries.endpoint_allow_public",
        ),
        (
            ("set", "search.reranker", "http://8.8.8.8/v1"),
            "endpoint-public",
            "search.reranker_allow_public",
        ),
        (("set", "encoder.endpoint", "127.0.0.1:8080"), "endpoint-invalid", "encoder.endpoint"),
    ],
)
def test_a_wrong_key_or_value_changes_nothing(
    project: ProjectFolder, words: tuple[str, ...], code: str, named: str
) -> None:
    before = (project.path / "project.toml").read_bytes()
    action, *rest = words
    returned, error = error_of(
        "config",
        action,
        str(project.path),
        *rest,
    )
    assert (returned, error["code"]) == (2, code)
    assert named in error["what"] + error["to_do"]
    assert (project.path / "project.toml").read_bytes() == before


def test_to_take_all_documents_away_is_warned_of(project: ProjectFolder) -> None:
    lines = [
        config("unset", project, key).stderr.splitlines() for key in ("search.top", "corpus.paths")
    ]
    assert [any("engine run" in line for line in one[1:]) for one in lines] == [False, True]
