"""Markup and control characters in documents, file names, queries, model and project names:
shown as typed, run nothing.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from fixtures import pictures
from fixtures.app import drive, opened, screen_text, until, until_screen, until_text
from fixtures.pipeline import SETTINGS, copy_documents, engine_here
from fixtures.tiny_model import encoder_settings
from textual.command import CommandPalette
from textual.pilot import Pilot
from textual.widgets import Input

from bmembed_tui.client.project_status import STEPS
from bmembed_tui.dialogs.confirmations import ErrorDialog, QuestionDialog
from bmembed_tui.dialogs.diagnostics import DiagnosticsScreen
from bmembed_tui.dialogs.folder_picker import FolderPicker
from bmembed_tui.home.new_project import NewProjectScreen
from bmembed_tui.project.screen import ProjectScreen
from bmembed_tui.steps.queries.sample import QuerySample
from bmembed_tui.steps.search.pane import SearchPane
from bmembed_tui.widgets.folder_tree import FolderTree
from engine.core.errors import EngineError
from engine.core.platforms import SYSTEM
from engine.project.folder import ProjectFolder

CLICK = "[@click=app.quit]leave[/]"
TRAP = "[@click=app.quit]leave"
NAMES = (
    f"{TRAP}.md",
    "[/]closed.md",
    "[bold]$error[.txt",
    "turn\u202earound.md",
    # Names hold no control characters on Windows.
    *(() if SYSTEM == "windows" else ("wipe\x1b[2Jme.md",)),
)
TEXT = f"""# {CLICK} zanzibar

The zanzibar valve [/ is opened by {CLICK} and the seal [bold]is[/bold] \x1b[31mred\x1b[0m \x9b2J. [link=file:///etc/passwd]x[/link]

The zanzibar [gasket] costs $primary and $(rm) `x` %s {{0}} ![a](b) <script>alert(1)</script>.
"""
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def hostile_built(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Path:
    """A finished project in which every text that an outsider may have written is an attack."""
    root = tmp_path_factory.mktemp("hostile")
    model = Path(shutil.copytree(tiny_model, root / "[@click=app.quit]model["))
    path = root / "[@click=app.quit]p["
    chosen: dict[str, dict[str, Any]] = {
        **SETTINGS,
        "queries": {"max_queries": 200, "backend": "both"},
    }
    chosen["encoder"] = encoder_settings(model)
    ProjectFolder.create(path, chosen)
    copy_documents(
        path / "documents",
        ("incidents",),
        12,
    )
    for name in NAMES:
        (path / "documents" / name).parent.mkdir(exist_ok=True)
        (path / "documents" / name).write_text(
            TEXT.replace("zanzibar", f"zanzibar {len(name)}"), encoding="utf-8"
        )
    (path / "documents" / f"{TRAP}.exe").write_text("not read")
    asked = [
        {"query": f"{CLICK} [/ zanzibar \x1b[2J {n}", "evidence": "costs $primary"}
        for n in range(3)
    ]
    queries = root / "queries.jsonl"
    queries.write_text("".join(json.dumps(row) + "\n" for row in asked))
    engine_here(
        "import-queries",
        str(path),
        str(queries),
    )
    judged = [{"query": f"[/ judged {CLICK}", "evidence": "zanzibar [gasket]"}]
    (root / "judged.jsonl").write_text("".join(json.dumps(row) + "\n" for row in judged))
    engine_here(
        "import-judgments",
        str(path),
        str(root / "judged.jsonl"),
    )
    engine_here("adapt", str(path))
    return path


@pytest.fixture
def hostile_project(hostile_built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(hostile_built, tmp_path / hostile_built.name))


async def click_every_trap(pilot: Pilot[Any]) -> int:
    """Click on each place where the screen shows the trap; returns how many there were."""
    places = []
    for y, line in enumerate(screen_text(pilot.app).splitlines()):  # type: ignore[arg-type]
        places += [
            (found.start() + 18, y) for found in re.finditer(re.escape("[@click=app.quit]"), line)
        ]
    for x, y in places:
        if x < pilot.app.size.width:
            await pilot.click(offset=(x, y))
            await pilot.pause()
            assert pilot.app.return_code is None, "a click in a document's text ran an action"
    return len(places)


def clean(pilot: Pilot[Any]) -> str:
    shown = screen_text(pilot.app)  # type: ignore[arg-type]
    assert not CONTROL.search(shown), repr(CONTROL.search(shown))
    return shown


@pytest.mark.parametrize("size", [(80, 24), pytest.param((160, 50), marks=pytest.mark.slow)])
def test_every_step_shows_it_as_typed(hostile_project: Path, size: tuple[int, int]) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot)
        await until(pilot, lambda: screen.run_state.over)
        for step in STEPS:
            screen.go(step.key)
            await until(pilot, lambda: at_step(screen, step.key), step.key)  # noqa: B023
            if step.key == "search":
                await pilot.press(*"zanzibar")
                await until(
                    pilot, lambda: screen.query_one(SearchPane).active_list.hits, "the hits"
                )
            assert "[@click=app.quit]p[" in clean(pilot), step
            assert await click_every_trap(pilot), step
            for key in ("f1", "escape", "tab", "down", "down", "enter"):
                await pilot.press(key)
                await pilot.pause(0.1)
                clean(pilot)
            await click_every_trap(pilot)
            assert pilot.app.is_running, step
            while pilot.app.screen is not screen:
                pilot.app.pop_screen()
                await pilot.pause()

    drive(story, hostile_project, size=size)


def at_step(screen: ProjectScreen, step: str) -> bool:
    """Whether a step is shown and takes keys."""
    pane = screen.pane
    return (
        pane is not None
        and pane.step == step
        and screen.focused is not None
        and pane in screen.focused.ancestors
    )


async def shows_as_typed(
    pilot: Pilot[Any],
    kind: str,
    text: str = "[@click=app.quit]",
) -> None:
    """Wait until a screen of that kind shows the text, click on every trap, leave it again."""
    await until(
        pilot,
        lambda: type(pilot.app.screen).__name__ == kind,
        kind,
    )
    await until_text(pilot, text)
    clean(pilot)
    assert await click_every_trap(pilot), kind
    while type(pilot.app.screen).__name__ not in ("ProjectScreen", "HomeScreen"):
        pilot.app.pop_screen()
        await pilot.pause()


def test_why_preview_folder_picker_and_sample(
    hostile_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        Path,
        "home",
        classmethod(lambda _: hostile_project / "documents"),
    )

    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, "search")
        await until(pilot, lambda: screen.run_state.over)
        screen.query_one("#search-query", Input).value = "zanzibar"
        await until(
            pilot,
            lambda: screen.query_one(SearchPane).active_list.hits,
            "the hits",
        )
        for key, kind in (("w", "WhyDialog"), ("enter", "PreviewScreen")):
            await pilot.press("down")
            await pilot.press(key)
            await shows_as_typed(pilot, kind)
        screen.go("documents")
        await until(
            pilot,
            lambda: at_step(screen, "documents"),
            "the step",
        )
        screen.pane.action_add()  # type: ignore[union-attr]
        picker = await until_screen(pilot, FolderPicker)
        picker.query_one("#picker-path", Input).value = f"{hostile_project}/documents/"
        home = picker.query_one(FolderTree).root.children[1]
        home.expand()
        await shows_as_typed(
            pilot,
            "FolderPicker",
            NAMES[0][:20],
        )
        screen.go("queries")
        await until(
            pilot,
            lambda: at_step(screen, "queries"),
            "the step",
        )
        await pilot.press("s")
        await until(
            pilot,
            lambda: screen.query_one(QuerySample).shown,
            "the sample",
        )
        await shows_as_typed(pilot, "ProjectScreen")

    drive(story, hostile_project)


def test_a_new_project_over_hostile_folders(
    hostile_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        Path,
        "home",
        classmethod(lambda _: hostile_project / "documents"),
    )

    async def story(pilot: Pilot[Any]) -> None:
        await pilot.press("n")
        await until_screen(pilot, NewProjectScreen)
        pilot.app.screen.query_one("#new-documents", Input).value = f"{hostile_project}/documents/"
        await shows_as_typed(
            pilot,
            "NewProjectScreen",
            NAMES[0][:20],
        )

    drive(story)


def test_the_first_screen_and_the_palette(hostile_project: Path) -> None:
    from bmembed_tui.home.recents import remember

    async def story(pilot: Pilot[Any]) -> None:
        remember(hostile_project)
        pilot.app.screen.load()  # type: ignore[attr-defined]
        await until_text(pilot, "[@click=app.quit]p[")
        clean(pilot)
        await pilot.press("ctrl+p")
        await until_screen(pilot, CommandPalette)
        await pilot.press(*"click")
        await pictures.settled(pilot)
        clean(pilot)

    drive(story)


@pytest.mark.parametrize("text", [CLICK, "[/", "[bold", "a\x1b[2Jb", "[/]" * 50, "\ud800"])
def test_dialogs(text: str) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        pilot.app.push_screen(ErrorDialog(EngineError(text, text, text)))
        await until_screen(pilot, ErrorDialog)
        clean(pilot)
        await click_every_trap(pilot)
        pilot.app.push_screen(QuestionDialog(text, text, [("yes", text), ("no", "No")]))
        await until_screen(pilot, QuestionDialog)
        clean(pilot)
        pilot.app.show_error(EngineError(text))  # type: ignore[attr-defined]
        pilot.app.notify(text, markup=False)
        await until_screen(pilot, ErrorDialog)
        clean(pilot)

    drive(story)


def test_settings_and_diagnostics(hostile_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot)
        await until(pilot, lambda: screen.run_state.over)
        await pilot.press("ctrl+s")
        await until_text(pilot, "encoder.model")
        assert "[@click=app.quit]" in clean(pilot)
        await click_every_trap(pilot)
        await pilot.press("escape")
        await pilot.press("f12")
        await until_screen(pilot, DiagnosticsScreen)
        clean(pilot)

    drive(story, hostile_project)
