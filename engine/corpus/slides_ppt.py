"""PowerPoint presentations of before 2007 slide by slide: kreuzberg gives their texts without the slides, and hints of masters.

[MS-PPT] 2.4.14 (lists of slides), 2.5.1 (a slide); [MS-ODRAW] 2.2 (shapes). `records_ppt` has what these are made of.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from engine.corpus.compound import compound_of
from engine.corpus.records_ppt import OTHER, TITLES, PptText, Record, Records, places_in
from engine.corpus.structure import NOTES, rows_as_text

_DOCUMENT, _SLIDE, _SLIDE_ATOM, _NOTES, _PERSIST, _MAIN_MASTER = 0x03E8, 0x03EE, 0x03EF, 0x03F0, 0x03F3, 0x03F8
_LIST, _STRING = 0x0FF0, 0x0FBA
_SLIDES, _MASTERS, _NOTES_PAGES = range(3)  # what a list is of
_DRAWING, _DRAWN, _GROUP, _SHAPE, _KIND = 0x040C, 0xF002, 0xF003, 0xF004, 0xF00A
_DATA, _BOX, _CHILD_ANCHOR, _PLACEHOLDER = 0xF011, 0xF00D, 0xF00F, 0x0BC3
_PROPERTIES, _MORE_PROPERTIES = (0xF00B, 0xF121, 0xF122), 0x3FFF
_WORD_ART, _TABLE = 0x00C0, 0x039F
_REFERENCE = 0x0F9E
_MARGINS, _MARGIN_FLAGS = 0x0FD9, 0x0FDA
_IN_MARGINS = {0: 0x01 | 0x04, 1: 0x10, 2: 0x20}  # date, header, footer: the flags that say that it is shown
_OF_NOTES = 4
_COMMENT, _TO_COMMENTS = 0x2EE0, frozenset({0x1388, 0x138A, 0x138B})
_DELETED = 0x08
_SHOWS_MASTER = 0x01
_DUAL = "PP97_DUALSTORAGE/"  # beside what PowerPoint 95 reads
_STREAM, _USER = "PowerPoint Document", "Current User"
_MAX_CELLS = 10_000


@dataclass(frozen=True, slots=True)
class Slides:
    """The text of each slide by its number from 1, its title first, its notes and comments last; what stands beside them, on
    masters and in headers and footers, a line each. `whole`: nothing was amiss in what was read.
    """

    pages: dict[int, str]
    beside: tuple[str, ...]
    whole: bool


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a shape says, where it is in its group (top, left), and whether it is a hint of a master or takes its place."""

    texts: tuple[PptText, ...]
    place: tuple[int, int]
    holds_place: bool
    begins_table: bool


@dataclass(frozen=True, slots=True)
class _Listed:
    """A slide, master or page of notes in its list: by which number its container is found, its own, its texts."""

    persist: int
    number: int
    texts: list[PptText]


def slides_of(content: bytes) -> Slides | None:
    """The slides of a presentation, whose bytes are `content`, in their order; None where none is found."""
    try:
        user, records = _read(content, _USER, 20), Records(stream_of(content))
        places = places_in(records, struct.unpack_from("<I", user, 16)[0] if len(user) == 20 else 0)
        return _Deck(records, places).slides()
    except (ValueError, OverflowError, struct.error):
        return None


def stream_of(content: bytes) -> bytes:
    """The records of a presentation. Raises ValueError where it is no compound file."""
    return _read(content, _STREAM)


def _read(content: bytes, stream: str, most: int | None = None) -> bytes:
    compound = compound_of(content)
    return compound.read(f"{_DUAL if _DUAL + _STREAM in compound else ''}{stream}", most)


class _Deck:
    """A presentation's parts."""

    def __init__(self, records: Records, places: Mapping[int, int]) -> None:
        self._records = records
        self._places = places
        self._document = self._find_document()
        self._beside: dict[str, None] = {}

    def slides(self) -> Slides | None:
        """All slides; None where the document lists none."""
        listed = {kind: list(self._listed(kind)) for kind in (_SLIDES, _MASTERS, _NOTES_PAGES)}
        if not listed[_SLIDES]:
            return None
        masters = {master.number: master for master in listed[_MASTERS]}
        notes = {page.number: page for page in listed[_NOTES_PAGES]}
        pages: dict[int, str] = {}
        used: dict[int, None] = {}
        for number, slide in enumerate(listed[_SLIDES], 1):
            container = self._container(slide, _SLIDE)
            master, note = self._belongings(container)
            used.setdefault(master)
            pages[number] = self._page(slide, container, notes.pop(note, None))
        for number in used:
            if number in masters:
                self._add_master(masters[number])
        for page in notes.values():  # that no slide names
            said = self._said(self._container(page, _NOTES), page.texts)
            self._beside.update(dict.fromkeys(line for text in said for line in text.split("\n") if line))
        self._add_margins(self._document, without_notes=not listed[_NOTES_PAGES])
        return Slides(pages, tuple(self._beside), self._records.whole)

    def _find_document(self) -> Record:
        """The document's container: that of the last edit, which `_places` names first, else the last one of the stream."""
        records, end = self._records, len(self._records.data)
        every = Record(0, 0, 0, end)
        named = [place for place in self._places.values() if place + 8 <= end]
        for place in named:
            if (record := records.at(place, end)).kind == _DOCUMENT:
                return record
        found = [record for record in records.inside(every) if record.kind == _DOCUMENT]
        if not found:
            raise ValueError("a presentation without a document")
        return found[-1]

    def _listed(self, kind: int) -> Iterator[_Listed]:
        records = self._records
        for record in records.inside(self._document):
            if record.kind != _LIST or record.instance != kind:
                continue
            slide, inner = None, list[Record]()
            for part in records.inside(record):
                if part.kind != _PERSIST:
                    inner.append(part)
                    continue
                if slide is not None:
                    yield _Listed(*slide, records.texts(inner))
                (persist,), (number,) = records.numbers(part, "<I"), records.numbers(part, "<I", 12)
                slide, inner = (persist, number), []
            if slide is not None:
                yield _Listed(*slide, records.texts(inner))

    def _container(self, listed: _Listed, *kinds: int) -> Record | None:
        end = len(self._records.data)
        place = self._places.get(listed.persist, end)
        record = self._records.at(place, end) if place + 8 <= end else None
        if record is None or record.kind not in kinds:
            self._records.whole = False
            return None
        return record

    def _belongings(self, slide: Record | None) -> tuple[int, int]:
        """The numbers of a slide's master, 0 where it does not show it, and of its notes."""
        for record in () if slide is None else self._records.inside(slide):
            if record.kind == _SLIDE_ATOM:
                master, note, flags = self._records.numbers(record, "<IIH", 12)
                return master if flags & _SHOWS_MASTER else 0, note
        return 0, 0

    def _page(self, listed: _Listed, slide: Record | None, notes: _Listed | None) -> str:
        parts = self._said(slide, listed.texts)
        if slide is not None:
            self._add_margins(slide)
        container = None if notes is None else self._container(notes, _NOTES)
        said = self._said(container, [])
        return "\n\n".join([*parts, *([NOTES, *said] if said else []), *self._comments(slide)])

    def _said(self, container: Record | None, outline: list[PptText]) -> list[str]:
        """The paragraphs and tables of a slide, or of its notes; last those of its texts in the outline that no shape shows."""
        left = dict(enumerate(outline))
        titles: list[str] = []
        others: list[str] = []
        for shapes in () if container is None else self._shapes(container, outline, left):
            if len(shapes) > 1:
                others.append(_table(shapes))
            for text in shapes[0].texts if len(shapes) == 1 else ():
                (titles if text.kind in TITLES else others).append(text.paragraphs())
        for text in left.values():
            (titles if text.kind in TITLES else others).append(text.paragraphs())
        return list(filter(None, titles + others))

    def _shapes(self, container: Record, outline: list[PptText], left: dict[int, PptText]) -> Iterator[list[_Shape]]:
        """The shapes in a container's drawing, one by one, those of a table together; what they show of `outline` leaves `left`."""
        records = self._records
        table: list[_Shape] = []
        ends = 0
        for record in records.under(container, frozenset({_DRAWING, _DRAWN, _GROUP})):
            if record.kind == _GROUP and record.start >= ends:
                yield from filter(None, [table])
                table, ends = [], 0
                first = next((part for part in records.inside(record) if part.kind == _SHAPE), None)
                if first is not None and self._shape(first, [], {}).begins_table:
                    ends = record.end
            if record.kind == _SHAPE:
                shape = self._shape(record, outline, left)
                if record.start < ends:
                    table.append(shape)
                else:
                    yield [shape]
        yield from filter(None, [table])

    def _shape(self, shape: Record, outline: list[PptText], left: dict[int, PptText]) -> _Shape:
        records = self._records
        texts: list[PptText] = []
        top = along = 0
        deleted = holds_place = begins_table = False
        for record in records.inside(shape):
            if record.kind == _KIND:
                deleted = bool(records.numbers(record, "<I", 4)[0] & _DELETED)
            elif record.kind in _PROPERTIES:
                properties = _properties(records.read(record), record.instance)
                begins_table = begins_table or bool(int.from_bytes(properties.get(_TABLE, b"")[:4], "little") & 1)
                art = properties.get(_WORD_ART, b"")
                texts += [PptText(OTHER, bytearray(art))] if art else []
            elif record.kind == _CHILD_ANCHOR:
                along, top = records.numbers(record, "<ii")
            elif record.kind == _DATA:
                holds_place = holds_place or any(inner.kind == _PLACEHOLDER for inner in records.inside(record))
            elif record.kind == _BOX:
                texts += self._boxed(record, outline, left)
        return _Shape(() if deleted else tuple(texts), (top, along), holds_place, begins_table)

    def _boxed(self, box: Record, outline: list[PptText], left: dict[int, PptText]) -> list[PptText]:
        """The texts of a shape: its own, or that of the outline which it names."""
        records = self._records
        inner = list(records.inside(box))
        texts = records.texts(inner)
        for record in inner:
            if record.kind == _REFERENCE:
                (number,) = records.numbers(record, "<I")
                if number < len(outline):
                    records.spend(len(outline[number].units))
                    texts.append(outline[number])
                    left.pop(number, None)
        return texts

    def _comments(self, slide: Record | None) -> Iterator[str]:
        records = self._records
        for record in () if slide is None else records.under(slide, _TO_COMMENTS):
            if record.kind == _COMMENT:
                for part in records.inside(record):
                    if part.kind == _STRING and part.instance == 1:
                        yield from filter(None, [PptText(OTHER, bytearray(records.read(part))).paragraphs()])

    def _add_master(self, master: _Listed) -> None:
        """Keeps what stands on a master, but for its hints where to write."""
        container = self._container(master, _MAIN_MASTER, _SLIDE)
        for shapes in () if container is None else self._shapes(container, [], {}):
            for shape in shapes:
                for text in () if shape.holds_place else shape.texts:
                    self._add(text)

    def _add_margins(self, container: Record, *, without_notes: bool = True) -> None:
        """Keeps the headers, footers and dates that a slide, or all of them, show."""
        records = self._records
        for record in records.inside(container):
            if record.kind != _MARGINS or (record.instance == _OF_NOTES and without_notes):
                continue
            shown = 0
            for part in records.inside(record):
                if part.kind == _MARGIN_FLAGS:
                    (shown,) = records.numbers(part, "<H", 2)
                wanted = _IN_MARGINS.get(part.instance, 0)
                if part.kind == _STRING and wanted and shown & wanted == wanted:
                    self._add(PptText(OTHER, bytearray(records.read(part))))

    def _add(self, text: PptText) -> None:
        self._beside.update(dict.fromkeys(filter(None, text.paragraphs().split("\n"))))


def _properties(data: bytes, count: int) -> dict[int, bytes]:
    """The properties of a shape by their numbers; of those that are complex the bytes that stand behind them all."""
    count = min(count, len(data) // 6)
    at = 6 * count
    found: dict[int, bytes] = {}
    for place in range(0, 6 * count, 6):
        header, value = struct.unpack_from("<HI", data, place)
        if header & 0x8000:
            found[header & _MORE_PROPERTIES] = data[at : at + value]
            at += value
        else:
            found[header & _MORE_PROPERTIES] = value.to_bytes(4, "little")
    return found


def _table(cells: Iterable[_Shape]) -> str:
    """The cells of a table in rows, by where they stand."""
    rows: dict[int, dict[int, list[str]]] = {}
    for cell in cells:
        if cell.texts:
            top, along = cell.place
            said = rows.setdefault(top, {}).setdefault(along, [])
            said += (" ".join(text.paragraphs().split()) for text in cell.texts)
    columns = sorted({along for row in rows.values() for along in row})
    lines = [{along: " ".join(said) for along, said in rows[top].items()} for top in sorted(rows)]
    if len(lines) * len(columns) > _MAX_CELLS:
        return "\n".join(" | ".join(text for _, text in sorted(line.items())) for line in lines)
    return rows_as_text([[line.get(along, "") for along in columns] for line in lines])
