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

from engine.core.records import Kind
from engine.corpus.formats import MAX_FILE, UnreadableFileError, read_bytes
from engine.corpus.formats.containers import DAMAGED, open_compound, open_package
from engine.corpus.formats.damage import describe_damage
from engine.corpus.formats.general import MIME
from engine.corpus.formats.locked import explain_lock
from engine.corpus.formats.source import get_content_size, open_content
from engine.corpus.scan.formats import (
    ARCHIVES,
    BINARY,
    HEAD_LENGTH,
    MAGIC,
    PAGE,
    RTF,
    archive_format,
    format_without_ending,
    is_mail,
)

MAX_UNPACKED = 2**30  # bytes
_PACKAGES = frozenset({"docx", "pptx", "xlsx", "vsdx", "odt", "ods", "odp", "epub"})
IWORK = frozenset({"pages", "key", "numbers"})
_OPEN_DOCUMENT = frozenset({"odt", "ods", "odp"})
_SUSPICIOUS_RATIO = 200  # unpacked bytes for each packed one
_MAX_UNSUSPICIOUS = 2**26  # unpacked bytes, whatever their ratio
_MAX_MIMETYPE_LENGTH = 200  # bytes
_MAX_MANIFEST_LENGTH = MAX_FILE // 16
_FORMATS_BY_FOLDER = (
    ("word/", "docx"),
    ("ppt/", "pptx"),
    ("xl/", "xlsx"),
    ("visio/", "vsdx"),
)
_FORMATS_BY_MIMETYPE = {
    # A drawing has the pages of a presentation.
    MIME["odp"].replace("presentation", "graphics"): "odp",
    **{MIME[format]: format for format in ("odt", "ods", "odp", "epub")},
}
_FORMATS_BY_STREAM = (
    ("WordDocument", "doc"),
    ("Workbook", "xls"),
    ("Book", "xls"),
    ("PowerPoint Document", "ppt"),
)
_OFFICE_2003_XML = (
    b"schemas.microsoft.com/office/word/2003/wordml",
    b"urn:schemas-microsoft-com:office:spreadsheet",
)
_BAD_ARCHIVE = (
    zipfile.BadZipFile,
    NotImplementedError,
    ValueError,
    OverflowError,
    EOFError,
)
_EXCEL_BEFORE_5 = (b"\x09\x00", b"\x09\x02", b"\x09\x04")
_WORD_BEFORE_6 = (b"\xdb\xa5\x2d\x00", b"\x31\xbe\x00\x00")
# The beginnings of archives that are empty, or were split into parts that are joined again.
_OTHER_ZIP_HEADS = (b"PK\x05\x06", b"PK00PK", b"PK\x07\x08")
# The first field of a mail that has arrived. People write `Received: 12 boxes`, too.
_SOURCE_OF_MAIL = re.compile(
    rb"(?:delivered-to|return-path|x-apparently-to):\s*<?[^\s<>]*[@>]|received:\s*(?:from|by)\s",
    re.IGNORECASE,
)
# The first cell of a line, without control characters, and the tab or semicolon after it.
_FIRST_CELL = re.compile(rb"[^\x00-\x08\x0e-\x1f\t;]*[\t;]")


def find_true_format(
    path: Path,
    format: str,
    data: bytes | None = None,
) -> str:
    """Return the format of a file's content if its first bytes show it, else that of its name.

    `format` is that of the name. Raises UnreadableFileError if the file is encrypted as a whole, is
    a decompression bomb, or is not at all what its name says.
    """
    with open_content(path, data) as file:
        head = file.read(HEAD_LENGTH)
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
    # Mail services save the source of a mail as a text.
    if format == "txt" and _SOURCE_OF_MAIL.match(start) and is_mail(start):
        return "eml"
    if format in ARCHIVES:
        archive = archive_format(head)
        if archive:
            return archive
    if format not in BINARY:
        return format
    return _find_disguised_format(path, format, head)


def _find_disguised_format(
    path: Path,
    format: str,
    head: bytes,
) -> str:
    """Return the format of a file whose name says a binary format that its first bytes do not show.

    It may be a text, or a file of an old program. Raises UnreadableFileError for any other file.
    """
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if any(name in head.lower() for name in _OFFICE_2003_XML):
        return "xml"
    # OpenDocument in a single XML file.
    if format in _OPEN_DOCUMENT and b"<office:document" in head:
        return format
    if start.startswith(PAGE):
        return "html"
    if format == "xls" and head.startswith(_EXCEL_BEFORE_5):
        return "xls"
    if format == "doc" and head.startswith(_WORD_BEFORE_6):
        return "doc"
    # Programs save a web page with its pictures under such a name.
    if format == "doc" and is_mail(head):
        return "mhtml"
    # Many programs write a table as text and call it .xls, and texts were once called .doc.
    if format == "xls" and (_is_table(head) or format_without_ending(head) == "txt"):
        return "csv"
    if format == "doc" and format_without_ending(head) == "txt":
        return "txt"
    # An archive from before 1988 begins with no mark of its own.
    if format == "tar":
        return "tar"
    if format == "zip" and head.startswith(_OTHER_ZIP_HEADS):
        return "zip"
    # A private key has the ending of a Keynote file.
    kind: Kind = "unsupported" if format in IWORK else "damaged"
    raise UnreadableFileError(
        path,
        f"its content is not that of a .{format} file",
        kind,
    )


def _is_table(head: bytes) -> bool:
    """Return whether every line of a text has cells, divided by tabs or semicolons."""
    if head.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        head = head.decode("utf-16", "replace").encode()
    # The head may end within its last line.
    lines = head.splitlines()[:-1] or [head]
    return all(map(_FIRST_CELL.match, lines))


@contextmanager
def open_zip(path: Path, data: bytes | None = None) -> Iterator[zipfile.ZipFile]:
    """Open a ZIP archive.

    Raises UnreadableFileError if it is damaged.
    """
    with open_content(path, data) as file:
        try:
            archive = zipfile.ZipFile(file)
        except _BAD_ARCHIVE as error:
            raise UnreadableFileError(path, describe_damage(error)) from error
        with archive:
            yield archive


def is_bomb(packed: int, unpacked: int) -> bool:
    """Return whether `packed` bytes of a real document would never unpack to so many bytes."""
    return unpacked > _MAX_UNSUSPICIOUS and unpacked > _SUSPICIOUS_RATIO * max(1, packed)


def check_unpacked_size(archive: zipfile.ZipFile, path: Path) -> None:
    """Raise UnreadableFileError if a package says that it unpacks to more than documents do."""
    packed = sum(member.compress_size for member in archive.infolist())
    unpacked = sum(member.file_size for member in archive.infolist())
    if unpacked > MAX_UNPACKED or is_bomb(packed, unpacked):
        raise UnreadableFileError(
            path,
            f"it unpacks to {unpacked / 1e6:,.0f} MB",
            "too large",
        )


def _find_zip_format(
    path: Path,
    format: str,
    data: bytes | None,
) -> str:
    """Return the format of a file that is a ZIP archive: that of the package, or zip.

    Raises UnreadableFileError as `find_true_format`.
    """
    with _open_package(path, data) as archive:
        package_format = _find_package_format(archive)
        if format in IWORK:
            package_format = package_format or format
        if not package_format:
            if format in _PACKAGES:
                reason = f"its content is a ZIP archive, not a .{format} file"
                raise UnreadableFileError(path, reason, "damaged")
            return "zip"
        check_unpacked_size(archive, path)
        if package_format.startswith("od"):
            manifest = _read_part(archive, "META-INF/manifest.xml", _MAX_MANIFEST_LENGTH)
            if b"encryption-data" in manifest:
                reason = "encrypted: passwords of OpenDocument files are not tried"
                raise UnreadableFileError(path, reason, "encrypted")
    if data is None and get_content_size(path, data) > MAX_FILE:
        raise UnreadableFileError(
            path,
            f"larger than {MAX_FILE // 2**20} MB",
            "too large",
        )
    return package_format


def _find_package_format(archive: zipfile.ZipFile) -> str:
    """Return the format of an office file or a book, empty for any other archive."""
    names = archive.namelist()
    if "[Content_Types].xml" in names:
        for folder, format in _FORMATS_BY_FOLDER:
            if any(name.startswith(folder) for name in names):
                return format
    mimetype = _read_part(archive, "mimetype", _MAX_MIMETYPE_LENGTH).decode("ascii", "replace")
    return _FORMATS_BY_MIMETYPE.get(mimetype.strip().removesuffix("-template"), "")


def _open_package(path: Path, data: bytes | None) -> AbstractContextManager[zipfile.ZipFile]:
    """Open a package like `open_zip`; one in memory stays open for the readers that follow."""
    if data is not None:
        # If it is damaged, `open_zip` raises the right error.
        with suppress(*DAMAGED):
            return nullcontext(open_package(data))
    return open_zip(path, data)


def _read_part(
    archive: zipfile.ZipFile,
    name: str,
    max_length: int,
) -> bytes:
    """Return a part of a package.

    Empty if it is missing, damaged or larger than `max_length` bytes.
    """
    with suppress(KeyError, *DAMAGED):
        if archive.getinfo(name).file_size <= max_length:
            return archive.read(name)
    return b""


def _find_compound_format(path: Path, data: bytes | None) -> str:
    """Return the format of a compound file by its streams.

    Raises UnreadableFileError if it is damaged, encrypted, or of no format that is read.
    """
    try:
        compound = open_compound(read_bytes(path, data))
    except (ValueError, OverflowError) as error:
        raise UnreadableFileError(path, describe_damage(error)) from error
    if "EncryptedPackage" in compound or "EncryptionInfo" in compound:
        raise UnreadableFileError(path, explain_lock(), "encrypted")
    for stream, format in _FORMATS_BY_STREAM:
        if stream in compound:
            return format
    if "__properties_version1.0" in compound:
        return "msg"
    raise UnreadableFileError(
        path, "a compound file that holds no document of a kind that is read", "unsupported"
    )
