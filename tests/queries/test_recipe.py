"""Which queries are up to date, and by which defaults."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from fixtures.errors import fails
from fixtures.fake_endpoint import FakeEndpoint, good, serving
from fixtures.pipeline import generate_here
from fixtures.written_queries import Make, info, pointed, queries_of, run, view_status

from engine.core.errors import SettingsError
from engine.encoders.kinds.chosen import base_source
from engine.lexical.stage import VERSION as INDEX_VERSION
from engine.llm.prompts import load_prompt
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot, fingerprint, stage_fingerprint
from engine.project.store.artifact_info import LexicalInfo, QueriesInfo
from engine.project.store.artifacts import Artifact
from engine.queries.recipe import SHIPPED_PROMPTS, current_defaults
from engine.queries.stage import STAGE
from engine.runs.pipeline import find_due_stages

FORMER_KINDS = ["question", "keyword", "title", "claim"]
FORMER_DEFAULTS: dict[str, Any] = {
    "queries": {
        "kinds": FORMER_KINDS,
        "per_chunk": 3,
        "prompt": "two-step",
        "context_tokens": 4096,
        "answer_tokens": 768,
        "max_queries": 8000,
        "max_hours": 0.0,
        "quality_filters": True,
        "consistency_top": 20,
    },
    "evaluation": {"heldout_share": 0.3},
    "prompts": {
        "events": "4228f1c4a27f5312",
        "questions": "c97f474b6a88c051",
        "one-step": "1001e2a71d782c06",
    },
    "conversation": 3,
    "order": 1,
    "filters": 2,
}


@pytest.fixture
def server() -> Iterator[FakeEndpoint]:
    with serving(good) as endpoint:
        yield endpoint


def as_made_before(project: ProjectFolder, queries: dict[str, Any]) -> None:
    """Note of a project's queries the defaults and the fingerprints of an earlier version."""
    chosen = project.settings().encoder
    encoder = base_source(chosen).fingerprint, chosen.max_tokens
    with closing(project.store()) as store:
        language = (
            ProjectSnapshot(project, project.settings(), store).need(LexicalInfo).info.language
        )
        assert language in ("en", "none")
        former: dict[str, Any] = {
            "queries": queries,
            "imports": [],
            "split": [0.3, 0],
            "model": encoder,
            "index": [project.settings().lexical.language, INDEX_VERSION],
        }
        artifact = store.artifact(QueriesInfo)
        assert artifact is not None
        former_info = replace(
            artifact.info, recipe=fingerprint(recipe=former), defaults=FORMER_DEFAULTS
        )
        corpus = store.corpus_fingerprint()
        former_fingerprint = stage_fingerprint(
            "generate",
            4,
            {"recipe": former, "corpus": corpus},
        )
        store.put_artifact(Artifact(former_info, former_fingerprint))


def by_model_before(project: ProjectFolder, url: str) -> None:
    writer = {
        "model": ["endpoint", url, ""],
        "prompts": ["1001e2a71d782c06"],
        "version": 3,
        "per_chunk": 3,
        "kinds": FORMER_KINDS,
        "context_tokens": 4096,
        "answer_tokens": 768,
        "seed": 0,
    }
    limits = {
        "max_queries": 8000,
        "max_hours": 0.0,
        "consistency_top": 0,
    }
    as_made_before(
        project, {"backend": "endpoint", **limits, "order": 1, "filters": 2, "writer": writer}
    )


def state(project: ProjectFolder) -> str:
    return next(row.state for row in view_status(project) if row.stage == "generate")


def is_outdated(project: ProjectFolder) -> bool:
    with closing(project.store()) as store:
        return STAGE.is_outdated(ProjectSnapshot(project, project.settings(), store))


def due(project: ProjectFolder) -> list[str]:
    with closing(project.store()) as store:
        return find_due_stages(
            ProjectSnapshot(project, project.settings(), store), ("ingest", "index", "generate")
        )


def test_queries_of_former_defaults_stay_until_one_generates_again(
    asked_project: Make, server: FakeEndpoint
) -> None:
    project = pointed(
        asked_project,
        server,
        kinds=FORMER_KINDS,
    )
    generate_here(project)
    project.change_settings({"queries.kinds": None})
    by_model_before(project, server.url)
    former = queries_of(project)
    assert (state(project), is_outdated(project), due(project)) == ("done", True, [])
    request_count = len(server.requests)
    run(project)
    assert len(server.requests) == 2 * request_count, (
        "'engine generate' alone writes them again, by the current prompts"
    )
    assert {query.kind for query in former} <= set(FORMER_KINDS)
    assert "everyday" in {query.kind for query in queries_of(project)}
    assert (state(project), is_outdated(project)) == ("done", False)
    assert info(project)["defaults"] == current_defaults()


@pytest.mark.parametrize("change", [{"queries.per_chunk": 2}, {"queries.kinds": ["everyday"]}])
def test_a_change_of_settings_makes_queries_of_former_defaults_stale(
    asked_project: Make, server: FakeEndpoint, change: dict[str, Any]
) -> None:
    project = pointed(
        asked_project,
        server,
        kinds=FORMER_KINDS,
    )
    generate_here(project)
    project.change_settings({"queries.kinds": None})
    by_model_before(project, server.url)
    project.change_settings(change)
    assert state(project) == "stale"
    project.change_settings(dict.fromkeys(change))
    assert state(project) == "done"


def test_extractive_queries_of_former_rules_stay_until_one_generates_again(
    asked_project: Make,
) -> None:
    project = asked_project()
    generate_here(project)
    now = info(project)
    limits = {
        "per_chunk": 3,
        "max_queries": 8000,
        "consistency_top": 0,
    }
    as_made_before(project, {"backend": "extractive", "kinds": FORMER_KINDS, **limits})
    assert info(project)["recipe"] != now["recipe"]
    assert (state(project), is_outdated(project), due(project)) == ("done", True, [])
    run(project)
    assert info(project)["recipe"] == now["recipe"]
    assert (state(project), is_outdated(project)) == ("done", False)


def test_an_edited_prompt_makes_queries_stale(
    asked_project: Make, server: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = pointed(asked_project, server)
    generate_here(project)
    assert state(project) == "done"
    edited = replace(load_prompt("one-step"), version="0" * 16)
    monkeypatch.setattr("engine.llm.prompts.load_prompt", lambda name: edited)
    assert state(project) == "stale"


def test_the_versions_of_the_shipped_prompts_are_those_of_their_texts() -> None:
    assert {name: load_prompt(name).version for name in SHIPPED_PROMPTS} == SHIPPED_PROMPTS


def test_the_built_in_generator_writes_no_everyday_queries(asked_project: Make) -> None:
    project = asked_project()
    generate_here(project)
    assert {query.kind for query in queries_of(project)} <= set(FORMER_KINDS)
    project.change_settings({"queries.kinds": ["everyday"]})
    with fails(SettingsError, "kinds-need-language-model"):
        run(project)
