"""Documents of Pages, Keynote and Numbers, of today and of iWork '09."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pytest
from fixtures import office
from fixtures.errors import unreadable
from fixtures.read_files import only, opened

from engine.core.records import ReadDocument
from engine.corpus.formats import LeftOut
from engine.corpus.formats.opening import read_everything

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data" / "office" / "tika"
Fields = Sequence[tuple[int, int | bytes]]
_SF = (
    'xmlns:sf="http://developer.apple.com/namespaces/sf"'
    ' xmlns:sfa="http://developer.apple.com/namespaces/sfa"'
    ' xmlns:key="http://developer.apple.com/namespaces/keynote2"'
)


def varint(number: int) -> bytes:
    """Return a number in as many groups of seven bits as it needs."""
    head = b""
    while number > 0x7F:
        head += bytes([number & 0x7F | 0x80])
        number >>= 7
    return head + bytes([number])


def message(fields: Fields) -> bytes:
    """Return a message of Protocol Buffers."""
    parts = b""
    for key, value in fields:
        if isinstance(value, int):
            parts += varint(key << 3) + varint(value)
        else:
            parts += varint(key << 3 | 2) + varint(len(value)) + value
    return parts


def member(*objects: tuple[int, int, Fields]) -> bytes:
    """Return a member of objects (number, type, fields), packed as literals of Snappy."""
    data = b""
    for number, kind, fields in objects:
        content = message(fields)
        facts = message([(1, kind), (3, len(content))])
        header = message([(1, number), (2, facts)])
        data += varint(len(header)) + header + content
    blocks = b""
    for start in range(0, len(data), 60):
        literal = data[start : start + 60]
        block = varint(len(literal)) + bytes([(len(literal) - 1) << 2]) + literal
        blocks += b"\0" + len(block).to_bytes(3, "little") + block
    return blocks


def storage(
    number: int,
    text: str,
    kind: int | None = None,
) -> tuple[int, int, Fields]:
    """Return an object that holds a text."""
    fields: list[tuple[int, int | bytes]] = [] if kind is None else [(1, kind)]
    return (
        number,
        2001,
        [*fields, (3, text.encode())],
    )


def reference(number: int) -> bytes:
    return message([(1, number)])


def table_texts(*texts: str) -> tuple[int, int, Fields]:
    """Return the list of the texts in a table's cells, the last one first, as the programs do."""
    entries = [message([(1, at), (2, 1), (3, text.encode())]) for at, text in enumerate(texts)]
    return (
        9,
        6005,
        [(1, 1), *((3, entry) for entry in reversed(entries))],
    )


PAGES = {
    "Index/Document.iwa": member(
        storage(4, "The pelican boards.\n\ufffc\u2029At dawn."),
        storage(5, "Contract 4711", 1),
        (6, 4, [(2, 7)]),
    ),
    "Index/DocumentStylesheet.iwa": b"\0\1",
    "Index/Tables/DataList-2.iwa": member(table_texts("Berth", "Depth")),
}
# The tree of slides has the second one first.
KEYNOTE = {
    "Index/Document.iwa": member(
        (1, 2, [(3, message([(2, reference(12)), (2, reference(11))]))]),
        (11, 4, [(2, reference(21))]),
        (12, 4, [(2, reference(22))]),
    ),
    "Index/Slide-1.iwa": member((21, 5, []), storage(31, "Moorings"), storage(32, "Slowly.", 4)),
    "Index/Slide-2.iwa": member((22, 5, []), storage(33, "Pilots"), storage(34, "The pelican.")),
    "Index/TemplateSlide-3.iwa": member((23, 5, []), storage(35, "Click to type")),
}


def test_a_text_its_tables_and_its_headers(tmp_path: Path) -> None:
    document = only(opened(tmp_path, "a.pages", office.zipped(PAGES)))
    assert document.text == "The pelican boards.\n\nAt dawn.\n\nBerth\nDepth\nContract 4711"
    assert document.format == "pages"


def test_slides_stand_in_the_order_of_the_presentation(tmp_path: Path) -> None:
    inner = io.BytesIO(office.zipped(KEYNOTE))
    packages = (office.zipped(KEYNOTE), office.zipped({"a.key/Index.zip": inner.getvalue()}))
    for package in packages:
        document = only(opened(tmp_path, "a.key", package))
        assert document.text == "Pilots\n\nThe pelican.\n\nMoorings\n\nNotes:\nSlowly."
        assert [page.name for page in document.pages] == ["slide 1", "slide 2"]


def test_an_inner_package_is_no_bomb(tmp_path: Path) -> None:
    inner = office.zipped({"Index/Slide-1.iwa": bytes(80 * 2**20)})
    with unreadable("too large"):
        opened(
            tmp_path,
            "a.key",
            office.zipped({"a.key/Index.zip": inner}),
        )


def test_slides_without_an_order_stand_as_they_are_stored(tmp_path: Path) -> None:
    slides = {name: part for name, part in KEYNOTE.items() if name != "Index/Document.iwa"}
    document = only(opened(tmp_path, "a.key", office.zipped(slides)))
    assert document.text == "Moorings\n\nNotes:\nSlowly.\n\nPilots\n\nThe pelican."


def test_repetitions_are_unpacked(tmp_path: Path) -> None:
    """A block of Snappy copies what it has written before, even what it is just writing."""
    text = b"abcabcabcabcabc"
    facts = message([(1, 2001), (3, len(text) + 2)])
    header = message([(1, 4), (2, facts)])
    literal = varint(len(header)) + header + b"\x1a" + bytes([len(text)]) + b"abc"
    # 12 letters, from 3 before; then the same by the form with an offset of two bytes.
    short = bytes([(8 - 4) << 2 | 1, 3])
    long = bytes([(4 - 1) << 2 | 2]) + (6).to_bytes(2, "little")
    block = varint(99) + bytes([(len(literal) - 1) << 2]) + literal + short + long
    packed = b"\0" + len(block).to_bytes(3, "little") + block
    document = only(opened(tmp_path, "a.pages", office.zipped({"Index/Document.iwa": packed})))
    assert document.text == text.decode()


def test_a_damaged_member_is_listed_and_what_is_no_document_has_a_reason(tmp_path: Path) -> None:
    torn = {**PAGES, "Index/Tables/DataList-2.iwa": b"\0\x05\0\0\x09\x01\x07\x00\x00"}
    document, left = opened(
        tmp_path,
        "a.pages",
        office.zipped(torn),
    )
    assert isinstance(document, ReadDocument)
    assert isinstance(left, LeftOut)
    assert (left.member, left.kind) == ("Index/Tables/DataList-2.iwa", "damaged")
    no_text = member((4, 2001, [(3, 7)]), storage(5, "At dawn."))
    document = only(opened(tmp_path, "d.pages", office.zipped({"Index/Document.iwa": no_text})))
    assert document.text == "At dawn."
    with unreadable("encrypted"):
        opened(
            tmp_path,
            "b.pages",
            office.zipped({**PAGES, ".iwph": b"x"}),
        )
    with unreadable("empty"):
        opened(
            tmp_path,
            "c.pages",
            office.zipped({"Index/Document.iwa": b""}),
        )
    with unreadable("unsupported"):
        opened(tmp_path, "private.key", b"-----BEGIN PRIVATE KEY-----\n")


def test_documents_of_iwork_09(tmp_path: Path) -> None:
    cells = (
        '<sf:g sf:ct="0"/><sf:t><sf:ct sfa:s="Depth"/></sf:t>'
        '<sf:t sf:ct="255"><sf:ct sfa:s="North"/></sf:t><sf:n sf:v="12.300000000000001"/>'
        '<sf:d sf:ct="255" sf:cell-date="86400"/><sf:f><sf:r><sf:rn sf:v="7"/></sf:r></sf:f>'
    )
    text = (
        f"<d {_SF}><sf:stylesheet><sf:p>Style</sf:p></sf:stylesheet><sf:p>The <sf:span>peli"
        "</sf:span>can<sf:br/></sf:p><sf:p><sf:ghost-text>Type here</sf:ghost-text></sf:p>"
        f"<sf:grid><sf:datasource>{cells}</sf:datasource></sf:grid></d>"
    )
    document = only(opened(tmp_path, "a.pages", office.zipped({"index.xml": text})))
    assert document.text == "The pelican\n\nDepth\nNorth | 12.3\n2001-01-02 | 7"
    slides = (
        f"<d {_SF}><key:theme-list><sf:p>Theme</sf:p></key:theme-list><key:slide-list><key:slide>"
        "<key:page><sf:p>Pilots</sf:p></key:page><key:notes><sf:p>Slowly.</sf:p></key:notes>"
        "</key:slide></key:slide-list></d>"
    )
    presentation = only(opened(tmp_path, "a.key", office.zipped({"index.apxl": slides})))
    assert presentation.text == "Pilots\n\nNotes:\nSlowly."


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data is not there")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("testPages2013.pages", ["Sample pages document", "A text box with text.", "Cell nine"]),
        ("testKeynote2013.key", ["A sample presentation", "Notes:\nA nice note", "Cell eight"]),
        ("testKeynote2018.key", ["Libreoffice 6.2", "Test running..."]),
        (
            "testNumbers2013.numbers",
            ["Description: Rent | Category: 2 | Amount: -775", "Checking Account: 300545668"],
        ),
        ("testNumbers.numbers", ["Date: 2009-10-01 | Description: Rent | Category: Home"]),
        ("testPagesComments.pages", ["Plloaso mako nuto"]),
    ],
)
def test_real_files(name: str, words: list[str]) -> None:
    document = only(list(read_everything(SHARED / name, name.rpartition(".")[2])))
    assert [word for word in words if word not in document.text] == []
