"""Stage `generate`: chunks → training queries, split into trained and held-out ones by document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.core.records import Chunk, Query
from engine.core.text import format_count
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
from engine.project.store.chunks import IN_MEMORY, find_rows_of_documents, sample_indices
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
    base_ranks,
    bm25_ranks,
    consistency_filter,
    format_share,
    max_depth,
)
from engine.queries.heldout import cap_queries
from engine.queries.opening import check_kinds, check_model, writer_info
from engine.queries.recipe import current_defaults, filter_encoder, recipe
from engine.queries.rejection import Filtered, Reason, Rejected
from engine.queries.rules.tokens import question_key
from engine.queries.splitting import split_queries
from engine.queries.writing import WrittenQueries, delete_stale_answers, write_queries

if TYPE_CHECKING:
    from engine.core.arrays import Ids
    from engine.lexical.index import LexicalIndex
    from engine.queries.filters.quality import Check

VERSION = 4


class GenerateStage(Stage):
    """Make training queries from chunks, and split them into trained and held-out ones."""

    version = VERSION
    artifact = QueriesInfo

    def inputs(self, snapshot: ProjectSnapshot) -> dict[str, Any]:
        """Return the recipe, and the fingerprint of the corpus (see `adaptation_corpus`)."""
        snapshot.need(LexicalInfo)
        snapshot.need(CorpusInfo)
        return {"recipe": recipe(snapshot), "corpus": adaptation_corpus(snapshot).fingerprint}

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
        share = adaptation_corpus(snapshot).changed_share
        if share:
            limit = (
                f"up to {100 * snapshot.settings.corpus.retrain_threshold:g} % may"
                " (corpus.retrain_threshold)"
            )
            notes.append(f"kept: {100 * share:.1f} % of the chunks have changed since, {limit}")
        queries = snapshot.store.artifact(QueriesInfo)
        has_filter = snapshot.settings.queries.consistency_top
        if has_filter and queries and queries.info.encoder not in (None, filter_encoder(snapshot)):
            notes.append("kept: another encoder has filtered them")
        if queries and self.is_outdated(snapshot):
            command = f"'engine generate {snapshot.project.argument}' makes others"
            notes.append(f"kept: they were made by the defaults of an earlier version; {command}")
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
        queries = split_queries(
            context,
            filtered.kept,
            chunks,
        )
        # The user's corrections hold for queries that have been made again.
        judged = {question_key(query.text) for query in context.store.judged()}
        hashes = context.store.hashes_of(query.chunk_id for query in queries)
        queries = apply_edits(
            queries,
            hashes,
            read_edits(context.project),
            judged,
        )
        corpus = context.store.corpus_fingerprint()
        encoder = filter_encoder(context)
        defaults = current_defaults()
        current_recipe = recipe(context, encoder, defaults)
        info = QueriesInfo(
            corpus=corpus,
            recipe=fingerprint(recipe=current_recipe),
            made=made,
            rejected=rejected,
            content=content_fingerprint(queries),
            backend=choice.backend,
            writer=writer_info(context),
            encoder=encoder,
            defaults=defaults,
        )
        # Not `inputs`: a forced run uses the current corpus even if few chunks have changed.
        inputs = {"recipe": current_recipe, "corpus": corpus}
        artifact = Artifact(info, stage_fingerprint("generate", VERSION, inputs))
        all_rejected = (*candidates.lost, *filtered.rejected)
        queries_with_reasons = [(item.query, item.stored) for item in all_rejected]
        context.store.replace_queries(queries, artifact, queries_with_reasons)
        delete_stale_answers(context)
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


class AdaptationCorpus(NamedTuple):
    """The fingerprint of the corpus to adapt to, and the share of chunks changed since then."""

    fingerprint: str
    changed_share: float


def adaptation_corpus(snapshot: ProjectSnapshot) -> AdaptationCorpus:
    """Return the corpus of the current queries, or the current corpus if it has changed too much.

    As long as the share of changed chunks is at most `corpus.retrain_threshold` and nothing else
    has changed, queries and adapter are kept.
    """
    current = snapshot.store.corpus_fingerprint()
    queries = snapshot.store.artifact(QueriesInfo)
    if queries is None or queries.info.corpus == current:
        return AdaptationCorpus(current, 0.0)
    if queries.info.recipe != fingerprint(recipe=recipe(snapshot)):
        return AdaptationCorpus(current, 0.0)
    share = snapshot.store.changed_share()
    if share <= snapshot.settings.corpus.retrain_threshold:
        return AdaptationCorpus(queries.info.corpus, share)
    return AdaptationCorpus(current, share)


def _make_candidates(
    context: StageContext, chunks: Sequence[Chunk], choice: QueryBackendInfo
) -> WrittenQueries:
    """Return the queries of the chosen backend, except those that equal judged ones."""
    backend = choice.backend
    if context.settings.queries.backend == AUTO:
        context.report_choice(
            "queries",
            backend,
            choice.reason,
        )
    if backend in MODELS:
        written = write_queries(
            context,
            chunks,
            context.store.titles(),
        )
    else:
        queries: list[Query] = []
        lost: list[Rejected] = []
        if backend in IMPORTED:
            queries, lost = _attach_imported(context, chunks)
        if backend in EXTRACTIVE:
            queries += _extract(context, _sample_chunks(context, chunks))
            context.progress(
                len(chunks),
                len(chunks),
                "chunks",
            )
        written = WrittenQueries(
            queries,
            len(queries) + len(lost),
            rejection.by_reason(lost),
            lost,
        )
    judged = {question_key(query.text) for query in context.store.judged()}
    kept = []
    equal_to_judged = []
    for query in written.queries:
        if question_key(query.text) in judged:
            equal_to_judged.append(Rejected(query, Reason.JUDGED))
        else:
            kept.append(query)
    if equal_to_judged:
        equal = format_count(
            len(equal_to_judged),
            "query",
            "queries",
        )
        context.warn(f"Not trained on, because judged questions have the same text: {equal}.")
        written.rejected[Reason.JUDGED] = len(equal_to_judged)
        written.lost = written.lost + equal_to_judged
        written.queries = kept
    return written


def _attach_imported(context: StageContext, chunks: Sequence[Chunk]) -> Filtered:
    """Attach the imported queries to their chunks, and warn of those left out."""
    from engine.queries.imported import attach_imported

    items = imported_queries(context.project)
    attached = attach_imported(
        items,
        chunks,
        context.store.documents(),
    )
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
    """Let the built-in generator make queries of the chunks."""
    from engine.queries.rules.extractive import generate

    settings = context.settings.queries
    language = context.need(LexicalInfo).info.language
    context.report_choice(
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


def _filter(
    context: StageContext,
    candidates: list[Query],
    chunks: Sequence[Chunk],
) -> Filtered:
    """Reject poor queries of a model, duplicates, and queries whose chunk no retriever finds.

    The retrievers are BM25 and the base encoder.
    """
    from engine.lexical.index import LexicalIndex
    from engine.queries.filters.dedupe import deduplicate

    index = LexicalIndex.open(context.project.folder_of(context.need(LexicalInfo)))

    def report(check: Check, filtered: Filtered) -> None:
        _report_share(
            context,
            check.name,
            filtered,
            check.requirement,
        )

    passed = quality_filter(
        context, candidates, chunks, index.language, index, report, context.check_stop
    )
    distinct = deduplicate(passed.kept, check=context.check_stop)
    requirement = "a query is kept when none before it says the same"
    _report_share(context, "duplicates", distinct, requirement)
    rejected = passed.rejected + distinct.rejected
    top = context.settings.queries.consistency_top
    if not top or not distinct.kept:
        return Filtered(distinct.kept, rejected)

    def rank_by_bm25(queries: Sequence[Query]) -> Ids:
        return bm25_ranks(
            index,
            queries,
            max_depth(queries, top),
            context.check_stop,
        )

    def rank_by_base_encoder(queries: Sequence[Query]) -> Ids:
        return base_ranks(
            context,
            queries,
            chunks,
            max_depth(queries, top),
        )

    rankers = [rank_by_bm25, rank_by_base_encoder]
    consistent = consistency_filter(
        distinct.kept,
        rankers,
        top=top,
    )
    requirement = (
        f"a query is kept when its chunk is within the top {top} of BM25 or of the base encoder"
    )
    if max_depth(distinct.kept, top) > top:
        requirement += f", an everyday one within the top {EVERYDAY_TOP}"
    _report_share(context, "consistency filter", consistent, requirement)
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

    `language`: that of the corpus. `index`: as in `build_checks`. `report` gets the result of each
    check; `check` is called before each query, and may raise to end the work.
    """
    if not queries or not snapshot.settings.queries.quality_filters:
        return Filtered(queries, [])
    if backend_of(snapshot) not in MODELS:
        return Filtered(queries, [])
    from engine.queries.filters.quality import apply_checks, build_checks

    documents = {query.document_id for query in queries}
    own_chunks = [chunks[row] for row in find_rows_of_documents(chunks, documents).tolist()]
    checks = build_checks(
        own_chunks,
        snapshot.store.documents(),
        language,
        index,
    )
    return apply_checks(queries, checks, report, check)


def _report_share(
    context: StageContext,
    name: str,
    filtered: Filtered,
    requirement: str,
) -> None:
    """Report the share of queries that a filter has kept, and what it requires."""
    total = len(filtered.kept) + len(filtered.rejected)
    if total:
        context.report_choice(
            name, f"{format_share(filtered.share)} kept", f"of {total} queries: {requirement}"
        )


def _limit_number(context: StageContext, filtered: Filtered) -> Filtered:
    """Keep a random `queries.max_queries` of the queries, wherever they come from."""
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
