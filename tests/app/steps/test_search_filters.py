"""The Search step: filters and facets, queries that are offered, hits by document, by date and
like another.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from fixtures import pictures
from fixtures.app import drive, text_of, until, until_screen
from fixtures.pipeline import engine_here
from fixtures.search_step import answered, focused, problem, search_for, searching
from fixtures.shown_numbers import numbers
from textual.pilot import Pilot
from textual.widgets import OptionList

from bmembed_tui.project.screen import ProjectScreen
from bmembed_tui.steps.search import all_projects
from bmembed_tui.steps.search.all_projects import AllProjectsScreen
from bmembed_tui.steps.search.document_view import DocumentView
from bmembed_tui.steps.search.filters import FilterRow
from bmembed_tui.steps.search.hit_list import HitList, QueryInput
from bmembed_tui.steps.search.hit_text import format_heading
from bmembed_tui.steps.search.pane import SearchPane
from bmembed_tui.steps.search.preview import PreviewScreen
from bmembed_tui.steps.search.side_preview import SidePreview
from bmembed_tui.widgets.safe import SafeOptions
from engine.core.dates import day
from engine.core.errors import UsageError
from engine.core.messages.search import MAX_FACETS, Found, FoundIn
from engine.core.messages.wire import to_json
from engine.core.text import language_name


@pytest.mark.usefixtures("no_encoder")
def test_filters_and_offered_queries(finished_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        pane = await searching(pilot)
        await pilot.press("f7")
        await choose_an_offer(pilot, pane)
        await filters(pilot, pane)

    async def filters(pilot: Pilot[Any], pane: SearchPane) -> None:
        await search_for(pilot, pane, "customer")
        assert len({hit.path.split("/")[0] for hit in pane.active_list.hits}) == 2
        await pilot.press("f9", *"policies/")
        await answered(pilot, pane)
        assert {hit.path.split("/")[0] for hit in pane.active_list.hits} == {"policies"}
        assert (pane.question.filters.count, numbers(text_of(pilot, "#search-status"))[-1]) == (
            1,
            1,
        )
        await pilot.press("tab", *"2031")
        await until(
            pilot,
            lambda: problem(pilot) and "'2031'" in text_of(pilot, "#search-status"),
            "the problem",
        )
        assert pane.searching.question.filters.after == ""
        assert not pane.active_list.hits  # those that stood there were found without this filter
        await pilot.press("f5")
        await until(pilot, lambda: pane.mode == "hybrid")
        assert problem(pilot)  # nothing is being looked for
        await pilot.press("f7")
        await pilot.press(*"-01-01")
        await until(pilot, lambda: pane.searching.question.filters.after == "2031-01-01")
        assert not problem(pilot)
        pane.query_one(FilterRow).clear()
        await until(pilot, lambda: pane.searching.question.filters.count == 0)
        await answered(pilot, pane)
        assert len({hit.path.split("/")[0] for hit in pane.active_list.hits}) == 2
        await pilot.press("f9")
        assert focused(pilot) == "QueryInput"

    async def choose_an_offer(pilot: Pilot[Any], pane: SearchPane) -> None:
        await until(
            pilot, lambda: pane.offered and pane.query_one("#search-offers").display, "the offers"
        )
        await pilot.press(
            "down",
            "down",
            "up",
            "up",
        )
        assert focused(pilot) == "QueryInput"  # up from the first one
        await pilot.press("down", "enter")
        await answered(pilot, pane)
        assert pane.question.query == pane.offered[0]
        assert pilot.app.screen.focused is pane.active_list
        await pilot.press("slash", "ctrl+u")
        await until(
            pilot,
            lambda: pane.query_one("#search-offers").display,
            "the offers again",
        )
        assert pane.active_list.hits == ()

    drive(
        story,
        finished_project,
        size=(80, 24),
    )


def test_the_filters_begin_at_the_first_hit_however_soon_the_answer_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures.play_record(monkeypatch, tmp_path)

    async def story(pilot: Pilot[Any]) -> None:
        await pictures.step("search")(pilot)
        pane = pilot.app.screen.query_one(SearchPane)
        await pilot.press("down", "down")
        await until(
            pilot,
            lambda: pane.active_list.highlighted == 1,
            "the second hit",
        )
        await pilot.press("f9")
        await until(
            pilot,
            lambda: pane.query_one("#filter-facets").display and not pane.searching.pending,
            "the counts",
        )
        assert pane.active_list.highlighted == 0
        row = pane.query_one(FilterRow)
        facets = pane.query_one("#filter-facets", SafeOptions)
        authors = {f"author {number}": 1 for number in range(MAX_FACETS)}
        row.show_counts({"type": {"md": 3}, "author": authors, "language": {"de": 2}})
        shown = [str(option.prompt) for option in facets.options]
        assert numbers(shown[1 + MAX_FACETS]) == [MAX_FACETS]  # there may be more authors
        assert (len(shown), language_name("de") in shown[-1]) == (MAX_FACETS + 3, True)
        facets.focus()
        await pilot.press("end", "enter")
        await until(
            pilot,
            lambda: row.filters.values == (("language", "de"),),
            "the filter",
        )

    drive(story)


@pytest.mark.usefixtures("no_encoder")
def test_facets_count_what_was_found_and_filter_by_keys_and_by_mouse(
    finished_project: Path,
) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        pane = await searching(pilot)
        await pilot.press("f7")
        await search_for(pilot, pane, "customer")
        assert pane.searching.answers["bm25"].facets == {}  # nobody looks at them
        await pilot.press("f9")
        await answered(pilot, pane)
        facets = pane.query_one("#filter-facets", OptionList)
        found = json.loads(
            engine_here(
                "search", str(finished_project), "customer", "--mode", "bm25", "--facets", "--json"
            ).stdout
        )["facets"]
        rows = [str(option.prompt).split() for option in facets.options]
        assert [row[:3] for row in rows if row[0] == "type"] == [
            ["type", value, str(number)] for value, number in found["type"].items()
        ]
        assert all(row[-1].removesuffix("s") == "document" for row in rows)
        facets.focus()
        await pilot.press("enter")
        first = next(iter(found["type"]))
        await until(pilot, lambda: pane.question.filters.values == (("type", first),))
        await answered(pilot, pane)
        assert {hit.format for hit in pane.active_list.hits} == {first}
        assert str(facets.options[0].prompt).split()[:3] == ["type", "✓", first]
        assert (pane.question.filters.count, numbers(text_of(pilot, "#search-status"))[-1]) == (
            1,
            1,
        )
        await pilot.click(facets, offset=(12, 0))
        await until(
            pilot,
            lambda: pane.question.filters.count == 0,
            "the filter to go",
        )
        await answered(pilot, pane)
        await pilot.press("enter")
        await until(
            pilot,
            lambda: pane.question.filters.count == 1,
            "the filter again",
        )
        await pilot.click("#filter-clear")
        await until(
            pilot,
            lambda: pane.question.filters.count == 0,
            "no filter",
        )
        await answered(pilot, pane)
        facets.focus()
        await until(
            pilot,
            lambda: facets.has_focus,
            "the focus",
        )
        pane.query_one(FilterRow).show_counts({})
        await until(
            pilot,
            lambda: not facets.display and pilot.app.screen.focused is not None,
            "the focus to stay in the step",
        )
        await pilot.press("f8")
        await until(
            pilot,
            lambda: pane.mode == "all",
            "F8 to be heard",
        )

    drive(
        story,
        finished_project,
        size=(80, 24),
    )


def test_hits_by_document_more_like_one_newest_first_a_correction_and_all_projects(
    finished_project: Path, no_encoder: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def everywhere(pilot: Pilot[Any], pane: SearchPane) -> None:
        """The hits of this project as those of one next to a broken one: the second opens at its
        document.
        """
        found = Found(
            "x",
            "bm25",
            pane.active_list.hits,
        )
        query = pane.question.query
        broken = FoundIn(
            "broken", Path("/broken"), problem=UsageError("It is broken.", code="project-broken")
        )
        command = AsyncMock(
            return_value=to_json((broken, FoundIn("handbook", finished_project, found)))
        )
        monkeypatch.setattr(all_projects, "run_command", command)
        await pilot.press("f3")
        screen = await until_screen(pilot, AllProjectsScreen)
        await until(
            pilot,
            lambda: focused(pilot) == "HitList",
            "its hits",
        )
        arguments = command.await_args.args
        assert arguments[-1] == query
        assert arguments[arguments.index("--also") + 1] == str(finished_project)
        assert [hit.rank for hit in screen.query_one(HitList).hits] == [
            *range(1, len(found.hits) + 1)
        ]
        assert "handbook" in screen.query_one(HitList).hits[0].title
        assert any(hit.title in hit.headings for hit in found.hits)
        for hit, listed in zip(found.hits, screen.query_one(HitList).hits, strict=True):
            assert format_heading(listed) == format_heading(hit)
        assert screen.query_one(HitList).styles.gutter.width == 0  # no frame
        told = text_of(pilot, "#everywhere-status")
        assert "broken" in told
        assert query in told
        waiting = asyncio.Event()

        async def for_ever(*_: str) -> Any:
            await waiting.wait()

        command.side_effect = for_ever
        screen.query_one(QueryInput).value = "pump"
        await pilot.press("shift+tab", "enter")
        await until(
            pilot,
            lambda: command.await_count == 2 and text_of(pilot, "#everywhere-status").endswith("…"),
        )
        await pilot.press("s")
        await until(
            pilot, lambda: text_of(pilot, "#everywhere-status") == told, "what the hits are of"
        )
        assert focused(pilot) == "QueryInput"
        screen.query_one(QueryInput).value = query
        await pilot.press("enter")
        await until(
            pilot,
            lambda: focused(pilot) == "HitList",
            "its hits",
        )
        assert command.await_count == 2
        await pilot.press("down", "enter")
        document = (await until_screen(pilot, PreviewScreen)).query_one(DocumentView)
        await until(
            pilot,
            lambda: document.ready and document.rows,
            "the document",
        )
        await pilot.press("escape")
        opened = await until_screen(pilot, ProjectScreen)
        assert (opened.project.path, opened.query_one(SearchPane).question.query) == (
            finished_project,
            query,
        )
        opened.action_leave()
        assert await until_screen(pilot, AllProjectsScreen) is screen
        await pilot.press("escape")

    async def story(pilot: Pilot[Any]) -> None:
        pane = await searching(pilot)
        await pilot.press("f7")
        pane.query_one(QueryInput).value = 'cold roon -"night shift"'
        await answered(pilot, pane)
        documents = [hit.document_id for hit in pane.active_list.hits]
        assert len(documents) == len(set(documents)) > 1
        await pilot.press("f4")
        await until(
            pilot,
            lambda: pane.question.query.startswith("cold room -"),
            "the correction",
        )
        await answered(pilot, pane)
        await pilot.press("down")
        first = pane.active_list.hits[0]
        side = pane.query_one(SidePreview)
        await until(
            pilot,
            lambda: side.display and side.ready and side.rows,
            "the document next to the hits",
        )
        await pilot.press("d")
        await answered(pilot, pane)
        dates = [day(hit.date) for hit in pane.active_list.hits]
        assert dates == sorted(dates, reverse=True)
        await pilot.press("d", "g")
        await answered(pilot, pane)
        assert len({hit.document_id for hit in pane.active_list.hits}) < len(pane.active_list.hits)
        await pilot.press("l")
        await answered(pilot, pane)
        assert pane.question.query == f"like:{first.id}"
        assert (first.title or first.path) in text_of(pilot, "#search-status")
        assert first.path not in {hit.path for hit in pane.active_list.hits}
        await pilot.press("f8")
        assert not side.display
        await pilot.press("f3")
        asked = (await until_screen(pilot, AllProjectsScreen)).query_one(QueryInput)
        assert asked.value == ""  # no other project has the document whose like is searched for
        await pilot.press("escape")
        pane.query_one(QueryInput).value = "cold room"
        await answered(pilot, pane)
        await everywhere(pilot, pane)

    drive(
        story,
        finished_project,
        size=(120, 40),
    )
