"""The project's queries, rankings and chunks as training data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import DamagedError
from engine.core.records import Chunk, DocumentQuery, Query
from engine.encoders.kinds.chosen import encoder_source
from engine.metrics.relevance import pad_rows
from engine.project.stage import StageContext
from engine.project.store.artifact_info import LexicalInfo, RankingsInfo
from engine.project.store.chunks import drawn
from engine.queries.choosing import is_extractive, made_by
from engine.queries.document_written import held_by, stripped, untrained
from engine.queries.heldout import cap_queries, related_in, unrelated_documents
from engine.queries.imported import graded_answers
from engine.ranking.rankings_file import RankedLists
from engine.ranking.sampling import SampledLists, sample_lists
from engine.settings.schema import Settings
from engine.training.config import TrainingConfig
from engine.training.data import TrainingData
from engine.training.recipe import teacher_folder
from engine.written_queries.document_queries import document_queries

MIN_QUERIES = 20
HARD_PER_QUERY = 10
MIN_TO_STOP = 60
"""Held-out queries without which no check is made and the last step counts.

By nDCG@10 two steps differ by .2 a query (its standard deviation), so with 60 a difference of 5
points is two standard errors: about what an adaptation gains, or loses.
"""


def train_rows(settings: Settings, queries: Sequence[Query], chunks: Sequence[Chunk]) -> list[int]:
    """The training queries whose chunks exist, of these the share that is wanted; a larger share
    holds the smaller ones.
    """
    present = {chunk.id for chunk in chunks}
    rows = [
        row
        for row, query in enumerate(queries)
        if query.split == "train" and query.chunk_id in present
    ]
    if settings.training.query_share == 1 or not rows:
        return rows
    wanted = max(1, round(settings.training.query_share * len(rows)))
    return [
        rows[place]
        for place in cap_queries(
            [queries[row].text for row in rows], wanted, settings.training.seed
        )
    ]


def why_untrained(settings: Settings, queries: Sequence[Query], chunks: Sequence[Chunk]) -> str:
    """Why no adapter can be trained: of this encoder, or from so little; empty where one can."""
    if not (encoder := encoder_source(settings.encoder)).trains:
        return f"the encoder {encoder.name} cannot be trained"
    if len(chunks) < 2:
        return "the documents make a single chunk"
    if (count := len(train_rows(settings, queries, chunks))) < MIN_QUERIES:
        return (
            f"{count} training queries are too few to learn from (at least {MIN_QUERIES} are"
            " needed)"
        )
    return ""


def training_data(context: StageContext, config: TrainingConfig) -> TrainingData:
    """The project's queries, their rankings and its chunks (of many some that are `drawn`), with
    all that `config` learns from.

    Raises DamagedError where the rankings are not those of the queries.
    """
    queries = context.store.queries()
    chunks = context.store.chunks()
    ranked = RankedLists.load(context.project.folder_of(context.need(RankingsInfo)))
    if ranked.query_ids.tolist() != [query.id for query in queries]:
        raise DamagedError(
            "The rankings do not fit the queries.",
            "Other queries were ranked.",
            "Run 'engine rank --force'.",
            code="rankings-outdated",
            stage="rank",
            command="rank --force",
        )
    if config.method != "FT":
        # the masked words of all documents are learnt, and titles of some decide what comes into
        # use
        chunks = stripped(chunks, untrained(context, chunks, document_queries(context.store)))
    rows = train_rows(context.settings, queries, chunks)
    position = {chunk.id: place for place, chunk in enumerate(chunks)}
    places = _positions(ranked.ids, position)
    stopping, chunks = _stopping(context, queries, chunks, places)
    if config.uses_lists:
        lists = sampled_lists(context, ranked, rows, position)
    else:
        lists = None
    graded: Mapping[str, Mapping[int, int]] = {}
    if config.objective == "plackett_luce":
        graded = graded_answers(context.project, queries, chunks, context.store.documents())
    grades = [
        {position[id]: grade for id, grade in graded.get(queries[row].text, {}).items()}
        for row in rows
    ]
    positives = np.array([position[queries[row].chunk_id] for row in rows], dtype=np.int64)
    needed = [
        positives,
        stopping.positives,
        np.array([place for one in grades for place in one], dtype=np.int64),
    ]
    needed += [places[rows, slice(*config.negative_ranks)]] if config.negatives_per_query else []
    needed += [
        found for found in (stopping.hard, lists.chunks if lists else None) if found is not None
    ]
    kept = drawn(len(chunks), context.settings.training.seed, needed)
    at = np.full(len(chunks) + 1, -1, dtype=np.int64)  # the last place serves the padding −1
    at[kept] = np.arange(len(kept))
    seen = [chunks[place] for place in kept]
    base = _base_vectors(context, config, [queries[row].text for row in rows], seen, stopping.texts)
    return TrainingData(
        queries=[queries[row].text for row in rows],
        positives=at[positives],
        ranked_ids=at[places[rows]],
        ranked_scores=ranked.scores[rows],
        chunks=[chunk.embedded_text for chunk in seen],
        base_queries=base[0],
        base_chunks=base[1],
        base_heldout=base[2],
        heldout_queries=stopping.texts,
        heldout_positives=at[stopping.positives],
        heldout_hard=None if stopping.hard is None else at[stopping.hard],
        heldout_synthetic=stopping.synthetic,
        grades=(
            [{int(at[place]): grade for place, grade in one.items()} for one in grades]
            if graded
            else ()
        ),
        lists=replace(lists, chunks=at[lists.chunks]) if lists else None,
        cross_encoder=teacher_folder(context, config),
        everyday=_everyday(context, config, [queries[row] for row in rows]),
        keep_evidence=context.settings.ranking.keep_evidence,
    )


def _everyday(
    context: StageContext, config: TrainingConfig, queries: Sequence[Query]
) -> NDArray[np.bool_] | None:
    """Return which of the queries are everyday ones, where the recipe draws a share of them."""
    if config.everyday_share is None:
        return None
    found = np.array([query.kind == "everyday" for query in queries], dtype=np.bool_)
    if found.any() and not found.all():
        reason = (
            f"training.everyday_share; {found.sum()} of {len(found)} training queries are everyday"
            " ones"
        )
        context.choose("everyday queries in a step", f"{100 * config.everyday_share:g} %", reason)
    return found


@dataclass(frozen=True, slots=True)
class StoppingQueries:
    """What decides when training stops: `positives` (h,), places of chunks that answer; `hard`
    (h, j): places of competitors. `synthetic`: whether some of the queries were made from the
    documents.
    """

    texts: Sequence[str]
    positives: NDArray[np.int64]
    hard: NDArray[np.int64] | None
    synthetic: bool = False


def _stopping(
    context: StageContext, queries: Sequence[Query], chunks: list[Chunk], places: NDArray[np.int64]
) -> tuple[StoppingQueries, list[Chunk]]:
    """Document-written queries and those worded as questions, pooled, with the chunks without
    what the former ask; none where they are fewer than `MIN_TO_STOP`, and the chunks as they
    are.
    """
    store = context.store
    related = related_in(store, store.documents())
    written = written_for_stopping(queries, document_queries(store), chunks, related)
    rows = generated_for_stopping(queries, chunks, made_by(context))
    count = len(written) + len(rows)
    if count < MIN_TO_STOP:
        why = (
            "titles, headings and queries by a language model of the validation documents are"
            f" {count}, fewer than {MIN_TO_STOP}; extractive ones flatter what is trained"
        )
        context.choose("stopped by", "nothing, the last step counts", why)
        return StoppingQueries([], np.empty(0, dtype=np.int64), None), chunks
    value = f"{len(written)} titles and headings, {len(rows)} imported or model-written queries"
    context.choose("stopped by", value, "they are of validation documents, and none is extractive")
    position = {chunk.id: place for place, chunk in enumerate(chunks)}
    first = {chunk.document_id: place for place, chunk in reversed(list(enumerate(chunks)))}
    answers = [
        first[one.document_id] if one.chunk_id is None else position[one.chunk_id]
        for one in written
    ]
    answers += [position[queries[row].chunk_id] for row in rows]
    texts = [one.text for one in written]
    hard = pad_rows([], -1, np.int64, HARD_PER_QUERY)
    if written:
        hard = without_answers(_positions(_best_by_bm25(context, texts), position), written, chunks)
    ranked = pad_rows(places[rows][:, :HARD_PER_QUERY].tolist(), -1, np.int64, HARD_PER_QUERY)
    texts += [queries[row].text for row in rows]
    found = StoppingQueries(
        texts, np.array(answers, dtype=np.int64), np.concatenate([hard, ranked]), bool(rows)
    )
    return found, stripped(chunks, written)


def written_for_stopping(
    queries: Sequence[Query],
    written: Sequence[DocumentQuery],
    chunks: Sequence[Chunk],
    related: Mapping[int, int],
) -> list[DocumentQuery]:
    """Those of documents whose `queries`, with those of their copies and versions, are all of
    split `validation`.
    """
    others = {query.document_id for query in queries if query.split != "validation"}
    present = {chunk.id for chunk in chunks} | {None}
    free = unrelated_documents(others, related) & {query.document_id for query in queries}
    times = Counter(
        one.text for one in written
    )  # of a text with several answers none is the one to be found
    return [
        one for one in held_by(free, written) if one.chunk_id in present and times[one.text] == 1
    ]


def generated_for_stopping(
    queries: Sequence[Query], chunks: Sequence[Chunk], backend: str
) -> list[int]:
    """Of the generated ones, made by this `backend`, and the imported ones, those of split
    `validation` that are not extractive.
    """
    present = {chunk.id for chunk in chunks}
    return [
        row
        for row, query in enumerate(queries)
        if query.split == "validation"
        and query.chunk_id in present
        and not is_extractive(query, backend)
    ]


def without_answers(
    hard: NDArray[np.int64], written: Sequence[DocumentQuery], chunks: Sequence[Chunk]
) -> NDArray[np.int64]:
    """`hard` (h, j), places of chunks, with −1 for those of the document that a query for a
    whole document asks for.
    """
    owners = np.array([chunk.document_id for chunk in chunks])
    asked = np.array([one.document_id if one.chunk_id is None else -1 for one in written])
    return np.where(owners[hard] == asked[:, None], -1, hard)


def _best_by_bm25(context: StageContext, texts: Sequence[str]) -> NDArray[np.int64]:
    """(h, j) ids of the chunks that BM25 ranks first, padded with −1."""
    from engine.lexical.index import LexicalIndex

    index = LexicalIndex.open(context.project.folder_of(context.need(LexicalInfo)))
    return pad_rows(
        [ids for ids, _ in index.search_many(texts, HARD_PER_QUERY)], -1, np.int64, HARD_PER_QUERY
    )


def _positions(ids: NDArray[np.int64], position: dict[int, int]) -> NDArray[np.int64]:
    """Chunk ids → positions; −1 for padding and for chunks that are gone since."""
    known = np.array(sorted(position), dtype=np.int64)
    place = np.array([position[key] for key in known.tolist()], dtype=np.int64)
    slot = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    return np.where(known[slot] == ids, place[slot], -1)


def _base_vectors(
    context: StageContext,
    config: TrainingConfig,
    texts: list[str],
    chunks: Sequence[Chunk],
    heldout: Sequence[str],
) -> tuple[NDArray[np.float32] | None, NDArray[np.float32] | None, NDArray[np.float32] | None]:
    """The untouched encoder's vectors of queries and chunks, where the recipe looks at them;
    those of held-out queries, too, where it is a black box, which is not asked twice.
    """
    if not config.needs_vectors:
        return None, None, None
    from engine.encoders.for_project import cached, chunk_vectors, load_encoder

    encoder = load_encoder(context)
    found = chunk_vectors(context, encoder, chunks)
    if not config.augmentation:
        return encoder.encode_queries(texts, lambda _: context.check_stop()), found, None
    kept = cached(context, encoder).encode_queries(
        [*texts, *heldout], lambda _: context.check_stop()
    )
    return kept[: len(texts)], found, kept[len(texts) :]


def sampled_lists(
    context: StageContext, ranked: RankedLists, rows: list[int], position: dict[int, int]
) -> SampledLists:
    """BMEmbed's lists: one chunk per rank interval (METHODS.md §1)."""
    chosen = RankedLists(ranked.query_ids[rows], ranked.ids[rows], ranked.scores[rows])
    settings, seed = context.settings.ranking, context.settings.training.seed
    sampled = sample_lists(chosen, settings.m, settings.lists_per_query, seed, settings.strategy)
    row_of = {int(query): row for row, query in enumerate(chosen.query_ids)}
    owners = np.array([row_of[int(query)] for query in sampled.queries], dtype=np.int64)
    return SampledLists(owners, _positions(sampled.chunks, position), sampled.scores)
