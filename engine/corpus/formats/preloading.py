"""Everything that reading a file may load, for a process that can open no file later."""

from __future__ import annotations

import encodings
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules, walk_packages

from chardet.models import get_idf_weights, get_language_norms, get_rowmax
from chardet.pipeline.confusion import load_confusion_data

from engine.core.records import ReadDocument
from engine.corpus.formats import UnreadableFileError, find_reader
from engine.corpus.formats.runs.symbols import show_symbols
from engine.corpus.text.suspended import language_of

_PACKAGES = (
    "engine.corpus.formats",
    "engine.corpus.text",
    "chardet",
    "cryptography.hazmat.primitives.ciphers",
    "markdown_it",
    "msoffcrypto",
    "py7zr",
)
_MODULES = (
    "Cryptodome.Cipher._mode_cbc",
    "Cryptodome.Cipher._mode_ctr",
    "backports.zstd",
    "cryptography.hazmat.backends.openssl.backend",
    "dateutil.parser",
    "importlib.readers",
    "linkify_it",
    "lxml.etree",
    "office_oxide",
    "olefile",
    "psutil",
    "pypdfium2",
    "pyzipper",
    "tomllib",
    "xberg",
    "xml.dom.expatbuilder",
    "yaml",
)
"""What readers and their libraries import when a file needs it."""
_WORD = "pelican"
_PDF = b"""%PDF-1.1
1 0 obj<</Pages 2 0 R>>endobj
2 0 obj<</Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/MediaBox[0 0 300 300]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>endobj
4 0 obj<</Length 37>>stream
BT /F 12 Tf 9 200 Td (pelican) Tj ET
endstream endobj
5 0 obj<</Type/Font/Subtype/TrueType/BaseFont/Arial>>endobj
trailer<</Root 1 0 R>>
%%EOF
"""
"""A page with a font of the system, for which PDFium looks."""
_FILES = (
    ("pdf", _PDF),
    ("rtf", rb"{\rtf1\ansi pelican}"),
    ("html", b"<p>pelican"),
)


def load_everything() -> None:
    """Load all modules of all readers, and the tables that they read from files.

    Raises ImportError if a library is there and cannot be loaded.
    """
    for name in _list_modules():
        # Parts of libraries need others that are not installed.
        with suppress(ModuleNotFoundError):
            import_module(name)
    for codec in iter_modules(encodings.__path__):
        # Some are for another system.
        with suppress(ImportError):
            import_module(f"encodings.{codec.name}")
    for load_table in (get_idf_weights, get_language_norms, get_rowmax, load_confusion_data):
        load_table()
    show_symbols("symbol", "a")
    language_of({})
    read_samples()


def _list_modules() -> Iterator[str]:
    """Yield the names of all modules in `_PACKAGES`, and `_MODULES`."""
    for package in _PACKAGES:
        folder = import_module(package).__path__
        for module in walk_packages(folder, f"{package}."):
            if not module.name.endswith(".__main__"):
                yield module.name
    yield from _MODULES


def read_samples() -> None:
    """Read small files of formats whose libraries may open other files, such as fonts.

    Raises UnreadableFileError if one of them is not read as it should be.
    """
    for format, content in _FILES:
        path = Path(f"sample.{format}")
        texts = []
        for part in find_reader(format).read(path, content):
            if isinstance(part, ReadDocument):
                texts.append(part.text)
        if texts != [_WORD]:
            raise UnreadableFileError(path, "its text was not found", "damaged")
