"""Encoders compared on a project's own chunks and queries, each in a process of its own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from engine.core.errors import CancelledError, EngineError, NotBuiltError, TooLittleTextError
from engine.core.messages.encoders import EncoderComparison, EncoderResult, EncoderTrial
from engine.core.messages.wire import from_json
from engine.core.subprocesses import run_in_subprocess
from engine.encoders.choosing.library import list_encoders, resolve_name
from engine.evaluation.comparison import compared
from engine.evaluation.document_set import FOLDER
from engine.project.folder import ProjectFolder

MODULE = "engine.evaluation.studies.encoder_trial"
MEASURED = ("semantic", "hybrid")
AS_THE_MODEL_SAYS: dict[str, Any] = {
    "endpoint": "", "endpoint_model": "", "query_prompt": None, "document_prompt": None, "pooling": "from the model",
    "small_model": "",
}  # fmt: skip


def compare_encoders(
    project: ProjectFolder, named: Sequence[str], should_stop: Callable[[], bool], begin: Callable[[str], object]
) -> EncoderComparison:
    """Measure the project's encoder (as it is without adapter), then those that are `named`: by a path, as `list_encoders` calls
    them, or by a server's address with the model's name there behind a #. `begin` is called with each. One that fails has an
    `error`.

    Raises NotBuiltError, TooLittleTextError without queries, ProjectBusyError during a run, CancelledError: vectors are kept.
    """
    settings, trials = project.settings(), dict[str, EncoderTrial | EngineError]()
    with _alone(project):
        for one in dict.fromkeys(("", *named)):
            begin(one)
            try:
                changes = _changes(one, settings.encoder.folders) if one else {}
                arguments = [str(project.path), json.dumps(changes)]
                answer = run_in_subprocess(
                    MODULE, arguments, f"The trial of {one or 'the encoder'}", should_stop, stderr=None
                )
                trials[one] = from_json(EncoderTrial, answer)
            except CancelledError:
                to_do = "The same command goes on: vectors so far are kept until the next run."
                raise CancelledError("The comparison was cancelled.", "", to_do) from None
            except (NotBuiltError, TooLittleTextError):
                raise
            except EngineError as error:
                trials[one] = error
    return _compared(trials, settings.evaluation.bootstrap_samples, settings.training.seed)


@contextmanager
def _alone(project: ProjectFolder) -> Iterator[None]:
    with project.locked():
        try:
            yield
        finally:
            shutil.rmtree(project.path / "lexical" / FOLDER, ignore_errors=True)


def _changes(named: str, folders: Sequence[str]) -> dict[str, Any]:
    """The keys of [encoder] that name an encoder. Raises UsageError."""
    if "://" in named:
        address, _, model = named.partition("#")
        return AS_THE_MODEL_SAYS | {"endpoint": address, "endpoint_model": model}
    return AS_THE_MODEL_SAYS | {"model": resolve_name(named, list_encoders(folders))}


def _compared(trials: dict[str, EncoderTrial | EngineError], samples: int, seed: int) -> EncoderComparison:
    done = {named: one for named, one in trials.items() if isinstance(one, EncoderTrial)}
    if not done:
        return EncoderComparison("", 0, None, tuple(_row(named, one, {}, {}) for named, one in trials.items()))
    first = next(iter(done.values()))
    values = {named: {key: np.array(getattr(one, key)) for key in MEASURED} for named, one in done.items()}
    wanted = {(named, ""): MEASURED for named in done if named and "" in done}
    figures, gaps = compared({**values, "bm25": {"bm25": np.array(first.bm25)}}, wanted, samples, seed)
    rows = (_row(named, one, figures.get(named, {}), gaps.get((named, ""), {})) for named, one in trials.items())
    return EncoderComparison(first.rung, len(first.bm25), figures["bm25"]["bm25"], tuple(rows))


def _row(named: str, one: EncoderTrial | EngineError, figures: Any, gaps: Any) -> EncoderResult:
    if isinstance(one, EngineError):
        return EncoderResult(named, error=one)
    return EncoderResult(
        named, one.name, figures["semantic"], figures["hybrid"], gaps.get("semantic"), gaps.get("hybrid"), one.texts_per_second,
        one.query_seconds, one.memory, one.dimension, one.changes,
    )  # fmt: skip
