"""Tables of chunks. In a large corpus a chunk's text is read from disk when it is accessed.

All texts of a million chunks would take several GB.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, overload

from engine.core.records import Chunk
from engine.project.store.artifacts import ArtifactTables
from engine.project.store.connection import guarded, note_damage
from engine.project.store.schema import NOTE_CONTENTS, assignments, placeholders

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from engine.core.arrays import Ids

IN_MEMORY = 100_000  # Up to so many chunks are read at once; if there are more, each on access.
BLOCK = 2_000  # Chunks read by one statement.
AHEAD = 32  # Chunks read by one access.
# The fields of `Chunk` in their order; `embedded_text` is NULL if it is the text itself.
_CHUNK = (
    "document_id, ordinal, start, end, text, headings, tokens, embedded_text, content_hash, id,"
    " pages, line, page"
)
_NEW_CHUNK = (
    "ordinal",
    "start",
    "end",
    "text",
    "headings",
    "tokens",
    "embedded_text",
    "pages",
    "content_hash",
    "line",
    "page",
)


Position = tuple[int, int | None]
"""Line and page, from 1; the page is None in a text without pages."""


def locate_chunks(text: str, chunks: Iterable[tuple[int, str]]) -> list[Position]:
    """Return the position of the first visible character of each chunk (start, text).

    Lines end with \\n, pages with \\f.
    """
    line_ends = [match.start() for match in re.finditer("\n", text)]
    page_ends = [match.start() for match in re.finditer("\f", text)]
    positions: list[Position] = []
    for start, chunk in chunks:
        offset = start + len(chunk) - len(chunk.lstrip())
        line = bisect_left(line_ends, offset) + 1
        page = bisect_left(page_ends, offset) + 1 if page_ends else None
        positions.append((line, page))
    return positions


class StoredChunk(Chunk):
    """A chunk with its id, document and content hash; other fields are read on access."""

    __slots__ = ("_read",)

    @classmethod
    def of(
        cls, chunk_id: int, document_id: int, content_hash: str, read: Callable[[int], Chunk]
    ) -> StoredChunk:
        """Build a chunk whose other fields are read on access.

        `read`: returns the whole chunk with an id.
        """
        chunk = object.__new__(cls)
        # A frozen dataclass forbids assignments.
        object.__setattr__(chunk, "id", chunk_id)
        object.__setattr__(chunk, "document_id", document_id)
        object.__setattr__(chunk, "content_hash", content_hash)
        object.__setattr__(chunk, "_read", read)
        return chunk

    def __getattr__(self, name: str) -> Any:
        # Python calls this for what is not set: if that is `_read`, `self._read` would never end.
        read = object.__getattribute__(self, "_read")
        return getattr(read(self.id), name)


def is_unread(chunk: Chunk) -> bool:
    """Return whether a chunk's fields are read on access; those of a copy by `replace` are not."""
    return hasattr(chunk, "_read")


class StoredChunks(Sequence[Chunk]):
    """Many chunks in order of id: arrays of their keys, and other fields that are read on access.

    A million `StoredChunk` take seconds and 400 MB; functions that need all keys use the arrays
    (`chunk_ids_of`, `document_ids_of`).
    """

    def __init__(
        self,
        ids: Ids,
        document_ids: Ids,
        content_hashes: NDArray[np.bytes_],
        read: Callable[[int], Chunk],
        changed: Mapping[int, Chunk] = MappingProxyType({}),
    ) -> None:
        """Hold the keys (n,) of n chunks.

        `read`: returns the whole chunk with an id. `changed`: row → the chunk in place of the
        stored one.
        """
        self.ids = ids
        self.document_ids = document_ids
        self._content_hashes = content_hashes
        self._read = read
        self._changed = changed

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, row: int) -> Chunk: ...
    @overload
    def __getitem__(self, row: slice) -> list[Chunk]: ...
    def __getitem__(self, row: int | slice) -> Chunk | list[Chunk]:
        if isinstance(row, slice):
            return [self[index] for index in range(*row.indices(len(self)))]
        chunk_id = int(self.ids[row])  # raises IndexError
        if row < 0:
            row += len(self)
        if row in self._changed:
            return self._changed[row]
        content_hash = self._content_hashes[row].decode()
        return StoredChunk.of(
            chunk_id,
            int(self.document_ids[row]),
            content_hash,
            self._read,
        )

    def changed(self, chunks: Mapping[int, Chunk]) -> StoredChunks:
        """Return these chunks with others in some rows, which have the same keys but for hashes."""
        changed = {**self._changed, **chunks}
        return StoredChunks(
            self.ids,
            self.document_ids,
            self._content_hashes,
            self._read,
            changed,
        )


def chunk_ids_of(chunks: Sequence[Chunk]) -> Ids:
    """Return the ids of chunks (n,), in their order."""
    import numpy as np

    if isinstance(chunks, StoredChunks):
        return chunks.ids
    return np.array([chunk.id for chunk in chunks], np.int64)


def document_ids_of(chunks: Sequence[Chunk]) -> Ids:
    """Return the document ids of chunks (n,), in their order."""
    import numpy as np

    if isinstance(chunks, StoredChunks):
        return chunks.document_ids
    return np.array([chunk.document_id for chunk in chunks], np.int64)


def find_chunk_rows(chunks: Sequence[Chunk], ids: ArrayLike) -> Ids:
    """Return the row in `chunks` of each chunk id, in the shape of `ids`; −1 if it is not there.

    Chunks have distinct ids, in any order.
    """
    import numpy as np

    wanted = np.asarray(ids, np.int64)
    known = chunk_ids_of(chunks)
    if not len(known):
        return np.full(
            wanted.shape,
            -1,
            np.int64,
        )
    order = np.argsort(known, kind="stable")
    known = known[order]
    # Without the last one, an id beyond all known ones gets a valid place, too.
    places = np.searchsorted(known[:-1], wanted)
    return np.where(
        known[places] == wanted,
        order[places],
        -1,
    )


def find_rows_of_documents(chunks: Sequence[Chunk], document_ids: Collection[int]) -> Ids:
    """Return the rows in `chunks` of all chunks of some documents, ascending."""
    import numpy as np

    wanted = np.fromiter(
        document_ids,
        np.int64,
        len(document_ids),
    )
    return np.flatnonzero(np.isin(document_ids_of(chunks), wanted))


def sample_indices(
    total: int,
    seed: int,
    needed: Iterable[ArrayLike] = (),
    most: int = 0,
) -> Ids:
    """Return sorted positions of chunks: all of `total`, or a random sample and those `needed`.

    `most`: size of the sample, `IN_MEMORY` by default. −1 in `needed` means no chunk.
    """
    import numpy as np

    # The 7 only makes this draw differ from others with the same seed.
    rng = np.random.default_rng([seed, 7])
    sample = rng.permutation(total)[: most or IN_MEMORY]
    indices = np.concatenate([sample, *map(np.ravel, needed)])
    return np.unique(indices[indices >= 0]).astype(np.int64)


class ChunkTables(ArtifactTables):
    """The chunks made of documents."""

    # The chunks that the last `chunk` has read, by id.
    _read_ahead: Mapping[int, Chunk] = MappingProxyType({})

    def has_chunks(self, file_id: int | None = None) -> bool:
        """Return whether there is a live chunk, of the whole project or of one file."""
        if file_id is None:
            return bool(self._fetch("SELECT 1 FROM chunks WHERE live LIMIT 1"))
        sql = """SELECT 1 FROM chunks WHERE live
            AND document_id IN (SELECT id FROM documents WHERE file_id = ?) LIMIT 1"""
        return bool(self._fetch(sql, (file_id,)))

    def replace_chunks(self, document_id: int, chunks: Sequence[Chunk]) -> int:
        """Give a document new chunks; equal ones keep their row id. Return how many are new.

        Chunks that no longer exist stay readable (not live) until `purge_dead`, since the current
        index still names them.
        """
        former_ids: dict[str, list[int]] = {}
        former = self._fetch(
            "SELECT id, content_hash FROM chunks WHERE document_id = ? ORDER BY live DESC, id",
            (document_id,),
        )
        for row_id, content_hash in former:
            former_ids.setdefault(content_hash, []).append(row_id)
        self._execute("UPDATE chunks SET live = 0 WHERE document_id = ?", (document_id,))
        new_rows = []
        [(text,)] = self._fetch("SELECT text FROM documents WHERE id = ?", (document_id,))
        positions = locate_chunks(text, ((chunk.start, chunk.text) for chunk in chunks))
        for chunk, position in zip(chunks, positions, strict=True):
            row = (
                chunk.ordinal,
                chunk.start,
                chunk.end,
                chunk.text,
                json.dumps(chunk.headings),
                chunk.tokens,
                None if chunk.embedded_text == chunk.text else chunk.embedded_text,
                json.dumps(chunk.pages),
                chunk.content_hash,
                *position,
            )
            row_ids = former_ids.get(chunk.content_hash)
            if row_ids:
                self._execute(
                    f"UPDATE chunks SET {assignments(_NEW_CHUNK)}, live = 1 WHERE id = ?",
                    (*row, row_ids.pop(0)),
                )
            else:
                new_rows.append((*row, document_id))
        with guarded(self.path):
            columns = ", ".join((*_NEW_CHUNK, "document_id"))
            self._db.executemany(
                f"INSERT INTO chunks ({columns}) VALUES ({placeholders(_NEW_CHUNK)}, ?)", new_rows
            )
        self._execute(f"{NOTE_CONTENTS} WHERE id = ?", (document_id,))
        return len(new_rows)

    def each_chunk(self, block: int = BLOCK) -> Iterator[Chunk]:
        """Yield all live chunks in order of id, with `block` of them in memory."""
        last_id = -1
        sql = f"SELECT {_CHUNK} FROM chunks WHERE live AND id > ? ORDER BY id LIMIT ?"
        while rows := self._fetch(sql, (last_id, block)):
            for row in rows:
                chunk = self._chunk(row)
                yield chunk
            last_id = chunk.id

    def _chunk(self, row: Any) -> Chunk:
        """Return the chunk in a row of the columns `_CHUNK`."""
        document_id, ordinal, start, end, text, headings, tokens, embedded, *last_columns = row
        content_hash, row_id, page_marks, line, page = last_columns
        pages = [
            (int(offset), int(number), str(name)) for offset, number, name in self._json(page_marks)
        ]
        return Chunk(
            document_id,
            ordinal,
            start,
            end,
            text,
            tuple(self._json(headings)),
            tokens,
            text if embedded is None else embedded,
            content_hash,
            row_id,
            tuple(pages),
            line,
            page,
        )

    def chunk(self, chunk_id: int) -> Chunk:
        """Return a chunk, live or not, reading the next ones ahead.

        Raises DamagedError if the row is gone.
        """
        if chunk_id not in self._read_ahead:
            rows = self._fetch(
                f"SELECT {_CHUNK} FROM chunks WHERE id >= ? ORDER BY id LIMIT {AHEAD}", (chunk_id,)
            )
            self._read_ahead = {chunk.id: chunk for chunk in map(self._chunk, rows)}
        if chunk_id not in self._read_ahead:
            raise note_damage(self.path, f"chunk {chunk_id} is missing")
        return self._read_ahead[chunk_id]

    def read_whole(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        """Return chunks in the same order, those that are read on access with all their fields.

        Raises DamagedError if a row is gone.
        """
        unread = {chunk.id for chunk in chunks if is_unread(chunk)}
        stored = self.chunks_by_id(sorted(unread))
        if missing := unread - stored.keys():
            raise note_damage(self.path, f"chunk {min(missing)} is missing")
        return [stored[chunk.id] if is_unread(chunk) else chunk for chunk in chunks]

    def chunks_of(self, document_id: int) -> list[Chunk]:
        """Return the live chunks of a document in order."""
        sql = f"SELECT {_CHUNK} FROM chunks WHERE document_id = ? AND live ORDER BY ordinal"
        return [self._chunk(row) for row in self._fetch(sql, (document_id,))]

    def chunk_ids_of(self, content_hash: str) -> list[int]:
        """Return the ids of live chunks with that content, ascending."""
        sql = "SELECT id FROM chunks WHERE live AND content_hash = ? ORDER BY id"
        return [row[0] for row in self._fetch(sql, (content_hash,))]

    def sample_chunk_texts(self, count: int) -> list[str]:
        """Return the texts of about `count` live chunks, spread evenly over the corpus."""
        [(first, last)] = self._fetch(
            """SELECT (SELECT id FROM chunks WHERE live ORDER BY id ASC LIMIT 1),
            (SELECT id FROM chunks WHERE live ORDER BY id DESC LIMIT 1)"""
        )
        if first is None:
            return []
        # Take the first chunk of each range of ids, which reads no other rows.
        sql = "SELECT id, text FROM chunks WHERE live AND id >= ? ORDER BY id LIMIT 1"
        texts: dict[int, str] = {}
        step = max(1, (last + 1 - first) // max(1, count))
        for lowest in range(first, last + 1, step):
            texts.update(self._fetch(sql, (lowest,)))
        if 2 * len(texts) >= count:
            return list(texts.values())
        # There are few chunks, or ids have gaps since documents were read again.
        ids = self.chunk_ids().tolist()
        sample = self.chunks_by_id(ids[:: max(1, len(ids) // count)])
        return [chunk.text for chunk in sample.values()]

    def chunk_ids(self) -> Ids:
        """Return the ids of all live chunks (n,), ascending."""
        import numpy as np

        # One string: a million rows as objects take three times as long.
        [(ids,)] = self._fetch(
            "SELECT group_concat(id) FROM (SELECT id FROM chunks WHERE live ORDER BY id)"
        )
        return np.fromstring(
            ids or "",
            np.int64,
            sep=",",
        )

    def stored_chunks(self) -> StoredChunks:
        """Return all live chunks in order of id, each of which is read on access."""
        import numpy as np

        # Strings, as in `chunk_ids`.
        [(ids, document_ids, content_hashes)] = self._fetch(
            """SELECT group_concat(id), group_concat(document_id), group_concat(content_hash)
            FROM (SELECT id, document_id, content_hash FROM chunks WHERE live ORDER BY id)"""
        )
        return StoredChunks(
            np.fromstring(ids or "", np.int64, sep=","),
            np.fromstring(document_ids or "", np.int64, sep=","),
            np.array((content_hashes or "").encode().split(b",")),
            self.chunk,
        )

    def chunk_ids_in(self, documents: Iterable[int]) -> list[int]:
        """Return the ids of the live chunks of some documents."""
        sql = "SELECT id FROM chunks WHERE live AND document_id IN ({0})"
        return [row[0] for row in self._read_in_blocks(sql, documents)]

    def chunk_keys(self, *, superseded: bool = False, first: int = 0) -> list[tuple[int, int, str]]:
        """Return (id, document id, content hash) of all live chunks from id `first` on, by id.

        `superseded`: include every chunk that `chunks_by_id` finds.
        """
        if superseded:
            which = "document_id IN (SELECT id FROM documents WHERE live)"
        else:
            which = "live"
        sql = (
            f"SELECT id, document_id, content_hash FROM chunks WHERE {which} AND id >= ? ORDER"
            " BY id"
        )
        return self._fetch(sql, (first,))

    def chunks_by_id(self, ids: Iterable[int]) -> dict[int, Chunk]:
        """Return chunks by row id, including superseded ones but none of deleted documents."""
        return {chunk.id: chunk for chunk in map(self._chunk, self._read_chunks(_CHUNK, ids))}

    def chunk_ids_like(
        self,
        pattern: str,
        most: int = -1,
        *,
        any_case: bool,
    ) -> list[int]:
        """Return the ids of the first `most` live chunks whose text matches a pattern (-1: all).

        The pattern is for LIKE with `any_case`, else for GLOB.
        """
        operator = "LIKE" if any_case else "GLOB"
        sql = f"""SELECT id FROM chunks WHERE live AND coalesce(embedded_text, text) {operator} ?
            ORDER BY id LIMIT ?"""
        return [row[0] for row in self._fetch(sql, (pattern, most))]

    def owners_of(self, ids: Iterable[int]) -> dict[int, int]:
        """Return the document ids of those chunks that `chunks_by_id` finds, by chunk id."""
        return dict(self._read_chunks("id, document_id", ids))

    def hashes_of(self, ids: Iterable[int]) -> dict[int, str]:
        """Return the content hashes of those chunks that `chunks_by_id` finds, by chunk id."""
        return dict(self._read_chunks("id, content_hash", ids))

    def _read_chunks(self, columns: str, ids: Iterable[int]) -> Iterator[Any]:
        """Read columns of chunks by row id, with the rule of `chunks_by_id`."""
        sql = f"""SELECT {columns} FROM chunks WHERE id IN ({{0}})
            AND EXISTS (SELECT 1 FROM documents WHERE documents.id = chunks.document_id AND documents.live)"""  # noqa: E501
        return self._read_in_blocks(sql, ids)

    def _read_in_blocks(self, sql: str, ids: Iterable[int]) -> Iterator[Any]:
        """Run a statement for blocks of 500 ids in place of {0}, yielding its rows."""
        wanted = list(ids)
        for first in range(0, len(wanted), 500):
            block = wanted[first : first + 500]
            yield from self._fetch(sql.format(placeholders(block)), block)
