"""Encoders compared on a project's own chunks and queries, each in its own process.

In a process of its own, the memory of an encoder can be measured, and a crash ends only one trial.
`python -m engine.evaluation.choosing.encoders FOLDER CHANGES` prints an `EncoderTrial`; CHANGES is
JSON with keys of [encoder], such as `{"model": "PATH"}`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.core.arrays import Ids
from engine.core.errors import CancelledError, EngineError, NotBuiltError, TooLittleTextError
from engine.core.events import Event, Progress
from engine.core.figures import FigureTable
from engine.core.messages.encoders import (
    EncoderComparison,
    EncoderResult,
    EncoderTrial,
    TrialFigures,
)
from engine.core.messages.wire import from_json, to_json
from engine.core.platforms.files import try_remove_tree
from engine.core.records import Chunk
from engine.core.subprocesses import run_as_child, run_in_subprocess
from engine.core.systems import BM25
from engine.encoders.choosing.library import list_encoders, resolve_name
from engine.encoders.fingerprint import missing_prompts
from engine.encoders.for_project import chunk_vectors, load_encoder
from engine.encoders.kinds.chosen import encoder_source
from engine.endpoint.address import KEY
from engine.evaluation.choosing.fusion import HybridFusion, default_share
from engine.evaluation.comparison import compare_values, measure_ndcg
from engine.evaluation.document_set import FOLDER, find_document_set
from engine.evaluation.judgments import clusters_of
from engine.evaluation.pool import draw_pool
from engine.evaluation.query_sets import QuerySet, build_query_sets
from engine.evaluation.rankers import SAMPLE, Rankers, build_sample_index
from engine.evaluation.rungs import (
    CERTIFYING,
    RUNGS,
    Evidence,
    RungName,
    choose_shown,
)
from engine.project.folder import ProjectFolder
from engine.project.stage import StageContext
from engine.project.store.artifact_info import CorpusInfo, LexicalInfo
from engine.project.store.chunks import IN_MEMORY
from engine.settings.schema import EncoderSettings

if TYPE_CHECKING:
    from engine.encoders.encoder import Encoder

SEMANTIC = "semantic"
HYBRID = "hybrid"
OWN = ""
"""Name of the project's own encoder in a comparison, and of the encoder's rankings in a trial."""
OF_A_MODEL = {
    "endpoint",
    "endpoint_model",
    "endpoint_allow_public",
    "query_prompt",
    "document_prompt",
    "pooling",
}
"""Settings of [encoder] that belong to the configured model, and are reset for another one."""
TIMED_TEXTS = 64
"""Number of chunks that are timed."""
TIMED_QUERIES = 16
"""Number of queries that are timed."""


def compare_encoders(
    project: ProjectFolder,
    named: Sequence[str],
    should_stop: Callable[[], bool],
    begin: Callable[[str], object],
) -> EncoderComparison:
    """Measure the project's encoder (without adapter or small model) and the `named` ones.

    An encoder is named by a path, by its name in `list_encoders`, or by a server's address with the
    model's name there after a #. `begin` is called with the name before each trial, empty for the
    project's own. The result of an encoder that fails has an `error`. Computed vectors stay in the
    cache.

    Raises UsageError for an unknown name, NotBuiltError, TooLittleTextError without queries,
    ProjectBusyError during a run, CancelledError.
    """
    settings = project.settings()
    # Before the first trial, which takes long.
    changes = {name: _list_changes(name, settings.encoder) for name in named}
    changes[OWN] = {}
    trials: dict[str, EncoderTrial | EngineError] = {}
    with project.locked():
        for name in dict.fromkeys((OWN, *named)):
            begin(name)
            try:
                trials[name] = _run_trial(
                    project,
                    changes[name],
                    should_stop,
                )
            except (CancelledError, NotBuiltError, TooLittleTextError):
                raise
            except EngineError as error:
                trials[name] = error
            finally:
                for folder in (FOLDER, SAMPLE):
                    try_remove_tree(project.path / "lexical" / folder)
    return _compare_trials(
        trials,
        settings.evaluation.bootstrap_samples,
        settings.training.seed,
    )


def _run_trial(
    project: ProjectFolder, changes: dict[str, Any], should_stop: Callable[[], bool]
) -> EncoderTrial:
    """Measure the project's encoder, with `changes` to [encoder], in a process of its own."""
    arguments = [str(project.path), json.dumps(changes)]
    trial = run_in_subprocess(
        __name__,
        arguments,
        "The trial",
        should_stop,
        stderr=None,
    )
    return from_json(EncoderTrial, trial)


def _list_changes(name: str, settings: EncoderSettings) -> dict[str, Any]:
    """Return the keys of [encoder] to change for the encoder `name`.

    Settings of the configured model, such as its prompts and pooling, go back to their defaults.
    Raises UsageError.
    """
    defaults = EncoderSettings().model_dump(include=OF_A_MODEL)
    changes = {key: value for key, value in defaults.items() if getattr(settings, key) != value}
    address, _, model = name.partition("#")
    # The permission for a public server covers the address that is configured with it.
    if address == settings.endpoint:
        changes.pop("endpoint_allow_public", None)
    if "://" in name:
        return changes | {"endpoint": address, "endpoint_model": model}
    return changes | {"model": resolve_name(name, list_encoders(settings.folders))}


def _compare_trials(
    trials: dict[str, EncoderTrial | EngineError], samples: int, seed: int
) -> EncoderComparison:
    """Compare the encoders on the queries of one rung, which `choose_shown` chooses."""
    finished: dict[str, EncoderTrial] = {}
    results = []
    for name, outcome in trials.items():
        if isinstance(outcome, EncoderTrial):
            finished[name] = outcome
            results.append(EncoderResult(name, outcome))
        else:
            results.append(EncoderResult(name, None, outcome))
    if not finished:
        return EncoderComparison(tuple(results))
    first = next(iter(finished))
    rungs = [rung for rung in RUNGS if rung in finished[first].rungs]
    shown = choose_shown([_build_evidence(rung, finished) for rung in rungs], first)
    values = {}
    for name, trial in finished.items():
        figures = trial.rungs[shown.rung]
        values[name] = {
            SEMANTIC: np.array(figures.semantic),
            HYBRID: np.array(figures.hybrid),
            BM25: np.array(figures.bm25),
        }
    pairs = {}
    if OWN in finished:
        pairs = {(name, OWN): (SEMANTIC, HYBRID) for name in finished if name != OWN}
    intervals, gaps = compare_values(
        values,
        pairs,
        samples,
        seed,
        shown.clusters,
    )
    queries_of_documents = Counter(finished[first].rungs[shown.rung].documents)
    table = FigureTable(
        base=OWN,
        queries=shown.queries,
        left_out=0,
        systems=intervals,
        differences={name: gap for (name, _), gap in gaps.items()},
        one_document=max(queries_of_documents.values()),
        ranked=finished[first].ranked,
    )
    if shown.rung not in CERTIFYING:
        table = table.of_flattering_queries()
    needed = None
    if not shown.suffices(first):
        needed = shown.count_needed(first)
    return EncoderComparison(
        tuple(results),
        shown.rung,
        needed,
        table,
    )


def _build_evidence(rung: RungName, trials: Mapping[str, EncoderTrial]) -> Evidence:
    """Return a rung's figures of all encoders in hybrid search, which is the default mode."""
    systems = {name: np.array(trial.rungs[rung].hybrid) for name, trial in trials.items()}
    first = next(iter(trials.values()))
    return Evidence(
        rung,
        systems,
        clusters=np.array(first.rungs[rung].documents),
    )


def try_encoder(
    project: ProjectFolder, changes: dict[str, Any], should_stop: Callable[[], bool]
) -> EncoderTrial:
    """Measure the project's encoder with `changes` to [encoder].

    Vectors are taken from the cache, and new ones are added to it. Raises NotBuiltError before the
    stage `index`, TooLittleTextError without queries, and any error of the encoder.
    """
    settings = project.settings()
    encoder = settings.encoder.model_copy(update=changes | {"small_model": ""})
    # The key in the environment belongs to the configured server only.
    if encoder.endpoint != settings.encoder.endpoint:
        os.environ.pop(KEY, None)
    folder = None
    if changes:
        folder = encoder_source(encoder).folder
    if folder is not None and (prompts := missing_prompts(folder)):
        changes = changes | {"query_prompt": prompts.query, "document_prompt": prompts.document}
        encoder = encoder.model_copy(update=changes)
    with closing(project.store()) as store:
        chosen = settings.model_copy(update={"encoder": encoder})
        context = StageContext(
            project=project,
            settings=chosen,
            store=store,
            stage="encoders",
            emit=_print_progress,
            should_stop=should_stop,
        )
        context.need(CorpusInfo)
        context.need(LexicalInfo)
        return _measure_encoder(context, changes)


def _measure_encoder(context: StageContext, changes: dict[str, Any]) -> EncoderTrial:
    """Measure speed, memory and retrieval of the context's encoder."""
    chunks = context.store.chunks()
    sets = build_sets(context, chunks)
    if not sets:
        raise TooLittleTextError(
            "There are no queries to compare encoders on.",
            "No queries are judged, found in the documents, or held out.",
            f"Judge some hits with 'engine judge {context.project.argument}', or make queries with"
            " 'engine generate'.",
            code="queries-none-to-compare",
            command="judge",
        )
    source = encoder_source(context.settings.encoder)
    encoder = load_encoder(context)
    first_set, _ = sets[0]
    speed, seconds, memory = _measure_speed(
        encoder,
        chunks,
        first_set.texts,
    )
    figures = {}
    for queries, rankers in sets:
        figures[str(queries.rung)] = _measure_set(
            context,
            encoder,
            queries,
            rankers,
        )
    return EncoderTrial(
        name=source.name,
        rungs=figures,
        texts_per_second=speed,
        query_seconds=seconds,
        # The memory of a server is not in this process.
        memory=None if source.server else memory,
        dimension=encoder.dimension,
        changes=changes,
        ranked=count_ranked(sets, chunks),
    )


def build_sets(
    context: StageContext, chunks: Sequence[Chunk], most: int = IN_MEMORY
) -> list[tuple[QuerySet, Rankers]]:
    """Return the usable query sets on the ladder, each with the rankers of its corpus.

    Document-written queries have a corpus without their own texts. If there are more than `most`
    chunks, a corpus is a sample.
    """
    sets = build_query_sets(context, chunks)
    written = find_document_set(context, chunks)
    all_sets = sets if written is None else [*sets, written.queries]
    pool = draw_pool(
        context,
        chunks,
        all_sets,
        most,
    )
    lexical = None
    if len(pool) < len(chunks):
        lexical = build_sample_index(context, pool)
    rankers = Rankers(context, pool, lexical)
    pairs = [(queries, rankers) for queries in sets]
    if written is not None:
        pairs.append((written.queries, written.build_rankers(context, pool)))
    rungs = RUNGS if context.settings.evaluation.use_judged else RUNGS[1:]
    return [
        (queries, corpus) for queries, corpus in pairs if queries.rung in rungs and queries.usable()
    ]


def count_ranked(sets: Sequence[tuple[QuerySet, Rankers]], chunks: Sequence[Chunk]) -> int:
    """Return the size of the sample of chunks that queries were ranked among, 0 for all chunks."""
    _, rankers = sets[0]
    ranked = len(rankers.chunks)
    return ranked if ranked < len(chunks) else 0


def _measure_set(
    context: StageContext, encoder: Encoder, queries: QuerySet, rankers: Rankers
) -> TrialFigures:
    """Return nDCG@10 per query of a set in each search mode."""
    allowed = rankers.find_allowed(queries)
    chunks = chunk_vectors(
        context,
        encoder,
        rankers.chunks,
    )
    vectors = encoder.encode_queries(queries.texts, lambda _done: context.check_stop())
    queries.rankings[BM25], queries.scores[BM25] = rankers.bm25(queries.texts, allowed)
    rankers.rank_by_encoder(
        OWN,
        queries,
        vectors,
        chunks,
        allowed,
        encoder.similarity,
    )
    fuser = HybridFusion(
        context.settings, lambda _, ids: rankers.lexical.scores_many(queries.texts, ids)
    )
    fused = fuser.fuse(
        queries,
        OWN,
        default_share(context),
    )
    rows = queries.usable()
    judgments = queries.usable_judgments()

    def measure(ranking: Ids) -> tuple[float, ...]:
        return tuple(measure_ndcg(ranking[rows], judgments, rankers.document_of).tolist())

    return TrialFigures(
        semantic=measure(queries.rankings[OWN]),
        hybrid=measure(fused),
        bm25=measure(queries.rankings[BM25]),
        documents=tuple(clusters_of(judgments).tolist()),
    )


def _measure_speed(
    encoder: Encoder, chunks: Sequence[Chunk], queries: Sequence[str]
) -> tuple[float, float, int]:
    """Return texts per second, seconds per query, and bytes of memory with child processes."""
    import psutil

    def time_encoding(texts: Sequence[str]) -> float:
        # Queries are encoded as chunks, too, because a server's query vectors are cached.
        started = time.perf_counter()
        encoder.encode_chunks(texts)
        return time.perf_counter() - started

    step = max(1, len(chunks) // TIMED_TEXTS)
    texts = [chunk.embedded_text for chunk in chunks[::step][:TIMED_TEXTS]]
    # The first call also loads what is loaded at first use.
    time_encoding(texts[:1])
    texts_per_second = len(texts) / time_encoding(texts)
    query_seconds = median(time_encoding([text]) for text in queries[:TIMED_QUERIES])
    process = psutil.Process()
    processes = (process, *process.children(recursive=True))
    memory = sum(process.memory_info().rss for process in processes)
    return texts_per_second, query_seconds, memory


def _print_progress(event: Event) -> None:
    """Write the progress of a trial over the same line of a terminal, which is empty at the end."""
    if isinstance(event, Progress) and sys.stderr.isatty():
        text = f"  {event.done:,} of {event.total:,} {event.unit}"
        if event.done == event.total:
            text = " " * len(text) + "\r"
        print(
            f"\r{text}",
            end="",
            file=sys.stderr,
            flush=True,
        )


def _answer_parent(
    should_stop: Callable[[], bool],
    folder: str,
    changes: str,
) -> Any:
    """Return the JSON of a trial; `folder` and `changes` are the arguments from `_run_trial`."""
    trial = try_encoder(
        ProjectFolder(Path(folder)),
        json.loads(changes),
        should_stop,
    )
    return to_json(trial)


if __name__ == "__main__":
    run_as_child(_answer_parent)
