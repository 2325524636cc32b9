"""Parts of office files, which are XML: how they are parsed and written, and Word's values."""

from __future__ import annotations

from typing import Any

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
"""The namespace of Word's elements and attributes."""
SPACE = "{http://www.w3.org/XML/1998/namespace}space"
"""The attribute that keeps blanks, if it is `preserve`."""

# Bytes of a text, such as a file in base64, that the parser reads by default.
_MAX_TEXT_SIZE = 10_000_000


def parse_xml(part: bytes, *, recover: bool = False) -> Any:
    """Return the root of a part's XML, an element called `none` if the part is damaged.

    With `recover`, a damaged part is read as far as possible, and `none` means that nothing in it
    can be read.
    """
    from lxml import etree

    # The limits of the parser, such as 10 MB for a text, also keep entities from growing.
    may_have_entities = b"<!ENTITY" in part or b"\0" in part
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        huge_tree=len(part) > _MAX_TEXT_SIZE and not may_have_entities,
        load_dtd=False,
        recover=recover,
    )
    try:
        root = etree.fromstring(part, parser)
    except etree.XMLSyntaxError:
        root = None
    if root is None:
        return etree.Element("none")
    return root


def serialise_xml(root: Any) -> bytes:
    """Return the XML of a part from its root."""
    from lxml import etree

    return bytes(etree.tostring(root, encoding="UTF-8", xml_declaration=True, standalone=True))


def read_value(parent: Any, name: str) -> str:
    """Return the value of a child `<w:name w:val="…"/>`, empty if there is none."""
    child = parent.find(f"{W}{name}")
    if child is None:
        return ""
    return read_attribute(child, "val")


def read_attribute(node: Any, name: str) -> str:
    """Return the attribute `w:name` of an element, empty if there is none."""
    return str(node.get(f"{W}{name}") or "")


def index_styles(sheet: bytes) -> dict[str, Any]:
    """Return the styles in Word's `styles.xml` by id."""
    styles = parse_xml(sheet).iterchildren(f"{W}style")
    return {read_attribute(style, "styleId"): style for style in styles}
