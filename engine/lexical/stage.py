"""Stage `index`: from chunks to a BM25 index.

Updates a copy of the former index if few chunks changed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.errors import DamagedError, reason_of
from engine.core.platforms.files import delete_tree, try_remove_tree
from engine.core.records import Chunk
from engine.core.text import language_name
from engine.lexical.filenames import build_search_label
from engine.lexical.languages import choose_analysis_language, load_identifier
from engine.lexical.storage import read_manifest
from engine.project.stage import ProjectSnapshot, Stage, StageContext, ThrottledProgress
from engine.project.store.artifact_info import CorpusInfo, LexicalInfo
from engine.project.store.artifacts import Artifact
from engine.project.store.chunks import chunk_ids_of, find_rows_of_documents

if TYPE_CHECKING:
    from engine.core.arrays import Ids
    from engine.lexical.index import LexicalIndex

VERSION = 17
TITLES = "titles.json"
LANGUAGES = "languages.json"
# Chunks whose language is detected if no document has one.
SAMPLE = 200
# Chunks between two points at which the stage may stop.
BLOCK = 512
# Chunks that may be added to an index, however small it is.
BATCH = 10_000


class IndexStage(Stage):
    """Builds the BM25 index, or updates a copy of the former one if few chunks changed."""

    version = VERSION
    artifact = LexicalInfo

    def inputs(self, snapshot: ProjectSnapshot) -> dict[str, Any]:
        """Return the chunks and the language setting.

        Raises NotBuiltError after an incomplete ingest.
        """
        snapshot.need(CorpusInfo)
        has_titles = snapshot.settings.lexical.titles
        return {
            "chunks": snapshot.store.corpus_fingerprint(),
            "titles": snapshot.store.titles_fingerprint() if has_titles else "",
            "lexical": snapshot.settings.lexical.model_dump(),
        }

    def verify(self, snapshot: ProjectSnapshot) -> None:
        """Raise DamagedError if the index on disk is not the one that was built."""
        read_manifest(snapshot.project.folder_of(snapshot.need(LexicalInfo)))

    def run(self, context: StageContext) -> dict[str, Any]:
        """Build or update the index, then make it the current one."""
        former = context.store.artifact(LexicalInfo)
        undetected = context.store.count_without_language()
        with ThreadPoolExecutor(1) as background:
            if undetected:
                # The model that detects languages is decompressed without holding the GIL.
                background.submit(load_identifier)
            live = context.store.chunk_ids()
            if former is not None:
                # Hash the files meanwhile; the update then finds the hashes (`remembered_sha256`).
                # A damaged index is reported and rebuilt later.
                with suppress(DamagedError):
                    read_manifest(context.project.path / former.folder)
        _store_languages(context, ThrottledProgress(context, undetected, "documents"))
        plan = _plan_index(context)
        with context.project.building("lexical", context.fingerprint) as building:
            updated = _update(
                context,
                building.folder,
                former,
                live,
                plan,
            )
            if updated is None:
                _build(
                    context,
                    building.folder,
                    len(live),
                    plan,
                )
            (building.folder / TITLES).write_text(json.dumps(plan.titles), encoding="utf-8")
            (building.folder / LANGUAGES).write_text(json.dumps(plan.languages), encoding="utf-8")
        info = LexicalInfo(
            language=plan.language,
            languages=tuple(sorted(set(plan.languages.values()))),
            chunks=len(live),
            chunks_fingerprint=context.store.corpus_fingerprint(),
            version=VERSION,
        )
        context.store.put_artifact(Artifact(info, context.fingerprint, building.name))
        added, removed = updated or (len(live), 0)  # built anew, all chunks are added
        return {
            "chunks": len(live),
            "added": added,
            "removed": removed,
            "language": plan.language,
            "updated": updated is not None,
        }


STAGE = IndexStage()


def index_without(
    context: StageContext, name: str, chunks: Sequence[Chunk], untitled: Collection[int] | None
) -> LexicalIndex:
    """Build an index of `chunks`, analysed as in the project's index, but without some titles.

    It contains neither title nor file name of the documents `untitled` (None: of all documents).
    Only chunks of these may have other texts than in the project; the terms of all others are
    copied from its index. The folder is `lexical/NAME`, with a number if Windows cannot delete a
    former one that is open. Such folders are deleted by a later sweep. Raises DamagedError.
    """
    import numpy as np

    from engine.lexical.index import LexicalIndex

    first = context.project.path / "lexical" / name
    folder = first
    number = 1
    while not try_remove_tree(folder):
        number += 1
        folder = first.with_name(f"{name}-{number}")

    project_index = context.need(LexicalInfo)
    source = context.project.folder_of(project_index)
    titles = _read_by_document(source / TITLES)
    changed = set(titles if untitled is None else untitled)
    titles = {key: title for key, title in titles.items() if key not in changed}
    languages = _find_chunk_languages(context, _read_by_document(source / LANGUAGES))
    index = LexicalIndex.open(source)
    ids = chunk_ids_of(chunks)
    is_copied = np.isin(ids, index.ids())
    is_copied[find_rows_of_documents(chunks, changed)] = False
    if project_index.info.version != VERSION:
        is_copied[:] = False
    others = [chunks[row] for row in np.flatnonzero(~is_copied).tolist()]
    texts = _label_texts(context, others, titles)
    return index.extracted(
        folder,
        ids[is_copied],
        texts,
        languages,
    )


def _build_labels(snapshot: ProjectSnapshot) -> dict[int, str]:
    """Return document id → the text that precedes each of its chunks in the index.

    It is the file's name, and the title unless the chunks already contain it.
    """
    if not snapshot.settings.lexical.titles:
        return {}
    with_title = snapshot.settings.corpus.context != "title"
    labels = {}
    for key, title, path in snapshot.store.titled_paths():
        if label := build_search_label(title if with_title else "", path):
            labels[key] = label
    return labels


@dataclass(frozen=True, slots=True)
class _IndexPlan:
    """How the chunks should be indexed."""

    language: str
    """Main language."""
    titles: Mapping[int, str]
    """Document id → the text that precedes each of its chunks."""
    languages: Mapping[int, str]
    """Document id → its language, if it is not analysed in the main one."""


def _plan_index(context: StageContext) -> _IndexPlan:
    """Choose the main language, the language of each document and the text before each chunk."""
    language = _choose_language(context)
    titles = _build_labels(context)
    others: dict[int, str] = {}
    if context.settings.lexical.language == "auto":
        for key, detected, length in context.store.languages_but(language):
            code = choose_analysis_language(detected, length, language)
            if code != language:
                others[key] = code
    if others:
        counts = Counter(others.values()).most_common()
        context.report_choice(
            "other languages",
            ", ".join(f"{count:,} in {language_name(code)}" for code, count in counts),
            "word endings follow each document's language; a query is tried in all of them",
        )
    return _IndexPlan(language, titles, others)


def _store_languages(context: StageContext, report: Callable[[int], None]) -> None:
    """Detect the language of every document that has none stored.

    Stemming and search filters use it. `report` is called with the number of documents done.
    """
    from engine.lexical.languages import language_of

    store = context.store
    done = 0
    while block := store.documents_without_language(BLOCK):
        context.check_stop()
        # Detected before the transaction, which makes other writers wait.
        languages = [(row_id, language_of(text)) for row_id, text in block]
        with store.transaction():
            store.put_languages(languages)
        done += len(block)
        report(done)


def _choose_language(context: StageContext) -> str:
    """Return the main language: that of project.toml, or the detected one."""
    from engine.lexical.languages import detect_language, main_language

    language = context.settings.lexical.language
    if language != "auto":
        return language

    lengths = context.store.characters_by_language("")
    # Documents of BEIR sets have no language stored.
    if lengths:
        detected, reason = main_language(lengths)
    else:
        detected, reason = detect_language(context.store.sample_chunk_texts(SAMPLE))
    context.report_choice("language", detected, reason)
    return detected


def _build(
    context: StageContext,
    folder: Path,
    count: int,
    plan: _IndexPlan,
) -> None:
    """Build the index of all chunks, `count` in number."""
    from engine.lexical.index import LexicalIndex

    languages = _find_chunk_languages(context, plan.languages)
    report = ThrottledProgress(context, count, "chunks")
    texts = _label_texts(
        context,
        context.store.each_chunk(),
        plan.titles,
        report,
    )
    LexicalIndex.build(
        folder,
        texts,
        plan.language,
        languages=languages,
    )
    report(count)


def _find_chunk_languages(context: StageContext, languages: Mapping[int, str]) -> dict[int, str]:
    """Return chunk id → language for chunks that are not analysed in the main one."""
    if not languages:
        return {}
    chunk_languages = {}
    for chunk, document, _ in context.store.chunk_keys():
        if document in languages:
            chunk_languages[chunk] = languages[document]
    return chunk_languages


def _label_texts(
    context: StageContext,
    chunks: Iterable[Chunk],
    titles: Mapping[int, str],
    report: Callable[[int], None] = lambda _: None,
) -> Iterator[tuple[int, str]]:
    """Yield (id, text to index) of every chunk; the text begins with the document's title.

    After every `BLOCK` chunks the stage may stop or pause, and the number done is reported.
    """
    for count, chunk in enumerate(chunks):
        if count % BLOCK == 0:
            context.check_stop()
            report(count)
        text = chunk.embedded_text
        title = titles.get(chunk.document_id)
        if title:
            text = f"{title}\n{text}"
        yield chunk.id, text


def _update(
    context: StageContext,
    folder: Path,
    former: Artifact[LexicalInfo] | None,
    live: Ids,
    plan: _IndexPlan,
) -> tuple[int, int] | None:
    """Write an update of the former index to `folder`.

    `live` (n,): ids of all chunks to be indexed. Returns the numbers of chunks added and removed,
    or None if the index must be built from scratch. That is also so if the former index has the
    same inputs: then the user forces the stage, or the index is damaged.
    """
    if former is None or former.fingerprint == context.fingerprint:
        return None
    if former.info.language != plan.language or former.info.version != VERSION:
        return None
    import numpy as np

    from engine.lexical.index import LexicalIndex

    source = context.project.path / former.folder
    try:
        index = LexicalIndex.open(source)
        known = index.ids()
        changed = np.fromiter(_find_changed_chunks(context, source, plan), np.int64)
        is_added = ~np.isin(live, known) | np.isin(live, changed)
        added = live[is_added]
        removed = known[np.isin(known, live, invert=True)]
        # Added texts are held in memory.
        if len(added) > max(BATCH, len(known)):
            return None
        chunks = context.store.chunks_by_id(added.tolist())
        ordered = [chunks[key] for key in added.tolist()]
        texts = _label_texts(
            context,
            ordered,
            plan.titles,
        )
        languages = _find_chunk_languages(context, plan.languages)
        index.updated(
            folder,
            texts,
            removed.tolist(),
            languages,
        )
        return len(added), len(removed)
    except DamagedError as error:
        context.warn(f"{error.what} It is built again.")
    # After the `except`: until then the error's traceback refers to the writer of the new index,
    # whose open files Windows would not delete.
    delete_tree(folder)
    folder.mkdir(mode=0o700)
    return None


def _find_changed_chunks(
    context: StageContext,
    source: Path,
    plan: _IndexPlan,
) -> set[int]:
    """Return the chunk ids of documents whose title or language differs from the former index.

    Raises DamagedError.
    """
    former_titles = _read_by_document(source / TITLES)
    former_languages = _read_by_document(source / LANGUAGES)
    titles = former_titles.items() ^ plan.titles.items()
    languages = former_languages.items() ^ plan.languages.items()
    changed = {document for document, _ in titles | languages}
    return set(context.store.chunk_ids_in(changed))


def _read_by_document(file: Path) -> dict[int, str]:
    """Read a JSON file of the index: document id → title or language. Raises DamagedError."""
    try:
        stored = json.loads(file.read_bytes())
        return {int(key): value for key, value in stored.items()}
    except (OSError, ValueError, AttributeError) as error:
        raise DamagedError.of_stage(
            "index",
            f"{file.name} of the BM25 index cannot be read.",
            reason_of(error),
            code="index-damaged",
        ) from error
