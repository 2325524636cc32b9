"""What is damaged about a file is reported in plain words, whatever library finds it."""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path

import pytest
from fixtures import office

from engine.corpus.formats import LeftOut, UnreadableFileError
from engine.corpus.formats.damage import describe_damage
from engine.corpus.formats.opening import read_everything
from engine.corpus.scan.formats import FORMATS, ending_of

CUT = "damaged: it ends before it should"
PACKED = "damaged: its compressed content cannot be unpacked"
NO_XML = "damaged: a part of it is not sound XML"
PDF = office.pdf("The pelican boards at dawn.")


def reason_of(
    tmp_path: Path,
    name: str,
    content: bytes,
) -> tuple[str, str]:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableFileError) as raised:
        list(read_everything(tmp_path / name, FORMATS[ending_of(name)]))
    return raised.value.kind, raised.value.why


def without(source: bytes, part: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(source)) as archive:
        return office.zipped(
            {name: archive.read(name) for name in archive.namelist() if name != part}
        )


def halved(source: bytes, part: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(source)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    return office.zipped({**parts, part: parts[part][: len(parts[part]) // 2]})


def emptied(source: bytes, part: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(source)) as archive:
        return office.zipped(
            {name: b"x" if name == part else archive.read(name) for name in archive.namelist()}
        )


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.pdf", PDF[:300], "damaged: it ends before it should, and what is there holds no text"),
        ("a.pdf", PDF[:20], "damaged: it is not a readable PDF"),
        ("a.docx", office.docx()[:-200], CUT),
        (
            "a.docx",
            without(office.docx(), "word/document.xml"),
            "damaged: a part of it is missing (word/document.xml)",
        ),
        (
            "a.xlsx",
            without(office.xlsx(), "xl/workbook.xml"),
            "damaged: a part of it is missing (xl/workbook.xml)",
        ),
        ("a.odp", halved(office.odp(), "content.xml"), f"{NO_XML} (content.xml)"),
        ("a.odp", emptied(office.odp(), "content.xml"), f"{NO_XML} (content.xml)"),
        ("a.epub", halved(office.epub(), "META-INF/container.xml"), f"{NO_XML} (container.xml)"),
        ("a.doc", office.doc()[:2048], CUT),
    ],
)
def test_a_damaged_file_has_a_reason_in_plain_words(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    assert reason_of(tmp_path, name, content) == ("damaged", reason)


def test_what_is_damaged_is_not_reported_by_the_names_of_members(tmp_path: Path) -> None:
    for name in ("methods.txt", "crc-beyond.txt", "expected.txt"):
        content = office.zipped({name: "The pelican.", "b.txt": "The heron."})
        (tmp_path / "a.zip").write_bytes(content.replace(name.encode(), b"x" * len(name), 1))
        left, _ = read_everything(tmp_path / "a.zip", "zip")
        assert isinstance(left, LeftOut)
        assert (left.member, left.kind) == (name, "damaged")
        assert left.reason.startswith("damaged: File name in directory")


def test_a_pdf_under_rights_management_is_locked(tmp_path: Path) -> None:
    content = office.pdf("The pelican.", trailer=b"/Encrypt<</Filter/MicrosoftIRMServices/V 1>>")
    why = "locked in a way that no password opens here, as by rights management"
    assert reason_of(tmp_path, "a.pdf", content) == ("encrypted", why)


@pytest.mark.parametrize(
    ("reported", "reason"),
    [
        (zlib.error("Error -3 while decompressing data: invalid code lengths set"), PACKED),
        ("Failed to parse XLSX: Xml error: I/O error: incomplete deflate stream", PACKED),
        ("Bad CRC-32 for file 'a.txt'", "damaged: some of it was changed: a checksum does not fit"),
        ("Malformed FAT (FAT has 128 entries, but file has only 52 sectors)", CUT),
        ("Failed to parse XLS: Cfb error: Sector 21 points past end of file", CUT),
        (
            "File name in directory 'missing method.txt' and header b'CRC' differ.",
            "damaged: File name in directory 'missing method.txt' and header b'CRC' differ",
        ),
        ("Failed to parse content.xml: unexpected end of stream", f"{NO_XML} (content.xml)"),
        (
            (
                "Xml error: entity or character reference not closed: `;` not found before end of"
                " input"
            ),
            NO_XML,
        ),
        (SyntaxError("Start tag expected, '<' not found, line 1, column 1"), NO_XML),
        (
            UnicodeDecodeError("utf-8", b"\xe9", 0, 1, "unexpected end of data"),
            "damaged: some of its text is not in the encoding that it should be in",
        ),
        ("Failed to open stream '/1Table': No such stream", "damaged: a part of it is missing"),
        ("[Errno 5] Input/output error", "damaged: [Errno 5] Input/output error"),
        ("", "damaged: its content does not fit its format"),
    ],
)
def test_what_libraries_say_is_put_in_plain_words(reported: object, reason: str) -> None:
    assert describe_damage(reported) == reason


def test_a_long_message_is_looked_at_no_longer_than_a_short_one() -> None:
    """A run of letters that may begin a name is gone through again from each of them."""
    assert (
        describe_damage("Failed to parse: " + "a" * 10_000_000)
        == "damaged: Failed to parse: " + "a" * 183
    )
