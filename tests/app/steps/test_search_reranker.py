"""The reranker in step Search: a key turns it on and off, and a dialog fetches and chooses one."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from fixtures.app import drive, text_of, until
from fixtures.hub import stand_in_hub
from fixtures.search_step import search_for, searching
from fixtures.tiny_cross_encoder import build_cross_encoder
from fixtures.user_folders import DATA
from textual.pilot import Pilot
from textual.widgets import OptionList

from bmembed_tui.steps.search.pane import SearchPane
from bmembed_tui.steps.search.reranker import RerankerDialog, format_reranker, format_speed
from bmembed_tui.widgets.change_line import ChangeLine
from bmembed_tui.widgets.choice_row import ChoiceRow
from engine.core.messages.models import ListedModel
from engine.core.messages.search import RerankerSpeed
from engine.project.folder import ProjectFolder

NAME = "ettin-reranker-17m-v1"


def written(project: Path) -> dict[str, Any]:
    data = tomllib.loads((project / "project.toml").read_text(encoding="utf-8"))
    search: dict[str, Any] = data.get("search", {})
    return search


def passages(pane: SearchPane) -> int:
    answer = pane.searching.answers.get(pane.active)
    return answer.reranked.passages if answer and answer.reranked else 0


async def press_on_the_hits(
    pilot: Pilot[Any],
    pane: SearchPane,
    key: str,
) -> None:
    pane.active_list.focus()
    await pilot.pause()
    await pilot.press(key)


async def dialog(pilot: Pilot[Any]) -> RerankerDialog:
    await until(
        pilot,
        lambda: isinstance(pilot.app.screen, RerankerDialog),
        "the dialog",
    )
    screen = pilot.app.screen
    assert isinstance(screen, RerankerDialog)
    models = screen.query_one("#models", OptionList)
    await until(
        pilot,
        lambda: models.option_count > 3,
        "the rerankers",
        60,
    )
    return screen


def test_without_a_reranker_a_key_fetches_chooses_and_switches_one_on(
    finished_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DATA, str(tmp_path / "data"))

    async def story(pilot: Pilot[Any]) -> None:
        pane = await searching(pilot)
        await search_for(pilot, pane, "ferry")
        await press_on_the_hits(pilot, pane, "r")
        screen = await dialog(pilot)
        assert screen.query_one(ChoiceRow).disabled
        models = screen.query_one("#models", OptionList)
        rows = [str(option.prompt) for option in models.options]
        (place,) = (number for number, row in enumerate(rows) if NAME in row)
        models.focus()
        models.highlighted = place
        await pilot.press("enter")
        await until(
            pilot,
            lambda: "67.2 MB" in text_of(pilot, "#reranker-speed"),
            "what it means",
        )
        assert hub.requests == []
        await pilot.press("enter")
        change = screen.query_one(ChangeLine)
        await until(
            pilot, lambda: change.waiting or "reranker" in written(finished_project), "a proposal"
        )
        if change.waiting:
            await until(
                pilot,
                lambda: change.has_class("-asking"),
                "the question",
            )
            await pilot.press("enter")
        await until(
            pilot,
            lambda: written(finished_project).get("reranker") == NAME,
            "the reranker in project.toml",
        )
        assert written(finished_project)["rerank"] == "on"
        await until(
            pilot,
            lambda: " passages a second" in text_of(pilot, "#reranker-speed"),
            "its speed",
            60,
        )
        await pilot.press("escape")
        await until(
            pilot,
            lambda: passages(pane) > 0,
            "reranked hits",
            60,
        )
        await press_on_the_hits(pilot, pane, "r")
        await until(
            pilot,
            lambda: written(finished_project)["rerank"] == "off",
            "the reranker off",
        )
        await until(
            pilot,
            lambda: passages(pane) == 0,
            "hits as they were",
            60,
        )
        await press_on_the_hits(pilot, pane, "r")
        await until(
            pilot,
            lambda: passages(pane) > 0,
            "reranked hits again",
            60,
        )
        await until(
            pilot, lambda: " passages a second" in text_of(pilot, "#search-status"), "its speed", 60
        )
        await press_on_the_hits(pilot, pane, "R")
        screen = await dialog(pilot)
        assert screen.query_one(ChoiceRow).value == "on"
        (row,) = (
            str(option.prompt)
            for option in screen.query_one("#models", OptionList).options
            if NAME in str(option.prompt)
        )
        assert row.startswith("✓")

    with stand_in_hub() as hub:
        hub.add_folder(f"cross-encoder/{NAME}", build_cross_encoder(tmp_path / "tiny"))
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        drive(story, finished_project)


def test_a_server_is_not_measured_as_it_would_get_passages(
    finished_project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(DATA, str(tmp_path / "data"))
    address = "http://127.0.0.1:9/v1"
    ProjectFolder.open(finished_project).change_settings({"search.reranker": address})

    async def story(pilot: Pilot[Any]) -> None:
        pane = await searching(pilot)
        monkeypatch.setattr(RerankerDialog, "measure", None)
        await search_for(pilot, pane, "ferry")
        await press_on_the_hits(pilot, pane, "R")
        screen = await dialog(pilot)
        assert address in text_of(pilot, "#reranker-speed")
        assert not screen.query_one(ChoiceRow).disabled

    drive(story, finished_project)


@pytest.mark.parametrize(
    ("speed", "parts"),
    [
        (RerankerSpeed("tiny", 118.4, 100, 0.845), ("118 ", "100 in")),
        (RerankerSpeed("tiny", 0.52, 0, 0.0), ("0.5 ", "search.rerank_seconds")),
    ],
)
def test_what_a_reranker_adds_to_a_search(speed: RerankerSpeed, parts: tuple[str, str]) -> None:
    assert all(part in format_speed(speed) for part in parts)


def listed(**changes: Any) -> ListedModel:
    facts: dict[str, Any] = {
        "path": None,
        "place": "catalogue",
        "names": ("x",),
        "size": 2_000_000,
        "architecture": None,
        "quantisation": None,
        "parameters": None,
        "context": None,
        "chat_template": None,
        "problem": "",
        "memory": 3_000_000,
        "fits": True,
        "kind": "reranker",
        "name": "x",
        "here": False,
        "languages": ("*",),
        "licence": "MIT",
    }
    return ListedModel(**(facts | changes))


@pytest.mark.parametrize(
    ("model", "sign", "part"),
    [
        (listed(), "⇣", "many languages"),
        (listed(room=False), "⇣", "disk"),
        (listed(languages=tuple("abcdef")), "⇣", "6 languages"),
        (listed(here=True), "✓", "2.0 MB"),
        (listed(here=True, fits=False), "✓", "3.0 MB"),
        (listed(here=True, fits=None, problem="[b]torn"), "✗", "[b]torn"),
    ],
)
def test_the_line_of_a_reranker(
    model: ListedModel,
    sign: str,
    part: str,
) -> None:
    line = format_reranker(model, is_chosen=False).plain
    assert line.startswith(sign)
    assert part in line
