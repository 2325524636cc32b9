"""Formats of files, by their names, or by their first bytes if the name has no format."""

from __future__ import annotations

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE

MAGIC = bytes.fromhex("d0cf11e0a1b11ae1")  # The first bytes of compound files.
TNEF = bytes.fromhex("789f3e22")  # The first bytes of winmail.dat.
# Ending of a file's name → format. All kinds of compressed files are read as tar archives.
FORMATS = {
    ".txt": "txt",
    ".text": "txt",
    ".log": "txt",
    ".rst": "txt",
    ".adoc": "txt",
    ".asciidoc": "txt",
    ".org": "txt",
    ".tex": "txt",
    ".srt": "txt",
    ".vtt": "txt",
    ".yaml": "txt",
    ".yml": "txt",
    ".ini": "txt",
    ".cfg": "txt",
    ".conf": "txt",
    ".properties": "txt",
    ".sql": "txt",
    ".bib": "txt",
    ".textile": "txt",
    ".wiki": "txt",
    ".mediawiki": "txt",
    ".nfo": "txt",
    # Programs and scripts, but not those of web pages, which lie next to each page that is saved.
    **dict.fromkeys((".bas", ".bat", ".c", ".cc", ".cmd", ".cpp", ".cs", ".f90", ".go"), "txt"),
    **dict.fromkeys((".h", ".hpp", ".java", ".jl", ".kt", ".lua", ".m", ".pl", ".ps1"), "txt"),
    **dict.fromkeys((".py", ".r", ".rb", ".rs", ".scl", ".sh", ".swift", ".vb"), "txt"),
    **dict.fromkeys((".md", ".markdown", ".mdx", ".qmd", ".rmd"), "md"),
    ".rtf": "rtf",
    ".epub": "epub",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".webarchive": "webarchive",
    ".pdf": "pdf",
    ".docx": "docx",
    ".docm": "docx",
    ".dotx": "docx",
    ".dotm": "docx",
    ".doc": "doc",
    ".dot": "doc",
    ".pptx": "pptx",
    ".pptm": "pptx",
    ".ppsx": "pptx",
    ".ppsm": "pptx",
    ".potx": "pptx",
    ".potm": "pptx",
    ".ppt": "ppt",
    ".pps": "ppt",
    ".pot": "ppt",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
    ".xltx": "xlsx",
    ".xltm": "xlsx",
    ".xlsb": "xlsx",
    ".xls": "xls",
    ".xlt": "xls",
    ".pages": "pages",
    ".key": "key",
    ".numbers": "numbers",
    **dict.fromkeys((".vsdx", ".vsdm", ".vstx", ".vstm"), "vsdx"),
    ".odt": "odt",
    ".ott": "odt",
    ".ods": "ods",
    ".ots": "ods",
    ".odp": "odp",
    ".otp": "odp",
    ".odg": "odp",
    ".fodt": "odt",
    ".fods": "ods",
    ".fodp": "odp",
    ".fodg": "odp",
    ".otg": "odp",
    ".eml": "eml",
    ".emlx": "eml",
    ".mht": "mhtml",
    ".mhtml": "mhtml",
    ".msg": "msg",
    ".oft": "msg",
    ".mbox": "mbox",
    ".mbx": "mbox",
    ".p7m": "p7m",
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".enex": "enex",
    ".ipynb": "ipynb",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    **dict.fromkeys((".xml", ".opml"), "xml"),
    ".ics": "ics",
    ".ical": "ics",
    ".vcf": "vcf",
    ".vcard": "vcf",
    ".zip": "zip",
    ".7z": "7z",
    **dict.fromkeys((".tar", ".tgz", ".txz", ".tbz", ".tbz2", ".tzst"), "tar"),
    **dict.fromkeys((".gz", ".xz", ".bz2", ".zst"), "tar"),
}
PICTURES = {
    ".png": "png",
    ".jpg": "jpg",
    ".jpeg": "jpg",
    ".tif": "tif",
    ".tiff": "tif",
    ".bmp": "bmp",
    ".gif": "gif",
    ".webp": "webp",
}
"""Endings of the pictures that OCR reads, if it is on, and their formats."""
OCR_FORMATS = frozenset({"pdf", *PICTURES.values()})
"""Formats of which OCR may read something."""
IMAGES = frozenset({*PICTURES, ".heic"})
"""Endings of pictures, also of those that OCR does not read."""
# Formats that are read piece by piece, so that files may be larger than `MAX_FILE`.
STREAMED = frozenset({"zip", "tar", "7z", "mbox"})
# Formats whose files are not texts.
BINARY = frozenset(
    {
        "pdf",
        "docx",
        "doc",
        "pptx",
        "ppt",
        "xlsx",
        "xls",
        "vsdx",
        "pages",
        "key",
        "numbers",
        "odt",
        "ods",
        "odp",
        "epub",
        "msg",
        "zip",
        "tar",
        "7z",
    }
)
ARCHIVES = frozenset({"zip", "tar", "7z"})
COMPRESSED = {
    b"\x1f\x8b": "gz",
    b"BZh": "bz2",
    b"\xfd7zXZ\0": "xz",
    b"(\xb5/\xfd": "zst",
}
"""First bytes of a compressed file or a compressed tar archive."""
SEVEN_ZIP = b"7z\xbc\xaf'\x1c"
_TAR_OFFSET = 257
_TAR = b"ustar"  # Lies at that offset.
# Header fields of mails, such as `Date:`, `X-Mailer:` and `List-Id:`.
_HEADER = re.compile(
    rb"(?:received|return-path|from|to|cc|subject|date|message-id|mime-version|delivered-to|reply-to|sender|"
    rb"content-type|envelope-to|status|authentication-results|dkim-signature|(?:x|arc|list)-[a-z0-9-]+)["
    rb" \t]*:",
    re.IGNORECASE,
)
_HEADER_LINES = 12  # Lines that are looked at to recognise a mail.
# `~$Offer.docx`, `.~lock.Offer.odt#`, `~WRD0001.tmp`, `plan.dwl` and the like.
_LOCK_FILE = re.compile(
    r"~\$.+|\.~lock\..+|~WR[A-Z]\d{4}\.tmp|.+\.(?:laccdb|ldb|dwl2?|idlk)", re.IGNORECASE
)
# `1700000000.M12P34.host` and `1700000000_1.12345.host:2,S`, mails in a Maildir.
_MAILDIR_NAME = re.compile(r"\d{9,10}(?:_\d+)?\.[A-Z]?\d\w*\.\S+")
# Endings of files that also end the names of computers.
_DOMAINS = frozenset((".cc", ".md", ".org", ".pl", ".py", ".rs", ".sh"))
# An ending that may name a format. `~` and `#` are those of backups: `notes.txt~`.
_FORMAT_NAME = re.compile(r"\.(?=.*[a-z])[a-z0-9_~#+]+")
# Names of programs on web servers, which browsers give to pages and files from there.
SERVED = frozenset((".php", ".asp", ".aspx", ".ashx", ".jsp", ".do", ".cgi"))
"""Endings that say nothing about the format, though a text with one of them is a program."""
# Folders and files of Windows, macOS and network drives: deleted files, pictures of files and
# folders, and where a file came from (`plan.pdf:Zone.Identifier`).
_SYSTEM_NAME = re.compile(
    r"\$recycle\.bin|system volume information|#recycle|@recycle|@eadir|__macosx|desktop\.ini"
    r"|(?:eh)?thumbs\.db|icon\r|.+:zone\.identifier",
    re.IGNORECASE,
)
# What clouds leave in the place of a file that is not on this device.
_PLACEHOLDER = re.compile(r"\.(.+)\.icloud|(.+)\.(?:nextcloud|owncloud)")
# A file of more bytes may be a document that somebody has given such a name.
_MAX_LOCK_SIZE = 2048
# `winmail.dat`, `win mail (2).dat`, `a.tnef`
_TNEF_NAME = re.compile(r"win\s?mail(?:[ (\d)]*)\.dat|.+\.tne?f", re.IGNORECASE)
RTF = re.compile(rb"\{\\rtf(?:1|(?=[\\{]))")  # `{\rtf1`, and `{\rtf` before a command or group
PAGE = (b"<!doctype html", b"<html")
"""The beginnings of an HTML page, in lower case."""
HEAD_LENGTH = 4096
"""Number of bytes at a file's beginning that tell its format."""
_BYTE_ORDER_MARKS = (BOM_UTF8, BOM_UTF16_LE, BOM_UTF16_BE)
# Control characters that a text hardly contains: all but tab, line ends, form feed and escape.
_CONTROLS = bytes({*range(32), 127} - {*b"\t\n\r\f\x1b"})
# Largest share of such characters among the first bytes of a text.
_MAX_CONTROL_SHARE = 0.01


def ending_of(path: str) -> str:
    """Return the ending of a file name: `a/Report.PDF` → `.pdf`.

    Empty for a name without an ending, such as `README` or `.profile`, and for mails in a Maildir,
    whose names end in that of a computer.
    """
    file_name = path.rpartition("/")[2]
    name, dot, ending = file_name.rpartition(".")
    if not (dot and name and ending):
        return ""
    format_ending = f".{ending.lower()}"
    # `1234567890.2.final.csv` is a table, but `.org` may end the name of a mail server.
    may_be_format = format_ending in FORMATS or format_ending in IMAGES
    may_be_domain = format_ending in _DOMAINS and file_name.count(".") > 2
    is_file_name = may_be_format and not may_be_domain
    is_numbered = file_name[:9].isdigit() and not is_file_name
    if is_numbered and _MAILDIR_NAME.fullmatch(file_name):
        return ""
    return format_ending


def is_lock_file(path: str, size: int) -> bool:
    """Return whether a file says who has a document open, such as Office's `~$Offer.docx`.

    Programs put such files, which are small, next to the document.
    """
    return size <= _MAX_LOCK_SIZE and _LOCK_FILE.fullmatch(path.rpartition("/")[2]) is not None


def is_hidden_name(name: str) -> bool:
    """Return whether the name of a file or folder is one that systems hide."""
    return name.startswith(".") or _SYSTEM_NAME.fullmatch(name) is not None


def find_online_file(path: str) -> str:
    """Return the path of the file in whose place a cloud left a placeholder, empty for others.

    `a/.Plan.pdf.icloud` → `a/Plan.pdf`
    """
    folder, slash, name = path.rpartition("/")
    match = _PLACEHOLDER.fullmatch(name)
    if match is None:
        return ""
    return f"{folder}{slash}{match[1] or match[2]}"


def list_placeholders(name: str) -> tuple[str, ...]:
    """Return the names of the files that clouds leave in the place of the file `name`."""
    return (
        f".{name}.icloud",
        f"{name}.nextcloud",
        f"{name}.owncloud",
    )


def is_tnef(path: str) -> bool:
    """Return whether a file has the name of Outlook's packed attachments."""
    return _TNEF_NAME.fullmatch(path.rpartition("/")[2]) is not None


def names_no_format(ending: str) -> bool:
    """Return whether an `ending`, as `ending_of` returns it, names no format.

    It is empty, a number (of `Contract 2.1`), the rest of a sentence (of `Dr. Ada to Bo`), or has
    other characters than the name of a format: `mail.log-20311130`, `plan.pdf(1)`.
    """
    return _FORMAT_NAME.fullmatch(ending) is None


def format_of_head(head: bytes) -> str:
    """Return the format of a file by its first bytes, empty if they are those of no known format.

    All compound files are `doc` and all ZIP packages `zip` here; `find_true_format` looks into
    them.
    """
    start = head.removeprefix(BOM_UTF8).lstrip()
    if start.startswith(b"%PDF-"):
        return "pdf"
    if head.startswith(TNEF):
        return "tnef"
    if RTF.match(start):
        return "rtf"
    if head.startswith(MAGIC):
        return "doc"
    if head.startswith(b"PK\x03\x04"):
        return "zip"
    if start[: len(PAGE[0])].lower().startswith(PAGE):
        return "html"
    if head.startswith(b"From ") and is_mail(head.partition(b"\n")[2]):
        return "mbox"
    return "eml" if is_mail(head) else ""


def format_without_ending(head: bytes) -> str:
    """Return the format of a file whose name has no format, by its first bytes.

    A text such as `README` is read as one. Empty for anything that is not known.
    """
    format = format_of_head(head)
    if not format and _looks_like_text(head):
        return "txt"
    return format


def _looks_like_text(head: bytes) -> bool:
    """Return whether a file begins with a byte order mark, or has next to no control characters."""
    if head.startswith(_BYTE_ORDER_MARKS):
        return True
    if not head.strip() or b"\0" in head:
        return False
    without_controls = head.translate(None, delete=_CONTROLS)
    return len(head) - len(without_controls) <= _MAX_CONTROL_SHARE * len(head)


def archive_format(head: bytes) -> str:
    """Return the format of an archive or a compressed file by its first bytes.

    Empty for any other file, and for ZIP.
    """
    if head.startswith(SEVEN_ZIP):
        return "7z"
    if head.startswith(tuple(COMPRESSED)) or head.startswith(_TAR, _TAR_OFFSET):
        return "tar"
    return ""


def is_header(line: bytes) -> bool:
    """Return whether a line is a header field of a mail."""
    return _HEADER.match(line) is not None


def is_mail(head: bytes) -> bool:
    """Return whether the lines before the first empty one are two or more fields of a mail."""
    lines = re.split(rb"\r?\n", head.lstrip(b"\r\n"))[:_HEADER_LINES]
    fields = 0
    for line in lines:
        if not line:
            break
        is_continuation = fields > 0 and line[:1] in b" \t"
        if _HEADER.match(line):
            fields += 1
        # Fields of any other name are allowed, and the first line of an mbox.
        elif not is_continuation and b":" not in line and not line.startswith(b"From "):
            return False
    return fields >= 2
