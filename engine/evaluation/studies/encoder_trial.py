"""One encoder on a project's chunks and queries, in a process of its own: its memory can be seen there, and its crash ends nothing
else.

`python -m engine.evaluation.studies.encoder_trial FOLDER CHANGES` prints an `EncoderTrial`; CHANGES is JSON, keys of [encoder].
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from engine.core.errors import TooLittleTextError
from engine.core.events import Event, Progress, Warned
from engine.core.messages.encoders import EncoderTrial
from engine.core.messages.wire import to_json
from engine.core.records import Chunk
from engine.core.subprocesses import answer
from engine.encoders.fingerprint import missing_prompts
from engine.encoders.for_project import chunk_vectors, load_encoder
from engine.encoders.kinds.chosen import base_source
from engine.evaluation.comparison import measure
from engine.evaluation.document_set import document_set
from engine.evaluation.evidence import RUNGS, RungName
from engine.evaluation.query_sets import QuerySet, query_sets
from engine.evaluation.rankers import Rankers
from engine.evaluation.studies.fusion import undecided_share
from engine.evaluation.studies.hybrid import HybridFusion
from engine.project.folder import ProjectFolder
from engine.project.stage import StageContext
from engine.project.store.artifact_info import CorpusInfo, LexicalInfo
from engine.queries.heldout import MIN_TO_CHOOSE

if TYPE_CHECKING:
    from engine.encoders.encoder import Encoder

TIMED_TEXTS, TIMED_QUERIES = 64, 16
OWN = "own"


def try_encoder(project: ProjectFolder, changes: dict[str, Any], should_stop: Callable[[], bool]) -> EncoderTrial:
    """The project's encoder with `changes`; vectors that the project has already are not computed again, and new ones are kept.

    Raises NotBuiltError before the stage `index`, TooLittleTextError where there is no query, and whatever ends the encoder.
    """
    settings = project.settings()
    encoder = settings.encoder.model_copy(update=changes)
    folder = base_source(encoder).folder if changes else None
    if folder is not None and (prompts := missing_prompts(folder)):
        changes = changes | {"query_prompt": prompts.query, "document_prompt": prompts.document}
        encoder = encoder.model_copy(update=changes)
    with closing(project.store()) as store:
        chosen = settings.model_copy(update={"encoder": encoder})
        context = StageContext(project, chosen, store, "encoders", "", "", _Shown(), should_stop)
        context.need(CorpusInfo)
        context.need(LexicalInfo)
        return _tried(context, changes)


def _tried(context: StageContext, changes: dict[str, Any]) -> EncoderTrial:
    rung, one, rankers, rows = _evidence(context, context.store.chunks())
    source, encoder = base_source(context.settings.encoder), load_encoder(context)
    speed, seconds, memory = _timed(encoder, rankers.chunks, one.texts, context.check_stop)
    similarity, among = encoder.similarity, rankers.allowed(one)
    vectors = chunk_vectors(context, encoder, rankers.chunks)
    queries = encoder.encode_queries(one.texts, lambda _done: context.check_stop())
    one.rankings["bm25"], one.scores["bm25"] = rankers.bm25(one.texts, among)
    one.rankings[OWN], one.scores[OWN] = rankers.nearest(queries, vectors, among, similarity)
    one.beside[OWN] = rankers.scores_of(queries, vectors, one.rankings["bm25"], similarity)
    fusion = HybridFusion(context.settings, lambda same, ids: rankers.lexical.scores_many(same.texts, ids))
    fused = fusion.fused(one, OWN, undecided_share(context.settings.search))
    judgments = [one.judgments[row] for row in rows]
    semantic, hybrid, bm25 = (
        tuple(measure(ranking[rows], judgments, rankers.document_of)["ndcg@10"].tolist())
        for ranking in (one.rankings[OWN], fused, one.rankings["bm25"])
    )
    return EncoderTrial(
        source.name, rung, semantic, hybrid, bm25, speed, seconds, None if source.server else memory, encoder.dimension, changes
    )  # fmt: skip


def _evidence(context: StageContext, chunks: list[Chunk]) -> tuple[RungName, QuerySet, Rankers, list[int]]:
    """The highest rung with enough queries to compare, else the highest with any: its queries, the corpus that they are asked
    of, and the rows that count."""
    own = Rankers(context, chunks)
    found = [
        (rung, one, own, rows) for one in query_sets(context, chunks) for rung, rows in one.rungs().items() if rows
    ]
    found = [one for one in found if one[0] != "judged" or context.settings.evaluation.use_judged]
    enough = any(rung == "judged" and len(rows) >= MIN_TO_CHOOSE for rung, _, _, rows in found)
    if not enough and (written := document_set(context, chunks)):
        one, corpus = written
        found += [(rung, one, corpus, rows) for rung, rows in one.rungs().items() if rows]
    found.sort(key=lambda one: RUNGS.index(one[0]))
    if not found:
        raise TooLittleTextError(
            "There are no queries to compare encoders on.",
            "The project has neither judged questions, nor headings and titles that ask for a part of it, nor held-out queries.",
            f"Judge some hits with 'engine judge {context.project.argument}', or make queries with 'engine generate'.",
            code="queries-none-to-compare", command="judge",
        )  # fmt: skip
    return next((one for one in found if len(one[3]) >= MIN_TO_CHOOSE), found[0])


def _timed(
    encoder: Encoder, chunks: Sequence[Chunk], queries: Sequence[str], check: Callable[[], None]
) -> tuple[float, float, int]:
    """Texts in a second, seconds for one query, and bytes of memory of this process and those that it has started."""
    import psutil

    step = max(1, len(chunks) // TIMED_TEXTS)
    texts = [chunk.embedded_text for chunk in chunks[::step][:TIMED_TEXTS]]
    encoder.encode_chunks(texts[:1])  # what is loaded at first use is loaded now
    started = time.perf_counter()
    encoder.encode_chunks(texts, lambda _done: check())
    speed = len(texts) / (time.perf_counter() - started)
    spent = []
    for query in queries[:TIMED_QUERIES]:
        started = time.perf_counter()
        encoder.encode_chunks([query])  # as queries are not: a server's are kept
        spent.append(time.perf_counter() - started)
    own = psutil.Process()
    memory = sum(one.memory_info().rss for one in (own, *own.children(recursive=True)))
    return round(speed, 2), round(median(spent), 6), memory


class _Shown:
    """Progress, each tenth, and warnings on standard error."""

    def __init__(self) -> None:
        self._tenth = 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, Warned):
            print(f"  ! {event.text}", file=sys.stderr)
        elif isinstance(event, Progress) and (tenth := 10 * event.done // max(1, event.total)) > self._tenth:
            self._tenth = tenth
            print(f"  {event.done:,} of {event.total:,} {event.unit}", file=sys.stderr)


if __name__ == "__main__":
    answer(
        lambda should_stop, folder, changes: to_json(
            try_encoder(ProjectFolder(Path(folder)), json.loads(changes), should_stop)
        )
    )
