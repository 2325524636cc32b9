"""Every screen as a picture, at two sizes, dark and light. After a wanted change: `pytest tests/app/test_snapshots.py
--snapshot-update`, and look at what changed. The engine's answers are recorded (`fixtures/scripted.py`)."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from fixtures import scripted
from fixtures.app import screen_text, until
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.image import SVGImageSnapshotExtension
from textual.pilot import Pilot
from textual.widgets import Input

from bmembed_tui.app import BmembedApp
from bmembed_tui.project_status import STEPS
from bmembed_tui.screens.project import ProjectScreen
from bmembed_tui.standing import Known
from bmembed_tui.widgets.folder_tree import Entry
from engine.project import ProjectFolder
from engine.settings import Settings, validate

SIZES = {"80x24": (80, 24), "120x40": (120, 40)}
THEMES = ("bmembed-dark", "bmembed-light")
PROJECT = Path(scripted.PROJECT)
KNOWN = [
    Known(Path("/home/ada/projects/contracts"), True, "train · step 120 of 400"),
    Known(PROJECT),
    Known(Path("/home/ada/projects/broken"), problem="project.toml has 1 problem."),
]
ENTRIES = [Entry(False, "contracts", "contracts"), Entry(False, "mail", "mail"), Entry(True, "readme.md", "README.md")]
Story = Callable[[Pilot[Any]], Awaitable[None]]


class RecordedProject(ProjectFolder):
    """A project that is only in the record."""

    def settings(self) -> Settings:
        """As recorded."""
        return validate(json.loads(scripted.RECORDED.read_text())["answers"]["settings"]["settings"])


@pytest.fixture
def snap(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(SVGImageSnapshotExtension)


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The recorded engine in the real one's place; returns the folder of the recorded run."""
    run = tmp_path / "runs" / "20320101-000000-000-0000"
    run.mkdir(parents=True)
    (run / "events.jsonl").write_text(scripted.recorded_events(), encoding="utf-8")

    class Desk(scripted.ScriptedDesk):
        async def ask(self, method: str, **params: Any) -> Any:
            answer = await super().ask(method, **params)
            return {**answer, "run": {**answer["run"], "folder": str(run)}} if method == "status" else answer

    async def command(name: str, *_: str) -> Any:
        return scripted.recorded_command(name)

    monkeypatch.setattr("bmembed_tui.screens.project.Desk", Desk)
    monkeypatch.setattr("bmembed_tui.widgets.query_sample.command", command)
    monkeypatch.setattr("bmembed_tui.standing.known", lambda: KNOWN)
    monkeypatch.setattr("bmembed_tui.widgets.folder_tree.list_entries", lambda *_: list(ENTRIES))
    monkeypatch.setattr(
        "bmembed_tui.widgets.folder_tree._sizes", lambda _path, page: {entry.name: "1.0 kB" for entry in page}
    )
    monkeypatch.setattr("bmembed_tui.recents._file", lambda: tmp_path / "recent.json")
    monkeypatch.setattr(Input, "cursor_blink", False)
    return run


def picture(story: Story, size: tuple[int, int], theme: str) -> str:
    """The screen after `story`, as SVG without the address of a web font."""

    async def run() -> str:
        app = BmembedApp()
        app.animation_level = "none"
        async with app.run_test(size=size) as pilot:
            app.theme = theme
            await settled(pilot)
            await story(pilot)
            await settled(pilot)
            return app.export_screenshot(title="bmembed")

    return re.sub(r"@font-face \{.*?\}\s*", "", asyncio.run(run()), flags=re.DOTALL)


async def settled(pilot: Pilot[Any], quiet: int = 6) -> None:
    """Wait until nothing on the screen changes any more."""
    same, shown = 0, ""
    while same < quiet:
        await pilot.pause(0.05)
        now = screen_text(pilot.app)  # type: ignore[arg-type]
        same, shown = (same + 1, shown) if now == shown else (0, now)


async def open_project(pilot: Pilot[Any]) -> ProjectScreen:
    pilot.app.open_project(RecordedProject(PROJECT), "documents")  # type: ignore[attr-defined]
    await until(pilot, lambda: isinstance(pilot.app.screen, ProjectScreen) and pilot.app.screen.status.stages)
    screen = pilot.app.screen
    assert isinstance(screen, ProjectScreen)
    await until(pilot, lambda: screen.run_state.over)
    return screen


def step(key: str) -> Story:
    async def story(pilot: Pilot[Any]) -> None:
        screen = await open_project(pilot)
        screen.go(key)
        await settled(pilot)
        if key == "search":
            screen.query_one("SearchPane Input", Input).value = scripted.QUERY

    return story


def pressed(*keys: str, project: bool = False) -> Story:
    async def story(pilot: Pilot[Any]) -> None:
        if project:
            await open_project(pilot)
            await settled(pilot)
        for key in keys:
            await pilot.press(key)
            await settled(pilot)

    return story


async def error(pilot: Pilot[Any]) -> None:
    from engine.errors import ResourceError

    told = ResourceError(
        "The disk is full: the stage 'embed' could not write its result.",
        "[Errno 28] No space left on device.",
        "Free some disk space and run again: what was finished is kept.",
    )
    pilot.app.show_error(told)  # type: ignore[attr-defined]


STORIES: dict[str, Story] = {
    "home": pressed(),
    "help": pressed("f1"),
    "palette": pressed("ctrl+p"),
    "new-project": pressed("n"),
    "error": error,
    "settings": pressed("ctrl+s", project=True),
    **{one.key: step(one.key) for one in STEPS},
}


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", STORIES)
def test_screen(name: str, size: str, theme: str, snap: SnapshotAssertion) -> None:
    assert picture(STORIES[name], SIZES[size], theme) == snap
