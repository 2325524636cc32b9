"""Mails and mailboxes: all that a mail says is in its text, in a file of its own, or among what
was left out.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from email import policy
from email.message import EmailMessage, Message
from email.mime.multipart import MIMEMultipart
from email.mime.nonmultipart import MIMENonMultipart
from pathlib import Path

import pytest
from fixtures import office
from fixtures.compound_writer import compound_file
from fixtures.errors import unreadable
from fixtures.local_zone import in_zone

from engine.core.records import ReadDocument
from engine.corpus.formats import LeftOut, Member
from engine.corpus.formats.containers import CompoundFile
from engine.corpus.formats.mail import MailboxReader
from engine.corpus.formats.mail.mapi import unpack_rtf
from engine.corpus.formats.opening import read_everything

HEADER = "Subject: Piers\nFrom: ada@quay.example\nDate: Tue, 04 Mar 2031 05:06:07 +0000\n"
PICTURE = b"\x89PNG" + bytes(20_000)


def part(
    kind: str,
    content: str | bytes,
    **fields: str,
) -> Message:
    made = MIMENonMultipart(*kind.split("/"))
    for name, value in fields.items():
        made[name.replace("_", "-")] = value
    made.set_payload(content.encode() if isinstance(content, str) else content, None)
    if isinstance(content, bytes):
        from email.encoders import encode_base64

        encode_base64(made)
    elif not content.isascii():
        made.set_param("charset", "utf-8")
    return made


def several(kind: str, *parts: Message) -> Message:
    return MIMEMultipart(kind, _subparts=list(parts))


def read(
    tmp_path: Path, message: Message | str, name: str = "a.eml"
) -> tuple[str, list[ReadDocument | LeftOut]]:
    path = tmp_path / name
    if isinstance(message, str):
        content = message
    else:
        content = HEADER + message.as_string()
    path.write_bytes(content.encode(errors="surrogateescape"))
    first, *others = read_everything(path, name.rpartition(".")[2])
    assert isinstance(first, ReadDocument)
    return first.text.partition("\n\n")[2], others


@pytest.mark.parametrize("encoding", ["base64", "7bit"])
def test_a_mail_that_is_packed_within_a_mail_is_unpacked(tmp_path: Path, encoding: str) -> None:
    inner = b"Subject: Cranes\nFrom: bo@quay.example\n\nTwo cranes lift.\n"
    if encoding == "base64":
        packed = b64encode(inner).decode()
    else:
        packed = inner.decode()
    fields = (
        f"Content-Type: message/rfc822\nContent-Transfer-Encoding: {encoding}\nContent-Disposition:"
        " attachment"
    )
    _, others = read(
        tmp_path,
        f"{HEADER}Content-Type: multipart/mixed;"
        f' boundary="x"\n\n--x\n{fields}\n\n{packed}\n--x--\n',
    )
    (mail,) = others
    assert isinstance(mail, ReadDocument)
    assert (mail.title, mail.author) == ("Cranes", "bo@quay.example")
    assert mail.text.endswith("\n\nTwo cranes lift.")


def test_a_field_that_is_encoded_badly_costs_no_mail(tmp_path: Path) -> None:
    field = "=?GB2312?B?tP./qrj3tdjU9ta1y7C3osax?="  # as a byte changed in a real one leaves it
    path = tmp_path / "a.eml"
    path.write_bytes(f"Subject: {field}\nFrom: ada@harbour.example\n\nThe pelican boards.".encode())
    (document,) = read_everything(path, "eml")
    assert isinstance(document, ReadDocument)
    assert (document.title, document.author) == (field, "ada@harbour.example")
    assert document.text.endswith("\n\nThe pelican boards.")


def test_every_part_of_a_mail_is_shown(tmp_path: Path) -> None:
    page = part("text/html", "<p>The pelican contract is void.</p>")
    footer = part("text/plain", "____\nThe heron list")
    assert (
        read(tmp_path, several("mixed", page, footer))[0]
        == "The pelican contract is void.\n\n____\nThe heron list"
    )
    signed = several(
        "signed",
        several("mixed", page),
        part("application/pgp-signature", "----"),
    )
    text, (signature,) = read(tmp_path, signed)
    assert text == "The pelican contract is void."
    assert (signature.member, getattr(signature, "kind", "")) == ("attachment-2.asc", "unsupported")


@pytest.mark.parametrize(
    ("plain", "page", "shown"),
    [
        ("The pelican rests.", "<p>The <b>pelican</b> rests.</p>", "The pelican rests."),
        (
            "The pelican rests.\nOn pier 9.",
            "<p>The pelican rests.</p>",
            "The pelican rests.\nOn pier 9.",
        ),
        ("The pelican", "<p>The pelican rests on pier 9.</p>", "The pelican rests on pier 9."),
        ("Use a viewer.", "<p>The pelican rests.</p>", "Use a viewer.\n\nThe pelican rests."),
        ("", "<p>The pelican rests.</p>", "The pelican rests."),
        ("鹈鹕在码头\n上休息。", "<p>鹈鹕在码头上休息。</p>", "鹈鹕在码头\n上休息。"),
    ],
)
def test_the_plain_alternative_is_preferred_if_it_holds_as_much_text(
    tmp_path: Path, plain: str, page: str, shown: str
) -> None:
    both = several(
        "alternative", part("text/plain", plain), several("related", part("text/html", page))
    )
    assert read(tmp_path, both)[0] == shown


def test_what_is_no_body_is_a_file_of_its_own_or_left_out(tmp_path: Path) -> None:
    parts = (
        part("text/plain", "Come."),
        part("text/calendar", "SUMMARY:Pelican meeting"),
        part("text/csv", "a;b\n1;pelican\n"),
        part(
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document", office.docx()
        ),
        part("image/png", PICTURE, Content_Disposition='inline; filename="scan.png"'),
        part(
            "application/pdf",
            office.pdf("The pelican."),
            Content_Disposition='attachment; filename="report.2031"',
        ),
        part("application/octet-stream", b"\0\1"),
        part("text/plain", b"\0\1\2\3\0\0\1\2" * 9),
    )
    text, others = read(tmp_path, several("mixed", *parts))
    assert text == "Come.\n\nSummary: Pelican meeting"
    assert [
        (item.member, getattr(item, "format", "") or getattr(item, "kind", "")) for item in others
    ] == [
        ("attachment-3.csv", "csv"),
        ("attachment-4.docx", "docx"),
        ("scan.png", "needs OCR"),
        ("report.2031.pdf", "pdf"),
        ("attachment-7", "unsupported"),
        ("attachment-8.txt", "binary"),
    ]


def test_small_pictures_of_a_written_page_belong_to_it(tmp_path: Path) -> None:
    page = part("text/html", "<p>Look.</p>")
    logo = part(
        "image/png",
        b"\x89PNG",
        Content_Disposition='inline; filename="logo.png"',
    )
    scan = part(
        "image/png",
        PICTURE,
        Content_Disposition='inline; filename="image001.png"',
    )
    text, others = read(tmp_path, several("related", page, logo, scan, part("image/png", PICTURE)))
    assert (text, [item.member for item in others]) == ("Look.", ["image001.png"])


def test_encodings_are_those_that_parts_name(tmp_path: Path) -> None:
    mail = EmailMessage(policy=policy.SMTP)
    mail.set_content(
        "Größe der „Pier“",
        charset="cp1252",
        cte="8bit",
    )
    mail.add_alternative(
        "<meta charset=utf-8><p>Größe der „Pier“ hier und dort</p>", "html", charset="cp1252"
    )
    path = tmp_path / "a.eml"
    path.write_bytes(mail.as_bytes())
    (document,) = read_everything(path, "eml")
    assert isinstance(document, ReadDocument)
    assert (document.text, document.note) == ("Größe der „Pier“ hier und dort", "")
    path.write_bytes(
        b"Content-Type: text/plain; charset=utf-8\n\n" + "Пеликан ждёт корабль.".encode("koi8-r")
    )
    (document,) = read_everything(path, "eml")
    assert isinstance(document, ReadDocument)
    assert document.text == "Пеликан ждёт корабль."
    assert "koi8-r" in document.note


def test_a_report_and_a_body_without_its_boundaries_are_text(tmp_path: Path) -> None:
    report = (
        f'{HEADER}Content-Type: multipart/report; boundary="B"\n\n--B\n\nNot'
        " delivered.\n--B\nContent-Type: message/delivery-status\n\nReporting-MTA: dns;"
        " pier.example\n\nStatus: 5.1.1\n\n--B--\n"
    )
    assert (
        read(tmp_path, report)[0]
        == "Not delivered.\n\nReporting-MTA: dns; pier.example\n\nStatus: 5.1.1"
    )
    assert (
        read(tmp_path, f"{HEADER}Content-Type: multipart/mixed\n\nThe pelican.\n")[0]
        == "The pelican."
    )


def test_a_mail_without_a_body_does_not_show_how_it_came_here(tmp_path: Path) -> None:
    way = "Received: from mx1.example by mx2.example\nDKIM-Signature: v=1; b=AbCd\n"
    assert read(tmp_path, f"{way}{HEADER}Content-Type: text/plain\n\n")[0] == ""
    picture = several("related", part("text/html", "<img src='cid:1'>"))
    assert read(tmp_path, f"{way}{HEADER}{picture.as_string()}")[0] == ""


def test_a_mail_within_a_mail_is_one_of_its_own(tmp_path: Path) -> None:
    inner = EmailMessage()
    inner["Subject"] = "Inner"
    inner.set_content("The heron.")
    outer = EmailMessage()
    outer.set_content("See below.")
    outer.add_attachment(inner)
    text, (found,) = read(tmp_path, HEADER + outer.as_string())
    assert (text.strip(), found.member) == ("See below.", "attachment-2.eml")
    assert isinstance(found, ReadDocument)
    assert "The heron." in found.text


def test_sentences_that_begin_with_from_do_not_end_a_mail(tmp_path: Path) -> None:
    body = (
        "Dear all,\n\nFrom the pier the pelican is seen.\n\n>From there, too.\n\nFrom 9 o'clock"
        " on:\nNote: bring it\n"
    )
    box = f"From ada Tue Mar  4 05:06:07 2031\n{HEADER}\n{body}\nFrom nobody\n{HEADER}\nTwo.\n"
    path = tmp_path / "a.mbox"
    path.write_text(box)
    found = [item for item in read_everything(path, "mbox") if isinstance(item, ReadDocument)]
    assert [item.text.partition("\n\n")[2] for item in found] == [
        body.replace(">From", "From").strip(),
        "Two.",
    ]
    path.write_text(
        f"{HEADER}\nNo line before it.\n\nFrom ada Tue Mar  4 05:06:07 2031\n{HEADER}\nTwo.\n"
    )
    assert [item.member for item in read_everything(path, "mbox")] == ["0001.eml", "0002.eml"]


@pytest.mark.parametrize(
    ("line", "after", "parts"),
    [
        (b"From ada Tue Mar  4 05:06:07 2031", b"Subject: Piers", True),
        (b"From - Fri Mar  4 5:06:07 2031", b"DKIM-Signature: v=1", True),
        (b"From 1234@xxx Tue Mar 04 05:06:07 +0000 2031", b"X-GM-THRID: 1", True),
        (b"From Monday 05:06 2031", b"the pelican rests", False),
        (b"Fromage", b"Subject: Piers", False),
    ],
)
def test_a_line_parts_two_mails_where_a_header_follows(
    tmp_path: Path, line: bytes, after: bytes, parts: bool
) -> None:
    path = tmp_path / "a.mbox"
    path.write_bytes(
        b"From ada\n" + HEADER.encode() + b"\nOne.\n\n" + line + b"\n" + after + b"\n\nmore\n"
    )
    assert len(list(read_everything(path, "mbox"))) == 1 + parts


def test_a_mail_that_is_cut_has_its_line(tmp_path: Path) -> None:
    content = office.mbox(office.eml(text="The pelican.\n" * 200), office.eml(text="Two."))
    found = []
    for item in MailboxReader(max_length=1000).read(tmp_path / "a.mbox", content):
        if isinstance(item, Member):
            found.append((item.path, ""))
        elif isinstance(item, LeftOut):
            found.append((item.member, item.kind))
    assert found == [("0001.eml", ""), ("0001.eml/rest", "too large"), ("0002.eml", "")]


@pytest.mark.parametrize("packed", ["VGhlIHBlbGljYW4u", "VGhlIHBlbGljYW4", "VGhl!IHBlbGljYW4u\n"])
def test_base64_is_unpacked_as_far_as_it_goes(tmp_path: Path, packed: str) -> None:
    text, _ = read(tmp_path, f"{HEADER}Content-Transfer-Encoding: base64\n\n{packed}\n")
    assert text.removesuffix(".") == "The pelican"


def test_how_a_part_is_packed_may_be_written_in_any_way(tmp_path: Path) -> None:
    for name in ("BASE64;", " base64 (as usual)"):
        text, _ = read(tmp_path, f"{HEADER}Content-Transfer-Encoding: {name}\n\nVGhlIHBlbGljYW4u\n")
        assert text == "The pelican."


def with_inner_mail(outer: bytes, inner: bytes) -> bytes:
    """An Outlook message with another attached, as Outlook stores it: in a folder, and with less
    before its properties.
    """
    opened = CompoundFile(outer)
    within = CompoundFile(inner)
    folder = "__attach_version1.0_#00000000/"
    streams = {name: opened.read(name) for name in opened.names()}
    streams[f"{folder}__substg1.0_3001001F"] = "About terns".encode("utf-16-le")
    streams[f"{folder}__properties_version1.0"] = bytes(8)
    for name in within.names():
        content = within.read(name)
        if name == "__properties_version1.0":
            reported = content[:24] + content[32:]
        else:
            reported = content
        streams[f"{folder}__substg1.0_3701000D/{name}"] = reported
    return compound_file(streams)


def test_messages_attached_to_messages_are_read_with_what_is_attached_to_them(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.msg").write_bytes(
        with_inner_mail(
            office.msg(), with_inner_mail(office.msg(), office.msg({"plan.txt": b"The heron."}))
        )
    )
    found = [
        item
        for item in read_everything(tmp_path / "a.msg", "msg")
        if isinstance(item, ReadDocument)
    ]
    assert [(item.member, item.format, item.author) for item in found] == [
        ("", "msg", "Ada Quay"),
        ("About terns.msg", "msg", "Ada Quay"),
        ("About terns.msg/About terns.msg", "msg", "Ada Quay"),
        ("About terns.msg/About terns.msg/plan.txt", "txt", ""),
    ]
    assert found[0].text == found[1].text == found[2].text
    assert found[3].text == "The heron."


def test_a_message_that_holds_a_message_alone_is_read_and_says_that_it_has_no_text(
    tmp_path: Path,
) -> None:
    nothing = compound_file({"__properties_version1.0": bytes(32)})
    (tmp_path / "a.msg").write_bytes(with_inner_mail(nothing, office.msg()))
    own_text, document = read_everything(tmp_path / "a.msg", "msg")
    assert isinstance(own_text, LeftOut)
    assert (own_text.state, own_text.kind) == ("quarantined", "empty")
    assert isinstance(document, ReadDocument)
    assert (document.member, document.title) == ("About terns.msg", "Harbour plan")


def test_a_message_whose_body_is_a_page_alone_is_read(tmp_path: Path) -> None:
    opened = CompoundFile(office.msg())
    streams = {name: opened.read(name) for name in opened.names()}
    page = "<meta charset=utf-8><p>The p<b>eli</b>can is größer.<script>x</script>".encode()
    both = {**streams, "__substg1.0_10130102": page}
    alone = {name: content for name, content in both.items() if "_1000" not in name}
    reported = []
    for made in (alone, both):
        (tmp_path / "a.msg").write_bytes(compound_file(made))
        (document,) = read_everything(tmp_path / "a.msg", "msg")
        assert isinstance(document, ReadDocument)
        reported.append(document.text.partition("\n\n")[2])
    assert reported == ["The pelican is größer.", "The pelican boards at dawn."]


@pytest.mark.parametrize(
    ("rows", "page"),
    [
        ([], "cp1252"),
        ([(0x3FDE, 950)], "cp950"),
        ([(0x3FDE, 950), (0x3FFD, 1251)], "cp1251"),
        ([(0x3FFD, 65001)], "utf-8"),
    ],
)
def test_names_of_attachments_are_in_the_code_page_of_their_message(
    tmp_path: Path, rows: list[tuple[int, int]], page: str
) -> None:
    name = {"cp1252": "größe", "cp950": "測試", "cp1251": "план", "utf-8": "größe測試"}[page]
    opened = CompoundFile(office.msg({"x.txt": b"The heron."}))
    streams = {path: opened.read(path) for path in opened.names()}
    streams["__properties_version1.0"] += b"".join(
        struct.pack("<HHIII", 3, code, 6, value, 0) for code, value in rows
    )
    del streams["__attach_version1.0_#00000000/__substg1.0_3707001F"]
    streams["__attach_version1.0_#00000000/__substg1.0_3707001E"] = f"{name}.txt".encode(page)
    (tmp_path / "a.msg").write_bytes(compound_file(streams))
    _, attached = read_everything(tmp_path / "a.msg", "msg")
    assert attached.member == f"{name}.txt"


def packed_rtf(text: bytes) -> bytes:
    """RTF as Outlook packs it, each byte for itself, with what ends it."""
    pieces = [text[at : at + 8] for at in range(0, len(text), 8)]
    end = ((207 + len(text)) % 4096 << 4).to_bytes(2, "big")
    body = (
        b"".join(b"\0" + piece for piece in pieces[:-1])
        + bytes([1 << len(pieces[-1])])
        + pieces[-1]
        + end
    )
    assert len(pieces[-1]) < 8
    return struct.pack("<II4sI", len(body) + 12, len(text), b"LZFu", 0) + body


def test_a_body_in_rtf_is_unpacked(tmp_path: Path) -> None:
    """First the example of [MS-OXRTFCP], which refers to what is known before it begins."""
    sample = bytes.fromhex(
        "2d0000002b0000004c5a4675f1c5c7a7 03000a00 7263706731323542 320af32068656c 0900"
        " 20627705b06c647d 0a800fa0"
    )
    assert unpack_rtf(sample) == b"{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n"
    opened = CompoundFile(office.msg({"plan.txt": b"The heron."}))
    streams = {name: opened.read(name) for name in opened.names() if "_1000" not in name}
    streams["__substg1.0_10090102"] = packed_rtf(rb"{\rtf1\ansi The pelican boards at dawn.} ")
    for name in ("a.msg", "b.msg"):
        (tmp_path / name).write_bytes(compound_file(streams))
        document, *others = read_everything(tmp_path / name, "msg")
        assert isinstance(document, ReadDocument)
        assert document.text.partition("\n\n")[2] == (
            "The pelican boards at dawn." if name == "a.msg" else ""
        )
        assert [(other.member, getattr(other, "kind", "")) for other in others] == [
            ("plan.txt", ""),
            *([("some of its parts", "damaged")] if name == "b.msg" else []),
        ]
        streams["__substg1.0_10090102"] = b"\0" * 8 + b"what?" + b"\0" * 8


def test_a_mail_that_says_nothing_keeps_what_is_attached(tmp_path: Path) -> None:
    mail = (
        b'Content-Type: text/plain; name="plan.txt"\nContent-Disposition: attachment;'
        b' filename="plan.txt"\n\nThe heron.\n'
    )
    boundary = (
        b"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n--x\n" + mail + b"--x--\n"
    )
    opened = CompoundFile(office.msg({"plan.txt": b"The heron."}))
    silent = {
        name: opened.read(name)
        for name in opened.names()
        if name.startswith(("__attach", "__properties"))
    }
    for name, content in (("a.eml", boundary), ("a.msg", compound_file(silent))):
        (tmp_path / name).write_bytes(content)
        left, attached = read_everything(tmp_path / name, name[2:])
        assert (left.member, getattr(left, "kind", "")) == ("its own text", "empty")
        assert isinstance(attached, ReadDocument)
        assert (attached.member, attached.text.strip()) == ("plan.txt", "The heron.")


def test_an_attachment_of_a_message_without_a_body_is_read_once(tmp_path: Path) -> None:
    opened = CompoundFile(office.msg({"plan.txt": b"The heron."}))
    streams = {name: opened.read(name) for name in opened.names() if "_1000" not in name}
    (tmp_path / "a.msg").write_bytes(compound_file(streams))
    mail, attached = read_everything(tmp_path / "a.msg", "msg")
    assert isinstance(mail, ReadDocument)
    assert isinstance(attached, ReadDocument)
    assert (mail.text.splitlines()[0], "heron" in mail.text) == ("Subject: Harbour plan", False)
    assert attached.text == "The heron."


@pytest.mark.parametrize(
    ("date", "seconds"),
    [
        ("Tue, 04 Mar 2031 05:06:07 +0100", 1_930_363_567.0),
        ("Tue, 04 Mar 2031 05:06:07 -0000", 1_930_367_167.0),
        ("Thu, 01 Jan 1970 00:00:00 -0000", 0.0),
        ("Wed, 31 Dec 1969 23:59:59", -1.0),
        ("yesterday", None),
    ],
)
def test_a_date_without_a_zone_is_of_utc(
    date: str,
    seconds: float | None,
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.eml"
    path.write_text(f"Subject: Piers\nDate: {date}\n\nTwo cranes lift.\n")
    with in_zone("Europe/Berlin"):
        (mail,) = read_everything(path, "eml")
    assert isinstance(mail, ReadDocument)
    assert mail.created == seconds


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ("; format=flowed; delsp=yes", "Harbour.\n\n-- \nAda\n> quo \n> ted"),
        ("; format=Flowed; DelSp=YES", "Harbour.\n\n-- \nAda\n> quo \n> ted"),
        ("; format=flowed", "Harb \nour.\n\n-- \nAda\n> quo \n> ted"),
        ("", "Harb \nour.\n\n-- \nAda\n> quo \n> ted"),
    ],
)
def test_words_that_a_program_cut_at_line_ends_are_whole(
    tmp_path: Path, parameters: str, text: str
) -> None:
    body = "Harb \nour.\n\n-- \nAda\n> quo \n> ted\n"
    mail = f"{HEADER}Content-Type: text/plain; charset=utf-8{parameters}\n\n{body}"
    assert read(tmp_path, mail)[0] == text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("> quoted \nReply", "> quoted \nReply"),
        ("First. \n \nSecond", "First. \n \nSecond"),
        ("First. \n\nSecond", "First. \n\nSecond"),
        ("-- \nAda", "-- \nAda"),
        ("Harbour. \n-- \nAda", "Harbour. \n-- \nAda"),
        ("Pel \n ica \n n", "Pelican"),
        ("Two  \n From  \nhere", "Two From here"),
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_paragraphs_quotes_and_signatures_stay_apart(
    tmp_path: Path, body: str, text: str, line_end: str
) -> None:
    parameters = "format=flowed; delsp=yes"
    mail = f"{HEADER}Content-Type: text/plain; charset=utf-8; {parameters}\n\n{body}"
    assert read(tmp_path, mail.replace("\n", line_end))[0] == text


PACKED_MAIL = (
    HEADER + "Bcc: Eva <eva@quay.example>\nContent-Type: text/plain; charset=utf-8\n"
    "Content-Transfer-Encoding: base64\n\n" + b64encode("Der Kai über Nacht".encode()).decode()
).encode()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.eml", b"\xef\xbb\xbf" + PACKED_MAIL),
        ("a.eml", PACKED_MAIL.replace(b"\n", b"\r\r\n")),
        ("a.emlx", b"%d     \n%s<?xml version='1.0'?><plist/>" % (len(PACKED_MAIL), PACKED_MAIL)),
    ],
)
def test_a_mail_in_a_frame_is_read(
    tmp_path: Path,
    name: str,
    content: bytes,
) -> None:
    (tmp_path / name).write_bytes(content)
    (document,) = read_everything(tmp_path / name, "eml")
    assert isinstance(document, ReadDocument)
    assert (document.title, document.format) == ("Piers", "eml")
    assert document.text == (
        "Subject: Piers\nFrom: ada@quay.example\nBcc: Eva <eva@quay.example>\n"
        "Date: Tue, 04 Mar 2031 05:06:07 +0000\n\nDer Kai über Nacht"
    )


def test_what_apple_mail_notes_after_a_mail_is_no_part_of_it(tmp_path: Path) -> None:
    mail = b"From: ada@quay.example\nSubject: Piers\n\nThe pelican."
    path = tmp_path / "a.emlx"
    path.write_bytes(b"%d\n%b<?xml version='1.0'?><plist/>" % (len(mail), mail))
    (document,) = read_everything(path, "eml")
    assert isinstance(document, ReadDocument)
    assert document.text == "Subject: Piers\nFrom: ada@quay.example\n\nThe pelican."


def test_mails_that_were_deleted_in_thunderbird_are_left_out(tmp_path: Path) -> None:
    def stored(status: str, subject: str) -> str:
        return (
            f"From - Mon Mar  3 10:00:00 2031\nX-Mozilla-Status: {status}\n"
            f"X-Mozilla-Status2: 00800000\nSubject: {subject}\n\nX-Mozilla-Status: 0008\n\n"
        )

    path = tmp_path / "Inbox"
    path.write_text(stored("0001", "kept") + stored("0009", "deleted") + stored("0010", "other"))
    documents = list(read_everything(path, "mbox"))
    assert [
        (found.member, found.title) for found in documents if isinstance(found, ReadDocument)
    ] == [
        ("0001.eml", "kept"),
        ("0003.eml", "other"),
    ]
    path.write_text(stored("0009", "deleted"))
    with unreadable("empty"):
        list(read_everything(path, "mbox"))


def test_recipients_of_a_message_have_their_addresses(tmp_path: Path) -> None:
    opened = CompoundFile(office.msg())
    streams = {name: opened.read(name) for name in opened.names()}
    streams = {name: data for name, data in streams.items() if not name.startswith("__recip")}
    people = (
        ("Bo Quay", "bo@quay.example", "/O=QUAY/CN=BO", 1),
        ("'eva@quay.example'", "", "eva@quay.example", 0x10000001),
        ("Cy", "", "/O=QUAY/CN=CY", 2),
        ("Dee", "dee@quay.example", "", 3),
    )
    for number, (name, smtp, address, kind) in enumerate(people):
        folder = f"__recip_version1.0_#{number:08X}/"
        for code, text in (("3001", name), ("39FE", smtp), ("3003", address)):
            streams[f"{folder}__substg1.0_{code}001F"] = text.encode("utf-16-le")
        streams[f"{folder}__properties_version1.0"] = bytes(8) + struct.pack(
            "<IIQ", 0x0C150003, 6, kind
        )
    (tmp_path / "a.msg").write_bytes(compound_file(streams))
    document = next(read_everything(tmp_path / "a.msg", "msg"))
    assert isinstance(document, ReadDocument)
    lines = document.text.split("\n")
    assert [line for line in lines if line.startswith(("To:", "Cc:", "Bcc:"))] == [
        "To: Bo Quay <bo@quay.example>; eva@quay.example",
        "Cc: Cy",
        "Bcc: Dee <dee@quay.example>",
    ]


def test_thousands_of_recipients_are_read_as_outlook_shows_them(tmp_path: Path) -> None:
    opened = CompoundFile(office.msg())
    streams = {name: opened.read(name) for name in opened.names()}
    kind = bytes(8) + struct.pack("<IIQ", 0x0C150003, 6, 1)
    for number in range(1100):
        folder = f"__recip_version1.0_#{number:08X}/"
        streams[f"{folder}__substg1.0_3001001F"] = f"Person {number}".encode("utf-16-le")
        streams[f"{folder}__properties_version1.0"] = kind
    (tmp_path / "a.msg").write_bytes(compound_file(streams))
    document = next(read_everything(tmp_path / "a.msg", "msg"))
    assert isinstance(document, ReadDocument)
    assert "To: Bo" in document.text.split("\n")


def test_the_source_of_a_mail_that_is_saved_as_a_text_is_a_mail(tmp_path: Path) -> None:
    starts = (
        (b"Delivered-To: bo@quay.example\n", "eml"),
        (b"Return-Path: <>\n", "eml"),
        (b"Received: from quay.example\n by mx.example; Mon, 3 Mar 2031 10:00:00 +0000\n", "eml"),
        (b"Received: 12 boxes\n", "txt"),
        (b"", "txt"),
    )
    for start, format in starts:
        (tmp_path / "original_msg.txt").write_bytes(start + PACKED_MAIL)
        (document,) = read_everything(tmp_path / "original_msg.txt", "txt")
        assert isinstance(document, ReadDocument)
        assert document.format == format


def test_lists_of_the_files_of_a_saved_page_are_no_text(tmp_path: Path) -> None:
    listed = part("text/xml", '<xml><o:File HRef="a.css"/></xml>')
    listed["Content-Location"] = "file:///C:/a_files/filelist.xml"
    page = several(
        "related",
        part("text/html", "<p>Piers"),
        listed,
    )
    assert read(tmp_path, page, "a.mhtml") == ("Piers", [])
    invoice = part("text/xml", "<invoice>4711</invoice>")
    mail = several(
        "related",
        part("text/html", "<p>Piers"),
        invoice,
    )
    assert read(tmp_path, mail, "a.eml") == ("Piers\n\n<invoice>4711</invoice>", [])


def attached(name: str, **fields: str) -> Message:
    made = part(
        "application/octet-stream",
        b"\0\1",
        **fields,
    )
    made["Content-Disposition"] = f'attachment; filename="{name}"'
    return made


def test_a_mail_names_attached_files_that_are_not_read(tmp_path: Path) -> None:
    message = several(
        "mixed",
        part("text/plain", "The piers."),
        attached("Ground floor 4711.dwg"),
        attached("harbour.JPG"),
        attached("logo.png", Content_ID="<a@b>"),
        attached("image001.png"),
        attached("smime.p7s"),
        attached("plan.txt"),
    )
    path = tmp_path / "a.eml"
    path.write_bytes((HEADER + message.as_string()).encode())
    document = next(read_everything(path, "eml"))
    assert isinstance(document, ReadDocument)
    header = document.text.partition("\n\n")[0].split("\n")
    assert header[-1] == "Attachments: Ground floor 4711.dwg, harbour.JPG"


def test_a_message_names_attached_files_that_are_not_read(tmp_path: Path) -> None:
    names = ("plan.dwg", "a.jpg", "harbour.jpg", "plan.txt")
    opened = CompoundFile(office.msg(dict.fromkeys(names, b"\0\1")))
    streams = {name: opened.read(name) for name in opened.names()}
    streams["__attach_version1.0_#00000001/__substg1.0_3712001F"] = "a@b".encode("utf-16-le")
    (tmp_path / "a.msg").write_bytes(compound_file(streams))
    document = next(read_everything(tmp_path / "a.msg", "msg"))
    assert isinstance(document, ReadDocument)
    assert "\nAttachments: plan.dwg, harbour.jpg\n" in document.text


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        (
            "IPM.Contact",
            ["Organization: Quay Ltd", "Telephone: 040 12, 0171 3", "Email: ada@quay.example"],
        ),
        (
            "IPM.Appointment",
            [
                "Location: Pier 3",
                "Start: 2031-03-04 05:00:00+00:00",
                "End: 2031-03-04 06:00:00+00:00",
            ],
        ),
        ("IPM.Note", []),
    ],
)
def test_what_a_contact_and_an_appointment_of_outlook_hold_is_read(
    tmp_path: Path, kind: str, lines: list[str]
) -> None:
    texts = {"001A": kind, "0037": "Visit"}
    if kind == "IPM.Contact":
        texts |= {
            "3A16": "Quay Ltd",
            "3A08": "040 12",
            "3A1C": "0171 3",
            "8001": "ada@quay.example",
        }
    else:
        texts |= {"8002": "Pier 3"}
    streams = {f"__substg1.0_{id}001F": text.encode("utf-16-le") for id, text in texts.items()}
    # The names of 8000 (a text), 8001 to 8004, and a part of one.
    names = (
        (12, 3, 0),
        (0x8083, 6, 1),
        (0x8208, 4, 2),
        (0x820D, 4, 3),
        (0x820E, 4, 4),
    )
    entries = b"".join(struct.pack("<IHH", *name) for name in names) + b"\0\0\0"
    streams["__nameid_version1.0/__substg1.0_00030102"] = entries
    # 2031-03-04 05:00, and an hour later, in units of 0.1 µs since 1601.
    ticks = 135748404000000000
    times = ((0x80030040, ticks), (0x80040040, ticks + 3600 * 10**7))
    numbers = b"".join(struct.pack("<IIQ", tag, 6, value) for tag, value in times)
    streams["__properties_version1.0"] = bytes(32) + (b"" if kind == "IPM.Contact" else numbers)
    (tmp_path / "a.msg").write_bytes(compound_file(streams))
    document = next(read_everything(tmp_path / "a.msg", "msg"))
    assert isinstance(document, ReadDocument)
    assert document.text.split("\n") == ["Subject: Visit", *lines]
