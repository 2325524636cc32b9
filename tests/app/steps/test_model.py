"""Step Model: what runs where and why, another encoder, and changes that are shown before they
are written.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
from fixtures.app import drive, screen_text, until
from fixtures.german_office import write_german_office
from fixtures.hub import stand_in_hub
from fixtures.queries_step import choose
from fixtures.scripted import recorded_command
from fixtures.shown_numbers import numbers
from fixtures.tiny_model import build_tiny_model
from fixtures.user_folders import DATA
from textual.content import Content
from textual.pilot import Pilot
from textual.widgets import OptionList

from bmembed_tui.client.project_status import STEPS
from bmembed_tui.project.screen import ProjectScreen
from bmembed_tui.steps.model.pane import ModelPane
from bmembed_tui.steps.model.text import format_machine, format_topic
from bmembed_tui.widgets.change_line import ChangeLine, format_effect
from bmembed_tui.widgets.choice_row import ChoiceRow
from bmembed_tui.widgets.hanging import wrap_hanging
from bmembed_tui.widgets.model_list import ModelList
from engine.core.messages.encoders import EncoderOffer
from engine.core.messages.project import Examine, Finding, Findings, StageChange, WhatIf
from engine.core.messages.wire import from_json
from engine.encoders.model_folder import DEFAULT_MODEL
from engine.project.folder import ProjectFolder

NAME = "multilingual-e5-small"
QUERY = "Jahresurlaub"


@pytest.fixture
def known_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The doctor's recorded findings: for tests that are not about the machine, so that the
    engine need not load torch.
    """
    ask = ModelPane.ask

    async def answer(pane: ModelPane, request: Any) -> Any:
        if isinstance(request, Examine):
            return from_json(Findings, {"findings": recorded_command("doctor")})
        return await ask(pane, request)

    monkeypatch.setattr(ModelPane, "ask", answer)


async def model_step(pilot: Pilot[Any]) -> ModelPane:
    """Go to the step and wait for what the doctor found."""
    app = pilot.app
    await until(
        pilot,
        lambda: isinstance(app.screen, ProjectScreen) and app.screen.status.stages,
        "the project",
    )
    screen = app.screen
    assert isinstance(screen, ProjectScreen)
    await until(
        pilot,
        lambda: screen.pane is not None,
        "the first step",
    )
    screen.action_go("model")
    await until(
        pilot,
        lambda: isinstance(screen.pane, ModelPane),
        "the step",
    )
    assert isinstance(screen.pane, ModelPane)
    await until(
        pilot,
        lambda: "memory" in note_of(screen.pane, "machine"),
        "the doctor's findings",
    )
    found = screen.pane.query_one(ModelList)
    await until(
        pilot,
        lambda: not found.display or found.query_one(OptionList).option_count,
        "the models: rows move below",
    )
    await until(pilot, lambda: app.focused is screen.pane.query_one("#primary"), "the focus")  # type: ignore[union-attr]
    return screen.pane


def note_of(pane: Any, name: str) -> str:
    return str(pane.query_one(f"#{name}").render())


def written(project: Path) -> dict[str, Any]:
    return tomllib.loads((project / "project.toml").read_text(encoding="utf-8"))


async def typed(
    pilot: Pilot[Any],
    name: str,
    text: str,
) -> None:
    field = pilot.app.screen.query_one(f"#{name}")
    field.value = text[:-1]  # type: ignore[attr-defined]
    field.focus()
    await pilot.press(
        "end",
        text[-1],
        "enter",
    )


@pytest.mark.parametrize("size", [(80, 24), pytest.param((200, 60), marks=pytest.mark.slow)])
def test_every_choice_stands_with_its_reason(finished_project: Path, size: tuple[int, int]) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        pane = await model_step(pilot)
        assert note_of(pane, "device-note").startswith("✓ cpu")
        assert note_of(pane, "dtype-note").startswith("✓ float32")
        assert 32 in numbers(note_of(pane, "model-note"))  # dimensions
        assert numbers(note_of(pane, "preset-note")) == [12, 8]  # steps, queries a step
        for topic in ("gpu:", "memory:", "memory need:", "disk need:"):
            assert topic in note_of(pane, "machine")
        pane.query_one("#model-dtype").scroll_visible(
            animate=False
        )  # at 80 columns the list of models is above it
        await until(pilot, lambda: "● float32" in screen_text(pilot.app), "the precision")  # type: ignore[arg-type]
        assert pilot.app.focused is pane.query_one("#primary")
        await pilot.press("enter")
        await until(pilot, lambda: pilot.app.screen.is_at("queries"))  # type: ignore[attr-defined]

    drive(
        story,
        finished_project,
        size,
        step="model",
    )


@pytest.mark.usefixtures("known_machine")
def test_a_change_is_shown_before_it_is_written(finished_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        pane = await model_step(pilot)
        row = pane.query_one("#model-preset", ChoiceRow)
        change = pane.query_one(ChangeLine)
        await choose(pilot, "model-preset", "paper")
        await until(
            pilot,
            lambda: change.has_class("-asking"),
            "the question",
        )
        effect = str(change.query_one(".change-effect").render())
        assert [step.key for step in STEPS if step.title in effect] == ["train", "result"]
        assert written(finished_project)["training"]["preset"] == "quick"
        await pilot.press("right", "enter")
        await until(
            pilot,
            lambda: row.value == "quick",
            "the row as it was",
        )
        assert pilot.app.focused is row
        await choose(pilot, "model-preset", "paper")
        await until(
            pilot,
            lambda: change.has_class("-asking"),
            "the question again",
        )
        await pilot.press("enter")
        await until(
            pilot,
            lambda: written(finished_project)["training"]["preset"] == "paper",
            "paper in project.toml",
        )
        screen = pilot.app.screen
        await until(pilot, lambda: screen.status.state("train") == "stale")  # type: ignore[attr-defined]
        assert row.value == "paper"
        assert not change.waiting

    drive(story, finished_project, step="model")


def test_what_makes_nothing_stale_is_written_at_once(new_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        pane = await model_step(pilot)
        await choose(pilot, "model-dtype", "float16")
        await until(
            pilot,
            lambda: written(new_project)["encoder"]["dtype"] == "float16",
            "float16 in project.toml",
        )
        await until(
            pilot,
            lambda: "float16" in note_of(pane, "device-note"),
            "the reason",
        )
        assert note_of(pane, "device-note").startswith("✗")

    drive(story, new_project, step="model")


def test_a_folder_that_is_no_model_is_refused_with_the_reason(
    finished_project: Path, tiny_model: Path, tmp_path: Path
) -> None:
    broken = Path(shutil.copytree(tiny_model, tmp_path / "[@click=app.quit]m["))
    for path in broken.glob("*.safetensors"):
        path.unlink()

    async def story(pilot: Pilot[Any]) -> None:
        pane = await model_step(pilot)
        await typed(
            pilot,
            "model-folder",
            str(tmp_path / "nothing"),
        )
        await until(
            pilot,
            lambda: note_of(pane, "model-note").startswith("✗"),
            "the first reason",
        )
        await typed(
            pilot,
            "model-folder",
            str(broken),
        )
        await until(
            pilot, lambda: "[@click=app.quit]m[" in note_of(pane, "model-note"), "the second reason"
        )
        assert "safetensors" in note_of(pane, "model-note")
        assert note_of(pane, "model-note").startswith("✗")

    before = written(finished_project)
    drive(story, finished_project, step="model")
    assert written(finished_project) == before


def test_another_model_is_taken_after_a_look(
    finished_project: Path, tiny_model: Path, tmp_path: Path
) -> None:
    other = Path(shutil.copytree(tiny_model, tmp_path / "other"))
    settings = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**settings, "hidden_dropout_prob": 0.2}))

    async def story(pilot: Pilot[Any]) -> None:
        pane = await model_step(pilot)
        screen = pilot.app.screen
        await choose(pilot, "model-encoder", "bundled")
        await until(
            pilot,
            lambda: pane.query_one(ChangeLine).has_class("-asking"),
            "the question",
        )
        screen.action_go("documents")  # type: ignore[attr-defined]  # away without Apply
        await until(
            pilot,
            lambda: pane.query_one("#model-encoder", ChoiceRow).value == "folder",
            "the row as it was",
        )
        screen.action_go("model")  # type: ignore[attr-defined]
        await until(
            pilot,
            lambda: pilot.app.focused is pane.query_one("#primary"),
            "the step",
        )
        await typed(
            pilot,
            "model-folder",
            str(other),
        )
        await until(
            pilot,
            lambda: pane.query_one(ChangeLine).has_class("-asking"),
            "the question",
        )
        assert "✓ other" in note_of(pane, "model-note")
        await pilot.press("enter")
        await until(
            pilot, lambda: written(finished_project)["encoder"]["model"] == str(other), "the model"
        )
        await until(pilot, lambda: screen.status.state("embed") != "done", "outdated vectors")  # type: ignore[attr-defined]
        await choose(
            pilot, "model-encoder", "bundled"
        )  # its tokenizer is another one: the chunks become stale, too
        await until(
            pilot,
            lambda: pane.query_one(ChangeLine).has_class("-asking"),
            "the question",
        )
        await pilot.press("enter")
        await until(
            pilot, lambda: "model" not in written(finished_project)["encoder"], "the default model"
        )

    drive(story, finished_project, step="model")


@pytest.mark.usefixtures("known_machine")
def test_apply_takes_no_key_that_was_meant_for_something_else(finished_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        await model_step(pilot)
        screen = pilot.app.screen
        let = asyncio.Event()
        answer = screen.client.ask  # type: ignore[attr-defined]

        async def ask(request: Any) -> Any:
            if isinstance(request, WhatIf):
                await let.wait()
            return await answer(request)

        screen.client.ask = ask  # type: ignore[attr-defined]
        change = screen.query_one("#model-change", ChangeLine)
        change.ask = ask
        before = pilot.app.focused
        change.propose({"training.preset": "cl"})
        await pilot.press("f5")
        let.set()
        await until(
            pilot,
            lambda: change.has_class("-asking"),
            "the question",
        )
        assert pilot.app.focused is before
        change.propose({"training.preset": "cl"})
        await until(
            pilot,
            lambda: pilot.app.focused is change.query_one("#change-apply"),
            "the focus on Apply",
        )

    drive(story, finished_project, step="model")


@pytest.mark.usefixtures("known_machine")
def test_a_row_of_choices_is_chosen_by_mouse_too(new_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        await model_step(pilot)
        row = pilot.app.screen.query_one("#model-preset", ChoiceRow)
        column = 10 + len("● standard ") + 3 + row.values.index("quick")  # within the second choice
        assert row.values[:2] == ["standard", "quick"]
        await pilot.click(row, offset=(12, 0))
        await until(
            pilot, lambda: written(new_project)["training"]["preset"] == "standard", "standard"
        )
        await pilot.click(row, offset=(column, 0))
        await until(
            pilot,
            lambda: written(new_project)["training"]["preset"] == "quick",
            "quick",
        )

    drive(story, new_project, step="model")


def test_one_is_chosen_among_those_on_this_machine_or_on_a_server(
    finished_project: Path, tiny_model: Path, tmp_path: Path
) -> None:
    other = Path(shutil.copytree(tiny_model, tmp_path / "models" / "english"))
    (other / "README.md").write_text("---\nlanguage: ja\n---\n")
    (tmp_path / "models" / "broken").mkdir()
    shutil.copy(tiny_model / "modules.json", tmp_path / "models" / "broken")
    ProjectFolder(finished_project).change_settings({"encoder.folders": [str(tmp_path / "models")]})

    async def story(pilot: Pilot[Any]) -> None:
        pane = await model_step(pilot)
        models = pane.query_one("#models", OptionList)
        await until(
            pilot,
            lambda: models.option_count > 3,
            "broken, english and the bundled one",
        )
        offers = [str(option.prompt) for option in models.options[3:]]
        assert {row[0] for row in offers} == {"⇣"}
        rows = [str(option.prompt) for option in models.options[:3]]
        assert [row[0] for row in rows] == ["✗", "✓", "✓"]
        assert [
            name in row
            for name, row in zip(("broken", "english", DEFAULT_MODEL), rows, strict=True)
        ] == [True] * 3
        assert "engine encoders compare" in str(pane.query_one("#models-note").render())
        models.focus()
        await pilot.press("home", "down", "enter")
        await until(
            pilot,
            lambda: written(finished_project)["encoder"]["model"] == str(other),
            "the same vectors, at once",
        )
        await until(
            pilot,
            lambda: len(note_of(pane, "model-note").splitlines()) == 2,
            "a language that it does not know",
        )
        warned = note_of(pane, "model-note").splitlines()
        assert [line[0] for line in warned] == ["✓", "!"]
        assert "English" in warned[1]

        change = pane.query_one(ChangeLine)
        await choose(pilot, "model-encoder", "server")
        await typed(pilot, "model-endpoint", "http://127.0.0.1:9/v1")
        await until(
            pilot,
            lambda: change.has_class("-asking"),
            "the question",
        )
        await pilot.press("enter")
        await until(
            pilot,
            lambda: "endpoint" in written(finished_project)["encoder"],
            "the server",
        )
        assert pane.query_one("#model-encoder", ChoiceRow).value == "server"
        await until(
            pilot, lambda: "127.0.0.1:9" in note_of(pane, "model-note"), "what the server cannot do"
        )

        await choose(pilot, "model-encoder", "folder")
        await typed(
            pilot,
            "model-folder",
            str(other),
        )
        await until(
            pilot,
            lambda: "endpoint" not in written(finished_project)["encoder"],
            "the folder again",
        )

    drive(story, finished_project, step="model")


def finding(
    topic: str,
    state: str,
    found: str,
    follows: str,
) -> Finding:
    return Finding(topic, state, found, follows)


def test_problems_have_a_sign_and_come_first() -> None:
    findings = [
        finding("memory", "good", "9 GB free", "enough"),
        finding("gpu", "absent", "no CUDA GPU: none is there", "everything works without one"),
        finding("disk", "problem", "1 GB free", "free some"),
        finding("version", "problem", "peft is missing", "install it"),
        finding("model", "problem", "[b]x[/", "No safetensors."),
        finding("device", "good", "cpu", "as set"),
    ]
    lines = format_machine(findings).plain.splitlines()
    assert [line[0] for line in lines] == ["✗", "✗", "·", "✓"]
    for line, one in zip(lines, (findings[number] for number in (2, 3, 1, 0)), strict=True):
        # the rest is short
        if one.state == "problem":
            follows = f" — {one.follows}"
        else:
            follows = ""
        assert line.endswith(f"{one.topic}: {one.found}{follows}")
    model, device = (format_topic(findings, topic).plain for topic in ("model", "device"))
    assert (model[0], model.endswith("[b]x[/ — No safetensors.")) == ("✗", True)
    assert (device[0], device.endswith("cpu — as set")) == ("✓", True)
    assert not any(state in format_topic(findings, "dtype").plain for state in "✓✗·")


@pytest.mark.parametrize(
    ("width", "rows"),
    [
        (40, ["✓ memory: 9 GB free, more than enough"]),
        (20, ["✓ memory: 9 GB free,", "  more than enough"]),
        (12, ["✓ memory: 9", "  GB free,", "  more than", "  enough"]),
        (2, ["✓ memory: 9 GB free, more than enough"]),
    ],
)
def test_a_line_goes_on_under_its_text(width: int, rows: list[str]) -> None:
    line = Content.assemble(
        "✓ ",
        ("memory: ", "bold"),
        "9 GB free, more than enough",
    )
    broken = wrap_hanging(line, width)
    assert broken.plain.split("\n") == rows
    assert {broken.plain[span.start : span.end].strip() for span in broken.spans} == {"memory:"}


def test_the_effect_of_a_change_names_the_steps() -> None:
    stages = [
        StageChange(
            "generate",
            "done",
            "stale",
            "The backend gguf needs a language model.",
            "llm-not-chosen",
        ),
        StageChange("rank", "done", "stale", "generate is stale"),
        StageChange("train", "stale", "done", "up to date"),
    ]
    stale, again, problem = format_effect(stages).plain.splitlines()
    steps = ("Queries", "Index", "Train")
    assert [one for one in steps if one in stale] == ["Queries", "Index"]
    assert [one for one in steps if one in again] == ["Train"]
    assert problem == f"✗ {stages[0].reason}"


def first_hybrid_hit(search: Any) -> str:
    """Return the path of the first hit that is shown, empty if not both rankers returned it."""
    hits = search.active_list.hits
    if hits and {"bm25", "semantic"} <= set(hits[0].rankers):
        return str(hits[0].path)
    return ""


def test_six_keys_lead_from_an_encoder_of_the_catalogue_to_hits_in_german(
    known_machine: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DATA, str(tmp_path / "data"))
    documents = write_german_office(tmp_path / "dokumente")
    project = tmp_path / "projekt"
    ProjectFolder.create(project, {"corpus": {"paths": [str(documents)]}})
    keys: list[str] = []

    async def story(pilot: Pilot[Any]) -> None:
        async def press(key: str) -> None:
            keys.append(key)
            await pilot.press(key)

        pane = await model_step(pilot)
        await choose(pilot, "model-encoder", "folder")
        models = pane.query_one("#models", OptionList)
        await until(
            pilot,
            lambda: models.option_count > 3,
            "the encoders",
            60,
        )
        rows = [str(option.prompt) for option in models.options]
        (place,) = (number for number, row in enumerate(rows) if NAME in row)
        assert "German" in rows[place]
        (english,) = (row for row in rows if "bge-small-en" in row)
        assert "0%" in english
        models.focus()
        models.highlighted = place
        await press("enter")
        await until(
            pilot,
            lambda: "488.0 MB" in note_of(pane, "model-note"),
            "what it means",
        )
        assert hub.requests == []
        await press("enter")
        change = pane.query_one(ChangeLine)
        folder = tmp_path / "data" / "bmembed" / "models" / NAME
        await until(
            pilot,
            lambda: change.waiting or "encoder" in written(project),
            "the encoder, proposed",
            60,
        )
        if change.waiting:
            await press("enter")
        await until(
            pilot,
            lambda: written(project).get("encoder", {}).get("model") == str(folder),
            "the encoder in project.toml",
        )
        await press("7")
        search = pilot.app.screen.pane  # type: ignore[attr-defined]
        await until(
            pilot,
            lambda: search.query_one("#primary").display,
            "the offer to read",
        )
        await press("enter")
        # The letters of the query are not counted.
        await pilot.press(*QUERY)
        # Other hits may come first while the index is unfinished.
        await until(
            pilot,
            lambda: first_hybrid_hit(search).endswith("Urlaubsordnung.docx"),
            "the right hit, by meaning and by keyword",
            120,
        )
        assert search.active == "hybrid"
        assert len(keys) <= 6

    with stand_in_hub() as hub:
        hub.add_folder(f"intfloat/{NAME}", build_tiny_model(tmp_path / "tiny"))
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        drive(story, project)


def test_a_fetch_that_fails_is_said_and_changes_nothing(
    known_machine: None, monkeypatch: pytest.MonkeyPatch, new_project: Path
) -> None:
    monkeypatch.setenv("BMEMBED_OFFLINE", "1")
    offer = EncoderOffer(
        NAME,
        488_000_000,
        "many languages",
        384,
        512,
        True,
        1.0,
    )
    before = (new_project / "project.toml").read_text()

    async def story(pilot: Pilot[Any]) -> None:
        pane = await model_step(pilot)
        pane.fetch(offer)
        await until(
            pilot,
            lambda: "BMEMBED_OFFLINE" in note_of(pane, "model-note"),
            "why not",
            60,
        )
        assert "engine models add" in note_of(pane, "model-note")

    drive(story, new_project, step="model")
    assert (new_project / "project.toml").read_text() == before
