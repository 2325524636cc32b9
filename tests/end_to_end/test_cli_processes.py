"""The `engine` command as a process: pipes, a terminal, signals, cancelling."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from fixtures.pipeline import engine_here, environment

from engine.core import events
from engine.project import control
from engine.project.folder import ProjectFolder


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "engine", *arguments],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(
    project: Path, kind: type[events.Event], before: set[Path], run: subprocess.Popen[str]
) -> Path:
    """The folder of the new run, once it has told an event of the wanted kind."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        for folder in set((project / "runs").iterdir()) - before:
            if any(isinstance(event, kind) for event, _ in events.read(folder / "events.jsonl")):
                return folder
        assert run.poll() is None, run.communicate()[1]
        time.sleep(0.05)
    raise AssertionError(f"no {kind.__name__} came")


def test_hits_piped_are_whole_lines(finished: Path) -> None:
    env = {name: value for name, value in environment().items() if name != "COLUMNS"}
    completed = subprocess.run(
        [
            sys.executable,
            "-m",
            "engine",
            "search",
            str(finished),
            "freezer door left open",
            "--mode",
            "bm25",
        ],
        capture_output=True,
        text=True,
        env=env,
        check=True,
    )
    heads = completed.stdout.splitlines()[::2]
    bodies = completed.stdout.splitlines()[1::2]
    assert all(re.match(r"\d+\. .* \[keywords #\d+\]$", head) for head in heads)
    assert all(body.startswith("   ") for body in bodies)
    assert "\x1b" not in completed.stdout


@pytest.mark.posix(reason="its pipe is that of bash")
def test_a_reader_that_has_enough_is_no_fault(finished: Path) -> None:
    for arguments in (
        ["--help"],
        ["search", str(finished), "door", "--mode", "bm25", "--top", "300", "--json"],
    ):
        command = " ".join([sys.executable, "-m", "engine", *arguments])
        completed = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {command} | head -1 >/dev/null"],
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert completed.returncode == 0
        assert completed.stderr == ""


@pytest.mark.posix(reason="its pipe is that of bash")
def test_events_whose_reader_is_gone_stop_the_run(project: Path) -> None:
    command = (
        f"set -o pipefail; {sys.executable} -m engine index {project} --force --json | head -1"
    )
    completed = subprocess.run(
        ["bash", "-c", command], env=environment(), capture_output=True, text=True, check=False
    )
    assert json.loads(completed.stdout)["event"] == "run_started"
    assert completed.returncode in (0, 130)  # 0: the stage was quicker
    assert "Traceback" not in completed.stderr
    assert json.loads(engine_here("status", str(project), "--json").stdout)["running"] is False


def run_state(project: Path) -> str:
    """The state of the newest run."""
    record = control.latest_run(ProjectFolder(project))
    assert record
    return record.state


@pytest.fixture
def unread_pipe() -> Iterator[int]:
    """The writing end of a pipe that nobody reads."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    yield write_end
    os.close(write_end)


@pytest.mark.posix(reason="Windows has other errors for such a pipe")
def test_a_run_whose_progress_nobody_reads_goes_on(project: Path, unread_pipe: int) -> None:
    command = [
        sys.executable,
        "-m",
        "engine",
        "index",
        str(project),
        "--force",
    ]
    done = subprocess.run(
        command,
        env=environment(),
        stderr=unread_pipe,
        check=False,
    )
    assert done.returncode == 0
    assert run_state(project) == "done"


@pytest.mark.posix(reason="Windows has other errors for such a pipe")
def test_ctrl_c_stops_a_run_whose_progress_nobody_reads(project: Path, unread_pipe: int) -> None:
    command = [
        sys.executable,
        "-m",
        "engine",
        "run",
        str(project),
        "--force",
    ]
    before = set((project / "runs").glob("*"))
    run = subprocess.Popen(
        command,
        env=environment(),
        stderr=unread_pipe,
        text=True,
    )
    wait_for(
        project,
        events.StageStarted,
        before,
        run,
    )
    run.send_signal(signal.SIGINT)
    assert run.wait() == 130
    assert run_state(project) == "cancelled"


@pytest.mark.posix(reason="Windows has other errors for such a pipe")
@pytest.mark.parametrize("option", [(), ("--json",)])
def test_an_error_that_nobody_reads_has_its_exit_code(
    unread_pipe: int, option: tuple[str, ...]
) -> None:
    command = [
        sys.executable,
        "-m",
        "engine",
        "status",
        "no-such-project",
        *option,
    ]
    done = subprocess.run(
        command,
        env=environment(),
        stderr=unread_pipe,
        check=False,
    )
    assert done.returncode == 2


@pytest.mark.posix(reason="Windows has other errors for such a pipe")
def test_notes_that_nobody_reads_cost_no_data(finished: Path, unread_pipe: int) -> None:
    arguments = ["documents", str(finished)]
    command = [
        sys.executable,
        "-m",
        "engine",
        *arguments,
    ]
    # Data must wait in the buffer until the note is written.
    env = {name: value for name, value in environment().items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        command,
        env=env,
        stdout=subprocess.PIPE,
        stderr=unread_pipe,
        check=False,
    )
    assert done.stdout.decode() == engine_here(*arguments).stdout


def test_serve_answers_from_a_shell_pipe(finished: Path) -> None:
    requests = [
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "search",
            "params": {"query": "freezer door", "mode": "bm25", "top": 2},
        },
        {"jsonrpc": "2.0", "id": 3, "method": "nonsense"},
    ]
    completed = subprocess.run(
        [sys.executable, "-m", "engine", "serve", str(finished), "--stdio"],
        input="".join(json.dumps(request) + "\n" for request in requests) + "not json\n",
        capture_output=True,
        text=True,
        env=environment(),
        check=True,
        timeout=120,
    )
    answers = {answer["id"]: answer for answer in map(json.loads, completed.stdout.splitlines())}
    assert answers[1]["result"] == "pong"
    assert len(answers[2]["result"]["hits"]) == 2
    assert answers[3]["error"]["code"] == -32601
    assert answers[None]["error"]["code"] == -32700
    assert completed.stderr == ""


def test_on_a_terminal_there_is_progress_and_the_terminal_is_left_sane(project: Path) -> None:
    if os.name == "nt":
        pytest.skip("there are no pseudo-terminals on Windows")
    import pty
    import termios

    leader, follower = pty.openpty()
    before = termios.tcgetattr(follower)
    run = subprocess.Popen(
        [sys.executable, "-m", "engine", "index", str(project), "--force"],
        env={**environment(), "COLUMNS": "80", "TERM": "xterm-256color"},
        stdin=follower,
        stdout=follower,
        stderr=follower,
    )
    output = b""
    while run.poll() is None or select.select([leader], [], [], 0.2)[0]:
        if select.select([leader], [], [], 0.2)[0]:
            output += os.read(leader, 65536)
    assert termios.tcgetattr(follower) == before
    os.close(leader)
    os.close(follower)
    assert run.returncode == 0
    text = output.decode()
    assert "index" in text
    assert "\x1b[?25l" in text, "no live progress was shown"
    assert text.rfind("\x1b[?25h") > text.rfind("\x1b[?25l"), "the cursor stays hidden"


def test_cancel_lock_and_resume(project: Path) -> None:
    ProjectFolder(project).change_settings({"training.steps": 200, "training.eval_every": 200})
    before = set((project / "runs").iterdir())
    run = start("train", str(project))
    folder = wait_for(
        project,
        events.TrainStep,
        before,
        run,
    )
    control.pause(ProjectFolder(project))
    busy = engine_here(
        "index",
        str(project),
        check=False,
    )
    assert busy.returncode == 4
    assert "engine cancel" in busy.stderr
    assert json.loads(engine_here("status", str(project), "--json").stdout)["running"] is True
    engine_here("cancel", str(project))
    stdout, stderr = run.communicate(timeout=60)
    assert run.returncode == 130, stderr
    assert stdout == ""
    assert "Traceback" not in stderr
    assert json.loads((folder / "run.json").read_text())["state"] == "cancelled"
    assert not psutil.pid_exists(json.loads((folder / "stage.json").read_text())["pid"])
    output = engine_here("train", str(project), "--json").stdout
    steps = [
        line["step"]
        for line in map(json.loads, output.splitlines())
        if line["event"] == "train_step"
    ]
    assert steps[0] > 1, "training began again instead of resuming"


@pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals on Windows")
@pytest.mark.parametrize(("way", "state"), [("closed", "cancelled"), ("killed", "running")])
def test_a_training_whose_terminal_is_closed_or_that_is_killed_leaves_a_trace(
    project: Path, way: str, state: str
) -> None:
    import fcntl
    import pty
    import termios

    ProjectFolder(project).change_settings({"training.steps": 200, "training.eval_every": 200})
    before = set((project / "runs").iterdir())

    def take_terminal() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup would have it ignored
        fcntl.ioctl(
            0,
            termios.TIOCSCTTY,
            0,
        )

    leader, follower = pty.openpty()
    run = subprocess.Popen(
        [sys.executable, "-m", "engine", "train", str(project)],
        env={**environment(), "TERM": "xterm-256color"},
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
        text=True,
        preexec_fn=take_terminal,
    )
    os.close(follower)
    folder = wait_for(
        project,
        events.TrainStep,
        before,
        run,
    )
    logged = [event for event, _ in events.read(folder / "events.jsonl")]
    first = next(place for place, event in enumerate(logged) if isinstance(event, events.TrainStep))
    progress = [event for event in logged[:first] if isinstance(event, events.Progress)][-1]
    assert (progress.done, progress.total, progress.unit) == (0, 200, "steps"), (
        "what came before it is not the training's progress"
    )
    if way == "killed":
        run.kill()
    os.close(leader)
    run.wait(60)
    assert json.loads((folder / "run.json").read_text())["state"] == state
    while ProjectFolder(project).is_running():  # until the stage has seen it
        time.sleep(0.05)
    status = json.loads(engine_here("status", str(project), "--json").stdout)
    stopped = status["broken_off"]
    assert (stopped["stage"], stopped["total"], stopped["unit"]) == ("train", 200, "steps")
    assert stopped["done"] >= 1
    assert f"engine train {project}" in status["to_resume"]
    if way == "closed":
        assert status["resumes_at"]["step"] >= stopped["done"], "it came to a safe point"


@pytest.mark.posix(reason="Windows has no signals to one process")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_run_cleanly(project: Path, number: signal.Signals) -> None:
    before = set((project / "runs").iterdir())
    folder = ProjectFolder(project)
    with folder.locked("stage"):  # the stage waits for it: it cannot end before it is held
        run = start(
            "index",
            str(project),
            "--force",
        )
        wait_for(
            project,
            events.StageStarted,
            before,
            run,
        )
        control.pause(folder)
    run_folder = wait_for(
        project,
        events.Paused,
        before,
        run,
    )
    run.send_signal(number)
    _, stderr = run.communicate(timeout=60)
    assert run.returncode == 130, stderr
    assert "Stopping" in stderr
    assert "Traceback" not in stderr
    assert json.loads((run_folder / "run.json").read_text())["state"] == "cancelled"
    assert not psutil.pid_exists(json.loads((run_folder / "stage.json").read_text())["pid"])
    assert json.loads(
        engine_here("search", str(project), "freezer", "--mode", "bm25", "--json").stdout
    )["hits"]
