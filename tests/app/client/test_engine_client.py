"""The processes behind the app: answers, errors, deaths and cancellation, with the real engine."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from fixtures.preloaded import STARTER

from bmembed_tui.client import engine_client
from bmembed_tui.client.engine_client import (
    EngineClient,
    GoneError,
    follow_command,
    run_command,
    run_detached_command,
)
from engine.core.errors import EngineError, ModelError, StageError, UsageError

pytestmark = pytest.mark.processes


def stand_in(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Have the app start a program of Python in the engine's place."""
    imports = "import os, signal, subprocess, sys, time; from pathlib import Path\n"
    command = [
        sys.executable,
        "-c",
        imports + code,
    ]
    monkeypatch.setattr(
        engine_client,
        "build_engine_command",
        lambda *_: command,
    )


def children() -> list[psutil.Process]:
    found = [child for child in psutil.Process().children() if child.pid not in STARTER.keepers]
    return [child for child in found if child.status() != psutil.STATUS_ZOMBIE]


def test_answers_come_to_their_requests(new_project: Path) -> None:
    async def story() -> list[object]:
        desk = EngineClient(new_project)
        try:
            return await asyncio.gather(
                *(desk.call("ping") for _ in range(20)), desk.call("status")
            )
        finally:
            await desk.close()

    *pongs, status = asyncio.run(story())
    assert pongs == ["pong"] * 20
    assert isinstance(status, dict)
    assert status["project"] == str(new_project)


def test_an_error_of_the_engine_keeps_its_type_and_words(new_project: Path) -> None:
    async def story() -> None:
        desk = EngineClient(new_project)
        try:
            await desk.call(
                "search",
                query="valve",
                mode="bm25",
            )
        finally:
            await desk.close()

    with pytest.raises(EngineError) as caught:
        asyncio.run(story())
    assert type(caught.value).__name__ == "NotBuiltError"
    assert caught.value.command.split()[0] == "run"


def test_a_killed_process_fails_its_requests_and_is_started_again(new_project: Path) -> None:
    async def story() -> object:
        desk = EngineClient(new_project)
        try:
            await desk.call("ping")
            before = children()
            for child in before:
                child.suspend()  # so that it cannot answer before it dies
            waiting = asyncio.create_task(desk.call("ping"))
            await asyncio.sleep(0.1)
            for child in before:
                child.kill()
            with pytest.raises(GoneError):
                await asyncio.wait_for(waiting, 60)
            return await asyncio.wait_for(desk.call("ping"), 60)
        finally:
            await desk.close()

    assert asyncio.run(story()) == "pong"


def test_closing_leaves_no_process(new_project: Path) -> None:
    async def story() -> int:
        desk = EngineClient(new_project)
        await desk.call("ping")
        count = len(children())
        await desk.close()
        with pytest.raises(StageError):
            await desk.call("ping")
        return count

    assert asyncio.run(story()) == 1
    assert not children()


def test_a_process_that_is_being_started_is_ended_by_closing(new_project: Path) -> None:
    async def story() -> None:
        desk = EngineClient(new_project)
        asking = asyncio.create_task(desk.call("ping"))
        await asyncio.sleep(0)  # it begins to start the process
        await desk.close()
        assert not children()
        with suppress(StageError):
            await asyncio.wait_for(asking, 60)
        assert not children()

    asyncio.run(story())


def test_nobody_waits_for_a_dead_process_whose_output_is_still_held(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code = f"""
if Path({str(tmp_path / "later")!r}).exists():
    for line in sys.stdin:
        print(line, end="", flush=True)
else:
    wait = [sys.executable, "-c", "import time; time.sleep(1.5)"]
    subprocess.Popen(wait, stdin=subprocess.DEVNULL, stdout=sys.stdout)
    sys.stdin.readline()
    os._exit(1)
"""
    stand_in(monkeypatch, code)

    async def story() -> None:
        desk = EngineClient(tmp_path)
        first = asyncio.create_task(desk.call("ping"))
        while desk.process is None or desk.process.returncode is None:
            await asyncio.sleep(0.02)
        (tmp_path / "later").touch()
        second = asyncio.create_task(desk.call("ping"))  # starts another process
        with pytest.raises(GoneError):
            await asyncio.wait_for(first, 60)
        assert await asyncio.wait_for(second, 60) is None  # it answers with the request itself
        await desk.close()

    asyncio.run(story())


@pytest.mark.parametrize("line", ["3", "[1]", "null", '"x"', "no json", '{"id": 77, "result": 1}'])
def test_a_line_that_answers_nothing_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str
) -> None:
    answer = '{"jsonrpc": "2.0", "id": 1, "result": "pong"}'
    code = f"""
sys.stdin.readline()
print({line!r}, {answer!r}, sep="\\n", flush=True)
sys.stdin.read()
"""
    stand_in(monkeypatch, code)

    async def story() -> object:
        desk = EngineClient(tmp_path)
        try:
            return await asyncio.wait_for(desk.call("ping"), 60)
        finally:
            await desk.close()

    assert asyncio.run(story()) == "pong"


def test_an_engine_that_cannot_be_started_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        engine_client, "build_engine_command", lambda *_: [str(tmp_path / "python"), "-m", "engine"]
    )
    for call in (
        run_command("status"),
        run_detached_command("pause", "x"),
        EngineClient(tmp_path).call("ping"),
    ):
        with pytest.raises(StageError) as caught:
            asyncio.run(call)
        assert caught.value.code == "engine-not-started"


@pytest.mark.parametrize(
    ("serve", "kind", "why"),
    [
        (
            (
                """print('{"type": "ModelError", "what": "No model.", "why": "w", "to_do": ""}',"""
                " file=sys.stderr); sys.exit(3)"
            ),
            ModelError,
            "w",
        ),
        (
            "sys.stderr.write('[/ noise\\n' * 30_000); sys.exit('no module [torch]')",
            GoneError,
            "no module [torch]",
        ),
        pytest.param(
            "print('warning', file=sys.stderr, flush=True); os.kill(os.getpid(), signal.SIGKILL)",
            GoneError,
            "It may have run out of memory.",
            marks=pytest.mark.posix(reason="SIGKILL"),
        ),
    ],
)
def test_a_server_that_cannot_start_gives_its_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, serve: str, kind: type[EngineError], why: str
) -> None:
    stand_in(monkeypatch, serve)

    async def story() -> None:
        desk = EngineClient(tmp_path)
        try:
            await asyncio.wait_for(desk.call("ping"), 60)
        finally:
            await desk.close()

    with pytest.raises(kind) as caught:
        asyncio.run(story())
    assert caught.value.why == why


def test_an_exit_code_may_count_as_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "print([1]); sys.exit(3)")
    assert asyncio.run(run_command("doctor", good=(0, 3))) == [1]
    with pytest.raises(StageError) as caught:
        asyncio.run(run_command("doctor"))
    assert caught.value.code == "engine-command-failed"


def test_an_order_comes_about_though_nobody_waits_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    done = tmp_path / "done"
    code = f"Path({str(begun)!r}).touch(); time.sleep(0.5); Path({str(done)!r}).touch()"
    stand_in(monkeypatch, code)

    async def story() -> None:
        task = asyncio.create_task(run_detached_command("cancel", "x"))
        while not begun.exists():
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())
    assert done.exists()


def test_a_commands_error_is_the_engines_own(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        asyncio.run(run_command("status", str(tmp_path / "nowhere"), "--json"))
    assert "nowhere" in caught.value.what


def test_a_cancelled_command_is_ended(new_project: Path) -> None:
    async def story() -> None:
        task = asyncio.create_task(run_command("serve", str(new_project), "--stdio"))
        while not children():
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())
    assert not children()


def test_a_followed_command_is_ended_where_its_line_cannot_be_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand_in(monkeypatch, "print([1], flush=True); time.sleep(60)")

    def refuse(line: object) -> None:
        raise RuntimeError(line)

    with pytest.raises(RuntimeError, match="1"):
        asyncio.run(follow_command(refuse, "models", "get", "x"))
    assert not children()


def test_the_engine_is_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "__init__.py").write_text("raise SystemExit('foreign code ran')")
    (tmp_path / "json.py").write_text("raise SystemExit('foreign code ran')")
    monkeypatch.chdir(tmp_path)
    assert isinstance(asyncio.run(run_command("status", "--json")), dict)


def test_an_error_that_is_not_known_is_still_an_engine_error() -> None:
    assert isinstance(EngineError.from_dict({"type": "ModelError", "what": "a"}), ModelError)
    for data in ({}, {"type": "os", "what": "x"}, {"type": "nearest"}, {"type": None}):
        assert type(EngineError.from_dict(data)) is StageError
    assert os.getpid()


@pytest.mark.parametrize("times", [1, 3])
def test_a_question_given_up_while_the_process_starts_does_not_spoil_the_next(
    new_project: Path, times: int
) -> None:
    async def story() -> object:
        desk = EngineClient(new_project)
        try:
            first = asyncio.create_task(desk.call("ping"))
            while desk.starting is None:
                await asyncio.sleep(0)
            for _ in range(times):
                first.cancel()
                await asyncio.sleep(0)
            with suppress(asyncio.CancelledError):
                await first
            return await asyncio.wait_for(desk.call("ping"), 60)
        finally:
            await desk.close()

    assert asyncio.run(story()) == "pong"
    assert not children()
