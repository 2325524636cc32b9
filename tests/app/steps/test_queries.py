"""Step Queries: the table in which queries are looked at and changed, and where they stand."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fixtures import pictures
from fixtures.app import drive, text_of, until, until_text
from fixtures.queries_step import choose, queries_step, shown, stored, typed
from fixtures.scripted import ScriptedClient
from fixtures.shown_numbers import numbers
from textual.pilot import Pilot

from bmembed_tui.client.run_history import History
from bmembed_tui.client.run_state import RunState, StageRun
from bmembed_tui.dialogs.confirmations import QuestionDialog
from bmembed_tui.project.screen import ProjectScreen
from bmembed_tui.steps.queries.edit_query import EditQueryDialog, QueryText
from bmembed_tui.steps.queries.pane import QueriesPane
from bmembed_tui.steps.queries.query_list import QueryList
from bmembed_tui.steps.queries.source import IMPORT_STALE, IMPORTED
from bmembed_tui.steps.queries.table import QueryTable
from bmembed_tui.steps.queries.text import find_queries_state, format_generation, format_state
from bmembed_tui.widgets.choice_row import ChoiceRow
from engine.core.errors import StageError
from engine.core.events import Choice, Progress, RunStarted, StageStarted
from engine.core.messages.project import UP_TO_DATE, ProjectStatus, StageState
from engine.core.messages.queries import PAGE, evidence_span
from engine.core.records import Query
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import QueriesInfo

NEW_TEXT = "What did nobody ask before?"
HOSTILE = "[@click=app.quit]x[/] \x1b[31m\u202eevil [/"


async def table_of(pilot: Pilot[Any]) -> QueryTable:
    pane = await queries_step(pilot)
    table = pane.query_one(QueryTable)
    await until(
        pilot,
        lambda: table.current is not None,
        "the queries",
    )
    return table


def put(project: Path, queries: list[Query]) -> None:
    with closing(ProjectFolder.open(project).store()) as store:
        artifact = store.artifact(QueriesInfo)
        assert artifact is not None
        store.replace_queries(queries, artifact)


def test_the_table_is_filtered_by_words_kind_and_split(finished_project: Path) -> None:
    queries = stored(finished_project)
    by_kind = [query for query in queries if query.kind == "claim"]
    by_both = [query for query in by_kind if query.split == "train"]
    word = by_both[0].text.split()[-1]
    left = [query for query in by_both if word.lower() in query.text.lower()]

    async def story(pilot: Pilot[Any]) -> None:
        table = await table_of(pilot)
        assert table.total == len(queries)
        assert numbers(text_of(pilot, "#list-counts"))[0] == len(queries)
        await choose(pilot, "list-kind", "claim")
        await until(
            pilot,
            lambda: table.total == len(by_kind),
            "the claims",
        )
        await choose(pilot, "list-split", "train")
        await until(
            pilot,
            lambda: table.total == len(by_both),
            "the claims that are trained on",
        )
        await pilot.press("slash")
        await pilot.press(*word)
        await until(
            pilot,
            lambda: table.total == len(left),
            "those with the word",
        )
        await until(
            pilot,
            lambda: table.current is not None and table.current.id == left[0].id,
            "the first of them",
        )
        await until(
            pilot,
            lambda: numbers(text_of(pilot, "#list-found")) == [len(left), len(queries)],
            "the counts",
        )

    drive(story, finished_project, step="queries")


def test_a_table_that_has_not_changed_is_not_drawn_again(
    finished_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clear = QueryTable.clear
    cleared: list[str] = []

    def note(table: QueryTable, *, columns: bool = False) -> Any:
        cleared.append(table.queries[0].text)
        return clear(table, columns=columns)

    async def story(pilot: Pilot[Any]) -> None:
        table = await table_of(pilot)
        queries = pilot.app.screen.query_one(QueryList)
        monkeypatch.setattr(QueryTable, "clear", note)
        await queries.read().wait()
        assert cleared == []
        first = table.queries[0]
        table.queries[0] = replace(first, text=NEW_TEXT)
        await queries.read().wait()
        assert cleared == [first.text]

    drive(story, finished_project, step="queries")


def test_filters_show_counts_if_they_fit(finished_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        await table_of(pilot)
        row = pilot.app.screen.query_one("#list-split", ChoiceRow)
        await until(
            pilot,
            lambda: numbers(str(row.render())),
            "the counts",
        )
        await pilot.resize_terminal(80, 24)
        await until(
            pilot,
            lambda: not numbers(str(row.render())),
            "no counts",
        )
        await pilot.resize_terminal(120, 40)
        await until(
            pilot,
            lambda: numbers(str(row.render())),
            "the counts again",
        )

    drive(story, finished_project, step="queries")


def test_queries_that_were_left_out_are_listed_with_their_reasons(finished_project: Path) -> None:
    queries = stored(finished_project)
    lost = [
        (replace(queries[n], text=f"lost query [/{n}]"), f"duplicate: the same as {n}")
        for n in range(3)
    ]
    with closing(ProjectFolder.open(finished_project).store()) as store:
        artifact = store.artifact(QueriesInfo)
        assert artifact is not None
        artifact = replace(artifact, info=replace(artifact.info, rejected={"duplicate": 3}))
        store.replace_queries(queries, artifact, lost)

    async def story(pilot: Pilot[Any]) -> None:
        table = await table_of(pilot)
        await choose(pilot, "list-split", "left out")
        await until(
            pilot,
            lambda: table.total == 3,
            "those left out",
        )
        await until(
            pilot,
            lambda: lost[0][1] in text_of(pilot, "#list-detail"),
            "the reason",
        )
        assert lost[0][0].text in shown(pilot)
        assert numbers(text_of(pilot, "#list-found")) == [3, 3]
        table.focus()
        await pilot.press(
            "down",
            "space",
            "x",
            "enter",
        )
        await pilot.pause()
        assert isinstance(pilot.app.screen, ProjectScreen), "they can be neither deleted nor edited"
        await choose(pilot, "list-split", "all")
        await until(
            pilot,
            lambda: table.total == len(queries),
            "the queries",
        )

    drive(story, finished_project, step="queries")
    assert len(stored(finished_project)) == len(queries)


def test_an_import_reports_that_the_queries_are_stale(
    finished_project: Path, tmp_path: Path
) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text(
        json.dumps({"query": "Where is it?", "evidence": stored(finished_project)[0].evidence})
        + "\n"
    )
    ProjectFolder.open(finished_project).change_settings({"queries.backend": "both"})

    async def story(pilot: Pilot[Any]) -> None:
        pane = await queries_step(pilot)
        await choose(pilot, "queries-view", "source")
        await until(
            pilot, lambda: pilot.app.screen.query_one("#source-import").display, "the field"
        )
        await typed(
            pilot,
            "source-import",
            str(file),
        )
        await until(
            pilot, lambda: text_of(pilot, "#source-note") == IMPORTED + IMPORT_STALE, "the note"
        )
        assert pane.state == "stale"

    drive(story, finished_project, step="queries")


def test_a_query_is_edited_next_to_its_chunk(finished_project: Path) -> None:
    first, second, *_ = stored(finished_project)

    async def story(pilot: Pilot[Any]) -> None:
        table = await table_of(pilot)
        await pilot.press("e")
        await until(
            pilot,
            lambda: isinstance(pilot.app.screen, EditQueryDialog),
            "the dialog",
        )
        await until_text(pilot, first.evidence.split()[0])
        text = pilot.app.screen.query_one(QueryText)
        assert text.text == first.text
        text.text = second.text
        await pilot.press("enter")
        await until(
            pilot,
            lambda: text_of(pilot, "#edit-note").startswith("✗"),
            "the error",
        )
        text.text = NEW_TEXT
        await pilot.press("enter")
        await until(
            pilot,
            lambda: table.current and table.current.text == NEW_TEXT,
            "the text",
        )
        screen = pilot.app.screen
        await until(pilot, lambda: screen.status.state("rank") == "stale", "stale ranking")  # type: ignore[attr-defined]

    drive(story, finished_project, step="queries")
    assert stored(finished_project)[0].text == NEW_TEXT


def editing(monkeypatch: pytest.MonkeyPatch, folder: Path) -> asyncio.Event:
    """The record in the engine's place; a query is saved when the event is set."""
    pictures.play_record(monkeypatch, folder)
    saved = asyncio.Event()
    answer = ScriptedClient.call

    async def call(self: ScriptedClient, method: str, **params: Any) -> Any:
        if method != "edit_query":
            return await answer(
                self,
                method,
                **params,
            )
        await saved.wait()
        return {**await answer(self, "query", id=params["id"]), "text": params["text"]}

    monkeypatch.setattr(ScriptedClient, "call", call)
    return saved


async def dialog_of(pilot: Pilot[Any]) -> EditQueryDialog:
    pilot.app.open_project(pictures.RecordedProject(pictures.PROJECT), "queries")  # type: ignore[attr-defined]
    await until(
        pilot,
        lambda: isinstance(pilot.app.screen, ProjectScreen),
        "the project",
    )
    await until(
        pilot,
        lambda: (
            pilot.app.screen.query("QueryTable") and pilot.app.screen.query_one(QueryTable).current
        ),
    )
    await pilot.press("e")
    await until(
        pilot,
        lambda: isinstance(pilot.app.screen, EditQueryDialog),
        "the dialog",
    )
    dialog = pilot.app.screen
    assert isinstance(dialog, EditQueryDialog)
    return dialog


@pytest.mark.parametrize("has_error_on_top", [False, True])
def test_escape_while_a_query_is_saved_closes_only_the_dialog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_error_on_top: bool
) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        saved = editing(monkeypatch, tmp_path)
        dialog = await dialog_of(pilot)
        dialog.query_one(QueryText).text = NEW_TEXT
        await pilot.press("enter", "escape")
        assert dialog in pilot.app.screen_stack
        if has_error_on_top:
            pilot.app.show_error(StageError("The run failed.", "", ""))  # type: ignore[attr-defined]
            await pilot.pause()
        saved.set()
        if has_error_on_top:
            await until(
                pilot,
                lambda: dialog.changed is not None,
                "the answer",
            )
            assert len(pilot.app.screen_stack) == 4, "first screen, project, dialog, error"
            await pilot.press("escape")
        await until(
            pilot,
            lambda: dialog not in pilot.app.screen_stack,
            "the end of the dialog",
        )
        await pilot.pause(0.2)
        assert isinstance(pilot.app.screen, ProjectScreen)

    drive(story)


def test_leaving_a_changed_query_asks_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        editing(monkeypatch, tmp_path)
        dialog = await dialog_of(pilot)
        await pilot.press("x", "escape")
        await until(
            pilot,
            lambda: isinstance(pilot.app.screen, QuestionDialog),
            "the question",
        )
        await pilot.press("enter")
        await until(
            pilot,
            lambda: pilot.app.screen is dialog,
            "the dialog again",
        )
        assert dialog.query_one(QueryText).text.endswith("x")
        await pilot.press("escape")
        await until(
            pilot,
            lambda: isinstance(pilot.app.screen, QuestionDialog),
            "the question",
        )
        await pilot.press("right", "enter")
        await until(
            pilot,
            lambda: isinstance(pilot.app.screen, ProjectScreen),
            "the table",
        )
        await pilot.press("e")
        await until(
            pilot,
            lambda: isinstance(pilot.app.screen, EditQueryDialog),
            "the dialog",
        )
        await pilot.press("escape")
        await until(
            pilot,
            lambda: isinstance(pilot.app.screen, ProjectScreen),
            "no question",
        )

    drive(story)


def test_queries_are_deleted_after_a_question_and_only_in_the_table(finished_project: Path) -> None:
    ids = [query.id for query in stored(finished_project)]

    async def story(pilot: Pilot[Any]) -> None:
        table = await table_of(pilot)
        await pilot.press("x")  # the focus is on the step's button
        table.focus()
        for marks, keys, total in (
            (("home",), ("right", "enter"), len(ids)),
            (("home",), ("enter",), len(ids) - 1),
            (("home", "space", "down", "space"), ("right", "enter"), len(ids) - 1),
            (("home", "space", "down", "space"), ("enter",), len(ids) - 3),
        ):
            table.unmark()
            await pilot.press(*marks)
            assert not isinstance(pilot.app.screen, QuestionDialog)
            await pilot.press("x", "x")
            await until(
                pilot,
                lambda: isinstance(pilot.app.screen, QuestionDialog),
                "the question",
            )
            assert numbers(text_of(pilot, ".dialog-title")) == [2 if "space" in marks else 1]
            await pilot.press(*keys)
            await until(pilot, lambda total=total: table.total == total and table.current)  # type: ignore[misc]
            await until(
                pilot,
                lambda: isinstance(pilot.app.screen, ProjectScreen),
                "the table",
            )
        await until(
            pilot,
            lambda: not table.marked,
            "no marks",
        )

    drive(story, finished_project, step="queries")
    assert [query.id for query in stored(finished_project)] == [ids[2], *ids[4:]]


def test_nothing_is_deleted_during_a_run(finished_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        table = await table_of(pilot)
        pane = pilot.app.screen.query_one(QueriesPane)
        table.focus()
        await until(
            pilot,
            lambda: table.has_focus,
            "the focus",
        )
        assert pane.check_action("delete", ())
        help_text, _ = pane.palette_commands()["Queries: delete"]
        assert {"x", "Del"} <= set(help_text.split()), "all keys are named, as the footer has them"
        for state in ("running", "busy"):
            pane.state = state
            assert not pane.check_action("delete", ())

    drive(story, finished_project)


def test_eight_thousand_queries_are_read_a_page_at_a_time(finished_project: Path) -> None:
    first = stored(finished_project)[0]
    put(finished_project, [replace(first, text=f"query number {number}") for number in range(8000)])

    async def story(pilot: Pilot[Any]) -> None:
        table = await table_of(pilot)
        assert table.total == 8000
        assert len(table.queries) == PAGE
        table.focus()
        await pilot.press("end")
        await until(
            pilot,
            lambda: len(table.queries) == 2 * PAGE,
            "the second page",
        )
        assert table.current is not None
        assert table.current.text == "query number 99"
        await pilot.press(*["pagedown"] * 12)
        await until(
            pilot,
            lambda: len(table.queries) >= 3 * PAGE,
            "more pages",
        )
        assert table.current.text == f"query number {table.cursor_row}"
        table.scroll_to(y=0, animate=False)
        await until_text(pilot, "query number 3 ")
        table.scroll_end(animate=False)  # by the wheel: the cursor stays, what is in sight comes
        held = len(table.queries)
        await until(
            pilot,
            lambda: len(table.queries) > held,
            "the page in sight",
        )

    drive(
        story,
        finished_project,
        (100, 30),
        step="queries",
    )


def test_hostile_queries_show_as_typed(finished_project: Path) -> None:
    first = stored(finished_project)[0]
    put(finished_project, [replace(first, text=HOSTILE, evidence=HOSTILE)])

    async def story(pilot: Pilot[Any]) -> None:
        await table_of(pilot)
        await until_text(pilot, "[@click=app.quit]x[/] ␛[31m\ufffdevil [/")
        await pilot.press("e")
        await until(
            pilot, lambda: "[@click=app.quit]x[/]" in text_of(pilot, "#edit-chunk"), "the evidence"
        )
        assert "\x1b" not in shown(pilot)
        assert "\u202e" not in shown(pilot)
        await pilot.press("enter")  # unchanged: nothing is written
        await until(pilot, lambda: isinstance(pilot.app.screen, ProjectScreen))

    drive(story, finished_project, step="queries")
    assert stored(finished_project)[0].text == HOSTILE


def status(**states: str) -> ProjectStatus:
    reasons = {"done": UP_TO_DATE}
    stages = tuple(
        StageState(name, state, reasons.get(state, "its settings or inputs changed"))
        for name, state in states.items()
    )
    return ProjectStatus(stages=stages, counts={"queries": 5})


def test_the_state_of_the_queries_follows_stages_and_run() -> None:
    run = RunState()
    done = status(
        ingest="done",
        index="done",
        generate="done",
    )
    assert find_queries_state(ProjectStatus(), run, False) == "unknown"
    assert (
        find_queries_state(status(ingest="to do", index="to do", generate="to do"), run, False)
        == "unread"
    )
    assert find_queries_state(done, run, False) == "made"
    assert find_queries_state(done, run, True) == "running"  # being started
    stale = status(
        ingest="done",
        index="done",
        generate="stale",
    )
    assert find_queries_state(stale, run, False) == "stale"
    assert find_queries_state(replace(stale, counts={"queries": 0}), run, False) == "new"
    assert format_state("made", replace(done, counts={"queries": 0}), run).plain.startswith("✗")
    assert format_state("made", done, run).plain == ""
    noted = replace(
        done, stages=(*done.stages[:2], StageState("generate", "done", "a model is there now"))
    )
    assert "a model is there now" in format_state("made", noted, run).plain
    run.apply_all(
        [
            RunStarted(run="a", stages=["generate", "train"]),
            StageStarted(stage="generate", fingerprint="", reason=""),
            Progress(stage="generate", done=30, total=120, unit="chunks"),
        ]
    )
    assert find_queries_state(done, run, True) == "running"
    line = format_state("running", done, run).plain
    assert numbers(line) == [30, 120]
    assert line.startswith("▶")
    assert f" {'█' * 3}{'░' * 9} " in line
    run.apply(StageStarted(stage="train", fingerprint="", reason=""))
    assert find_queries_state(done, run, True) == "busy"


def test_choices_and_warnings_of_a_language_model_are_shown() -> None:
    backend = Choice(
        stage="generate",
        setting="backend",
        value="gguf",
        reason="it is named",
    )
    cost = Choice(
        stage="generate",
        setting="cost",
        value="12 min",
        reason="31 tokens/s",
    )
    begun = [
        RunStarted(run="a", stages=["generate"]),
        StageStarted(stage="generate", fingerprint="", reason=""),
    ]
    going = RunState()
    history = History()
    going.apply_all([*begun, backend])
    assert format_generation(going, history).plain == "", (
        "the built-in generator reports its name, too"
    )
    going.apply_all([cost, Progress(stage="generate", done=5, total=20, unit="chunks")])
    lines = ["· backend: gguf (it is named)", "· cost: 12 min (31 tokens/s)"]
    assert format_generation(going, history).plain.splitlines() == lines
    history.stages["generate"] = StageRun(
        "generate", choices={"cost": cost}, warnings=["2 are lost."]
    )
    assert format_generation(RunState(), history).plain.splitlines() == [lines[1], "! 2 are lost."]


def test_evidence_is_found_white_space_apart() -> None:
    assert evidence_span("two  three", "one two\nthree four") == (4, 13)
    assert evidence_span("", "one") is None
    assert evidence_span("five", "one") is None
