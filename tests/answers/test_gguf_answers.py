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
    reply = answer(
        project,
        QUESTION,
        chunk_ids(project, *THINGS),
        heard.append,
    )
    assert (reply.model, reply.passages) == ("tiny.gguf", 6)
    assert reply.state in ("done", "cut")
    assert reply.sentences
    assert all("⚠" in sentence.marks for sentence in reply.sentences)
    assert heard[0] == Answer("tiny.gguf", 6, (), "writing")
    growing = [partial.sentences[0].text for partial in heard if len(partial.sentences) == 1]
    assert len(set(growing)) >= 2, "a slow machine gets many tokens at once"
    assert all(
        reply.sentences[0].text.startswith(text.rstrip("\N{REPLACEMENT CHARACTER}"))
        for text in growing
    )


def children() -> list[psutil.Process]:
    return [
        process
        for process in psutil.Process().children()
        if "engine.llm.serving" in process.cmdline()
    ]


def test_a_stop_ends_the_process_and_leaves_what_has_come(project: ProjectFolder) -> None:
    heard: list[Answer] = []

    def has_begun() -> bool:
        return any(partial.sentences for partial in heard)

    reply = answer(
        project,
        QUESTION,
        chunk_ids(project, *THINGS),
        heard.append,
        has_begun,
    )
    assert reply.state == "stopped"
    assert reply.sentences == heard[-1].sentences
    assert reply.sentences
    assert not children()


def test_a_crash_of_the_library_is_an_error_and_leaves_what_has_come(
    project: ProjectFolder,
) -> None:
    def hear(partial: Answer) -> None:
        if partial.sentences:
            with suppress(psutil.Error):
                for child in children():
                    os.kill(child.pid, signal.SIGSEGV)

    reply = answer(
        project,
        QUESTION,
        chunk_ids(project, *THINGS),
        hear,
    )
    assert reply.problem is not None
    assert (reply.state, reply.problem.code) == ("failed", "model-crashed")
    assert reply.sentences


def test_the_question_does_not_stand_in_the_list_of_processes(project: ProjectFolder) -> None:
    lines: list[str] = []

    def hear(_partial: Answer) -> None:
        with suppress(psutil.Error):  # it may have ended
            lines.extend(" ".join(child.cmdline()) for child in children())

    answer(
        project,
        QUESTION,
        chunk_ids(project, *THINGS),
        hear,
    )
    assert lines
    assert not [line for line in lines if "oil" in line]
