"""The project's queries, rankings and chunks as training data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import DamagedError
from engine.core.records import Chunk, DocumentQuery, Query
from engine.encoders.kinds.chosen import encoder_source
from engine.metrics.relevance import pad_rows
from engine.project.stage import StageContext
from engine.project.store.artifact_info import LexicalInfo, RankingsInfo
from engine.project.store.chunks import sample_indices
from engine.queries.choosing import is_extractive, made_by
from engine.queries.document_written import find_untrained, strip_chunks, written_within
from engine.queries.heldout import cap_queries, related_in, unrelated_documents
from engine.queries.imported import graded_answers
from engine.ranking.rankings_file import RankedLists
from engine.ranking.sampling import SampledLists, sample_lists
from engine.settings.schema import Settings
from engine.training.candidates import candidate_lists, find_nearest
from engine.training.config import TrainingConfig
from engine.training.data import TrainingData
from engine.training.recipe import graded_of_source, is_of_source, teacher_folder
from engine.written_queries.document_queries import document_queries
from engine.written_queries.imports import has_validation_queries

MIN_QUERIES = 20
HARD_PER_QUERY = 10
MIN_TO_STOP = 60
"""Minimum number of held-out queries for checks; with fewer, the last step counts.

The per-query nDCG@10 of two steps differs by 0.2 (standard deviation), so with 60 queries a
difference of 5 points is two standard errors: about what an adaptation gains or loses.
"""


def train_rows(
    settings: Settings,
    queries: Sequence[Query],
    chunks: Sequence[Chunk],
    graded: Collection[str] = (),
) -> list[int]:
    """Return the rows of training queries whose chunks exist, or the wanted share of them.

    A larger share contains the smaller ones. `graded`: the texts of those that were imported with a
    grade, by which `training.query_source` selects.
    """
    source = settings.training.query_source
    present = {chunk.id for chunk in chunks}
    rows = []
    for row, query in enumerate(queries):
        if query.split != "train" or query.chunk_id not in present:
            continue
        if is_of_source(query.text, source, graded):
            rows.append(row)
    if settings.training.query_share == 1 or not rows:
        return rows
    wanted = max(1, round(settings.training.query_share * len(rows)))
    texts = [queries[row].text for row in rows]
    return [rows[index] for index in cap_queries(texts, wanted, settings.training.seed)]


def why_untrained(
    settings: Settings,
    queries: Sequence[Query],
    chunks: Sequence[Chunk],
    graded: Collection[str] = (),
) -> str:
    """Return why no adapter can be trained, empty if it can."""
    encoder = encoder_source(settings.encoder)
    if not encoder.trains:
        return f"the encoder {encoder.name} cannot be trained"
    if len(chunks) < 2:
        return "the documents make a single chunk"
    count = len(train_rows(settings, queries, chunks, graded))
    if count < MIN_QUERIES:
        source = settings.training.query_source
        named = "training" if source == "all" else source
        return (
            f"{count} {named} queries are too few to learn from (at least {MIN_QUERIES} are needed)"
        )
    return ""


def training_data(context: StageContext, config: TrainingConfig) -> TrainingData:
    """Return the project's queries, rankings and chunks, with all else that `config` learns from.

    Of many chunks a sample is used, which contains all that are needed. Raises DamagedError if the
    rankings are not those of the queries.
    """
    queries = context.store.queries()
    chunks = context.store.chunks()
    ranked = _load_rankings(context, queries)
    if config.method != "FT":
        # Pre-training learns the masked words of all documents, but the titles of some of them
        # decide what comes into use.
        written = document_queries(context.store)
        chunks = strip_chunks(chunks, find_untrained(context, chunks, written))
    rows = train_rows(context.settings, queries, chunks, graded_of_source(context))
    row_of = {chunk.id: row for row, chunk in enumerate(chunks)}
    ranked_rows = _rows_of(ranked.ids, row_of)
    stopping, chunks = _choose_stopping_queries(context, queries, chunks, ranked_rows)
    lists = None
    texts = [queries[row].text for row in rows]
    positives = np.array([row_of[queries[row].chunk_id] for row in rows], dtype=np.int64)
    if config.uses_candidates:
        nearest = find_nearest(context, config, texts, chunks)
        lists = candidate_lists(positives, ranked_rows[rows], ranked.scores[rows], nearest, config)
    elif config.uses_lists:
        lists = sampled_lists(context, ranked, rows, row_of)
    grades: list[dict[int, int]] = []
    source = context.settings.training.query_source
    if config.objective == "plackett_luce" and source != "generated":
        grades = _grade_chunks(context, queries, texts, chunks, row_of)
    graded_rows: list[int] = []
    for by_row in grades:
        graded_rows += by_row
    needed = [positives, stopping.positives, np.array(graded_rows, dtype=np.int64)]
    if config.negatives_per_query:
        needed.append(ranked_rows[rows, slice(*config.negative_ranks)])
    if stopping.hard is not None:
        needed.append(stopping.hard)
    if lists is not None:
        needed.append(lists.chunks)
    kept = sample_indices(len(chunks), context.settings.training.seed, needed)
    # Position of each row among the kept ones; the last one serves the padding −1.
    position = np.full(len(chunks) + 1, -1, dtype=np.int64)
    position[kept] = np.arange(len(kept))
    kept_chunks = [chunks[row] for row in kept]
    base_queries, base_chunks, base_heldout = _base_vectors(
        context, config, texts, kept_chunks, stopping.texts
    )
    heldout_hard = None
    if stopping.hard is not None:
        heldout_hard = position[stopping.hard]
    kept_grades = []
    for by_row in grades:
        kept_grades.append({int(position[row]): grade for row, grade in by_row.items()})
    if lists is not None:
        lists = replace(lists, chunks=position[lists.chunks])
    return TrainingData(
        queries=texts,
        positives=position[positives],
        ranked_ids=position[ranked_rows[rows]],
        ranked_scores=ranked.scores[rows],
        chunks=[chunk.embedded_text for chunk in kept_chunks],
        base_queries=base_queries,
        base_chunks=base_chunks,
        base_heldout=base_heldout,
        heldout_queries=stopping.texts,
        heldout_positives=position[stopping.positives],
        heldout_hard=heldout_hard,
        heldout_synthetic=stopping.synthetic,
        grades=kept_grades,
        lists=lists,
        cross_encoder=teacher_folder(context, config),
        everyday=_find_everyday(context, config, [queries[row] for row in rows]),
        keep_evidence=context.settings.ranking.keep_evidence,
    )


def _load_rankings(context: StageContext, queries: Sequence[Query]) -> RankedLists:
    """Load the rankings. Raises DamagedError if they are not those of the queries."""
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
    return ranked


def _grade_chunks(
    context: StageContext,
    queries: Sequence[Query],
    texts: Sequence[str],
    chunks: Sequence[Chunk],
    row_of: Mapping[int, int],
) -> list[dict[int, int]]:
    """Return the grades of each text's relevant chunks by row, or nothing without any grades."""
    graded = graded_answers(context.project, queries, chunks, context.store.documents())
    if not graded:
        return []
    grades = []
    for text in texts:
        by_id = graded.get(text, {})
        grades.append({row_of[chunk_id]: grade for chunk_id, grade in by_id.items()})
    return grades


def _find_everyday(
    context: StageContext, config: TrainingConfig, queries: Sequence[Query]
) -> NDArray[np.bool_] | None:
    """Return which of the queries are everyday ones, if the recipe draws a share of them."""
    if config.everyday_share is None:
        return None
    everyday = np.array([query.kind == "everyday" for query in queries], dtype=np.bool_)
    if everyday.any() and not everyday.all():
        reason = (
            f"training.everyday_share; {everyday.sum()} of {len(everyday)} training queries are"
            " everyday ones"
        )
        context.choose("everyday queries in a step", f"{100 * config.everyday_share:g} %", reason)
    return everyday


@dataclass(frozen=True, slots=True)
class StoppingQueries:
    """Queries that decide when training stops.

    `positives` (h,) are the rows of chunks that answer them, `hard` (h, j) those of competitors.
    `synthetic`: some of the queries were made from the documents.
    """

    texts: Sequence[str]
    positives: NDArray[np.int64]
    hard: NDArray[np.int64] | None
    synthetic: bool = False


def _choose_stopping_queries(
    context: StageContext,
    queries: Sequence[Query],
    chunks: list[Chunk],
    ranked_rows: NDArray[np.int64],
) -> tuple[StoppingQueries, list[Chunk]]:
    """Return validation queries, and the chunks without the document-written ones among them.

    Document-written queries and those worded as questions are pooled. If they are fewer than
    `MIN_TO_STOP`, there are none, and the chunks are unchanged. If a file of validation queries was
    imported, these alone are returned.
    """
    store = context.store
    written: list[DocumentQuery] = []
    if not has_validation_queries(context.project):
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
    row_of = {chunk.id: row for row, chunk in enumerate(chunks)}
    first_row_of: dict[int, int] = {}
    for row, chunk in enumerate(chunks):
        first_row_of.setdefault(chunk.document_id, row)
    answers = []
    for query in written:
        if query.chunk_id is None:
            answers.append(first_row_of[query.document_id])
        else:
            answers.append(row_of[query.chunk_id])
    answers += [row_of[queries[row].chunk_id] for row in rows]
    texts = [query.text for query in written]
    hard = pad_rows([], -1, np.int64, HARD_PER_QUERY)
    if written:
        best = _rows_of(_best_by_bm25(context, texts), row_of)
        hard = without_answers(best, written, chunks)
    best_rows = ranked_rows[rows][:, :HARD_PER_QUERY].tolist()
    ranked = pad_rows(best_rows, -1, np.int64, HARD_PER_QUERY)
    texts += [queries[row].text for row in rows]
    positives = np.array(answers, dtype=np.int64)
    stopping = StoppingQueries(texts, positives, np.concatenate([hard, ranked]), bool(rows))
    return stopping, strip_chunks(chunks, written)


def written_for_stopping(
    queries: Sequence[Query],
    written: Sequence[DocumentQuery],
    chunks: Sequence[Chunk],
    related: Mapping[int, int],
) -> list[DocumentQuery]:
    """Return the document-written queries of documents that are only used for validation.

    All queries of these documents, their copies and their versions are of split `validation`.
    """
    others = {query.document_id for query in queries if query.split != "validation"}
    free = unrelated_documents(others, related) & {query.document_id for query in queries}
    present = {chunk.id for chunk in chunks} | {None}
    times = Counter(query.text for query in written)
    usable = [query for query in written_within(free, written) if query.chunk_id in present]
    # If a text has several answers, none of them is the one to find.
    return [query for query in usable if times[query.text] == 1]


def generated_for_stopping(
    queries: Sequence[Query], chunks: Sequence[Chunk], backend: str
) -> list[int]:
    """Return the rows of validation queries, made by a backend or imported, but not extractive."""
    present = {chunk.id for chunk in chunks}
    rows = []
    for row, query in enumerate(queries):
        is_present = query.split == "validation" and query.chunk_id in present
        if is_present and not is_extractive(query, backend):
            rows.append(row)
    return rows


def without_answers(
    hard: NDArray[np.int64], written: Sequence[DocumentQuery], chunks: Sequence[Chunk]
) -> NDArray[np.int64]:
    """Return rows of chunks (h, j), with −1 for chunks of a document that answers as a whole."""
    owners = np.array([chunk.document_id for chunk in chunks])
    asked = np.full(len(written), -1)
    for row, query in enumerate(written):
        if query.chunk_id is None:
            asked[row] = query.document_id
    return np.where(owners[hard] == asked[:, None], -1, hard)


def _best_by_bm25(context: StageContext, texts: Sequence[str]) -> NDArray[np.int64]:
    """Return the ids of the chunks that BM25 ranks first (h, j), padded with −1."""
    from engine.lexical.index import LexicalIndex

    index = LexicalIndex.open(context.project.folder_of(context.need(LexicalInfo)))
    ids = [hits for hits, _ in index.search_many(texts, HARD_PER_QUERY)]
    return pad_rows(ids, -1, np.int64, HARD_PER_QUERY)


def _rows_of(ids: NDArray[np.int64], row_of: Mapping[int, int]) -> NDArray[np.int64]:
    """Return the rows of chunk ids, −1 for padding and for chunks that no longer exist."""
    known = np.array(sorted(row_of), dtype=np.int64)
    rows = np.array([row_of[key] for key in known.tolist()], dtype=np.int64)
    slots = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    return np.where(known[slots] == ids, rows[slots], -1)


def _base_vectors(
    context: StageContext,
    config: TrainingConfig,
    texts: list[str],
    chunks: Sequence[Chunk],
    heldout: Sequence[str],
) -> tuple[NDArray[np.float32] | None, NDArray[np.float32] | None, NDArray[np.float32] | None]:
    """Return the untouched encoder's vectors of queries, chunks and held-out queries.

    None for what the recipe does not use. Held-out queries are only encoded by a black box, which
    is asked for each text only once.
    """
    if not config.needs_vectors:
        return None, None, None
    from engine.encoders.for_project import add_cache, chunk_vectors, load_encoder

    encoder = load_encoder(context)
    of_chunks = chunk_vectors(context, encoder, chunks)
    if not config.augmentation:
        of_queries = encoder.encode_queries(texts, lambda _: context.check_stop())
        return of_queries, of_chunks, None
    all_texts = [*texts, *heldout]
    vectors = add_cache(context, encoder).encode_queries(all_texts, lambda _: context.check_stop())
    return vectors[: len(texts)], of_chunks, vectors[len(texts) :]


def sampled_lists(
    context: StageContext, ranked: RankedLists, rows: list[int], row_of: dict[int, int]
) -> SampledLists:
    """Return BMEmbed's lists: one chunk per rank interval (METHODS.md §1)."""
    chosen = RankedLists(ranked.query_ids[rows], ranked.ids[rows], ranked.scores[rows])
    settings = context.settings.ranking
    seed = context.settings.training.seed
    sampled = sample_lists(chosen, settings.m, settings.lists_per_query, seed, settings.strategy)
    number_of = {int(query): number for number, query in enumerate(chosen.query_ids)}
    owners = np.array([number_of[int(query)] for query in sampled.queries], dtype=np.int64)
    return SampledLists(owners, _rows_of(sampled.chunks, row_of), sampled.scores)
