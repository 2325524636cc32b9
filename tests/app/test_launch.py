"""What happens before the first screen: the engine of the project that is likely to be opened is
started.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from fixtures.app import NoCollector, opened, piloted, until
from fixtures.user_folders import STATE
from textual.pilot import Pilot

from bmembed_tui.app import BmembedApp
from bmembed_tui.client.engine_client import EngineClient
from bmembed_tui.home.recents import remember
from bmembed_tui.launch import start_engine
from engine.core.messages.project import ReadStatus

pytestmark = pytest.mark.processes


def drive_begun(
    wanted: str | None, story: Callable[[Pilot[Any], EngineClient], Awaitable[None]]
) -> EngineClient:
    """Run the app as it is launched; returns the engine that was started before, after the app
    has ended.
    """

    async def run() -> EngineClient:
        client = await start_engine(wanted)
        assert client is not None
        app = BmembedApp(early_engine=client)
        app.collector = NoCollector()
        async with piloted(app, (120, 40)) as pilot:
            await story(pilot, client)
        return client

    return asyncio.run(run())


def test_the_project_opened_last_is_answered_by_the_process_that_was_started(
    new_project: Path,
) -> None:
    async def story(pilot: Pilot[Any], client: EngineClient) -> None:
        process = client.process
        assert process is not None
        pilot.app.screen.open(str(new_project))  # type: ignore[attr-defined]
        screen = await opened(pilot)
        assert screen.client is client
        assert (await client.ask(ReadStatus())).project == str(new_project)
        assert client.process is process

    remember(new_project)
    assert drive_begun(None, story).process is None


def test_a_process_for_another_project_ends_when_one_is_opened(
    new_project: Path, tmp_path: Path
) -> None:
    async def story(pilot: Pilot[Any], client: EngineClient) -> None:
        pilot.app.screen.open(str(new_project))  # type: ignore[attr-defined]
        screen = await opened(pilot)
        assert screen.client is not client
        await until(pilot, lambda: client.process is None)

    drive_begun(str(tmp_path / "another"), story)


def test_an_app_that_opens_nothing_leaves_no_process(new_project: Path) -> None:
    async def story(_pilot: Pilot[Any], client: EngineClient) -> None:
        assert client.process is not None

    assert drive_begun(str(new_project), story).process is None


def test_nothing_is_started_without_a_project_or_with_an_invalid_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE, str(tmp_path))
    assert asyncio.run(start_engine(None)) is None
    assert asyncio.run(start_engine("a:b")) is None


def test_the_app_is_drawn_in_utf8_in_every_locale() -> None:
    program = (
        "import sys; from bmembed_tui.launch import draw_in_utf8; draw_in_utf8();"
        " sys.__stderr__.write('\\u2713')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        check=False,
    )
    assert done.stderr == "✓".encode()
