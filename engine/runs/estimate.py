"""About how long a run will take: what its stages have to encode, by how fast this machine encodes now.

An encoding is a forward pass over a chunk of the project. What no encoder does goes by constants, measured on two cores
(docs/log/run-time.md).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from engine.core.events import RunEstimated
from engine.core.subprocesses import answer, run_in_subprocess
from engine.encoders.for_project import encoder_fingerprint_of
from engine.encoders.kinds.chosen import encoder_source
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import VectorsInfo
from engine.project.store.artifacts import INCOMPLETE
from engine.queries.choosing import MODELS, resolve_backend
from engine.training.config import TrainingConfig
from engine.training.dataset import MIN_QUERIES
from engine.training.recipe import resolve_config

MIN_ENCODINGS = 3000
"""Less is not worth a measurement, which takes as long as loading the encoder does."""
QUERY = 0.15  # encodings: queries are shorter than chunks
STEP = 3  # encodings for each text of a training step: forward, and backward, which takes two
AGAIN = 1  # one more where chunks are trained, too: a step's graphs are too large to be kept
LOADING = 6.0  # seconds: a stage with an encoder imports torch and reads the weights
ENCODING = ("train", "evaluate", "embed")
SECONDS_A_CHUNK = {"index": 0.001, "embed": 0.001}
SECONDS_A_QUERY = {"generate": 0.02, "rank": 0.0003}
SECONDS_A_QUESTION = {"evaluate": 0.03}
SAMPLE, WARM_UP, ENOUGH_SECONDS = 64, 8, 1.0


@dataclass(frozen=True, slots=True)
class Workload:
    """`cached`: chunks that the base encoder's vectors are there of. `queries`: for training. `questions`: what an evaluation
    asks; `written` of them by documents, whose passages it encodes without them. `candidates`: encoders that it compares."""

    chunks: int
    cached: int
    queries: int
    questions: int
    written: int
    candidates: int
    config: TrainingConfig

    def encodings(self, stages: Sequence[str]) -> dict[str, float]:
        """Of each of the `stages`, in their order; the base encoder's vectors belong to the first that wants them."""
        missing, found = float(self.chunks - self.cached), dict[str, float]()
        for stage in stages:
            own = self._training() if stage == "train" else self._evaluation() if stage == "evaluate" else 0.0
            if stage in ENCODING and (stage != "train" or self.config.needs_vectors):
                own, missing = own + missing, 0.0
            found[stage] = own
        return found

    def seconds(self, stages: Sequence[str], per_encoding: float) -> dict[str, float]:
        """What each of the `stages` will take."""
        return {
            stage: encodings * per_encoding
            + (LOADING if stage in ENCODING else 0)
            + self.chunks * SECONDS_A_CHUNK.get(stage, 0)
            + self.queries * SECONDS_A_QUERY.get(stage, 0)
            + self.questions * SECONDS_A_QUESTION.get(stage, 0)
            for stage, encodings in self.encodings(stages).items()
        }

    def _training(self) -> float:
        config = self.config
        if self.queries < MIN_QUERIES:
            return 0
        both = config.adapter_scope == "both"
        texts = (
            config.queries_per_step * (QUERY + both * (1 + config.negatives_per_query)) + both * config.shared_chunks
        )
        checks = config.steps // config.eval_every + 1 if config.eval_every else 0
        pool = both * min(self.chunks, config.heldout_pool) + QUERY * config.heldout_queries
        masked = 0 if config.method == "FT" else config.pretrain_steps * config.pretrain_chunks_per_step
        tuned = 0 if config.method == "PT" else config.steps * texts
        return (STEP + AGAIN * both) * (tuned + masked) + checks * pool

    def _evaluation(self) -> float:
        own_chunks = 0 if self.config.adapter_scope == "queries" else self.candidates - 1
        return self.candidates * QUERY * self.questions + own_chunks * self.chunks + (1 + own_chunks) * self.written


def workload(snapshot: ProjectSnapshot) -> Workload:
    """Of a project whose documents have been read. Raises EngineError."""
    settings, store = snapshot.settings, snapshot.store
    counts, chosen = store.counts(), settings.evaluation
    expected = min(settings.queries.max_queries, settings.queries.per_chunk * counts["chunks"])
    queries = counts["queries"] or expected
    written = min(chosen.max_heldout, round(chosen.heldout_share * len(store.document_queries())))
    held_out = min(chosen.max_heldout, round(chosen.heldout_share * queries))
    return Workload(
        counts["chunks"], min(counts["chunks"], _cached(snapshot)), queries, held_out + written + counts["judged_queries"],
        written, 2 + len(chosen.interpolation_weights), resolve_config(snapshot),
    )  # fmt: skip


def busy() -> bool:
    """Whether more than half of the processors have had work in the last minute, so that a measurement says little."""
    return hasattr(os, "getloadavg") and os.getloadavg()[0] > (os.cpu_count() or 1) / 2


def estimate(snapshot: ProjectSnapshot, stages: Sequence[str], should_stop: Callable[[], bool]) -> RunEstimated | None:
    """Of a run that has `stages` to do, by a measurement of a second; None where there is too little to do. Raises EngineError."""
    work = workload(snapshot)
    settings = snapshot.settings
    if sum(work.encodings(stages).values()) < MIN_ENCODINGS:
        return None
    chosen = settings.encoder
    if chosen.small_model or chosen.vectors or not encoder_source(chosen).abilities.trains:
        return RunEstimated(chunks=work.chunks, seconds={}, unknown=list(stages))
    arguments, rough = [str(snapshot.project.path)], busy()  # before the measurement's own work
    per_encoding = float(run_in_subprocess("engine.runs.estimate", arguments, "The measurement", should_stop))
    seconds = {stage: round(value, 1) for stage, value in work.seconds(stages, per_encoding).items()}
    unknown = [stage for stage in stages if _unknown(snapshot, stage)]
    known: Mapping[str, float] = {stage: value for stage, value in seconds.items() if stage not in unknown}
    return RunEstimated(chunks=work.chunks, seconds=dict(known), unknown=unknown, rough=rough)


def _unknown(snapshot: ProjectSnapshot, stage: str) -> bool:
    """A language model's speed is known once it has written; so is what variants of the questions take."""
    if stage == "generate":
        return resolve_backend(snapshot.settings, snapshot.store).backend in MODELS
    return stage == "evaluate" and snapshot.settings.evaluation.robustness


def _cached(snapshot: ProjectSnapshot) -> int:
    from engine.encoders.embedding_cache import VectorCache

    model, base = encoder_source(snapshot.settings.encoder).folder, encoder_fingerprint_of(snapshot, None, 1.0)
    if model is None or model.dimension is None:
        return 0
    index = snapshot.store.artifact(VectorsInfo)
    if index and index.fingerprint != INCOMPLETE and index.info.chunk_encoder == base:
        return index.info.chunks  # of the cache all files would be read, and texts that occur twice count once there
    folder = snapshot.project.path / "cache" / base
    return len(VectorCache(folder, model.dimension, reading=True)) if folder.is_dir() else 0


def seconds_per_encoding(should_stop: Callable[[], bool], folder: str) -> float:
    """Seconds that the project's base encoder takes for a chunk, measured on some of the project's own."""
    project = ProjectFolder(Path(folder))
    with closing(project.store()) as store:
        texts = store.sample_chunk_texts(SAMPLE)
    chosen = project.settings().encoder
    encoder = encoder_source(chosen).load(chosen.max_tokens)
    encoder.encode_chunks(texts[:WARM_UP])
    done, started = 0, time.monotonic()
    while not should_stop() and (not done or time.monotonic() - started < ENOUGH_SECONDS):
        encoder.encode_chunks(texts)
        done += len(texts)
    return (time.monotonic() - started) / max(1, done)


if __name__ == "__main__":
    answer(seconds_per_encoding)
