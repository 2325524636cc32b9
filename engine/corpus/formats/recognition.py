"""The true format of a file: by its first bytes and, for containers, by their content.

Among texts the ending decides.
"""

from __future__ import annotations

import re
import zipfile
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

from engine.corpus.formats import MAX_FILE, UnreadableFileError, read_bytes
from engine.corpus.formats.containers import DAMAGED, open_compound, open_package
from engine.corpus.formats.damage import describe_damage
from engine.corpus.formats.general import MIME
from engine.corpus.formats.locked import explain_lock
from engine.corpus.formats.source import get_content_size, open_content
from engine.corpus.scan.formats import ARCHIVES, BINARY, MAGIC, PAGE, RTF, archive_format, is_mail

MAX_UNPACKED = 2**30
_PACKAGES = frozenset({"docx", "pptx", "xlsx", "odt", "ods", "odp", "epub"})
_SUSPICIOUS_RATIO = 200
_UNSUSPICIOUS = 2**26
_FOLDERS = (("word/", "docx"), ("ppt/", "pptx"), ("xl/", "xlsx"))
_DECLARED = {
    # A drawing has the pages of a presentation.
    MIME["odp"].replace("presentation", "graphics"): "odp",
    **{MIME[format]: format for format in ("odt", "ods", "odp", "epub")},
}
DOCUMENT_STREAMS = (
    ("WordDocument", "doc"),
    ("Workbook", "xls"),
    ("Book", "xls"),
    ("PowerPoint Document", "ppt"),
)
_OFFICE_2003_XML = (
    b"schemas.microsoft.com/office/word/2003/wordml",
    b"urn:schemas-microsoft-com:office:spreadsheet",
)
_NO_ARCHIVE = (
    zipfile.BadZipFile,
    NotImplementedError,
    ValueError,
    OverflowError,
    EOFError,
)
_TABBED = re.compile(rb"[^\x00-\x08\x0e-\x1f\t;]*[\t;]")


def find_true_format(path: Path, format: str, data: bytes | None = None) -> str:
    """Return the format of a file's content if its first bytes show it, else that of its name.

    Raises UnreadableFileError if it is encrypted as a whole, holds a bomb, or is not at all what
    its name says.
    """
    head = _read_head(path, data)
    if not head.strip():
        raise UnreadableFileError(path, "empty", "empty")
    if head.startswith(b"PK\x03\x04"):
        return _find_zip_format(path, format, data)
    if head.startswith(MAGIC):
        return _find_compound_format(path, data)
    start = head.removeprefix(BOM_UTF8).lstrip()
    if start.startswith(b"%PDF-") or (format in BINARY and b"%PDF" in head[:1024]):
        return "pdf"
    if RTF.match(start):
        return "rtf"
    if format in ARCHIVES and (archive := archive_format(head)):
        return archive
    if format not in BINARY:
        return format
    return _find_disguised_format(path, format, head)


def _read_head(path: Path, data: bytes | None) -> bytes:
    with open_content(path, data) as file:
        return file.read(4096)


def _find_disguised_format(path: Path, format: str, head: bytes) -> str:
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if any(name in head.lower() for name in _OFFICE_2003_XML):
        return "xml"
    if start.startswith(PAGE):
        return "html"
    if format == "xls" and head[:2] in (b"\x09\x00", b"\x09\x02", b"\x09\x04"):
        # Excel before version 5.
        return "xls"
    if format == "doc" and head[:4] in (b"\xdb\xa5\x2d\x00", b"\x31\xbe\x00\x00"):
        # Word before version 6.
        return "doc"
    # Browsers save a page with its pictures so.
    if format == "doc" and is_mail(head):
        return "mhtml"
    if format == "xls" and _is_tabbed(head):
        return "csv"
    # An archive from before 1988 begins with no mark of its own.
    if format == "tar":
        return "tar"
    if format == "zip" and head.startswith((b"PK\x05\x06", b"PK00PK", b"PK\x07\x08")):
        return "zip"
    raise UnreadableFileError(path, f"its content is not that of a .{format} file", "damaged")


def _is_tabbed(head: bytes) -> bool:
    """Tell whether every line has cells.

    Many programs write such tables as text and call them .xls.
    """
    if head.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        head = head.decode("utf-16", "replace").encode()
    # The head may end within its last line.
    lines = head.splitlines()[:-1] or [head]
    return all(map(_TABBED.match, lines))


@contextmanager
def open_zip(path: Path, data: bytes | None = None) -> Iterator[zipfile.ZipFile]:
    """Open a ZIP archive.

    Raises UnreadableFileError if it is damaged.
    """
    with open_content(path, data) as file:
        try:
            archive = zipfile.ZipFile(file)
        except _NO_ARCHIVE as error:
            raise UnreadableFileError(path, describe_damage(error)) from error
        with archive:
            yield archive


def is_bomb(packed: int, unpacked: int) -> bool:
    """Tell whether bytes unpack to more than those of documents would."""
    return unpacked > _UNSUSPICIOUS and unpacked > _SUSPICIOUS_RATIO * max(1, packed)


def _find_zip_format(path: Path, format: str, data: bytes | None) -> str:
    with _open_package(path, data) as archive:
        kind = _find_package_kind(archive)
        if not kind:
            if format in _PACKAGES:
                reason = f"its content is a ZIP archive, not a .{format} file"
                raise UnreadableFileError(path, reason, "damaged")
            return "zip"
        packed = sum(member.compress_size for member in archive.infolist())
        unpacked = sum(member.file_size for member in archive.infolist())
        if unpacked > MAX_UNPACKED or is_bomb(packed, unpacked):
            raise UnreadableFileError(path, f"it unpacks to {unpacked / 1e6:,.0f} MB", "too large")
        if kind.startswith("od"):
            manifest = _read_part(archive, "META-INF/manifest.xml", MAX_FILE // 16)
            if b"encryption-data" in manifest:
                reason = "encrypted: passwords of OpenDocument files are not tried"
                raise UnreadableFileError(path, reason, "encrypted")
    if data is None and get_content_size(path, data) > MAX_FILE:
        raise UnreadableFileError(path, f"larger than {MAX_FILE // 2**20} MB", "too large")
    return kind


def _find_package_kind(archive: zipfile.ZipFile) -> str:
    """Return the format of an office file or a book, empty for any other archive."""
    names = archive.namelist()
    if "[Content_Types].xml" in names:
        for folder, kind in _FOLDERS:
            if any(name.startswith(folder) for name in names):
                return kind
    declared = _read_part(archive, "mimetype", 200).decode("ascii", "replace").strip()
    return _DECLARED.get(declared.removesuffix("-template"), "")


def _open_package(path: Path, data: bytes | None) -> AbstractContextManager[zipfile.ZipFile]:
    """Open a package like `open_zip`, and share packages in memory with later readers."""
    with suppress(*DAMAGED):
        if data is not None:
            return nullcontext(open_package(data))
    return open_zip(path, data)


def _read_part(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """Return a part of a package.

    Empty if it is missing, damaged or larger than `most` bytes.
    """
    try:
        if archive.getinfo(name).file_size <= most:
            return archive.read(name)
        return b""
    except (KeyError, *DAMAGED):
        return b""


def _find_compound_format(path: Path, data: bytes | None) -> str:
    try:
        compound = open_compound(read_bytes(path, data))
    except (ValueError, OverflowError) as error:
        raise UnreadableFileError(path, describe_damage(error)) from error
    if "EncryptedPackage" in compound or "EncryptionInfo" in compound:
        raise UnreadableFileError(path, explain_lock(), "encrypted")
    for stream, kind in DOCUMENT_STREAMS:
        if stream in compound:
            return kind
    if "__properties_version1.0" in compound:
        return "msg"
    raise UnreadableFileError(
        path, "a compound file that holds no document of a kind that is read", "unsupported"
    )
