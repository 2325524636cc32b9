"""A question, put to a model of random weights that llama.cpp runs in a process of its own: it
writes nonsense.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from fixtures.answers import THINGS, chunk_ids
from fixtures.tiny_gguf import build_tiny_gguf

from engine.answers.answering import answer
from engine.core.messages.answers import Answer
from engine.project.folder import ProjectFolder

pytest.importorskip("llama_cpp")
QUESTION = "When is the oil changed?"
SEED = 3  # with which the model writes a sentence


@pytest.fixture
def project(asked_project: Callable[..., ProjectFolder], tmp_path: Path) -> ProjectFolder:
    build_tiny_gguf(tmp_path / "tiny.gguf")
    project = asked_project(
        model=str(tmp_path / "tiny.gguf"), answer_tokens=200, context_tokens=8192
    )
    project.change_settings({"training.seed": SEED})
    return project


def test_nonsense_is_marked_sentence_by_sentence(project: ProjectFolder) -> None:
    heard: list[Answer] = []
    found = answer(project, QUESTION, chunk_ids(project, *THINGS), heard.append)
    assert (found.model, found.passages) == ("tiny.gguf", 6)
    assert found.state in ("done", "cut")
    assert found.sentences
    assert all("⚠" in one.marks for one in found.sentences)
    assert heard[0] == Answer("tiny.gguf", 6, (), "writing")
    growing = [one.sentences[0].text for one in heard if len(one.sentences) == 1]
    assert len(set(growing)) >= 2, "a slow machine gets many tokens at once"
    assert all(
        found.sentences[0].text.startswith(text.rstrip("\N{REPLACEMENT CHARACTER}"))
        for text in growing
    )


def children() -> list[psutil.Process]:
    return [one for one in psutil.Process().children() if "engine.llm.serving" in one.cmdline()]


def test_a_stop_ends_the_process_and_leaves_what_has_come(project: ProjectFolder) -> None:
    heard: list[Answer] = []

    def has_begun() -> bool:
        return any(partial.sentences for partial in heard)

    found = answer(project, QUESTION, chunk_ids(project, *THINGS), heard.append, has_begun)
    assert found.state == "stopped"
    assert found.sentences == heard[-1].sentences
    assert found.sentences
    assert not children()


def test_a_crash_of_the_library_is_an_error_and_leaves_what_has_come(
    project: ProjectFolder,
) -> None:
    def hear(found: Answer) -> None:
        if found.sentences:
            with suppress(psutil.Error):
                for child in children():
                    os.kill(child.pid, signal.SIGSEGV)

    found = answer(project, QUESTION, chunk_ids(project, *THINGS), hear)
    assert found.problem is not None
    assert (found.state, found.problem.code) == ("failed", "model-crashed")
    assert found.sentences


def test_the_question_does_not_stand_in_the_list_of_processes(project: ProjectFolder) -> None:
    lines: list[str] = []

    def hear(_found: Answer) -> None:
        with suppress(psutil.Error):  # it may have ended
            lines.extend(" ".join(child.cmdline()) for child in children())

    answer(project, QUESTION, chunk_ids(project, *THINGS), hear)
    assert lines
    assert not [line for line in lines if "oil" in line]
