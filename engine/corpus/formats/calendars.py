"""Calendars (iCalendar, RFC 5545) and address books (vCard, RFC 6350), a line for each property."""

from __future__ import annotations

import quopri
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.core.characters import clean
from engine.core.records import ReadDocument
from engine.corpus.formats import UnreadableFileError, read_bytes
from engine.corpus.formats.plain import decode, decode_as
from engine.corpus.scan.formats import FORMATS, ending_of
from engine.corpus.text.metadata import title_from_name

MEDIA_TYPES = {
    "text/calendar": ".ics",
    "application/ics": ".ics",
    "text/vcard": ".vcf",
    "text/x-vcard": ".vcf",
    "text/directory": ".vcf",
}
"""The kinds of such parts of a mail, and the endings of files of these kinds."""
_FOLD = re.compile(rb"\r?\n[ \t]")
_PROPERTY = re.compile(r'(?:[\w-]+\.)?([\w-]+)((?:;(?:[^":;]|"[^"]*")*)*):(.*)')
_COMMON_NAME = re.compile(r';CN=(?:"([^"]*)"|([^;]*))', re.IGNORECASE)
_CHARSET = re.compile(r";CHARSET=\"?([\w-]+)", re.IGNORECASE)
_QUOTED_PRINTABLE = re.compile(r";(?:ENCODING=)?QUOTED-PRINTABLE", re.IGNORECASE)
_MOMENT = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)(?:T(\d\d):?(\d\d)(?::?\d\d)?(Z?))?")
_ESCAPED = re.compile(r"\\([\\,;:nN])")
_PART_END = re.compile(r"(?<!\\);")
_SCHEME = re.compile(r"\A(?:mailto|tel):", re.IGNORECASE)
_LABELS = {
    "SUMMARY": "Summary",
    "DTSTART": "Start",
    "DTEND": "End",
    "DUE": "Due",
    "LOCATION": "Location",
    "ORGANIZER": "Organizer",
    "ATTENDEE": "Attendee",
    "CONTACT": "Contact",
    "CATEGORIES": "Categories",
    "DESCRIPTION": "Description",
    "COMMENT": "Comment",
    "URL": "URL",
    "N": "Name",
    "FN": "Name",
    "NICKNAME": "Nickname",
    "ORG": "Organization",
    "TITLE": "Title",
    "ROLE": "Role",
    "TEL": "Telephone",
    "EMAIL": "Email",
    "ADR": "Address",
    "BDAY": "Birthday",
    "NOTE": "Note",
}
"""What is read of an entry. Other properties are pictures, keys and marks for programs."""
_OF_PARTS = ("N", "ADR", "ORG")
_MOMENTS = ("DTSTART", "DTEND", "DUE", "BDAY")
_TITLES = ("SUMMARY", "FN", "N")
# Rules of time zones, and alarms that repeat a text.
_LEFT_OUT = ("VTIMEZONE", "VALARM")


@dataclass(frozen=True, slots=True)
class _Property:
    """A property of an entry, such as `LOCATION;LANGUAGE=en:Room 2`."""

    name: str
    parameters: str
    value: str


class CalendarReader:
    """A reader of .ics and .vcf files, in which every entry is a paragraph.

    The title is that of the only entry, else the file's name.
    """

    def read(self, path: Path, data: bytes | None = None) -> Iterator[ReadDocument]:
        """Read a file; see `Reader.read`."""
        source, note = decode(_unfold(read_bytes(path, data)), path)
        entries = list(_read_entries(source))
        text = _format_entries(entries)
        if not text:
            raise UnreadableFileError(path, "it holds no text", "empty")
        title = _find_title(entries[0]) if len(entries) == 1 else ""
        yield ReadDocument(
            title or title_from_name(path),
            text,
            format=FORMATS.get(ending_of(path.name), "ics"),
            note=note,
        )


READER = CalendarReader()


def render_entries(data: bytes, label: str, path: Path) -> tuple[str, str]:
    """Return the text of an appointment in a mail, and a note on its encoding.

    `label` is the encoding that the mail declares. A part without an entry that is read stays as it
    is. Raises UnreadableFileError if it is no text.
    """
    source, note = decode_as(_unfold(data), label, path)
    return _format_entries(_read_entries(source)) or source, note


def _unfold(source: bytes) -> bytes:
    """Join the parts of long lines, which may end within a character."""
    return source if b"\0" in source else _FOLD.sub(b"", source)


def _read_entries(source: str) -> Iterator[list[_Property]]:
    """Yield the properties of each entry: an event, a task, a note of a journal or a card."""
    entry: list[_Property] = []
    ignored = ""
    lines = iter(source.split("\n"))
    for line in lines:
        match = _PROPERTY.match(line)
        if match is None:
            continue
        name = match[1].upper()
        component = match[3].strip().upper()
        if name == "BEGIN" and component in _LEFT_OUT:
            ignored = component
        elif name == "END" and component == ignored:
            ignored = ""
        elif name in ("BEGIN", "END"):
            if entry:
                yield _choose_name(entry)
            entry = []
        elif not ignored and name in _LABELS:
            value = match[3]
            if _QUOTED_PRINTABLE.search(match[2]):
                value = _decode_quoted_printable(value, match[2], lines)
            entry.append(_Property(name, match[2], value))
    if entry:
        yield _choose_name(entry)


def _choose_name(entry: list[_Property]) -> list[_Property]:
    """Return an entry without the parts of a name that it also states as a whole."""
    if any(item.name == "FN" for item in entry):
        return [item for item in entry if item.name != "N"]
    return entry


def _decode_quoted_printable(value: str, parameters: str, following: Iterator[str]) -> str:
    """Decode a value of vCard 2.1, which goes on in the `following` lines while it ends in `=`."""
    while value.endswith("="):
        value = value[:-1] + next(following, "")
    charset = _CHARSET.search(parameters)
    decoded = quopri.decodestring(value.encode())
    try:
        return clean(decoded.decode(charset[1] if charset else "utf-8", "replace"))
    except LookupError:
        return clean(decoded.decode("utf-8", "replace"))


def _find_title(entry: list[_Property]) -> str:
    titles = (_format_value(item) for item in entry if item.name in _TITLES)
    return next(titles, "").partition("\n")[0]


def _format_entries(entries: Iterable[list[_Property]]) -> str:
    return "\n\n".join(filter(None, map(_format_entry, entries)))


def _format_entry(entry: list[_Property]) -> str:
    lines: list[str] = []
    for item in entry:
        if text := _format_value(item):
            lines.append(f"{_LABELS[item.name]}: {text}")
    return "\n".join(dict.fromkeys(lines))


def _format_value(item: _Property) -> str:
    """Return a value as people write it: a day as 2031-05-17, an address with a person's name."""
    value = item.value.strip()
    if item.name in _MOMENTS and (moment := _MOMENT.fullmatch(value)):
        return _format_moment(moment)
    if item.name in _OF_PARTS:
        value = ", ".join(part.strip() for part in _PART_END.split(value) if part.strip())
    text = _ESCAPED.sub(_unescape, _SCHEME.sub("", value)).strip()
    name = _COMMON_NAME.search(item.parameters)
    if name is None:
        return text
    person = (name[1] or name[2] or "").strip()
    return text if person in ("", text) else f"{person} <{text}>"


def _unescape(match: re.Match[str]) -> str:
    return "\n" if match[1] in "nN" else match[1]


def _format_moment(moment: re.Match[str]) -> str:
    year, month, day, hour, minute, zone = moment.groups()
    text = f"{year}-{month}-{day}"
    if hour:
        text += f" {hour}:{minute}"
    if zone:
        text += " UTC"
    return text
