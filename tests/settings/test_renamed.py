"""Settings under their old names: read for this version, with one note."""

from __future__ import annotations

from typing import Any

import pytest

from engine.project.folder import ProjectFolder
from engine.settings.edit import change
from engine.settings.load import tables, template, validate
from engine.settings.renamed import KEYS, SCOPES, current_scope, recipe_identity

VALUES: dict[str, Any] = {
    "corpus.drift": 0.3,
    "queries.at_once": 4,
    "training.side": "both",
    "evaluation.lambdas": [0.4],
    "evaluation.merges_up_to": 7,
    "evaluation.max_interpolation_chunks": 7,
    "evaluation.veto": False,
    "evaluation.cl_baseline": True,
    "evaluation.transformations": True,
    "search.rrf_u": 10,
    "search.hubs": False,
    "search.csls": False,
    "search.term_weights": False,
    "vectors.expansion_search": 64,
    "training.quantisation": "4-bit",
    "training.compile": "on",
    "training.query_steps": 100,
    "training.query_learning_rate": 5e-4,
    "training.refresh_every": 50,
    "training.mined_per_query": 20,
}


def found(settings: object, key: str) -> object:
    section, name = key.split(".")
    return getattr(getattr(settings, section), name)


def test_every_old_name_is_known() -> None:
    assert set(VALUES) == set(KEYS)


@pytest.mark.parametrize(
    ("old", "value"), [(old, value) for old, value in VALUES.items() if KEYS[old]]
)
def test_an_old_key_sets_what_its_new_name_sets(old: str, value: object) -> None:
    section, key = old.split(".")
    assert found(validate({section: {key: value}}), KEYS[old]) == value


def test_a_removed_key_has_no_effect_and_goes_when_it_is_changed() -> None:
    assert validate({"search": {"term_weights": False, "top": 3}}) == validate(
        {"search": {"top": 3}}
    )
    settings, text = change(
        "[search]\nterm_weights = false\ntop = 3\n", {"search.term_weights": True}
    )
    assert (tables(text), settings.search.top) == ({"search": {"top": 3}}, 3)
    assert change("", {"search.term_weights": True})[1] == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [("query", "queries"), ("both-then-query", "both"), ("both-then-queries", "both")],
)
def test_an_old_scope_under_either_key(old: str, new: str) -> None:
    assert validate({"training": {"side": old}}).training.adapter_scope == new
    assert validate({"training": {"adapter_scope": old}}).training.adapter_scope == new


def test_removed_losses_and_teachers_have_others_in_their_place() -> None:
    found = validate(
        {"training": {"objective": "shared_listnet", "infonce_weight": 0.5, "teacher": "rrf"}}
    ).training
    assert (found.objective, found.infonce_weight, found.teacher) == ("mixed", 0.0, "auto")


@pytest.mark.parametrize(("old", "new"), SCOPES.items())
def test_an_old_scope_of_an_adapter(old: str, new: str) -> None:
    assert current_scope(old) == current_scope(new) == new


def test_a_new_project_may_be_given_old_names() -> None:
    text = template({"search": {"rrf_u": 60}, "training": {"side": "query"}})
    settings = validate(tables(text))
    assert (settings.search.rrf_k, settings.training.adapter_scope) == (60, "queries")


def test_the_current_name_counts_where_both_are_set() -> None:
    assert validate({"search": {"rrf_u": 10, "rrf_k": 20}}).search.rrf_k == 20


@pytest.mark.parametrize(("value", "expected"), [(60, 60), (None, 40)])
def test_a_change_replaces_an_old_key(value: int | None, expected: int) -> None:
    settings, text = change("[search]\nrrf_u = 10  # ours\ntop = 3\n", {"search.rrf_k": value})
    assert (settings.search.rrf_k, settings.search.top) == (expected, 3)
    assert "rrf_u" not in tables(text)["search"]
    assert tables(text)["search"].get("rrf_k") == value


def test_a_change_may_use_the_old_name() -> None:
    settings, text = change("", {"search.rrf_u": 60})
    assert settings.search.rrf_k == tables(text)["search"]["rrf_k"] == 60


def test_the_note_names_the_new_keys(project: ProjectFolder) -> None:
    assert project.renamed_settings() == ""
    file = project.path / "project.toml"
    file.write_text(
        file.read_text("utf-8").replace(
            "[search]", "[search]\nrrf_u = 10\nhubs = false\nterm_weights = true"
        ),
        "utf-8",
    )
    note = project.renamed_settings()
    assert all(
        name in note
        for name in ("search.rrf_u", "search.rrf_k", "search.hubs", "search.term_weights")
    )
    assert "corpus.drift" not in note


@pytest.mark.parametrize(("old", "new"), [*SCOPES.items(), ("both", "both")])
def test_a_recipe_is_identified_by_its_old_names(old: str, new: str) -> None:
    found = recipe_identity({"steps": 3, "adapter_scope": new, "graph_memory_mb": None})
    gone = {
        "graph_memory_mb": 512,
        "compile": "auto",
        "quantisation": "none",
        "query_steps": 100,
        "query_learning_rate": 5e-4,
        "refresh_every": 0,
        "mined_per_query": 20,
    }
    assert found == {"steps": 3, "side": old, **gone}
