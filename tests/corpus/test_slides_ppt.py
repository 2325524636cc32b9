"""Presentations of PowerPoint before 2007 are read slide by slide. They are written by hand."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from fixtures.office import compound

from engine.corpus.opening import everything_in
from engine.corpus.readers import ReadDocument
from engine.corpus.slides_ppt import slides_of

TITLE, BODY, NOTES, OTHER = 0, 1, 2, 4
HINT = "Titelmasterformat durch Klicken bearbeiten"
MASTER, FIRST_NOTES, NOTES_ID = 0x80000000, 7, 300


def record(kind: int, data: bytes, *, instance: int = 0, version: int = 0) -> bytes:
    return struct.pack("<HHI", version | instance << 4, kind, len(data)) + data


def holder(kind: int, *parts: bytes, instance: int = 0) -> bytes:
    return record(kind, b"".join(parts), instance=instance, version=15)


def said(text: str, kind: int = OTHER, *, fields: Sequence[tuple[int, int]] = ()) -> bytes:
    marks = b"".join(record(field, struct.pack("<I", at)) for field, at in fields)
    return record(0x0F9F, struct.pack("<I", kind)) + record(0x0FA0, text.encode("utf-16-le")) + marks


def shape(text: bytes, *, holds_place: bool = False, place: tuple[int, int] = (0, 0), more: bytes = b"") -> bytes:
    data = holder(0xF011, record(0x0BC3, bytes(8))) if holds_place else b""
    anchor = record(0xF00F, struct.pack("<iiii", place[1], place[0], place[1] + 1, place[0] + 1))
    return holder(0xF004, record(0xF00A, bytes(8)), more, anchor, data, holder(0xF00D, text) if text else b"")


def drawing(*shapes: bytes) -> bytes:
    return holder(0x040C, holder(0xF002, holder(0xF003, shape(b""), *shapes)))


def slide(*shapes: bytes, notes: int = 0, master: int = MASTER, more: bytes = b"", shows_master: bool = True) -> bytes:
    atom = record(0x03EF, struct.pack("<12xIIHH", master, notes, int(shows_master), 0))
    return holder(0x03EE, atom, drawing(*shapes), more)


def listed(kind: int, *entries: tuple[int, int, bytes]) -> bytes:
    parts = [
        record(0x03F3, struct.pack("<IIIII", persist, 0, 0, number, 0)) + texts for persist, number, texts in entries
    ]
    return holder(0x0FF0, *parts, instance=kind)


def footer(text: str, flags: int) -> bytes:
    reported = record(0x0FBA, text.encode("utf-16-le"), instance=2)
    return holder(0x0FD9, record(0x0FDA, struct.pack("<HH", 0, flags)), reported, instance=3)


class Deck:
    """A stream: containers by the number that they are found by, and what was saved by each edit."""

    def __init__(self) -> None:
        self.stream, self.edit = b"", 0

    def save(self, containers: dict[int, bytes]) -> None:
        directory = b""
        for number, container in containers.items():
            directory += struct.pack("<II", number | 1 << 20, len(self.stream))
            self.stream += container
        at = len(self.stream)
        self.stream += record(0x1772, directory)
        edit = record(0x0FF5, struct.pack("<IIIIIIHH", 256, 0, self.edit, at, 1, 9, 0, 0))
        self.edit = len(self.stream)
        self.stream += edit

    def bytes(self) -> bytes:
        user = record(0x0FF6, struct.pack("<IIIHHBBH", 20, 0xE391C05F, self.edit, 0, 0x03F4, 3, 0, 0))
        return compound({"PowerPoint Document": self.stream.ljust(4096, b"\0"), "Current User": user})


def document(*parts: bytes) -> bytes:
    return holder(0x03E8, record(0x03E9, bytes(40)), *parts)


def deck() -> Deck:
    """Two slides; in the stream the second one stands first, behind a master."""
    made = Deck()
    master = holder(0x03F8, drawing(shape(said(HINT, TITLE), holds_place=True), shape(said("Harbour office"))))
    comment = holder(0x1388, holder(0x138A, record(0x138B, holder(0x2EE0, record(0x0FBA, "Bo".encode("utf-16-le")),
        record(0x0FBA, "Is noon too late?".encode("utf-16-le"), instance=1)))))  # fmt: skip
    first = slide(
        shape(said("* of *", fields=[(0x0FD8, 0), (0x0FD8, 5)]), holds_place=True),
        shape(record(0x0F9E, struct.pack("<I", 1)), holds_place=True),
        shape(record(0x0F9E, struct.pack("<I", 0)), holds_place=True),
        notes=NOTES_ID,
    )
    cells = [("Ada", (2, 0)), ("Boat", (0, 5)), ("The heron", (2, 5)), ("Pilot", (0, 0))]
    table = holder(0xF003, shape(b"", more=record(0xF122, struct.pack("<HI", 0x039F, 1), instance=1)),
                   *(shape(said(text), place=place) for text, place in cells))  # fmt: skip
    second = slide(table, shape(said("Moor\vings", TITLE)), more=comment)
    notes = holder(0x03F0, drawing(shape(said("Speak slowly.\rAnd loudly.", NOTES), holds_place=True)))
    made.save({
        4: master, 3: second, 2: first, 5: notes,
        1: document(
            footer("Draft", 0x20), footer("Hidden", 0x00),
            listed(0, (2, 256, said("Pilots", TITLE) + said("The pelican\rboards.", BODY)), (3, 257, b"")),
            listed(1, (4, MASTER, b"")), listed(2, (5, NOTES_ID, b"")),
        ),
    })  # fmt: skip
    return made


def read(tmp_path: Path, content: bytes) -> ReadDocument:
    path = tmp_path / "a.ppt"
    path.write_bytes(content)
    (found,) = everything_in(path, "ppt")
    assert isinstance(found, ReadDocument)
    return found


def test_slides_come_in_their_order_with_titles_notes_and_comments(tmp_path: Path) -> None:
    found = read(tmp_path, deck().bytes())
    assert found.text == (
        "Pilots\n\nThe pelican\n\nboards.\n\nNotes:\n\nSpeak slowly.\n\nAnd loudly.\n\n"
        "Moor ings\n\nPilot | Boat\nAda | The heron\n\nIs noon too late?\n\n"
        "Harbour office\nDraft"
    )
    assert [(page.number, page.name) for page in found.pages] == [
        (1, "slide 1"),
        (2, "slide 2"),
        (3, "beside the text"),
    ]
    assert found.text[found.pages[1].start :].startswith("Moor ings")
    assert [heading.title for heading in found.headings] == ["Pilots", "Moor ings"]


def test_what_a_later_edit_changed_or_took_away_is_not_reported(tmp_path: Path) -> None:
    made = deck()
    made.save(
        {2: slide(shape(said("Tugs", TITLE))), 1: document(listed(0, (2, 256, b"")), listed(1, (4, MASTER, b"")))}
    )
    found = read(tmp_path, made.bytes())
    assert found.text == "Tugs\n\nHarbour office"


def test_of_two_documents_that_are_named_that_of_the_last_edit_counts() -> None:
    made = Deck()
    made.save({9: document(listed(0, (2, 256, said("Old tugs", TITLE)))), 2: slide()})
    made.save({1: document(listed(0, (2, 256, said("New tugs", TITLE))))})
    reported = slides_of(made.bytes())
    assert reported is not None
    assert reported.pages == {1: "New tugs"}


def test_notes_that_no_slide_names_are_reported_beside() -> None:
    made = Deck()
    notes = holder(0x03F0, drawing(shape(said("Speak slowly.\rAnd loudly.", NOTES))))
    lists = listed(0, (2, 256, b"")), listed(2, (5, NOTES_ID, b""))
    made.save({2: slide(shape(said("Tugs"))), 5: notes, 1: document(*lists)})
    reported = slides_of(made.bytes())
    assert reported is not None
    assert (reported.pages, reported.beside) == ({1: "Tugs"}, ("Speak slowly.", "And loudly."))


def test_a_master_that_no_slide_shows_is_not_reported(tmp_path: Path) -> None:
    made = deck()
    made.save(
        {
            3: slide(shape(said("Tugs")), shows_master=False),
            1: document(listed(0, (3, 1, b"")), listed(1, (4, MASTER, b""))),
        }
    )
    assert read(tmp_path, made.bytes()).text == "Tugs"


def test_slides_that_are_not_found_lose_no_word(tmp_path: Path) -> None:
    made = Deck()
    texts = said("Pilots", TITLE) + said("The pelican boards.", BODY)
    made.save(
        {1: document(listed(0, (2, 256, texts), (9, 257, said("Moorings", TITLE)))), 7: slide(shape(said("The heron")))}
    )
    found = read(tmp_path, made.bytes())
    assert [(page.number, page.name) for page in found.pages][:2] == [(1, "slide 1"), (2, "slide 2")]
    assert found.text.startswith("Pilots\n\nThe pelican boards.\n\nMoorings\n\n")
    assert "The heron" in found.text


def test_a_presentation_without_a_directory_is_found_by_its_document(tmp_path: Path) -> None:
    made = deck()
    made.edit = 3
    assert read(tmp_path, made.bytes()).headings[1].title == "Moor ings"


def test_word_art_is_reported_without_its_end() -> None:
    art = "Ahoy\0".encode("utf-16-le")
    made = Deck()
    more = record(0xF00B, struct.pack("<HI", 0x80C0, len(art)) + art, instance=1)
    made.save({2: slide(shape(b"", more=more)), 1: document(listed(0, (2, 256, b"")))})
    reported = slides_of(made.bytes())
    assert reported is not None
    assert reported.pages == {1: "Ahoy"}


def test_one_slide_that_is_listed_again_and_again_ends() -> None:
    made = Deck()
    entries = [(2, 256, b"")] * 20_000
    made.save({2: slide(*[shape(said("The pelican " * 2000))] * 10), 1: document(listed(0, *entries))})
    assert slides_of(made.bytes()) is None


def test_groups_in_groups_end() -> None:
    inner = shape(said("Far down"))
    for _ in range(500):
        inner = holder(0xF003, inner)
    made = Deck()
    made.save({2: slide(shape(said("The pelican")), inner), 1: document(listed(0, (2, 256, b"")))})
    reported = slides_of(made.bytes())
    assert reported is not None
    assert (reported.pages, reported.whole) == ({1: "The pelican"}, False)


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_presentation_is_reported_or_left_to_kreuzberg(seed: int) -> None:
    rng = random.Random(seed)
    whole = deck()
    for _ in range(40):
        stream = bytearray(whole.stream)
        for _ in range(rng.randint(1, 6)):
            stream[rng.randrange(len(stream))] = rng.choice((0, 0x0F, 0xF0, 0xFF, rng.randrange(256)))
        damaged = Deck()
        damaged.stream, damaged.edit = bytes(stream), whole.edit
        reported = slides_of(damaged.bytes())
        assert reported is None or reported.pages
