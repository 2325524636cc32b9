"""A second look at files that kreuzberg finds no text in: charts, drawings and embedded HTML of office files; plain RTF."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from engine.corpus.readers import UnreadableFileError, clean

_LARGEST_PART = 64 * 2**20
_PARTS = re.compile(
    r"(?:(?:word|xl|ppt)/(?:charts|drawings|diagrams)/(?:chart|drawing|data)\d*\.xml|word/afchunk\d*\.(?:x?html?))$"
)
_PARAGRAPH, _TEXT = "p", ("t", "v")
_SKIPPED = frozenset({
    "fonttbl", "colortbl", "stylesheet", "info", "pict", "object", "themedata", "colorschememapping", "listtable",
    "listoverridetable", "rsidtbl", "generator", "header", "footer", "headerl", "headerr", "headerf", "footerl", "footerr",
    "footerf", "xmlnstbl", "datastore", "latentstyles", "fldinst", "revtbl",
})  # fmt: skip
_TOKEN = re.compile(rb"\\([a-z]{1,32})(-?\d{1,10})?[ ]?|\\'([0-9a-fA-F]{2})|\\([^a-z])|([{}])|[\r\n]+|([^\\{}\r\n]+)")
_BREAKS = {"par": "\n\n", "line": "\n", "tab": "\t", "cell": " | ", "row": "\n", "sect": "\n\n", "page": "\n\n"}
_SIGNS = {"emdash": "—", "endash": "–", "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”", "bullet": "•"}


def text_of(path: Path, format: str, content: bytes) -> str:
    """What a reader of the file would see of it; empty where that is nothing."""
    if format == "rtf":
        return clean(rtf_text(content)).strip()
    return "\n\n".join(_parts(path, content)) if format in ("docx", "xlsx", "pptx") else ""


def _parts(path: Path, content: bytes) -> Iterator[str]:
    from engine.corpus.html import READER as HTML

    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            for member in archive.infolist():
                if not _PARTS.search(member.filename) or member.file_size > _LARGEST_PART:
                    continue
                data = archive.read(member)
                text = _xml_text(data) if member.filename.endswith(".xml") else _html_text(HTML, path, data)
                if text:
                    yield text
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError):
        return


def _html_text(reader: Any, path: Path, data: bytes) -> str:
    try:
        return str(next(reader.read(path, data)).text)
    except UnreadableFileError:
        return ""


def _xml_text(data: bytes) -> str:
    """The texts of a drawing, a paragraph a line; and the words and numbers of a chart, in order, each once."""
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False, load_dtd=False)
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError):
        return ""
    lines: list[str] = []
    for node in root.iter():
        name = etree.QName(node).localname if isinstance(node.tag, str) else ""
        if name == _PARAGRAPH:
            lines.append("".join(inner.text or "" for inner in node.iter() if _local(inner) == "t"))
        elif name == "v" and node.text:
            lines.append(node.text)
    return "\n".join(dict.fromkeys(filter(None, (" ".join(clean(line).split()) for line in lines))))


def _local(node: Any) -> str:
    return str(node.tag).rpartition("}")[2] if isinstance(node.tag, str) else ""


class _Rtf:
    """Walks over the tokens of an RTF text. A group's state: what is left out, how many characters follow a \\u."""

    def __init__(self, page: str) -> None:
        self._page = page
        self._out: list[str] = []
        self._stack: list[tuple[bool, int]] = []
        self._hidden, self._fallback, self._left = False, 1, 0
        self._bytes = bytearray()
        self._units = bytearray()

    def walk(self, data: bytes) -> str:
        """The text that is shown."""
        at = 0
        while (found := _TOKEN.match(data, at)) is not None:
            at = found.end()
            word, number, code, sign, brace, text = found.groups()
            if word == b"bin":
                at += max(0, int(number or 0))
            elif brace:
                self._brace(brace == b"{")
            elif word:
                self._word(word.decode("ascii"), int(number) if number else None)
            elif code:
                self._byte(bytes([int(code, 16)]))
            elif sign:
                self._sign(sign.decode("latin-1"))
            elif text:
                self._byte(text)
        self._flush()
        return "".join(self._out)

    def _brace(self, opens: bool) -> None:
        if opens:
            self._stack.append((self._hidden, self._fallback))
        elif self._stack:
            self._hidden, self._fallback = self._stack.pop()
        self._left = 0

    def _word(self, word: str, number: int | None) -> None:
        if word in _SKIPPED:
            self._hidden = True
        elif word == "uc":
            self._fallback = max(0, number or 0)
        elif word == "u" and number is not None:
            self._unit(number & 0xFFFF)
        elif word == "ansicpg" and number:
            self._page = f"cp{number}"
        elif word in _BREAKS or word in _SIGNS:
            self._write(_BREAKS.get(word) or _SIGNS[word])

    def _sign(self, sign: str) -> None:
        if sign == "*":
            self._hidden = True
        elif sign in "\\{}~_":
            self._write({"~": "\u00a0", "_": "\u2011"}.get(sign, sign))

    def _unit(self, unit: int) -> None:
        if not self._hidden:
            self._flush(units=False)
            self._units += unit.to_bytes(2, "little")
        self._left = self._fallback

    def _byte(self, data: bytes) -> None:
        passed = min(self._left, len(data))
        self._left -= passed
        if not self._hidden and passed < len(data):
            self._flush(codes=False)
            self._bytes += data[passed:]

    def _write(self, text: str) -> None:
        if not self._hidden:
            self._flush()
            self._out.append(text)

    def _flush(self, *, units: bool = True, codes: bool = True) -> None:
        if units and self._units:
            self._out.append(self._units.decode("utf-16-le", "replace"))
            self._units.clear()
        if codes and self._bytes:
            try:
                self._out.append(self._bytes.decode(self._page, "replace"))
            except LookupError:
                self._out.append(self._bytes.decode("cp1252", "replace"))
            self._bytes.clear()


def rtf_text(data: bytes) -> str:
    """The text of an RTF file, without its tables of fonts, colours and styles, pictures, headers and footers."""
    return re.sub(r"\n{3,}", "\n\n", _Rtf("cp1252").walk(data))
