"""Stage `generate`: chunks → training queries, split into trained and held-out ones by document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engine.core.records import Chunk, Query, Split
from engine.datasets.imports import imported_queries
from engine.encoders.for_project import check_device
from engine.project.stage import (
    ProjectSnapshot,
    Stage,
    StageContext,
    fingerprint,
    stage_fingerprint,
)
from engine.project.store.artifact_info import (
    CorpusInfo,
    LexicalInfo,
    QueriesInfo,
    QueryBackendInfo,
)
from engine.project.store.artifacts import Artifact
from engine.project.store.chunks import IN_MEMORY, sample_indices
from engine.queries import rejection
from engine.queries.choosing import (
    AUTO,
    EXTRACTIVE,
    IMPORTED,
    MODELS,
    backend_of,
    resolve_and_keep_backend,
)
from engine.queries.edits import apply_edits, content_fingerprint, read_edits
from engine.queries.filters.consistency import (
    EVERYDAY_TOP,
    consistency_filter,
    format_share,
    max_depth,
)
from engine.queries.heldout import (
    assign_split,
    cap_queries,
    related_in,
    sample_keys,
    split_documents,
    text_keys,
)
from engine.queries.opening import check_kinds, check_model, writer_info
from engine.queries.recipe import current_defaults, filter_encoder, recipe
from engine.queries.rejection import Filtered, Reason, Rejected
from engine.queries.rules.tokens import question_key
from engine.queries.writing import Written, forget_gone, write_queries

if TYPE_CHECKING:
    from engine.core.arrays import Ids
    from engine.lexical.index import LexicalIndex
    from engine.queries.filters.quality import Check

VERSION = 4
BLOCK = 512
"""Number of queries that are compared with all chunks at once."""
MIN_GROUPS = 10
"""Minimum number of groups of related documents; with fewer, held-out ones would prove little."""
PARTS = 20
"""Number of parts into which few documents are split."""


class GenerateStage(Stage):
    """Make training queries from chunks, and split them into trained and held-out ones."""

    version = VERSION
    artifact = QueriesInfo

    def inputs(self, snapshot: ProjectSnapshot) -> dict[str, Any]:
        """Return the recipe, and the fingerprint of the corpus of the last adaptation.

        That of the current corpus, if too much has changed since.
        """
        snapshot.need(LexicalInfo)
        snapshot.need(CorpusInfo)
        corpus, _ = adaptation_corpus(snapshot)
        return {"recipe": recipe(snapshot), "corpus": corpus}

    def preflight(self, snapshot: ProjectSnapshot) -> None:
        """Check the language model, the wanted kinds of queries, and the device.

        Raises SettingsError or ModelError for a language model or server that is not named or
        missing, SettingsError for kinds that the backend cannot write, UsageError for a device or
        an extra that this machine lacks.
        """
        check_model(snapshot)
        check_kinds(snapshot)
        if snapshot.settings.queries.consistency_top:
            check_device(snapshot.settings)

    def status_note(self, snapshot: ProjectSnapshot) -> str:
        """Return why the queries are kept although something changed, or that there are none."""
        notes = []
        _, share = adaptation_corpus(snapshot)
        if share:
            limit = (
                f"up to {100 * snapshot.settings.corpus.retrain_threshold:g} % may"
                " (corpus.retrain_threshold)"
            )
            notes.append(f"kept: {100 * share:.1f} % of the chunks have changed since, {limit}")
        queries = snapshot.store.artifact(QueriesInfo)
        filters = snapshot.settings.queries.consistency_top
        if filters and queries and queries.info.encoder not in (None, filter_encoder(snapshot)):
            notes.append("kept: another encoder has filtered them")
        if queries and self.is_outdated(snapshot):
            again = f"'engine generate {snapshot.project.argument}' makes others"
            notes.append(f"kept: they were made by the defaults of an earlier version; {again}")
        if not snapshot.store.count("queries"):
            notes.append(f"there is no training query: {rejection.NONE_LEFT}")
        return "; ".join(notes)

    def is_outdated(self, snapshot: ProjectSnapshot) -> bool:
        """Return whether the current defaults would make other queries than the present ones."""
        return recipe(snapshot) != recipe(snapshot, defaults=current_defaults())

    def run(self, context: StageContext) -> dict[str, Any]:
        """Make, filter and split queries, and replace the former ones by them.

        Returns the summary of the stage.
        """
        chunks = context.store.chunks()
        choice = resolve_and_keep_backend(context)
        candidates = _make_candidates(context, chunks, choice)
        filtered = _limit_number(context, _filter(context, candidates.queries, chunks))
        made = candidates.made
        rejected = dict(candidates.rejected + rejection.by_reason(filtered.rejected))
        queries = split_queries(context, filtered.kept, chunks)
        queries = _apply_corrections(context, queries, chunks)
        corpus = context.store.corpus_fingerprint()
        encoder = filter_encoder(context)
        defaults = current_defaults()
        current_recipe = recipe(context, encoder, defaults)
        info = QueriesInfo(
            corpus,
            fingerprint(recipe=current_recipe),
            made,
            rejected,
            content_fingerprint(queries),
            choice.backend,
            writer_info(context),
            encoder,
            defaults,
        )
        # Not `inputs`: a forced run uses the current corpus even if few chunks have changed.
        inputs = {"recipe": current_recipe, "corpus": corpus}
        artifact = Artifact(info, stage_fingerprint("generate", VERSION, inputs))
        rejections = (*candidates.lost, *filtered.rejected)
        lost = [(item.query, item.stored) for item in rejections]
        context.store.replace_queries(queries, artifact, lost)
        forget_gone(context)
        heldout = sum(query.split == "heldout" for query in queries)
        if not queries:
            context.warn(rejection.none_left(made, rejected, context.project.argument))
        return {
            "made": made,
            "kept": len(queries),
            "rejected": {rejection.words_of(reason): count for reason, count in rejected.items()},
            "heldout": heldout,
            "kinds": dict(Counter(query.kind for query in queries)),
        }


STAGE = GenerateStage()


def adaptation_corpus(snapshot: ProjectSnapshot) -> tuple[str, float]:
    """Return the fingerprint of the corpus of the last adaptation, and the share changed since.

    As long as the share is at most `corpus.retrain_threshold` and nothing else has changed, the
    adapter is kept, so that this fingerprint stays valid; otherwise that of the current corpus.
    """
    current = snapshot.store.corpus_fingerprint()
    queries = snapshot.store.artifact(QueriesInfo)
    if queries is None or queries.info.corpus == current:
        return current, 0.0
    if queries.info.recipe != fingerprint(recipe=recipe(snapshot)):
        return current, 0.0
    share = snapshot.store.changed_share()
    if share <= snapshot.settings.corpus.retrain_threshold:
        return queries.info.corpus, share
    return current, share


def _make_candidates(
    context: StageContext, chunks: Sequence[Chunk], choice: QueryBackendInfo
) -> Written:
    """Return the queries of the chosen backend, except those that equal judged ones."""
    backend = choice.backend
    if context.settings.queries.backend == AUTO:
        context.choose("queries", backend, choice.reason)
    if backend in MODELS:
        written = write_queries(context, chunks, context.store.titles())
    else:
        queries: list[Query] = []
        lost: list[Rejected] = []
        if backend in IMPORTED:
            queries, lost = _attach_imported(context, chunks)
        if backend in EXTRACTIVE:
            queries += _extract(context, _sample_chunks(context, chunks))
            context.progress(len(chunks), len(chunks), "chunks")
        written = Written(queries, len(queries) + len(lost), rejection.by_reason(lost), lost)
    judged = {question_key(query.text) for query in context.store.judged()}
    kept = []
    equal = []
    for query in written.queries:
        if question_key(query.text) in judged:
            equal.append(Rejected(query, Reason.JUDGED))
        else:
            kept.append(query)
    if equal:
        context.warn(f"{len(equal)} queries equal judged ones and are not trained on.")
        written.rejected[Reason.JUDGED] = len(equal)
        written.lost = written.lost + equal
        written.queries = kept
    return written


def _attach_imported(context: StageContext, chunks: Sequence[Chunk]) -> Filtered:
    from engine.queries.imported import attach_imported

    items = imported_queries(context.project)
    attached = attach_imported(items, chunks, context.store.documents())
    lost = attached.rejected
    if lost:
        reasons = rejection.format_reasons(rejection.by_reason(lost))
        context.warn(f"{len(lost)} of {len(items)} imported queries were left out ({reasons}).")
    return attached


def _sample_chunks(context: StageContext, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
    """Return all chunks, or a random sample of many."""
    if len(chunks) <= IN_MEMORY:
        return chunks
    sample = sample_indices(len(chunks), context.settings.training.seed)
    return context.store.read_whole([chunks[position] for position in sample])


def _extract(context: StageContext, chunks: Sequence[Chunk]) -> list[Query]:
    from engine.queries.rules.extractive import generate

    settings = context.settings.queries
    language = context.need(LexicalInfo).info.language
    context.choose(
        "backend",
        "extractive",
        "queries are made of the documents' own sentences, without a language model",
    )
    return generate(
        chunks,
        context.store.titles(),
        language=language,
        kinds=settings.kinds,
        per_chunk=settings.per_chunk,
        max_queries=settings.max_queries,
        seed=context.settings.training.seed,
        check=context.check_stop,
    )


def _filter(context: StageContext, candidates: list[Query], chunks: Sequence[Chunk]) -> Filtered:
    """Reject poor queries of a model, repeats, and queries that do not find their chunk.

    Neither BM25 nor the base encoder finds the chunk of the latter.
    """
    from engine.lexical.index import LexicalIndex
    from engine.queries.filters.dedupe import deduplicate

    index = LexicalIndex.open(context.project.folder_of(context.need(LexicalInfo)))

    def report(check: Check, filtered: Filtered) -> None:
        _report_share(context, check.name, filtered, check.requirement)

    sound = quality_filter(
        context, candidates, chunks, index.language, index, report, context.check_stop
    )
    distinct = deduplicate(sound.kept, check=context.check_stop)
    asks = "a query is kept when none before it says the same"
    _report_share(context, "duplicates", distinct, asks)
    rejected = sound.rejected + distinct.rejected
    top = context.settings.queries.consistency_top
    if not top or not distinct.kept:
        return Filtered(distinct.kept, rejected)

    def rank_by_bm25(queries: Sequence[Query]) -> Ids:
        return bm25_ranks(index, queries, max_depth(queries, top), context.check_stop)

    def rank_by_base_encoder(queries: Sequence[Query]) -> Ids:
        return base_ranks(context, queries, chunks, max_depth(queries, top))

    rankers = [rank_by_bm25, rank_by_base_encoder]
    consistent = consistency_filter(distinct.kept, rankers, top=top)
    asks = f"a query is kept when its chunk is within the top {top} of BM25 or of the base encoder"
    if max_depth(distinct.kept, top) > top:
        asks += f", an everyday one within the top {EVERYDAY_TOP}"
    _report_share(context, "consistency filter", consistent, asks)
    return Filtered(consistent.kept, rejected + consistent.rejected)


def quality_filter(
    snapshot: ProjectSnapshot,
    queries: list[Query],
    chunks: Sequence[Chunk],
    language: str,
    index: LexicalIndex | None,
    report: Callable[[Check, Filtered], None] = lambda *_: None,
    check: Callable[[], None] = lambda: None,
) -> Filtered:
    """Reject poor queries of a language model, if the settings want that.

    `language`: that of the corpus. `report` gets the result of each check.
    """
    if not queries or not snapshot.settings.queries.quality_filters:
        return Filtered(queries, [])
    if backend_of(snapshot) not in MODELS:
        return Filtered(queries, [])
    from engine.queries.filters.quality import apply_checks, build_checks

    checks = build_checks(chunks, snapshot.store.documents(), language, index)
    return apply_checks(queries, checks, report, check)


def _report_share(context: StageContext, name: str, filtered: Filtered, asks: str) -> None:
    total = len(filtered.kept) + len(filtered.rejected)
    if total:
        context.choose(name, f"{format_share(filtered.share)} kept", f"of {total} queries: {asks}")


def bm25_ranks(
    index: LexicalIndex,
    queries: Sequence[Query],
    top: int,
    check: Callable[[], None] = lambda: None,
) -> Ids:
    """Return the rank (n,), from 1, of each query's chunk in BM25's best `top`; 0 if beyond."""
    import numpy as np

    texts = [query.text for query in queries]
    ranks = np.zeros(len(queries), dtype=np.int64)
    for row, (ids, _) in enumerate(index.search_many(texts, top)):
        places = np.flatnonzero(ids == queries[row].chunk_id)
        if len(places):
            ranks[row] = places[0] + 1
        check()
    return ranks


def base_ranks(
    context: StageContext,
    queries: Sequence[Query],
    chunks: Sequence[Chunk],
    top: int,
    sample_size: int = IN_MEMORY,
) -> Ids:
    """Return the ranks of `bm25_ranks` by cosine of the base encoder.

    In a large corpus, they are estimated from a sample of chunks (`sample_indices`).
    """
    import numpy as np

    from engine.encoders.for_project import chunk_vectors, load_encoder

    encoder = load_encoder(context)
    positions = {chunk.id: position for position, chunk in enumerate(chunks)}
    sources = np.array([positions[query.chunk_id] for query in queries])
    seed = context.settings.training.seed
    sampled = sample_indices(len(chunks), seed, [sources], most=sample_size)
    sampled_chunks = [chunks[position] for position in sampled]
    passages = chunk_vectors(context, encoder, sampled_chunks, "chunks encoded")  # (N, d)
    texts = [query.text for query in queries]
    vectors = encoder.encode_queries(texts, lambda _done: context.check_stop())  # (n, d)
    columns = np.searchsorted(sampled, sources)
    ranks = np.zeros(len(queries), dtype=np.int64)
    scale = len(chunks) / len(sampled)
    for start in range(0, len(queries), BLOCK):
        context.check_stop()
        block = slice(start, start + BLOCK)
        scores = vectors[block] @ passages.T  # (b, N)
        source_scores = np.take_along_axis(scores, columns[block, None], axis=1)  # (b, 1)
        above = (scores > source_scores).sum(axis=1)
        ranks[block] = 1 + np.rint(scale * above)
    return np.where(ranks <= top, ranks, 0)


def _limit_number(context: StageContext, filtered: Filtered) -> Filtered:
    """Keep at most `queries.max_queries`, wherever they come from."""
    settings = context.settings
    texts = [query.text for query in filtered.kept]
    rows = set(cap_queries(texts, settings.queries.max_queries, settings.training.seed))
    kept = []
    rejected = list(filtered.rejected)
    for row, query in enumerate(filtered.kept):
        if row in rows:
            kept.append(query)
        else:
            rejected.append(Rejected(query, Reason.BEYOND))
    return Filtered(kept, rejected)


def split_queries(
    context: StageContext, queries: list[Query], chunks: Sequence[Chunk]
) -> list[Query]:
    """Split queries by document into trained, validation and held-out ones.

    Validation queries decide when training stops, held-out ones which encoder is used. Those of a
    file of their own keep their split.
    """
    if any(query.split == "validation" for query in queries):
        return _keep_validation(context, queries)
    documents = context.store.documents()
    keys = text_keys(documents, related_in(context.store, documents))
    groups = {query.document_id: keys[query.document_id] for query in queries}
    if not groups:
        return []
    if len(set(groups.values())) < MIN_GROUPS:
        return _split_by_parts(context, queries, chunks)
    share = context.settings.evaluation.heldout_share
    splits = split_documents(groups, share, context.settings.training.seed)
    return [replace(query, split=splits.get(query.document_id, "train")) for query in queries]


def _keep_validation(context: StageContext, queries: list[Query]) -> list[Query]:
    """Return all imported queries as they were read: trained on, or for validation.

    Generated ones are held out by document, of documents that no imported query asks for; none of
    them stops the training.
    """
    documents = context.store.documents()
    keys = text_keys(documents, related_in(context.store, documents))
    asked = {keys[query.document_id] for query in queries if query.imported}
    free = {}
    for query in queries:
        key = keys[query.document_id]
        if key not in asked:
            free[query.document_id] = key
    seed = context.settings.training.seed
    aside = assign_split(free, context.settings.evaluation.heldout_share, seed)
    count = sum(query.split == "validation" for query in queries)
    context.choose(
        "validation queries",
        count,
        "a file of them was imported; all other imported queries are trained on",
    )
    split_queries = []
    for query in queries:
        if not query.imported and query.document_id in aside:
            query = replace(query, split="heldout")
        split_queries.append(query)
    return split_queries


def _split_by_parts(
    context: StageContext, queries: list[Query], chunks: Sequence[Chunk]
) -> list[Query]:
    """Split the queries of few documents, or of entries of one title, by runs of chunks.

    Equal chunks belong to the same part, so that no copy of a trained chunk is held out.
    """
    share = context.settings.evaluation.heldout_share
    seed = context.settings.training.seed
    run = max(1, len(chunks) // PARTS)
    first_position: dict[str, int] = {}
    part_of: dict[int, str] = {}
    for position, chunk in enumerate(chunks):
        first = first_position.setdefault(chunk.content_hash, position)
        part_of[chunk.id] = str(first // run)
    parts = {part_of[query.chunk_id] for query in queries}
    min_parts = 2 if len(parts) >= MIN_GROUPS else 1
    wanted = max(min_parts, round(share * len(parts)))
    count = min(len(parts) - 1, wanted)
    held_out = sample_keys(parts, count, seed)
    why = f"the documents make fewer than {MIN_GROUPS} groups that could be held out as a whole"
    context.choose("held out", f"{len(held_out)} of {len(parts)} parts of {run} chunks", why)
    splits: dict[str, Split] = dict.fromkeys(held_out, "heldout")
    for part in held_out[: len(held_out) // 3]:
        splits[part] = "validation"
    divided = []
    for query in queries:
        split = splits.get(part_of[query.chunk_id], "train")
        divided.append(replace(query, split=split))
    return divided


def _apply_corrections(
    context: StageContext, queries: list[Query], chunks: Sequence[Chunk]
) -> list[Query]:
    """Repeat the user's corrections of queries that have been made again."""
    judged = {question_key(query.text) for query in context.store.judged()}
    hashes = {chunk.id: chunk.content_hash for chunk in chunks}
    return apply_edits(queries, hashes, read_edits(context.project), judged)
