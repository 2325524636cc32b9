"""Writing the files of a BM25 index: tantivy's terms, and the ids and the manifest."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tantivy

from engine.core.arrays import Ids
from engine.core.disk import write_text
from engine.lexical import storage
from engine.lexical.several import Analyzers, Spellings
from engine.lexical.storage import Manifest, damage_error

ID = "id"
WORDS = "words"
CODES = "codes"
TOKENIZER = "split_at_spaces"
IDS = "ids.npy"
SPELLINGS = "spellings.json"
# Bytes; one segment is written once they are full.
_WRITER_MEMORY = 2_000_000_000

Languages = Mapping[int, str]
"""Chunk id → the language that it is analysed in, if that is not the main one."""


class StoredChunk(NamedTuple):
    """A chunk as it is indexed: its words and its codes, each joined by spaces."""

    id: int
    words: str
    codes: str


class ChunkAnalysis:
    """Turns (id, text) pairs into the terms to store, and records how their words are spelt."""

    def __init__(self, settings: Manifest, others: Languages) -> None:
        self._language = settings.language
        self._others = others
        self._analyzers = Analyzers(settings.language, Counter(others.values()))

    def analyse(self, chunks: Iterable[tuple[int, str]]) -> Iterator[StoredChunk]:
        """Yield the chunks as they are indexed."""
        for key, text in chunks:
            language = self._others.get(key, self._language)
            terms = self._analyzers.of(language).terms(text)
            codes = " ".join(terms.codes + terms.sequences)
            yield StoredChunk(
                key,
                " ".join(terms.words),
                codes,
            )

    def spellings(self, known: Spellings) -> dict[str, list[str]]:
        """Return the recorded spellings, merged with the `known` ones of a former index."""
        spellings = self._analyzers.collect_spellings()
        for term, terms in known.items():
            spellings.setdefault(term, set()).update(terms)
        return {term: sorted(spellings[term]) for term in sorted(spellings)}


def write(
    folder: Path,
    chunks: Iterable[StoredChunk],
    settings: Manifest,
    others: Languages,
    spellings: Callable[[], Spellings],
) -> None:
    """Write a new index in `folder`.

    `settings`: the manifest with the main language. `others`: the languages of chunks in another
    one. `spellings` is called after all chunks are written.
    """
    target = storage.files_folder(folder)
    target.mkdir(mode=0o700, parents=True)
    folder.chmod(0o700)
    ids = write_segment(target, chunks)
    sorted_ids = np.sort(np.fromiter(ids, np.int64, len(ids)))
    put_manifest(
        folder,
        sorted_ids,
        replace(settings, files={}),
        others,
        spellings(),
    )


def put_manifest(
    folder: Path,
    ids: Ids,
    former: Manifest,
    others: Languages,
    spellings: Spellings,
) -> None:
    """Write the ids, the spellings and the manifest of the files now in `folder`.

    `ids`: all chunk ids (n,), ascending. `others`: the languages of chunks in another one than the
    main one. The digests of segments that the `former` manifest names are reused.
    """
    target = storage.files_folder(folder)
    (target / IDS).unlink(missing_ok=True)
    np.save(target / IDS, ids)
    write_text(target / SPELLINGS, json.dumps(spellings, ensure_ascii=False))
    languages = Counter(others[key] for key in ids.tolist() if key in others)
    del languages[former.language]
    if languages:
        languages[former.language] = len(ids) - languages.total()
    files = storage.describe_files(target, former.files)
    manifest = replace(
        former,
        count=len(ids),
        languages=dict(languages),
        files=files,
    )
    write_text(folder / storage.MANIFEST, json.dumps(asdict(manifest), indent=1))


class NotedSpellings:
    """The spellings stored in an index, read on first use.

    It holds no reference to the index: an index closes its files once nothing refers to it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, list[str]] | None = None

    def __call__(self) -> dict[str, list[str]]:
        """Return the spellings. Raises DamagedError."""
        known = self._known
        if known is None:
            file = storage.files_folder(self._folder) / SPELLINGS
            with panics_are_damage(self._folder):
                known = json.loads(file.read_bytes())
            self._known = known
        return known


def write_segment(
    target: Path, chunks: Iterable[StoredChunk], gone: Iterable[int] = ()
) -> set[int]:
    """Write chunks to an index, delete those whose ids are `gone`, and return the ids written."""
    index = tantivy.Index(
        _build_schema(),
        str(target),
        sort_by_field=ID,
    )
    register_tokenizer(index)
    seen: set[int] = set()
    with panics_are_damage(target):
        writer = index.writer(_WRITER_MEMORY, num_threads=1)
        for key in gone:
            writer.delete_documents_by_term(ID, key)
    for chunk in chunks:
        fits = -(2**63) <= chunk.id < 2**63
        if chunk.id in seen or not fits:
            raise ValueError(f"chunk id {chunk.id} occurs twice or does not fit in 64 bits")
        seen.add(chunk.id)
        writer.add_document(tantivy.Document(**chunk._asdict()))
    writer.commit()
    writer.wait_merging_threads()
    return seen


def _build_schema() -> tantivy.Schema:
    """Return tantivy's schema: words with their frequencies, and codes without."""
    builder = tantivy.SchemaBuilder()
    builder.add_integer_field(
        ID,
        indexed=True,
        fast=True,
    )
    builder.add_text_field(
        WORDS,
        stored=True,
        tokenizer_name=TOKENIZER,
        index_option="freq",
    )
    builder.add_text_field(
        CODES,
        stored=True,
        tokenizer_name=TOKENIZER,
        index_option="basic",
    )
    return builder.build()


def register_tokenizer(index: tantivy.Index) -> None:
    """Tell an opened index how stored terms are separated: tantivy does not store it."""
    splitter = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()
    index.register_tokenizer(TOKENIZER, splitter)


@contextmanager
def panics_are_damage(folder: Path) -> Iterator[None]:
    """Raise DamagedError for errors and panics of tantivy inside the block.

    For a broken file, tantivy raises ValueError or OSError, or panics with a BaseException of pyo3.
    """
    try:
        yield
    except (ValueError, OSError) as error:
        raise damage_error(folder, f"tantivy cannot read it ({error})") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise damage_error(folder, f"tantivy failed on it ({error})") from error
