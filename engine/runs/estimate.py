"""About how long a run will take: by how long the stages took in this project before, else by
what they have to encode and how fast this machine encodes now.

An encoding is a forward pass over a chunk of the project. What no encoder does goes by constants,
measured on two cores (docs/log/run-time.md).
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
from engine.core.subprocesses import answer, run_in_subprocess
from engine.encoders.for_project import encoder_fingerprint_of
from engine.encoders.kinds.chosen import encoder_source
from engine.evaluation.expected import DECIDING, expected_evidence
from engine.project.control import run_records
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import VectorsInfo
from engine.project.store.artifacts import INCOMPLETE
from engine.queries.choosing import MODELS, resolve_backend
from engine.runs.progress import resume_point
from engine.training.config import TrainingConfig
from engine.training.dataset import MIN_QUERIES
from engine.training.recipe import resolve_config

if TYPE_CHECKING:
    from engine.encoders.hardware import Hardware
    from engine.encoders.model_size import ModelSize

MIN_ENCODINGS = 3000
"""Less is not worth a measurement, which takes as long as loading the encoder does."""
QUERY = 0.15  # encodings: queries are shorter than chunks
STEP = 3  # passes over each text of a training step: forward, and backward, which takes two
OF_WEIGHTS = 1  # passes more, where the gradients of all weights are wanted
LOADING = 6.0  # seconds: a stage with an encoder imports torch and reads the weights
ENCODING = ("train", "evaluate", "embed")
SECONDS_A_CHUNK = {"index": 0.001, "embed": 0.001}
SECONDS_A_QUERY = {"generate": 0.02, "rank": 0.0003}
SECONDS_A_QUESTION = {"evaluate": 0.03}
SAMPLE = 64
WARM_UP = 8
ENOUGH_SECONDS = 1.0
MICRO_BATCH = 8  # texts of a training that go through the encoder together


@dataclass(frozen=True, slots=True)
class Rates:
    """Seconds for an `encoding`, and for a `pass` over a text in training, which cuts texts and
    computes several at a time. `again`: whether training passes once more over each text, as
    there is no memory to keep a step's graphs.
    """

    encoding: float
    training: float
    again: bool = False


NOMINAL = Rates(0.01, 0.01)
"""By these, the work of a stage in one run compares with that in another."""


@dataclass(frozen=True, slots=True)
class Workload:
    """`cached`: chunks that the base encoder's vectors are there of.

    `queries`: for training. `questions`: what an evaluation asks; `written` of them by documents,
    whose passages it encodes without them. `candidates`: encoders that it compares.
    """

    chunks: int
    cached: int
    queries: int
    questions: int
    written: int
    candidates: int
    config: TrainingConfig

    def encodings(self, stages: Sequence[str]) -> dict[str, float]:
        """Of each of the `stages`, in their order; the base encoder's vectors belong to the
        first that wants them.
        """
        missing = float(self.chunks - self.cached)
        found = dict[str, float]()
        for stage in stages:
            if stage == "evaluate":
                own = self._evaluation()
            else:
                own = 0.0
            if stage in ENCODING and (stage != "train" or self.config.needs_vectors):
                own = own + missing
                missing = 0.0
            found[stage] = own
        return found

    def seconds(self, stages: Sequence[str], rates: Rates) -> dict[str, float]:
        """What each of the `stages` will take."""
        return {
            stage: (
                encodings * rates.encoding
                + (self.passes(again=rates.again) * rates.training if stage == "train" else 0)
                + (LOADING if stage in ENCODING else 0)
                + self.chunks * SECONDS_A_CHUNK.get(stage, 0)
                + self.queries * SECONDS_A_QUERY.get(stage, 0)
                + self.questions * SECONDS_A_QUESTION.get(stage, 0)
            )
            for stage, encodings in self.encodings(stages).items()
        }

    def passes(self, *, again: bool = False) -> float:
        """Of a training: passes over a text, forward or back."""
        config = self.config
        if self.queries < MIN_QUERIES:
            return 0
        both = config.adapter_scope == "both"
        texts = (
            config.queries_per_step * (QUERY + both * (1 + config.negatives_per_query))
            + both * config.shared_chunks
        )
        if config.eval_every:
            checks = config.steps // config.eval_every + 1
        else:
            checks = 0
        pool = both * min(self.chunks, config.heldout_pool) + QUERY * config.heldout_queries
        if config.method == "FT":
            masked = 0
        else:
            masked = config.pretrain_steps * config.pretrain_chunks_per_step
        if config.method == "PT":
            tuned = 0.0
        else:
            tuned = config.steps * texts
        step = STEP + (again and both) + (OF_WEIGHTS if config.weights == "all" else 0)
        return step * (tuned + masked) + checks * pool

    def _evaluation(self) -> float:
        if self.config.adapter_scope == "queries":
            own_chunks = 0
        else:
            own_chunks = self.candidates - 1
        return (
            self.candidates * QUERY * self.questions
            + own_chunks * self.chunks
            + (1 + own_chunks) * self.written
        )


def workload(snapshot: ProjectSnapshot) -> Workload:
    """Of a project whose documents have been read. Raises EngineError."""
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
        min(counts["chunks"], _cached(snapshot)),
        queries,
        held_out + written + counts["judged_queries"],
        written,
        2 + len(chosen.interpolation_weights),
        resolve_config(snapshot),
    )


def busy() -> bool:
    """Whether more than half of the processors have had work in the last minute, so that a
    measurement says little.
    """
    return hasattr(os, "getloadavg") and os.getloadavg()[0] > (os.cpu_count() or 1) / 2


def estimate(
    snapshot: ProjectSnapshot, stages: Sequence[str], should_stop: Callable[[], bool]
) -> RunEstimated | None:
    """Of a run that has `stages` to do; None where there is too little to do.

    Where the project has not done all of them before, it is measured for two seconds how fast this
    machine is. Raises EngineError.
    """
    work = workload(snapshot)
    settings = snapshot.settings
    if not {"generate", "rank"} & set(stages):  # else the training begins anew
        work = replace(work, config=_left(snapshot, work.config))
    if sum(work.encodings(stages).values()) + ("train" in stages) * work.passes() < MIN_ENCODINGS:
        return None
    chosen = settings.encoder
    if chosen.small_model or chosen.vectors or not encoder_source(chosen).trains:
        return RunEstimated(chunks=work.chunks, seconds={}, unknown=list(stages))
    unknown = [stage for stage in stages if _unknown(snapshot, stage)]
    known = [stage for stage in stages if stage not in unknown]
    encoder = f"{encoder_fingerprint_of(snapshot, None, 1.0)} {chosen.device} {chosen.dtype}"
    nominal = work.seconds(known, NOMINAL)
    before = seconds_before(snapshot.project, encoder)
    seconds = {stage: nominal[stage] * before[stage] for stage in known if stage in before}
    rough = False
    if any(stage not in before and stage in ENCODING for stage in known):
        rough = busy()  # before the measurement's own work
        seconds = work.seconds(known, measured(snapshot.project, should_stop)) | seconds
    return RunEstimated(
        chunks=work.chunks,
        seconds={stage: round((nominal | seconds)[stage], 1) for stage in known},
        unknown=unknown,
        rough=rough,
        nominal={stage: round(value, 3) for stage, value in nominal.items()},
        encoder=encoder,
    )


def _left(snapshot: ProjectSnapshot, config: TrainingConfig) -> TrainingConfig:
    """The recipe without the steps that a training which goes on has behind it."""
    with suppress(EngineError):  # such as rankings that are not there yet
        if point := resume_point(snapshot):
            if point.pretraining:
                return replace(config, pretrain_steps=point.steps - point.step)
            return replace(config, pretrain_steps=0, steps=point.steps - point.step)
    return config


def seconds_before(project: ProjectFolder, encoder: str) -> dict[str, float]:
    """Stage → seconds that it took for each nominal second of its work, in the newest run that
    foresaw it, with this `encoder` on this device in this precision, and did all of it.
    """
    found: dict[str, float] = {}
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
                    if nominal.get(event.stage) and not (resumed and event.stage == "train"):
                        found.setdefault(event.stage, event.seconds / nominal[event.stage])
    return found


def _unknown(snapshot: ProjectSnapshot, stage: str) -> bool:
    """A language model's speed is known once it has written; so is what variants of the
    questions take.
    """
    if stage == "generate":
        return resolve_backend(snapshot.settings, snapshot.store).backend in MODELS
    return stage == "evaluate" and snapshot.settings.evaluation.robustness


def _cached(snapshot: ProjectSnapshot) -> int:
    from engine.encoders.embedding_cache import VectorCache

    model = encoder_source(snapshot.settings.encoder).folder
    base = encoder_fingerprint_of(snapshot, None, 1.0)
    if model is None or model.dimension is None:
        return 0
    index = snapshot.store.artifact(VectorsInfo)
    if index and index.fingerprint != INCOMPLETE and index.info.chunk_encoder == base:
        return (
            index.info.chunks
        )  # of the cache all files would be read, and texts that occur twice count once there
    folder = snapshot.project.path / "cache" / base
    if folder.is_dir():
        return len(VectorCache(folder, model.dimension, reading=True))
    return 0


def measured(project: ProjectFolder, should_stop: Callable[[], bool]) -> Rates:
    """The rates of the project's base encoder now. Raises EngineError."""
    return Rates(
        *run_in_subprocess(
            "engine.runs.estimate", [str(project.path)], "The measurement", should_stop
        )
    )


def measure_rates(should_stop: Callable[[], bool], folder: str) -> tuple[float, float, bool]:
    """The fields of `Rates`, measured on some of the project's chunks."""
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
        return encoding, encoding, False  # it is not trained
    rows = [row[: config.max_tokens] for row in encoder.text_model.token_rows(texts)]
    batches = [rows[start : start + MICRO_BATCH] for start in range(0, len(rows), MICRO_BATCH)]
    if encoder.hardware.device == "cpu":
        side_by_side = encoder.hardware.threads
    else:
        side_by_side = 1
    with Workers(side_by_side) as workers:
        training = measure(lambda: workers.map(lambda batch: encoder.forward(batch, 0), batches))
    return encoding, training, _is_too_large(model_size(source.folder), config, encoder.hardware)


def _is_too_large(size: ModelSize, config: TrainingConfig, hardware: Hardware) -> bool:
    """Whether there is no memory for the graphs of a step."""
    from engine.training.compute.plan import free_memory, graph_bytes

    per_token = size.graph_bytes_per_token(
        config.max_tokens, 4 if hardware.dtype == "float32" else 2
    )
    tokens = config.queries_per_step * (2 + config.negatives_per_query) * config.max_tokens
    return tokens * per_token > graph_bytes(config, hardware, free_memory(hardware))


if __name__ == "__main__":
    answer(measure_rates)
