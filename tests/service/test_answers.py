"""An answer, asked for and read as the app does it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from fixtures.answers import GOOD, chunk_ids
from fixtures.asked_project import asked_project, indexed
from fixtures.errors import fails
from fixtures.fake_endpoint import Raw, last, part, serving

from engine.core.errors import SettingsError
from engine.core.messages.answers import Answer
from engine.project.folder import ProjectFolder
from engine.service import methods

__all__ = ["asked_project", "indexed"]
Asked = Callable[..., ProjectFolder]


class Client:
    """Calls the methods of one server."""

    def __init__(self, project: ProjectFolder) -> None:
        self.project = project
        self._methods = methods(project)

    def __call__(self, method: str, **params: Any) -> Any:
        return self._methods[method](**params)()

    def ask(self, *subjects: str) -> Any:
        return self(
            "ask",
            question="When?",
            chunk_ids=chunk_ids(self.project, *subjects),
        )

    def until(self, condition: Callable[[Any], bool]) -> Any:
        for _ in range(3000):
            if condition(reply := self("answer")):
                return reply
            time.sleep(0.02)
        raise AssertionError(reply)


def test_without_a_model_nothing_is_begun(asked_project: Asked) -> None:
    call = Client(asked_project())
    with fails(SettingsError, "language-model-not-chosen"):
        call.ask("pump")
    assert call("answer")["state"] == "stopped"


def test_an_answer_is_read_as_it_grows(asked_project: Asked) -> None:
    go = threading.Event()
    with serving(lambda *_: Raw(pieces=[part(GOOD[:-25]), go, part(GOOD[-25:]), last()])) as server:
        call = Client(asked_project(endpoint=server.url))
        assert call.ask("pump", "crane")["state"] == "writing"
        assert call.until(lambda partial: len(partial["sentences"]) == 2)["state"] == "writing"
        go.set()
        reply = call.until(lambda partial: partial["state"] != "writing")
    assert (reply["state"], reply["passages"], reply["problem"]) == ("done", 2, None)
    assert [
        (sentence["sources"], sentence["supported"], sentence["quote_found"])
        for sentence in reply["sentences"]
    ] == [([1], True, True), ([2, 7], False, False)]
    assert call("answer") == reply


def test_a_stopped_answer_stays_and_a_new_question_starts_a_new_one(
    asked_project: Asked,
) -> None:
    never = threading.Event()
    answers = [[part(GOOD[:-25])], [part(GOOD), last()]]

    def script(_request: Any, number: int) -> Raw:
        return Raw(pieces=[*answers[number], *([] if number else [never])])

    with serving(script) as server:
        call = Client(asked_project(endpoint=server.url))
        call.ask("pump", "crane")
        call.until(lambda partial: len(partial["sentences"]) == 2)
        stopped = call("answer", stop=True)
        never.set()
        assert (stopped["state"], len(stopped["sentences"])) == ("stopped", 2)
        assert call("answer") == stopped
        call.ask("crane")
        assert call.until(lambda partial: partial["state"] != "writing")["state"] == "done"


def test_an_answer_that_ends_while_it_is_read_is_no_fault(
    asked_project: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()

    class EndingThread(threading.Thread):
        """Ends at the moment at which someone looks whether it runs."""

        def is_alive(self) -> bool:
            go.set()
            self.join()
            return super().is_alive()

    def finish(*_: object) -> Answer:
        go.wait()
        return Answer("a model", state="done")

    monkeypatch.setattr("engine.service.answers.Thread", EndingThread)
    monkeypatch.setattr("engine.answers.answering.answer", finish)
    call = Client(asked_project(endpoint="http://127.0.0.1:9/v1"))
    assert call.ask("pump")["state"] == "writing"
    assert call("answer")["state"] == "done"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_ends_the_answer(asked_project: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(*_: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr("engine.answers.answering.answer", fault)
    call = Client(asked_project(endpoint="http://127.0.0.1:9/v1"))
    call.ask("pump")
    reply = call.until(lambda partial: partial["state"] != "writing")
    assert (reply["state"], reply["problem"]["code"]) == ("failed", "internal-fault")
