"""What stands beside the text of Word documents and Excel sheets of before 2007, where kreuzberg does not look: notes, headers and
footers, comments, text boxes, and the words of charts.

[MS-DOC] 2.3 (the parts of a document, which follow its own text) and 2.5.4 (their lengths); [MS-XLS] 2.4.181 (objects), 2.4.329
(their texts), 2.4.136 and 2.4.124 (headers and footers), 2.4.254 (texts of a chart) and 2.4.148 (texts in cells, also in the copies
that a chart has); [MS-OGRAPH] (charts inside other documents: the same records, with others for their table).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from engine.corpus.compound import CompoundFile, compound_of
from engine.corpus.excel_binary import OF_CHART, records_of, text_of
from engine.corpus.margins import FIELD, in_sheet, without_fields
from engine.corpus.word_pieces import pieces_of

_OWN_LENGTH_AT = 0x4C  # of the document's own text, in the file's information block
_PARTS = {
    "footnotes": 0x50, "headers": 0x54, "macros": 0x58, "comments": 0x5C, "endnotes": 0x60, "boxes": 0x64,
    "boxes of headers": 0x68,
}  # fmt: skip
_ENDS = re.compile(r"[\r\n\x07\x0b\x0c]+")
_MAY_BE_RARE = re.compile(rb"[\xd8-\xdb].[\xdc-\xdf]", re.DOTALL)
_RARE = re.compile(r"[\U00010000-\U0010ffff]")  # kreuzberg leaves out what takes more than two bytes
_NUMBER = re.compile(r"\x13[^\x13-\x15]*\x14\s*(?:\d+\s*)?\x15")  # a field that shows one, such as that of a page
_UNSEEN = re.compile(r"[\x00-\x08\x0e-\x1f]")

_BEGIN, _END, _CONTINUED = 0x0809, 0x0A, 0x3C
_OBJECT, _TEXT, _HEADER, _FOOTER, _OF_CHART, _LABEL, _OF_TABLE = 0x5D, 0x01B6, 0x14, 0x15, 0x100D, 0x0204, 0x04
_KINDS = frozenset({
    _BEGIN, _END, _CONTINUED, _OBJECT, _TEXT, _HEADER, _FOOTER, _OF_CHART, _LABEL, _LABEL | OF_CHART, _OF_TABLE,
})  # fmt: skip
_COMMENT, _CHART = 0x19, 0x20
_EXCEL_97 = b"\x06"
_WIDE = 0x01


def beside(format: str, content: bytes) -> Iterator[tuple[str, str]]:
    """(part, line) of all that stands beside the text of a `doc` or `xls` file; of a damaged one, what comes before the damage."""
    try:
        compound = compound_of(content)
        yield from _of_document(compound) if format == "doc" else _Sheets().lines(compound.read("Workbook"))
    except (ValueError, OverflowError, struct.error, IndexError):
        return


def _of_document(compound: CompoundFile) -> Iterator[tuple[str, str]]:
    word = compound.read("WordDocument")
    lengths = {part: struct.unpack_from("<I", word, at)[0] for part, at in _PARTS.items()}
    first: int = struct.unpack_from("<I", word, _OWN_LENGTH_AT)[0]
    rare = _MAY_BE_RARE.search(word) is not None
    if first + sum(lengths.values()) > len(word) or not (rare or any(lengths.values())):
        return
    pieces = pieces_of(compound, word)
    for line in _ENDS.split(pieces.text(word, 0, first)) if rare else ():
        if _RARE.search(line):
            yield "text", _UNSEEN.sub("", line)
    for part, length in lengths.items():
        shown = _NUMBER.sub(FIELD, pieces.text(word, first, first + length))
        first += length
        for line in _ENDS.split(shown):
            for said in without_fields(_UNSEEN.sub("", line)):
                yield part, said


class _Sheets:
    """Walks through the records of a workbook, and knows what was begun: a part of it, and the text of an object."""

    def __init__(self) -> None:
        self._parts: list[int] = []
        self._object = 0
        self._wanted = 0  # characters
        self._text = ""

    def lines(self, stream: bytes) -> Iterator[tuple[str, str]]:
        """(part, line) of what stands beside the cells of a workbook of Excel 97 or later."""
        for at, size, kind in records_of(stream if stream[5:6] == _EXCEL_97 else b"", _KINDS):
            data = stream[at : at + size]
            if kind in (_OBJECT, _TEXT, _CONTINUED):
                yield from self._of_object(kind, data)
            elif kind in (_HEADER, _FOOTER) and len(data) > 3:
                yield from (("headers", line) for line in in_sheet(text_of(data, wide=True, long=True)))
            else:
                yield from (("charts", line) for line in self._of_chart(kind, data))

    def _of_object(self, kind: int, data: bytes) -> Iterator[tuple[str, str]]:
        if kind == _OBJECT:
            self._object = struct.unpack_from("<H", data, 4)[0]
        elif kind == _TEXT:
            self._wanted, self._text = struct.unpack_from("<H", data, 10)[0], ""
        elif self._wanted and data:
            more = data[1:].decode("utf-16-le" if data[0] & _WIDE else "latin-1", "replace")[: self._wanted]
            self._wanted, self._text = self._wanted - len(more), self._text + more
            if not self._wanted:
                part = "comments" if self._object == _COMMENT else "boxes"
                yield from ((part, line) for line in self._text.split("\n"))

    def _of_chart(self, kind: int, data: bytes) -> Iterator[str]:
        if kind == _BEGIN:
            self._parts.append(struct.unpack_from("<H", data, 2)[0])
        elif kind == _END:
            self._parts[-1:] = []
        elif kind == _OF_CHART:
            yield text_of(data[2:], wide=True, long=False)
        elif kind == _OF_TABLE:
            yield text_of(data[7:], wide=True, long=False)
        elif kind == _LABEL | OF_CHART or (kind == _LABEL and self._parts[-1:] == [_CHART]):
            yield text_of(data[6:], wide=True, long=True)
