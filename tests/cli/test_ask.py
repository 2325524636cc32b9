from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from fixtures.answers import shown, written
from fixtures.asked_project import asked_project, indexed
from fixtures.errors import error_of
from fixtures.fake_endpoint import Raw, Request, last, part, serving
from fixtures.pipeline import engine_here, environment

from engine.project.folder import ProjectFolder

__all__ = ["asked_project", "indexed"]
Asked = Callable[..., ProjectFolder]
QUERY = "when is the oil of the pump changed"


def good(request: Request, _number: int) -> Raw:
    """Of the first passage, from it."""
    quote = shown(request).split("[2]")[0].strip().rpartition(". ")[2]
    whole = written(
        ([1], "It is changed.", quote), ([2], "\x1b[2JIt is [1] so.", "gone"), ([99], "Or so.", "")
    )
    return Raw(pieces=[*(part(whole[at : at + 7]) for at in range(0, len(whole), 7)), last()])


def test_an_answer_as_json_has_sentences_with_what_was_checked_and_its_sources(
    asked_project: Asked,
) -> None:
    with serving(good) as server:
        project = asked_project(endpoint=server.url, endpoint_model="small")
        found = json.loads(engine_here("ask", str(project.path), QUERY, "--json").stdout)
        hits = json.loads(
            engine_here("search", str(project.path), QUERY, "--passages", "--json").stdout
        )["hits"]
    assert (found["question"], found["model"], found["state"], found["problem"]) == (
        QUERY,
        "small",
        "done",
        None,
    )
    assert [
        (one["sources"], one["supported"], one["quote_found"]) for one in found["sentences"]
    ] == [([1], True, True), ([2], True, False), ([99], False, None)]
    assert found["passages"] == len(found["sources"]) == len(hits)
    assert [one["chunk_id"] for one in found["sources"]] == [one["chunk_id"] for one in hits]
    assert found["sources"][0]["path"] == "pump.txt"


def test_an_answer_is_printed_once_with_its_numbers_marks_and_sources(asked_project: Asked) -> None:
    with serving(good) as server:
        project = asked_project(endpoint=server.url, endpoint_model="small")
        done = engine_here(
            "ask",
            str(project.path),
            QUERY,
        )
    first, second, third, blank, *sources = done.stdout.splitlines()
    assert first == "It is changed. [1]"
    assert "\x1b" not in done.stdout
    assert all(part in second for part in ("(1)", " [2]", "⚠"))
    assert third.startswith("Or so. [99]  ⚠")
    assert (blank, [line[:4] for line in sources]) == ("", ["[1] ", "[2] "])
    assert "pump.txt" in sources[0]
    assert "small" in done.stderr


@pytest.mark.parametrize("query", ["zyx", QUERY])
def test_a_question_without_an_answer_says_so(asked_project: Asked, query: str) -> None:
    """No hits: the model is not asked. No sentences: the passages hold no answer."""
    with serving(lambda *_: written()) as server:
        done = engine_here(
            "ask",
            str(asked_project(endpoint=server.url).path),
            query,
        )
    assert len(done.stdout.splitlines()) == 1
    assert len(server.requests) == (query == QUERY)


def test_without_a_language_model_the_error_has_a_code(asked_project: Asked) -> None:
    code, error = error_of(
        "ask",
        str(asked_project().path),
        QUERY,
    )
    assert (code, error["code"], error["type"]) == (2, "language-model-not-chosen", "SettingsError")


def test_an_answer_that_breaks_off_is_printed_and_ends_with_an_error(asked_project: Asked) -> None:
    begun = written(([1], "It is changed.", ""), ([2], "So it is.", ""))[:-20]
    with serving(lambda *_: Raw(pieces=[part(begun)])) as server:
        project = asked_project(endpoint=server.url)
        done = engine_here(
            "ask",
            str(project.path),
            QUERY,
            check=False,
        )
        told = engine_here(
            "ask",
            str(project.path),
            QUERY,
            "--json",
            check=False,
        )
    assert (done.returncode, done.stdout.splitlines()[0]) == (5, "It is changed. [1]  ⚠ no quote")
    assert json.loads(told.stderr.splitlines()[-1])["code"] == "answer-failed"
    found = json.loads(told.stdout)
    assert (told.returncode, found["state"], found["problem"]["code"]) == (
        5,
        "failed",
        "answer-failed",
    )
    assert found["sentences"][0]["text"] == "It is changed."


@pytest.mark.posix(reason="Windows has no signals to one process")
def test_ctrl_c_stops_the_answer_and_leaves_what_has_come(asked_project: Asked) -> None:
    never = threading.Event()
    begun = written(([1], "It is changed.", ""), ([2], "So it is.", ""))[:-20]
    with serving(lambda *_: Raw(pieces=[part(begun), never])) as server:
        project = asked_project(endpoint=server.url)
        process: Any = subprocess.Popen(
            [sys.executable, "-m", "engine", "ask", str(project.path), QUERY],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            text=True,
        )
        first = process.stdout.readline()
        os.kill(process.pid, signal.SIGINT)
        rest = process.stdout.read()
        errors = process.stderr.read()
        process.wait(60)
        never.set()
    assert (first, process.returncode) == ("It is changed. [1]  ⚠ no quote\n", 130)
    assert rest.startswith("So it")
    assert "Traceback" not in errors
