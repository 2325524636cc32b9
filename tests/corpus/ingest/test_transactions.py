"""Other writers need not wait while files are read, and a killed reading loses nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from fixtures.errors import fails
from fixtures.pipeline import ingest_here
from fixtures.project_files import create_project

from engine.core.errors import NoDocumentsError
from engine.core.records import Chunk, ReadDocument
from engine.corpus.chunking.chunking import Chunker
from engine.corpus.sandbox.outcome import Outcome
from engine.corpus.sandbox.pool import Pool
from engine.datasets.beir import BeirReader
from engine.project.folder import ProjectFolder
from engine.project.store.store import Store

ENTRIES = 1200  # Three blocks.


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = create_project(tmp_path, corpus={"context": "title"})
    (tmp_path / "documents" / "set").mkdir()
    return project.path


def write_data_set(
    project: Path,
    word: str,
    entries: int = ENTRIES,
) -> None:
    lines = [
        json.dumps({"_id": str(number), "text": f"The {word} of pier {number}."}) + "\n"
        for number in range(entries)
    ]
    (project.parent / "documents" / "set" / "corpus.jsonl").write_text("".join(lines))


def read_texts(project: Path) -> list[str]:
    """Return the texts of the live chunks, sorted."""
    with closing(ProjectFolder(project).store()) as store:
        return sorted(chunk.text for chunk in store.chunks())


def texts_of(word: str, entries: int = ENTRIES) -> list[str]:
    return sorted(f"The {word} of pier {number}." for number in range(entries))


def write_meanwhile(project: Path) -> None:
    """Write into the database beside the ingest; fail if a transaction is open."""
    with closing(Store.open(project / "project.db", busy_seconds=0)) as store, store.transaction():
        store.put_languages([(1, "")])


def test_no_transaction_is_open_while_files_are_read_and_cut(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_data_set(project, "tern")
    documents = project.parent / "documents"
    (documents / "lost.txt").write_text("The pelican boards.")
    main = threading.current_thread()
    seen: list[str] = []
    read = Pool.read
    read_entries = BeirReader.read
    chunk_many = Chunker.chunk_many

    def look(what: str) -> None:
        # Other threads read ahead while a batch is written.
        if threading.current_thread() is main:
            write_meanwhile(project)
            seen.append(what)

    def looking_read(
        pool: Pool,
        path: Path,
        format: str,
    ) -> Outcome:
        look(f"read {path.name}")
        return read(pool, path, format)

    def looking_entries(
        reader: BeirReader, path: Path, data: bytes | None = None
    ) -> Iterator[ReadDocument]:
        for number, entry in enumerate(read_entries(reader, path, data)):
            if number % 400 == 0:
                look(f"entry {number}")
            yield entry

    def looking_chunks(cutter: Chunker, texts: Iterable[ReadDocument]) -> Iterator[list[Chunk]]:
        look("cut")
        return chunk_many(cutter, texts)

    monkeypatch.setattr(Pool, "read", looking_read)
    monkeypatch.setattr(BeirReader, "read", looking_entries)
    monkeypatch.setattr(Chunker, "chunk_many", looking_chunks)
    ingest_here(project)
    assert {"entry 0", "entry 400", "entry 800"} < set(seen)
    assert seen.count("cut") == 4  # three blocks and a file
    # Chunks hold the title, which comes from the name: the file is read again.
    (documents / "lost.txt").rename(documents / "found.txt")
    seen.clear()
    ingest_here(project)
    assert seen == ["read found.txt", "cut"]


@pytest.mark.parametrize("budget", [None, 64])
def test_a_reading_that_is_killed_between_two_blocks_is_finished_by_the_next(
    project: Path, monkeypatch: pytest.MonkeyPatch, budget: int | None
) -> None:
    write_data_set(project, "tern")
    ingest_here(project)
    write_data_set(
        project,
        "heron",
        ENTRIES - 100,
    )
    if budget:
        settings = project / "project.toml"
        text = settings.read_text()
        settings.write_text(text.replace("[corpus]", f"[corpus]\nchunk_tokens = {budget}", 1))
    cut = Chunker.chunk_many
    blocks = 0

    def killed(cutter: Chunker, texts: Iterable[ReadDocument]) -> Iterator[list[Chunk]]:
        nonlocal blocks
        blocks += 1
        if blocks == 2:
            raise KeyboardInterrupt
        return cut(cutter, texts)

    monkeypatch.setattr(Chunker, "chunk_many", killed)
    with pytest.raises(KeyboardInterrupt):
        ingest_here(project)
    monkeypatch.undo()
    with closing(ProjectFolder(project).store()) as store:
        first = {chunk.id for chunk in store.chunks() if "heron" in chunk.text}
        assert len(first) == 512
        assert store.files_left() == 0
        assert store.ledger()[0].state == "read"
    done, _ = ingest_here(project)
    assert (done["files_read"], done["new_chunks"]) == (1, ENTRIES - 100 - 512)
    assert read_texts(project) == texts_of("heron", ENTRIES - 100)
    with closing(ProjectFolder(project).store()) as store:
        assert first <= {chunk.id for chunk in store.chunks()}
    done, _ = ingest_here(project)
    assert (done["files_read"], done["files_unchanged"]) == (0, 1)


def test_a_data_set_that_has_become_damaged_keeps_its_former_entries(project: Path) -> None:
    write_data_set(project, "tern")
    ingest_here(project)
    write_data_set(project, "heron")
    with (project.parent / "documents" / "set" / "corpus.jsonl").open("a") as file:
        file.write('{"_id": "x", "te')
    with fails(NoDocumentsError, "no-documents"):
        ingest_here(project)
    assert read_texts(project) == texts_of("tern")
