"""Locked office files: which passwords open them, and what is said where none does."""

from __future__ import annotations

import zipfile
from base64 import b64decode
from io import BytesIO
from pathlib import Path

import pytest
from fixtures import office
from fixtures.errors import unreadable
from fixtures.locked import no_passwords_stay, read  # noqa: F401
from fixtures.shown_numbers import numbers

from engine.core.records import ReadDocument
from engine.corpus.formats import LeftOut, locked
from engine.corpus.formats.locked import NO_PASSWORD, NONE_FITS, unlock
from engine.corpus.formats.opening import read_everything

OLD = Path(__file__).resolve().parents[4] / "shared" / "data" / "office" / "msoffcrypto" / "inputs"


def locked_with(content: bytes, password: str) -> bytes:
    """An office file as Office 2010 and later lock it; made longer, as msoffcrypto locks no file
    below 4 KB rightly.
    """
    from msoffcrypto.format.ooxml import OOXMLFile

    longer = BytesIO(content)
    file = BytesIO()
    with zipfile.ZipFile(longer, "a") as archive:
        archive.writestr("padding.bin", bytes(8192))
    OOXMLFile(longer).encrypt(password, file)
    return file.getvalue()


def test_a_locked_file_opens_in_the_reading_process_with_one_of_the_passwords(
    tmp_path: Path,
) -> None:
    (tmp_path / "plan.docx").write_bytes(locked_with(office.docx(), "søs am"))
    outcome = read(
        tmp_path / "plan.docx",
        "wrong",
        "søs am",
    )
    assert (outcome.kind, outcome.reason) == ("", "")
    assert "The pelican boards at dawn." in outcome.documents[0].text
    assert outcome.documents[0].format == "docx"
    outcome = read(tmp_path / "plan.docx", "wrong")
    assert (outcome.kind, outcome.reason) == ("encrypted", NONE_FITS)
    assert read(tmp_path / "plan.docx").reason == NO_PASSWORD
    (tmp_path / "mail.eml").write_bytes(
        office.eml({"plan.docx": locked_with(office.docx(), "secret")})
    )
    outcome = read(tmp_path / "mail.eml", "secret")
    assert [document.member for document in outcome.documents] == ["", "plan.docx"]


def test_what_excel_locks_without_a_password_opens_without_one(tmp_path: Path) -> None:
    (tmp_path / "book.xlsx").write_bytes(locked_with(office.xlsx(), "VelvetSweatshop"))
    assert read(tmp_path / "book.xlsx").documents[0].format == "xlsx"


def test_a_locked_file_that_is_damaged_is_not_one_that_the_system_keeps_from_us() -> None:
    content = bytearray(locked_with(office.docx(), "secret"))
    content[76] = 200  # where its table of sectors begins: beyond its end
    locked.use_passwords(("secret",), 60)
    with unreadable("damaged"):
        unlock(Path("plan.docx"), bytes(content))


def test_passwords_are_tried_for_a_while_only() -> None:
    locked.use_passwords(("a", "b", "c"), 0)
    with unreadable("encrypted") as reported:
        unlock(Path("plan.docx"), locked_with(office.docx(), "c"))
    assert numbers(reported.value.why) == [1, 3]


def test_a_lock_that_is_damaged_is_reported(tmp_path: Path) -> None:
    locked.use_passwords(("secret",), 30)
    with unreadable("encrypted") as reported:
        unlock(Path("plan.docx"), office.locked_package())
    assert reported.value.why not in (NO_PASSWORD, NONE_FITS)
    content = bytearray(locked_with(office.docx(), "secret"))
    content[-3000:] = bytes(3000)
    (tmp_path / "plan.docx").write_bytes(content)
    assert read(tmp_path / "plan.docx", "secret").kind in ("encrypted", "damaged")


@pytest.mark.shared
@pytest.mark.skipif(not OLD.is_dir(), reason="no shared data")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ecma376standard_password.docx", "lorem ipsum"),
        ("rc4cryptoapi_password.doc", "lorem ipsum"),
        ("rc4cryptoapi_password.ppt", "Lorem ipsum"),
        ("rc4cryptoapi_password.xls", "lorem ipsum | 3"),
        ("xor_password_123456789012345.xls", "420"),
    ],
)
def test_locks_of_older_programs(name: str, text: str) -> None:
    known = ("wrong", "Password1234_", "123456789012345")
    locked.use_passwords(known, 30)
    assert text in read(OLD / name, *known).documents[0].text


# One member plan.txt, by pyzipper 0.4, password "søs am": AES of 256 bits, deflated (AE-2); of 128
# bits, stored (AE-1).
AES = {
    256: (
        "UEsDBBQAAQBjAO5bdl0AAAAAPQAAAFQAAAAIAAsAcGxhbi50eHQBmQcAAgBBRQMIAJW4inBQD2CKEdvsKERon88w/82/FjVLIyXyu672pLZS9g44"
        "BDjO/M8oF5bWqTZ0GVusmKX9/tQpoe7BInlQSwECFAMUAAEAYwDuW3ZdAAAAAD0AAABUAAAACAALAAAAAAAAAAAAgAEAAAAAcGxhbi50eHQBmQcA"
        "AgBBRQMIAFBLBQYAAAAAAQABAEEAAABuAAAAAAA="
    ),
    128: (
        "UEsDBBQAAQBjAO5bdl35Ab2aaAAAAFQAAAAIAAsAcGxhbi50eHQBmQcAAQBBRQEAAGjBzAij/C9s+32RZLl76bdeJALO9AJ8utHOY270+IyyIJM+"
        "Wnpr7dDTkEr6Lytp1NRgghVL+V1fqQvXa17BxwT5DHdqKLATIacpjzAX8xzN6ds7fQO8mY9kdC9WiDT8P0XdiPYr7fJPUEsBAhQDFAABAGMA7lt2"
        "XfkBvZpoAAAAVAAAAAgACwAAAAAAAAAAAIABAAAAAHBsYW4udHh0AZkHAAEAQUUBAABQSwUGAAAAAAEAAQBBAAAAmQAAAAAA"
    ),
}


@pytest.mark.parametrize("bits", AES)
def test_archives_locked_with_aes_open_with_one_of_the_passwords(tmp_path: Path, bits: int) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(b64decode(AES[bits]))
    locked.use_passwords(("wrong", "søs am"), 30)
    (found,) = read_everything(path, "zip")
    assert isinstance(found, ReadDocument)
    assert (found.member, found.text) == ("plan.txt", "The pelican boards at dawn. " * 3)
    locked.use_passwords(("wrong",), 30)
    (found,) = read_everything(path, "zip")
    assert isinstance(found, LeftOut)
    assert (found.kind, found.reason) == ("encrypted", NONE_FITS)
    changed = bytearray(path.read_bytes())
    changed[80] ^= 1  # within the locked text: no password opens it rightly any more
    path.write_bytes(changed)
    locked.use_passwords(("søs am",), 30)
    (found,) = read_everything(path, "zip")
    assert isinstance(found, LeftOut)


def test_a_compression_that_is_not_known_is_no_damage(tmp_path: Path) -> None:
    content = bytearray(office.zipped({"a.txt": "The pelican.", "b.txt": "The heron."}))
    for signature, at in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        content[content.index(signature) + at] = 9
    (tmp_path / "a.zip").write_bytes(content)
    left_out, read = read_everything(tmp_path / "a.zip", "zip")
    assert isinstance(left_out, LeftOut)
    assert (left_out.member, left_out.state, left_out.kind) == (
        "a.txt",
        "quarantined",
        "unsupported",
    )
    assert "method 9" in left_out.reason
    assert isinstance(read, ReadDocument)
    assert read.text == "The heron."
