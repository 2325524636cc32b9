"""Word, Excel, PowerPoint, OpenDocument, RTF and EPUB files put into words that kreuzberg reads. It leaves out tabs, hyphens and
signs that are elements or entities of their own, and what follows such an element inside formatted text; it takes a chapter with an
entity of HTML for broken, and the numbers of a chart for cells of the sheet that it stands on. Of slides it parts words
whose letters are formatted, and puts words together between which a page of Word ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html.entities import html5

from engine.corpus.excel_binary import with_charts_apart
from engine.corpus.number_formats import cells_as_text, sheet_change
from engine.corpus.odf_numbers import with_numbers as numbered
from engine.corpus.package import DAMAGED, Package, package_of
from engine.corpus.rtf import in_code_pages
from engine.corpus.rtf_written import as_read
from engine.corpus.word_binary import as_printed
from engine.corpus.word_numbers import with_numbers

_MAX_PART = 256 * 2**20
_RUN = re.compile(
    rb"<(\w+:)?(?:(tab)\s*/>|(ptab)\b[^<>]*/>|(noBreakHyphen)\s*/>|(cr)\s*/>"
    rb'|sym\b[^<>]*\bchar="([0-9A-Fa-f]{4})"[^<>]*/>)'
)
_NEW_PAGE = re.compile(rb'<(\w+:)?br\s[^<>]*type="page"[^<>]*/>')
_NAMES_OF_RUNS = (b"ptab", b"noBreakHyphen", b":sym", b"<sym")  # faster than the expression
_EMPTY_RUNS = (re.compile(rb"tab\s*/>"), re.compile(rb"cr\s*/>"))
_ATTRIBUTES = rb"""(?:[^<>"']|"[^"<]*"|'[^'<]*')*"""
_INLINE = re.compile(
    rb"<text:(?:(tab)|(s)|(line-break))\b(?!-)%(in)b/>|</?text:(?:span|a|meta)(?:\s%(in)b)?>"
    rb"|<text:(?:soft-page-break|bookmark|bookmark-start|bookmark-end|reference-mark|reference-mark-start|reference-mark-end|"
    rb"change|change-start|change-end)(?:\s%(in)b)?/>" % {b"in": _ATTRIBUTES}
)
_WITH_ENTITIES = re.compile(rb"[<:]t(?:>|\s[^<>]*>)[^<&]*&[^<]*(?=</)")
_ENTITY = re.compile(rb"&(?:(amp|lt|gt|quot|apos)|#(\d{1,7})|#x([0-9A-Fa-f]{1,6}));")
_NAMED = {b"amp": "\ufdd0", b"lt": "\ufdd1", b"gt": ">", b"quot": '"', b"apos": "'"}
_STANDS_FOR = {"\ufdd0": "&", "\ufdd1": "<"}  # what no text holds, for what stands in no XML as itself
_OF_HTML = re.compile(rb"&([A-Za-z][A-Za-z0-9]{1,31};)")
_BOOK, _HEAD = b"http://www.idpf.org/2007/opf", 4096
_BOOK_TITLE = re.compile(rb"<((?:\w+:)?title)\b[^<>]*>[^<]*</\1>")
_LISTED = re.compile(
    rb"<(/?)(?:dl|dt|dd|figure|figcaption)(?=[\s/>])", re.IGNORECASE
)  # kreuzberg leaves out what is in these
_CAPTION = re.compile(
    rb"(<table(?:\s[^<>]*)?>)\s*<caption(?:\s[^<>]*)?>([^<]*(?:<(?!/caption|table)[^<]*){0,60})</caption\s*>",
    re.IGNORECASE,
)
_OF_WORD = re.compile(r"word/(?!(?:styles|stylesWithEffects|settings|webSettings|fontTable|numbering)\.xml)[^/]+\.xml")
_SLIDE = re.compile(r"ppt/(?:slides/slide|notesSlides/notesSlide)\d+\.xml")
_BETWEEN_RUNS = re.compile(
    rb"</(\w+:)?t>\s*</\1r>\s*<\1r(?:\s[^<>]*)?>\s*"
    rb"(?:<\1rPr(?:\s[^<>]*)?(?:/>|(?<!/)>[^<]*(?:<(?!/\1rPr>)[^<]*){0,60}</\1rPr>)\s*)?<\1t(?:\s[^<>]*)?>"
)  # kreuzberg puts a blank there, although a run ends in the midst of a word where that is formatted, or was corrected
_SHEET = re.compile(r"xl/worksheets/[^/]+\.xml")
_MEDIA = re.compile(r"(?:word/media/|xl/media/|Pictures/|Thumbnails/)")


def prepared(format: str, content: bytes) -> bytes:
    """The bytes of a file of some format for kreuzberg; the same where nothing is to be changed in them."""
    if format == "docx":
        return _parts_changed(content, _OF_WORD, _word_change)
    if format == "pptx":
        return _parts_changed(content, _SLIDE, lambda _package: _runs_joined)
    if format == "xlsx":
        return _parts_changed(content, _SHEET, sheet_change)
    if format == "ods":
        return _parts_changed(content, re.compile(r"content\.xml"), lambda _package: cells_as_text)
    if format == "odt":
        return _parts_changed(content, re.compile(r"(?:content|styles)\.xml"), _open_change)
    if format == "epub":
        return _parts_changed(content, re.compile(r".*\.(?:x?html?|opf)", re.DOTALL), lambda _package: _of_book)
    if format == "doc":
        return as_printed(content)
    if format == "xls":
        return with_charts_apart(content)
    if format == "rtf":
        return as_read(in_code_pages(content))
    return content


def restored(text: str) -> str:
    """A text that was read from `prepared` bytes as it was meant; as long as before."""
    if text.isascii():
        return text
    for stand_in, sign in _STANDS_FOR.items():
        text = text.replace(stand_in, sign)
    return text


def _word_change(package: Package) -> Callable[[bytes], bytes]:
    return lambda xml: _word(with_numbers(xml, package) if b"<w:document" in xml[:_HEAD] else xml)


def _word(xml: bytes) -> bytes:
    if b'"page"' in xml:
        xml = _NEW_PAGE.sub(rb"<\1br/>\g<0>", xml)
    if any(name in xml for name in _NAMES_OF_RUNS) or any(empty.search(xml) for empty in _EMPTY_RUNS):
        xml = _RUN.sub(_run, xml)
    if b"&" not in xml:
        return xml
    return _WITH_ENTITIES.sub(lambda found: _ENTITY.sub(_entity, found[0]), xml)


def _entity(found: re.Match[bytes]) -> bytes:
    name, decimal, code = found.groups()
    return _NAMED[name].encode() if name else _character(int(decimal) if decimal else int(code, 16), found[0])


def _run(found: re.Match[bytes]) -> bytes:
    prefix, tab, place, hyphen, line, symbol = found.groups(b"")
    if line:
        return b"<%sbr/>" % prefix
    shown = b"\t" if tab or place else b"-" if hyphen else _character(int(symbol, 16), b" ")
    return b'<%st xml:space="preserve">%s</%st>' % (prefix, shown, prefix)


def _character(code: int, other: bytes) -> bytes:
    """A character as XML text; `other` for one that is none, or has its place in a font of pictures."""
    if (code < 0x20 and code not in (0x9, 0xA)) or 0xD800 <= code < 0xF900 or code > 0x10FFFF:
        return other
    named = {"&": _NAMED[b"amp"], "<": _NAMED[b"lt"]}
    return named.get(chr(code), chr(code)).encode()


def _inline(found: re.Match[bytes]) -> bytes:
    tab, blank, line = found.groups()
    return b"\t" if tab else b" " if blank else b"\n" if line else b""


def _open_change(package: Package) -> Callable[[bytes], bytes]:
    return lambda xml: _inlined(numbered(xml, package) if b"<office:document-content" in xml[:_HEAD] else xml)


def _inlined(xml: bytes) -> bytes:
    return _INLINE.sub(_inline, xml)


def _runs_joined(xml: bytes) -> bytes:
    return _BETWEEN_RUNS.sub(b"", xml)


def _of_book(part: bytes) -> bytes:
    """A chapter without lists of terms, figures, captions of tables and the names of HTML for signs; what a book says of itself
    with its first title alone, which is its own.
    """
    if _BOOK not in part[:_HEAD]:
        part = _CAPTION.sub(rb"<p>\2</p>\1", _LISTED.sub(rb"<\1div", part))
        return _OF_HTML.sub(_of_html, part)
    first = _BOOK_TITLE.search(part)
    return part[: first.end()] + _BOOK_TITLE.sub(b"", part[first.end() :]) if first else part


def _of_html(found: re.Match[bytes]) -> bytes:
    name = found[1].decode("ascii")
    known = name[:-1].encode() not in _NAMED and html5.get(name)
    return "".join(f"&#{ord(sign)};" for sign in known).encode() if known else found[0]


def _parts_changed(
    content: bytes, parts: re.Pattern[str], change_for: Callable[[Package], Callable[[bytes], bytes] | None]
) -> bytes:
    """A package with some parts changed, and without its pictures; as it was where nothing is to be changed, or where it
    is damaged, which is the reader's to say. `change_for` gives what changes a part of this package, if anything does.
    """
    try:
        package = package_of(content)
        if (change := change_for(package)) is None:
            return content
        members = [member for member in package.archive.infolist() if member.file_size <= _MAX_PART]
        read = {
            member.filename: package.read(member.filename) for member in members if parts.fullmatch(member.filename)
        }
        changed = {name: data for name, old in read.items() if (data := change(old)) != old}
        if not changed:
            return content
        pictures = {name: b"" for name in package.archive.namelist() if _MEDIA.match(name)}
        return package.changed(pictures | changed)
    except DAMAGED:
        return content
