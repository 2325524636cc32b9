"""Locked OpenDocument files: the lock is made here by the standard's own words, with other code than that which opens it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import zipfile
import zlib
from io import BytesIO
from pathlib import Path

import pytest
from cryptography.hazmat.decrepit.ciphers.algorithms import Blowfish
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from fixtures import office
from fixtures.errors import unreadable
from fixtures.locked import no_passwords_stay, read  # noqa: F401

from engine.corpus import passwords
from engine.corpus.passwords import NO_PASSWORD, NONE_FITS
from engine.corpus.readers import Kind
from engine.corpus.sandbox.outcome import Limits
from engine.corpus.sandbox.pool import Pool
from engine.corpus.unlocking_odf import unlocked_package

SALT, VECTOR = b"sixteen bytes it", b"and sixteen more"
ODF = "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"
TEXTS = {"odt": office.odt, "ods": office.ods, "odp": office.odp}
KEY_SIZE = ' manifest:key-size="32"'
COST = {"iterations": 2, "memory": 4096, "lanes": 2}


def pbkdf2(secret: bytes, salt: bytes, rounds: int, size: int) -> bytes:
    """RFC 2898, section 5.2, with HMAC-SHA-1."""
    key = b""
    for block in range(1, -(-size // 20) + 1):
        value = found = hmac.digest(secret, salt + block.to_bytes(4, "big"), "sha1")
        for _ in range(rounds - 1):
            value = hmac.digest(secret, value, "sha1")
            found = bytes(a ^ b for a, b in zip(found, value, strict=True))
        key += found
    return key[:size]


def blowfish_cfb(data: bytes, key: bytes, vector: bytes) -> bytes:
    """Blowfish with cipher feedback of its whole block, from the bare cipher."""
    bare = Cipher(Blowfish(key), modes.ECB()).encryptor()
    sealed, last = b"", vector
    for at in range(0, len(data), 8):
        last = bytes(a ^ b for a, b in zip(bare.update(last), data[at : at + 8], strict=False))
        sealed += last
    return sealed


def deflated(data: bytes) -> bytes:
    packing = zlib.compressobj(wbits=-15)
    return packing.compress(data) + packing.flush()


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def manifest(mime: str, entries: str) -> str:
    extension = "urn:org:documentfoundation:names:experimental:office:xmlns:loext:1.0"
    return (
        f'{office.XML}<manifest:manifest xmlns:manifest="{ODF}" xmlns:loext="{extension}" manifest:version="1.2">'
        f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{mime}"/>{entries}</manifest:manifest>'
    )


def entry(name: str, size: int, data: str, parts: str) -> str:
    return (
        f'<manifest:file-entry manifest:full-path="{name}" manifest:size="{size}" manifest:media-type="">'
        f"<manifest:encryption-data{data}>{parts}</manifest:encryption-data></manifest:file-entry>"
    )


def files_of(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def locked(content: bytes, password: str, rounds: int = 50, *, old: bool = False) -> bytes:
    """As OpenDocument 1.2 says and LibreOffice did until 24.2 (AES-256-CBC); `old`: as before 1.2 (Blowfish)."""
    files, entries, kind = files_of(content), "", "sha1" if old else "sha256"
    start = hashlib.new(kind, password.encode()).digest()
    for name in ("meta.xml", "content.xml"):
        salt, packed = SALT + name.encode(), deflated(files[name])
        key = pbkdf2(start, salt, rounds, 16 if old else 32)
        if old:
            sealed = blowfish_cfb(packed, key, VECTOR[:8])
        else:
            left = 15 - len(packed) % 16
            sealing = Cipher(algorithms.AES(key), modes.CBC(VECTOR)).encryptor()
            sealed = sealing.update(packed + b"?" * left + bytes([left + 1]))
        cipher = "Blowfish CFB" if old else "http://www.w3.org/2001/04/xmlenc#aes256-cbc"
        check = hashlib.new(kind, packed[:1024]).digest()
        entries += entry(
            name, len(files[name]),
            f' manifest:checksum-type="{"SHA1/1K" if old else f"{ODF}#sha256-1k"}" manifest:checksum="{b64(check)}"',
            f'<manifest:algorithm manifest:algorithm-name="{cipher}"'
            f' manifest:initialisation-vector="{b64(VECTOR[:8] if old else VECTOR)}"/>'
            + ("" if old else '<manifest:start-key-generation manifest:key-size="32"'
            ' manifest:start-key-generation-name="http://www.w3.org/2000/09/xmldsig#sha256"/>')
            + f'<manifest:key-derivation manifest:key-derivation-name="PBKDF2"{"" if old else KEY_SIZE}'
            f' manifest:iteration-count="{rounds}" manifest:salt="{b64(salt)}"/>',
        )  # fmt: skip
        files[name] = sealed
    files["META-INF/manifest.xml"] = manifest(files["mimetype"].decode(), entries).encode()
    return office.zipped(files, stored=tuple(files))


def locked_before(content: bytes, password: str) -> bytes:
    return locked(content, password, old=True)


def locked_whole(content: bytes, password: str, algorithm: str = "aes256-gcm", **cost: int) -> bytes:
    """As LibreOffice does since 24.2: one inner package, the vector before it, the tag behind it."""
    mime, cost = files_of(content)["mimetype"].decode(), COST | cost
    start = hashlib.sha256(password.encode()).digest()
    used = {"iterations": 1, "memory": 64, "lanes": 1} if cost != COST else cost
    key = Argon2id(
        salt=SALT, length=32, iterations=used["iterations"], lanes=used["lanes"], memory_cost=used["memory"]
    ).derive(start)
    nonce = VECTOR[:12]
    sealed = nonce + AESGCM(key).encrypt(nonce, content, None)
    reported = " ".join(f'loext:argon2-{name}="{value}"' for name, value in cost.items())
    whole = entry(
        "encrypted-package", len(content), "",
        f'<manifest:algorithm manifest:algorithm-name="http://www.w3.org/2009/xmlenc11#{algorithm}"'
        f' manifest:initialisation-vector="{b64(nonce)}"/><manifest:start-key-generation'
        ' manifest:start-key-generation-name="http://www.w3.org/2001/04/xmlenc#sha256" manifest:key-size="32"/>'
        '<manifest:key-derivation manifest:key-size="32"'
        ' manifest:key-derivation-name="urn:org:documentfoundation:names:experimental:office:manifest:argon2id"'
        f' {reported} manifest:salt="{b64(SALT)}"/>',
    )  # fmt: skip
    return office.zipped(
        {"mimetype": mime, "encrypted-package": sealed, "META-INF/manifest.xml": manifest(mime, whole)},
        stored=("mimetype", "encrypted-package"),
    )


def test_the_key_is_that_of_the_rfc() -> None:
    """RFC 6070."""
    assert pbkdf2(b"password", b"salt", 4096, 20).hex() == "4b007901b765489abead49d926f721d065a429c1"


@pytest.mark.parametrize("format", ["odt", "ods", "odp"])
@pytest.mark.parametrize("lock", [locked, locked_before, locked_whole])
def test_a_locked_file_opens_with_one_of_the_passwords(tmp_path: Path, format: str, lock) -> None:  # type: ignore[no-untyped-def]
    plain, sealed = tmp_path / "plain" / f"plan.{format}", tmp_path / f"plan.{format}"
    plain.parent.mkdir()
    plain.write_bytes(TEXTS[format]())
    sealed.write_bytes(lock(TEXTS[format](), "søs am"))
    pool = Pool(1, Limits(), ("wrong", "søs am"))
    (as_it_was,), (opened,) = pool.read(plain, format).documents, pool.read(sealed, format).documents
    pool.close()
    assert "pelican" in opened.text
    assert (opened.text, opened.title, opened.pages) == (as_it_was.text, as_it_was.title, as_it_was.pages)


@pytest.mark.parametrize("lock", [locked, locked_whole])
def test_without_its_password_it_stays_closed(tmp_path: Path, lock) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "plan.odt").write_bytes(lock(office.odt(), "secret"))
    for known, reason in (((), NO_PASSWORD), (("wrong", "Secret"), NONE_FITS)):
        outcome = read(tmp_path / "plan.odt", *known)
        assert (outcome.kind, outcome.reason) == ("encrypted", reason)
    (tmp_path / "mail.eml").write_bytes(office.eml({"plan.odt": lock(office.odt(), "secret")}))
    assert [document.member for document in read(tmp_path / "mail.eml", "secret").documents] == ["", "plan.odt"]


def test_what_cannot_be_opened_names_what_is_not_known(tmp_path: Path) -> None:
    def fails(kind: Kind, value: str, content: bytes, old: str = "", new: str = "") -> None:
        files = files_of(content)
        files["META-INF/manifest.xml"] = files["META-INF/manifest.xml"].replace(old.encode(), new.encode())
        content = office.zipped(files, stored=tuple(files))
        with unreadable(kind, value):
            unlocked_package(Path("plan.odt"), content)

    passwords.use(("secret",), 30)
    content = locked(office.odt(), "secret")
    fails("encrypted", "seed512-cbc", content, "#aes256-cbc", "#seed512-cbc")
    fails("encrypted", "PGP", content, "PBKDF2", "PGP")
    fails("encrypted", "1,073,741,824 KiB", locked_whole(office.odt(), "secret", memory=2**30))
    fails("encrypted", "0 rounds", content, 'count="50"', 'count="0"')
    fails("encrypted", "md5", content, "sha256-1k", "md5")
    fails("encrypted", "algorithm", content, "<manifest:algorithm ", "<manifest:other ")
    fails("damaged", "", content, "</manifest:manifest>", "")
    files = files_of(content)
    fails("damaged", "", office.zipped({**files, "content.xml": files["content.xml"][:-5]}, stored=tuple(files)))
    passwords.use(("a", "b", "c"), 0)
    fails("encrypted", "1 of 3", content)


def test_a_locked_pdf_opens_with_its_password(tmp_path: Path) -> None:
    (tmp_path / "plan.pdf").write_bytes(office.locked_pdf("secret"))
    assert read(tmp_path / "plan.pdf").reason == NO_PASSWORD
    assert read(tmp_path / "plan.pdf", "wrong").reason == NONE_FITS
    assert read(tmp_path / "plan.pdf", "wrong", "secret").documents[0].text == "The pelican boards at dawn."
