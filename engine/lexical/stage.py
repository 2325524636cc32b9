"""Stage `index`: chunks → BM25 index. Updates a copy of the former index where few chunks changed."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.errors import DamagedError, SettingsError, nearest
from engine.records import Chunk
from engine.stage import StageContext, View
from engine.store import Artifact

VERSION = 2
TITLES = "titles.json"
ARTIFACT = "lexical"
SAMPLE = 200
BLOCK = 512  # chunks between two safe points


def inputs(view: View) -> dict[str, Any]:
    """The chunks and the language setting. Raises NotBuiltError after an ingest that did not come to its end."""
    view.need("corpus", "ingest")
    titles = view.store.titles_fingerprint() if _with_titles(view) else ""
    return {
        "chunks": view.store.corpus_fingerprint(), "titles": titles, "lexical": view.settings.lexical.model_dump(),
    }  # fmt: skip


def _with_titles(view: View) -> bool:
    """Whether titles are put before the chunks: not where these hold them already."""
    return view.settings.lexical.titles and view.settings.corpus.context != "title"


def _titles(view: View) -> dict[int, str]:
    """Document id → what is put before each of its chunks."""
    return {key: title for key, title in view.store.titles().items() if title.strip()} if _with_titles(view) else {}


def verify(view: View) -> None:
    """Raises DamagedError when the index on disk is not the one that was built."""
    from engine.lexical.storage import read_manifest

    read_manifest(view.project.folder_of(view.need(ARTIFACT, "index")))


def run(context: StageContext) -> dict[str, Any]:
    """Build or update the index, then make it the current one."""
    _tell_languages(context)
    hashes = dict(context.store.chunk_hashes())
    language = _language(context)
    former = context.store.artifact(ARTIFACT)
    titles = _titles(context)
    with context.project.building("lexical", context.fingerprint) as building:
        updated = _update(context, building.folder, former, hashes, language, titles)
        if updated is None:
            _build(context, building.folder, language, titles)
        (building.folder / TITLES).write_text(json.dumps(titles), encoding="utf-8")
    info = {
        "language": language,
        "chunks": len(hashes),
        "chunks_fingerprint": context.store.corpus_fingerprint(),
        "version": VERSION,
    }
    context.store.put_artifact(Artifact(ARTIFACT, context.fingerprint, building.name, time.time(), info))
    added, removed = updated or (len(hashes), 0)
    return {
        "chunks": len(hashes),
        "added": added,
        "removed": removed,
        "language": language,
        "updated": updated is not None,
    }


def _tell_languages(context: StageContext) -> None:
    """Note the language of every document that has none noted: search filters by it."""
    from engine.lexical.languages import language_of

    while block := context.store.documents_without_language(BLOCK):
        context.check_stop()
        with context.store.transaction():
            context.store.put_languages((row_id, language_of(text)) for row_id, text in block)


def _language(context: StageContext) -> str:
    wished = context.settings.lexical.language
    from engine.lexical import detect_language, supported_languages

    if wished != "auto":
        known = [*supported_languages(), "none"]
        if wished not in known:
            near = nearest(wished, known)
            raise SettingsError(
                f"lexical.language = '{wished}' is not a language that can be stemmed.",
                "Known are auto, " + ", ".join(known) + ".",
                f"Did you mean '{near}'?" if near else "Name one of them in project.toml.",
            )
        return wished

    chunks = context.store.sample_chunk_texts(SAMPLE)
    language, reason = detect_language(chunks)
    context.choose("language", language, reason)
    return language


def _build(context: StageContext, folder: Path, language: str, titles: Mapping[int, str]) -> None:
    from engine.lexical import LexicalIndex

    chunks = context.store.chunks()
    LexicalIndex.build(folder, _texts(context, chunks, titles), language)
    context.progress(len(chunks), len(chunks), "chunks")


def _texts(context: StageContext, chunks: Sequence[Chunk], titles: Mapping[int, str]) -> Iterator[tuple[int, str]]:
    """(id, title and text) of every chunk; now and then a safe point to stop or wait at."""
    for count, chunk in enumerate(chunks):
        if count % BLOCK == 0:
            context.check_stop()
        title = titles.get(chunk.document_id)
        yield chunk.id, f"{title}\n{chunk.embedded_text}" if title else chunk.embedded_text


def _update(
    context: StageContext,
    folder: Path,
    former: Artifact | None,
    hashes: dict[int, str],
    language: str,
    titles: Mapping[int, str],
) -> tuple[int, int] | None:
    """(added, removed) when a copy of the former index could be brought in line; None when it must be built.

    Where the former index stands for the same inputs, the user forces the stage or the index is damaged.
    """
    if former is None or former.fingerprint == context.fingerprint:
        return None
    if (former.info.get("language"), former.info.get("version")) != (language, VERSION):
        return None
    from engine.lexical import LexicalIndex

    source = context.project.path / former.folder
    try:
        known = LexicalIndex.open(source).ids()
        retitled = _retitled(context, source, titles)
        added, removed = (hashes.keys() - known) | (hashes.keys() & retitled), known - hashes.keys()
        shutil.copytree(source, folder, dirs_exist_ok=True)
        chunks = context.store.chunks_by_id(added)
        fresh = _texts(context, [chunks[key] for key in sorted(added)], titles)
        LexicalIndex.open(folder).update(fresh, sorted(removed))
    except DamagedError as error:
        context.warn(f"{error.what} It is built anew.")
        shutil.rmtree(folder)
        folder.mkdir(mode=0o700)
        return None
    return len(added), len(removed)


def _retitled(context: StageContext, source: Path, titles: Mapping[int, str]) -> set[int]:
    """The chunks of documents whose title is not the one in the former index. Raises DamagedError."""
    try:
        former = {int(key): value for key, value in json.loads((source / TITLES).read_bytes()).items()}
    except (OSError, ValueError, AttributeError) as error:
        raise DamagedError(f"{TITLES} of the BM25 index cannot be read.", f"{error}.", "Run 'engine index'.") from error
    other = {key for key in former.keys() | titles.keys() if former.get(key) != titles.get(key)}
    return {chunk for chunk, document in context.store.chunk_owners() if document in other} if other else set()
