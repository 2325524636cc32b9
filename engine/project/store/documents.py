"""Tables of documents: text and metadata read from files, without chunks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import fields

from engine.core.records import Document
from engine.project.store.artifacts import ArtifactTables
from engine.project.store.connection import guarded, note_damage
from engine.project.store.schema import assignments, placeholders

SAMPLE = 900  # Characters of a text that suffice to detect its language.
_DOCUMENT = tuple(column.name for column in fields(Document))


def _document_columns(text: str) -> str:
    """Return the columns of `Document` for a statement, with an expression in place of its text."""
    return ", ".join(text if column == "text" else column for column in _DOCUMENT)


class DocumentTables(ArtifactTables):
    """The documents of the project, their languages and their titles."""

    def documents_of(self, file_id: int) -> dict[str, tuple[int, str]]:
        """Return the live documents of a file: path → (id, content hash)."""
        rows = self._fetch(
            "SELECT path, id, content_hash FROM documents WHERE file_id = ? AND live", (file_id,)
        )
        return {row[0]: (row[1], row[2]) for row in rows}

    def put_document(self, file_id: int, document: Document) -> int:
        """Insert a document (id 0) or update the row `document.id`; return the row id."""
        columns = [column for column in _DOCUMENT if column != "id"]
        values = [getattr(document, column) for column in columns]
        if document.id:
            self._execute(
                f"UPDATE documents SET {assignments(columns)}, live = 1 WHERE id = ?",
                (*values, document.id),
            )
            return document.id
        sql = f"""INSERT INTO documents ({", ".join(columns)}, file_id)
            VALUES ({placeholders(columns)}, ?) RETURNING id"""
        return int(self._fetch(sql, (*values, file_id))[0][0])

    def drop_document(self, document_id: int) -> None:
        """Take a document out of search; `purge_dead` deletes its rows."""
        self._execute("UPDATE documents SET live = 0 WHERE id = ?", (document_id,))
        self._execute("UPDATE chunks SET live = 0 WHERE document_id = ?", (document_id,))

    def documents(self, *, with_text: bool = False) -> list[Document]:
        """Return the live documents in order of path, without their text unless asked for."""
        text = "text" if with_text else "''"
        rows = self._fetch(
            f"SELECT {_document_columns(text)} FROM documents WHERE live ORDER BY path, id"
        )
        return [Document(*row) for row in rows]

    def each_document(self) -> Iterator[Document]:
        """Yield `documents` with their texts, of which only one is in memory at a time."""
        for card in self.documents():
            document = self.document(card.id)
            # A run may have removed it meanwhile.
            if document is not None:
                yield document

    def documents_without_language(self, most: int) -> list[tuple[int, str]]:
        """Return (id, text sample) of up to `most` live documents whose language is unknown.

        BEIR data sets are left out. A sample has `SAMPLE` characters. Of longer texts it takes
        three pieces, around 1/4, 1/2 and 3/4, since one piece may be a list of languages, a menu or
        a bibliography.
        """
        pieces = " || ' ' || ".join(
            f"substr(text, length(text) * {part} / 4 - ?1 / 6, ?1 / 3)" for part in (1, 2, 3)
        )
        rows = self._fetch(
            f"""SELECT id, CASE WHEN length(text) > 2 * ?1 THEN {pieces} ELSE substr(text, 1, ?1) END
            FROM documents WHERE id IN (SELECT id FROM documents INDEXED BY documents_overview
            WHERE live AND language = '' AND external_id IS NULL ORDER BY id LIMIT ?2) ORDER BY id""",  # noqa: E501
            (SAMPLE, most),
        )
        return rows

    def count_without_language(self) -> int:
        """Count the documents that `documents_without_language` selects from."""
        sql = "SELECT count(*) FROM documents WHERE live AND language = '' AND external_id IS NULL"
        return int(self._fetch(sql)[0][0])

    def put_languages(self, languages: Iterable[tuple[int, str]]) -> None:
        """Store the language of documents by id."""
        with guarded(self.path):
            self._db.executemany(
                "UPDATE documents SET language = ? WHERE id = ?",
                [(code, row_id) for row_id, code in languages],
            )

    def languages_but(self, main: str) -> list[tuple[int, str, int]]:
        """Return (id, language, characters) of live documents in a known language but `main`."""
        sql = """SELECT id, language, characters FROM documents INDEXED BY documents_overview JOIN contents ON document_id = id
            WHERE live AND language NOT IN ('', ?)"""  # noqa: E501
        return self._fetch(sql, (main,))

    def characters_by_language(self, but: str) -> Counter[str]:
        """Count the characters of live documents in each known language except `but`."""
        lengths: Counter[str] = Counter()
        for _, language, length in self.languages_but(but):
            lengths[language] += length
        return lengths

    def document(self, document_id: int) -> Document | None:
        """Return one document with its text, live or not; None if there is none."""
        rows = self._fetch(
            f"SELECT {_document_columns('text')} FROM documents WHERE id = ?", (document_id,)
        )
        if rows:
            return Document(*rows[0])
        return None

    def text_length(self, document_id: int) -> int:
        """Return the number of characters of a document's text."""
        rows = self._fetch("SELECT length(text) FROM documents WHERE id = ?", (document_id,))
        return int(rows[0][0])

    def document_card(self, document_id: int) -> Document:
        """Return one document without its text, live or not.

        Raises DamagedError if the row is gone.
        """
        rows = self._fetch(
            f"""SELECT {_document_columns("''")} FROM documents WHERE id = ?""", (document_id,)
        )
        if not rows:
            raise note_damage(self.path, f"document {document_id} is missing")
        return Document(*rows[0])

    def documents_at(self, path: str) -> list[int]:
        """Return the ids of the live documents with that path, in any source."""
        sql = "SELECT id FROM documents WHERE live AND path = ? ORDER BY id"
        return [row[0] for row in self._fetch(sql, (path,))]

    def have_same_text(self, document_id: int, other_id: int) -> bool:
        """Return whether two documents have the same text."""
        sql = """SELECT 1 FROM documents first, documents second
            WHERE first.id = ? AND second.id = ? AND first.text = second.text"""
        return bool(self._fetch(sql, (document_id, other_id)))

    def titled_paths(self) -> list[tuple[int, str, str]]:
        """Return (id, title, path) of the live documents, by id.

        The path is empty for an entry of a data set, which is no file of its own.
        """
        sql = """SELECT id, title, CASE WHEN external_id IS NULL THEN path ELSE '' END FROM documents
            WHERE live ORDER BY id"""  # noqa: E501
        return self._fetch(sql)

    def titles(self) -> dict[int, str]:
        """Return the titles of the live documents by id."""
        return dict(self._fetch("SELECT id, title FROM documents WHERE live"))
