"""PDF files: pages, what they say of themselves, pages that are damaged, and text that runs from
right to left.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import matplotlib as mpl
import pytest
from fixtures import office
from fixtures.errors import unreadable
from fixtures.shown_numbers import numbers
from matplotlib.figure import Figure

from engine.core.records import Kind, ReadDocument
from engine.corpus.formats import LeftOut, Member, pictures
from engine.corpus.formats.pdf import PdfReader
from engine.corpus.formats.pdf.pdfium import convert_date, open_page, open_pdf, read_page_text


def read(content: bytes) -> list[ReadDocument | LeftOut]:
    return list(PdfReader().read(Path("a.pdf"), content))


@pytest.mark.parametrize(
    ("reported", "date"),
    [
        ("D:20240103093826+01'00'", "20240103T093826+0100"),
        ("D:20240103093826-0330", "20240103T093826-0330"),
        ("D:20240103093826Z", "20240103T093826"),
        ("D:20240103093826", "20240103T093826"),
        ("20240103", "20240103T000000"),
        ("D:2024", ""),
        ("yesterday", ""),
        ("", ""),
    ],
)
def test_dates_keep_their_zone(reported: str, date: str) -> None:
    assert convert_date(reported) == date


def test_metadata_of_a_pdf() -> None:
    (document,) = read(office.pdf("The pelican boards at dawn."))
    assert isinstance(document, ReadDocument)
    assert (document.title, document.author) == ("Harbour plan", "Ada Quay")
    assert document.created == 1930367167  # 2031-03-04 05:06:07 UTC
    assert document.changed is None


def test_a_placeholder_title_of_a_program_is_left_out() -> None:
    title = b"Harbour plan".hex().encode()
    (document,) = read(
        office.pdf("The pelican.").replace(
            b"/Title<" + title, b"/Title<" + b"(anonymous)".hex().encode()
        )
    )
    assert isinstance(document, ReadDocument)
    assert document.title == "A"


def test_an_invalid_date_is_left_out() -> None:
    (document,) = read(
        office.pdf("The pelican.").replace(
            b"D:20310304050607Z".hex().encode(), b"D:20311399".hex().encode()
        )
    )
    assert isinstance(document, ReadDocument)
    assert document.created is None


def test_a_title_that_is_no_text_costs_only_itself() -> None:
    title = b"Harbour plan".hex().encode()
    (document,) = read(office.pdf("The pelican.").replace(b"/Title<" + title, b"/Title<FEFFD800"))
    assert isinstance(document, ReadDocument)
    assert (document.title, document.author) == ("A", "Ada Quay")


def test_a_damaged_page_is_reported_and_the_others_are_read() -> None:
    content = office.pdf("The pelican.", "The heron.", "The tern.")
    torn = content.replace(b"6 0 obj\n<</Type/Page", b"6 0 obj\n<</Type/Pork", 1)
    document, left = read(torn)
    assert isinstance(document, ReadDocument)
    assert document.text == "The pelican.\n\nThe tern."
    assert [page.name for page in document.pages] == ["page 1", "page 3"]
    assert isinstance(left, LeftOut)
    assert (left.member, left.state, left.kind, numbers(left.reason)) == (
        "page 2",
        "quarantined",
        "damaged",
        [1, 3],
    )


def test_pages_that_a_pdf_claims_and_does_not_have_take_no_long_time() -> None:
    started = time.process_time()
    document, left = read(
        office.pdf("The pelican.", "The heron.").replace(b"/Count 2", b"/Count 200000")
    )
    assert time.process_time() - started < 5
    assert isinstance(document, ReadDocument)
    assert document.text == "The pelican.\n\nThe heron."
    assert isinstance(left, LeftOut)
    assert (left.member, left.kind) == ("pages 3-200000", "damaged")


def test_the_pages_before_the_cut_of_a_truncated_pdf_are_read() -> None:
    content = office.pdf("The pelican.", "The heron.")
    document, rest = read(content[: content.index(b"xref")])
    assert isinstance(document, ReadDocument)
    assert isinstance(rest, LeftOut)
    assert (document.text, rest.state, rest.kind) == (
        "The pelican.\n\nThe heron.",
        "quarantined",
        "damaged",
    )
    document, page, other = read(content[: content.index(b"6 0 obj")])
    assert isinstance(document, ReadDocument)
    assert isinstance(page, LeftOut)
    assert (document.text, page.member, page.kind, other) == (
        "The pelican.",
        "page 2",
        "damaged",
        rest,
    )


def test_a_truncated_pdf_without_catalog_or_with_an_unknown_lock_is_damaged() -> None:
    content = office.pdf("The pelican.")
    locked = office.locked_pdf()
    for cut in (
        content[: content.index(b"xref")].replace(b"/Catalog", b"/Cattle!"),
        locked[: locked.index(b"xref")],
    ):
        with unreadable("damaged"):
            read(cut)


def test_a_pdf_of_damaged_pages_alone_is_damaged() -> None:
    content = office.pdf("The pelican.").replace(b"/Type/Page/Parent", b"/Type/Pork/Parent", 1)
    with unreadable("damaged"):
        read(content)


def test_half_a_sign_in_the_metadata_of_a_pdf_costs_only_that() -> None:
    half = office.pdf("The pelican boards.").replace(
        b"Harbour plan".hex().encode(), b"FEFF0050D83D004100420043"
    )
    (document,) = read(half)
    assert isinstance(document, ReadDocument)
    assert (document.title, document.author, document.text) == (
        "A",
        "Ada Quay",
        "The pelican boards.",
    )


def test_half_a_sign_in_the_name_of_a_file_attached_to_a_pdf_does_not_lose_the_file() -> None:
    content = attaching("notes.txt", b"The heron.").replace(b"(notes.txt)", b"<FEFF0061D83D>")
    assert read(content)[1:] == [Member("a\ufffd", b"The heron.")]


def attaching(name: str, data: bytes) -> bytes:
    """A PDF with a file attached to it."""
    stream = b"<</Type/EmbeddedFile/Length %d>>stream\n%s\nendstream" % (len(data), data)
    content = office.pdf("The pelican.", extra=stream)
    file = b"<</Type/Filespec/F(%s)/UF(%s)/EF<</F 8 0 R>>>>" % (name.encode(), name.encode())
    names = b"/Names<</EmbeddedFiles<</Names[(%s)%s]>>>>" % (name.encode(), file)
    return content.replace(b"/Type/Catalog", b"/Type/Catalog" + names)


@pytest.fixture
def recognising() -> Iterator[list[bytes]]:
    """OCR that finds nothing; the pictures that it was asked about."""
    asked: list[bytes] = []
    pictures.use_recogniser(lambda picture: (asked.append(picture) or "", ""))
    yield asked
    pictures.use_recogniser(None)


def test_damaged_pages_are_not_given_to_ocr(recognising: list[bytes]) -> None:
    torn = office.pdf("The pelican.", "The heron.").replace(
        b"6 0 obj\n<</Type/Page", b"6 0 obj\n<</Type/Pork", 1
    )
    document, left = read(torn)
    assert isinstance(document, ReadDocument)
    assert isinstance(left, LeftOut)
    assert (document.note, left.kind) == ("", "damaged")
    with unreadable("damaged"):
        read(office.pdf("The pelican.").replace(b"/Type/Page/Parent", b"/Type/Pork/Parent", 1))
    assert recognising == []


def test_why_a_pdf_gave_no_text(recognising: list[bytes]) -> None:
    scans = office.pdf("", "", "")
    one_torn = scans.replace(b"6 0 obj\n<</Type/Page", b"6 0 obj\n<</Type/Pork", 1)
    found_nothing = reason(scans, "needs OCR")
    assert found_nothing == reason(one_torn, "needs OCR")
    assert len(recognising) == 3 + 2
    pictures.use_recogniser(None)
    scanned = reason(scans, "needs OCR")
    assert scanned == reason(one_torn, "needs OCR") != found_nothing
    blank = scans.replace(b"/I1 Do", b"      ").replace(b"/Image", b"/Ima  ")
    reason(blank, "empty")
    torn = blank.replace(b"6 0 obj\n<</Type/Page", b"6 0 obj\n<</Type/Pork", 1)
    assert numbers(reason(torn, "damaged")) == [1, 3]


def reason(content: bytes, kind: Kind) -> str:
    with unreadable(kind) as error:
        read(content)
    return error.value.why


def test_glyphs_that_stand_for_nothing_leave_no_control_characters() -> None:
    (document,) = read(office.pdf("The pe\x01li\x08can."))
    assert isinstance(document, ReadDocument)
    assert document.text == "The pelican."


def test_a_word_that_a_line_end_parts() -> None:
    """PDFium leaves out the hyphen and the line's end, and gives a sign of its own."""
    with (
        open_pdf(office.pdf("The har-\nbour of North-\nSouth.")) as document,
        open_page(document, 0) as page,
    ):
        reported = read_page_text(page)
    assert reported == "The har\x02bour of North\x02South."
    (read_document,) = read(office.pdf("The har-\nbour of North-\nSouth."))
    assert isinstance(read_document, ReadDocument)
    assert read_document.text == "The harbour of North-South."


def text_drawn(*lines: str) -> str:
    """The text of a PDF with these lines, each shaped as the rules of its script want."""
    figure = Figure()
    for number, line in enumerate(lines):
        figure.text(
            0.1,
            0.8 - 0.2 * number,
            line,
        )
    with mpl.rc_context({"pdf.fonttype": 42}):
        figure.savefig(made := BytesIO(), format="pdf")
    (document,) = read(made.getvalue())
    assert isinstance(document, ReadDocument)
    return document.text


@pytest.mark.parametrize(
    "line",
    [
        "שלום עולם זהו מסמך 123 בדיקה",
        "مرحبا بالعالم",
        "السلام عليكم لا إله",  # a glyph for lam and alef
        "الإسلام والأدب",
        "عقد رقم PHX-121 بتاريخ 2024",
        "عقد رقم ٢٠٢٤ بمبلغ ١٫٥ فقط",
        "بتاريخ ١٢/٠٣/٢٠٢٤ هنا",
        "عام ٢٠٢٤م هنا",
        "قرارداد ۲۰۲۴ تهران",
    ],
)
def test_lines_from_right_to_left_are_read_in_their_order(line: str) -> None:
    assert text_drawn(line, "The pelican boards PHX-121.") == f"{line}\nThe pelican boards PHX-121."


def drawn_from_right_to_left(*words: str) -> bytes:
    """A PDF whose words are drawn letter by letter, each to the left of the one before."""
    letters = sorted(set("".join(words)))
    codes = {letter: 0x41 + number for number, letter in enumerate(letters)}
    table = "\n".join(f"<{code:02x}> <{ord(letter):04x}>" for letter, code in codes.items())
    cmap = "begincmap\n1 begincodespacerange\n<00> <ff>\nendcodespacerange\n"
    cmap += f"{len(codes)} beginbfchar\n{table}\nendbfchar\nendcmap"
    lines = ["BT /F 20 Tf"]
    for number, word in enumerate(words):
        glyphs = " 1000 ".join(f"<{codes[letter]:02x}>" for letter in word)
        lines.append(f"1 0 0 1 {500 - 60 * number} 700 Tm [{glyphs}] TJ")
    content = "\n".join([*lines, "ET"])
    widths = " ".join(["500"] * len(codes))
    last = 0x40 + len(codes)
    objects = (
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R"
        "/Resources<</Font<</F 5 0 R>>>>>>",
        f"<</Length {len(content)}>>stream\n{content}\nendstream",
        "<</Type/Font/Subtype/TrueType/BaseFont/Arial/ToUnicode 6 0 R"
        f"/FirstChar 65/LastChar {last}/Widths[{widths}]>>",
        f"<</Length {len(cmap)}>>stream\n{cmap}\nendstream",
    )
    body = "%PDF-1.7\n"
    places = []
    for number, text in enumerate(objects, 1):
        places.append(f"{len(body):010} 00000 n \n")
        body += f"{number} 0 obj\n{text}\nendobj\n"
    table = f"xref\n0 {len(places) + 1}\n0000000000 65535 f \n{''.join(places)}"
    end = f"trailer<</Root 1 0 R/Size {len(places) + 1}>>\nstartxref\n{len(body)}\n%%EOF\n"
    return f"{body}{table}{end}".encode()


@pytest.mark.parametrize("line", ["שלום עולם", "عقد ريان سنة", "عقد، وَ كَتَبَ"])
def test_letters_that_are_drawn_from_right_to_left_are_read_in_their_order(line: str) -> None:
    """PDFium takes such letters for drawn from left to right, and reverses them."""
    (document,) = read(drawn_from_right_to_left(*line.split()))
    assert isinstance(document, ReadDocument)
    assert document.text.replace(" | ", " ") == line


def test_a_code_within_a_line_from_right_to_left_stays_whole() -> None:
    assert "a_b.C-7" in text_drawn("عقد رقم a_b.C-7 بتاريخ 2024").split()


def with_notes(*notes: bytes) -> bytes:
    """A page that says `The pelican.`, with these notes on it, fields of a form among them."""
    places = b" ".join(b"%d 0 R" % number for number in range(20, 20 + len(notes)))
    content = office.pdf("The pelican.")
    content = content.replace(
        b"<</Type/Catalog", b"<</Type/Catalog/AcroForm<</Fields[%s]>>" % places
    )
    content = content.replace(b"<</Type/Page/", b"<</Type/Page/Annots[%s]/" % places)
    objects = b"".join(
        b"%d 0 obj\n<</Type/Annot/Rect[9 9 90 30]%s>>\nendobj\n" % (number, note)
        for number, note in enumerate(notes, 20)
    )
    return content.replace(
        b"xref\n",
        objects + b"xref\n",
        1,
    )


def test_what_was_filled_into_a_form_is_read_with_the_names_of_its_fields() -> None:
    (document,) = read(
        with_notes(
            b"/Subtype/Widget/FT/Tx/T(form.Berth_code[0])/V(PHX-121)",
            b"/Subtype/Widget/FT/Tx/T(n2)/TU(Name of the pilot)/V(Ada\nQuay)",
            b"/Subtype/Widget/FT/Tx/T(empty)/V()",
            b"/Subtype/Widget/FT/Tx/Ff 8192/T(secret)/V(hunter2)",
            b"/Subtype/Widget/FT/Tx/F 2/T(hidden)/V(never shown)",
            b"/Subtype/Widget/FT/Ch/Ff 131072/T(Ship)/Opt[(Heron)(Tern)]/V(Tern)",
            b"/Subtype/Widget/FT/Tx/T(bird)/V(The pelican.)",
        )
    )
    assert isinstance(document, ReadDocument)
    assert (
        document.text
        == "The pelican.\n\nBerth code: PHX-121\nName of the pilot: Ada Quay\nShip: Tern\nbird: The"
        " pelican."
    )
    assert [page.start for page in document.pages] == [0]


def test_what_was_chosen_in_lists_is_reported_as_it_is_shown_there() -> None:
    (document,) = read(
        with_notes(
            b"/Subtype/Widget/FT/Ch/Ff 2097152/T(Ships)/Opt[(Heron)(Tern)(Gull)]/V[(Heron)(Gull)]",
            b"/Subtype/Widget/FT/Ch/Ff 131072/T(Nr. of the"
            b" port)/Opt[[(DE)(Germany)][(FR)(France)]]/V(FR)",
            b"/Subtype/Widget/FT/Ch/Ff 393216/T(Berth)/Opt[(North)(South)]/V(PHX-121)",
        )
    )
    assert isinstance(document, ReadDocument)
    assert (
        document.text
        == "The pelican.\n\nShips: Heron, Gull\nNr. of the port: France\nBerth: PHX-121"
    )


def test_long_lists_that_are_shown_often_take_no_long_time() -> None:
    choices = b"".join(b"(berth %d)" % number for number in range(2000))
    kids = b" ".join(b"%d 0 R" % number for number in range(20, 2020))
    field = b"3000 0 obj\n<</FT/Ch/T(Berth)/V(berth 5)/Opt[%s]/Kids[%s]>>\nendobj\n" % (
        choices,
        kids,
    )
    content = with_notes(*[b"/Subtype/Widget/Parent 3000 0 R"] * 2000)
    content = content.replace(b"/Fields[", b"/Fields[3000 0 R ").replace(
        b"xref\n", field + b"xref\n", 1
    )
    started = time.process_time()
    (document,) = read(content)
    assert time.process_time() - started < 5
    assert isinstance(document, ReadDocument)
    assert document.text == "The pelican.\n\nBerth: berth 5"


def test_where_notes_take_too_long_the_text_is_kept_and_that_is_reported() -> None:
    content = with_notes(*[b"/Subtype/Text/Contents(Who signs this?)"] * 3000)
    document, left = PdfReader(annotation_seconds=0.0).read(Path("a.pdf"), content)
    assert isinstance(document, ReadDocument)
    assert document.text.startswith("The pelican.")
    assert isinstance(left, LeftOut)
    assert (left.state, left.kind) == ("quarantined", "timed out")


def test_comments_are_read_and_links_are_not() -> None:
    (document,) = read(
        with_notes(
            b"/Subtype/Text/Contents(Who signs this?)",
            b"/Subtype/Highlight/Contents(pelican)",
            b"/Subtype/Link/Contents(to the index)",
            b"/Subtype/FreeText/Contents(Who signs this?)",
        )
    )
    assert isinstance(document, ReadDocument)
    assert document.text == "The pelican.\n\nWho signs this?"


def test_rich_text_of_a_text_box_is_read_where_it_says_more_than_its_plain_text() -> None:
    rich = (
        b'<?xml version="1.0"?><body xmlns="http://www.w3.org/1999/xhtml"><p>Mind the'
        b" <b>gang</b>way</p></body>"
    )
    (document,) = read(
        with_notes(
            b"/Subtype/FreeText/RC(%s)" % rich,
            b"/Subtype/FreeText/Contents(Who signs?)/RC(<p>Who <i>signs</i>?</p>)",
            b"/Subtype/FreeText/Contents(short)/RC 3000 0 R",
        ).replace(
            b"xref\n",
            b"3000 0 obj\n<</Length 35>>stream\n<p>short, but the rich text is"
            b" long</p>\nendstream\nendobj\nxref\n",
            1,
        )
    )
    assert isinstance(document, ReadDocument)
    assert (
        document.text
        == "The pelican.\n\nMind the gangway\nWho signs?\nshort\nshort, but the rich text is long"
    )


def test_a_comment_that_repeats_words_of_its_page_is_reported_once() -> None:
    content = with_notes(
        b"/Subtype/Highlight/Contents(boards the harbour ferry)",
        b"/Subtype/Text/Contents(PHX-12)",
        b"/Subtype/Text/Contents(a\\001\\002b)",
    )
    shown = b"The pelican boards) Tj 0 -20 Td (the har-) Tj 0 -20 Td (bour ferry PHX-121."
    (document,) = read(
        content.replace(b"The pelican.", shown).replace(
            b"/Length 47", b"/Length %d" % (35 + len(shown))
        )
    )
    assert isinstance(document, ReadDocument)
    assert document.text == "The pelican boards\nthe harbour ferry PHX-121.\n\nPHX-12\nab"


def test_a_form_on_a_page_without_text_is_text() -> None:
    content = with_notes(b"/Subtype/Widget/FT/Tx/T(code)/V(PHX-121)").replace(
        b"(The pelican.) Tj", b"() Tj" + b" " * 13
    )
    (document,) = read(content)
    assert isinstance(document, ReadDocument)
    assert document.text == "code: PHX-121"


def meaning(shown: str, signs: dict[str, str]) -> str:
    """The text of a PDF which says that some of its glyphs stand for other signs than theirs."""
    reported = "\n".join(
        f"<{ord(glyph):02X}><{sign.encode('utf-16-be').hex()}>" for glyph, sign in signs.items()
    )
    table = (
        f"begincmap 1 begincodespacerange <00><FF> endcodespacerange {len(signs)}"
        f" beginbfchar\n{reported}\nendbfchar endcmap"
    )
    content = office.pdf(
        shown, extra=b"<</Length %d>>stream\n%s\nendstream" % (len(table), table.encode())
    )
    (document,) = read(content.replace(b"/Helvetica", b"/Helvetica/ToUnicode 8 0 R"))
    assert isinstance(document, ReadDocument)
    return document.text


def test_surrogate_pairs_next_to_right_to_left_letters_lose_only_themselves() -> None:
    signs = {
        "A": "א",
        "B": "ב",
        "C": "😀",
    }
    assert meaning("xyz C AB", signs).split() == ["xyz", "בא"]
    assert meaning("ACB", signs) == "בא"


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        ("BA", "وَ"),
        ("AB", "وَ"),
        ("DCBA", "وَدَ"),
        ("CDAB", "وَدَ"),
        ("1234", "٢٠٢٤"),
        ("5678", "۲۰۲۴"),
        ("A1234", "٢٠٢٤و"),
        ("1234A", "و٢٠٢٤"),
        ("1,2 A", "و ٢،٠"),
    ],
)
def test_marks_follow_their_letters_and_numbers_keep_their_order(shown: str, text: str) -> None:
    """`shown` is the line from left to right, as most files draw it."""
    signs = dict(zip("ABCD,12345678", "وَدَ،٢٠٢٤۲۰۲۴", strict=True))
    assert meaning(shown, signs) == text


def test_text_beyond_the_page_is_left_out_in_right_to_left_pages_too() -> None:
    lines = "\n".join(["AB", *["pelican"] * 40])
    assert (
        meaning(lines, {}).count("pelican")
        == meaning(lines, {"A": "א", "B": "ב"}).count("pelican")
        == 35
    )
