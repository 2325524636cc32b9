"""Stage `index`: from chunks to a BM25 index.

Updates a copy of the former index if few chunks changed.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.errors import DamagedError, SettingsError, nearest, reason_of
from engine.core.records import Chunk
from engine.core.text import language_name
from engine.lexical.filenames import searched_label
from engine.lexical.languages import analysed_in, identifier
from engine.lexical.storage import read_manifest
from engine.project.stage import ProjectSnapshot, Stage, StageContext, ThrottledProgress
from engine.project.store.artifact_info import CorpusInfo, LexicalInfo
from engine.project.store.artifacts import Artifact
from engine.project.store.store import Store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.lexical.index import LexicalIndex

VERSION = 7
DETECTION = 1
"""Version of `language_of` and of what it is given.

Raise it to make the next run detect the documents' languages again. An up-to-date index stays, and
uses them when it is next updated.
"""
TITLES = "titles.json"
LANGUAGES = "languages.json"
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
        if snapshot.settings.lexical.titles:
            titles = snapshot.store.titles_fingerprint()
        else:
            titles = ""
        return {
            "chunks": snapshot.store.corpus_fingerprint(),
            "titles": titles,
            "lexical": snapshot.settings.lexical.model_dump(),
        }

    def verify(self, snapshot: ProjectSnapshot) -> None:
        """Raise DamagedError if the index on disk is not the one that was built."""
        read_manifest(snapshot.project.folder_of(snapshot.need(LexicalInfo)))

    def run(self, context: StageContext) -> dict[str, Any]:
        """Build or update the index, then make it the current one."""
        former = context.store.artifact(LexicalInfo)
        with ThreadPoolExecutor(1) as beside:
            if unknown := context.store.count_without_language():
                # While its model is decompressed, the interpreter is free for what follows.
                beside.submit(identifier)
            live = context.store.chunk_ids()
            if former is not None:
                with suppress(DamagedError):  # A damaged index is rebuilt.
                    read_manifest(context.project.path / former.folder)
        anew = former is not None and former.info.detection != DETECTION
        to_note = ThrottledProgress(
            context, context.store.counts()["documents"] if anew else unknown, "documents"
        )
        _note_languages(context.store, context.should_stop, to_note, anew=anew)
        context.check_stop()
        wanted = _wanted(context)
        with context.project.building("lexical", context.fingerprint) as building:
            updated = _update(context, building.folder, former, live, wanted)
            if updated is None:
                _build(context, building.folder, len(live), wanted)
            (building.folder / TITLES).write_text(json.dumps(wanted.titles), encoding="utf-8")
            (building.folder / LANGUAGES).write_text(json.dumps(wanted.languages), encoding="utf-8")
        info = LexicalInfo(
            language=wanted.language,
            languages=tuple(sorted(set(wanted.languages.values()))),
            chunks=len(live),
            chunks_fingerprint=context.store.corpus_fingerprint(),
            version=VERSION,
            detection=DETECTION,
        )
        context.store.put_artifact(Artifact(info, context.fingerprint, building.name))
        added, removed = updated or (len(live), 0)
        return {
            "chunks": len(live),
            "added": added,
            "removed": removed,
            "language": wanted.language,
            "updated": updated is not None,
        }


STAGE = IndexStage()


def index_without(
    context: StageContext, folder: Path, chunks: Sequence[Chunk], untitled: Collection[int] | None
) -> LexicalIndex:
    """Index other texts for the project's chunks in `folder`, analysed as the project's index is.

    The index contains neither title nor file name of the documents `untitled` (None: of all).
    Raises DamagedError.
    """
    from engine.lexical.index import LexicalIndex

    own = context.need(LexicalInfo)
    source = context.project.folder_of(own)
    titles = {}
    if untitled is not None:
        titles = {
            key: title for key, title in _kept(source / TITLES).items() if key not in untitled
        }
    wanted = _Wanted(own.info.language, titles, _kept(source / LANGUAGES))
    return LexicalIndex.build(
        folder,
        _texts(context, chunks, wanted.titles),
        wanted.language,
        languages=_of_chunks(context, wanted),
    )


def _labels(snapshot: ProjectSnapshot) -> dict[int, str]:
    """Return document id → what precedes each of its chunks.

    It is the file's name, and the title unless the chunks already contain it.
    """
    if not snapshot.settings.lexical.titles:
        return {}
    with_title = snapshot.settings.corpus.context != "title"
    labels = {
        key: searched_label(title if with_title else "", path)
        for key, title, path in snapshot.store.titled_paths()
    }
    return {key: label for key, label in labels.items() if label}


@dataclass(frozen=True, slots=True)
class _Wanted:
    """How the chunks should be indexed.

    `titles` maps a document to what precedes each of its chunks. `languages` maps documents that
    are not analysed in the main `language` to theirs.
    """

    language: str
    titles: Mapping[int, str]
    languages: Mapping[int, str]


def _wanted(context: StageContext) -> _Wanted:
    language = _language(context)
    titles = _labels(context)
    if context.settings.lexical.language != "auto":
        return _Wanted(language, titles, {})
    analysed = {
        key: analysed_in(code, length, language)
        for key, code, length in context.store.languages_but(language)
    }
    others = {key: code for key, code in analysed.items() if code != language}
    if others:
        counts = ", ".join(
            f"{count:,} in {language_name(code)}"
            for code, count in Counter(others.values()).most_common()
        )
        context.choose(
            "other languages",
            counts,
            "word endings follow each document's language; a query is tried in all of them",
        )
    return _Wanted(language, titles, others)


def renew_languages(store: Store, should_stop: Callable[[], bool]) -> None:
    """Detect the documents' languages again if an earlier version detected them differently.

    The index is not rebuilt.
    """
    index = store.artifact(LexicalInfo)
    if (
        index is not None
        and index.info.detection != DETECTION
        and _note_languages(store, should_stop, anew=True)
    ):
        store.put_artifact(replace(index, info=replace(index.info, detection=DETECTION)))


def _note_languages(
    store: Store,
    should_stop: Callable[[], bool],
    report: Callable[[int], None] = lambda _: None,
    *,
    anew: bool,
) -> bool:
    """Detect the language of every document that has none stored.

    Stemming and search filters use it. With `anew`, languages that are stored are detected again.
    Returns False if stopped early. `report` is called with the number of documents done.
    """
    from engine.lexical.languages import language_of

    if anew:
        with store.transaction():
            store.forget_languages()
    done = 0
    while block := store.documents_without_language(BLOCK):
        if should_stop():
            return False
        with store.transaction():
            store.put_languages((row_id, language_of(text)) for row_id, text in block)
        report(done := done + len(block))
    return True


def _language(context: StageContext) -> str:
    language = context.settings.lexical.language
    from engine.lexical.languages import detect_language, main_language, supported_languages

    if language != "auto":
        known = [*supported_languages(), "none"]
        if language not in known:
            near = nearest(language, known)
            raise SettingsError(
                f"lexical.language = '{language}' is not a language that can be stemmed.",
                "Known languages are auto, " + ", ".join(known) + ".",
                f"Did you mean '{near}'?" if near else "Choose one of these in project.toml.",
                code="language-unknown",
            )
        return language

    lengths: Counter[str] = Counter()
    for _, code, length in context.store.languages_but(""):
        lengths[code] += length
    # Documents of BEIR sets have no language stored.
    if lengths:
        detected, reason = main_language(lengths)
    else:
        detected, reason = detect_language(context.store.sample_chunk_texts(SAMPLE))
    context.choose("language", detected, reason)
    return detected


def _build(context: StageContext, folder: Path, count: int, wanted: _Wanted) -> None:
    from engine.lexical.index import LexicalIndex

    languages = _of_chunks(context, wanted)
    report = ThrottledProgress(context, count, "chunks")
    texts = _texts(context, context.store.each_chunk(), wanted.titles, report)
    LexicalIndex.build(folder, texts, wanted.language, languages=languages)
    report(count)


def _of_chunks(context: StageContext, wanted: _Wanted) -> dict[int, str]:
    """Return chunk id → language for chunks that are not analysed in the main one."""
    languages = wanted.languages
    if not languages:
        return {}
    return {
        chunk: languages[document]
        for chunk, document, _ in context.store.chunk_keys()
        if document in languages
    }


def _texts(
    context: StageContext,
    chunks: Iterable[Chunk],
    titles: Mapping[int, str],
    report: Callable[[int], None] = lambda _: None,
) -> Iterator[tuple[int, str]]:
    """Yield (id, label and text) of every chunk.

    Every `BLOCK` chunks the stage may stop or pause, and the number done is reported.
    """
    for count, chunk in enumerate(chunks):
        if count % BLOCK == 0:
            context.check_stop()
            report(count)
        title = titles.get(chunk.document_id)
        yield chunk.id, f"{title}\n{chunk.embedded_text}" if title else chunk.embedded_text


def _update(
    context: StageContext,
    folder: Path,
    former: Artifact[LexicalInfo] | None,
    live: NDArray[np.int64],
    wanted: _Wanted,
) -> tuple[int, int] | None:
    """Return (added, removed) if the former index could be updated, else None.

    It cannot if the former index has the same inputs, since then the user forces the stage or the
    index is damaged.
    """
    if former is None or former.fingerprint == context.fingerprint:
        return None
    if (former.info.language, former.info.version) != (wanted.language, VERSION):
        return None
    import numpy as np

    from engine.lexical.index import LexicalIndex

    source = context.project.path / former.folder
    try:
        index = LexicalIndex.open(source)
        known = index.ids()
        others = np.fromiter(_otherwise_indexed(context, source, wanted), np.int64)
        added = live[~np.isin(live, known) | np.isin(live, others)]
        removed = known[~np.isin(known, live)]
        # Added texts are held in memory.
        if len(added) > max(BATCH, len(known)):
            return None
        chunks = context.store.chunks_by_id(added.tolist())
        fresh = _texts(context, [chunks[key] for key in added.tolist()], wanted.titles)
        index.updated(folder, fresh, removed.tolist(), _of_chunks(context, wanted))
    except DamagedError as error:
        context.warn(f"{error.what} It is built again.")
        shutil.rmtree(folder)
        folder.mkdir(mode=0o700)
        return None
    return len(added), len(removed)


def _otherwise_indexed(context: StageContext, source: Path, wanted: _Wanted) -> set[int]:
    """Return the chunks of documents whose title or language differs from the former index.

    Raises DamagedError.
    """
    titles = _kept(source / TITLES)
    languages = _kept(source / LANGUAGES)
    other = {
        key
        for key in titles.keys() | wanted.titles.keys()
        if titles.get(key) != wanted.titles.get(key)
    }
    other |= {
        key
        for key in languages.keys() | wanted.languages.keys()
        if languages.get(key) != wanted.languages.get(key)
    }
    return set(context.store.chunk_ids_in(other))


def _kept(file: Path) -> dict[int, str]:
    """Read what a file says of documents, by id."""
    try:
        return {int(key): value for key, value in json.loads(file.read_bytes()).items()}
    except (OSError, ValueError, AttributeError) as error:
        what = f"{file.name} of the BM25 index cannot be read."
        raise DamagedError.of_stage(
            "index", what, reason_of(error), code="index-damaged"
        ) from error
