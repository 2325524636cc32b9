"""Appointments and address cards, as files and in mails."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.errors import unreadable
from fixtures.read_files import only, opened

from engine.core.records import ReadDocument

# Lines are folded within words, the last one within a character.
EVENT = (
    b"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VTIMEZONE\r\nTZID:Europe/Berlin\r\nBEGIN:STANDARD\r\n"
    b"DTSTART:16010101T030000\r\nEND:STANDARD\r\nEND:VTIMEZONE\r\nBEGIN:VEVENT\r\nUID:1\r\n"
    b"DTSTART;TZID=Europe/Berlin:20310517T140000\r\nDTEND:20310517T130000Z\r\n"
    b"SUMMARY;LANGUAGE=en:Berth plan\\, north quay\r\nLOCATION:Room 2.17\r\n"
    b"DESCRIPTION:The peli\r\n can boards.\\nBring plans\\; the quay is in K\xc3\r\n \xb6ln.\r\n"
    b'ATTENDEE;CN="Lindner, Eva":mailto:eva@example.com\r\n'
    b"BEGIN:VALARM\r\nDESCRIPTION:REMINDER\r\nEND:VALARM\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
)
SHOWN = """Start: 2031-05-17 14:00
End: 2031-05-17 13:00 UTC
Summary: Berth plan, north quay
Location: Room 2.17
Description: The pelican boards.
Bring plans; the quay is in Köln.
Attendee: Lindner, Eva <eva@example.com>"""


def test_an_appointment_is_read_without_the_breaks_in_its_lines(tmp_path: Path) -> None:
    document = only(opened(tmp_path, "plan.ics", EVENT))
    assert (document.title, document.format) == ("Berth plan, north quay", "ics")
    assert document.text == SHOWN


def test_entries_are_paragraphs(tmp_path: Path) -> None:
    two = EVENT + EVENT.replace(b"20310517", b"20310518")
    document = only(opened(tmp_path, "quay_dates.ics", two))
    first, second = document.text.split("\n\n")
    assert first == SHOWN
    assert second == SHOWN.replace("05-17", "05-18")
    assert document.title == "Quay dates"


def mail(kind: str, *fields: str) -> bytes:
    header = "\r\n".join((f"Content-Type: {kind}", *fields))
    return (
        b"From: ada@example.com\r\nSubject: Invitation\r\nMIME-Version: 1.0\r\n"
        b'Content-Type: multipart/mixed; boundary="x"\r\n\r\n--x\r\n'
        b"Content-Type: text/plain\r\n\r\nPlease come.\r\n--x\r\n"
        + header.encode()
        + b"\r\n\r\n"
        + EVENT
        + b"\r\n--x--\r\n"
    )


def test_an_appointment_in_a_mail_is_part_of_its_text(tmp_path: Path) -> None:
    found = only(opened(tmp_path, "a.eml", mail("text/calendar; charset=utf-8; method=REQUEST")))
    assert found.text.endswith(f"Please come.\n\n{SHOWN}")


@pytest.mark.parametrize(
    ("field", "member"),
    [
        ('Content-Disposition: attachment; filename="visit.ics"', "visit.ics"),
        ("Content-Disposition: attachment", "attachment-2.ics"),
    ],
)
def test_an_attached_appointment_is_a_document(
    tmp_path: Path,
    field: str,
    member: str,
) -> None:
    found = opened(
        tmp_path,
        "a.eml",
        mail("text/calendar; charset=utf-8", field),
    )
    attached = found[-1]
    assert isinstance(attached, ReadDocument)
    assert (attached.member, attached.text) == (member, SHOWN)


CARDS = (
    b"BEGIN:VCARD\r\nVERSION:2.1\r\nN;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:L=C3=B6w;Eva\r\n"
    b"FN;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:Eva L=C3=B6w\r\n"
    b"ADR;WORK;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:;;Hafen=\r\n"
    b"stra=C3=9Fe 5;K=C3=B6ln;;50667;\r\n"
    b"TEL;CELL:+49 171 2345678\r\nPHOTO;ENCODING=BASE64:AAAA\r\n AAAA\r\nBDAY:1999-04-30\r\n"
    b"END:VCARD\r\nBEGIN:VCARD\r\nVERSION:4.0\r\nFN:Bo Quay\r\n"
    b"item1.EMAIL;TYPE=work:bo@example.com\r\n"
    b"TEL;VALUE=uri:tel:+49-40-123\r\nORG:Harbour Ltd.;Purchase\r\nEND:VCARD\r\n"
)


def test_cards_of_an_address_book(tmp_path: Path) -> None:
    assert only(opened(tmp_path, "book.vcf", CARDS)).text == (
        "Name: Eva Löw\nAddress: Hafenstraße 5, Köln, 50667\nTelephone: +49 171 2345678\n"
        "Birthday: 1999-04-30\n\n"
        "Name: Bo Quay\nEmail: bo@example.com\nTelephone: +49-40-123\n"
        "Organization: Harbour Ltd., Purchase"
    )


def test_a_card_with_the_parts_of_a_name_alone_is_called_by_them(tmp_path: Path) -> None:
    card = b"BEGIN:VCARD\r\nVERSION:2.1\r\nN:Quay;Ada;;Dr.\r\nTEL:040 123\r\nEND:VCARD\r\n"
    document = only(opened(tmp_path, "a.vcf", card))
    assert document.title == "Quay, Ada, Dr."
    assert document.text == "Name: Quay, Ada, Dr.\nTelephone: 040 123"
    whole = only(opened(tmp_path, "b.vcf", CARDS[: CARDS.index(b"BEGIN:VCARD", 9)]))
    assert whole.title == "Eva L\u00f6w"


def test_a_file_without_entries_is_empty(tmp_path: Path) -> None:
    with unreadable("empty"):
        opened(tmp_path, "a.vcf", b"##fileformat=VCFv4.2\n#CHROM\tPOS\n")


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ("DESCRIPTION:<p>Agenda</p>Point one<br>M&uuml;ller", "Agenda\n\nPoint one\nMüller"),
        ("X-ALT-DESC;FMTTYPE=text/html:<html><body>Agenda</body></html>", "Agenda"),
        ("X-ALT-DESC;FMTTYPE=text/html:<b>Agenda</b>\r\nDESCRIPTION:Agenda", "Agenda"),
        ("X-ALT-DESC;FMTTYPE=text/html:<b>Agenda</b>\r\nDESCRIPTION:\\n", "Agenda"),
    ],
)
def test_descriptions_in_html_are_read(
    tmp_path: Path,
    lines: str,
    text: str,
) -> None:
    source = f"BEGIN:VEVENT\r\nSUMMARY:Visit\r\n{lines}\r\nEND:VEVENT\r\n"
    found = only(opened(tmp_path, "a.ics", source.encode()))
    assert found.text == f"Summary: Visit\nDescription: {text}"


@pytest.mark.parametrize(
    ("value", "name"),
    [("J=FCrgen L=F6w", "Jürgen Löw"), ("J=C3=BCrgen", "Jürgen"), ("J=81rgen", "J\ufffdrgen")],
)
def test_a_card_without_a_charset_is_western_or_in_utf_8(
    tmp_path: Path, value: str, name: str
) -> None:
    card = f"BEGIN:VCARD\r\nFN;ENCODING=QUOTED-PRINTABLE:{value}\r\nEND:VCARD\r\n"
    assert only(opened(tmp_path, "a.vcf", card.encode())).title == name
