"""Stage `generate`: chunks → training queries, split into trained and held-out ones by document.

Long: one stage, step by step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engine.core.records import Chunk, Query, Split
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
from engine.project.store.chunks import drawn
from engine.queries import rejection
from engine.queries.choosing import (
    AUTO,
    EXTRACTIVE,
    IMPORTED,
    MODELS,
    backend_of,
    resolve_and_keep_backend,
)
from engine.queries.edits import apply_edits, content, read_edits
from engine.queries.filters.consistency import (
    EVERYDAY_TOP,
    consistency_filter,
    format_share,
    max_depth,
)
from engine.queries.heldout import cap_queries, least_of, related_in, split_documents, text_keys
from engine.queries.opening import check_kinds, check_model, writer_noted
from engine.queries.recipe import current_defaults, filter_encoder, recipe
from engine.queries.rejection import Filtered, Reason, Rejected
from engine.queries.rules.tokens import question_key
from engine.queries.writing import Written, forget_gone, written
from engine.written_queries.imports import imported_queries

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.lexical.index import LexicalIndex
    from engine.queries.filters.quality import Check

VERSION = 4
BLOCK = 512
MIN_GROUPS = 10
"""Of documents that belong together.

With fewer, neither half of the held-out ones would show much, or there would be none.
"""
PARTS = 20  # that few documents are cut into


class GenerateStage(Stage):
    """Chunks → training queries, split into trained and held-out ones by document."""

    version = VERSION
    artifact = QueriesInfo

    def inputs(self, snapshot: ProjectSnapshot) -> dict[str, Any]:
        """The recipe, and the corpus as it was when the adapter was last made, unless too much
        of it changed since.
        """
        snapshot.need(LexicalInfo)
        snapshot.need(CorpusInfo)
        return {"recipe": recipe(snapshot), "corpus": adaptation_corpus(snapshot)[0]}

    def preflight(self, snapshot: ProjectSnapshot) -> None:
        """Raises SettingsError or ModelError for a language model or server that is not named or
        not there, SettingsError for kinds that nobody can write, UsageError for a device or an
        extra that this machine lacks.
        """
        check_model(snapshot)
        check_kinds(snapshot)
        if snapshot.settings.queries.consistency_top:
            check_device(snapshot.settings)

    def status_note(self, snapshot: ProjectSnapshot) -> str:
        """That the queries are kept although the corpus has changed, or that there is none."""
        notes = []
        if share := adaptation_corpus(snapshot)[1]:
            limit = (
                f"up to {100 * snapshot.settings.corpus.retrain_threshold:g} % may"
                " (corpus.retrain_threshold)"
            )
            notes.append(f"kept: {100 * share:.1f} % of the chunks have changed since, {limit}")
        made = snapshot.store.artifact(QueriesInfo)
        filters = snapshot.settings.queries.consistency_top
        if filters and made and made.info.encoder not in (None, filter_encoder(snapshot)):
            notes.append("kept: another encoder has filtered them")
        if made and self.is_outdated(snapshot):
            again = f"'engine generate {snapshot.project.argument}' makes others"
            notes.append(f"kept: they were made by the defaults of an earlier version; {again}")
        if not snapshot.store.counts()["queries"]:
            notes.append(f"there is no training query: {rejection.NONE_LEFT}")
        return "; ".join(notes)

    def is_outdated(self, snapshot: ProjectSnapshot) -> bool:
        """Return whether the current defaults would make other queries than those that are
        there.
        """
        return recipe(snapshot) != recipe(snapshot, defaults=current_defaults())

    def run(self, context: StageContext) -> dict[str, Any]:
        """Make, attach, filter and split the queries, then put them in the former ones' place."""
        chunks = context.store.chunks()
        choice = resolve_and_keep_backend(context)
        candidates = _candidates(context, chunks, choice)
        filtered = _capped(context, _filter(context, candidates.queries, chunks))
        made = candidates.made
        rejected = dict(candidates.rejected + rejection.by_reason(filtered.rejected))
        queries = _edited(context, split_queries(context, filtered.kept, chunks), chunks)
        corpus = context.store.corpus_fingerprint()
        encoder = filter_encoder(context)
        defaults = current_defaults()
        made_by = recipe(context, encoder, defaults)
        info = QueriesInfo(
            corpus,
            fingerprint(recipe=made_by),
            made,
            rejected,
            content(queries),
            choice.backend,
            writer_noted(context),
            encoder,
            defaults,
        )
        # The corpus as it is now, also when the run was forced while a former one still stood for
        # it.
        made_from = stage_fingerprint("generate", VERSION, {"recipe": made_by, "corpus": corpus})
        lost = [(one.query, one.stored) for one in (*candidates.lost, *filtered.rejected)]
        context.store.replace_queries(queries, Artifact(info, made_from), lost)
        forget_gone(context)
        heldout = sum(query.split == "heldout" for query in queries)
        if not queries:
            context.warn(rejection.none_left(made, rejected, context.project.argument))
        return {
            "made": made,
            "kept": len(queries),
            "rejected": {rejection.words_of(reason): count for reason, count in rejected.items()},
            "heldout": heldout,
            "kinds": dict(Counter(q.kind for q in queries)),
        }


STAGE = GenerateStage()


def adaptation_corpus(snapshot: ProjectSnapshot) -> tuple[str, float]:
    """(fingerprint of the corpus that the adaptation stages stand for, share of chunks changed
    since then).

    While the share is at most `corpus.retrain_threshold` and nothing else has changed, the adapter
    is kept, so the former fingerprint stays valid.
    """
    current = snapshot.store.corpus_fingerprint()
    former = snapshot.store.artifact(QueriesInfo)
    if (
        former is None
        or former.info.corpus == current
        or former.info.recipe != fingerprint(recipe=recipe(snapshot))
    ):
        return current, 0.0
    share = snapshot.store.changed_share()
    if share <= snapshot.settings.corpus.retrain_threshold:
        return (former.info.corpus, share)
    return (current, share)


def _candidates(
    context: StageContext, chunks: Sequence[Chunk], choice: QueryBackendInfo
) -> Written:
    """Queries of the chosen backend, but those that equal judged ones."""
    backend = choice.backend
    if context.settings.queries.backend == AUTO:
        context.choose("queries", backend, choice.reason)
    if backend in MODELS:
        found = written(context, chunks, context.store.titles())
    else:
        found = Written([], 0, Counter(), [])
        if backend in IMPORTED:
            found.queries, found.lost = _imported(context, chunks)
        if backend in EXTRACTIVE:
            found.queries += _extractive(context, chunks)
            context.progress(len(chunks), len(chunks), "chunks")
        found.made = len(found.queries)
    judged = {question_key(query.text) for query in context.store.judged()}
    equal = [
        Rejected(query, Reason.JUDGED)
        for query in found.queries
        if question_key(query.text) in judged
    ]
    if equal:
        context.warn(f"{len(equal)} queries equal judged ones and are not trained on.")
        found.rejected[Reason.JUDGED] = len(equal)
        found.lost = found.lost + equal
        found.queries = [query for query in found.queries if question_key(query.text) not in judged]
    return found


def _imported(context: StageContext, chunks: Sequence[Chunk]) -> Filtered:
    from engine.queries.imported import attach_imported

    items = imported_queries(context.project)
    found = attach_imported(items, chunks, context.store.documents())
    if lost := found.rejected:
        reasons = rejection.format_reasons(rejection.by_reason(lost))
        context.warn(f"{len(lost)} of {len(items)} imported queries were left out ({reasons}).")
    return found


def _extractive(context: StageContext, chunks: Sequence[Chunk]) -> list[Query]:
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
    """Without poor queries of a model, repeats, and queries whose own chunk neither BM25 nor the
    base encoder finds.
    """
    from engine.lexical.index import LexicalIndex
    from engine.queries.filters.dedupe import deduplicate

    index = LexicalIndex.open(context.project.folder_of(context.need(LexicalInfo)))

    def report(check: Check, found: Filtered) -> None:
        _report_share(context, check.name, found, check.asks)

    sound = quality_filter(
        context, candidates, chunks, index.language, index, report, context.check_stop
    )
    unique, repeats = distinct = deduplicate(sound.kept, check=context.check_stop)
    _report_share(
        context, "duplicates", distinct, "a query is kept when none before it says the same"
    )
    rejected = sound.rejected + repeats
    top = context.settings.queries.consistency_top
    if not top or not unique:
        return Filtered(unique, rejected)
    rankers = [
        lambda queries: bm25_ranks(index, queries, max_depth(queries, top), context.check_stop),
        lambda queries: base_ranks(context, queries, chunks, max_depth(queries, top)),
    ]
    filtered = consistency_filter(unique, rankers, top=top)
    asks = f"a query is kept when its chunk is within the top {top} of BM25 or of the base encoder"
    if max_depth(unique, top) > top:
        asks += f", an everyday one within the top {EVERYDAY_TOP}"
    _report_share(context, "consistency filter", filtered, asks)
    return Filtered(filtered.kept, rejected + filtered.rejected)


def quality_filter(
    snapshot: ProjectSnapshot,
    queries: list[Query],
    chunks: Sequence[Chunk],
    language: str,
    index: LexicalIndex | None,
    report: Callable[[Check, Filtered], None] = lambda *_: None,
    check: Callable[[], None] = lambda: None,
) -> Filtered:
    """A language model's queries without poor ones, where the settings want that.

    `language` is the corpus's.
    """
    if (
        not queries
        or not snapshot.settings.queries.quality_filters
        or backend_of(snapshot) not in MODELS
    ):
        return Filtered(queries, [])
    from engine.queries.filters.quality import checks, passing

    return passing(
        queries, checks(chunks, snapshot.store.documents(), language, index), report, check
    )


def _report_share(context: StageContext, name: str, filtered: Filtered, asks: str) -> None:
    total = len(filtered.kept) + len(filtered.rejected)
    if total:
        context.choose(name, f"{format_share(filtered.share)} kept", f"of {total} queries: {asks}")


def bm25_ranks(
    index: LexicalIndex,
    queries: Sequence[Query],
    top: int,
    check: Callable[[], None] = lambda: None,
) -> NDArray[np.int64]:
    """Rank from 1 of each query's own chunk in BM25's best `top`, 0 where it is not among them.

    (n,)
    """
    import numpy as np

    ranks = np.zeros(len(queries), dtype=np.int64)
    for row, (ids, _) in enumerate(index.search_many([query.text for query in queries], top)):
        place = np.flatnonzero(ids == queries[row].chunk_id)
        ranks[row] = place[0] + 1 if len(place) else 0
        check()
    return ranks


def base_ranks(
    context: StageContext, queries: Sequence[Query], chunks: Sequence[Chunk], top: int
) -> NDArray[np.int64]:
    """As `bm25_ranks`, by cosine of the base encoder; in a large corpus estimated by chunks that
    are `drawn`.
    """
    import numpy as np

    from engine.encoders.for_project import chunk_vectors, load_encoder

    encoder = load_encoder(context)
    position = {chunk.id: place for place, chunk in enumerate(chunks)}
    own = np.array([position[query.chunk_id] for query in queries])
    places = drawn(len(chunks), context.settings.training.seed, [own])
    passages = chunk_vectors(
        context, encoder, [chunks[place] for place in places], "chunks encoded"
    )  # (N, d)
    vectors = encoder.encode_queries(
        [query.text for query in queries], lambda _done: context.check_stop()
    )  # (n, d)
    own = np.searchsorted(places, own)
    ranks = np.zeros(len(queries), dtype=np.int64)
    scale = len(chunks) / len(places)
    for start in range(0, len(queries), BLOCK):
        context.check_stop()
        scores = vectors[start : start + BLOCK] @ passages.T  # (b, N)
        rows = np.arange(len(scores))
        above = (scores > scores[rows, own[start : start + BLOCK]][:, None]).sum(axis=1)
        ranks[start : start + BLOCK] = 1 + np.rint(scale * above)
    return np.where(ranks <= top, ranks, 0)


def _capped(context: StageContext, found: Filtered) -> Filtered:
    """At most `queries.max_queries`, wherever they come from."""
    settings = context.settings
    texts = [query.text for query in found.kept]
    rows = set(cap_queries(texts, settings.queries.max_queries, settings.training.seed))
    lost = [
        Rejected(query, Reason.BEYOND) for row, query in enumerate(found.kept) if row not in rows
    ]
    return Filtered(
        [query for row, query in enumerate(found.kept) if row in rows], [*found.rejected, *lost]
    )


def split_queries(
    context: StageContext, queries: list[Query], chunks: Sequence[Chunk]
) -> list[Query]:
    """A third of the held-out documents' queries decide when training stops, the others what is
    used.
    """
    documents = context.store.documents()
    keys = text_keys(documents, related_in(context.store, documents))
    groups = {query.document_id: keys[query.document_id] for query in queries}
    if not groups:
        return []
    if len(set(groups.values())) < MIN_GROUPS:
        return _split_by_parts(context, queries, chunks)
    sides = split_documents(
        groups, context.settings.evaluation.heldout_share, context.settings.training.seed
    )
    return [replace(query, split=sides.get(query.document_id, "train")) for query in queries]


def _split_by_parts(
    context: StageContext, queries: list[Query], chunks: Sequence[Chunk]
) -> list[Query]:
    """As `split_queries`, for a few documents, or entries of one title: held out are runs of
    neighbouring chunks.

    Equal chunks are of one part, so that none decides on what was learnt from its copy.
    """
    share = context.settings.evaluation.heldout_share
    seed = context.settings.training.seed
    run = max(1, len(chunks) // PARTS)
    first: dict[str, int] = {}
    part = {
        chunk.id: str(first.setdefault(chunk.content_hash, place) // run)
        for place, chunk in enumerate(chunks)
    }
    parts = {part[query.chunk_id] for query in queries}
    least = 2 if len(parts) >= MIN_GROUPS else 1
    aside = least_of(parts, min(len(parts) - 1, max(least, round(share * len(parts)))), seed)
    why = f"the documents make fewer than {MIN_GROUPS} groups that could be held out as a whole"
    context.choose("held out", f"{len(aside)} of {len(parts)} parts of {run} chunks", why)
    sides: dict[str, Split] = {
        key: "validation" if place < len(aside) // 3 else "heldout"
        for place, key in enumerate(aside)
    }
    return [replace(query, split=sides.get(part[query.chunk_id], "train")) for query in queries]


def _edited(context: StageContext, queries: list[Query], chunks: Sequence[Chunk]) -> list[Query]:
    """With the user's corrections of former queries that have been made again."""
    judged = {question_key(query.text) for query in context.store.judged()}
    hashes = {chunk.id: chunk.content_hash for chunk in chunks}
    return apply_edits(queries, hashes, read_edits(context.project), judged)
