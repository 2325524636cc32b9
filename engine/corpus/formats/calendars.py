"""Calendars (iCalendar, RFC 5545) and address books (vCard, RFC 6350), a line for each property."""

from __future__ import annotations

import quopri
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engine.core.characters import clean
from engine.core.records import ReadDocument
from engine.corpus.formats import UnreadableFileError, read_bytes
from engine.corpus.formats.html import render_text, show_markup
from engine.corpus.formats.plain import DecodedText, decode, decode_as
from engine.corpus.scan.formats import FORMATS, ending_of
from engine.corpus.text.metadata import title_from_name

MEDIA_TYPES = {
    "text/calendar": ".ics",
    "application/ics": ".ics",
    "text/vcard": ".vcf",
    "text/x-vcard": ".vcf",
    "text/directory": ".vcf",
}
"""Media types of calendars and address books in mails, and the endings of files of these types."""
# The line end and the blank at which a long line is folded (RFC 5545, 3.1).
_FOLD = re.compile(rb"\r?\n[ \t]")
# `item1.TEL;TYPE=work:+49 421 12` without the group: name, parameters and value.
_PROPERTY = re.compile(r'(?:[\w-]+\.)?([\w-]+)((?:;(?:[^":;]|"[^"]*")*)*):(.*)')
_COMMON_NAME = re.compile(r';CN=(?:"([^"]*)"|([^;]*))', re.IGNORECASE)
_CHARSET = re.compile(r";CHARSET=\"?([\w-]+)", re.IGNORECASE)
_QUOTED_PRINTABLE = re.compile(r";(?:ENCODING=)?QUOTED-PRINTABLE", re.IGNORECASE)
# `20310517`, `20310517T080000Z` or `2031-05-17`.
_MOMENT = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)(?:T(\d\d):?(\d\d)(?::?\d\d)?(Z?))?")
_ESCAPED = re.compile(r"\\([\\,;:nN])")
# A semicolon that is not escaped.
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
    "X-ALT-DESC": "Description",
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
"""The properties that are read, and their names in the text.

The others are pictures, keys and marks for programs.
"""
# Properties with several parts, with a day or time, and with a name for the whole entry.
_WITH_PARTS = ("N", "ADR", "ORG")
_MOMENTS = ("DTSTART", "DTEND", "DUE", "BDAY")
_TITLES = ("SUMMARY", "FN", "N")
# A property, and one that says the same: the parts of a name, and a description in HTML.
_PAGE = "X-ALT-DESC"
_SAME = (("FN", "N"), ("DESCRIPTION", _PAGE))
# Properties that some calendars write in HTML.
_TEXTS = ("SUMMARY", "DESCRIPTION", "COMMENT", "NOTE")
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
        title = ""
        if len(entries) == 1:
            title = _find_title(entries[0])
        yield ReadDocument(
            title or title_from_name(path),
            text,
            format=FORMATS.get(ending_of(path.name), "ics"),
            note=note,
        )


READER = CalendarReader()


def render_entries(
    data: bytes,
    label: str,
    path: Path,
) -> DecodedText:
    """Return the text of an appointment or a card in a mail.

    `data` is the part of the mail, and `label` the encoding that the mail declares for it. If the
    part holds no entry, its text is returned unchanged. Raises UnreadableFileError if it is not
    text.
    """
    decoded = decode_as(
        _unfold(data),
        label,
        path,
    )
    text = _format_entries(_read_entries(decoded.text))
    if not text:
        return decoded
    return decoded._replace(text=text)


def _unfold(source: bytes) -> bytes:
    """Join the lines into which a long line was folded.

    This works on bytes, since a fold may split a character. UTF-16 is returned unchanged.
    """
    if b"\0" in source:
        return source
    return _FOLD.sub(b"", source)


def _read_entries(source: str) -> Iterator[list[_Property]]:
    """Yield the properties of each entry: an event, a task, a note of a journal or a card."""
    entry: list[_Property] = []
    # The component that is left out around the current line.
    ignored = ""
    lines = iter(source.split("\n"))
    for line in lines:
        match = _PROPERTY.match(line)
        if match is None:
            continue
        name, parameters, value = match.groups()
        name = name.upper()
        component = value.strip().upper()
        if name == "BEGIN" and component in _LEFT_OUT:
            ignored = component
        elif name == "END" and component == ignored:
            ignored = ""
        elif name in ("BEGIN", "END"):
            # Components may be nested, so that an entry may end where another begins.
            if entry:
                yield _drop_repetitions(entry)
            entry = []
        elif not ignored and name in _LABELS:
            if _QUOTED_PRINTABLE.search(parameters):
                value = _decode_quoted_printable(value, parameters, lines)
            entry.append(_Property(name, parameters, value))
    if entry:
        yield _drop_repetitions(entry)


def _drop_repetitions(entry: list[_Property]) -> list[_Property]:
    """Return an entry without properties that say in another form what one of `_SAME` says."""
    names = {item.name for item in entry if item.value.replace("\\n", "").strip()}
    repeated = {other for name, other in _SAME if name in names}
    return [item for item in entry if item.name not in repeated]


def _decode_quoted_printable(
    value: str,
    parameters: str,
    following: Iterator[str],
) -> str:
    """Decode a quoted-printable value of vCard 2.1.

    While it ends in `=`, it goes on in the next of the `following` lines.
    """
    while value.endswith("="):
        value = value[:-1] + next(following, "")
    charset = _CHARSET.search(parameters)
    decoded = quopri.decodestring(value.encode())
    # Python may not know the encoding.
    with suppress(LookupError, UnicodeError):
        return clean(decoded.decode(charset[1] if charset else "utf-8"))
    with suppress(UnicodeError):
        return clean(decoded.decode("utf-8"))
    return clean(decoded.decode("cp1252", "replace"))


def _find_title(entry: list[_Property]) -> str:
    """Return the first line of an entry's subject or name, empty if it has none."""
    titles = (_format_value(item) for item in entry if item.name in _TITLES)
    return next(titles, "").partition("\n")[0]


def _format_entries(entries: Iterable[list[_Property]]) -> str:
    """Return entries as paragraphs, without those that hold nothing that is read."""
    return "\n\n".join(filter(None, map(_format_entry, entries)))


def _format_entry(entry: list[_Property]) -> str:
    """Return the properties that have a value as lines such as `Location: Room 2`, each once."""
    lines: dict[str, None] = {}
    for item in entry:
        text = _format_value(item)
        if text:
            lines[f"{_LABELS[item.name]}: {text}"] = None
    return "\n".join(lines)


def _format_value(item: _Property) -> str:
    """Return a value as people write it: `2031-05-17`, or `Ada Lindner <ada@example.org>`."""
    value = item.value.strip()
    if item.name in _MOMENTS:
        moment = _MOMENT.fullmatch(value)
        if moment:
            return _format_moment(moment)
    if item.name in _WITH_PARTS:
        parts = map(str.strip, _PART_END.split(value))
        value = ", ".join(filter(None, parts))
    text = _ESCAPED.sub(_unescape, _SCHEME.sub("", value)).strip()
    if item.name == _PAGE:
        return render_text(text)
    if item.name in _TEXTS:
        return show_markup(text)
    common_name = _COMMON_NAME.search(item.parameters)
    if common_name is None:
        return text
    person = (common_name[1] or common_name[2] or "").strip()
    return text if person in ("", text) else f"{person} <{text}>"


def _unescape(match: re.Match[str]) -> str:
    r"""Return the character of an escape: a line end for `\n`, else the one after the backslash."""
    return "\n" if match[1] in "nN" else match[1]


def _format_moment(moment: re.Match[str]) -> str:
    """Return a day, and a time if it has one: `2031-05-17 08:00 UTC`."""
    year, month, day, hour, minute, zone = moment.groups()
    text = f"{year}-{month}-{day}"
    if hour:
        text += f" {hour}:{minute}"
    if zone:
        text += " UTC"
    return text
