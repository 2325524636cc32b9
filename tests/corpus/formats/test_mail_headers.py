"""Header fields of mails as people see them, however programs have written them."""

from __future__ import annotations

import struct
from base64 import b64encode
from contextlib import suppress
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

import pytest
from fixtures import office
from fixtures.compound_writer import compound_file

from engine.core.records import ReadDocument
from engine.corpus.formats import LeftOut, UnreadableFileError
from engine.corpus.formats.containers import CompoundFile
from engine.corpus.formats.mail.headers import FieldDecoder
from engine.corpus.formats.opening import read_everything
from engine.corpus.scan.scan import scan

FAULT = "faults/07-mail-raw-headers/docs"


def parsed(header: bytes) -> Message:
    return BytesParser().parsebytes(header + b"\n\nBody.\n")


def subject(field: bytes, content_type: bytes = b"text/plain") -> str:
    message = parsed(b"Subject: " + field + b"\nContent-Type: " + content_type)
    return FieldDecoder(message).read_field(message, "subject")


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("utf-8", "Prüfung der Türschließer"),
        ("cp1252", "Prüfung der Brücke"),
        ("cp1252", "Réunion du comité à Genève"),
        ("cp1250", "Žádost o zprávu o škodě"),
        ("cp1251", "Проверка моста"),
        ("koi8-r", "Проверка моста"),
        ("cp932", "橋の点検について"),
        ("iso2022_jp", "橋の点検"),
        ("gb18030", "桥梁检查"),
        ("big5", "橋樑檢查"),
        ("cp932", "点検契約"),
        ("cp949", "교량 점검"),
        ("cp1253", "Έλεγχος γέφυρας"),
        ("cp1255", "בדיקת הגשר"),
    ],
)
def test_raw_bytes_are_read_though_nothing_names_their_encoding(encoding: str, text: str) -> None:
    assert subject(text.encode(encoding)) == text


def test_raw_bytes_are_in_the_encoding_that_a_body_without_charset_is_likely_in() -> None:
    body = "Prosíme o kontrolu přiložené smlouvy. Děkujeme, žluťoučký kůň."
    subject = "Smlouva o údržbě jeřábu"
    content = f"Subject: {subject}\n\n{body}\n".encode("cp1250")
    message = BytesParser().parsebytes(content)
    assert FieldDecoder(message).read_field(message, "subject") == subject


@pytest.mark.parametrize(
    ("encoding", "name"), [("gb18030", "维修合同.txt"), ("cp932", "点検契約.txt")]
)
def test_a_short_raw_name_of_a_file(encoding: str, name: str) -> None:
    part = parsed(b'Content-Disposition: attachment; filename="%b"' % name.encode(encoding))
    assert FieldDecoder(part).read_file_name(part) == name


@pytest.mark.parametrize(
    ("charset", "text"),
    [("gb2312", "桥梁检查报告"), ("big5", "橋樑檢查報告"), ("iso-8859-2", "Wniosek o naprawę")],
)
def test_raw_bytes_are_in_the_encoding_of_the_body(charset: str, text: str) -> None:
    assert subject(text.encode(charset), f"text/plain; charset={charset}".encode()) == text


@pytest.mark.parametrize(
    "field",
    [
        b"=?utf-8?Q?Pr=C3=BCfung?=",
        b"=?iso-8859-1?Q?Pr=C3=BCfung?=",  # a wrong charset
        b"=?us-ascii?Q?Pr=C3=BCfung?=",
        b"=?utf-8?Q?Pr=FCfung?=",
        b"=?x-unknown?Q?Pr=C3=BCfung?=",
        b"=?unknown-8bit?Q?Pr=FCfung?=",
        b"=?windows-1252?Q?Pr=FCfung?=",
        b"=?x-cp1252?Q?Pr=FCfung?=",
        b"=?x-mac-roman?Q?Pr=9Ffung?=",
        b"=?unicode-1-1-utf-7?Q?Pr+APw-fung?=",
        b"=?utf-8*de?Q?Pr=C3=BCfung?=",  # with a language, by RFC 2231
        b"=?utf-8?B?UHLDvGZ1bmc?=",  # without padding
        b"=?utf-8?Q?Pr=C3=BCfung",  # without an end
        b"=?utf-8?B?UHLDvGZ1bmc=",
        b"=?utf-8?Q?=3D=3Futf-8=3FQ=3FPr=3DC3=3DBCfung=3F=3D?=",  # encoded twice
        b"=?macintosh?Q?Pr=9Ffung?=",
        b"=?utf-8?Q?Pr=C3?=\n =?utf-8?Q?=BCfung?=",  # a character that is split
        b"=?utf-8?B?UHLD?=\n\t=?UTF-8?B?vGZ1bmc=?=",
        b"=?utf-8?B?UHL?=\n =?utf-8?B?DvGZ1bmc?=",  # a group of base64 that is split
        b"=?utf-8?B?UHLD\n vGZ1bmc=?=",  # folded within a word
        b"=?utf-8?Q?Pr\xc3\xbcfung?=",  # raw within a word
    ],
)
def test_encoded_words_are_decoded_however_they_are_written(field: bytes) -> None:
    assert subject(field) == "Prüfung"


@pytest.mark.parametrize(
    ("charset", "data", "text"),
    [
        ("gb2312", "模".encode("gbk"), "模"),  # also valid UTF-8, of another character
        ("gb2312", "桥梁".encode(), "桥梁"),
        ("iso-2022-jp", "橋の点検".encode("iso2022_jp"), "橋の点検"),
    ],
)
def test_words_of_several_bytes_a_character(
    charset: str,
    data: bytes,
    text: str,
) -> None:
    assert subject(f"=?{charset}?B?{b64encode(data).decode()}?=".encode()) == text


def test_text_between_encoded_words_stays() -> None:
    field = b"Re: =?utf-8?q?Pr=C3=BCfung?= der Br\xc3\xbccke =?iso-8859-15?q?f=FCr_9_=A4?="
    assert subject(field) == "Re: Prüfung der Brücke für 9 €"
    assert subject(b"=?utf-8?Q?no word =?utf-8 Ring?") == "=?utf-8?Q?no word =?utf-8 Ring?"
    assert (
        subject(b'"=?utf-8?Q?M=C3=BCller=2C_J=C3=B6rg?=" <j@quay.example>')
        == '"Müller, Jörg" <j@quay.example>'
    )


@pytest.mark.parametrize(
    "disposition",
    [
        'attachment; filename="Übergabe.txt"'.encode(),
        'attachment; filename="Übergabe.txt"'.encode("cp1252"),
        "attachment; filename=Übergabe.txt".encode(),
        b"attachment; filename*=utf-8''%C3%9Cbergabe.txt",
        b"attachment; filename*=iso-8859-1''%C3%9Cbergabe.txt",  # a wrong charset
        b"attachment; filename*=x-unknown''%C3%9Cbergabe.txt",
        b"attachment; filename*0*=utf-8''%C3%9Cber;\n filename*1=gabe.txt",
        b'attachment; filename="=?utf-8?Q?=C3=9Cbergabe.txt?="',
        b'attachment;\n filename="=?utf-8?Q?=C3=9Cber?=\n =?utf-8?Q?gabe.txt?="',
        b"attachment; filename==?iso-8859-1?Q?=DCbergabe.txt?=",
        b'attachment; filename="%C3%9Cbergabe.txt"',
    ],
)
def test_names_of_attachments(disposition: bytes) -> None:
    part = parsed(b"Content-Disposition: " + disposition)
    assert FieldDecoder(part).read_file_name(part) == "Übergabe.txt"


def test_a_name_that_the_type_alone_gives() -> None:
    part = parsed(
        'Content-Type: text/plain; name="Übergabe.txt"\nContent-Disposition: attachment'.encode()
    )
    assert FieldDecoder(part).read_file_name(part) == "Übergabe.txt"


def test_mail_mailbox_and_report_show_the_same(tmp_path: Path) -> None:
    mail = (
        "From: Jörg <j@quay.example>\nSubject: Überweisung Käse\nContent-Type: text/plain\n\nThe"
        " heron.\n".encode()
    )
    (tmp_path / "a.eml").write_bytes(mail)
    (tmp_path / "a.mbox").write_bytes(b"From a@quay.example Tue Jun 17 09:12:00 2031\n" + mail)
    for name in ("a.eml", "a.mbox"):
        (document,) = read_everything(tmp_path / name, name.rpartition(".")[2])
        assert isinstance(document, ReadDocument)
        assert (document.title, document.author) == ("Überweisung Käse", "Jörg <j@quay.example>")


def outlook_mail(
    folder: Path,
    subject: bytes,
    code: str,
    page: int,
) -> ReadDocument:
    opened = CompoundFile(office.msg({}))
    streams = {path: opened.read(path) for path in opened.names() if "_0037" not in path}
    streams[f"__substg1.0_0037{code}"] = subject
    streams["__properties_version1.0"] += struct.pack(
        "<HHIII",
        3,
        0x3FFD,
        6,
        page,
        0,
    )
    (folder / "a.msg").write_bytes(compound_file(streams))
    document, *_ = read_everything(folder / "a.msg", "msg")
    assert isinstance(document, ReadDocument)
    return document


@pytest.mark.parametrize(
    ("data", "code", "page"),
    [
        ("Prüfung".encode("cp1252"), "001E", 1252),
        ("Prüfung".encode(), "001E", 1252),  # a wrong page
        ("Prüfung".encode("iso8859-15"), "001E", 28605),
        ("Prüfung".encode("mac_roman"), "001E", 10000),
        ("Prüfung".encode("cp1252"), "001E", 4711),  # one that there is not
        ("=?utf-8?Q?Pr=C3=BCfung?=".encode("utf-16-le"), "001F", 1252),
        ("\x01\x04Prüfung".encode("utf-16-le"), "001F", 1252),
    ],
)
def test_subjects_of_outlook(
    tmp_path: Path,
    data: bytes,
    code: str,
    page: int,
) -> None:
    document = outlook_mail(
        tmp_path,
        data,
        code,
        page,
    )
    assert document.title == "Prüfung"
    assert document.text.startswith("Subject: Prüfung\n")


def tnef(
    files: dict[str, bytes], body: bytes = b"", properties: bytes = b"", attached: bytes = b""
) -> bytes:
    """What Outlook calls winmail.dat; `attached` are the properties of the last file."""

    def attribute(code: int, value: bytes) -> bytes:
        return (
            struct.pack("<BII", 2, code, len(value)) + value + struct.pack("<H", sum(value) % 65536)
        )

    made = bytes.fromhex("789f3e220100") + attribute(0x00069007, struct.pack("<II", 1252, 0))
    made += attribute(0x00018004, b"Piers\0")
    if body:
        made += attribute(0x0002800C, body)
    if properties:
        made += attribute(0x00069003, properties)
    for name, content in files.items():
        made += attribute(0x00069002, bytes(14)) + attribute(
            0x00018010, name.encode("cp1252") + b"\0"
        )
        made += attribute(0x0006800F, content)
    if attached:
        made += attribute(0x00069005, attached)
    return made


def mail_with(
    packed: bytes,
    body: bytes,
    content_type: bytes = b"application/ms-tnef",
) -> bytes:
    return (
        b"Subject: Piers\nFrom: a@quay.example\nContent-Type: multipart/mixed;"
        b' boundary="x"\n\n--x\n\n' + body + b"\n--x\nContent-Type: " + content_type + b"\n"
        b"Content-Transfer-Encoding: base64\nContent-Disposition: attachment;"
        b" filename=winmail.dat\n\n" + b64encode(packed) + b"\n--x--\n"
    )


def stated(*properties: tuple[int, int, bytes]) -> bytes:
    """Properties of Outlook: code, kind and value, padded to four bytes ([MS-OXTNEF] 2.1.3.4)."""
    made = struct.pack("<I", len(properties))
    for code, kind, value in properties:
        padding = bytes(-len(value) % 4)
        made += struct.pack("<HHII", kind, code, 1, len(value)) + value + padding
    return made


@pytest.mark.parametrize("content_type", [b"application/ms-tnef", b"application/octet-stream"])
def test_files_in_winmail_dat_are_read(tmp_path: Path, content_type: bytes) -> None:
    packed = tnef({"Übergabe.txt": b"The heron list.", "plan.xyz": b"\0\1"}, b"See.")
    (tmp_path / "a.eml").write_bytes(mail_with(packed, b"See.", content_type))
    mail, document, other = read_everything(tmp_path / "a.eml", "eml")
    assert isinstance(mail, ReadDocument)
    assert mail.text == "Subject: Piers\nFrom: a@quay.example\n\nSee."
    assert isinstance(document, ReadDocument)
    assert (document.member, document.text) == ("winmail.dat/Übergabe.txt", "The heron list.")
    assert isinstance(other, LeftOut)
    assert (other.member, other.kind) == ("winmail.dat/plan.xyz", "unsupported")


def test_the_mail_in_a_renamed_winmail_dat_is_read(tmp_path: Path) -> None:
    packed = tnef({"a.txt": b"The heron list."}, b"The tern nests.")
    named = mail_with(packed, b"See.", b"application/octet-stream")
    (tmp_path / "a.eml").write_bytes(named.replace(b"=winmail.dat", b"=ATT1.bin"))
    mail, inner, document = read_everything(tmp_path / "a.eml", "eml")
    assert isinstance(mail, ReadDocument)
    assert mail.text.endswith("\n\nSee.")
    assert isinstance(inner, ReadDocument)
    assert (inner.member, inner.text) == ("ATT1.bin", "Subject: Piers\n\nThe tern nests.")
    assert isinstance(document, ReadDocument)
    assert (document.member, document.text) == ("ATT1.bin/a.txt", "The heron list.")


PAGE_OF_MAIL = b"<html><body><p>The tern <b>nests</b>.</p></body></html>"


@pytest.mark.parametrize(
    ("packed", "text"),
    [
        (tnef({}, "Die Türme.".encode("cp1252")), "Die Türme."),
        (tnef({}, properties=stated((0x1000, 31, "Łódź\0".encode("utf-16-le")))), "Łódź"),
        (tnef({}, properties=stated((0x1013, 258, PAGE_OF_MAIL))), "The tern nests."),
        (
            # A flag, several numbers, a named property and the sender stand before the body.
            tnef(
                {},
                properties=struct.pack("<IHHHH", 5, 11, 0x0E1F, 1, 0)
                + struct.pack("<HHIII", 0x1003, 0x6001, 2, 7, 8)
                + struct.pack("<HH16sIIHH", 3, 0x8001, b"", 1, 4, 97, 0)
                + struct.pack("<I", 9)
                + stated((0x0C1A, 30, b"Ada\0"), (0x1000, 30, b"The heron moors."))[4:],
            ),
            "The heron moors.",
        ),
    ],
)
def test_the_text_of_a_mail_that_is_only_in_winmail_dat_is_read(
    tmp_path: Path, packed: bytes, text: str
) -> None:
    (tmp_path / "a.eml").write_bytes(mail_with(packed, b""))
    (mail,) = read_everything(tmp_path / "a.eml", "eml")
    assert isinstance(mail, ReadDocument)
    assert mail.text == f"Subject: Piers\nFrom: a@quay.example\n\n{text}"
    (tmp_path / "winmail.dat").write_bytes(packed)
    (alone,) = read_everything(tmp_path / "winmail.dat", "tnef")
    assert isinstance(alone, ReadDocument)
    assert alone.title == "Piers"
    assert alone.text.endswith(f"\n\n{text}")
    assert alone.text.startswith("Subject: Piers\n")
    assert alone.author == ("Ada" if "heron" in text else "")


def test_a_file_whose_whole_name_and_content_are_properties_is_read(tmp_path: Path) -> None:
    name = (
        0x3707,
        31,
        "Übergabe der Türme.txt\0".encode("utf-16-le"),
    )
    files = {"BERGA~1.TXT": b"The heron list."}
    (tmp_path / "winmail.dat").write_bytes(tnef(files, attached=stated(name)))
    (document,) = read_everything(tmp_path / "winmail.dat", "tnef")
    assert (document.member, document.text) == ("Übergabe der Türme.txt", "The heron list.")
    content = (0x3701, 258, b"The tern list.")
    (tmp_path / "winmail.dat").write_bytes(tnef({"A": b""}, attached=stated(name, content)))
    (document,) = read_everything(tmp_path / "winmail.dat", "tnef")
    assert (document.member, document.text) == ("Übergabe der Türme.txt", "The tern list.")


def test_a_mail_that_is_attached_in_winmail_dat_is_read(tmp_path: Path) -> None:
    inner = (
        0x3701,
        13,
        bytes(16) + tnef({}, b"The tern nests."),
    )
    whole = tnef(
        {"Forwarded": b"an icon"},
        b"See below.",
        attached=stated(inner),
    )
    (tmp_path / "winmail.dat").write_bytes(whole)
    outer, document = read_everything(tmp_path / "winmail.dat", "tnef")
    assert isinstance(outer, ReadDocument)
    assert outer.text == "Subject: Piers\n\nSee below."
    assert isinstance(document, ReadDocument)
    assert document.member == "Forwarded"
    assert document.text == "Subject: Piers\n\nThe tern nests."


def test_winmail_dat_is_known_by_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "winmail.dat").write_bytes(tnef({"a.txt": b"The heron list."}))
    (tmp_path / "Winmail (2).dat").write_bytes(tnef({}))
    (tmp_path / "b").mkdir()
    (tmp_path / "b/winmail.dat").write_bytes(b"no TNEF at all")
    found = scan([tmp_path])
    assert [(file.path, file.format) for file in found.files] == [
        ("Winmail (2).dat", "tnef"),
        ("winmail.dat", "tnef"),
    ]
    assert [item.path for item in found.skipped] == ["b/winmail.dat"]
    with pytest.raises(UnreadableFileError) as caught:
        list(read_everything(tmp_path / "Winmail (2).dat", "tnef"))
    assert caught.value.kind == "empty"
    listed = stated((0x3707, 30, b"list.txt\0"))
    # Cut anywhere, it gives what is whole.
    whole = tnef(
        {"a.txt": b"The heron list."},
        b"The tern.",
        attached=listed,
    )
    for length in range(8, len(whole)):
        (tmp_path / "winmail.dat").write_bytes(whole[:length])
        texts = []
        with suppress(UnreadableFileError):
            for one in read_everything(tmp_path / "winmail.dat", "tnef"):
                if isinstance(one, ReadDocument):
                    texts.append(one.text)
        assert set(texts) <= {"Subject: Piers\n\nThe tern.", "The heron list."}
        assert ("The heron list." in texts) == (length >= whole.index(b"The heron list.") + 15)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("a_rawutf8_utf8body.eml", "Prüfung der Türschließer"),
        ("b_rawcp1252.eml", "Prüfung der Brücke"),
        ("raw8subject.eml", "Grüße aus der Küche"),
        ("t_mixedmbox.mbox", "Überweisung Käse"),
    ],
)
def test_mails_of_others(
    shared_data: Path,
    name: str,
    title: str,
) -> None:
    (document,) = read_everything(shared_data / FAULT / name, name.rpartition(".")[2])
    assert isinstance(document, ReadDocument)
    assert document.title == title


@pytest.mark.shared
def test_an_attachment_of_others(shared_data: Path) -> None:
    _, attached = read_everything(shared_data / FAULT / "c_rawattname.eml", "eml")
    assert attached.member == "Übergabeprotokoll.txt"
