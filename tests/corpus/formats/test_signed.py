"""Signed files and mails: what is signed is read, whatever the container's spelling."""

from __future__ import annotations

from base64 import b64encode, encodebytes
from pathlib import Path

import pytest
from fixtures.read_files import PDF, opened

from engine.core.records import ReadDocument
from engine.corpus.formats import LeftOut
from engine.corpus.formats.signed import extract_signed

SIGNED_DATA = bytes.fromhex("06092a864886f70d010702")
ENVELOPED_DATA = bytes.fromhex("06092a864886f70d010703")
DATA = bytes.fromhex("06092a864886f70d010701")
TEXT = b"Content-Type: text/plain; charset=utf-8\r\n\r\nThe pelican boards at d\xc3\xa2wn.\r\n"


def element(
    tag: int,
    *contents: bytes,
    indefinite: bool = False,
) -> bytes:
    """An element of BER; a length of its own, or one that is told by its end."""
    content = b"".join(contents)
    if indefinite:
        return bytes((tag, 0x80)) + content + b"\0\0"
    if len(content) < 128:
        return bytes((tag, len(content))) + content
    size = (len(content).bit_length() + 7) // 8
    return bytes((tag, 0x80 + size)) + len(content).to_bytes(size, "big") + content


def signed(content: bytes | None, *, streamed: bool = False) -> bytes:
    """A container with what is signed; `streamed` as OpenSSL writes it, in pieces."""
    octets = [] if content is None else [element(0x04, content)]
    if content is not None and streamed:
        pieces = [element(0x04, content[at : at + 20]) for at in range(0, len(content), 20)]
        octets = [element(0x24, *pieces, indefinite=True)]
    explicit = [element(0xA0, *octets, indefinite=streamed)] if octets else []
    inner = element(
        0x30,
        DATA,
        *explicit,
        indefinite=streamed,
    )
    parts = (
        element(0x02, b"\1"),
        element(0x31),
        inner,
        element(0x31),
    )
    data = element(
        0x30,
        *parts,
        indefinite=streamed,
    )
    holder = element(
        0xA0,
        data,
        indefinite=streamed,
    )
    return element(
        0x30,
        SIGNED_DATA,
        holder,
        indefinite=streamed,
    )


def as_pem(data: bytes) -> bytes:
    return b"-----BEGIN PKCS7-----\n" + encodebytes(data) + b"-----END PKCS7-----\n"


ENCRYPTED = element(
    0x30,
    ENVELOPED_DATA,
    element(0xA0, element(0x30, element(0x02, b"\0"))),
)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("size", [0, 1, 127, 128, 70_000])
def test_what_is_signed_is_found_in_any_spelling(size: int, streamed: bool) -> None:
    content = bytes(range(256)) * 300
    container = signed(content[:size], streamed=streamed)
    for spelling in (container, b64encode(container), as_pem(container)):
        assert extract_signed(spelling) == content[:size]


@pytest.mark.parametrize("streamed", [False, True])
def test_a_container_that_is_cut_is_damaged(streamed: bool) -> None:
    container = signed(b"heron" * 100, streamed=streamed)
    for length in range(300):
        with pytest.raises(ValueError, match=r"."):
            extract_signed(container[:length])


@pytest.mark.parametrize("data", [b"\x30\x80" * 100_000, b"\x30\x00", b"heron", b"\x30" * 9, b"!"])
def test_what_is_no_container_is_damaged(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        extract_signed(data)


def test_signed_files_are_read_as_what_they_are(tmp_path: Path) -> None:
    (pdf,) = opened(
        tmp_path,
        "offer.pdf.p7m",
        signed(PDF),
    )
    assert isinstance(pdf, ReadDocument)
    assert (pdf.member, pdf.format) == ("offer.pdf", "pdf")
    assert "pelican" in pdf.text
    # Outlook saves what is signed in clear under the same name.
    for content in (signed(TEXT, streamed=True), TEXT):
        (mail,) = opened(tmp_path, "smime.p7m", content)
        assert isinstance(mail, ReadDocument)
        assert (mail.member, mail.text) == ("smime.eml", "The pelican boards at dâwn.")


@pytest.mark.parametrize(
    ("content", "kind"),
    [(ENCRYPTED, "encrypted"), (signed(None), "damaged"), (signed(PDF)[:80], "damaged")],
)
def test_what_cannot_be_opened_is_listed(
    tmp_path: Path,
    content: bytes,
    kind: str,
) -> None:
    head = b"Subject: Piers\nFrom: ada@quay.example\nContent-Type: application/pkcs7-mime; name=s\n"
    mail = head + b"Content-Transfer-Encoding: base64\n\n" + encodebytes(content)
    document, left_out = opened(tmp_path, "a.eml", mail)
    assert isinstance(document, ReadDocument)
    assert isinstance(left_out, LeftOut)
    assert (document.title, left_out.kind) == ("Piers", kind)


def test_a_signed_mail_is_read_with_what_is_attached_to_it(tmp_path: Path) -> None:
    inner = (
        b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n"
        + TEXT
        + b"--b\r\nContent-Type: application/pdf; name=offer.pdf\r\n"
        + b"Content-Transfer-Encoding: base64\r\n\r\n"
        + encodebytes(PDF)
        + b"\r\n--b--\r\n"
    )
    twice = (
        b"Content-Type: application/x-pkcs7-mime; smime-type=signed-data\r\n"
        b"Content-Transfer-Encoding: base64\r\n\r\n" + encodebytes(signed(inner))
    )
    for content in (inner, twice):
        head = b"Subject: Piers\nFrom: ada@quay.example\nMIME-Version: 1.0\n"
        head += b"Content-Type: application/pkcs7-mime; smime-type=signed-data; name=smime.p7m\n"
        head += b"Content-Disposition: attachment; filename=smime.p7m\n"
        mail = head + b"Content-Transfer-Encoding: base64\n\n" + encodebytes(signed(content))
        document, pdf = opened(tmp_path, "a.eml", mail)
        assert isinstance(document, ReadDocument)
        assert isinstance(pdf, ReadDocument)
        assert document.text.endswith("\n\nThe pelican boards at dâwn.")
        assert (document.title, pdf.member) == ("Piers", "offer.pdf")


@pytest.mark.parametrize(
    ("name", "content", "member"),
    [
        ("offer.pdf.p7m", PDF, "offer.pdf"),
        ("terms.txt.p7m", b"Contract: 4711\nBerth: 12\n\nThe pelican boards.", "terms.txt"),
        ("terms.txt.p7m", "Contract: 4711\nThe pelican boards.".encode("utf-16"), "terms.txt"),
        ("smime.p7m", PDF, "smime"),
    ],
)
def test_a_signed_file_that_is_attached_to_a_mail_is_read_as_a_file(
    tmp_path: Path, name: str, content: bytes, member: str
) -> None:
    mail = (
        b"Subject: Piers\nFrom: ada@quay.example\nMIME-Version: 1.0\n"
        b"Content-Type: multipart/mixed; boundary=b\n\n--b\n"
        b"Content-Type: text/plain\n\nSee below.\n"
        b"--b\nContent-Type: application/pkcs7-mime; name=%s\n"
        b"Content-Disposition: attachment; filename=%s\n"
        b"Content-Transfer-Encoding: base64\n\n" % (name.encode(), name.encode())
    )
    document, attached = opened(
        tmp_path, "a.eml", mail + encodebytes(signed(content)) + b"\n--b--\n"
    )
    assert isinstance(document, ReadDocument)
    assert isinstance(attached, ReadDocument)
    assert document.text.endswith("\n\nSee below.")
    assert attached.member.rpartition("/")[2] == member
    assert "pelican boards" in attached.text
    assert ("4711" in attached.text) == (content is not PDF)


def test_a_mail_that_pgp_encrypts_is_listed_as_such(tmp_path: Path) -> None:
    mail = (
        b"Subject: Berths\nContent-Type: multipart/encrypted; boundary=x;"
        b" protocol=application/pgp-encrypted\n\n--x\nContent-Type: application/pgp-encrypted\n\n"
        b"Version: 1\n--x\nContent-Type: application/octet-stream; name=encrypted.asc\n\n"
        b"-----BEGIN PGP MESSAGE-----\n\nabc=\n-----END PGP MESSAGE-----\n--x--\n"
    )
    left = opened(tmp_path, "a.eml", mail)[-1]
    assert isinstance(left, LeftOut)
    assert (left.member, left.state, left.kind) == ("encrypted.asc", "quarantined", "encrypted")
