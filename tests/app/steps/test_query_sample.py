"""Step Queries: where they come from, and a sample of them next to its chunks."""

from __future__ import annotations

import json
import shutil
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from fixtures.app import drive, text_of, until, until_seen, until_text
from fixtures.fake_endpoint import Raw, serving
from fixtures.pipeline import engine_here
from fixtures.queries_step import choose, queries_step, sample_of, settings, shown, stored, typed
from fixtures.shown_numbers import numbers
from fixtures.tiny_gguf import build_tiny_gguf
from fixtures.user_folders import DATA, HOME
from textual.pilot import Pilot
from textual.widgets import OptionList

from bmembed_tui.steps.queries.sample import QuerySample
from bmembed_tui.steps.queries.source import QuerySource
from bmembed_tui.steps.queries.table import QueryTable
from bmembed_tui.widgets.change_line import ChangeLine
from bmembed_tui.widgets.choice_row import ChoiceRow
from engine.core.records import query_label
from engine.project.folder import ProjectFolder


@pytest.fixture(scope="module")
def read_built(new_built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose documents have been read; it has no queries yet."""
    path = Path(shutil.copytree(new_built, tmp_path_factory.mktemp("read") / "handbook"))
    engine_here(
        "run",
        str(path),
        "--only",
        "ingest,index",
    )
    return path


@pytest.fixture
def read_project(read_built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(read_built, tmp_path / "handbook"))


def test_documents_are_read_first_then_a_sample_comes_by_itself(new_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        pane = await queries_step(pilot)
        await until(
            pilot,
            lambda: pane.state == "unread",
            "documents that have not been read",
        )
        await until(pilot, lambda: pilot.app.focused is pane.query_one("#primary"))
        await pilot.press("enter")
        await until_seen(
            pilot,
            lambda: pane.state == "running" and pane.query_one("#primary").disabled,
            "the run",
        )
        await sample_of(pilot, pane)
        assert (pane.state, pane.query_one("#primary").disabled) == ("new", False)

    drive(story, new_project, step="queries")
    assert not stored(new_project)


@pytest.mark.parametrize("size", [(80, 24), pytest.param((200, 60), marks=pytest.mark.slow)])
def test_a_sample_is_shown_next_to_its_chunks(read_project: Path, size: tuple[int, int]) -> None:
    found = json.loads(engine_here("sample", str(read_project), "--count", "6", "--json").stdout)
    item = next(item for item in found["items"] if item["queries"])

    async def story(pilot: Pilot[Any]) -> None:
        pane = await queries_step(pilot)
        await sample_of(pilot, pane)
        made = [query for item in found["items"] for query in item["queries"]]
        kept = sum(query["kept"] for query in made)
        share = round(100 * kept / len(made))
        figures = numbers(text_of(pilot, "#sample-summary"))
        # The time is less than a minute.
        assert figures == [6, kept, len(made), share, found["estimate"]["chunks"]]
        options = pane.query_one("#sample-queries", OptionList)
        *texts, _estimate = [str(option.prompt) for option in options.options]
        assert texts[0] == f"✓ {item['queries'][0]['kind']}: {item['queries'][0]['text']}"
        for text, query in zip(texts, made, strict=False):  # chunks without a query come last
            assert text.startswith(
                f"{'✓' if query['kept'] else '✗'} {query_label(query['kind'])}: {query['text']}"
            )
            assert text.endswith(query["reason"])
        chunk = text_of(pilot, "#sample-chunk")
        assert chunk.startswith(item["path"])
        assert item["queries"][0]["evidence"] in chunk
        assert item["path"] in shown(pilot)

    drive(
        story,
        read_project,
        size,
        step="queries",
    )


def test_leaving_or_escape_ends_a_sample_and_its_process(read_project: Path) -> None:
    def samples() -> list[psutil.Process]:
        found = []
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):  # it has just ended
                found += [child] * ("sample" in child.cmdline())
        return found

    with serving(lambda _request, _number: Raw(wait=threading.Event())) as endpoint:
        folder = ProjectFolder.open(read_project)
        folder.change_settings({"queries.backend": "endpoint", "queries.endpoint": endpoint.url})

        async def story(pilot: Pilot[Any]) -> None:
            pane = await queries_step(pilot)
            await until(
                pilot,
                lambda: pane.query_one("#source-backend", ChoiceRow).value == "endpoint",
                "the backend",
            )
            assert not pane.check_action("stop_sample", ())
            assert not endpoint.requests  # nothing is sent before the user asks
            for number, key in enumerate(("escape", "2"), 1):
                await pilot.press("s")
                await until(
                    pilot, lambda number=number: len(endpoint.requests) >= number, "a request"
                )  # type: ignore[misc]
                assert samples()
                await pilot.press(key)
                await until(
                    pilot,
                    lambda: not samples(),
                    "the end of the process",
                    20,
                )
                await until(
                    pilot, lambda: not pane.check_action("stop_sample", ()), "the end of the sample"
                )
                assert not pane.query_one(QuerySample).shown
                assert text_of(pilot, "#sample-summary")

        drive(story, read_project, step="queries")


def test_the_backend_auto_sends_nothing_to_a_server_before_a_sample_is_wanted(
    read_project: Path,
) -> None:
    with serving(lambda _request, _number: json.dumps({"questions": []})) as endpoint:
        folder = ProjectFolder.open(read_project)
        folder.change_settings({"queries.endpoint": endpoint.url, "queries.prompt": "one-step"})

        async def story(pilot: Pilot[Any]) -> None:
            pane = await queries_step(pilot)
            await sample_of(pilot, pane)
            await choose(pilot, "source-backend", "auto")
            await until(
                pilot, lambda: settings(read_project).get("backend") == "auto", "the backend"
            )
            assert not pane.query_one(QuerySource).sampling
            assert not endpoint.requests
            await pilot.press("s")
            await until(
                pilot,
                lambda: bool(endpoint.requests),
                "a request",
            )

        drive(story, read_project, step="queries")


@pytest.mark.slow
def test_only_generate_then_the_table(read_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        pane = await queries_step(pilot)
        await until(
            pilot,
            lambda: pane.query_one("#only").display,
            "the button",
        )
        pane.query_one("#only").focus()
        await pilot.press("enter")
        await until(
            pilot, lambda: pane.state == "made" and pane.query_one(QueryTable).total, "the table"
        )
        assert pane.query_one("#again").display
        assert not pane.query_one("#primary").disabled
        assert pilot.app.screen.status.state("rank") == "to do"  # type: ignore[attr-defined]

    drive(story, read_project, step="queries")
    assert len(stored(read_project)) > 100


def test_a_source_that_cannot_be_used_is_refused_in_place(
    read_project: Path, tmp_path: Path
) -> None:
    (tmp_path / "bad.jsonl").write_text('{"query": "what?"\n')
    good = tmp_path / "good.jsonl"
    good.write_text(
        json.dumps({"query": "Who reported it?", "evidence": "Reported by Catarina Valdrez"}) + "\n"
    )

    async def story(pilot: Pilot[Any]) -> None:
        pane = await queries_step(pilot)
        await sample_of(pilot, pane)
        await choose(pilot, "source-backend", "gguf")
        await until(
            pilot,
            lambda: pilot.app.focused is pane.query_one("#source-gguf"),
            "the focus",
        )
        assert "backend" not in settings(read_project)
        await pilot.press(*"/no/such.gguf", "enter")
        await until(
            pilot, lambda: pane.host.status.stage("generate").code == "language-model-missing"
        )
        await until(
            pilot, lambda: "such.gguf" in text_of(pilot, "#queries-state"), "the problem's text"
        )
        pane.action_sample()
        await until(
            pilot, lambda: text_of(pilot, "#sample-summary").startswith("✗"), "the sample's error"
        )
        await choose(pilot, "source-backend", "imported")
        await until(
            pilot, lambda: pilot.app.focused is pane.query_one("#source-import"), "the focus"
        )
        await typed(
            pilot,
            "source-import",
            str(tmp_path / "bad.jsonl"),
        )
        await until(
            pilot,
            lambda: "bad.jsonl" in str(pane.query_one("#source-note").render()),
            "the file's error",
        )
        assert settings(read_project)["backend"] == "gguf"
        field = pane.query_one("#source-import")
        field.value = ""  # type: ignore[attr-defined]
        await typed(
            pilot,
            "source-import",
            str(good),
        )
        await until(
            pilot,
            lambda: settings(read_project)["backend"] == "imported",
            "the backend",
        )
        await until(
            pilot,
            lambda: numbers(text_of(pilot, "#source-note")) == [1],
            "the files that were imported",
        )
        pane.query_one("#sample-button").focus()
        await pilot.press("s")
        await until_text(pilot, "Who reported it?")

    drive(story, read_project, step="queries")


def test_a_model_is_chosen_among_those_on_this_machine(
    read_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv(HOME, str(home))
    monkeypatch.setenv(DATA, str(home / "data"))
    for name in ("XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "OLLAMA_MODELS"):
        monkeypatch.delenv(name, raising=False)
    folder = home / ".lmstudio" / "models" / "ours"
    folder.mkdir(parents=True)
    tiny = build_tiny_gguf(folder / "tiny.gguf")
    (folder / "cut[@click=app.quit].gguf").write_bytes(tiny.read_bytes()[:2000])
    ProjectFolder.open(read_project).change_settings(
        {"queries.answer_tokens": 64, "queries.prompt": "one-step"}
    )

    async def story(pilot: Pilot[Any]) -> None:
        pane = await queries_step(pilot)
        await sample_of(pilot, pane)
        await choose(pilot, "source-backend", "gguf")
        await until(
            pilot, lambda: pane.query_one("#models", OptionList).option_count == 5, "the models"
        )
        rows = [str(option.prompt) for option in pane.query_one("#models", OptionList).options]
        assert rows[0].startswith("✗ cut[@click=app.quit].gguf  ")
        assert "2.0 kB" in rows[0]
        assert rows[1].startswith("✓ tiny.gguf  ")
        assert "llama F32" in rows[1]
        assert [row[:2] for row in rows[2:]] == ["⇣ "] * 3  # those of the catalogue
        pane.query_one("#models", OptionList).focus()
        await pilot.press("home", "enter")
        await until(
            pilot,
            lambda: text_of(pilot, "#source-note").startswith("✗ cut[@click=app.quit].gguf: "),
            "the error",
        )
        assert "model" not in settings(read_project)
        await pilot.press("down", "enter")
        await until(
            pilot,
            lambda: settings(read_project).get("model") == str(tiny),
            "the model",
        )
        assert settings(read_project)["backend"] == "gguf"
        await pilot.press("s")
        await sample_of(pilot, pane)
        assert "tiny.gguf" in text_of(pilot, "#sample-summary")
        pane.query_one("#only").focus()
        await pilot.press("enter")
        report = pane.query_one("#source-report")
        await until(
            pilot,
            lambda: {"gpu layers", "cost"} <= pane.host.run_state.stage("generate").choices.keys(),
        )
        await until(
            pilot,
            lambda: all(name in str(report.render()) for name in ("gpu layers", "cost")),
            "the report",
        )
        pane.query_one("#stop").focus()
        await pilot.press("enter")
        await until(
            pilot,
            lambda: pane.host.run_state.over,
            "the end of the run",
        )
        assert pane.host.run_state.state == "cancelled"

    drive(story, read_project, step="queries")


@pytest.mark.usefixtures("without_llama")
def test_without_llama_cpp_a_file_is_not_proposed_and_other_sources_are(read_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        pane = await queries_step(pilot)
        await choose(pilot, "source-backend", "gguf")
        await until(
            pilot, lambda: "llama-cpp-python" in text_of(pilot, "#source-note"), "what is missing"
        )
        assert not pane.query_one("#source-models").display
        assert not pane.query_one(ChangeLine).waiting
        await choose(pilot, "source-backend", "endpoint")
        await until(
            pilot, lambda: pilot.app.focused is pane.query_one("#source-endpoint"), "the focus"
        )
        assert "llama-cpp-python" not in text_of(pilot, "#source-note")
        assert "backend" not in settings(read_project)

    drive(story, read_project, step="queries")
