"""The text of a mail: what a mail program shows of it.

If a mail has its body in several forms, such as plain text and HTML, one of them is chosen.
"""

from __future__ import annotations

import re
from email.message import Message
from pathlib import Path

from engine.corpus.formats import UnreadableFileError
from engine.corpus.formats.calendars import MEDIA_TYPES, render_entries
from engine.corpus.formats.html import decode_page, render_text
from engine.corpus.formats.mail.headers import FieldDecoder
from engine.corpus.formats.mail.parts import (
    MAILS,
    MAX_DEPTH,
    find_file_name,
    is_mime_field,
    read_payload,
)
from engine.corpus.formats.plain import decode_as

MAX_FIELD_LENGTH = 2000  # characters
# Kinds of text that have a reader of their own, and are files.
_READ_AS_FILES = ("text/csv", "text/rtf")
# The media type around a page and its parts.
_PAGE = "multipart/related"
# Parts of a saved web page that show no text and are not attachments either.
_PAGE_RESOURCES = (
    "text/css",
    "text/javascript",
    "application/javascript",
    "application/x-javascript",
    "text/x-amp-html",
)
# A picture of fewer bytes in an HTML body is taken for a logo, a line or an emoji.
_MIN_PICTURE = 16 * 1024
_SIGNATURE_LINE = "-- "
# Share of the words of one form of a body that another form may lack.
_MAX_NEW_WORDS = 0.2
# A word; of Chinese, Japanese and Korean, which have no blanks, each letter counts as one.
_WORDS = re.compile("[^\\W\u3040-\u9fff\uac00-\ud7a3]+|[\u3040-\u9fff\uac00-\ud7a3]")


class MailBody:
    """Reads the text that a mail shows.

    `part_ids` holds the `id()` of each part that is in the text or shows nothing; all other parts
    are attachments. `notes` say, for the ledger, what was guessed of encodings.
    """

    def __init__(self, path: Path, fields: FieldDecoder) -> None:
        self._path = path
        self._fields = fields
        self.part_ids: set[int] = set()
        self.notes: list[str] = []

    def read(
        self,
        part: Message,
        within: str = "",
        depth: int = 0,
    ) -> str:
        """Return the text that a part shows with all parts in it, empty for attachments.

        `within` is the media type of the part around it, and `depth` how many parts are around it.
        """
        kind = part.get_content_type()
        content = part.get_payload()
        is_decoration = within == _PAGE and _is_decoration(part)
        if depth and not is_decoration and _is_attached(part):
            return ""
        if isinstance(content, list) and kind not in MAILS and depth <= MAX_DEPTH:
            inner = [item for item in content if isinstance(item, Message)]
            texts = [self.read(item, kind, depth + 1) for item in inner]
            if kind == "multipart/alternative":
                texts = _choose_forms(inner, texts)
            return "\n\n".join(filter(None, texts))
        # Word saves lists of a page's files as XML; that of a mail without a place is its content.
        is_list = kind == "text/xml" and within == _PAGE and "Content-Location" in part
        if kind in _PAGE_RESOURCES or is_list or is_decoration:
            self.part_ids.add(id(part))
            return ""
        if kind.startswith(("text/", "multipart/")) and kind not in _READ_AS_FILES:
            return self._read_leaf(part, kind, within)
        return ""

    def _read_leaf(
        self,
        part: Message,
        kind: str,
        within: str,
    ) -> str:
        """Return the text of a part without parts in it, empty if it is not text."""
        # In all other parts, the fields only say how the mail was delivered.
        fields = ""
        if within.startswith("message/"):
            fields = self._read_content_fields(part)
        charset = part.get_content_charset() or ""
        try:
            text, note = _decode_part(
                read_payload(part),
                kind,
                charset,
                self._path,
            )
            text = _unwrap_lines(part, text)
        except UnreadableFileError as error:
            if error.kind == "empty":
                self.part_ids.add(id(part))
            return fields
        self.part_ids.add(id(part))
        if note:
            self.notes.append(note)
        return text.strip() or fields

    def _read_content_fields(self, part: Message) -> str:
        """Return the header fields of a part as lines `name: value`.

        In a report that a mail did not arrive, they are the content of a part.
        """
        lines: list[str] = []
        for name, value in part.raw_items():
            if is_mime_field(name):
                continue
            if text := self._fields.decode(str(value)):
                lines.append(f"{name}: {text[:MAX_FIELD_LENGTH]}")
        return "\n".join(lines)


def _choose_forms(parts: list[Message], texts: list[str]) -> list[str]:
    """Return the `texts` to keep of the forms of one body, which are its `parts`.

    The plain text is kept alone if it says as much as the HTML page, the page alone if it says as
    much as the plain text, else both. Other forms, such as an appointment, are always kept.
    """
    plain: list[int] = []
    pages: list[int] = []
    for index, part in enumerate(parts):
        kind = part.get_content_type()
        if kind == "text/plain":
            plain.append(index)
        elif kind.startswith(("text/html", "multipart/")):
            pages.append(index)
    for chosen, other in ((plain, pages), (pages, plain)):
        chosen_text = "\n".join(texts[index] for index in chosen)
        other_text = "\n".join(texts[index] for index in other)
        if _find_words(chosen_text) and not says_more(other_text, chosen_text):
            return [text for index, text in enumerate(texts) if index not in other]
    return texts


def says_more(text: str, other: str) -> bool:
    """Return whether a form of a body has more than a few words that the `other` form lacks."""
    words = _find_words(text)
    return len(words - _find_words(other)) > _MAX_NEW_WORDS * len(words)


def _find_words(text: str) -> set[str]:
    """Return the different words of a text."""
    return set(_WORDS.findall(text))


def _is_attached(part: Message) -> bool:
    """Return whether a part is an attachment: declared as one, or with a file name."""
    return part.get_content_disposition() == "attachment" or find_file_name(part) != ""


def _is_decoration(part: Message) -> bool:
    """Return whether a part of an HTML body is a picture without a name or too small for words."""
    if not part.get_content_type().startswith("image/"):
        return False
    if part.get_content_disposition() == "attachment":
        return False
    return not find_file_name(part) or len(read_payload(part)) < _MIN_PICTURE


def _decode_part(
    data: bytes,
    kind: str,
    charset: str,
    path: Path,
) -> tuple[str, str]:
    """Return the text of a part of the media type `kind`, and a note on its encoding.

    `charset` is the one that the part declares, empty if none. Raises UnreadableFileError if it is
    not text.
    """
    if kind in MEDIA_TYPES:
        return render_entries(
            data,
            charset or "ascii",
            path,
        )
    if kind != "text/html":
        return decode_as(
            data,
            charset or "ascii",
            path,
        )
    if charset:
        source, note = decode_as(data, charset, path)
    else:
        source, note = decode_page(data, path)
    return render_text(source), note


def _unwrap_lines(part: Message, text: str) -> str:
    """Return the text of a part without line ends that a mail program put into words (RFC 3676).

    The parameter `delsp=yes` declares such line ends, and that a blank was put before each of them.
    Without it, lines end between words, and the text is returned unchanged.
    """
    is_flowed = str(part.get_param("format")).lower() == "flowed"
    if is_flowed and str(part.get_param("delsp")).lower() == "yes":
        return _join_flowed_lines(text)
    return text


def _join_flowed_lines(text: str) -> str:
    """Join each line that ends in a blank with the next one, without that blank.

    Empty lines, quoted lines and the line `-- ` above a signature stay as they are.
    """
    pieces: list[str] = []
    goes_on = False
    for raw_line in text.split("\n"):
        line = raw_line.removesuffix("\r")
        is_fixed = line.isspace() or line.startswith(">") or line == _SIGNATURE_LINE
        if goes_on and line and not is_fixed:
            pieces[-1] = pieces[-1].removesuffix(" ")
            # A blank at the start of a line was put in to protect the line.
            pieces.append(line.removeprefix(" "))
        else:
            if pieces:
                pieces.append("\n")
            pieces.append(line)
        goes_on = line.endswith(" ") and not is_fixed
    return "".join(pieces)
