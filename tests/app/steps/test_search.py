"""The Search step with the real engine: hits while typing, modes, reasons, judging, empty
states.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fixtures import pictures, scripted
from fixtures.app import SIDEBAR, drive, opened, screen_text, text_of, until, until_screen
from fixtures.pipeline import engine_here
from fixtures.search_step import answered, focused, search_for, searching, shown
from fixtures.shown_numbers import numbers
from textual.events import Key
from textual.pilot import Pilot

from bmembed_tui.dialogs.adapt import AdaptDialog
from bmembed_tui.dialogs.confirmations import ErrorDialog
from bmembed_tui.project.screen import ProjectScreen
from bmembed_tui.steps.search import pane as search_pane
from bmembed_tui.steps.search.document_view import DocumentView
from bmembed_tui.steps.search.explanation import WhyDialog
from bmembed_tui.steps.search.hit_list import HitList, QueryInput
from bmembed_tui.steps.search.hit_text import find_file
from bmembed_tui.steps.search.model import ALL
from bmembed_tui.steps.search.pane import SearchPane
from bmembed_tui.steps.search.preview import PreviewScreen
from bmembed_tui.steps.search.text import format_found_by, format_no_hits
from bmembed_tui.widgets.safe import SafeStatic
from engine.core.errors import UsageError
from engine.core.messages.offer import AdaptationOffer
from engine.core.messages.search import MODES, ReadJudgments
from engine.core.messages.wire import to_json
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import VectorsInfo

FERRY = "incidents/2031-022-ferry-pallet.txt"


def answered_by(pane: SearchPane) -> str:
    """Which search gave the hits that are shown: BM25 may stand in."""
    answer = pane.searching.answer(pane.active)
    return answer.by if answer else ""


@pytest.mark.processes
def test_hits_come_while_typing_and_after_the_death_of_the_search_process(
    finished_project: Path,
) -> None:
    """Each mode keeps the query; BM25 stands in until the encoder is loaded, at first and again."""
    found = json.loads(
        engine_here(
            "search", str(finished_project), "ferry pallet", "--mode", "bm25", "--json"
        ).stdout
    )

    async def story(pilot: Pilot[Any]) -> None:
        pane = await searching(pilot)
        assert focused(pilot) == "QueryInput"
        pane.query_one(QueryInput).insert_text_at_cursor("ferry palle")
        await pilot.press("t")
        await until(
            pilot,
            lambda: answered_by(pane) == "hybrid",
            "the fused hits",
        )
        early = pane.searching.answers.get(
            "bm25"
        )  # asked as well as long as the encoder is not ready
        assert early is None or [hit.chunk_id for hit in early.hits] == [
            hit["chunk_id"] for hit in found["hits"]
        ]
        assert pane.active_list.hits[0].title[:20] in shown(pilot)
        for key, mode in (("f6", "semantic"), ("f7", "bm25"), ("f5", "hybrid")):
            await pilot.press(key)
            await answered(pilot, pane)
            assert (pane.mode, pane.question.query) == (mode, "ferry pallet")
            assert format_found_by(mode, pane.searching.answers[mode]) == ""
            assert pane.active_list.hits == pane.searching.answers[mode].hits
        assert focused(pilot) == "QueryInput"
        await until(
            pilot,
            lambda: pane.searching.encoder == "ready",
            "the encoder",
        )
        process = pane.host.client.process
        assert process is not None
        process.kill()
        await until(
            pilot,
            lambda: pane.searching.encoder == "",
            "its death to be noticed",
        )
        await search_for(pilot, pane, "s")
        await until(
            pilot,
            lambda: pane.searching.encoder == "ready",
            "the encoder again",
        )

    drive(
        story,
        finished_project,
        size=(80, 24),
    )


def test_what_is_typed_right_after_the_steps_key_stands_in_the_field(
    finished_project: Path,
) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, "documents")
        await until(
            pilot,
            lambda: screen.status.done("ingest"),
            "the status",
        )
        for key in "7ferry2":  # as fast as the terminal sends it: the step is not drawn yet
            pilot.app.post_message(Key(key, key))
        (pane,) = screen.query(SearchPane)
        await until(
            pilot,
            lambda: pane.mode and pane.question.query == "ferry2",
            "the query",
        )
        assert screen.pane is pane
        await pilot.press("x")
        assert pane.question.query == "ferry2x"
        await answered(pilot, pane)

    drive(story, finished_project)


def test_three_side_by_side_and_one_below_the_other_where_it_is_narrow(
    finished_project: Path,
) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        pane = await searching(pilot)
        await search_for(pilot, pane, "ferry pallet")
        await pilot.press("escape")
        assert pilot.app.screen.focused is pilot.app.screen.query_one("#sidebar")
        await pilot.press("f11", "f8")  # one that means nothing, and one of the step
        await until(pilot, lambda: len(pane.searching.answers) == 3 and not pane.searching.pending)
        await pilot.pause()
        assert pane.mode == ALL
        lists = [one for one in pane.query(HitList) if one.region.area]
        assert [one.hits for one in lists] == [
            pane.searching.answers[mode].hits for mode in ("hybrid", "semantic", "bm25")
        ]
        heads = [str(head.render())[:15] for head in pane.query(".search-head").results(SafeStatic)]
        assert [numbers(head) for head in heads] == [
            [len(pane.searching.answers[mode].hits)] for mode in MODES
        ]
        line = next(line for line in shown(pilot).splitlines() if heads[0] in line)
        assert line.index(heads[0]) < line.index(heads[1]) < line.index(heads[2])
        await pilot.press("down", "right", "right")
        assert pilot.app.screen.focused is lists[2]
        assert pane.active == "bm25"
        await pilot.resize_terminal(80, 24)
        assert pilot.app.screen.query_one("#sidebar").size.width < SIDEBAR
        await pilot.press("left")
        await until(
            pilot,
            lambda: [one.region.x for one in lists] == [lists[0].region.x] * 3,
            "one below the other",
        )
        assert pane.active == "semantic"
        assert [one.region.y for one in lists] == sorted({one.region.y for one in lists})
        assert all(one.title[:9] in shown(pilot) for hits in lists for one in hits.hits[:2])

    drive(
        story,
        finished_project,
        size=(120, 40),
    )


def test_why_shows_each_rankers_part_and_what_the_adapter_did(finished_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        pane = await searching(pilot)
        await search_for(pilot, pane, "ferry pallet")
        await until(
            pilot,
            lambda: answered_by(pane) == "hybrid",
            "the fused hits",
        )
        await pilot.press("down", "w")
        await until_screen(pilot, WhyDialog)
        await until(
            pilot,
            lambda: "…" not in text_of(pilot, "#why-rankers").splitlines()[2],
            "the adapter's part",
        )
        first = pane.active_list.hits[0]
        for ranker, line in zip(
            ("bm25", "semantic"), text_of(pilot, "#why-rankers").splitlines(), strict=False
        ):
            ranked = first.rankers[ranker]
            assert numbers(line)[0] == ranked.document_rank
            assert f" {first.shares[ranker]:.0%} " in line
        assert sum(first.shares.values()) == pytest.approx(1)

    drive(story, finished_project)


@pytest.mark.usefixtures("no_encoder")
def test_looking_inside_and_judging(
    finished_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def estimate(*_: str) -> Any:
        return to_json(AdaptationOffer({}, (), "judged", 1, 197, 4.0, 197, ("judge",)))

    monkeypatch.setattr("bmembed_tui.dialogs.adapt.run_command", estimate)

    async def story(pilot: Pilot[Any]) -> None:
        pane = await searching(pilot)
        await pilot.press("f7")
        await look_inside(pilot, pane)
        await pilot.press("ctrl+u")
        await judge(pilot, pane)

    async def look_inside(pilot: Pilot[Any], pane: SearchPane) -> None:
        await search_for(pilot, pane, "pallet seal")
        hits = pane.active_list.hits
        await pilot.press("down")
        assert pilot.app.screen.focused is pane.active_list
        await pilot.press("down")
        assert pane.active_list.current is hits[1]
        await pilot.press("y")
        assert pilot.app.clipboard == str(finished_project / "documents" / hits[1].path)
        document = (finished_project / "documents" / hits[1].path).read_text(encoding="utf-8")
        await pilot.press("c")
        await until(pilot, lambda: pilot.app.clipboard != str(find_file(hits[1])))
        if hits[1].format == "txt":
            assert pilot.app.clipboard == document[hits[1].start : hits[1].end]
        await pilot.press("enter")
        await until_screen(pilot, PreviewScreen)
        view = pilot.app.screen.query_one(DocumentView)
        await until(
            pilot, lambda: view.ready and numbers(text_of(pilot, "#preview-place")), "the text"
        )
        assert hits[1].path[-20:] in shown(pilot)
        assert any(line.startswith(" ▌") for line in shown(pilot).splitlines())
        first = view.match
        await pilot.press("n")
        assert view.match != first or numbers(text_of(pilot, "#preview-place"))[-2:] == [1, 1]
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(pilot.app.screen, PreviewScreen))
        await pilot.press("w")
        await until_screen(pilot, WhyDialog)
        await pilot.press("escape", "up", "up")
        assert focused(pilot) == "QueryInput"
        await pilot.press("down")
        for key in "boiler ro7m":  # as fast as the terminal sends it
            pilot.app.post_message(Key("space" if key == " " else key, key))
        await until(
            pilot,
            lambda: pane.question.query == "boiler ro7m",
            "the query",
        )
        assert focused(pilot) == "QueryInput"

    async def judge(pilot: Pilot[Any], pane: SearchPane) -> None:
        await search_for(pilot, pane, "ferry pallet")
        assert focused(pilot) == "QueryInput"
        first, second, *_ = pane.active_list.hits
        for keys, offered in (((), False), (("down",), True), (("slash",), False)):
            await pilot.press(*keys)
            await until(
                pilot,
                lambda offered=offered: ("+ right" in shown(pilot).splitlines()[-1]) == offered,
            )  # type: ignore[misc]
            assert bool(pane.check_action("judge", (True,))) == offered
        await pilot.press("down", "plus")
        await until(
            pilot,
            lambda: pane.judgments.judged.get(first.chunk_id) is True,
            "the mark",
        )
        kept = await pane.ask(ReadJudgments("ferry pallet"))
        assert kept.chunks == {first.chunk_id: True}
        await until(
            pilot,
            lambda: numbers(text_of(pilot, "#search-status")) == [1, kept.judged_queries],
            "the notice",
        )
        assert "✓" in next(
            line for line in shown(pilot).splitlines() if f" 1 {first.title[:9]}" in line
        )
        await until(
            pilot,
            lambda: pane.host.status.state("evaluate") == "stale",
            "the figures to be the former ones",
        )
        assert pane.host.status.done("ingest", "index", "generate", "rank", "train", "embed")
        await pilot.press("f2")
        await until_screen(pilot, AdaptDialog)
        await pilot.press("escape")
        await until_screen(pilot, ProjectScreen)
        await pilot.press("down", "minus")
        await until(
            pilot, lambda: pane.judgments.judged.get(second.chunk_id) is False, "the second mark"
        )
        await pilot.press("up", "backspace")
        await pilot.pause(0.2)
        assert pane.judgments.judged[first.chunk_id]
        await pilot.press("0")
        await until(
            pilot,
            lambda: first.chunk_id not in pane.judgments.judged,
            "no mark",
        )
        assert (await pane.ask(ReadJudgments("ferry pallet"))).chunks == {second.chunk_id: False}
        with ProjectFolder.open(finished_project).locked("judging"):
            await pilot.press("plus")
            await until(
                pilot, lambda: text_of(pilot, "#search-status").startswith("✗"), "the error"
            )
        assert (await pane.ask(ReadJudgments("ferry pallet"))).chunks == {second.chunk_id: False}

    drive(story, finished_project)


def test_nothing_to_search_yet_offers_to_read_and_what_is_read_is_embedded(
    new_project: Path,
) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        pane = await searching(pilot)
        await until(
            pilot,
            lambda: pane.query_one("#search-nothing").display,
            "the offer to read",
        )
        await pilot.press("enter")
        await pilot.press(*"fer")  # before there is anything to find
        await until(pilot, lambda: pilot.app.screen.status.built("index"), "the index")  # type: ignore[attr-defined]
        assert focused(pilot) == "QueryInput"
        await search_for(pilot, pane, "ry pallet")
        assert pane.question.query == "ferry pallet"
        assert pane.active_list.hits[0].path == FERRY
        await pilot.press(
            "f7",
            "space",
            *"zzzqqq",
        )
        pane.search_for("zzzqqq")
        await answered(pilot, pane)
        answer = pane.searching.answers["bm25"]
        assert (answer.question.query, answer.hits) == ("zzzqqq", ())
        assert any(
            format_no_hits(answer, by_meaning_follows=one)[:40] in shown(pilot)
            for one in (True, False)
        )
        await pilot.press("f5")
        pane.search_for("ferry pallet")
        await until(pilot, lambda: pilot.app.screen.status.done("embed"), "the vector index")  # type: ignore[attr-defined]
        await until(
            pilot,
            lambda: any("semantic" in hit.rankers for hit in pane.active_list.hits),
            "hits by meaning",
        )

    drive(
        story,
        new_project,
        size=(80, 24),
    )


def test_hits_by_meaning_come_by_themselves_while_documents_are_embedded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures.play_record(monkeypatch, tmp_path)
    monkeypatch.setattr(search_pane, "AGAIN", 0.3)
    embedded: list[bool] = []

    async def story(pilot: Pilot[Any]) -> None:
        screen = await pictures.open_project(pilot)
        answer = screen.client.call

        async def call(method: str, **params: Any) -> Any:
            found = await answer(method, **params)
            if method != "search" or embedded:
                return found
            hits = [hit for hit in found["hits"] if "bm25" in hit["rankers"]]
            return {
                **found,
                "hits": [
                    {**hit, "rankers": {"bm25": hit["rankers"]["bm25"]}, "shares": {}}
                    for hit in hits
                ],
            }

        monkeypatch.setattr(
            screen.client,
            "call",
            call,
        )
        screen.run_state.current = "embed"
        pane = await searching(pilot)
        pane.search_for(scripted.QUERY)
        await answered(pilot, pane)
        assert {ranker for hit in pane.active_list.hits for ranker in hit.rankers} == {"bm25"}
        embedded.append(True)
        await until(
            pilot,
            lambda: any("semantic" in hit.rankers for hit in pane.active_list.hits),
            "hits by meaning",
        )

    drive(story)


def test_lists_side_by_side_are_of_the_same_state_of_an_index_that_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures.play_record(monkeypatch, tmp_path)
    monkeypatch.setattr(search_pane, "AGAIN", 3600.0)
    progress = ["early"]

    async def story(pilot: Pilot[Any]) -> None:
        screen = await pictures.open_project(pilot)
        answer = screen.client.call

        async def call(method: str, **params: Any) -> Any:
            found = await answer(method, **params)
            if method != "search":
                return found
            return {**found, "notes": [progress[0]]}

        monkeypatch.setattr(
            screen.client,
            "call",
            call,
        )
        screen.run_state.current = "embed"
        pane = await searching(pilot)
        pane.search_for(scripted.QUERY)
        await answered(pilot, pane)
        assert pane.searching.answers["hybrid"].note == "early"
        progress[0] = "late"
        await pilot.press("f8")
        await until(
            pilot,
            lambda: not pane.searching.pending,
            "the answers",
        )
        assert [pane.searching.answers[mode].note for mode in MODES] == ["late"] * 3
        screen.run_state.current = ""
        progress[0] = "over"
        await pilot.press("f5")
        assert not pane.searching.pending  # nothing grows: the answers are kept

    drive(story)


def test_who_is_among_the_hits_stays_there_when_embedding_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures.play_record(monkeypatch, tmp_path)

    async def story(pilot: Pilot[Any]) -> None:
        screen = await pictures.open_project(pilot)
        pane = await searching(pilot)
        pane.search_for(scripted.QUERY)
        await answered(pilot, pane)
        await pilot.press("down", "down")
        hit = pane.active_list.current
        assert hit is not None
        pane.searching.answers.clear()
        stages = [replace(stage, fingerprint="another") for stage in screen.status.stages]
        pane.show_status(replace(screen.status, stages=tuple(stages)))
        await answered(pilot, pane)
        assert pilot.app.screen.focused is pane.active_list
        assert (pane.active_list.current, hit.rank) == (hit, 2)

    drive(story)


@pytest.mark.usefixtures("no_encoder")
def test_nothing_is_asked_before_a_longer_pause_where_a_server_is_sent_the_query(
    finished_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_pane, "DEBOUNCE", 0.0)
    monkeypatch.setattr(search_pane, "SERVER_PAUSE", 3600.0)
    project = ProjectFolder.open(finished_project)
    project.change_settings({"search.mode": "bm25"})
    with closing(project.store()) as store:
        made = store.artifact(VectorsInfo)
        assert made is not None
        store.put_artifact(replace(made, info=replace(made.info, endpoint="http://127.0.0.1:9/v1")))

    async def story(pilot: Pilot[Any]) -> None:
        pane = await searching(pilot)
        await pilot.press(*"ferry")
        await pilot.pause()
        assert pane.question.query == "ferry"
        assert pane.searching.question.empty
        await pilot.press("enter")
        await answered(pilot, pane)
        assert pane.active_list.hits

    drive(story, finished_project)


@pytest.fixture
def ordered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stages that the app has ordered to be run; no run is started."""
    stages: list[str] = []

    async def order(*arguments: str) -> Any:
        stages.append(arguments[arguments.index("--only") + 1])
        raise UsageError("Not here.")

    monkeypatch.setattr("bmembed_tui.steps.runs.run_detached_command", order)
    return stages


def test_one_key_embeds_and_then_offers_to_adapt(
    new_project: Path, ordered: list[str], monkeypatch: pytest.MonkeyPatch, no_encoder: None
) -> None:
    offer = AdaptationOffer(
        {"train": 900.0},
        (),
        "document",
        212,
        197,
        4.0,
        197,
        ("judge",),
    )
    measured = asyncio.Event()

    async def estimate(*_: str) -> Any:
        await measured.wait()
        return to_json(offer)

    monkeypatch.setattr("bmembed_tui.dialogs.adapt.run_command", estimate)
    engine_here(
        "run",
        str(new_project),
        "--only",
        "ingest,index",
    )

    async def only_read(pilot: Pilot[Any]) -> None:
        await opened(pilot, "search")  # where a project that was only read is opened
        assert "F2" in text_of(pilot, "#search-improve")
        await pilot.press("f2")
        await until_screen(pilot, ErrorDialog)
        assert ordered == ["ingest,index,embed"]

    async def embedded(pilot: Pilot[Any]) -> None:
        await opened(pilot, "search")
        for keys, step in (("enter", "search"), ("right", "model")):
            pilot.app.screen.go("search")  # type: ignore[attr-defined]
            await pilot.press("f2")
            dialog = await until_screen(pilot, AdaptDialog)
            if not measured.is_set():
                await pilot.press("enter")
                assert (pilot.app.screen, dialog.query_one("#answer-now").disabled) == (
                    dialog,
                    True,
                )
            measured.set()
            await until(
                pilot,
                lambda dialog=dialog: dialog.query_one("#answer-now").has_focus,
                "that it can start",
            )  # type: ignore[misc]
            assert {212, 15, 200} <= set(numbers(screen_text(pilot.app)))  # type: ignore[arg-type]
            await pilot.press(*(["tab", "enter"] if keys == "right" else ["enter"]))
            if step == "search":
                await until_screen(pilot, ErrorDialog)
                await pilot.press("escape")
            await until(
                pilot,
                lambda step=step: (
                    getattr(pilot.app.screen, "pane", None) and pilot.app.screen.pane.step == step
                ),
            )  # type: ignore[attr-defined,misc]
        assert ordered[1:] == ["ingest,index,generate,rank,train,evaluate,embed"]

    drive(only_read, new_project)
    engine_here("run", str(new_project))
    drive(embedded, new_project)
