"""Vectors on disk by encoder fingerprint and content hash, so that no text is encoded twice."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import tee
from mmap import mmap
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from engine.core.errors import CancelledError, EngineError
from engine.core.platforms.files import delete_tree, release_pages, try_remove_file, try_remove_tree
from engine.encoders.encoder import Unfinished
from engine.encoders.vector_shards import map_vectors, read_row_count, read_shard, write_shard

if TYPE_CHECKING:
    from engine.encoders.encoder import Encoder, Progress
    from engine.encoders.geometry.similarity import Similarity

EncodeShards = Callable[[Iterable[Sequence[str]]], Iterator[np.ndarray]]
_WINDOW_SHARDS = 128
"""Shards whose texts are sorted by length together."""
_BLOCK = 8192  # rows that are converted at a time
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_LEFTOVER_SECONDS = 600.0
"""Age at which a file that is being written counts as left by a process that was killed."""


class VectorCache:
    """The cached vectors of one encoder: append-only shards in `folder`.

    The hashes are held in memory (about 40 bytes each). Opening checks every shard; torn and
    corrupt ones are removed and counted in `damaged`. With `reading`, nothing on disk is changed,
    since a run may be writing there, and unreadable shards are skipped. Several processes may write
    to a folder, since queries are cached without the project's lock; none sees the others' shards
    before it opens the folder again.
    """

    def __init__(
        self,
        folder: Path,
        dimension: int,
        *,
        reading: bool = False,
    ) -> None:
        self.folder = folder
        self.dimension = dimension
        self.reading = reading
        self.damaged = 0
        self._shards: list[np.ndarray] = []
        # Hashes of the latest shards, which are not yet in the sorted table.
        self._fresh: list[np.ndarray] = []
        self._hashes = np.empty(0, dtype="S32")  # sorted
        self._positions = np.empty(0, dtype=np.int64)  # of each of these hashes
        self._last_number = 0  # in the names of shards
        self._token = secrets.token_hex(4)
        if not reading:
            folder.mkdir(
                mode=0o700,
                parents=True,
                exist_ok=True,
            )
            self._remove_leftovers()
        for path in sorted(folder.glob("shard-[0-9]*.vec")):
            self._open(path)

    def _remove_leftovers(self) -> None:
        """Remove files that a killed process was writing, but not those that one is writing now."""
        latest = time.time() - _LEFTOVER_SECONDS
        for leftover in self.folder.glob(".shard-*.part"):
            with suppress(OSError):
                if leftover.stat().st_mtime < latest:
                    try_remove_file(leftover)

    def _open(self, path: Path) -> None:
        """Add a shard, or remove it if it is damaged or has vectors of another width."""
        shard = read_shard(path)
        if shard is None or shard.width != self.dimension:
            if not self.reading:
                try_remove_file(path)
            self.damaged += 1
            return
        number = int(path.stem.split("-")[1])  # of shard-NUMBER-TOKEN
        self._last_number = max(self._last_number, number)
        self._shards.append(map_vectors(path, len(shard.hashes), self.dimension))
        self._fresh.append(shard.hashes)

    def __len__(self) -> int:
        return len(self._hashes) + sum(len(part) for part in self._fresh)

    @property
    def blocks(self) -> list[np.ndarray]:
        """All vectors, mapped: (m, d) float16 per shard, in the order of `find`'s positions."""
        return list(self._shards)

    def find(self, hashes: np.ndarray) -> np.ndarray:
        """Return the position of each hash of (n,) S32 as (n,) int64 for `read`, −1 if unknown."""
        self._sort()
        if not len(self._hashes):
            return np.full(
                len(hashes),
                -1,
                dtype=np.int64,
            )
        places = np.searchsorted(self._hashes, hashes)
        rows = np.minimum(places, len(self._hashes) - 1)
        is_known = self._hashes[rows] == hashes
        return np.where(
            is_known,
            self._positions[rows],
            -1,
        )

    def read(self, positions: np.ndarray) -> np.ndarray:
        """Return the vectors (n, d) float16 at positions returned by `find`."""
        vectors = np.empty((len(positions), self.dimension), dtype=np.float16)
        starts = np.cumsum([0, *map(len, self._shards)])  # position of each shard's first vector
        shard_numbers = np.searchsorted(starts, positions, side="right") - 1
        # Rows are grouped by shard, so that each shard is read once.
        order = np.argsort(shard_numbers, kind="stable")
        group_starts = np.flatnonzero(np.diff(shard_numbers[order])) + 1
        for rows in np.split(order, group_starts):
            if len(rows):
                number = shard_numbers[rows[0]]
                shard = self._shards[number]
                vectors[rows] = shard[positions[rows] - starts[number]]
                # Its pages would count as this process's memory.
                release_pages(cast(mmap, shard.base))
        return vectors

    def append(self, hashes: np.ndarray, vectors: np.ndarray) -> None:
        """Write hashes (n,) S32 and vectors (n, d) to disk as one shard.

        Must not be called with `reading`.
        """
        self._last_number += 1
        # The token keeps two writers from giving two shards the same name.
        path = self.folder / f"shard-{self._last_number:06d}-{self._token}.vec"
        write_shard(
            path,
            hashes,
            vectors.astype(np.float16),
        )
        self._shards.append(map_vectors(path, *vectors.shape))
        self._fresh.append(hashes)

    def _sort(self) -> None:
        """Take the hashes of fresh shards into the sorted table."""
        if self._fresh:
            by_position = self._hashes[np.argsort(self._positions)]
            hashes = np.concatenate([by_position, *self._fresh])
            self._positions = np.argsort(hashes, kind="stable")
            self._hashes = hashes[self._positions]
            self._fresh = []


class EmbeddingCache:
    """A folder with one sub-folder of vectors per encoder fingerprint (64 hex digits).

    Sub-folders with other names do not belong to the cache.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open: dict[str, VectorCache] = {}

    def take_damaged(self) -> int:
        """Return how many torn or corrupt shards were removed since the last call."""
        count = 0
        for vectors in self._open.values():
            count += vectors.damaged
            vectors.damaged = 0
        return count

    def open_vectors(self, fingerprint: str, dimension: int) -> VectorCache:
        """Return the vectors of an encoder, opened on first use."""
        if fingerprint not in self._open:
            self._open[fingerprint] = VectorCache(self.folder / fingerprint, dimension)
        return self._open[fingerprint]

    def read_width(self, fingerprint: str) -> int:
        """Return the width of an encoder's cached vectors, 0 if there are none."""
        for path in sorted((self.folder / fingerprint).glob("shard-[0-9]*.vec")):
            shard = read_shard(path)
            if shard:
                return shard.width
        return 0

    def estimate_count(self, fingerprint: str) -> int:
        """Return the number of an encoder's cached vectors, those in damaged files included."""
        return sum(map(read_row_count, (self.folder / fingerprint).glob("shard-[0-9]*.vec")))

    def drop_others(self, keep: Collection[str]) -> int:
        """Delete the vectors of all encoders but `keep`; return how many encoders were dropped."""
        dropped = 0
        for path in self._list_encoders():
            if path.name not in keep:
                self._open.pop(path.name, None)
                try_remove_tree(path)
                dropped += 1
        return dropped

    def drop_all(self) -> None:
        """Delete the vectors of all encoders.

        Raises OSError, on Windows also while another process has them open.
        """
        self._open.clear()
        for path in self._list_encoders():
            delete_tree(path)

    def _list_encoders(self) -> list[Path]:
        """Return the sub-folders of encoders."""
        if not self.folder.is_dir():
            return []
        return [
            path
            for path in self.folder.iterdir()
            if path.is_dir() and _FINGERPRINT.fullmatch(path.name)
        ]


class CachedRows:
    """Vectors (n, d) float32 that are read from the cache when they are indexed.

    A slice or an array of rows is read at a time, since a million vectors take several GB. All are
    rounded to float16, so a fresh vector equals a cached one.
    """

    def __init__(
        self,
        cache: VectorCache,
        positions: np.ndarray,
        similarity: Similarity,
    ) -> None:
        self._cache = cache
        self._positions = positions
        self._similarity = similarity
        self.shape = (len(positions), cache.dimension)

    def select(self, rows: np.ndarray) -> CachedRows:
        """Return the rows selected by positions or a mask."""
        return CachedRows(
            self._cache,
            self._positions[rows],
            self._similarity,
        )

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        positions = self._positions[rows]
        vectors = np.empty((len(positions), self._cache.dimension), np.float32)
        for start in range(0, len(positions), _BLOCK):
            block = slice(start, start + _BLOCK)
            stored = self._cache.read(positions[block])
            vectors[block] = self._similarity.restore(stored)
        return vectors


def encode_cached(
    encoder: Encoder,
    hashes: Sequence[str],
    texts: Sequence[str],
    cache: EmbeddingCache,
    *,
    shard_size: int = 128,
    progress: Callable[[int], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    encode: Callable[..., np.ndarray] | None = None,
    order: np.ndarray | None = None,
    stored: Callable[[VectorCache, np.ndarray], None] | None = None,
    encode_shards: EncodeShards | None = None,
) -> CachedRows:
    """Return the vectors (n, d) of `texts`, encoding only those that are not cached.

    `hashes` are content hashes (hex sha256). New vectors are stored `shard_size` at a time; then
    `stored` is called with the cache and all keys (n,). An interruption loses at most one shard,
    and less if its cause is `Unfinished`. `progress` gets the number of texts done so far.
    `should_stop` is called after every batch; CancelledError is raised if it returns True.

    `encode` is called in place of `encoder.encode_chunks`. `encode_shards` encodes several shards
    at once and yields their vectors in order. `order` (n,) lists the rows of `texts` in the order
    in which they are to be encoded.
    """
    keys = hash_keys(hashes)
    if order is None:
        order = np.arange(len(keys))
    encode = encode or encoder.encode_chunks
    vectors_on_disk = cache.open_vectors(encoder.fingerprint, encoder.dimension)
    # The row of each different text, in the order in which they are wanted.
    _, first_places = np.unique(keys[order], return_index=True)
    distinct = order[np.sort(first_places)]
    missing = distinct[vectors_on_disk.find(keys[distinct]) < 0]
    done = len(distinct) - len(missing)
    repeated = len(keys) - len(distinct)
    shards = _cut_into_shards(missing, texts, shard_size)
    encoded = None

    def raise_if_stopped() -> None:
        if should_stop is not None and should_stop():
            progress_so_far = (
                f"{done:,} of {len(distinct):,} different texts are embedded and kept."
            )
            raise CancelledError(
                "Stopped.",
                progress_so_far,
                "Run again to resume.",
                command="run",
            )

    if encode_shards:
        # It reads texts ahead of those whose vectors are stored.
        shards, ahead = tee(shards)
        encoded = encode_shards(shard for _, shard in ahead)
    for rows, shard in shards:
        raise_if_stopped()
        try:
            if encoded:
                vectors = next(encoded)
            else:
                report = _report_within(
                    progress,
                    raise_if_stopped,
                    done,
                    len(rows),
                )
                vectors = encode(shard, report)
        except EngineError as error:
            cause = error.__cause__
            if isinstance(cause, Unfinished) and cause.fingerprint == encoder.fingerprint:
                vectors_on_disk.append(keys[rows[: len(cause.vectors)]], cause.vectors)
                # The vectors are stored: without its cause, the error cannot pass them on again.
                raise error from None
            raise
        vectors_on_disk.append(keys[rows], vectors)
        done += len(rows)
        if encoded is not None and progress is not None:
            progress(done)
        if stored is not None:
            stored(vectors_on_disk, keys)
    if progress is not None:
        progress(done + repeated)
    return CachedRows(
        vectors_on_disk,
        vectors_on_disk.find(keys),
        encoder.similarity,
    )


class CachedEncoder:
    """An encoder that never encodes a text twice, even in another run.

    Vectors of chunks are kept as `encode_cached` keeps them, unless `queries_only` is set. Vectors
    of queries have separate keys.
    """

    def __init__(
        self, encoder: Encoder, cache: EmbeddingCache, *, queries_only: bool = False
    ) -> None:
        self._encoder = encoder
        self._cache = cache
        self._queries_only = queries_only
        self.fingerprint = encoder.fingerprint
        self.dimension = encoder.dimension
        self.similarity = encoder.similarity
        self.notices = encoder.notices

    def encode_chunks(self, texts: Sequence[str], progress: Progress | None = None) -> np.ndarray:
        """See `Encoder`."""
        if self._queries_only:
            return self._encoder.encode_chunks(texts, progress)
        hashes = list(map(_hash_text, texts))
        return encode_cached(self._encoder, hashes, texts, self._cache, progress=progress)[:]

    def encode_queries(self, texts: Sequence[str], progress: Progress | None = None) -> np.ndarray:
        """See `Encoder`."""
        hashes = [_hash_text(f"query\0{text}") for text in texts]
        encode = self._encoder.encode_queries
        return encode_cached(
            self._encoder, hashes, texts, self._cache, progress=progress, encode=encode
        )[:]


def _hash_text(text: str) -> str:
    # Texts of documents may hold lone surrogates.
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _report_within(
    progress: Progress | None, raise_if_stopped: Callable[[], None], before: int, size: int
) -> Progress:
    """Return a callback that reports progress within a shard as progress of the whole.

    `before`: the number of texts that were done earlier. `size`: that of the shard. After every
    batch but the last it also calls `raise_if_stopped`.
    """

    def report(done: int) -> None:
        if progress is not None:
            progress(before + done)
        # A whole shard is stored before a stop.
        if done < size:
            raise_if_stopped()

    return report


def hash_keys(hashes: Sequence[str]) -> np.ndarray:
    """Convert content hashes (hex sha256) to cache keys (n,) S32.

    Raises ValueError for anything else.
    """
    raw = b"".join(bytes.fromhex(value) for value in hashes)
    if len(raw) != 32 * len(hashes):
        raise ValueError("a content hash is not a hex sha256")
    return np.frombuffer(raw, dtype="S32")


def _cut_into_shards(
    missing: np.ndarray, texts: Sequence[str], shard_size: int
) -> Iterator[tuple[np.ndarray, list[str]]]:
    """Yield the missing rows and their texts in shards of similar length.

    Texts are sorted by length within windows of several shards, so that batches hold texts of
    similar length. Windows grow, so that the texts wanted first come early. The texts of one window
    are held in memory.
    """
    start = 0
    window = shard_size
    while start < len(missing):
        rows = missing[start : start + window]
        start += window
        window = min(2 * window, shard_size * _WINDOW_SHARDS)
        window_texts = [texts[row] for row in rows]
        order = np.argsort([-len(text) for text in window_texts], kind="stable")  # longest first
        for first in range(0, len(rows), shard_size):
            shard = order[first : first + shard_size]
            yield rows[shard], [window_texts[position] for position in shard]
