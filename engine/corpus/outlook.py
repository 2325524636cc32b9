"""Outlook's .msg files: the mail through kreuzberg, its attachments out of the compound file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from engine.corpus.compound import CompoundFile, compound_of
from engine.corpus.damage import damaged
from engine.corpus.office import author_of, extract, seconds, title_of
from engine.corpus.readers import Found, LeftOut, Member, ReadDocument, UnreadableFileError, clean, read_bytes
from engine.corpus.structure import Text

_ATTACHMENT = re.compile(r"(__attach_version1\.0_#[0-9A-Fa-f]{8}/)")
_NAMES = ("3707", "3704", "3001")  # the long file name, the short one, the name that is shown
_CONTENT = "__substg1.0_37010102"
_INNER_MAIL = "__substg1.0_3701000D/"


class OutlookReader:
    """Reads .msg files."""

    formats = frozenset({"msg"})

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Found]:
        """See `Reader.read`."""
        content = read_bytes(path, data)
        try:
            compound = compound_of(content)
        except (ValueError, OverflowError) as error:
            raise UnreadableFileError(path, damaged(error)) from error
        result = extract(path, content, "msg")
        text = Text(clean(result.content).strip())
        if not text.text:
            raise UnreadableFileError(path, "it holds no text", "empty")
        metadata = dict(result.metadata)
        metadata["title"] = metadata.get("subject") or metadata.get("title")
        yield ReadDocument(
            title_of(metadata, text, path), text.text, format="msg", author=author_of(metadata),
            created=seconds(metadata.get("created_at")),
        )  # fmt: skip
        yield from _attachments(compound)


READER = OutlookReader()


def _attachments(compound: CompoundFile) -> Iterator[Found]:
    names = compound.names()
    folders = sorted({found[1] for name in names if (found := _ATTACHMENT.match(name))})
    for number, folder in enumerate(folders, 1):
        name = _name(compound, folder) or f"attachment-{number}"
        content = compound.read(folder + _CONTENT)
        if content:
            yield Member(name, content)
        elif any(inner.startswith(folder + _INNER_MAIL) for inner in names):
            yield from _inner_mail(compound, folder + _INNER_MAIL, f"{name}.txt")
        else:
            yield LeftOut(name, "quarantined", "empty", "an attachment without content")


def _inner_mail(compound: CompoundFile, folder: str, name: str) -> Iterator[Found]:
    """A mail attached to a mail: subject and body; and its own attachments."""
    subject, sender, body = (_property(compound, folder, code) for code in ("0037", "0C1A", "1000"))
    head = [line for line in (subject and f"Subject: {subject}", sender and f"From: {sender}") if line]
    text = "\n\n".join(filter(None, ("\n".join(head), body.strip())))
    if text:
        yield ReadDocument(subject or name, text, format="msg", author=sender, member=name)
    else:
        yield LeftOut(name, "quarantined", "empty", "a mail without text")
    inner = sorted({folder + found[1] for item in compound.names() if item.startswith(folder)
                    and (found := _ATTACHMENT.match(item[len(folder) :]))})  # fmt: skip
    for number, below in enumerate(inner, 1):
        if content := compound.read(below + _CONTENT):
            yield Member(f"{name}/{_name(compound, below) or f'attachment-{number}'}", content)


def _property(compound: CompoundFile, folder: str, code: str) -> str:
    wide = compound.read(f"{folder}__substg1.0_{code}001F")
    text = wide.decode("utf-16-le", "replace") if wide else ""
    if not text:
        text = compound.read(f"{folder}__substg1.0_{code}001E").decode("cp1252", "replace")
    return clean(text.replace("\0", ""))


def _name(compound: CompoundFile, folder: str) -> str:
    return next((name for code in _NAMES if (name := " ".join(_property(compound, folder, code).split()))), "")
