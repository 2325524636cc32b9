"""Encoders compared on a project's own chunks and queries, each in a process of its own: its
memory can be seen there, and its crash ends nothing else.

`python -m engine.evaluation.studies.encoders FOLDER CHANGES` prints an `EncoderTrial`; CHANGES is
JSON, keys of [encoder].
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

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
from engine.core.records import Chunk
from engine.core.subprocesses import answer, run_in_subprocess
from engine.encoders.choosing.library import list_encoders, resolve_name
from engine.encoders.fingerprint import missing_prompts
from engine.encoders.for_project import chunk_vectors, load_encoder
from engine.encoders.kinds.chosen import encoder_source
from engine.endpoint.address import KEY
from engine.evaluation.comparison import compared, measure
from engine.evaluation.document_set import FOLDER, document_set
from engine.evaluation.evidence import CERTIFYING, RUNGS, Evidence, RungName, from_top, measured_on
from engine.evaluation.judgments import clusters_of
from engine.evaluation.query_sets import QuerySet, query_sets
from engine.evaluation.rankers import Rankers
from engine.evaluation.studies.fusion import HybridFusion, default_share
from engine.project.folder import ProjectFolder
from engine.project.stage import StageContext
from engine.project.store.artifact_info import CorpusInfo, LexicalInfo
from engine.settings.schema import EncoderSettings

if TYPE_CHECKING:
    from engine.encoders.encoder import Encoder

SEMANTIC = "semantic"
HYBRID = "hybrid"
BM25 = "bm25"
OWN = ""
OF_A_MODEL = {
    "endpoint",
    "endpoint_model",
    "endpoint_allow_public",
    "query_prompt",
    "document_prompt",
    "pooling",
}
TIMED_TEXTS = 64
TIMED_QUERIES = 16


def compare_encoders(
    project: ProjectFolder,
    named: Sequence[str],
    should_stop: Callable[[], bool],
    begin: Callable[[str], object],
) -> EncoderComparison:
    """Measure the project's encoder (without adapter or small model), then those that are
    `named`: by a path, as `list_encoders` calls them, or by a server's address with the model's
    name there behind a #. `begin` is called with each. One that fails has an `error`.

    Raises NotBuiltError, TooLittleTextError without queries, ProjectBusyError during a run,
    CancelledError: vectors are kept.
    """
    settings = project.settings()
    trials = dict[str, EncoderTrial | EngineError]()
    with project.locked():
        for one in dict.fromkeys((OWN, *named)):
            begin(one)
            try:
                arguments = [
                    str(project.path),
                    json.dumps(_changes(one, settings.encoder) if one else {}),
                ]
                found = run_in_subprocess(
                    __name__, arguments, "The trial", should_stop, stderr=None
                )
                trials[one] = from_json(EncoderTrial, found)
            except (CancelledError, NotBuiltError, TooLittleTextError):
                raise
            except EngineError as error:
                trials[one] = error
            finally:
                shutil.rmtree(project.path / "lexical" / FOLDER, ignore_errors=True)
    return _compared(trials, settings.evaluation.bootstrap_samples, settings.training.seed)


def _changes(named: str, now: EncoderSettings) -> dict[str, Any]:
    """The keys of [encoder] to change for an encoder: prompts and pooling are as its model says.

    Raises UsageError.
    """
    default = EncoderSettings().model_dump(include=OF_A_MODEL)
    changes = {key: value for key, value in default.items() if getattr(now, key) != value}
    address, _, model = named.partition("#")
    if address == now.endpoint:  # the permission is for the server that is named beside it
        changes.pop("endpoint_allow_public", None)
    if "://" in named:
        return changes | {"endpoint": address, "endpoint_model": model}
    return changes | {"model": resolve_name(named, list_encoders(now.folders))}


def _compared(
    trials: dict[str, EncoderTrial | EngineError], samples: int, seed: int
) -> EncoderComparison:
    """On the rung that decides between them, else on one with too few queries."""
    done = {named: one for named, one in trials.items() if isinstance(one, EncoderTrial)}
    results = tuple(
        (
            EncoderResult(named, one)
            if isinstance(one, EncoderTrial)
            else EncoderResult(named, None, one)
        )
        for named, one in trials.items()
    )
    if not done:
        return EncoderComparison(results)
    first = next(iter(done))
    ladder = from_top([_evidence(rung, done) for rung in RUNGS if rung in done[first].rungs])
    shown = measured_on(ladder, first)
    values = {}
    for named, one in done.items():
        rung = one.rungs[shown.rung]
        values[named] = {
            SEMANTIC: np.array(rung.semantic),
            HYBRID: np.array(rung.hybrid),
            BM25: np.array(rung.bm25),
        }
    pairs = {(named, OWN): (SEMANTIC, HYBRID) for named in done if named != OWN and OWN in done}
    figures, gaps = compared(values, pairs, samples, seed, shown.clusters)
    rows = {named: gap for (named, _), gap in gaps.items()}
    documents = done[first].rungs[shown.rung].documents
    table = FigureTable(
        OWN, shown.queries, 0, figures, rows, one_document=max(Counter(documents).values())
    )
    if shown.rung not in CERTIFYING:
        table = table.of_flattering_queries()
    return EncoderComparison(
        results, shown.rung, None if shown.suffices(first) else shown.needed(first), table
    )


def _evidence(rung: RungName, trials: Mapping[str, EncoderTrial]) -> Evidence:
    """What hybrid search gave: of both modes the one that users have by default."""
    found = {named: one.rungs[rung] for named, one in trials.items()}
    documents = np.array(next(iter(found.values())).documents)
    return Evidence(rung, {named: np.array(one.hybrid) for named, one in found.items()}, documents)


def try_encoder(
    project: ProjectFolder, changes: dict[str, Any], should_stop: Callable[[], bool]
) -> EncoderTrial:
    """The project's encoder with `changes`; vectors that the project has already are not
    computed again, and new ones are kept.

    Raises NotBuiltError before the stage `index`, TooLittleTextError where there is no query, and
    whatever ends the encoder.
    """
    settings = project.settings()
    encoder = settings.encoder.model_copy(update=changes | {"small_model": "", "vectors": ""})
    if encoder.endpoint != settings.encoder.endpoint:  # the key is not that server's
        os.environ.pop(KEY, None)
    if changes:
        folder = encoder_source(encoder).folder
    else:
        folder = None
    if folder is not None and (prompts := missing_prompts(folder)):
        changes = changes | {"query_prompt": prompts.query, "document_prompt": prompts.document}
        encoder = encoder.model_copy(update=changes)
    with closing(project.store()) as store:
        chosen = settings.model_copy(update={"encoder": encoder})
        context = StageContext(project, chosen, store, "encoders", "", "", _show, should_stop)
        context.need(CorpusInfo)
        context.need(LexicalInfo)
        return _tried(context, changes)


def _tried(context: StageContext, changes: dict[str, Any]) -> EncoderTrial:
    chunks = context.store.chunks()
    if context.settings.evaluation.use_judged:
        wanted = RUNGS
    else:
        wanted = RUNGS[1:]
    rankers = Rankers(context, chunks)
    found = [(one, rankers) for one in query_sets(context, chunks)]
    found += filter(None, [document_set(context, chunks)])
    sets = [(one, asked) for one, asked in found if one.rung in wanted and one.usable()]
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
    speed, seconds, memory = _timed(encoder, chunks, sets[0][0].texts)
    figures = {str(one.rung): _figures(context, encoder, one, asked) for one, asked in sets}
    own = None if source.server else memory
    return EncoderTrial(source.name, figures, speed, seconds, own, encoder.dimension, changes)


def _figures(
    context: StageContext, encoder: Encoder, one: QuerySet, rankers: Rankers
) -> TrialFigures:
    """Of the queries of a set, asked of a corpus."""
    similarity = encoder.similarity
    among = rankers.allowed(one)
    vectors = chunk_vectors(context, encoder, rankers.chunks)
    queries = encoder.encode_queries(one.texts, lambda _done: context.check_stop())
    one.rankings[BM25], one.scores[BM25] = rankers.bm25(one.texts, among)
    one.rankings[OWN], one.scores[OWN] = rankers.nearest(queries, vectors, among, similarity)
    one.beside[OWN] = rankers.scores_of(queries, vectors, one.rankings[BM25], similarity)
    fusion = HybridFusion(
        context.settings, lambda same, ids: rankers.lexical.scores_many(same.texts, ids)
    )
    fused = fusion.fused(one, OWN, default_share(context))
    rows = one.usable()
    judgments = [one.judgments[row] for row in rows]
    semantic, hybrid, bm25 = (
        tuple(measure(ranking[rows], judgments, rankers.document_of)["ndcg@10"].tolist())
        for ranking in (one.rankings[OWN], fused, one.rankings[BM25])
    )
    return TrialFigures(semantic, hybrid, bm25, tuple(clusters_of(judgments).tolist()))


def _timed(
    encoder: Encoder, chunks: Sequence[Chunk], queries: Sequence[str]
) -> tuple[float, float, int]:
    """Texts in a second, seconds for one query, and bytes of memory of this process and those
    that it has started.
    """
    import psutil

    def seconds(texts: Sequence[str]) -> float:
        started = time.perf_counter()
        encoder.encode_chunks(texts)  # queries, too: a server's are kept
        return time.perf_counter() - started

    texts = [
        chunk.embedded_text for chunk in chunks[:: max(1, len(chunks) // TIMED_TEXTS)][:TIMED_TEXTS]
    ]
    seconds(texts[:1])  # what is loaded at first use is loaded now
    speed = len(texts) / seconds(texts)
    query = median(seconds([text]) for text in queries[:TIMED_QUERIES])
    own = psutil.Process()
    return speed, query, sum(one.memory_info().rss for one in (own, *own.children(recursive=True)))


def _show(event: Event) -> None:
    if isinstance(event, Progress):
        print(
            f"\r  {event.done:,} of {event.total:,} {event.unit}",
            end="",
            file=sys.stderr,
            flush=True,
        )


if __name__ == "__main__":
    answer(
        lambda stop, folder, changes: to_json(
            try_encoder(ProjectFolder(Path(folder)), json.loads(changes), stop)
        )
    )
