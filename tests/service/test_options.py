from __future__ import annotations

import json
import socket
from typing import Any

import pytest
from fixtures.errors import fails

from engine.core.errors import SettingsError
from engine.project.folder import ProjectFolder
from engine.runs import pipeline
from engine.settings.load import validate
from engine.settings.schema import Settings, sections


def keys(call: Any) -> dict[str, dict[str, Any]]:
    answer = call("schema")
    return {
        f"{section['name']}.{key['name']}": key
        for section in answer["sections"]
        for key in section["keys"]
    }


def test_settings_say_what_is_set_and_what_the_preset_gives(
    project: ProjectFolder, call: Any
) -> None:
    project.change_settings({"training.preset": "quick", "training.steps": 7})
    answer = call("settings")
    assert answer["settings"] == project.settings().model_dump()
    assert set(answer["set"]) == {
        "corpus.paths",
        "corpus.chunk_tokens",
        "corpus.retrain_threshold",
        "queries.max_queries",
        "queries.consistency_top",
        "ranking.k",
        "training.preset",
        "training.steps",
    }
    preset = answer["preset"]
    assert (preset["steps"], preset["queries_per_step"], preset["objective"]) == (40, 24, "mixed")
    assert "seed" not in preset  # it has a default of its own
    assert all(answer["settings"]["training"][name] is None for name in preset if name != "steps")
    project.change_settings({"training.preset": "paper"})
    assert call("settings")["preset"]["objective"] == "listnet"


def test_what_is_left_out_is_reported_as_training_takes_it(
    project: ProjectFolder, call: Any
) -> None:
    """The preset's own numbers are not the whole recipe: extractive queries are trained alone,
    and texts are as long as encoded.
    """
    project.change_settings({"training.preset": "standard", "encoder.max_tokens": 512})
    preset = call("settings")["preset"]
    assert (preset["adapter_scope"], preset["shared_chunks"], preset["max_tokens"]) == (
        "queries",
        8192,
        512,
    )
    project.change_settings(
        {
            "training.adapter_scope": "both",
            "training.negatives_per_query": 0,
            "training.objective": "triplet",
        }
    )
    preset = call("settings")["preset"]  # values that do not go together
    assert (preset["adapter_scope"], preset["negatives_per_query"], preset["steps"]) == (
        "both",
        1,
        200,
    )


def test_change_writes_and_gives_all_settings(project: ProjectFolder, call: Any) -> None:
    answer = call("change", changes={"search.top": 3, "corpus.retrain_threshold": None})
    assert (
        answer["settings"]["search"]["top"],
        answer["settings"]["corpus"]["retrain_threshold"],
    ) == (3, 0.1)
    assert answer["settings"] == project.settings().model_dump()
    with fails(SettingsError, "settings-invalid", "search.top"):
        call("change", changes={"search.top": 0})
    assert project.settings().search.top == 3


def test_a_public_server_is_refused_when_it_is_set_and_a_name_is_not_looked_up(
    project: ProjectFolder, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda *_, **__: pytest.fail("it asked the network"),
    )
    public = {"encoder.endpoint": "http://8.8.8.8/v1"}
    with fails(SettingsError, "endpoint-public", "8.8.8.8"):
        call("change", changes=public)
    assert call("change", changes={"queries.endpoint": "http://models.example/v1"})
    assert call("change", changes={**public, "encoder.endpoint_allow_public": True})
    assert project.settings().encoder.endpoint == public["encoder.endpoint"]
    with fails(SettingsError, "endpoint-public"):
        call("change", changes={"encoder.endpoint_allow_public": None})


def test_a_run_refuses_a_public_server_and_other_changes_do_not(
    project: ProjectFolder, call: Any
) -> None:
    project.change_settings({"search.reranker": "http://8.8.8.8/v1"})  # as by hand
    assert call("change", changes={"search.top": 3})
    with fails(SettingsError, "endpoint-public", "8.8.8.8"):
        pipeline.run(project, stages=("ingest",))


def test_change_does_not_wait_for_a_run(project: ProjectFolder, call: Any) -> None:
    with project.locked():
        assert call("change", changes={"search.top": 3})["settings"]["search"]["top"] == 3


def test_the_schema_names_every_key_with_its_default(call: Any) -> None:
    schema = keys(call)
    defaults = Settings().model_dump()
    assert {name: key["default"] for name, key in schema.items()} == {
        f"{section}.{key}": value
        for section, table in defaults.items()
        for key, value in table.items()
    }
    assert all(key["help"] for key in schema.values())
    assert {
        section["name"]: bool(section["help"]) for section in call("schema")["sections"]
    } == dict.fromkeys(sections(), True)
    json.dumps(schema)


def test_the_schema_of_every_kind(call: Any) -> None:
    schema = keys(call)

    def describe(name: str) -> tuple[Any, ...]:
        key = schema[name]
        return key["kind"], key["choices"], key["least"], key["most"], key["optional"]

    assert describe("corpus.paths") == ("texts", [], None, None, False)
    assert describe("corpus.chunk_tokens") == ("integer", [], 16, 8192, False)
    assert describe("corpus.retrain_threshold") == ("number", [], 0, 1, False)
    assert describe("corpus.context") == (
        "choice",
        ["none", "headings", "title"],
        None,
        None,
        False,
    )
    assert describe("encoder.model") == ("text", [], None, None, False)
    assert describe("queries.kinds")[0] == "choices"
    assert "keyword" in describe("queries.kinds")[1]
    assert describe("evaluation.interpolation_weights") == ("numbers", [], 0.01, 0.99, False)
    assert describe("evaluation.use_judged") == ("flag", [], None, None, False)
    assert describe("training.steps") == ("integer", [], 1, 1_000_000_000, True)
    assert describe("training.seed") == ("integer", [], 0, 2**32 - 1, False)
    assert describe("training.model_dropout") == ("flag", [], None, None, True)
    assert describe("training.target") == ("choice", ["fixed", "entropy"], None, None, True)
    assert describe("training.learning_rate") == ("number", [], 0, 0.1, True)
    assert schema["training.learning_rate"]["least_open"] is True
    assert schema["training.learning_rate"]["most_open"] is False
    assert schema["training.lora_dropout"]["least_open"] is False
    assert schema["training.lora_dropout"]["most_open"] is True
    assert not any(schema["training.seed"][name] for name in ("least_open", "most_open"))


def test_the_bounds_are_those_that_settings_keep(call: Any) -> None:
    for name, key in keys(call).items():
        section, _, plain = name.partition(".")
        for side, beyond in (("least", -1), ("most", 1)):
            bound = key[side]
            if bound is None:
                continue
            is_list = key["kind"] == "numbers"
            inside, outside = ([bound], [bound + beyond]) if is_list else (bound, bound + beyond)
            with pytest.raises(SettingsError):
                validate({section: {plain: inside if key[f"{side}_open"] else outside}})
            if not key[f"{side}_open"]:
                validate({section: {plain: inside}})
