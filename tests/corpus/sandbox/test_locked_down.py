"""A reading process that can open no file: what it has loaded, and the files handed over to it.

On Linux, Landlock refuses what the token of such a process refuses on Windows. Elsewhere, only
files that Python opens are noted.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import py7zr
import pytest
import pyzipper
from fixtures import office
from msoffcrypto.format.ooxml import OOXMLFile

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from engine.core.platforms.landlock import find_version
from engine.corpus.formats import UnreadableFileError
from engine.corpus.formats.locked import use_passwords
from engine.corpus.formats.opening import read_everything
from engine.corpus.formats.source import get_content_size, open_content, read_from
from engine.corpus.scan.formats import FORMATS, ending_of

PASSWORD = "secret"
SIGNED_DATA = bytes.fromhex("06092a864886f70d010702")
DATA = bytes.fromhex("06092a864886f70d010701")
READ = """
import json, os, sys
from pathlib import Path
from engine.corpus.formats import UnreadableFileError
from engine.corpus.formats.locked import use_passwords
from engine.corpus.formats.opening import read_everything
from engine.corpus.formats.preloading import load_everything
from engine.corpus.formats.source import read_from
from engine.corpus.scan.formats import FORMATS, ending_of

def note(event, arguments):
    if event == "open" and isinstance(arguments[0], str) and not arguments[0].startswith("/proc/"):
        opened.append(arguments[0])

load_everything()
use_passwords([sys.argv[1]], 600)
flags = os.O_RDONLY | getattr(os, "O_BINARY", 0)
files = [(Path(name), os.open(name, flags)) for name in sys.argv[2:]]
REFUSE
opened = []
loaded = set(sys.modules)
sys.addaudithook(note)
results = {}
for path, descriptor in files:
    with read_from(descriptor):
        try:
            format = FORMATS[ending_of(path.name)]
            found = [repr(part) for part in read_everything(path, format)]
        except UnreadableFileError as error:
            found = [error.why]
    results[path.name] = found
print(json.dumps([results, opened, sorted(set(sys.modules) - loaded)]))
"""
REFUSE = """
import ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
rights = struct.pack("Q", (1 << 13) - 1)  # also those to read files and folders
rules = libc.syscall(444, rights, ctypes.c_size_t(8), ctypes.c_uint32(0))
# py7zr asks how much memory there is, which is a file on Linux only.
allowed = struct.pack("=Qi", 1 << 2, os.open("/proc", os.O_PATH))
assert libc.syscall(445, rules, 1, allowed, 0) == 0
assert libc.prctl(38, *map(ctypes.c_ulong, (1, 0, 0, 0))) == 0
assert libc.syscall(446, rules, ctypes.c_uint32(0)) == 0
for path, _ in files:
    try:
        path.open()
        sys.exit("a file could be opened")
    except PermissionError:
        pass
"""


def pack_7z(name: str, content: bytes) -> bytes:
    packed = io.BytesIO()
    with py7zr.SevenZipFile(packed, "w", password=PASSWORD) as archive:
        archive.writestr(content, name)
    return packed.getvalue()


def pack_tar(name: str, content: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def pack_with_aes(name: str, content: bytes) -> bytes:
    packed = io.BytesIO()
    with pyzipper.AESZipFile(
        packed, "w", compression=pyzipper.ZIP_DEFLATED, encryption=pyzipper.WZ_AES
    ) as archive:
        archive.setpassword(PASSWORD.encode())
        archive.writestr(name, content)
    return packed.getvalue()


def lock(content: bytes) -> bytes:
    longer = io.BytesIO(content)
    locked = io.BytesIO()
    with zipfile.ZipFile(longer, "a") as archive:
        # msoffcrypto locks no file below 4 KB rightly.
        archive.writestr("padding.bin", bytes(8192))
    OOXMLFile(longer).encrypt(PASSWORD, locked)
    return locked.getvalue()


def encode_element(tag: int, *contents: bytes) -> bytes:
    """Return an element of DER."""
    content = b"".join(contents)
    return bytes((tag, 0x82)) + len(content).to_bytes(2, "big") + content


def sign(content: bytes) -> bytes:
    """Return a container of CMS with a content, but no signature, which no reader checks."""
    data = encode_element(
        0x30,
        DATA,
        encode_element(0xA0, encode_element(0x04, content)),
    )
    parts = (
        encode_element(0x02, b"\1"),
        encode_element(0x31),
        data,
        encode_element(0x31),
    )
    container = encode_element(0xA0, encode_element(0x30, *parts))
    return encode_element(0x30, SIGNED_DATA, container)


SENTENCE = "Однажды, в студеную зимнюю пору, я из лесу вышел; был сильный мороз."
NOTE = (
    "---\ntitle: Pier\ndate: 2031-03-04\n---\n# Pier\n\nThe heron. https://pier.example/a\n\n"
    "| a | b |\n|---|---|\n| 1 | 2 |\n"
)
WEB_PAGE = (
    b"MIME-Version: 1.0\r\nContent-Type: multipart/related; boundary=b; type=text/html\r\n\r\n"
    b"--b\r\nContent-Type: text/html; charset=koi8-r\r\nContent-Transfer-Encoding: 8bit\r\n"
    b"Content-Location: https://pier.example/\r\n\r\n"
    + f"<title>Pier</title><p>{SENTENCE}</p>".encode("koi8-r")
    + b"\r\n--b--\r\n"
)
SYMBOLS = (
    '<p>A <span style="font-family: Wingdings">&#xF0FC;</span> and <font face="Symbol">abc</font>'
)
FILES = {
    "plain.txt": b"The pelican sleeps.",
    "cyrillic.txt": SENTENCE.encode("cp1251"),
    "umlauts.txt": "Die Prüfung der Anlage fällt größer aus als sonst.".encode("cp1252"),
    "japanese.txt": "ペリカンは桟橋で眠る。港の朝。".encode("shift_jis"),
    "wide.txt": "naïve text".encode("utf-32"),
    "note.md": NOTE.encode(),
    "other.md": b"+++\ntitle = 'Pier'\n+++\n# Pier\n\nThe tern.",
    "page.html": SYMBOLS.encode(),
    "old.html": f"<meta charset=koi8-r><p>{SENTENCE}".encode("koi8-r"),
    "hyphens.txt": b"Land-\nund Seeweg. The sea-\nbird and the har-\nbour.",
    "table.csv": office.CSV,
    "table.json": b'[{"bird": "pelican"}, {"bird": "heron"}]',
    "plan.docx": office.docx(),
    "plan.pptx": office.pptx(),
    "plan.xlsx": office.xlsx(),
    "plan.odt": office.odt(),
    "plan.ods": office.ods(),
    "plan.odp": office.odp(),
    "plan.epub": office.epub(),
    "plan.pdf": office.pdf("The pelican boards at dawn.", "The heron."),
    "locked.pdf": office.locked_pdf(),
    "plan.doc": office.doc("The pelican boards at dawn."),
    "plan.xls": office.xls(),
    "plan.ppt": office.ppt(),
    "plan.rtf": rb"{\rtf1\ansi\ansicpg1251 The pelican \'ef\'e5\'eb\'e8\'ea\'e0\'ed.}",
    "plan.msg": office.msg({"a.txt": b"The tern."}),
    "plan.eml": office.eml({"a.docx": office.docx(), "b.txt": SENTENCE.encode("koi8-r")}),
    "plan.mbox": office.mbox(office.eml(), office.eml({"a.txt": b"The tern."})),
    "locked.docx": lock(office.docx()),
    "locked-2.xls": office.xls(locked=True),
    "plan.zip": office.zipped({"a.txt": b"The tern.", "пеликан.pdf": office.pdf("The gull.")}),
    "locked.zip": office.locked_zip("a.txt", b"The tern."),
    "aes.zip": pack_with_aes("a.txt", b"The tern."),
    "plan.7z": pack_7z("a.txt", b"The tern."),
    "plan.tar": pack_tar("a.txt", b"The tern."),
    "a.txt.gz": gzip.compress(b"The tern."),
    "b.txt.bz2": bz2.compress(b"The tern."),
    "c.txt.xz": lzma.compress(b"The tern."),
    "d.txt.zst": zstd.compress(b"The tern."),
    "rows.jsonl": office.JSONL,
    "plan.xml": office.WORDML,
    "visit.ics": b"BEGIN:VEVENT\nSUMMARY:The pelican\nEND:VEVENT\n",
    "ada.vcf": b"BEGIN:VCARD\nFN;ENCODING=QUOTED-PRINTABLE:Ada L=C3=B6w\nEND:VCARD\n",
    "page.mht": WEB_PAGE,
    "plan.pdf.p7m": sign(office.pdf("The pelican signs.")),
}


def read_here(path: Path) -> list[str]:
    try:
        format = FORMATS[ending_of(path.name)]
        return [repr(part) for part in read_everything(path, format)]
    except UnreadableFileError as error:
        return [error.why]


def test_what_is_loaded_first_suffices_for_files_of_every_format(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in FILES]
    for path in paths:
        path.write_bytes(FILES[path.name])
    use_passwords([PASSWORD], 600)
    expected = {path.name: read_here(path) for path in paths}
    use_passwords([], 600)
    program = READ.replace("REFUSE", REFUSE if find_version() >= 1 else "")
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", program, PASSWORD, *map(str, paths)],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results, opened, late_modules = json.loads(done.stdout)
    assert opened == []
    assert late_modules == []
    for name, found in expected.items():
        assert results[name] == found, name


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("a.txt.gz", "The tern."),
        ("c.txt.xz", "The tern."),
        ("d.txt.zst", "The tern."),
        ("rows.jsonl", "North pelican"),
        ("page.mht", "Однажды"),
        ("plan.pdf.p7m", "The pelican signs."),
    ],
)
def test_samples_are_what_their_names_say(
    tmp_path: Path,
    name: str,
    word: str,
) -> None:
    path = tmp_path / name
    path.write_bytes(FILES[name])
    assert word in "".join(read_here(path))


def test_a_handed_over_file_is_read_from_its_beginning_each_time(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"The pelican.")
    descriptor = os.open(path, os.O_RDONLY)
    with read_from(descriptor):
        path.with_name("b.txt").write_bytes(b"The heron sleeps.")
        for _ in range(2):
            with open_content(path.with_name("b.txt"), None) as file:
                assert file.read() == b"The pelican."
        assert get_content_size(path.with_name("b.txt"), None) == len(b"The pelican.")
        with open_content(path, b"in memory") as file:
            assert (file.read(), get_content_size(path, b"in memory")) == (b"in memory", 9)
    with pytest.raises(OSError, match=r"descriptor|handle"):
        os.fstat(descriptor)
    with open_content(path.with_name("b.txt"), None) as file:
        assert file.read() == b"The heron sleeps."
