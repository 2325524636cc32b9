"""Estimate the time of a run from earlier runs of the project, else from a short measurement.

The unit of work is an encoding: a forward pass over a chunk of the project. Work without an encoder
goes by constants measured on two cores (docs/log/run-time.md).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.errors import EngineError
from engine.core.events import Choice, RunEstimated, StageFinished, read
from engine.core.subprocesses import run_as_child, run_in_subprocess
from engine.encoders.for_project import encoder_fingerprint_of
from engine.encoders.kinds.chosen import encoder_source
from engine.evaluation.expected import DECIDING, expected_evidence
from engine.project.control import run_records
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import VectorsInfo
from engine.project.store.artifacts import INCOMPLETE
from engine.queries.choosing import MODELS, resolve_backend
from engine.runs.progress import find_resume_point
from engine.training.config import TrainingConfig
from engine.training.dataset import MIN_QUERIES
from engine.training.recipe import resolve_config

if TYPE_CHECKING:
    from engine.encoders.hardware import Hardware
    from engine.encoders.model_size import ModelSize

MIN_ENCODINGS = 3000
"""Fewer are not worth a measurement, which takes as long as loading the encoder."""
# Encodings that a query costs: queries are shorter than chunks.
QUERY = 0.15
# Passes over each text of a training step: one forward, and backward, which costs two.
STEP = 3
# Further passes if the gradients of all weights are computed.
OF_WEIGHTS = 1
# Seconds in which a stage with an encoder imports torch and reads the weights.
LOADING = 6.0
ENCODING = ("train", "evaluate", "embed")
SECONDS_A_CHUNK = {"index": 0.001, "embed": 0.001}
SECONDS_A_QUERY = {"generate": 0.02, "rank": 0.0003}
SECONDS_A_QUESTION = {"evaluate": 0.03}
SAMPLE = 64
WARM_UP = 8
ENOUGH_SECONDS = 1.0
MICRO_BATCH = 8  # Texts of a training that are encoded together.


@dataclass(frozen=True, slots=True)
class Rates:
    """Seconds for an encoding, and for a pass over a text in training.

    Training cuts texts and computes several at a time. `again`: training passes once more over each
    text, since memory does not suffice to keep the graphs of a step.
    """

    encoding: float
    training: float
    again: bool = False


NOMINAL = Rates(0.01, 0.01)
"""Rates of a nominal machine: they make the work of a stage comparable between runs."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The work of a run.

    `cached`: chunks that already have a vector of the base encoder. `queries`: for training.
    `questions`: queries of the evaluation; `written` of them come from documents, whose passages
    are encoded without them. `candidates`: encoders that the evaluation compares.
    """

    chunks: int
    cached: int
    queries: int
    questions: int
    written: int
    candidates: int
    config: TrainingConfig

    def encodings(self, stages: Sequence[str]) -> dict[str, float]:
        """Return the number of encodings of each of the `stages`, in their order.

        The base encoder's vectors count for the first stage that needs them.
        """
        missing = float(self.chunks - self.cached)
        counts = dict[str, float]()
        for stage in stages:
            count = self._count_evaluation_encodings() if stage == "evaluate" else 0.0
            if stage in ENCODING and (stage != "train" or self.config.needs_vectors):
                count += missing
                missing = 0.0
            counts[stage] = count
        return counts

    def seconds(self, stages: Sequence[str], rates: Rates) -> dict[str, float]:
        """Return the seconds that each of the `stages` will take."""
        seconds = {}
        for stage, encodings in self.encodings(stages).items():
            total = encodings * rates.encoding
            if stage == "train":
                total += self.passes(again=rates.again) * rates.training
            if stage in ENCODING:
                total += LOADING
            total += self.chunks * SECONDS_A_CHUNK.get(stage, 0)
            total += self.queries * SECONDS_A_QUERY.get(stage, 0)
            total += self.questions * SECONDS_A_QUESTION.get(stage, 0)
            seconds[stage] = total
        return seconds

    def passes(self, *, again: bool = False) -> float:
        """Return the number of passes over a text, forward or backward, of a training."""
        config = self.config
        if self.queries < MIN_QUERIES:
            return 0
        texts_a_step = config.queries_per_step * QUERY
        pool = config.heldout_queries * QUERY
        passes_a_text = STEP
        if config.adapter_scope == "both":
            texts_a_step += config.queries_per_step * (1 + config.negatives_per_query)
            texts_a_step += config.shared_chunks
            pool += min(self.chunks, config.heldout_pool)
            passes_a_text += again
        if config.weights == "all":
            passes_a_text += OF_WEIGHTS
        texts = 0.0
        if config.method != "PT":
            texts += config.steps * texts_a_step
        if config.method != "FT":
            texts += config.pretrain_steps * config.pretrain_chunks_per_step
        checks = config.steps // config.eval_every + 1 if config.eval_every else 0
        return passes_a_text * texts + checks * pool

    def _count_evaluation_encodings(self) -> float:
        # With an adapter of the queries alone, all candidates share the base encoder's chunks.
        if self.config.adapter_scope == "queries":
            chunk_encoders = 0
        else:
            chunk_encoders = self.candidates - 1
        queries = self.candidates * QUERY * self.questions
        return queries + chunk_encoders * self.chunks + (1 + chunk_encoders) * self.written


def read_workload(snapshot: ProjectSnapshot) -> Workload:
    """Return the work in a project whose documents have been read.

    Raises EngineError.
    """
    settings = snapshot.settings
    store = snapshot.store
    counts = store.counts()
    chosen = settings.evaluation
    expected = min(settings.queries.max_queries, settings.queries.per_chunk * counts["chunks"])
    queries = counts["queries"] or expected
    written = expected_evidence(snapshot, made=counts["queries"] > 0)["document"]
    held_out = min(chosen.max_heldout, round(chosen.heldout_share * DECIDING * queries))
    return Workload(
        counts["chunks"],
        min(counts["chunks"], _count_cached(snapshot)),
        queries,
        held_out + written + counts["judged_queries"],
        written,
        2 + len(chosen.interpolation_weights),
        resolve_config(snapshot),
    )


def is_busy() -> bool:
    """Return whether the machine is too busy for a reliable measurement.

    That is when more than half of the processors had work in the last minute.
    """
    return hasattr(os, "getloadavg") and os.getloadavg()[0] > (os.cpu_count() or 1) / 2


def estimate(
    snapshot: ProjectSnapshot, stages: Sequence[str], should_stop: Callable[[], bool]
) -> RunEstimated | None:
    """Estimate a run of `stages`; None if there is too little to do.

    Stages that the project has not done before are estimated by measuring this machine's speed for
    two seconds. Raises EngineError.
    """
    work = read_workload(snapshot)
    settings = snapshot.settings
    # After new queries or rankings a training starts over.
    if not {"generate", "rank"} & set(stages):
        work = replace(work, config=_drop_done_steps(snapshot, work.config))
    passes = work.passes() if "train" in stages else 0
    if sum(work.encodings(stages).values()) + passes < MIN_ENCODINGS:
        return None
    chosen = settings.encoder
    if chosen.small_model or not encoder_source(chosen).trains:
        return RunEstimated(chunks=work.chunks, seconds={}, unknown=list(stages))
    unknown = [stage for stage in stages if _is_unknown(snapshot, stage)]
    known = [stage for stage in stages if stage not in unknown]
    encoder = f"{encoder_fingerprint_of(snapshot, None, 1.0)} {chosen.device} {chosen.dtype}"
    nominal = work.seconds(known, NOMINAL)
    before = read_former_rates(snapshot.project, encoder)
    seconds = dict(nominal)
    rough = False
    if any(stage not in before and stage in ENCODING for stage in known):
        # Asked first, as the measurement itself keeps the machine busy.
        rough = is_busy()
        seconds = work.seconds(known, measure_rates_in_child(snapshot.project, should_stop))
    for stage in known:
        if stage in before:
            seconds[stage] = nominal[stage] * before[stage]
    return RunEstimated(
        chunks=work.chunks,
        seconds={stage: round(seconds[stage], 1) for stage in known},
        unknown=unknown,
        rough=rough,
        nominal={stage: round(value, 3) for stage, value in nominal.items()},
        encoder=encoder,
    )


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
        return replace(config, pretrain_steps=0, steps=steps_left)
    return config


def read_former_rates(project: ProjectFolder, encoder: str) -> dict[str, float]:
    """Return the seconds that each stage took for a nominal second of its work in earlier runs.

    The newest run counts that estimated the stage with this `encoder` (with device and precision)
    and did all of it.
    """
    rates: dict[str, float] = {}
    for record in run_records(project):
        nominal = dict[str, float]()
        resumed = False
        for event, _ in read(record.folder / "events.jsonl"):
            match event:
                case RunEstimated():
                    nominal = event.nominal if event.encoder == encoder else {}
                case Choice():
                    resumed |= event.setting.startswith("first step")
                case StageFinished():
                    is_partial = resumed and event.stage == "train"
                    if nominal.get(event.stage) and not is_partial:
                        rates.setdefault(event.stage, event.seconds / nominal[event.stage])
    return rates


def _is_unknown(snapshot: ProjectSnapshot, stage: str) -> bool:
    """Return whether a stage's speed cannot be estimated.

    That holds for a language model before it has written, and for variants of the questions.
    """
    if stage == "generate":
        return resolve_backend(snapshot.settings, snapshot.store).backend in MODELS
    return stage == "evaluate" and snapshot.settings.evaluation.robustness


def _count_cached(snapshot: ProjectSnapshot) -> int:
    """Return the number of chunks with a vector of the base encoder."""
    from engine.encoders.embedding_cache import VectorCache

    model = encoder_source(snapshot.settings.encoder).folder
    base = encoder_fingerprint_of(snapshot, None, 1.0)
    if model is None or model.dimension is None:
        return 0
    index = snapshot.store.artifact(VectorsInfo)
    # The index knows the number; the cache must read all its files, and counts equal texts once.
    if index and index.fingerprint != INCOMPLETE and index.info.chunk_encoder == base:
        return index.info.chunks
    folder = snapshot.project.path / "cache" / base
    if folder.is_dir():
        return len(VectorCache(folder, model.dimension, reading=True))
    return 0


def measure_rates_in_child(project: ProjectFolder, should_stop: Callable[[], bool]) -> Rates:
    """Measure the rates of the project's base encoder now.

    Raises EngineError.
    """
    values = run_in_subprocess(
        "engine.runs.estimate", [str(project.path)], "The measurement", should_stop
    )
    return Rates(*values)


def measure_rates(should_stop: Callable[[], bool], folder: str) -> tuple[float, float, bool]:
    """Return the fields of `Rates`, measured on some of the project's chunks."""
    from engine.encoders.model_size import model_size
    from engine.encoders.transformer import TransformerEncoder
    from engine.training.compute.workers import Workers

    project = ProjectFolder(Path(folder))
    with closing(project.store()) as store:
        texts = store.sample_chunk_texts(SAMPLE)
        config = resolve_config(ProjectSnapshot(project, project.settings(), store))
    chosen = project.settings().encoder
    source = encoder_source(chosen)
    encoder = source.load(chosen.max_tokens)
    encoder.encode_chunks(texts[:WARM_UP])

    def measure(work: Callable[[], object]) -> float:
        done = 0
        started = time.monotonic()
        while not should_stop() and (not done or time.monotonic() - started < ENOUGH_SECONDS):
            work()
            done += len(texts)
        return (time.monotonic() - started) / max(1, done)

    encoding = measure(lambda: encoder.encode_chunks(texts))
    if not isinstance(encoder, TransformerEncoder) or source.folder is None:
        # Other encoders are not trained.
        return encoding, encoding, False
    rows = [row[: config.max_tokens] for row in encoder.text_model.token_rows(texts)]
    batches = [rows[start : start + MICRO_BATCH] for start in range(0, len(rows), MICRO_BATCH)]
    worker_count = encoder.hardware.threads if encoder.hardware.device == "cpu" else 1
    with Workers(worker_count) as workers:
        training = measure(lambda: workers.map(lambda batch: encoder.forward(batch, 0), batches))
    return encoding, training, _is_too_large(model_size(source.folder), config, encoder.hardware)


def _is_too_large(size: ModelSize, config: TrainingConfig, hardware: Hardware) -> bool:
    """Return whether memory does not suffice for the graphs of a training step."""
    from engine.training.compute.plan import free_memory, graph_bytes

    number_size = 4 if hardware.dtype == "float32" else 2
    per_token = size.graph_bytes_per_token(config.max_tokens, number_size)
    tokens = config.queries_per_step * (2 + config.negatives_per_query) * config.max_tokens
    return tokens * per_token > graph_bytes(config, hardware, free_memory(hardware))


if __name__ == "__main__":
    run_as_child(measure_rates)
