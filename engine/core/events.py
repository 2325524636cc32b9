"""Events of a run, one JSON object a line in `runs/ID/events.jsonl`."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from engine.core.messages.wire import from_json
from engine.core.platforms.files import open_private


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base of the events.

    `name`: the value of the key `event` in the log; by default the class name in snake case.
    """

    name: ClassVar[str]

    def __init_subclass__(cls) -> None:
        if "name" not in cls.__dict__:
            # `TrainStep` → `train_step`
            cls.name = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Event):
    """A run has locked the project and will go through `stages`."""

    run: str
    stages: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEstimated(Event):
    """The estimated time of a run, by stage."""

    chunks: int  # Of the corpus.
    seconds: dict[str, float]  # Of the stages with work to do.
    unknown: list[str]  # Stages whose time cannot be estimated.


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(Event):
    """A run has ended.

    `state`: done, failed or cancelled.
    """

    run: str
    state: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStarted(Event):
    """A stage begins, because of `reason`."""

    stage: str
    fingerprint: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSkipped(Event):
    """A stage has nothing to do."""

    stage: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFinished(Event):
    """A stage has put its result in place.

    `seconds`: without pauses. `peak_memory_mb`: highest resident memory of its process, 10^6 bytes.
    """

    stage: str
    seconds: float
    peak_memory_mb: float
    summary: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFailed(Event):
    """A stage has failed; `error` is `EngineError.as_dict()`."""

    stage: str
    error: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused(Event):
    """A stage, or the run before it, waits at a safe point until it may continue."""

    stage: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(Event):
    """A paused stage continues."""

    stage: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress(Event):
    """A stage has done `done` of `total` `unit`s.

    `item`: the current one, if it takes long.
    """

    stage: str
    done: int
    total: int
    unit: str
    item: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Event):
    """An automatic choice and its reason (device, precision, encoder in use …)."""

    stage: str
    setting: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned(Event):
    """A problem that the user should look at, but that does not stop the run."""

    name: ClassVar[str] = "warning"
    stage: str
    text: str
    code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainStep(Event):
    """A step of a training.

    `memory_mb`: resident memory (CPU) or allocated device memory (CUDA). `seconds_left`: an
    estimate.
    """

    step: int
    steps: int
    loss: float
    learning_rate: float
    tokens_per_second: float
    memory_mb: float
    seconds_left: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut(Event):
    """Held-out figures during training, in percent.

    `synthetic`: of queries that a language model made from the documents.
    """

    step: int
    hit_at_10: float
    ndcg_at_10: float
    best: bool
    synthetic: bool = False


KINDS: dict[str, type[Event]] = {kind.name: kind for kind in Event.__subclasses__()}

Emit = Callable[[Event], None]


def encode(event: Event) -> str:
    """Return one line of the log, without the line end."""
    data = {
        "event": event.name,
        "time": round(time.time(), 3),
        **asdict(event),
    }
    return json.dumps(
        data,
        ensure_ascii=False,
        default=_plain,
    )


def _plain(value: Any) -> Any:
    """Return numpy's numbers as numbers, and other values without a JSON form as text.

    A value that cannot be logged must not end a run.
    """
    if hasattr(value, "item") and getattr(value, "size", 1) == 1:
        return value.item()
    return str(value)


def decode(line: str) -> Event | None:
    """Return the event of a log line.

    None for a torn last line, an unknown kind, and values of the wrong type.
    """
    try:
        data = json.loads(line)
        return from_json(KINDS[data["event"]], data)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


class EventLog:
    """Appends events to a file, warnings only once.

    Each event is one `write`, so that two processes may share the file.
    """

    def __init__(self, path: Path) -> None:
        self._warned = {event for event, _ in read(path) if isinstance(event, Warned)}
        self._file: int | None = open_private(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        # Whether the last write was cut off by a full disk: the next one then begins a new line.
        self._is_torn = False

    def __call__(self, event: Event) -> None:
        """Append one event; a full disk loses the event, not the run."""
        if self._file is None:
            return
        if isinstance(event, Warned):
            if event in self._warned:
                return
            self._warned.add(event)
        # A lone surrogate becomes JSON's own escape.
        line = (encode(event) + "\n").encode("utf-8", "backslashreplace")
        data = b"\n" + line if self._is_torn else line
        with contextlib.suppress(OSError):
            written = os.write(self._file, data)
            if written == len(data):
                self._is_torn = False
            elif written > 0:
                self._is_torn = True

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def read(path: Path, offset: int = 0) -> Iterator[tuple[Event, int]]:
    """Yield events of a log from a byte offset on, each with the offset after it.

    A line without its end is left for later. A log that does not exist has no events.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return
            offset += len(line)
            event = decode(line.decode("utf-8", "replace"))
            if event is not None:
                yield event, offset
