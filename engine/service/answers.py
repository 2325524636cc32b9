"""The answer that a user interface has asked for: one at a time, written beside the other
requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import Event, Thread
from typing import Any

from engine.core.errors import StageError
from engine.core.messages.answers import Answer, Ask, ReadAnswer
from engine.core.messages.wire import Request
from engine.project.folder import ProjectFolder


class Answering:
    """Of one project. It ends with its process."""

    def __init__(self) -> None:
        self._answer = Answer(state="stopped")
        self._stop = Event()
        self._thread = Thread()
        self.handlers: dict[type[Request[Any]], Callable[[ProjectFolder, Any], Answer]] = {
            Ask: self.ask,
            ReadAnswer: self.read,
        }

    def ask(self, project: ProjectFolder, request: Ask) -> Answer:
        """Begin an answer. Raises as `with_model`."""
        from engine.answers.answering import answer, with_model

        begun = Answer(with_model(project)[1])
        stop = Event()

        def hear(found: Answer) -> None:
            if not stop.is_set():
                self._answer = found

        def work() -> None:
            hear(answer(project, request.question, request.chunk_ids, hear, stop.is_set))

        self._stop.set()
        self._answer = begun
        self._stop = stop
        self._thread = Thread(target=work, daemon=True)
        self._thread.start()
        return begun

    def read(self, _project: ProjectFolder, request: ReadAnswer) -> Answer:
        """The answer so far."""
        alive = self._thread.is_alive()
        if self._answer.state == "writing" and (request.stop or not alive):
            self._stop.set()
            if alive:
                fault = None
            else:
                fault = StageError("The answer ended by an internal fault.", code="internal-fault")
            self._answer = replace(
                self._answer, state="failed" if fault else "stopped", problem=fault
            )
        return self._answer
