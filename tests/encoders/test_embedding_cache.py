from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from fixtures.errors import fails
from fixtures.project_files import mode
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core import disk
from engine.core.errors import CancelledError, ResourceError
from engine.encoders import vector_shards
from engine.encoders.embedding_cache import EmbeddingCache, VectorCache, encode_cached, hash_keys
from engine.encoders.geometry.similarity import COSINE, Similarity
from engine.encoders.vector_shards import read_shard, write_shard

ROOT = Path(__file__).resolve().parents[2]


def content_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class CountingEncoder:
    """Unit vectors that depend on the text alone; remembers what it was asked to encode."""

    similarity: Similarity = COSINE

    def __init__(self, fingerprint: str = "f" * 64, dimension: int = 6) -> None:
        self.fingerprint = fingerprint
        self.dimension = dimension
        self.calls: list[list[str]] = []

    def encode_chunks(
        self, texts: Sequence[str], progress: Callable[[int], None] | None = None
    ) -> np.ndarray:
        self.calls.append(list(texts))
        seeds = [int(content_hash(text)[:12], 16) for text in texts]
        vectors = np.array(
            [np.random.default_rng(seed).normal(size=self.dimension) for seed in seeds],
            dtype=np.float32,
        )
        if progress is not None:
            progress(len(texts))
        unit: np.ndarray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit


def encode(
    encoder: CountingEncoder, texts: Sequence[str], folder: Path, **options: object
) -> np.ndarray:
    return encode_cached(
        encoder, [content_hash(text) for text in texts], texts, EmbeddingCache(folder), **options
    )[:]  # type: ignore[arg-type]


TEXTS = [f"text {i} " + "x" * (i * 7 % 30) for i in range(50)]


def test_encodes_once(tmp_path: Path) -> None:
    encoder = CountingEncoder()
    first = encode(
        encoder,
        TEXTS,
        tmp_path,
        shard_size=16,
    )
    assert [len(call) for call in encoder.calls] == [16, 16, 16, 2]
    second = encode(
        encoder,
        [*TEXTS[::-1], "new"],
        tmp_path,
        shard_size=16,
    )
    assert encoder.calls[4:] == [["new"]]
    np.testing.assert_array_equal(second[:50], first[::-1])
    np.testing.assert_allclose(
        first,
        CountingEncoder().encode_chunks(TEXTS),
        atol=1e-3,
    )
    assert first.dtype == np.float32
    np.testing.assert_allclose(
        np.linalg.norm(first, axis=1),
        1.0,
        atol=1e-6,
    )


def test_length_sorted_within_a_window(tmp_path: Path) -> None:
    encoder = CountingEncoder()
    encode(
        encoder,
        TEXTS,
        tmp_path,
        shard_size=10,
    )
    lengths = [len(text) for call in encoder.calls for text in call]
    for window in (slice(0, 10), slice(10, 30), slice(30, 50)):
        assert lengths[window] == sorted((len(text) for text in TEXTS[window]), reverse=True)


def test_what_is_wanted_first_is_encoded_first(tmp_path: Path) -> None:
    encoder = CountingEncoder()
    known = list[int]()
    order = np.arange(50)[::-1]
    keys = [content_hash(text) for text in TEXTS]

    def stored(cache: VectorCache, all_keys: np.ndarray) -> None:
        known.append(int((cache.find(all_keys) >= 0).sum()))

    cache = EmbeddingCache(tmp_path)
    made = encode_cached(encoder, keys, TEXTS, cache, shard_size=10, order=order, stored=stored)[:]
    assert [set(call) for call in encoder.calls[:1]] == [set(TEXTS[40:])]
    assert known == [10, 20, 30, 40, 50]
    np.testing.assert_array_equal(made, encode_cached(encoder, keys, TEXTS, cache)[:])


def test_equal_contents_are_encoded_once(tmp_path: Path) -> None:
    encoder = CountingEncoder()
    made = encode(
        encoder,
        ["a", "b", "a", "a"],
        tmp_path,
    )
    assert sorted(encoder.calls[0]) == ["a", "b"]
    np.testing.assert_array_equal(made[0], made[2])
    assert np.abs(made[0] - made[1]).max() > 0.01


def test_nothing(tmp_path: Path) -> None:
    assert encode(CountingEncoder(), [], tmp_path).shape == (0, 6)


def test_encoders_do_not_share(tmp_path: Path) -> None:
    first = CountingEncoder("a" * 64)
    second = CountingEncoder("b" * 64)
    encode(first, TEXTS, tmp_path)
    encode(second, TEXTS, tmp_path)
    assert len(second.calls) == 1
    assert EmbeddingCache(tmp_path).drop_others({"a" * 64}) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a" * 64]
    encode(first, TEXTS, tmp_path)
    assert len(first.calls) == 1


def test_other_folders_next_to_the_encoders_stay(tmp_path: Path) -> None:
    others = [tmp_path / name for name in ("pair-scores-0123456789abcdef", "notes")]
    for folder in (*others, tmp_path / ("c" * 64)):
        folder.mkdir()
    assert EmbeddingCache(tmp_path).drop_others(set()) == 1
    assert sorted(tmp_path.iterdir()) == sorted(others)


def test_drop_others_without_a_folder(tmp_path: Path) -> None:
    assert EmbeddingCache(tmp_path / "none").drop_others(set()) == 0


def test_progress_counts_cached_and_new(tmp_path: Path) -> None:
    encode(
        CountingEncoder(),
        TEXTS[:20],
        tmp_path,
    )
    seen: list[int] = []
    encode(
        CountingEncoder(),
        [*TEXTS, TEXTS[0]],
        tmp_path,
        shard_size=10,
        progress=seen.append,
    )
    assert seen == sorted(seen)
    assert seen[0] == 30
    assert seen[-1] == 51


def test_progress_of_shards_that_are_encoded_elsewhere(tmp_path: Path) -> None:
    seen: list[int] = []
    encoder = CountingEncoder()

    def elsewhere(shards: Iterable[Sequence[str]]) -> Iterator[np.ndarray]:
        return (encoder.encode_chunks(shard) for shard in shards)

    encode(
        encoder,
        TEXTS,
        tmp_path,
        shard_size=10,
        progress=seen.append,
        encode_shards=elsewhere,
    )
    assert seen == [10, 20, 30, 40, 50, 50]


def test_stop_keeps_what_is_done(tmp_path: Path) -> None:
    encoder = CountingEncoder()
    answers = iter([False, False, True])
    with pytest.raises(CancelledError):
        encode(
            encoder,
            TEXTS,
            tmp_path,
            shard_size=10,
            should_stop=lambda: next(answers),
        )
    assert len(encoder.calls) == 2
    encode(
        encoder,
        TEXTS,
        tmp_path,
        shard_size=10,
        should_stop=lambda: False,
    )
    assert sum(len(call) for call in encoder.calls) == 50


def test_a_stop_is_heard_between_the_batches_of_a_shard(tmp_path: Path) -> None:
    class InBatches(CountingEncoder):
        def encode_chunks(
            self, texts: Sequence[str], progress: Callable[[int], None] | None = None
        ) -> np.ndarray:
            vectors = super().encode_chunks(texts)
            for done in range(5, len(texts) + 1, 5):
                batches.append(done)
                assert progress is not None
                progress(done)
            return vectors

    batches: list[int] = []
    with fails(CancelledError, "cancelled") as caught:
        encode(
            InBatches(),
            TEXTS,
            tmp_path,
            shard_size=20,
            should_stop=lambda: len(batches) == 6,
        )
    assert batches == [5, 10, 15, 20, 5, 10]
    assert "20 of 50" in caught.value.why


def test_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="sha256"):
        encode_cached(
            CountingEncoder(),
            ["abcd"],
            ["a"],
            EmbeddingCache(tmp_path),
        )


def test_hashes_that_end_in_zero_bytes(tmp_path: Path) -> None:
    hashes = [
        "00" * 32,
        "ab" + "00" * 31,
        "ab" + "00" * 30 + "01",
    ]
    texts = ["a", "b", "c"]
    cache = EmbeddingCache(tmp_path)
    made = encode_cached(CountingEncoder(), hashes, texts, cache)[:]
    np.testing.assert_allclose(
        made,
        CountingEncoder().encode_chunks(texts),
        atol=1e-3,
    )
    again = CountingEncoder()
    np.testing.assert_array_equal(
        encode_cached(again, hashes[::-1], texts[::-1], EmbeddingCache(tmp_path))[:], made[::-1]
    )
    assert again.calls == []


def shards(folder: Path) -> list[Path]:
    return sorted(folder.rglob("shard-*.vec"))


@given(
    position=st.integers(min_value=0), bit=st.integers(min_value=0, max_value=7), cut=st.booleans()
)
@settings(max_examples=80)
def test_damaged_shard_is_dropped_and_encoded_again(
    tmp_path_factory: pytest.TempPathFactory, position: int, bit: int, cut: bool
) -> None:
    folder = tmp_path_factory.mktemp("cache")
    whole = encode(
        CountingEncoder(),
        TEXTS[:12],
        folder,
        shard_size=4,
    )
    content = bytearray(shards(folder)[1].read_bytes())
    position %= len(content)
    content[position] ^= 1 << bit
    shards(folder)[1].write_bytes(content[:position] if cut else content)
    encoder = CountingEncoder()
    cache = EmbeddingCache(folder)
    again = encode_cached(encoder, [content_hash(text) for text in TEXTS[:12]], TEXTS[:12], cache)[
        :
    ]
    np.testing.assert_array_equal(again, whole)
    assert [cache.take_damaged(), cache.take_damaged()] == [1, 0]
    assert [len(call) for call in encoder.calls] == [4]


def test_leftover_temporary_file_is_removed(tmp_path: Path) -> None:
    encode(CountingEncoder(), TEXTS, tmp_path)
    leftover = tmp_path / ("f" * 64) / ".shard-abc.part"
    leftover.write_bytes(b"half")
    encode(CountingEncoder(), TEXTS, tmp_path)
    assert leftover.exists(), "another process may be writing it"
    hour_ago = time.time() - 3600
    os.utime(leftover, (hour_ago, hour_ago))
    encode(CountingEncoder(), TEXTS, tmp_path)
    assert not leftover.exists()


def test_two_writers_keep_each_others_vectors(tmp_path: Path) -> None:
    folder = tmp_path / "shelf"
    keys = hash_keys([content_hash(text) for text in "abcd"])
    vectors = np.arange(8, dtype=np.float16).reshape(4, 2)
    one = VectorCache(folder, 2)
    other = VectorCache(folder, 2)
    one.append(keys[:1], vectors[:1])
    other.append(keys[1:2], vectors[1:2])
    again = VectorCache(folder, 2)
    assert again.read(again.find(keys[:2])).tolist() == vectors[:2].tolist()


def test_a_folder_that_was_removed_meanwhile_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "shelf"
    cache = VectorCache(folder, 2)
    shutil.rmtree(folder)
    cache.append(hash_keys([content_hash("a")]), np.ones((1, 2), np.float16))
    assert len(VectorCache(folder, 2)) == 1


def test_a_shard_that_is_being_written_is_written_although_another_opens_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "shelf"
    keys = hash_keys([content_hash("a")])
    cache = VectorCache(folder, 2)
    replace = disk.replace

    def open_meanwhile(temporary: Path, path: Path) -> None:
        VectorCache(folder, 2)
        replace(temporary, path)

    monkeypatch.setattr(disk, "replace", open_meanwhile)
    cache.append(keys, np.ones((1, 2), np.float16))
    assert len(VectorCache(folder, 2)) == 1


def test_a_reading_cache_finds_all_and_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "shelf"
    reading = VectorCache(
        folder,
        2,
        reading=True,
    )
    assert (len(reading), reading.blocks, folder.exists()) == (0, [], False)
    keys = hash_keys([content_hash(text) for text in "abcde"])
    vectors = np.arange(10, dtype=np.float16).reshape(5, 2)
    writing = VectorCache(folder, 2)
    for rows in ([2, 0], [4], [1, 3]):
        writing.append(keys[rows], vectors[rows])
    del writing  # Windows empties no file that is mapped
    torn = shards(folder)[1]
    torn.write_bytes(torn.read_bytes()[:-1])
    (folder / ".shard-x.part").write_bytes(b"being written")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    reading = VectorCache(
        folder,
        2,
        reading=True,
    )
    places = reading.find(keys)
    assert places.tolist() == [1, 2, 0, 3, -1]
    assert np.concatenate(reading.blocks)[places[:4]].tolist() == vectors[:4].tolist()
    assert reading.damaged == 1
    (folder / "shard-000099-x.vec").write_bytes(b"BM")
    assert EmbeddingCache(tmp_path).estimate_count("shelf") == 5  # damaged ones as well
    (folder / "shard-000099-x.vec").unlink()
    assert EmbeddingCache(tmp_path).estimate_count("unknown") == 0
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_private_files(tmp_path: Path) -> None:
    encode(CountingEncoder(), TEXTS, tmp_path)
    assert {mode(path) & 0o077 for path in tmp_path.rglob("*")} == {0}


def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(
        vector_shards.os,
        "fsync",
        full,
    )
    with pytest.raises(ResourceError):
        write_shard(
            tmp_path / "shard-000001.vec",
            np.zeros(1, dtype="S32"),
            np.zeros((1, 4), dtype=np.float16),
        )
    assert list(tmp_path.iterdir()) == []


def test_shard_layout_round_trip(tmp_path: Path) -> None:
    hashes = np.frombuffer(bytes(range(64)), dtype="S32")
    write_shard(
        tmp_path / "s.vec",
        hashes,
        np.array([[1.0, 0.5], [-2.0, 0.25]], dtype=np.float16),
    )
    content = (tmp_path / "s.vec").read_bytes()
    assert content[16:80] == bytes(range(64))
    assert content[80:88] == bytes.fromhex(
        "003c0038 00c00034"
    )  # 1, ½, −2, ¼ in IEEE half precision, little-endian
    found = read_shard(tmp_path / "s.vec")
    assert found is not None
    assert found[1] == 2
    assert found[0].tobytes() == hashes.tobytes()


def test_many_vectors_in_little_memory(tmp_path: Path) -> None:
    hashes = [hashlib.sha256(str(i).encode()).digest() for i in range(20000)]
    keys = np.frombuffer(b"".join(hashes), dtype="S32")
    shelf = EmbeddingCache(tmp_path).open_vectors("f" * 64, 4)
    vectors = np.arange(80000, dtype=np.float32).reshape(20000, 4) / 80000
    for start in range(0, 20000, 5000):
        shelf.append(keys[start : start + 5000], vectors[start : start + 5000])
    again = EmbeddingCache(tmp_path).open_vectors("f" * 64, 4)
    assert len(again) == 20000
    order = np.random.default_rng(0).permutation(20000)
    np.testing.assert_array_equal(
        again.read(again.find(keys[order])), vectors[order].astype(np.float16)
    )
    assert again.find(np.frombuffer(hashlib.sha256(b"none").digest(), dtype="S32")).tolist() == [-1]


WORKER = """
import sys, time
sys.path[:0] = [{root!r}, {here!r}, {tests!r}]
from pathlib import Path
from test_embedding_cache import CountingEncoder, TEXTS, encode

class Slow(CountingEncoder):
    def encode_chunks(self, texts, progress=None):
        time.sleep(0.05)
        return super().encode_chunks(texts, progress)

encode(Slow(), TEXTS, Path({folder!r}), shard_size=4)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_kill_loses_at_most_one_shard(tmp_path: Path) -> None:
    code = WORKER.format(
        root=str(ROOT),
        here=str(Path(__file__).parent),
        tests=str(Path(__file__).parents[1]),
        folder=str(tmp_path),
    )
    worker = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 60
    while len(shards(tmp_path)) < 3 and time.monotonic() < deadline and worker.poll() is None:
        time.sleep(0.005)
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    kept = len(shards(tmp_path))
    assert 3 <= kept < 13
    encoder = CountingEncoder()
    cache = EmbeddingCache(tmp_path)
    made = encode_cached(
        encoder, [content_hash(text) for text in TEXTS], TEXTS, cache, shard_size=4
    )[:]
    assert cache.take_damaged() == 0
    assert sum(len(call) for call in encoder.calls) == 50 - 4 * kept
    np.testing.assert_allclose(
        made,
        CountingEncoder().encode_chunks(TEXTS),
        atol=1e-3,
    )
