"""Training recipes by name."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from fixtures.errors import fails

from engine.core.errors import UsageError
from engine.experiments.recipes import GROUPS, LOSSES, RECIPES, numbers_of, recipes_of, untrainable
from engine.settings.load import validate, value_of
from engine.training.config import PRESETS, Objective


def test_every_loss_has_a_recipe() -> None:
    assert {recipe["objective"] for recipe in LOSSES.values()} == set(get_args(Objective))


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_a_valid_setting(name: str) -> None:
    training = validate({"training": {"cross_encoder": "folder", **RECIPES[name]}}).training
    replace(PRESETS[training.preset], **training.overrides())


def test_groups_stand_for_their_recipes_and_nothing_is_trained_twice() -> None:
    assert list(recipes_of(["losses", "listnet"])) == ["default", *LOSSES]
    assert list(recipes_of(["PT", "default"])) == ["default", "PT"]
    assert set(recipes_of(["all"])) == set(RECIPES)
    assert set(RECIPES) - {"default"} == {name for group in GROUPS.values() for name in group}


def test_an_unknown_name_is_refused() -> None:
    with fails(UsageError, "recipe-unknown", "'loss'"):
        recipes_of(["losses", "loss"])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("60", 60),
        ("1e-3", 0.001),
        ("true", True),
        ("[1, 2]", [1, 2]),
        ('"60"', "60"),
        ("cpu", "cpu"),
        ("", ""),
        ("a = b", "a = b"),
    ],
)
def test_a_value_is_read_as_project_toml_reads_it(text: str, value: object) -> None:
    assert value_of(text) == value


def test_what_cannot_be_trained_here_is_said_beforehand() -> None:
    def why(name: str, **training: str | int) -> str:
        return untrainable(name, validate({"encoder": {"device": "cpu"}, "training": {**training, **RECIPES[name]}}))

    assert "training.cross_encoder=FOLDER" in why("teacher-cross-encoder")
    assert why("teacher-cross-encoder", cross_encoder="folder") == ""
    assert "GPU" in why("compiled")
    assert "50 steps" in why("refresh", steps=50)
    assert why("refresh", steps=51) == ""
    assert "refresh_every" in why("refresh", preset="cl")  # plain in-batch negatives: what is mined would join nothing
    never = ("teacher-cross-encoder", "compiled")
    assert {why(name) for name in RECIPES if name not in never} == {""}


def test_a_recipe_is_the_default_or_not_by_how_many_queries_bm25_solves() -> None:
    """Where BM25 solves few, the default is contrast on both sides, and `adapter-scope-queries` is a training of its own."""
    default, query = validate({}), validate({"training": RECIPES["adapter-scope-queries"]})
    assert numbers_of(default) == numbers_of(query)
    assert numbers_of(default, 0.6) != numbers_of(query, 0.6)
    assert numbers_of(query, 0.6) == numbers_of(query)
