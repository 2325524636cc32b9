"""Chunks; of a large corpus each is read when it is wanted: of a million, all of what they hold
takes several GB.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from engine.core.records import Chunk
from engine.project.store.artifacts import ArtifactTables
from engine.project.store.connection import damaged, guarded
from engine.project.store.schema import NOTE_CONTENTS, assigned, marks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

Position = tuple[int, int | None]


def positions(text: str, chunks: Iterable[tuple[int, str]]) -> list[Position]:
    """(line, page) of a document's `text`, both from 1, where the first visible character of
    each chunk (start, text) stands.

    Lines end with \\n, pages with \\f; the page is None where the text has no \\f.
    """
    lines, pages = ([end.start() for end in re.finditer(sign, text)] for sign in ("\n", "\f"))
    found: list[Position] = []
    for start, chunk in chunks:
        at = start + len(chunk) - len(chunk.lstrip())
        found.append((bisect_left(lines, at) + 1, bisect_left(pages, at) + 1 if pages else None))
    return found


IN_MEMORY = 100_000  # so many chunks are read at once; of more, each when it is wanted
BLOCK = 2_000  # chunks that are read at once, of all and of some
AHEAD = 32
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


class StoredChunk(Chunk):
    """A chunk with its id, document and content hash; all else is read when it is wanted."""

    __slots__ = ("_read",)

    @classmethod
    def of(cls, *row: Any) -> StoredChunk:
        """`row`: id, document id, content hash, and a function that reads a chunk by its id."""
        chunk = object.__new__(cls)
        for name, value in zip(("id", "document_id", "content_hash", "_read"), row, strict=True):
            object.__setattr__(chunk, name, value)
        return chunk

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_read")(self.id), name)


def drawn(
    total: int, seed: int, needed: Iterable[ArrayLike] = (), most: int = 0
) -> NDArray[np.int64]:
    """Places of chunks, ascending: all of `total`, or `most` (`IN_MEMORY`) at random and those
    `needed`, where −1 is none.
    """
    import numpy as np

    found = np.concatenate(
        [
            np.random.default_rng([seed, 7]).permutation(total)[: most or IN_MEMORY],
            *map(np.ravel, needed),
        ]
    )
    return np.unique(found[found >= 0]).astype(np.int64)


class ChunkTables(ArtifactTables):
    """The chunks made of documents."""

    _ahead: Mapping[int, Chunk] = MappingProxyType({})

    def has_chunks(self, file_id: int | None = None) -> bool:
        """Whether anything can be found, or anything of one file."""
        sql = "SELECT 1 FROM chunks WHERE live{} LIMIT 1"
        if file_id is None:
            return bool(self._rows(sql.format("")))
        own = " AND document_id IN (SELECT id FROM documents WHERE file_id = ?)"
        return bool(self._rows(sql.format(own), (file_id,)))

    def replace_chunks(self, document_id: int, chunks: Sequence[Chunk]) -> int:
        """Give a document new chunks; equal ones keep their row id. Returns how many are new.

        Chunks that no longer exist stay readable (not live) until `purge_dead`, since the former
        index still names them.
        """
        known: dict[str, list[int]] = {}
        former = self._rows(
            "SELECT id, content_hash FROM chunks WHERE document_id = ? ORDER BY live DESC, id",
            (document_id,),
        )
        for row_id, content_hash in former:
            known.setdefault(content_hash, []).append(row_id)
        self._rows("UPDATE chunks SET live = 0 WHERE document_id = ?", (document_id,))
        fresh = []
        (text,) = self._rows("SELECT text FROM documents WHERE id = ?", (document_id,))[0]
        places = positions(text, ((chunk.start, chunk.text) for chunk in chunks))
        for chunk, place in zip(chunks, places, strict=True):
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
                *place,
            )
            if ids := known.get(chunk.content_hash):
                self._rows(
                    f"UPDATE chunks SET {assigned(_NEW_CHUNK)}, live = 1 WHERE id = ?",
                    (*row, ids.pop(0)),
                )
            else:
                fresh.append((*row, document_id))
        with guarded(self.path):
            columns = ", ".join((*_NEW_CHUNK, "document_id"))
            self._db.executemany(
                f"INSERT INTO chunks ({columns}) VALUES ({marks(_NEW_CHUNK)}, ?)", fresh
            )
        self._rows(f"{NOTE_CONTENTS} WHERE id = ?", (document_id,))
        return len(fresh)

    def each_chunk(self) -> Iterator[Chunk]:
        """All live chunks, in order of id, `BLOCK` in memory."""
        last = -1
        sql = f"SELECT {_CHUNK} FROM chunks WHERE live AND id > ? ORDER BY id LIMIT ?"
        while rows := self._rows(sql, (last, BLOCK)):
            yield from map(self._chunk, rows)
            last = rows[-1][_CHUNK.split(", ").index("id")]

    def _chunk(self, row: Any) -> Chunk:
        return Chunk(
            row[0],
            row[1],
            row[2],
            row[3],
            row[4],
            tuple(self._json(row[5])),
            row[6],
            row[7] if row[7] is not None else row[4],
            row[8],
            row[9],
            tuple((int(at), int(number), str(name)) for at, number, name in self._json(row[10])),
            row[11],
            row[12],
        )

    def chunk(self, chunk_id: int) -> Chunk:
        """A chunk, live or not; the next ones are read, too.

        Raises DamagedError when the row is gone.
        """
        if chunk_id not in self._ahead:
            rows = self._rows(
                f"SELECT {_CHUNK} FROM chunks WHERE id >= ? ORDER BY id LIMIT {AHEAD}", (chunk_id,)
            )
            self._ahead = {chunk.id: chunk for chunk in map(self._chunk, rows)}
        if chunk_id not in self._ahead:
            raise damaged(self.path, f"chunk {chunk_id} is missing")
        return self._ahead[chunk_id]

    def chunks_of(self, document_id: int) -> list[Chunk]:
        """The live chunks of a document, in order."""
        sql = f"SELECT {_CHUNK} FROM chunks WHERE document_id = ? AND live ORDER BY ordinal"
        return [self._chunk(row) for row in self._rows(sql, (document_id,))]

    def chunk_ids_of(self, content_hash: str) -> list[int]:
        """Live chunks with that content, in order of id."""
        return [
            row[0]
            for row in self._rows(
                "SELECT id FROM chunks WHERE live AND content_hash = ? ORDER BY id", (content_hash,)
            )
        ]

    def sample_chunk_texts(self, count: int) -> list[str]:
        """Texts of about `count` live chunks, spread evenly over the corpus."""
        one = "(SELECT id FROM chunks WHERE live ORDER BY id {} LIMIT 1)"
        ((first, last),) = self._rows(f"SELECT {one.format('ASC')}, {one.format('DESC')}")
        if first is None:
            return []
        sql = "SELECT id, text FROM chunks WHERE live AND id >= ? ORDER BY id LIMIT 1"
        places = range(first, last + 1, max(1, (last + 1 - first) // max(1, count)))
        found = dict(self._rows(sql, (place,))[0] for place in places)
        # few chunks, or ids with gaps, as documents that are read again leave them
        if 2 * len(found) < count:
            ids = self.chunk_ids().tolist()
            return [
                chunk.text
                for chunk in self.chunks_by_id(ids[:: max(1, len(ids) // count)]).values()
            ]
        return list(found.values())

    def chunk_ids(self) -> NDArray[np.int64]:
        """The ids of all live chunks (n,), ascending."""
        import numpy as np

        ((ids,),) = self._rows(
            "SELECT group_concat(id) FROM (SELECT id FROM chunks WHERE live ORDER BY id)"
        )
        return np.fromstring(
            ids or "", np.int64, sep=","
        )  # a million rows as objects take three times as long

    def chunk_ids_in(self, documents: Iterable[int]) -> list[int]:
        """The ids of the live chunks of some documents."""
        return [
            row[0]
            for row in self._among(
                "SELECT id FROM chunks WHERE live AND document_id IN ({0})", documents
            )
        ]

    def chunk_keys(self, *, superseded: bool = False, first: int = 0) -> list[tuple[int, int, str]]:
        """(id, document id, content hash) of all live chunks from id `first` on, in order of id;
        with `superseded`, of all that `chunks_by_id` finds.
        """
        if superseded:
            which = "document_id IN (SELECT id FROM documents WHERE live)"
        else:
            which = "live"
        sql = (
            f"SELECT id, document_id, content_hash FROM chunks WHERE {which} AND id >= ? ORDER"
            " BY id"
        )
        return cast(list[tuple[int, int, str]], self._rows(sql, (first,)))

    def chunks_by_id(self, ids: Iterable[int]) -> dict[int, Chunk]:
        """Chunks by row id. A superseded chunk is still found; a deleted document's is not."""
        return {chunk.id: chunk for chunk in map(self._chunk, self._found(_CHUNK, ids))}

    def chunk_ids_like(self, pattern: str, most: int, *, any_case: bool) -> list[int]:
        """Ids of the first `most` live chunks whose text fits a pattern: of LIKE for `any_case`,
        else of GLOB.
        """
        fits = "LIKE" if any_case else "GLOB"
        sql = (
            f"SELECT id FROM chunks WHERE live AND coalesce(embedded_text, text) {fits} ? ORDER BY"
            " id LIMIT ?"
        )
        return [row[0] for row in self._rows(sql, (pattern, most))]

    def owners_of(self, ids: Iterable[int]) -> dict[int, int]:
        """The documents of those chunks that `chunks_by_id` finds."""
        return dict(self._found("id, document_id", ids))

    def _found(self, columns: str, ids: Iterable[int]) -> Iterator[Any]:
        sql = f"""SELECT {columns} FROM chunks WHERE id IN ({{0}})
            AND EXISTS (SELECT 1 FROM documents WHERE documents.id = chunks.document_id AND documents.live)"""  # noqa: E501
        return self._among(sql, ids)

    def _among(self, sql: str, ids: Iterable[int]) -> Iterator[Any]:
        """What a statement finds of `ids`, of which it gets 500 at a time in place of {0}."""
        wanted = list(ids)
        for first in range(0, len(wanted), 500):
            block = wanted[first : first + 500]
            yield from self._rows(sql.format(marks(block)), block)
