"""Packages put together anew, and the letters of a text: what they must give, whatever is in them."""

from __future__ import annotations

import zipfile
from io import BytesIO

import pytest
from lxml import etree

from engine.corpus.letters import has_letters, letters_of
from engine.corpus.package import DAMAGED, Package, forget, package_of
from engine.corpus.places import place_pages
from engine.corpus.readers import Page
from engine.corpus.second_look import paragraph_pieces, paragraph_text
from engine.corpus.structure import Text, parted


def packed(parts: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return file.getvalue()


def test_a_package_with_changed_parts_holds_all_others_as_they_were() -> None:
    parts = {"word/document.xml": b"<w/>" * 90, "media/ø.png": bytes(range(256)), "empty": b"", "last.xml": b"<l/>"}
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_BZIP2):
        new = {"word/document.xml": b"<changed/>", "media/ø.png": b""}
        changed = Package(packed(parts, method)).changed(new)
        with zipfile.ZipFile(BytesIO(changed)) as archive:
            assert archive.testzip() is None
            assert {name: archive.read(name) for name in archive.namelist()} == parts | new


def test_of_parts_of_one_name_the_last_counts() -> None:
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.xml", b"first")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("a.xml", b"second")
        archive.writestr("b.xml", b"other")
    package = Package(file.getvalue())
    assert package.read("a.xml") == b"second"
    with zipfile.ZipFile(BytesIO(package.changed({"b.xml": b"changed"}))) as archive:
        assert [(name, archive.read(name)) for name in archive.namelist()] == [
            ("a.xml", b"second"),
            ("b.xml", b"changed"),
        ]


def test_a_part_is_read_as_zipfile_reads_it_or_not_at_all() -> None:
    """Of a package that is whole, and of one with each of its bytes changed in turn."""
    parts = {"a.xml": b"pelican " * 9, "ø.xml": b"heron", "empty": b""}
    for content in (packed(parts), packed(parts, zipfile.ZIP_STORED), packed(parts, zipfile.ZIP_BZIP2)):
        for at in range(-1, content.index(b"PK\1\2")):
            harmed = bytearray(content)
            if at >= 0:
                harmed[at] ^= 0x41
            with zipfile.ZipFile(BytesIO(harmed)) as archive:
                package = Package(bytes(harmed))
                for name in archive.namelist():
                    try:
                        reported: bytes | None = archive.read(name)
                    except DAMAGED:
                        reported = None
                    try:
                        assert package.read(name) == reported
                    except DAMAGED:
                        assert reported is None, (name, at)


def test_damaged_and_locked_parts_are_not_taken() -> None:
    content = packed({"a.xml": b"pelican", "b.xml": b"heron"})
    for place, byte in ((0, 0), (6, None)):  # no part begins there; the part is locked
        harmed = bytearray(content)
        if byte is None:
            harmed[harmed.index(b"PK\1\2") + 8] |= 1
        else:
            harmed[place] = byte
        with pytest.raises(DAMAGED):
            Package(bytes(harmed)).changed({"b.xml": b"changed"})


def test_a_package_is_opened_once_for_the_same_bytes() -> None:
    content = packed({"a.xml": b"pelican"})
    assert package_of(content) is package_of(content)
    first = package_of(content)
    assert package_of(packed({"a.xml": b"heron"})).read("a.xml") == b"heron"
    assert package_of(content) is not first
    forget()
    assert package_of(content).read("a.xml") == b"pelican"


def test_letters_are_what_python_calls_so() -> None:
    signs = [chr(code) for code in range(0x110000)]
    wrong = [
        sign for sign in signs if (letters_of(sign) == sign) != sign.isalnum() or has_letters(sign) != sign.isalnum()
    ]
    assert wrong == []
    assert letters_of("The pelican_no. 7,\n boards!") == "Thepelicanno7boards"
    assert letters_of("Grüße — 7½ _ Möwen") == "Grüße7½Möwen"


def test_marked_pages_are_parted_at_their_marks() -> None:
    text = "before\n\n\n\x02page 1\x03\n\nThe tern.\n\n\n\x02page 2\x03\n\n\x02page 10\x03\nThe gull.\n"
    assert parted(text) == ("before", {1: "The tern.", 2: "", 10: "The gull.\n"})
    assert parted("no mark\n") == ("no mark\n", {})


def test_pages_begin_at_their_letters_beyond_a_piece_of_the_text() -> None:
    """The second page begins within a word's line, far behind the first: 5,000 signs of other than letters stand between."""
    first, second = "The pelican boards at dawn.", "— Wren 7 waits for the tide."
    text = Text(f"{first}{'. ' * 2500}\n{second}")
    placed = place_pages(text, [first, second.removeprefix("— ")])
    assert placed.pages == (Page(0, 1, "page 1"), Page(text.text.index("—"), 2, "page 2"))
    inside = Text(f"{first} And {second}")
    assert place_pages(inside, [first, second]).pages[1].start == inside.text.index("Wren")


def test_a_paragraph_found_at_once_is_as_a_walk_finds_it() -> None:
    """What a walk passes over, or reads otherwise, leaves it to the walk: paragraphs inside, fields of slides, notes."""
    for inside, reported in (
        ("<r><t>The </t><tab/><t>pel</t></r><r><t>ican</t></r>", "The  pelican"),
        ("<r><t>a</t><br><rPr/></br><t>b</t><noBreakHyphen/><t>c</t><delText>gone</delText></r>", "a b-c"),
        ("<r><t>a</t></r><txbx><p><r><t>inner</t></r></p></txbx><r><t>b</t></r>", "ab"),
        ("<r><t>page </t></r><fld><t>3</t></fld><pPr><tabs><tab/></tabs></pPr>", "page  "),
        ("<r><t>a<s/>tail</t>tail</r><tab><t>within</t></tab>", "a  "),
        ("", ""),
    ):
        node = etree.fromstring(f"<p xmlns='urn:w'>{inside}</p>")
        assert paragraph_text(node) == reported == "".join(paragraph_pieces(node, every=False)), inside
    whole = etree.fromstring("<p>a<span>b<note>gone</note>c</span>d</p>")
    assert paragraph_text(whole, every=True) == "abcd"
