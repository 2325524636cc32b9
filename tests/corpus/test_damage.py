"""What is damaged about a file is told in plain words, whatever library finds it."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from fixtures import office

from engine.corpus.damage import damaged
from engine.corpus.formats import FORMATS, ending_of
from engine.corpus.opening import everything_in
from engine.corpus.readers import UnreadableFileError

CUT = "damaged: it is cut: its end, or a part of it, is missing"
PDF = office.pdf("The pelican boards at dawn.")


def reason_of(tmp_path: Path, name: str, content: bytes) -> tuple[str, str]:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableFileError) as raised:
        list(everything_in(tmp_path / name, FORMATS[ending_of(name)]))
    return raised.value.kind, raised.value.why


def without(source: bytes, part: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(source)) as archive:
        return office.zipped({name: archive.read(name) for name in archive.namelist() if name != part})


def halved(source: bytes, part: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(source)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    return office.zipped({**parts, part: parts[part][: len(parts[part]) // 2]})


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.pdf", PDF[:300], "damaged: its structure is not that of a PDF that can be read"),
        ("a.docx", office.docx()[:-200], CUT),
        ("a.docx", without(office.docx(), "word/document.xml"), "damaged: a part of it is missing (word/document.xml)"),
        ("a.xlsx", without(office.xlsx(), "_rels/.rels"), "damaged: a part of it is missing (_rels/.rels)"),
        ("a.odp", halved(office.odp(), "content.xml"), "damaged: a part of it is not sound XML (content.xml)"),
        ("a.epub", halved(office.epub(), "META-INF/container.xml"), f"{CUT} (container.xml)"),
        ("a.doc", office.doc()[:2048], "damaged: its list of parts does not fit what is in it"),
    ],
)
def test_a_damaged_file_says_what_is_damaged(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    assert reason_of(tmp_path, name, content) == ("damaged", reason)


def test_a_pdf_under_rights_management_is_locked(tmp_path: Path) -> None:
    content = office.pdf("The pelican.", trailer=b"/Encrypt<</Filter/MicrosoftIRMServices/V 1>>")
    why = "locked in a way that no password opens here, as by rights management"
    assert reason_of(tmp_path, "a.pdf", content) == ("encrypted", why)


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ("Error -3 while decompressing data: invalid code lengths set", "damaged: its compressed content cannot be unpacked"),
        ("Bad CRC-32 for file 'a.txt'", "damaged: some of it was changed: a checksum does not fit"),
        ("Malformed FAT (FAT has 128 entries, but file has only 52 sectors)", CUT),
        ("[Errno 5] Input/output error", "damaged: [Errno 5] Input/output error"),
        ("", "damaged: its content does not fit its format"),
    ],
)  # fmt: skip
def test_what_libraries_tell_is_put_in_plain_words(told: str, reason: str) -> None:
    assert damaged(told) == reason
