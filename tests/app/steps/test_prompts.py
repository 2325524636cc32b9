"""Step Queries: the prompts that a language model gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fixtures.app import drive, until
from fixtures.queries_step import queries_step
from textual.pilot import Pilot
from textual.widgets import TextArea

from bmembed_tui.steps.queries.prompts import PromptsDialog
from engine.core.assets import asset_path
from engine.queries.recipe import SHIPPED_PROMPTS
from engine.settings.schema import QuerySettings


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"prompt": "two-step"}, ["events", "questions"]),
        ({"prompt": "one-step", "kinds": ["question"]}, ["one-step"]),
        ({"prompt": "one-step", "kinds": ["question", "everyday"]}, ["one-step", "everyday"]),
    ],
)
def test_the_prompts_of_a_project_follow_its_settings(
    settings: dict[str, Any], names: list[str]
) -> None:
    assert QuerySettings(**settings).prompt_names == names
    assert set(names) <= SHIPPED_PROMPTS.keys()


def test_a_key_shows_the_prompts_and_closes_them(new_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        await queries_step(pilot)
        await pilot.press("p")
        await until(
            pilot,
            lambda: isinstance(pilot.app.screen, PromptsDialog),
            "the prompts",
        )
        text = pilot.app.screen.query_one(TextArea).text
        for name in ("events", "questions"):
            assert asset_path(f"prompts/{name}.txt").read_text(encoding="utf-8").strip() in text
        await pilot.press("p")
        await until(
            pilot,
            lambda: not isinstance(pilot.app.screen, PromptsDialog),
            "the step",
        )

    drive(story, new_project)
