"""The answer that a user interface has asked for, written in the background, one at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import Event, Lock, Thread
from typing import Any

from engine.core.errors import StageError
from engine.core.messages.answers import Answer, Ask, ReadAnswer
from engine.core.messages.wire import Request
from engine.project.folder import ProjectFolder


class AnswerWriter:
    """Writes answers about one project in a thread that ends with the process."""

    def __init__(self) -> None:
        self._answer = Answer(state="stopped")
        self._lock = Lock()
        """Held while `_answer` is replaced, by the thread that writes or by a request."""
        self._stop = Event()
        self._thread = Thread()
        self.handlers: dict[type[Request[Any]], Callable[[ProjectFolder, Any], Answer]] = {
            Ask: self.ask,
            ReadAnswer: self.read,
        }

    def ask(self, project: ProjectFolder, request: Ask) -> Answer:
        """Start an answer, and stop one that is still being written.

        Raises what `choose_model` raises.
        """
        from engine.answers.answering import answer, choose_model

        _, model = choose_model(project)
        stop = Event()

        def keep(partial: Answer) -> None:
            with self._lock:
                if not stop.is_set():
                    self._answer = partial

        def write() -> None:
            keep(answer(project, request.question, request.chunk_ids, keep, stop.is_set))

        started = Answer(model)
        with self._lock:
            self._stop.set()
            self._answer = started
            self._stop = stop
        self._thread = Thread(target=write, daemon=True)
        self._thread.start()
        return started

    def read(self, _project: ProjectFolder, request: ReadAnswer) -> Answer:
        """Return the answer so far, which the request may stop."""
        # Checked before the answer is read: a thread that is no longer alive has stored its answer,
        # so an answer that is still "writing" below then means that the thread failed.
        is_alive = self._thread.is_alive()
        with self._lock:
            if self._answer.state != "writing":
                return self._answer
            if not is_alive:
                fault = StageError("The answer ended by an internal fault.", code="internal-fault")
                self._stop.set()
                self._answer = replace(
                    self._answer,
                    state="failed",
                    problem=fault,
                )
            elif request.stop:
                self._stop.set()
                self._answer = replace(
                    self._answer,
                    state="stopped",
                    problem=None,
                )
            return self._answer
