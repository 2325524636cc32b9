"""XML, such as electronic invoices: a line for each value, after the names of its elements.

Paragraphs, as in Word 2003 XML, are read as paragraphs, and tables of Excel 2003 XML as tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.core.characters import clean
from engine.core.records import ReadDocument
from engine.corpus.formats import UnreadableFileError, read_bytes
from engine.corpus.formats.damage import describe_damage
from engine.corpus.formats.html import decode_page, show_markup
from engine.corpus.formats.plain import drop_packed_files
from engine.corpus.formats.word_numbers import parse_whole_number
from engine.corpus.formats.xml_parts import parse_xml
from engine.corpus.text.blocks import format_table
from engine.corpus.text.metadata import title_from_name

_DECLARATION = re.compile(r"\A\ufeff?\s*<\?xml[^>]*\?>")
_PARAGRAPHS = ("p", "para", "h")
# Elements that stand for a blank; the last one holds the instruction of a field.
_BLANKS = (
    "tab",
    "br",
    "line-break",
    "s",
    "instrText",
)
_EMPTY_LINES = re.compile(r"\n{3,}")
_SHEET = "{urn:schemas-microsoft-com:office:spreadsheet}"
_MAX_COLUMNS = 2**14  # of Excel
# Styles and other facts for programs, in office files that are one XML file.
_LEFT_OUT = frozenset(
    ("Styles", "styles", "fonts", "lists", "automatic-styles", "master-styles", "WorksheetOptions")
)
_MAX_TITLE_LENGTH = 300


class XmlReader:
    """A reader of .xml files.

    The title is the text of the first element called `title`, else the file's name.
    """

    def read(self, path: Path, data: bytes | None = None) -> Iterator[ReadDocument]:
        """Read a file; see `Reader.read`."""
        source, note = decode_page(read_bytes(path, data), path)
        root = parse_xml(_DECLARATION.sub("", source).encode(), recover=True)
        if root.tag == "none":
            raise UnreadableFileError(
                path,
                describe_damage("invalid XML"),
                "damaged",
            )
        for element in root.iter():
            has_children = len(element) > 0
            if _find_name(element) in _BLANKS and not has_children:
                element.text = " "
        text = _EMPTY_LINES.sub("\n\n", clean("\n".join(_read_lines(root)))).strip()
        if not text:
            raise UnreadableFileError(path, "it holds no text", "empty")
        yield ReadDocument(
            _find_title(root) or title_from_name(path), text, format="xml", note=note
        )


READER = XmlReader()


def _read_lines(root: Any) -> Iterator[str]:
    """Yield the lines of all elements in order.

    `<invoice><seller><name>Ada</name></seller></invoice>` gives `seller.name: Ada`. An empty line
    precedes each child of the root that has children of its own.
    """
    # The walk does not recurse, since elements may nest thousands deep.
    stack = [(root, "")]
    while stack:
        element, parent_name = stack.pop()
        name = _find_name(element)
        if not name or name in _LEFT_OUT:
            continue
        children = [child for child in element if _find_name(child)]
        if element.tag == f"{_SHEET}Table":
            yield format_table([*map(_read_row, element.iterchildren(f"{_SHEET}Row"))])
        elif name in _PARAGRAPHS or _is_mixed(element, children):
            text = _read_text(element)
            if text:
                yield from ("", text, "")
        else:
            if children and element.getparent() is root:
                yield ""
            full_name = f"{parent_name}.{name}" if parent_name else name
            yield from _read_values(
                element,
                full_name,
                is_leaf=not children,
            )
            # The root's name is left out, as it would precede the names of all other elements.
            if element is root:
                name = ""
            stack += [(child, name) for child in reversed(children)]


def _read_values(
    element: Any,
    name: str,
    *,
    is_leaf: bool,
) -> Iterator[str]:
    """Yield a line for the text of an element without children, and one for each attribute."""
    if is_leaf:
        text = _read_text(element)
        if text:
            yield f"{name}: {text}"
    for attribute, value in element.attrib.items():
        # Those of other standards are for programs: `xml:lang`, `xsi:schemaLocation`.
        is_own = not attribute.startswith("{") or attribute == f"{_SHEET}Name"
        if is_own and value.strip():
            yield f"{name}.{_strip_namespace(attribute)}: {' '.join(value.split())}"


def _read_row(row: Any) -> list[str]:
    """Return the cells of a row of Excel."""
    cells: list[str] = []
    for cell in row.iterchildren(f"{_SHEET}Cell"):
        # A cell names its column, from 1, if empty ones before it are left out.
        column = parse_whole_number(cell.get(f"{_SHEET}Index") or "", len(cells) + 1)
        cells += [""] * min(column - len(cells) - 1, _MAX_COLUMNS)
        cells.append(_read_text(cell))
    return cells


def _is_mixed(element: Any, children: list[Any]) -> bool:
    """Return whether an element has text beside its child elements, as paragraphs do."""
    if not children:
        return False
    texts = [element.text, *(child.tail for child in children)]
    return any(text and not text.isspace() for text in texts)


def _read_text(element: Any) -> str:
    """Return the text of an element on one line, without files that are packed in it."""
    text = " ".join(show_markup("".join(element.itertext())).split())
    return drop_packed_files(text).strip()


def _find_name(element: Any) -> str:
    """Return the name of an element without its namespace, empty for a comment and the like."""
    return _strip_namespace(element.tag) if isinstance(element.tag, str) else ""


def _strip_namespace(name: str) -> str:
    return name.rpartition("}")[2]


def _find_title(root: Any) -> str:
    """Return the text of the first element that is called a title, empty if there is none."""
    for element in root.iter():
        if _find_name(element).lower() == "title":
            return _read_text(element)[:_MAX_TITLE_LENGTH]
    return ""
