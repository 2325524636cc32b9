"""The split of training queries into trained, validation and held-out ones, by document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.core.records import Chunk, Query, Split
from engine.project.stage import StageContext
from engine.queries.heldout import (
    group_keys,
    hold_out_documents,
    related_in,
    sample_keys,
    split_documents,
)

MIN_GROUPS = 10
"""Minimum number of groups of related documents; with fewer, held-out ones would prove little."""
PARTS = 20
"""Number of parts into which the chunks are divided if there are too few groups."""


def split_queries(
    context: StageContext, queries: list[Query], chunks: Sequence[Chunk]
) -> list[Query]:
    """Split queries by document into trained, validation and held-out ones.

    Validation queries decide when training stops, held-out ones which encoder is used. If a file of
    validation queries was imported, these alone are for validation.
    """
    if any(query.split == "validation" for query in queries):
        return _keep_validation(context, queries)
    documents = context.store.documents()
    keys = group_keys(documents, related_in(context.store))
    groups = {query.document_id: keys[query.document_id] for query in queries}
    if not groups:
        return []
    if len(set(groups.values())) < MIN_GROUPS:
        return _split_by_parts(context, queries, chunks)
    share = context.settings.evaluation.heldout_share
    splits = split_documents(
        groups,
        share,
        context.settings.training.seed,
    )
    return [replace(query, split=splits.get(query.document_id, "train")) for query in queries]


def _keep_validation(context: StageContext, queries: list[Query]) -> list[Query]:
    """Return the queries, the imported ones with the split that their files give them.

    Some of the documents that no imported query asks about are held out with their generated
    queries. No generated query is for validation.
    """
    documents = context.store.documents()
    keys = group_keys(documents, related_in(context.store))
    imported_keys = {keys[query.document_id] for query in queries if query.imported}
    candidates = {}
    for query in queries:
        key = keys[query.document_id]
        if key not in imported_keys:
            candidates[query.document_id] = key
    seed = context.settings.training.seed
    held_out = hold_out_documents(
        candidates,
        context.settings.evaluation.heldout_share,
        seed,
    )
    count = sum(query.split == "validation" for query in queries)
    context.report_choice(
        "validation queries",
        count,
        "a file of them was imported; all other imported queries are trained on",
    )
    result = []
    for query in queries:
        if not query.imported and query.document_id in held_out:
            query = replace(query, split="heldout")
        result.append(query)
    return result


def _split_by_parts(
    context: StageContext, queries: list[Query], chunks: Sequence[Chunk]
) -> list[Query]:
    """Split the queries of few documents, or of entries of one title, by runs of chunks.

    Equal chunks belong to the same part, so that no copy of a trained chunk is held out. A third of
    the held-out parts are for validation.
    """
    share = context.settings.evaluation.heldout_share
    seed = context.settings.training.seed
    run_length = max(1, len(chunks) // PARTS)
    first_position: dict[str, int] = {}  # content hash → position of the first chunk with it
    part_of: dict[int, str] = {}  # chunk id → part
    for position, chunk in enumerate(chunks):
        first = first_position.setdefault(chunk.content_hash, position)
        part_of[chunk.id] = str(first // run_length)
    parts = {part_of[query.chunk_id] for query in queries}
    min_count = 2 if len(parts) >= MIN_GROUPS else 1
    wanted = max(min_count, round(share * len(parts)))
    count = min(len(parts) - 1, wanted)  # one part is left to train on
    held_out = sample_keys(parts, count, seed)
    why = f"the documents make fewer than {MIN_GROUPS} groups that could be held out as a whole"
    context.report_choice(
        "held out", f"{len(held_out)} of {len(parts)} parts of {run_length} chunks", why
    )
    splits: dict[str, Split] = dict.fromkeys(held_out, "heldout")
    for part in held_out[: len(held_out) // 3]:
        splits[part] = "validation"
    return [replace(query, split=splits.get(part_of[query.chunk_id], "train")) for query in queries]
