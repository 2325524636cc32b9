"""The project's queries, rankings and chunks as training data."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.core.arrays import Floats, Ids
from engine.core.errors import DamagedError
from engine.core.records import Chunk, Query
from engine.corpus.text.document_queries import document_queries
from engine.encoders.kinds.chosen import encoder_source
from engine.project.stage import StageContext
from engine.project.store.artifact_info import RankingsInfo
from engine.project.store.chunks import find_chunk_rows, sample_indices
from engine.queries.from_documents import find_untrained, strip_chunks
from engine.queries.heldout import cap_queries
from engine.queries.imported import graded_answers
from engine.ranking.rankings_file import RankedLists
from engine.ranking.sampling import SampledLists, sample_lists
from engine.settings.schema import Settings
from engine.training.candidates import candidate_lists, find_nearest
from engine.training.config import TrainingConfig
from engine.training.data import TrainingData
from engine.training.recipe import graded_texts_if_selected, is_of_source, teacher_folder
from engine.training.stopping_queries import StoppingQueries, choose_stopping_queries

MIN_QUERIES = 20
"""Minimum number of training queries; with fewer, no adapter is trained."""


def train_rows(
    settings: Settings,
    queries: Sequence[Query],
    chunks: Sequence[Chunk],
    graded: Collection[str] = (),
) -> list[int]:
    """Return the rows of training queries whose chunks exist, or `training.query_share` of them.

    A larger share contains the smaller ones. `graded`: the texts of queries that were imported with
    a grade, by which `training.query_source` selects.
    """
    source = settings.training.query_source
    is_present = find_chunk_rows(chunks, [query.chunk_id for query in queries]) >= 0
    rows = []
    for row, query in enumerate(queries):
        is_trained = query.split == "train" and is_present[row]
        if is_trained and is_of_source(query.text, source, graded):
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
        kind = "training" if source == "all" else source
        return (
            f"{count} {kind} queries are too few to learn from (at least {MIN_QUERIES} are needed)"
        )
    return ""


def training_data(
    context: StageContext, config: TrainingConfig, chunks: Sequence[Chunk] | None = None
) -> TrainingData:
    """Return the project's queries, rankings and chunks, with all else that `config` learns from.

    Of many chunks a sample is used, which contains all that are needed. `chunks`: all of the
    project, if they have been read. Raises DamagedError if the rankings are not those of the
    queries.
    """
    queries = context.store.queries()
    ranked = _load_rankings(context, queries)
    if chunks is None:
        chunks = context.store.chunks()
    if config.method != "FT":
        # Pre-training learns the masked words of all documents, but the titles of some of them
        # decide what comes into use.
        written = document_queries(context.store)
        chunks = strip_chunks(chunks, find_untrained(context, chunks, written))
    rows = train_rows(
        context.settings,
        queries,
        chunks,
        graded_texts_if_selected(context),
    )
    ranked_rows = find_chunk_rows(chunks, ranked.ids)
    validation, chunks = choose_stopping_queries(
        context,
        queries,
        chunks,
        ranked_rows,
    )

    # What is learnt from, by rows of all chunks.
    ranked_rows = ranked_rows[rows]
    ranked_scores = ranked.scores[rows]
    trained = [queries[row] for row in rows]
    texts = [query.text for query in trained]
    positives = find_chunk_rows(chunks, [query.chunk_id for query in trained])
    lists = None
    if config.uses_candidates:
        nearest = find_nearest(
            context,
            config,
            texts,
            chunks,
        )
        lists = candidate_lists(
            positives,
            ranked_rows,
            ranked_scores,
            nearest,
            config,
        )
    elif config.uses_lists:
        lists = sampled_lists(
            context,
            ranked,
            rows,
            chunks,
        )
    grades = _grade_chunks(
        context,
        config,
        queries,
        texts,
        chunks,
    )

    # A sample of the chunks is used; a chunk's position in the sample replaces its row.
    needed = [positives, *_find_needed(validation, lists, grades)]
    if config.negatives_per_query:
        first, last = config.negative_ranks
        needed.append(ranked_rows[:, first:last])
    sampled_rows = sample_indices(
        len(chunks),
        context.settings.training.seed,
        needed,
    )
    position = _number_rows(sampled_rows, len(chunks))
    kept_chunks = context.store.read_whole([chunks[row] for row in sampled_rows])
    base = _encode_by_base(
        context,
        config,
        texts,
        kept_chunks,
        validation.texts,
    )
    if lists is not None:
        lists = replace(lists, chunks=position[lists.chunks])
    return TrainingData(
        queries=texts,
        positives=position[positives],
        ranked_ids=position[ranked_rows],
        ranked_scores=ranked_scores,
        chunks=[chunk.embedded_text for chunk in kept_chunks],
        base_queries=base.queries,
        base_chunks=base.chunks,
        base_heldout=base.heldout,
        heldout_queries=validation.texts,
        heldout_positives=position[validation.positives],
        heldout_hard=None if validation.hard is None else position[validation.hard],
        heldout_synthetic=validation.synthetic,
        grades=_renumber_grades(grades, position),
        lists=lists,
        cross_encoder=teacher_folder(context, config),
        everyday=_find_everyday(context, config, trained),
        keep_evidence=context.settings.ranking.keep_evidence,
    )


def _number_rows(sampled_rows: Ids, count: int) -> Ids:
    """Return the position in the sample of each of `count` rows, −1 for others and for padding."""
    position = np.full(count + 1, -1, dtype=np.int64)  # The last place is that of the row −1.
    position[sampled_rows] = np.arange(len(sampled_rows))
    return position


def _find_needed(
    stopping: StoppingQueries, lists: SampledLists | None, grades: Sequence[Mapping[int, int]]
) -> list[Ids]:
    """Return the rows of chunks that a sample must hold, besides those of the evidence."""
    graded: list[int] = []
    for by_row in grades:
        graded += by_row
    needed = [stopping.positives, np.array(graded, dtype=np.int64)]
    if stopping.hard is not None:
        needed.append(stopping.hard)
    if lists is not None:
        needed.append(lists.chunks)
    return needed


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
    config: TrainingConfig,
    queries: Sequence[Query],
    texts: Sequence[str],
    chunks: Sequence[Chunk],
) -> list[dict[int, int]]:
    """Return for each text the grades of its relevant chunks by row.

    Empty without any grades, or if the objective learns from none.
    """
    source = context.settings.training.query_source
    if config.objective != "plackett_luce" or source == "generated":
        return []
    graded = graded_answers(context, queries, chunks)
    if not graded:
        return []
    ids: set[int] = set()
    for by_id in graded.values():
        ids.update(by_id)
    row_of = dict(zip(ids, find_chunk_rows(chunks, list(ids)).tolist(), strict=True))
    grades = []
    for text in texts:
        by_id = graded.get(text, {})
        grades.append({row_of[chunk_id]: grade for chunk_id, grade in by_id.items()})
    return grades


def _renumber_grades(grades: Sequence[Mapping[int, int]], position: Ids) -> list[dict[int, int]]:
    """Return grades by the position of a row in place of the row."""
    renumbered = []
    for by_row in grades:
        renumbered.append({int(position[row]): grade for row, grade in by_row.items()})
    return renumbered


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
        context.report_choice(
            "everyday queries in a step", f"{100 * config.everyday_share:g} %", reason
        )
    return everyday


class _BaseEncodings(NamedTuple):
    """The untouched encoder's vectors, None for what the recipe does not use."""

    queries: Floats | None = None
    chunks: Floats | None = None
    heldout: Floats | None = None


def _encode_by_base(
    context: StageContext,
    config: TrainingConfig,
    texts: list[str],
    chunks: Sequence[Chunk],
    heldout: Sequence[str],
) -> _BaseEncodings:
    """Return the untouched encoder's vectors of queries, chunks and held-out queries.

    Held-out queries are only encoded by a black box, which is asked for each text only once.
    """
    if not config.needs_vectors:
        return _BaseEncodings()
    from engine.encoders.for_project import add_cache, chunk_vectors, load_encoder

    encoder = load_encoder(context)
    base_chunks = chunk_vectors(context, encoder, chunks)  # (N, d)

    def check_stop(_: int) -> None:
        context.check_stop()

    if not config.augmentation:
        return _BaseEncodings(encoder.encode_queries(texts, check_stop), base_chunks)
    vectors = add_cache(context, encoder).encode_queries([*texts, *heldout], check_stop)
    return _BaseEncodings(
        vectors[: len(texts)],
        base_chunks,
        vectors[len(texts) :],
    )


def sampled_lists(
    context: StageContext, ranked: RankedLists, rows: list[int], chunks: Sequence[Chunk]
) -> SampledLists:
    """Return BMEmbed's lists: one chunk per rank interval (METHODS.md §1, "Sampling").

    `rows`: the training queries among those of `ranked`; lists have their positions in `rows`.
    """
    trained = RankedLists(
        ranked.query_ids[rows],
        ranked.ids[rows],
        ranked.scores[rows],
    )
    settings = context.settings.ranking
    seed = context.settings.training.seed
    sampled = sample_lists(
        trained,
        settings.m,
        settings.lists_per_query,
        seed,
        settings.strategy,
    )
    query_ids = trained.query_ids.tolist()
    position_of = {query_id: position for position, query_id in enumerate(query_ids)}
    positions = [position_of[query_id] for query_id in sampled.queries.tolist()]
    queries = np.array(positions, dtype=np.int64)
    chunk_rows = find_chunk_rows(chunks, sampled.chunks)
    return SampledLists(queries, chunk_rows, sampled.scores)
