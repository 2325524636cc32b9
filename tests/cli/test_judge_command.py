"""`engine judge` as a person uses it: letters through a pipe and in a terminal, killed,
interrupted, continued.
"""

from __future__ import annotations

import io
import json
import os
import re
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from fixtures.pipeline import engine_here, environment, stage_here
from fixtures.shown_numbers import numbers

from engine.core.messages.offer import AdaptationOffer
from engine.evaluation.marks import read_marks
from engine.project.folder import ProjectFolder
from engine.service import offer

QUERY = "what did the night shift do with the freezer door and the batch"
COMMAND = [
    sys.executable,
    "-m",
    "engine",
    "judge",
]


def judge(
    project: ProjectFolder, letters: str, *arguments: str, code: int = 0
) -> subprocess.CompletedProcess[str]:
    """One letter a line; the summary as JSON."""
    answers = io.StringIO("".join(f"{letter}\n" for letter in letters))
    named = arguments or ("--query", QUERY, "--depth", "4")
    with mock.patch.object(sys, "stdin", answers):
        done = engine_here(
            "judge",
            str(project.path),
            *named,
            "--json",
            check=False,
        )
    assert done.returncode == code, done.stderr
    return done


def marks(project: ProjectFolder) -> list[bool]:
    return [mark.relevant for query in read_marks(project).values() for mark in query.marks]


def counts(done: subprocess.CompletedProcess[str]) -> tuple[Any, ...]:
    found = json.loads(done.stdout)
    return tuple(
        found[key] for key in ("ended", "right", "wrong", "skipped", "open", "judged_queries")
    )


def test_a_session_is_kept_and_continued(project: ProjectFolder) -> None:
    first = judge(project, "ysn")
    assert counts(first) == ("end of input", 1, 1, 1, 2, 1)
    assert marks(project) == [True, False]
    assert re.findall(r"Query 1 of 1, hit (\d) of 4", first.stderr) == ["1", "2", "3", "4"]
    found = json.loads(first.stdout)
    assert found["next"].startswith(f"engine judge {project.path} "), (
        "too few questions for any other proof"
    )
    assert found["judged_needed"] == 219
    again = judge(project, "nyq")
    assert re.findall(r"hit (\d) of 2", again.stderr) == [
        "1",
        "2",
    ], "what was judged is neither asked again nor counted"
    assert [2, 2] in map(numbers, again.stderr.splitlines())
    assert counts(again) == ("done", 1, 1, 0, 0, 1)
    assert len(marks(project)) == 4
    assert counts(judge(project, "")) == ("done", 0, 0, 0, 0, 1)


def test_questions_that_only_measure_decide_nothing(project: ProjectFolder, tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    line = json.dumps({"query": "Who keeps the keys?", "evidence": "the porter"})
    questions.write_text(line + "\n")
    engine_here(
        "import-judgments",
        str(project.path),
        str(questions),
        "--measure",
    )
    summary = json.loads(judge(project, "yq").stdout)
    assert (summary["judged_queries"], summary["judged_deciding"]) == (2, 1)


@pytest.mark.parametrize(("lines", "times"), [("60", 1), ("4", 2)])
def test_the_query_stands_below_a_passage_that_scrolls_it_away(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch, lines: str, times: int
) -> None:
    monkeypatch.setenv("LINES", lines)
    monkeypatch.setattr(
        sys,
        "stdin",
        io.StringIO("q\n"),
    )
    done = engine_here(
        "judge",
        str(project.path),
        "--query",
        QUERY,
        "--json",
    )
    assert done.stderr.count("hit 1 of") == times


def test_adapt_comes_next_where_a_gain_could_be_proved(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    enough = AdaptationOffer(
        {},
        (),
        "document",
        200,
        197,
        4.0,
        197,
    )
    monkeypatch.setattr(
        offer,
        "adaptation_offer",
        lambda *_, **__: enough,
    )
    monkeypatch.setattr(
        sys,
        "stdin",
        io.StringIO("y\n"),
    )
    done = engine_here(
        "judge",
        str(project.path),
        "--query",
        QUERY,
        "--json",
    )
    assert json.loads(done.stdout)["next"] == f"engine adapt {project.path}"


def test_answers_can_be_taken_back_one_by_one(project: ProjectFolder) -> None:
    done = judge(
        project, "uyxsuunyq"
    )  # nothing to undo; right; no letter; skip; back twice; wrong; right
    assert "undo" in done.stderr
    assert counts(done) == ("quit", 1, 1, 0, 2, 1)
    assert re.findall(r"hit (\d) of 4", done.stderr) == ["1", "1", "2", "3", "2", "1", "2", "3"]
    assert marks(project) == [False, True]


def test_without_a_named_query_the_projects_own_are_judged_and_called_synthetic(
    project: ProjectFolder,
) -> None:
    done = judge(
        project,
        "yq",
        "--most",
        "3",
        "--depth",
        "2",
    )
    assert "3 queries" in done.stderr
    assert "(synthetic" in done.stderr
    rows = json.loads(done.stdout)["queries"]
    assert [row["origin"] for row in rows] == ["generated"] * 3
    again = json.loads(judge(project, "q", "--most", "3", "--depth", "2").stdout)["queries"]
    assert again[0]["query"] == rows[0]["query"], "what was begun comes first"
    assert [row["origin"] for row in again] == ["judged", "generated", "generated"]


def test_a_kill_loses_nothing_that_was_answered(project: ProjectFolder) -> None:
    run = subprocess.Popen(
        [*COMMAND, str(project.path), "--query", QUERY],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert run.stdin is not None
    run.stdin.write(b"y\nn\n")
    run.stdin.flush()
    reported = b""
    assert run.stderr is not None
    while b"hit 3 of" not in reported:
        reported += os.read(run.stderr.fileno(), 4096)
    run.kill()
    run.communicate(timeout=30)
    assert marks(project) == [True, False]


def test_documents_cannot_steer_the_terminal(project: ProjectFolder) -> None:
    evil = (
        "The door \x1b]0;owned\x07 stands\x9d31m open.\u202e gnp\x7f, "
        + "and nobody closed it all night. " * 40
    )
    (project.path / "documents" / "evil.txt").write_text(evil)
    for stage in ("ingest", "index"):
        stage_here(project.path, stage)
    reported = judge(project, "q", "--query", "gnp").stderr
    assert "␛]0;owned␇ stands�31m open.� gnp␡" in reported
    assert all(char.isprintable() or char == "\n" for char in reported)


@pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals on Windows")
@pytest.mark.parametrize(("last", "code"), [(b"q", 0), (b"\x04", 0), (b"\x03", 130)])
def test_keys_in_a_terminal(
    project: ProjectFolder,
    tmp_path: Path,
    last: bytes,
    code: int,
) -> None:
    import pty
    import termios

    leader, follower = pty.openpty()
    before = termios.tcgetattr(follower)
    with (tmp_path / "summary").open("w+") as summary:
        run = subprocess.Popen(
            [*COMMAND, str(project.path), "--query", QUERY, "--json"],
            env={**environment(), "TERM": "xterm-256color"},
            stdin=follower,
            stdout=summary,
            stderr=follower,
            start_new_session=True,
        )
        reported = b""
        for count, key in enumerate([b"y", b"n", last], 1):
            end = time.monotonic() + 60
            while reported.count(b"[y/n/s/u/q]") < count:
                assert time.monotonic() < end, reported.decode()
                if select.select([leader], [], [], 0.1)[0]:
                    reported += os.read(leader, 65536)
            time.sleep(0.3)  # as a person reads
            os.write(leader, key)
        while run.poll() is None or select.select([leader], [], [], 0.2)[0]:
            if select.select([leader], [], [], 0.2)[0]:
                reported += os.read(leader, 65536)
        assert termios.tcgetattr(follower) == before
        os.close(leader)
        os.close(follower)
        assert run.returncode == code, reported.decode()
        summary.seek(0)
        found = json.load(summary)
    assert (found["right"], found["wrong"]) == (1, 1)
    assert marks(project) == [True, False]
    assert b"Traceback" not in reported
