"""The processes behind the app: answers, errors, deaths and cancellation, with the real engine."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import psutil
import pytest

from bmembed_tui.engine_client import Desk, command, revive
from engine.errors import EngineError, ModelError, StageError, UsageError


def children() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]


def test_answers_come_to_those_who_asked(new_project: Path) -> None:
    async def story() -> list[object]:
        desk = Desk(new_project)
        try:
            return await asyncio.gather(*(desk.ask("ping") for _ in range(20)), desk.ask("status"))
        finally:
            await desk.close()

    *pongs, status = asyncio.run(story())
    assert pongs == ["pong"] * 20
    assert isinstance(status, dict)
    assert status["project"] == str(new_project)


def test_an_error_of_the_engine_keeps_its_type_and_words(new_project: Path) -> None:
    async def story() -> None:
        desk = Desk(new_project)
        try:
            await desk.ask("search", query="valve", mode="bm25")
        finally:
            await desk.close()

    with pytest.raises(EngineError) as told:
        asyncio.run(story())
    assert type(told.value).__name__ == "NotBuiltError"
    assert "engine run" in told.value.to_do


def test_a_killed_process_fails_its_requests_and_is_started_anew(new_project: Path) -> None:
    async def story() -> object:
        desk = Desk(new_project)
        try:
            await desk.ask("ping")
            before = children()
            for child in before:
                child.send_signal(signal.SIGSTOP)  # so that it cannot answer before it dies
            waiting = asyncio.create_task(desk.ask("ping"))
            await asyncio.sleep(0.1)
            for child in before:
                child.kill()
            with pytest.raises(StageError, match="has ended"):
                await asyncio.wait_for(waiting, 20)
            return await asyncio.wait_for(desk.ask("ping"), 20)
        finally:
            await desk.close()

    assert asyncio.run(story()) == "pong"


def test_closing_leaves_no_process(new_project: Path) -> None:
    async def story() -> int:
        desk = Desk(new_project)
        await desk.ask("ping")
        count = len(children())
        await desk.close()
        with pytest.raises(StageError):
            await desk.ask("ping")
        return count

    assert asyncio.run(story()) == 1
    assert not children()


def test_a_command_tells_its_error_as_the_engine_means_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as told:
        asyncio.run(command("status", str(tmp_path / "nowhere"), "--json"))
    assert "nowhere" in told.value.what


def test_a_cancelled_command_is_ended(new_project: Path) -> None:
    async def story() -> None:
        task = asyncio.create_task(command("serve", str(new_project), "--stdio"))
        while not children():
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())
    assert not children()


def test_the_engine_is_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "__init__.py").write_text("raise SystemExit('foreign code ran')")
    (tmp_path / "json.py").write_text("raise SystemExit('foreign code ran')")
    monkeypatch.chdir(tmp_path)
    assert isinstance(asyncio.run(command("status", "--json")), dict)


def test_an_error_that_is_not_known_is_still_an_engine_error() -> None:
    assert isinstance(revive({"type": "ModelError", "what": "a"}), ModelError)
    for data in ({}, {"type": "os", "what": "x"}, {"type": "nearest"}, {"type": None}):
        assert type(revive(data)) is StageError
    assert os.getpid()
