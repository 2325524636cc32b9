"""Estimate the time of a run from the rates at which this machine did each stage before.

A rate is the time for a unit of a stage's work, kept in the user's state folder for each stage and
encoder. The unit of stages that encode is an encoding: a forward pass over a chunk.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from engine.core.disk import write_text
from engine.core.errors import EngineError
from engine.core.events import Event, Paused, Progress, Resumed, RunEstimated, StageStarted
from engine.encoders.for_project import open_cache
from engine.encoders.kinds.chosen import encoder_source
from engine.encoders.model_folder import DEFAULT_MODEL
from engine.evaluation.query_estimates import DECIDING, expected_evidence
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import VectorsInfo
from engine.project.store.artifacts import INCOMPLETE
from engine.project.store.chunks import IN_MEMORY
from engine.queries.choosing import MODELS, resolve_backend
from engine.runs.progress import find_resume_point
from engine.training.config import TrainingConfig
from engine.training.dataset import MIN_QUERIES
from engine.training.recipe import resolve_config

if TYPE_CHECKING:
    from engine.encoders.encoder import EncoderSource
    from engine.settings.schema import EncoderSettings

ENCODING = ("train", "evaluate", "embed")
"""Stages that encode texts."""
MIN_UNITS = 3000
"""Minimum number of encodings of a run; fewer are not worth an estimate."""
MIN_TO_LEARN = 1000
"""Minimum number of units for a rate; with fewer, starting takes much of a stage's time."""
INITIAL_RATES = {
    "index": 0.001,
    "generate": 0.02,
    "rank": 0.0003,
    "train": 0.01,
    "evaluate": 0.01,
    "embed": 0.01,
}
"""Seconds per unit before a stage was ever done here: the bundled encoder on two cores."""
QUERY_COST = 0.15
"""Encodings that a query costs: queries are shorter than chunks."""
QUESTION_COST = 3.0
"""Encodings that take as long as ranking and comparing one question."""
PASSES_PER_TEXT = 3.0
"""Passes over each text of a training step: one forward, and backward, which costs two."""

MIN_SECONDS_OF_PACE = 20.0
"""Seconds of embedding after which its pace tells how long it takes."""
CORRECTED_FROM = 1.5
"""How many times the estimate embedding must take for the estimate to be corrected."""


class StageWork(NamedTuple):
    """The work of a stage."""

    rate_key: str  # The key of its rate (`rate_keys`).
    units: float  # Number of units, such as encodings.


@dataclass(frozen=True, slots=True)
class Forecast:
    """The estimate of a run, and the work of each stage."""

    event: RunEstimated
    work: Mapping[str, StageWork]


@dataclass(slots=True)
class Correction:
    """Corrects the estimate of a run whose embedding turns out to be slower.

    The stage `embed` counts all of its work once, so that the count tells its time. Training
    reports the time left itself.
    """

    estimated: RunEstimated
    _first: tuple[float, int] | None = None  # Time and count at the beginning, or after a pause.

    def take(self, event: Event, now: float) -> RunEstimated | None:
        """Return a new estimate if an event shows that embedding takes much longer.

        `now`: the time of the event in seconds.
        """
        match event:
            case StageStarted() | Paused() | Resumed():
                self._first = None
            case Progress(stage="embed") if "embed" in self.estimated.seconds:
                return self._compare(event, now)
        return None

    def _compare(self, progress: Progress, now: float) -> RunEstimated | None:
        if self._first is None:
            self._first = (now, progress.done)
        began, done_before = self._first
        done = progress.done - done_before
        if now - began < MIN_SECONDS_OF_PACE or done <= 0:
            return None
        seconds = (now - began) / done * (progress.total - done_before)
        if seconds < CORRECTED_FROM * self.estimated.seconds["embed"]:
            return None
        corrected = {**self.estimated.seconds, "embed": round(seconds, 1)}
        self.estimated = replace(self.estimated, seconds=corrected)
        return self.estimated


def estimate(snapshot: ProjectSnapshot, stages: Sequence[str]) -> Forecast | None:
    """Estimate a run of `stages`; None if there is too little to do.

    A stage that encodes and has no rate of its own takes that of `embed`. Stages without a rate,
    and a language model's queries, are unknown. Raises EngineError.
    """
    units = count_units(snapshot, stages)
    if sum(units.get(stage, 0) for stage in ENCODING) < MIN_UNITS:
        return None
    seconds, unknown = estimate_seconds(snapshot, units)
    keys = rate_keys(snapshot, units)
    chunks = snapshot.store.count("chunks")
    rounded = {stage: round(value, 1) for stage, value in seconds.items()}
    event = RunEstimated(
        chunks=chunks,
        seconds=rounded,
        unknown=unknown,
    )
    return Forecast(event, {stage: StageWork(keys[stage], units[stage]) for stage in units})


def estimate_seconds(
    snapshot: ProjectSnapshot, units: Mapping[str, float]
) -> tuple[dict[str, float], list[str]]:
    """Return the seconds of each stage with so many units, and the stages whose rate is unknown."""
    rates = read_rates()
    settings = snapshot.settings
    source = encoder_source(settings.encoder)
    keys = _name_rates(
        source,
        settings.encoder,
        (*units, "embed"),
    )
    is_bundled = source.name == DEFAULT_MODEL
    seconds = {}
    unknown = []
    for stage, count in units.items():
        rate = rates.get(keys[stage])
        if rate is None and stage in ENCODING:
            rate = rates.get(keys["embed"])
        if rate is None and (is_bundled or stage not in ENCODING):
            rate = INITIAL_RATES.get(stage)
        if stage == "generate" and resolve_backend(settings, snapshot.store).backend in MODELS:
            rate = None  # language models differ too much
        if rate is None:
            unknown.append(stage)
        else:
            seconds[stage] = count * rate
    return seconds, unknown


def rate_keys(snapshot: ProjectSnapshot, stages: Iterable[str]) -> dict[str, str]:
    """Return the key of each stage's rate, such as `rank`.

    Of a stage that encodes, the key also names the encoder, the device and the precision.
    """
    options = snapshot.settings.encoder
    return _name_rates(
        encoder_source(options),
        options,
        stages,
    )


def _name_rates(
    source: EncoderSource, options: EncoderSettings, stages: Iterable[str]
) -> dict[str, str]:
    """Return `rate_keys` for an encoder that is resolved already."""
    fingerprint = source.vectors_fingerprint(options.max_tokens)
    suffix = f" {fingerprint[:16]} {options.small_model} {options.device} {options.dtype}"
    keys = {}
    for stage in stages:
        keys[stage] = f"{stage}{suffix}" if stage in ENCODING else stage
    return keys


def read_rates() -> dict[str, float]:
    """Return the rates of this machine in seconds per unit, empty without a readable file."""
    with suppress(OSError, ValueError):
        content = json.loads(_rates_file().read_text(encoding="utf-8"))
        if isinstance(content, dict):
            return {key: rate for key, rate in content.items() if isinstance(rate, float)}
    return {}


def keep_rate(
    key: str,
    units: float,
    seconds: float,
) -> None:
    """Keep the rate of a finished stage for later estimates, unless it did too few units."""
    if units < MIN_TO_LEARN:
        return
    with suppress(OSError):
        file = _rates_file()
        file.parent.mkdir(
            mode=0o700,
            parents=True,
            exist_ok=True,
        )
        write_text(file, json.dumps({**read_rates(), key: float(seconds / units)}, indent=1))


def _rates_file() -> Path:
    """Return the path of the file with this machine's rates."""
    from platformdirs import user_state_path

    return user_state_path("bmembed", appauthor=False) / "rates.json"


def count_units(snapshot: ProjectSnapshot, stages: Sequence[str]) -> dict[str, float]:
    """Return the units of each of the `stages`: encodings, chunks (index) or queries.

    The base encoder's vectors count for the first stage that needs them. Raises EngineError.
    """
    config = resolve_config(snapshot)
    # After new queries or rankings a training starts over.
    if not {"generate", "rank"} & set(stages):
        config = _drop_done_steps(snapshot, config)
    counts = snapshot.store.counts()
    chunks = counts["chunks"]
    query_settings = snapshot.settings.queries
    queries = counts["queries"] or min(
        query_settings.max_queries, query_settings.per_chunk * chunks
    )
    uncached = float(chunks - min(chunks, _count_cached(snapshot)))
    units = {}
    for stage in stages:
        count = 0.0
        if stage == "index":
            count = chunks
        elif stage in ("generate", "rank"):
            count = queries
        elif stage == "train":
            count = count_passes(
                config,
                chunks,
                queries,
                snapshot.settings.ranking.m,
            )
        elif stage == "evaluate":
            count = _count_evaluation(
                snapshot,
                config,
                chunks,
                queries,
            )
        if stage in ENCODING and (stage != "train" or config.needs_vectors):
            count += uncached
            uncached = 0.0
        units[stage] = float(count)
    return units


def count_passes(
    config: TrainingConfig,
    chunks: int,
    queries: int,
    m: int,
) -> float:
    """Return how often a training passes a text through the encoder, forward or backward.

    0 with too few queries for a training. Held-out checks go forward only. `m`: chunks in a ranked
    list.
    """
    if queries < MIN_QUERIES:
        return 0.0
    texts_per_step = config.queries_per_step * QUERY_COST
    texts_per_check = config.heldout_queries * QUERY_COST
    if config.adapter_scope == "both":
        chunks_per_query = 1 + config.negatives_per_query
        if config.uses_candidates:
            chunks_per_query = config.list_width
        elif config.uses_lists:
            chunks_per_query = m
        texts_per_step += config.queries_per_step * chunks_per_query
        texts_per_step += config.shared_chunks
        texts_per_check += min(chunks, config.heldout_pool)
    texts = 0.0
    if config.method != "PT":
        texts += config.steps * texts_per_step
    if config.method != "FT":
        texts += config.pretrain_steps * config.pretrain_chunks_per_step
    checks = config.steps // config.eval_every + 1 if config.eval_every else 0
    return PASSES_PER_TEXT * texts + checks * texts_per_check


def _count_evaluation(
    snapshot: ProjectSnapshot, config: TrainingConfig, chunks: int, queries: int
) -> float:
    """Return the encodings of an evaluation, of queries and chunks.

    Each candidate encodes the queries. A candidate that adapts chunks also encodes the chunks (in a
    large corpus, a sample). Passages from which a document-written query was removed are encoded by
    base and by those candidates.
    """
    evaluation_settings = snapshot.settings.evaluation
    counts = snapshot.store.counts()
    candidates = 2 + len(
        evaluation_settings.interpolation_weights
    )  # base, adapted, interpolated ones
    chunk_encoders = 0 if config.adapter_scope == "queries" else candidates - 1
    written = expected_evidence(snapshot, made=counts["queries"] > 0)["document"]
    held_out = min(
        evaluation_settings.max_heldout,
        round(evaluation_settings.heldout_share * DECIDING * queries),
    )
    questions = held_out + written + counts["judged_queries"]
    passages = chunk_encoders * min(chunks, IN_MEMORY) + (1 + chunk_encoders) * written
    return passages + questions * (candidates * QUERY_COST + QUESTION_COST)


def _drop_done_steps(snapshot: ProjectSnapshot, config: TrainingConfig) -> TrainingConfig:
    """Return the recipe without the steps that an interrupted training has already done."""
    # Rankings may be missing, for example.
    with suppress(EngineError):
        point = find_resume_point(snapshot)
        if point is None:
            return config
        steps_left = point.steps - point.step
        if point.pretraining:
            return replace(config, pretrain_steps=steps_left)
        return replace(
            config,
            pretrain_steps=0,
            steps=steps_left,
        )
    return config


def _count_cached(snapshot: ProjectSnapshot) -> int:
    """Return the number of chunks with a vector of the base encoder."""
    options = snapshot.settings.encoder
    source = encoder_source(options)
    model = source.folder
    base = source.vectors_fingerprint(options.max_tokens)
    if model is None or model.dimension is None:
        return 0
    index = snapshot.store.artifact(VectorsInfo)
    # The index knows the number; the cache counts equal texts once.
    if index and index.fingerprint != INCOMPLETE and index.info.chunk_encoder == base:
        return index.info.chunks
    return open_cache(snapshot).estimate_count(base)
