"""The fingerprint of all chunks, made of a digest of each document's, follows their ids and
contents as a hash over all would.
"""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fixtures.stored import chunk, document, put_document, put_file

from engine.project.store.store import Store

CHANGES = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
from fixtures.stored import chunk
from engine.project.store.store import Store
store = Store.open(Path(sys.argv[1]))
for turn in range(10**9):
    with store.transaction():
        for row in map(int, sys.argv[2].split(",")):
            store.replace_chunks(row, [chunk(n, f"{row} {(turn + n) % 7}") for n in range(turn % 5)])
    print(turn, flush=True)
"""  # noqa: E501


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "project.db")


def hash_over_all(store: Store) -> str:
    return hashlib.sha256(
        repr([(key, content_hash) for key, _, content_hash in store.chunk_keys()]).encode()
    ).hexdigest()


def test_the_fingerprint_changes_exactly_with_an_id_or_a_content(store: Store) -> None:
    rng = random.Random(3)
    paths = [f"{name}.md" for name in "abcd"]
    fingerprints = list[tuple[str, str]]()
    rows = {path: put_document(store, ["one"], path) for path in paths}

    def note() -> None:
        fingerprints.append((hash_over_all(store), store.corpus_fingerprint()))

    for _ in range(400):
        path = rng.choice(paths)
        match rng.randrange(6):
            case 0:
                store.drop_document(rows[path])
            case 1:
                store.forget_file(put_file(store, path))
            case 2:
                store.purge_dead()
            case _:
                file_id = put_file(store, path)
                rows_of_file = {row for row, _ in store.documents_of(file_id).values()}
                row = rows[path] if rows[path] in rows_of_file else 0
                rows[path] = store.put_document(file_id, document(path, id=row))
                texts = [rng.choice(["one", "two", "three"]) for _ in range(rng.randrange(4))]
                note()
                store.replace_chunks(rows[path], [chunk(n, text) for n, text in enumerate(texts)])
        note()
    of_all, stored = zip(*fingerprints, strict=True)
    assert len(set(of_all)) == len(set(stored)) == len(set(fingerprints)) > 100
    assert len(set(fingerprints)) < len(fingerprints) - 100  # many came back


@pytest.mark.processes
def test_the_fingerprint_matches_the_chunks_after_a_kill(store: Store) -> None:
    rows = [put_document(store, ["one", "two"], path) for path in ("a.md", "b.md")]
    fingerprints = {store.corpus_fingerprint()}
    for turn in range(3):
        code = [
            sys.executable,
            "-c",
            CHANGES,
            str(store.path),
            ",".join(map(str, rows)),
            *sys.path,
        ]
        child = subprocess.Popen(code, stdout=subprocess.PIPE)
        assert child.stdout is not None
        assert [child.stdout.readline() for _ in range(7 + turn)][-1]
        time.sleep(0.003 * turn)
        child.kill()
        child.communicate()
        current = store.corpus_fingerprint()
        fingerprints.add(current)
        with store.transaction():
            for row in rows:  # computes the digests again
                assert store.replace_chunks(row, store.chunks_of(row)) == 0
        assert store.corpus_fingerprint() == current
    assert len(fingerprints) > 1
