"""Axes become cells; what cannot be swept is refused with the nearest that can."""

from __future__ import annotations

from typing import Any

import pytest
from fixtures.errors import fails

from engine.core.errors import EngineError, SettingsError, UsageError
from engine.lab.study.grid import make_grid, steps_of, twin_of
from engine.settings.load import validate
from engine.settings.schema import Settings

LISTS = {"training": {"objective": "listnet"}}


def settings(**sections: dict[str, Any]) -> Settings:
    return validate(sections)


def changes(
    *axes: str,
    of: Settings | None = None,
    chunks: int = 5000,
) -> list[dict[str, Any]]:
    return [dict(cell.changes) for cell in make_grid(axes, of or settings(), chunks)]


def twins(
    *axes: str,
    of: Settings | None = None,
    chunks: int = 5000,
) -> list[int | None]:
    cells = make_grid(
        axes,
        of or settings(),
        chunks,
    )
    found = [twin_of(cells, cell) for cell in cells]
    return [twin.number if twin else None for twin in found]


def test_every_combination_is_a_cell_and_the_same_depth_stands_together() -> None:
    assert changes("training.objective=listnet,infonce", "ranking.k=200, 1000") == [
        {"training.objective": "listnet", "ranking.k": 200},
        {"training.objective": "infonce", "ranking.k": 200},
        {"training.objective": "listnet", "ranking.k": 1000},
        {"training.objective": "infonce", "ranking.k": 1000},
    ]
    assert changes("ranking.m=6,6,9") == [{"ranking.m": 6}, {"ranking.m": 9}]
    cells = make_grid(
        ["training.teacher_temperature=1,2.5", "training.steps=5"],
        settings(),
        10,
    )
    assert [(cell.number, cell.name) for cell in cells] == [
        (1, "teacher temperature 1"),
        (2, "teacher temperature 2.5"),
    ]


def test_cells_that_train_the_same_are_known() -> None:
    assert twins("ranking.m=6,9") == [None, 1], "the loss 'mixed' knows no intervals"
    assert twins("ranking.m=6,9", of=settings(**LISTS)) == [None, None]
    assert twins("ranking.k=200,400,800", of=settings(**LISTS), chunks=300) == [None, None, 2]
    assert twins(
        "training.teacher_temperature=1,2", of=settings(training={"objective": "infonce"})
    ) == [None, 1]
    assert twins(
        "training.false_negatives=keep,drop", of=settings(training={"objective": "listnet"})
    ) == [None, 1]
    assert twins(
        "training.false_negatives=keep,drop", of=settings(training={"objective": "infonce"})
    ) == [None, None]
    assert twins("ranking.k=20,100,1000", of=settings(training={"objective": "infonce"})) == [
        None,
        None,
        2,
    ]
    assert twins("training.objective=mixed", "training.steps=200,100") == [None, None]
    assert twins("training.query_share=1,0.5") == [None, None]
    assert twins("training.query_source=all,graded,generated") == [None, None, None]


@pytest.mark.parametrize(
    ("recipe", "steps"),
    [
        ({"adapter_scope": "both"}, 200),
        ({"adapter_scope": "both", "method": "PT", "pretrain_steps": 50}, 50),
        ({"adapter_scope": "both", "method": "PT-FT", "pretrain_steps": 50, "steps": 7}, 57),
        ({"preset": "pipelines", "epochs": 2}, 2 * 4),
        ({"preset": "pipelines", "query_share": 0.5}, 3 * 2),
    ],
)
def test_what_a_cell_costs(recipe: dict[str, Any], steps: int) -> None:
    given = settings(training=recipe)
    (cell,) = make_grid(
        ["training.seed=1"],
        given,
        10,
    )
    assert steps_of(cell, given, queries=100) == steps


@pytest.mark.parametrize(
    "axis", ["search.weight=0.3,0.7", "search.top=5,10", "corpus.chunk_tokens=128,256"]
)
def test_a_setting_that_trains_nothing_is_not_mistaken_for_one_that_does(axis: str) -> None:
    """`search.weight` was answered with "Did you mean 'training.weight_decay'?"."""
    with fails(SettingsError, "grid-setting-untrained", "[ranking]", "[training]") as caught:
        changes(axis)
    assert "training.weight_decay" not in str(caught.value)


def test_what_is_the_same_is_the_same_in_another_grid() -> None:
    (one,) = make_grid(
        ["training.steps=7"],
        settings(**LISTS),
        300,
    )
    other = make_grid(
        ["training.objective=listnet,infonce", "training.steps=7,9"],
        settings(),
        300,
    )
    assert [cell.number for cell in other if cell.key == one.key] == [1]


@pytest.mark.parametrize(
    ("axis", "near"),
    [
        ("training.stps=5", "training.steps"),
        ("training.k=5", "ranking.k"),
        ("ranking.stratgy=uniform", "ranking.strategy"),
        ("k=5", "ranking.k"),
        ("weight=0.3,0.7", "search.weight"),
    ],
)
def test_an_unknown_setting_is_refused_with_the_nearest(axis: str, near: str) -> None:
    with fails(SettingsError, "settings-unknown-key") as caught:
        changes(axis)
    assert f"'{near}'" in caught.value.to_do


@pytest.mark.parametrize(
    ("axes", "error", "code", "value"),
    [
        ([], UsageError, "grid-invalid", ""),
        (["ranking.k"], UsageError, "grid-invalid", "ranking.k"),
        (["ranking.k=5,,6"], UsageError, "grid-invalid", "5,,6"),
        (["ranking.k=5", "ranking.k=6"], UsageError, "grid-setting-twice", ""),
        (["ranking.k=many"], SettingsError, "settings-invalid", "ranking.k"),
        (["training.objective=lisnet"], SettingsError, "settings-invalid", "listnet"),
        (
            ["corpus.chunk_tokens=64"],
            SettingsError,
            "grid-setting-untrained",
            "corpus.chunk_tokens",
        ),
        (
            ["training.adapter_scope=queries", "training.method=PT"],
            SettingsError,
            "cell-invalid",
            "training.method",
        ),
    ],
)
def test_what_cannot_be_a_grid(
    axes: list[str], error: type[EngineError], code: str, value: str
) -> None:
    with fails(error, code, value):
        changes(*axes)
