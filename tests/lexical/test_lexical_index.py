"""The BM25 index: scores against the formula, order, codes, updates, damage."""

from __future__ import annotations

import gc
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from fixtures.errors import fails
from fixtures.project_files import mode
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.errors import DamagedError, ResourceError
from engine.core.platforms.files import try_remove_tree
from engine.lexical import storage
from engine.lexical.bm25 import length_table
from engine.lexical.index import LexicalIndex
from engine.lexical.writing import ChunkAnalysis, StoredChunk

CHUNKS = [
    (10, "The pump PHX-121 must be serviced after every flight."),
    (11, "PHX PHX PHX 121 121 121 phx 121 parts list phx 121"),
    (12, "Service the pump and the valve. The pump is old."),
    (13, "A well-known valve maker."),
    (-5, "東京都の天気は晴れです。"),
    (14, "Nothing of note here."),
]


def build(
    folder: Path, chunks: list[tuple[int, str]] = CHUNKS, language: str = "en"
) -> LexicalIndex:
    return LexicalIndex.build(
        folder / "index",
        chunks,
        language,
    )


@pytest.fixture(scope="module")
def shared_index(tmp_path_factory: pytest.TempPathFactory) -> LexicalIndex:
    return build(tmp_path_factory.mktemp("lexical"))


def oracle(
    chunks: list[tuple[int, str]],
    index: LexicalIndex,
    query: str,
) -> dict[int, float]:
    """BM25 by the formula; all chunks here are shorter than 40 words, where tantivy's length
    byte is exact.
    """
    bags = {key: Counter(index.analyzer.terms(text).words) for key, text in chunks}
    mean = sum(bag.total() for bag in bags.values()) / len(bags)
    scores: dict[int, float] = {}
    for term, weight in index.analyzer.query_terms(query).words.items():
        df = sum(term in bag for bag in bags.values())
        idf = math.log(1 + (len(bags) - df + 0.5) / (df + 0.5))
        for key, bag in bags.items():
            if term in bag:
                norm = 1.2 * (1 - 0.75 + 0.75 * bag.total() / mean)
                scores[key] = scores.get(key, 0) + weight * idf * 2.2 * bag[term] / (
                    bag[term] + norm
                )
    return scores


@pytest.mark.parametrize(
    "query",
    ["pump service", "the valve", "pump pump valve", "flight unknown", "天気", "well-known"],
)
def test_scores_are_bm25(shared_index: LexicalIndex, query: str) -> None:
    ids, scores = shared_index.search(query, 10)
    assert ids.dtype == np.int64
    assert scores.dtype == np.float32
    expected = oracle(CHUNKS, shared_index, query)
    assert dict(zip(ids.tolist(), scores.tolist(), strict=True)) == pytest.approx(
        expected, rel=1e-5
    )
    assert scores.tolist() == sorted(scores.tolist(), reverse=True)
    assert len(ids) > 0


@pytest.mark.parametrize(
    ("query", "holders"),
    [
        ("pump phx121", [[10]]),
        ("order 4500012345 of 2031", [[2]]),  # a year is no code
        ("7-450001", [[1]]),  # 450001 is a part of the code
        ("48812093 in phx-121", [[10], []]),
    ],
)
def test_long_numbers_are_codes_too(
    tmp_path: Path,
    query: str,
    holders: list[list[int]],
) -> None:
    index = build(
        tmp_path,
        [(1, "Part 7-450001."), (2, "Order 4500012345 of 2031."), (3, "In 450001."), *CHUNKS],
    )
    assert [found.tolist() for found in index.find_with_codes(query)] == holders


@pytest.mark.parametrize("code", ["PHX-121", "phx121", "phx/121"])
def test_a_chunk_with_the_code_outranks_chunks_full_of_its_parts(
    shared_index: LexicalIndex, code: str
) -> None:
    ids, scores = shared_index.search(code, 10)
    assert ids.tolist() == [10, 11]
    without, plain = shared_index.search(
        code,
        10,
        bonus=False,
    )
    assert without.tolist() == [11, 10]
    parts_idf = shared_index.vocabulary.idf(["phx", "121"]).sum()
    assert scores[0] - plain[1] == pytest.approx(2.2 * parts_idf, rel=1e-5)
    assert scores[1] == pytest.approx(plain[0], rel=1e-6)


def test_ties_end_in_id_order_and_k_cuts(tmp_path: Path) -> None:
    index = build(tmp_path, [(key, "same words here") for key in (7, 3, 9, 1, 5)])
    assert index.search("words", 10)[0].tolist() == [1, 3, 5, 7, 9]
    assert index.search("words", 3)[0].tolist() == [1, 3, 5]
    assert index.search("words", 0)[0].tolist() == []
    assert index.scorer().rank(index.analyzer.query_terms("words"), 3)[0].tolist() == [1, 3, 5]


@pytest.mark.parametrize("ignored", [[], [3, 4], [1, 3, 5, 7, 9], [9, 99]])
def test_among_all_but_some_it_is_the_search_among_the_others(
    tmp_path: Path, ignored: list[int]
) -> None:
    index = build(tmp_path, [(key, "words " * (1 + key % 3)) for key in range(1, 10)])
    others = np.setdiff1d(index.ids(), ignored)
    for k in (2, 20):
        found = index.search_without(
            "words",
            k,
            np.array(ignored, np.int64),
        )
        wanted = index.search("words", k, others)
        assert (found[0].tolist(), found[1].tolist()) == (wanted[0].tolist(), wanted[1].tolist())


def test_document_frequency_and_idf(shared_index: LexicalIndex) -> None:
    assert [
        shared_index.document_frequency(term) for term in ("pump", "phx-121", "absent", "\ud800")
    ] == [2, 1, 0, 0]
    expected = [math.log(1 + 4.5 / 2.5), math.log(1 + 6.5 / 0.5)]
    assert shared_index.vocabulary.idf(["pump", "absent"]).tolist() == pytest.approx(expected)
    assert shared_index.count == 6
    assert shared_index.ids().tolist() == [-5, 10, 11, 12, 13, 14]


@settings(max_examples=60)
@given(
    st.text(alphabet=st.one_of(st.characters(), st.characters(categories=["Cs"])), max_size=40),
    st.integers(-1, 9),
)
def test_no_query_raises(
    shared_index: LexicalIndex,
    query: str,
    k: int,
) -> None:
    ids, scores = shared_index.search(query, k)
    assert len(ids) == len(scores) <= max(k, 0)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ('pump: "valve (', "pump valve"),
        ("C++ (pump", "pump"),
        ("what? is: pump!", "pump"),
        ("-pump AND NOT valve", "pump valve"),
        ("pump^2 +valve~ [pump TO valve]", "pump pump valve valve 2"),
        ("*pump*", "pump"),
        ("\ud83d pump", "pump"),
    ],
)
def test_what_query_parsers_take_for_operators_is_punctuation(
    shared_index: LexicalIndex, query: str, words: str
) -> None:
    found, scores = shared_index.search(query, 5)
    wanted, expected = shared_index.search(words, 5)
    assert found.tolist() == wanted.tolist() != []
    np.testing.assert_allclose(
        scores,
        expected,
        rtol=1e-6,
    )


@pytest.mark.parametrize("query", ["", "  ", "*", "the", "\ud83d", '(":~^'])
def test_a_query_without_words_finds_nothing(shared_index: LexicalIndex, query: str) -> None:
    assert shared_index.search(query, 5)[0].tolist() == []


def random_chunks(count: int, seed: int = 3) -> list[tuple[int, str]]:
    random = np.random.default_rng(seed)
    vocabulary = [f"word{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(300)] + [
        "PHX-121",
        "KL-7/B",
    ]
    weights = 1 / np.arange(1, len(vocabulary) + 1)
    picked = [
        " ".join(
            random.choice(vocabulary, size=int(random.integers(1, 150)), p=weights / weights.sum())
        )
        for _ in range(count)
    ]
    return list(enumerate(picked))


def test_mining_gives_the_same_as_searching(tmp_path: Path) -> None:
    chunks = random_chunks(700)
    index = build(tmp_path, chunks, "none")
    queries = [" ".join(text.split()[:9]) for _, text in chunks[:250]] + ["", "the PHX-121 KL-7/B"]
    mined = list(index.search_many(queries, 200))
    assert len(mined) == 252
    for query, (ids, scores) in zip(queries, mined, strict=True):
        expected_ids, expected_scores = index.search(query, 200)
        np.testing.assert_allclose(
            scores,
            expected_scores,
            rtol=1e-5,
        )
        differing = ids != expected_ids  # near-ties may swap
        assert np.isin(ids[differing], index.search(query, 700)[0]).all()
        assert differing.sum() <= 0.02 * len(ids)
    assert sum(len(ids) == 200 for ids, _ in mined) >= 200
    plain = next(iter(index.search_many(["PHX-121"] * 200, 100, bonus=False)))
    np.testing.assert_allclose(
        plain[1],
        index.search("PHX-121", 100, bonus=False)[1],
        rtol=1e-5,
    )


def test_a_large_index_is_mined_without_its_postings_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = random_chunks(300)
    index = build(tmp_path, chunks, "none")
    queries = [text for _, text in chunks[:200]]
    asked = queries[:3]
    ids = np.array([[5, -1, 299], [0, 1, 2], [-1, 7, 1000]])
    held = index.scores_many(asked, ids)
    mined = list(index.search_many(queries, 100))
    index = LexicalIndex.open(index.folder)
    monkeypatch.setattr(
        index,
        "scorer",
        lambda: pytest.fail("all postings were loaded"),
    )
    found = list(index.search_many(queries, 100, in_memory=299))
    for query, (keys, scores), (_, held_scores) in zip(queries, found, mined, strict=True):
        best, wanted = index.search(query, 100)
        assert keys.tolist() == best.tolist()
        np.testing.assert_array_equal(scores, wanted)
        np.testing.assert_allclose(
            scores,
            held_scores,
            rtol=1e-5,
        )
    scored = index.scores_many(
        asked,
        ids,
        in_memory=299,
    )
    np.testing.assert_allclose(
        scored,
        held,
        rtol=1e-5,
    )
    assert np.isneginf(scored[ids == -1]).all()


def test_search_many_with_threads_keeps_the_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        os,
        "cpu_count",
        lambda: 3,
    )
    chunks = random_chunks(100)
    index = build(tmp_path, chunks, "none")
    queries = [text for _, text in chunks]
    alone = [index.search(query, 5)[0].tolist() for query in queries]
    assert [ids.tolist() for ids, _ in index.search_many(queries, 5)] == alone


def test_an_updated_index_equals_a_fresh_one(tmp_path: Path) -> None:
    chunks = random_chunks(120)
    former = LexicalIndex.build(
        tmp_path / "former",
        chunks[:80],
        "none",
    )
    index = former.updated(
        tmp_path / "a", [(3, "replaced text PHX-121"), *chunks[80:]], remove=[0, 1, 999]
    )
    wanted = [(key, text) for key, text in chunks if key not in (0, 1, 3)] + [
        (3, "replaced text PHX-121")
    ]
    fresh = LexicalIndex.build(
        tmp_path / "b",
        wanted,
        "none",
    )
    reopened = LexicalIndex.open(tmp_path / "a")
    assert index.count == reopened.count == fresh.count == 118
    for query in ["worda wordb", "replaced", "PHX-121", chunks[50][1]]:
        for other in (index, reopened):
            np.testing.assert_array_equal(other.search(query, 50)[0], fresh.search(query, 50)[0])
            np.testing.assert_array_equal(other.search(query, 50)[1], fresh.search(query, 50)[1])
    assert list(index.stored()) == list(fresh.stored())


def test_an_index_of_stored_terms_equals_a_fresh_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = [
        *random_chunks(60),
        (200, "Herr Strößner PHX-121"),
        (201, "Herr Größe PHX-121"),
    ]
    languages = {
        200: "de",
        201: "de",
        300: "de",
    }
    whole = LexicalIndex.build(
        tmp_path / "whole",
        chunks,
        "en",
        languages=languages,
    )
    whole = whole.updated(
        tmp_path / "linked",
        [(7, "a b")],
        [0, 1],
        languages,
        10,
        0.5,
    )
    added = [(300, "Der neue Herr"), (2, "replaced wordb PHX-121")]
    copied = [key for key in (*range(3, 40), 200) if key != 7]
    texts = dict(chunks)
    wanted = [(key, texts[key]) for key in copied] + added
    fresh = LexicalIndex.build(
        tmp_path / "fresh",
        wanted,
        "en",
        languages=languages,
    )
    analysed = list[int]()
    analyse = ChunkAnalysis.analyse

    def note(analysis: ChunkAnalysis, pairs: Iterable[tuple[int, str]]) -> Iterator[StoredChunk]:
        for stored in analyse(analysis, pairs):
            analysed.append(stored.id)
            yield stored

    monkeypatch.setattr(ChunkAnalysis, "analyse", note)
    index = whole.extracted(
        tmp_path / "part",
        np.array(copied),
        added,
        languages,
    )
    assert analysed == [300, 2]
    assert list(index.stored()) == list(fresh.stored())
    assert index.manifest.languages == fresh.manifest.languages == {"de": 2, "en": 37}
    texts_asked = [
        "worda wordb",
        "Stroessner",
        "Groesse",
        "PHX-121 replaced",
        "neue Herr",
        texts[9],
    ]
    for query in texts_asked:
        for mine, right in zip(index.search(query, 50), fresh.search(query, 50), strict=True):
            np.testing.assert_array_equal(mine, right)
        np.testing.assert_array_equal(
            index.scores(query, index.ids()), fresh.scores(query, fresh.ids())
        )
    for mine, right in zip(
        index.search_many(texts_asked * 40, 100),
        fresh.search_many(texts_asked * 40, 100),
        strict=True,
    ):
        np.testing.assert_array_equal(mine[0], right[0])
        np.testing.assert_array_equal(mine[1], right[1])


def test_a_large_index_is_updated_by_links_and_counts_what_is_left(tmp_path: Path) -> None:
    chunks = [
        *random_chunks(400),
        (1000, "rare rare"),
        (1001, "rare PHX-121 of another"),
        (1002, "scarce PHX-121"),
    ]
    former = LexicalIndex.build(
        tmp_path / "0",
        chunks[:380] + chunks[400:],
        "none",
    )
    added = [(3, "replaced rare"), *chunks[380:400]]
    removed = [0, 1000, 1002, 9999]
    index = former.updated(
        tmp_path / "1",
        added,
        removed,
        large=100,
    )
    links = [
        path for path in (tmp_path / "1" / "generation-1").iterdir() if path.stat().st_nlink > 1
    ]
    assert {path.suffix for path in links} >= {".store", ".idx", ".term"}
    wanted = [(key, text) for key, text in chunks if key not in (0, 3, 1000, 1002)] + [
        (3, "replaced rare")
    ]
    fresh = LexicalIndex.build(
        tmp_path / "fresh",
        wanted,
        "none",
    )
    assert index.ids().tolist() == fresh.ids().tolist() == sorted(key for key, _ in wanted)
    assert [index.document_frequency(term) for term in ("rare", "scarce", "replaced")] == [2, 0, 1]
    for query in ["worda wordb", "rare", "scarce", "PHX-121 rare", chunks[50][1]]:
        ids, scores = index.search(query, 30)
        right, exact = fresh.search(query, 30)
        np.testing.assert_allclose(
            scores,
            exact,
            rtol=5e-3,
        )
        assert set(right[exact > exact[-1] * 1.01]) <= set(ids) if len(exact) else not len(ids)
    assert list(index.stored()) == list(fresh.stored())
    del former
    try_remove_tree(tmp_path / "0")  # of Windows only a request: `index` has the same files open
    assert LexicalIndex.open(tmp_path / "1").search("replaced", 1)[0].tolist() == [3]
    second = index.updated(
        tmp_path / "2",
        [(2000, "later rare")],
        remove=[3],
        large=100,
    )
    assert (second.document_frequency("rare"), second.document_frequency("replaced")) == (2, 0)
    rewritten = second.updated(
        tmp_path / "3",
        [],
        remove=range(4, 30),
        large=100,
    )
    anew = LexicalIndex.build(
        tmp_path / "anew",
        [one for one in wanted if one[0] not in range(3, 30)] + [(2000, "later rare")],
        "none",
    )
    np.testing.assert_array_equal(rewritten.search("rare", 9)[1], anew.search("rare", 9)[1])


def test_ids_must_be_unique_and_fit(tmp_path: Path) -> None:
    for number, chunks in enumerate(([(1, "a"), (1, "b")], [(2**63, "a")])):
        with pytest.raises(ValueError, match="chunk id"):
            build(tmp_path / str(number), chunks)


def test_an_empty_index(tmp_path: Path) -> None:
    index = build(tmp_path, [])
    assert index.count == 0
    assert len(index.search("anything", 5)[0]) == 0
    assert list(index.scorer().rank(index.analyzer.query_terms("anything"), 5)[0]) == []
    assert index.updated(tmp_path / "new", [(4, "anything goes")], []).search("anything", 5)[
        0
    ].tolist() == [4]


@pytest.mark.posix(reason="modes of files")
def test_files_are_private(tmp_path: Path) -> None:
    build(tmp_path)
    for path in [tmp_path / "index", *(tmp_path / "index").rglob("*")]:
        if not path.name.endswith(".lock"):
            assert mode(path) & 0o077 == 0, path


def generation_files(folder: Path) -> Iterator[Path]:
    yield from (
        path for path in sorted(folder.glob("generation-*/*")) if not path.name.endswith(".lock")
    )


@pytest.mark.parametrize("harm", ["truncate", "flip", "remove", "empty"])
def test_every_harmed_file_is_noticed(tmp_path: Path, harm: str) -> None:
    build(tmp_path)
    names = [path.relative_to(tmp_path / "index") for path in generation_files(tmp_path / "index")]
    assert len(names) >= 5
    for name in names:
        copy = tmp_path / "copy"
        shutil.copytree(tmp_path / "index", copy)
        data = (copy / name).read_bytes()
        if harm == "remove":
            (copy / name).unlink()
        elif harm == "flip":
            middle = len(data) // 2
            (copy / name).write_bytes(
                data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
            )
        else:
            (copy / name).write_bytes(data[: len(data) // 2] if harm == "truncate" else b"")
        with fails(DamagedError, "index-damaged"):
            LexicalIndex.open(copy)
        shutil.rmtree(copy)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"version": 99}',
        '{"version": 1}',
        '{"version": 1, "files": {"a": 3}}',
    ],
)
def test_a_harmed_manifest_is_noticed(tmp_path: Path, content: str) -> None:
    build(tmp_path)
    (tmp_path / "index" / storage.MANIFEST).write_text(content)
    with pytest.raises(DamagedError):
        LexicalIndex.open(tmp_path / "index")


def test_missing_index_and_wrong_count(tmp_path: Path) -> None:
    with fails(DamagedError, "index-damaged"):
        LexicalIndex.open(tmp_path / "nowhere")
    build(tmp_path)
    path = tmp_path / "index" / storage.MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), "count": 7}))
    with fails(DamagedError, "index-damaged", "6 chunks", "7"):
        LexicalIndex.open(tmp_path / "index")


def test_a_segment_broken_behind_the_checksums_is_damage_not_a_crash(tmp_path: Path) -> None:
    """tantivy panics with a BaseException on some broken files."""
    build(tmp_path)
    folder = tmp_path / "index"
    manifest = json.loads((folder / storage.MANIFEST).read_text())
    for path in generation_files(folder):
        if path.suffix in (".idx", ".term", ".fast", ".store", ".fieldnorm"):
            # Replaced, not overwritten: a thread of the former index may still have it mapped.
            broken = path.with_name("broken")
            broken.write_bytes(b"\x00" * path.stat().st_size)
            broken.replace(path)
    manifest["files"] = storage.describe_files(folder / "generation-1")
    (folder / storage.MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(DamagedError):
        LexicalIndex.open(folder).search("pump", 3)


def test_length_byte() -> None:
    table = length_table().tolist()
    assert table[:41] == list(range(41))
    assert table[40:60] == [
        40,
        42,
        44,
        46,
        48,
        50,
        52,
        54,
        56,
        60,
        64,
        68,
        72,
        76,
        80,
        84,
        88,
        96,
        104,
        112,
    ]
    assert table[-1] == 2_013_265_944
    assert len(table) == 256


@pytest.fixture
def read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index whose folder may not be written to, as `os.access` tells; copies of it go to
    `tmp_path/memory`.
    """
    build(tmp_path / "built")
    # A copy, because a thread of tantivy's watches the index that was built, and may lock it once
    # more.
    shutil.copytree(tmp_path / "built" / "index", tmp_path / "index")
    (tmp_path / "memory").mkdir()
    asked = os.access
    monkeypatch.setattr(
        storage,
        "MEMORY_FOLDER",
        tmp_path / "memory",
    )
    monkeypatch.setattr(
        os, "access", lambda path, mode: "generation-" not in str(path) and asked(path, mode)
    )
    return tmp_path / "index"


@pytest.mark.posix(reason="modes of files")
def test_a_read_only_index_is_read_from_a_private_copy(read_only: Path) -> None:
    for lock in (read_only / "generation-1").glob(".tantivy-*"):
        lock.unlink()
    index = LexicalIndex.open(read_only)
    assert index.search("pump", 3)[0].size
    (copy,) = (read_only.parent / "memory").iterdir()
    assert copy.name.startswith(f"bmembed-index-{os.getpid()}-")
    assert mode(copy) == 0o700
    assert not list((read_only / "generation-1").glob(".tantivy-*")), (
        "the lock is taken in the copy"
    )
    del index
    gc.collect()
    assert not copy.exists()


def test_copies_of_processes_that_were_killed_are_removed(read_only: Path) -> None:
    memory = read_only.parent / "memory"
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    names = [
        f"bmembed-index-{ended.pid}-a",
        f"bmembed-index-{os.getpid()}-b",
        "bmembed-index-x-c",
        "other",
    ]
    for name in names:
        (memory / name).mkdir()
    storage.ensure_lockable(read_only / "generation-1")
    left = {path.name for path in memory.iterdir()}
    assert names[0] not in left
    assert left > set(names[1:])


def test_without_room_in_memory_the_copy_goes_to_the_temporary_folder(
    read_only: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(
        tempfile,
        "tempdir",
        str(tmp_path / "temporary"),
    )
    monkeypatch.setattr(
        shutil, "disk_usage", lambda _path: SimpleNamespace(total=10, used=10, free=0)
    )
    assert storage.ensure_lockable(read_only / "generation-1").parent == tmp_path / "temporary"
    monkeypatch.setattr(
        tempfile,
        "tempdir",
        str(tmp_path / "gone"),
    )
    with fails(ResourceError, "write-failed"):
        LexicalIndex.open(read_only)


@pytest.mark.parametrize(
    "query", ["pump service", "PHX-121 pump", "天気", "nothing of the kind", "", "!!!"]
)
def test_scores_of_given_chunks_are_those_of_search(shared_index: LexicalIndex, query: str) -> None:
    ids, scores = shared_index.search(query, 10)
    by_search = dict(zip(ids.tolist(), scores.tolist(), strict=True))
    wanted = np.array([14, 10, -5, 13, 12, 11, 999], dtype=np.int64)
    found = shared_index.scores(query, wanted)
    assert found.dtype == np.float32
    assert found.tolist() == pytest.approx([by_search.get(key, 0.0) for key in wanted.tolist()])
    assert shared_index.scores(query, np.empty(0, np.int64)).tolist() == []


def test_many_chunks_have_the_same_scores_as_few(tmp_path: Path) -> None:
    index = build(tmp_path, [(key, f"pump valve {key % 7}") for key in range(11_000)])
    ids = np.arange(11_000, dtype=np.int64)
    few = [index.scores("pump 3", block) for block in np.array_split(ids, 11)]
    scores = index.scores("pump 3", ids)
    assert scores.tolist() == np.concatenate(few).tolist()
    assert len(set(scores.tolist())) == 2


def test_scores_of_given_chunks_for_many_texts(shared_index: LexicalIndex) -> None:
    texts = ["pump service", "PHX-121 pump", "!!!"]
    wanted = np.array([[10, 12, -1, 14], [11, 10, -5, 12], [10, -1, -1, 11]])
    found = shared_index.scores_many(texts, wanted)
    for row, text in enumerate(texts):
        known = wanted[row] != -1
        np.testing.assert_allclose(
            found[row][known], shared_index.scores(text, wanted[row][known]), rtol=1e-5
        )
        assert np.isneginf(found[row][~known]).all()
    assert found[1, 1] > found[1, 3] > 0
    assert found[2].tolist() == [0, -np.inf, -np.inf, 0]
