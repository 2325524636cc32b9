"""Documents: what was read of files, without the chunks made of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import cast

from engine.core.records import Document
from engine.project.store.artifacts import ArtifactTables
from engine.project.store.connection import damaged, guarded
from engine.project.store.schema import assigned, marks

SAMPLE = 900  # characters of a text that show its language
_DOCUMENT = tuple(column.name for column in fields(Document))


def _document_columns(text: str) -> str:
    return ", ".join(text if column == "text" else column for column in _DOCUMENT)


class DocumentTables(ArtifactTables):
    """The documents of the project, their languages and their titles."""

    def documents_of(self, file_id: int) -> dict[str, tuple[int, str]]:
        """Live documents of a file: path → (id, content hash)."""
        rows = self._rows(
            "SELECT path, id, content_hash FROM documents WHERE file_id = ? AND live", (file_id,)
        )
        return {row[0]: (row[1], row[2]) for row in rows}

    def put_document(self, file_id: int, document: Document) -> int:
        """Insert a document (id 0) or update the row `document.id`; returns the row id."""
        columns = [column for column in _DOCUMENT if column != "id"]
        values = [getattr(document, column) for column in columns]
        if document.id:
            self._rows(
                f"UPDATE documents SET {assigned(columns)}, live = 1 WHERE id = ?",
                (*values, document.id),
            )
            return document.id
        sql = (
            f"INSERT INTO documents ({', '.join(columns)}, file_id) VALUES ({marks(columns)}, ?)"
            " RETURNING id"
        )
        return int(self._rows(sql, (*values, file_id))[0][0])

    def drop_document(self, document_id: int) -> None:
        """Take a document out of search; its rows go with `purge_dead`."""
        self._rows("UPDATE documents SET live = 0 WHERE id = ?", (document_id,))
        self._rows("UPDATE chunks SET live = 0 WHERE document_id = ?", (document_id,))

    def documents(self, *, with_text: bool = False) -> list[Document]:
        """Live documents, in order of path; their text is left empty unless asked for."""
        text = "text" if with_text else "''"
        rows = self._rows(
            f"SELECT {_document_columns(text)} FROM documents WHERE live ORDER BY path, id"
        )
        return [Document(*row) for row in rows]

    def documents_without_language(self, most: int) -> list[tuple[int, str]]:
        """(id, `SAMPLE` characters of the text) of up to `most` live documents whose language is
        not known yet; BEIR sets apart.

        Longer texts give three pieces, around 1/4, 1/2 and 3/4: one may be a list of languages, a
        menu or a bibliography.
        """
        pieces = " || ' ' || ".join(
            f"substr(text, length(text) * {part} / 4 - ?1 / 6, ?1 / 3)" for part in (1, 2, 3)
        )
        rows = self._rows(
            f"""SELECT id, CASE WHEN length(text) > 2 * ?1 THEN {pieces} ELSE substr(text, 1, ?1) END
            FROM documents WHERE id IN (SELECT id FROM documents INDEXED BY documents_overview
            WHERE live AND language = '' AND format <> 'beir' ORDER BY id LIMIT ?2) ORDER BY id""",  # noqa: E501
            (SAMPLE, most),
        )
        return cast(list[tuple[int, str]], rows)

    def count_without_language(self) -> int:
        """How many documents `documents_without_language` has."""
        return int(
            self._rows(
                "SELECT count(*) FROM documents WHERE live AND language = '' AND format <> 'beir'"
            )[0][0]
        )

    def put_languages(self, languages: Iterable[tuple[int, str]]) -> None:
        """Note the language of documents by id."""
        with guarded(self.path):
            self._db.executemany(
                "UPDATE documents SET language = ? WHERE id = ?",
                [(code, row_id) for row_id, code in languages],
            )

    def forget_languages(self) -> None:
        """Note of no document in which language it is: they are detected in another way now."""
        with guarded(self.path):
            self._db.execute("UPDATE documents SET language = ''")

    def languages_but(self, main: str) -> list[tuple[int, str, int]]:
        """(id, language, characters) of the live documents whose language is known, and another
        than `main`.
        """
        sql = """SELECT id, language, characters FROM documents INDEXED BY documents_overview JOIN contents ON document_id = id
            WHERE live AND language NOT IN ('', ?)"""  # noqa: E501
        return cast(list[tuple[int, str, int]], self._rows(sql, (main,)))

    def document(self, document_id: int) -> Document | None:
        """One document, live or not, with its text."""
        rows = self._rows(
            f"SELECT {_document_columns('text')} FROM documents WHERE id = ?", (document_id,)
        )
        if rows:
            return Document(*rows[0])
        return None

    def text_length(self, document_id: int) -> int:
        """Characters of a document's text."""
        return int(
            self._rows("SELECT length(text) FROM documents WHERE id = ?", (document_id,))[0][0]
        )

    def document_card(self, document_id: int) -> Document:
        """One document, live or not, without its text. Raises DamagedError when the row is gone."""
        rows = self._rows(
            f"""SELECT {_document_columns("''")} FROM documents WHERE id = ?""", (document_id,)
        )
        if not rows:
            raise damaged(self.path, f"document {document_id} is missing")
        return Document(*rows[0])

    def documents_at(self, path: str) -> list[int]:
        """Ids of the live documents with that path, of whatever source."""
        return [
            row[0]
            for row in self._rows(
                "SELECT id FROM documents WHERE live AND path = ? ORDER BY id", (path,)
            )
        ]

    def have_same_text(self, one: int, other: int) -> bool:
        """Whether two documents have the same text."""
        sql = """SELECT 1 FROM documents first, documents second
            WHERE first.id = ? AND second.id = ? AND first.text = second.text"""
        return bool(self._rows(sql, (one, other)))

    def titled_paths(self) -> list[tuple[int, str, str]]:
        """(id, title, path) of the live documents, by id; the path is empty for an entry of a
        data set, which is no file.
        """
        sql = """SELECT id, title, CASE WHEN external_id IS NULL THEN path ELSE '' END FROM documents
            WHERE live ORDER BY id"""  # noqa: E501
        return cast(list[tuple[int, str, str]], self._rows(sql))

    def titles(self) -> dict[int, str]:
        """Live documents: id → title."""
        return dict(self._rows("SELECT id, title FROM documents WHERE live"))
