"""Notes exported from Evernote (.enex): each is a document, and so is each file attached to it."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from mimetypes import guess_extension
from pathlib import Path
from typing import Any

from engine.core.characters import clean_line
from engine.core.records import ReadDocument
from engine.corpus.formats import Finding, Member, UnreadableFileError, read_bytes
from engine.corpus.formats.damage import describe_damage
from engine.corpus.formats.html import render_text
from engine.corpus.formats.xml_parts import parse_xml
from engine.corpus.text.metadata import parse_iso_date, parse_tags

_MAX_TITLE_LENGTH = 300  # characters


class EvernoteReader:
    """A reader of .enex files; notes are named by their titles."""

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Finding]:
        """Read a file; see `Reader.read`."""
        root = parse_xml(read_bytes(path, data), recover=True)
        if root.tag == "none":
            raise UnreadableFileError(
                path,
                describe_damage("invalid XML"),
                "damaged",
            )
        is_empty = True
        for number, note in enumerate(root.iter("note"), 1):
            title = clean_line(note.findtext("title") or "")[:_MAX_TITLE_LENGTH]
            name = title.replace("/", "-") or f"note {number}"
            text = render_text(note.findtext("content") or "")
            if text:
                is_empty = False
                yield ReadDocument(
                    title or name,
                    "\n\n".join(filter(None, (title, text))),
                    member=name,
                    format="enex",
                    author=clean_line(note.findtext("note-attributes/author") or ""),
                    tags=parse_tags([tag.text or "" for tag in note.iterfind("tag")]),
                    created=parse_iso_date(note.findtext("created")),
                    changed=parse_iso_date(note.findtext("updated")),
                )
            for resource in note.iterfind("resource"):
                attached = _read_resource(resource)
                if attached is not None:
                    is_empty = False
                    yield Member(f"{name}/{attached.path}", attached.data)
        if is_empty:
            raise UnreadableFileError(path, "it holds no text", "empty")


READER = EvernoteReader()


def _read_resource(resource: Any) -> Member | None:
    """Return the file in a resource, None for a picture without a name, as within a text."""
    name = clean_line(resource.findtext("resource-attributes/file-name") or "")
    if not name:
        media_type = resource.findtext("mime") or ""
        if media_type.startswith("image/"):
            return None
        name = f"attachment{guess_extension(media_type) or ''}"
    try:
        return Member(name, b64decode(resource.findtext("data") or ""))
    except ValueError:
        return Member(name, b"")
