"""The Index step: facts, progress, and trying BM25."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fixtures.app import drive, opened, screen_text, until, until_text
from textual.pilot import Pilot
from textual.widgets import Input

from bmembed_tui.client.run_history import History, StageRecord
from bmembed_tui.client.run_state import RunState
from bmembed_tui.steps.index.text import HEAD, Facts, format_hits, format_status, index_size
from bmembed_tui.widgets.hanging import hanging
from engine.core.events import Choice, Progress, RunStarted, StageStarted
from engine.core.messages.project import ProjectStatus, StageState
from engine.core.messages.search import Found, Hit


def status(index: str = "done", rank: str = "done") -> ProjectStatus:
    stages = (StageState("index", index, "its settings changed"), StageState("rank", rank, "index is stale"))
    return ProjectStatus(counts={"chunks": 571, "queries": 295}, stages=stages)


def facts(objective: str = "listnet") -> Facts:
    ranking = {"k": 1000, "m": 9, "strategy": "fine-to-coarse"}
    return Facts(62_500, {"ranking": ranking, "training": {"objective": None}}, {"objective": objective})


def history() -> History:
    language = Choice(stage="index", setting="language", value="en", reason="98% of the [/ sample")
    index = StageRecord(
        "index",
        seconds=1.25,
        summary={"chunks": 571, "language": "en", "updated": False},
        choices={"language": language},
    )
    rank = StageRecord("rank", seconds=0.4, summary={"queries": 295, "k": 50}, warnings=["look at this"])
    return History({"index": index, "rank": rank})


def test_facts_of_index_and_rankings() -> None:
    shown = format_status(status(), RunState(), history(), facts()).plain
    assert "571 chunks, 62.5 kB, built in 1.2 s" in shown
    assert "en: 98% of the [/ sample" in shown
    assert "295 lists, one for each query: its best 50 chunks (k = 50), mined in 0.4 s" in shown
    assert "m = 9, fine-to-coarse" in shown
    assert "! look at this" in shown
    assert "not used: the loss 'mixed'" in format_status(status(), RunState(), history(), facts("mixed")).plain


def test_the_other_languages_stand_apart_from_their_head() -> None:
    others = Choice(stage="index", setting="other languages", value="1 in pt", reason="stemmed in their own language")
    shown = format_status(
        status(), RunState(), History({"index": StageRecord("index", choices={"other languages": others})}), facts()
    )
    assert "  others    1 in pt: stemmed in their own language" in shown.plain


def test_rankings_of_no_queries_are_said_to_be_none() -> None:
    empty = StageRecord("rank", seconds=0.4, summary={"queries": 0, "k": 0})
    shown = format_status(status(), RunState(), History({"rank": empty}), facts()).plain
    assert "Rankings    none: there are no training queries, so nothing can be trained" in shown
    assert "0 lists" not in shown


def test_a_fact_that_is_too_long_for_a_row_goes_on_below_its_text() -> None:
    lines = format_status(status(), RunState(), history(), facts()).split("\n")
    rows = [row for line in lines for row in hanging(line, 40, HEAD).plain.split("\n")]
    place = next(number for number, row in enumerate(rows) if row.startswith("Rankings"))
    assert rows[place : place + 4] == [
        "Rankings    295 lists, one for each",
        "            query: its best 50 chunks (k",
        "            = 50), mined in 0.4 s",
        "  intervals m = 9, fine-to-coarse:",
    ]
    assert [hanging(line, 16, HEAD).plain for line in lines] == [
        line.plain for line in lines
    ]  # too narrow for two columns


def test_without_records_the_counts_are_told() -> None:
    shown = format_status(status("stale", "stale"), RunState(), History(), Facts()).plain
    assert "571 chunks" in shown
    assert "out of date: its settings changed" in shown
    assert "295 lists" in shown
    assert "exact words" in format_status(status("to do", "to do"), RunState(), History(), Facts()).plain
    assert (
        "to do: they need the queries" in format_status(status("done", "to do"), RunState(), history(), Facts()).plain
    )


def test_progress() -> None:
    state = RunState()
    state.apply_all([
        RunStarted(run="r", stages=["rank"]), StageStarted(stage="rank", fingerprint="f", reason="r"),
        Progress(stage="rank", done=1024, total=4096, unit="queries"),
    ])  # fmt: skip
    shown = format_status(status("done", "to do"), state, history(), facts()).plain
    assert "rank: at work  ███░░░░░░░░░ 1,024 of 4,096 queries" in shown


def test_hits_are_shown_as_written() -> None:
    text = "the [@click=app.quit]door"
    hit = Hit(1, 4.87, "a/[/b].txt", "/", "", (), text, ((21, 25),), "txt", 0.0, 1, 1, 0, len(text))
    content = format_hits(Found("door", "bm25", (hit,), ("a note",)))
    assert content.plain == "a note\n1  4.9  a/[/b].txt\n   the [@click=app.quit]door"
    assert any(content.plain[span.start : span.end] == "door" for span in content.spans)
    assert format_hits(Found("door", "bm25", ())).plain == "No chunk holds these words."


def test_the_size_of_an_index(tmp_path: Path) -> None:
    assert index_size(tmp_path) is None
    (tmp_path / "lexical" / "abc" / "x").mkdir(parents=True)
    (tmp_path / "lexical" / "abc" / "x" / "1").write_bytes(b"12345")
    (tmp_path / "lexical" / "abc" / "2").write_bytes(b"67")
    (tmp_path / "lexical" / ".tmp-d").mkdir()
    assert index_size(tmp_path) == 7


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
def test_bm25_is_tried_with_the_real_index(finished_project: Path, size: tuple[int, int]) -> None:
    async def story(pilot: Pilot[Any]) -> str:
        screen = await opened(pilot, "index")
        await until_text(pilot, "en: ")
        await pilot.press("t", *"freezer")
        await until_text(pilot, "freezer-door.txt")
        first = screen_text(pilot.app)  # type: ignore[arg-type]
        screen.query_one("#index-query", Input).value = "qqqqzzzz [/"
        await until_text(pilot, "No chunk holds these words.")
        screen.query_one("#index-query", Input).value = " "
        await until(pilot, lambda: "No chunk" not in screen_text(pilot.app))  # type: ignore[arg-type]
        screen.query_one("#primary").focus()
        await until_text(pilot, "Continue")
        screen.pane.focus_primary()  # type: ignore[union-attr]
        await pilot.press("enter")
        await until(pilot, lambda: screen.pane is not None and screen.pane.step == "train")
        return first

    shown = drive(story, finished_project, size)
    assert "298 lists" in shown
    assert "mixed" in shown


def test_index_and_rankings_are_built_from_the_step(new_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, "index")
        await until_text(pilot, "exact words")
        await pilot.press("enter")
        await until_text(pilot, "Running …")
        await until(pilot, lambda: screen.run_state.state == "done", "the run")
        await until(pilot, lambda: screen.status.done("index", "rank"))
        await until_text(pilot, "298 lists")
        await until_text(pilot, "Continue")
        assert screen.pane is not None
        assert screen.pane.step == "index"
        assert set(screen.run_state.stages) == {"ingest", "index", "generate", "rank"}

    drive(story, new_project)
