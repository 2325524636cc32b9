"""Text in any encoding: nothing of it is lost, and what was guessed or replaced is said."""

from __future__ import annotations

import json
import re
import tracemalloc
from pathlib import Path

import pytest
from fixtures.errors import unreadable

from engine.corpus.formats.html import READER
from engine.corpus.formats.plain import (
    decode,
    decode_as,
    find_informative_sample,
    guess_encoding,
    guess_encoding_of_names,
)

PATH = Path("a.txt")
RUSSIAN = "Пеликан отдыхает на причале и ждёт корабль.\n"
GERMAN = "Größe der Überschüsse für München.\n"
SENTENCES = (
    (
        "Die Prüfung der Anlage fällt größer aus als gewöhnlich.",
        ("cp1252", "cp437", "cp850", "mac_roman"),
    ),
    ("Le pélican se repose sur la jetée ; l’été a été très chaud.", ("cp1252", "mac_roman")),
    (RUSSIAN, ("cp1251", "koi8-r", "cp866", "iso8859-5", "mac_cyrillic")),
    ("Пелікан відпочиває на причалі і чекає на корабель.", ("cp1251", "koi8-u")),
    ("Ο πελεκάνος ξεκουράζεται στην προβλήτα.", ("iso8859-7", "cp1253")),
    ("Işık, şeker ve balıkçı gemisi iskelede ağır ağır bekliyor.", ("cp1254", "iso8859-9")),
    ("Pelikan odpoczywa na nabrzeżu i czeka na łódź.", ("cp1250", "iso8859-2")),
    ("Pelikán odpočívá na molu a čeká na příští loď.", ("cp1250", "iso8859-2")),
    ("Pelikanas ilsisi prieplaukoje, šviečia žvaigždės.", ("cp1257",)),
    ("השקנאי נח על המזח ומחכה לספינה.", ("cp1255",)),
    ("البجع يستريح على الرصيف وينتظر السفينة.", ("cp1256",)),
    ("นกกระทุงพักผ่อนที่ท่าเรือและรอเรือ", ("cp874",)),
    (
        "ペリカンは桟橋で休んでいます。契約書の第三条を参照してください。",
        ("cp932", "euc_jp", "iso2022_jp"),
    ),
    ("鹈鹕在码头上休息，等待船只。合同已经无效。", ("gb18030",)),
    ("鵜鶘在碼頭上休息，等待船隻。合同已經無效。", ("big5",)),
    ("펠리컨은 부두에서 쉬면서 배를 기다립니다.", ("cp949", "iso2022_kr")),
    (RUSSIAN * 5, ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")),
)


NAMES = (
    (
        "gb18030",
        ("报告.docx", "年度报告2023.docx", "资料/会议记录.txt", "新建文本文档.txt", "照片", "合同"),
    ),
    ("big5", ("年度報告2023.docx", "資料/會議記錄.txt", "新文字文件.txt")),
    (
        "cp932",
        (
            "報告書.docx",
            "議事録2023.docx",
            "新しいフォルダー/新規テキスト.txt",
            "ソフト.txt",
            "写真",
            "資料.pdf",
        ),
    ),
    ("cp949", ("보고서.docx", "회의록2023.docx", "새 폴더/새 텍스트 문서.txt", "사진")),
    ("cp866", ("Годовой отчет 2023.docx", "Новая папка/Договор.txt", "фото.txt", "Акт")),
    ("cp1251", ("Годовой отчет 2023.docx", "Новая папка/Договор.txt")),
    ("cp437", ("Übersicht.docx", "Prüfbericht näher.docx", "Año nuevo.txt", "résumé.pdf")),
    ("cp850", ("São Paulo.txt", "Ærø.txt")),
    ("cp852", ("Zpráva č. 3.docx", "Żółw.txt", "Příloha.pdf", "umowa kupna sprzedaży.pdf")),
    ("cp1252", ("Übersicht.docx", "résumé.pdf", "Año nuevo.txt")),
    ("cp737", ("Αναφορά.docx", "Έκθεση 2023.txt")),
    ("cp862", ("דוח שנתי.docx", "שלום.txt")),
    ("cp857", ("İş planı.docx",)),
)


@pytest.mark.parametrize(
    ("encoding", "name"), [(encoding, name) for encoding, names in NAMES for name in names]
)
def test_a_short_name_is_read_in_the_code_page_of_its_program(encoding: str, name: str) -> None:
    written = name.encode(encoding)
    assert written.decode(guess_encoding_of_names(written) or "cp437") == name


@pytest.mark.parametrize(
    ("text", "encoding"), [(text, name) for text, names in SENTENCES for name in names]
)
def test_a_sentence_is_read_in_whatever_encoding_it_is(text: str, encoding: str) -> None:
    found, note = decode(text.encode(encoding), PATH)
    assert found == text
    assert bool(note) == (not encoding.startswith("iso2022"))


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Größenänderung über Straße – „Prüfung“ €", "cp1252"),
        ("Größe und Höhe der Brücke, Maße", "mac_roman"),
        ("Mörtelkelle;3;12.750,00", "cp1252"),
        ("Договор аренды", "cp1251"),
        ("合同应当在明天之前提交", "gb18030"),
        ("議事録を提出してください", "shift_jis"),
    ],
)
def test_a_few_words_are_read_in_the_encoding_that_gives_words(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding), PATH)[0] == text


@pytest.mark.parametrize("word", ["Größe", "café"])
def test_a_word_with_one_accent_is_western(word: str) -> None:
    assert guess_encoding(word.encode("cp1252")) == "cp1252"


def noted(note: str) -> tuple[int, str]:
    """How many places a note says were not read as they should be, and the encoding that it
    names.
    """
    (count,) = re.findall(r"(?<![\w-])\d+", note)
    return int(count), next(iter(re.findall(r"\bcp\d+", note)), "")


@pytest.mark.parametrize(
    ("data", "start", "encoding"),
    [
        ((RUSSIAN * 40).encode()[:-3], RUSSIAN, ""),
        ((RUSSIAN * 40).encode() + b"\xff", RUSSIAN, ""),
        ((GERMAN * 40).encode().replace(b"M", b"\xe9M", 1), GERMAN.replace("M", "\ufffdM"), ""),
        ((GERMAN * 3).encode("utf-16") + b"x", GERMAN, ""),
    ],
)
def test_a_bad_byte_in_utf_8_costs_that_byte_only(
    data: bytes,
    start: str,
    encoding: str,
) -> None:
    text, note = decode(data, PATH)
    assert text.startswith(start)
    assert noted(note) == (1, encoding)
    assert text.count("\ufffd") == (not encoding)


def test_nuls_in_a_log_are_replaced() -> None:
    line = b"2031-03-04 05:06:07 the pelican rests\n"
    text, note = decode(line * 50 + b"\0" * 4096 + line * 50, PATH)
    assert text == line.decode() * 50 + "\ufffd" + line.decode() * 50
    assert noted(note) == (1, "")
    with unreadable("binary"):
        decode(b"a\0b\0\0c\0\1\2\3\0\0d" * 9, PATH)


def test_mainframe_text_is_read() -> None:
    text = "The pelican boards at dawn, and the heron moors at noon.\r\n" * 9
    assert decode(text.encode("cp500"), PATH)[0] == text.replace("\r\n", "\n")


def test_the_encoding_of_a_label_is_taken_where_it_can_be() -> None:
    assert decode_as("„Größe“".encode("cp1252"), "iso-8859-1", PATH) == ("„Größe“", "")
    assert decode_as("Größe".encode(), "iso-8859-1", PATH)[0] == "Größe"
    assert decode_as("鹈鹕镕".encode("gb18030"), "GB2312", PATH) == ("鹈鹕镕", "")
    assert decode_as((RUSSIAN * 3).encode()[:-3], "utf-8", PATH)[0].startswith(RUSSIAN)
    assert decode_as(RUSSIAN.encode("koi8-r"), "no-such-encoding", PATH)[0] == RUSSIAN


@pytest.mark.parametrize("label", ["unicode", "utf-16", "UTF-16LE", "utf-32"])
@pytest.mark.parametrize("blanks", ["", " ", "  ", "   "])
def test_a_label_that_was_read_byte_by_byte_is_not_true_where_it_is_utf_16(
    label: str, blanks: str
) -> None:
    text = f'<meta charset="{label}"><p>The pelican contract is void.</p>{blanks}'
    assert decode_as(text.encode(), label, PATH) == (text, "")
    (page,) = READER.read(Path("a.html"), text.encode())
    assert page.text == "The pelican contract is void."


def test_utf_16_with_its_mark_is_read() -> None:
    for encoding in ("utf-16-le", "utf-16-be", "utf-16"):
        assert decode_as(GERMAN.encode(encoding), encoding, PATH) == (GERMAN, "")


@pytest.mark.parametrize(
    "label", ["ascii", "us-ascii", "utf-8", "iso-8859-1", "shift_jis", "iso-2022-jp"]
)
def test_japanese_in_escapes_is_read_whatever_its_label_says(label: str) -> None:
    text = "ペリカンは桟橋で休んでいます。"
    assert decode_as(text.encode("iso2022_jp"), label, PATH)[0] == text


@pytest.mark.parametrize("label", ["gb2312", "gbk", "big5", "shift_jis", "euc-jp", "euc-kr"])
@pytest.mark.parametrize(
    "text", ["Größe", "Ein Überschuß.", "合同已经无效。", "ペリカンは", "펠리컨은 부두에서"]
)
def test_utf_8_is_read_whatever_its_label_says(label: str, text: str) -> None:
    assert decode_as(text.encode(), label, PATH)[0] == text


def test_only_a_bounded_part_of_a_long_text_is_examined() -> None:
    line = "the pelican rests on the pier " * 80 + "in München"
    data = "\n".join([line] * 4000).encode("cp1252")
    assert len(find_informative_sample(data)) < 100_000 < len(data)
    assert guess_encoding(data) == "cp1252"


@pytest.mark.parametrize("codec", ["cp1252", "latin-1"])
@pytest.mark.parametrize("text", ["Prüfung der Brücke – 5 €", "Ação à “São Paulo”", "Größe"])
def test_utf_8_that_was_encoded_twice_is_read(text: str, codec: str) -> None:
    taken = ""
    for byte in text.encode():
        # Browsers and Windows take bytes that Windows-1252 lacks for control characters.
        taken += bytes([byte]).decode(codec, "ignore") or chr(byte)
    assert decode(taken.encode(), PATH) == (text, "its UTF-8 was encoded twice")


@pytest.mark.parametrize("text", ["Größe, also written GrÃ¶ÃŸe", "Ã", "Â§ 12, naïve"])
def test_other_text_with_such_letters_stays(text: str) -> None:
    assert decode(text.encode(), PATH) == (text, "")


def test_colours_of_a_log_split_no_words() -> None:
    log = b"\x1b[31mERROR\x1b[0m pelican\x1b[1;32mry\x1b[m\n2031-05-17 [1m INFO\n"
    assert decode(log, PATH)[0] == "ERROR pelicanry\n2031-05-17 [1m INFO\n"


@pytest.mark.parametrize("encoding", ["cp1252", "mac-roman", "cp850", "cp437"])
@pytest.mark.parametrize(
    "text",
    [
        "Name,Preis\nKöln,5\n",
        "Mustermann; Nürnberg; 5 Stück",
        "Die Tür schließt nicht.\n",
        "Nom;Prénom;Ville\nGarçon;André;Nîmes\n",
        "Año;Señor\nMuñoz;José\n",
    ],
)
def test_short_tables_of_old_western_programs_are_read(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding), PATH)[0] == text


def test_a_likely_encoding_of_few_letters_is_kept() -> None:
    text = "Łódź;Zażółć\n"
    assert decode(text.encode("cp1250"), PATH)[0] == text
    assert decode("Maße: 5 m²".encode("cp1252"), PATH)[0] == "Maße: 5 m²"


FRAMED = "╔══════════════╗\n║ Prüfprotokoll ║\n╚══════════════╝\nDie Öle der Getriebe.\n"


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp437", FRAMED),
        ("cp850", FRAMED),
        ("cp852", "┌──────┐\n│ Łódź │\n└──────┘\nZażółć gęślą jaźń.\n"),
        ("cp866", "┌───────┐\n│ Отчёт │\n└───────┘\nПроверка насоса завершена.\n"),
    ],
)
def test_frames_show_a_text_of_dos(encoding: str, text: str) -> None:
    assert decode(text.encode(encoding), PATH)[0] == text


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        (
            "cp1256",
            "عقد إيجـــــــار شقة سكنية في مدينة الرياض\nيلتزم المستأجر بدفع الإيجار كل شهر.\n",
        ),
        ("koi8-r", "Шшшш, тише! Хмммм, договор аренды квартиры заключён между сторонами.\n"),
        ("cp874", "สวัสดีครับ อออออ ไม่เป็นไร วันนี้เราไปกินข้าวกันที่ร้านใหม่\n"),
        ("cp1252", "ÄÄÄÄh! Die Größe der Wohnung wurde geprüft, bei 20°°°° am März.\n"),
    ],
)
def test_letters_that_recur_are_no_frames(encoding: str, text: str) -> None:
    text *= 8
    assert decode(text.encode(encoding), PATH)[0] == text


def test_western_lines_within_utf_8_are_read() -> None:
    data = "Prüfung über Käse\n".encode() * 2 + "Müller, Großöde, Übung, à\n".encode("cp1252")
    text = "Prüfung über Käse\n" * 2 + "Müller, Großöde, Übung, \ufffd\n"
    assert decode(data, PATH)[0] == text
    halves = "Prüfung über Käse ".encode() + b"Pr\xc3fung \xd1f \xcfa"
    assert decode(halves, PATH)[0] == "Prüfung über Käse Pr\ufffdfung \ufffdf \ufffda"
    # The first byte of a letter such as ş, at the end of a part that a program has cut off.
    cut = "Prüfung über Käse ".encode() + b"ba\xc5 olan"
    assert decode(cut, PATH)[0] == "Prüfung über Käse ba\ufffd olan"


PICTURE = "data:image/png;base64," + "iVBORw0KGgo/" * 40


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (f"A ![plan]({PICTURE}) of it", "A ![plan]() of it"),
        (f"[image1]: <{PICTURE}>\nEnd", "[image1]: <>\nEnd"),
        (json.dumps({"a": PICTURE}).replace("/", "\\/"), '{"a": ""}'),
        ("data:image/png;base64,iVBORw0KGgo= is short", None),
    ],
)
def test_pictures_within_a_text_are_left_out(source: str, text: str | None) -> None:
    assert decode(source.encode(), PATH)[0] == (text or source)


def test_a_large_picture_within_a_text_takes_little_memory() -> None:
    data = b"A ![plan](data:image/png;base64,%b) of it" % (b"iVBORw0K" * 2**17)
    tracemalloc.start()
    try:
        assert decode(data, PATH)[0] == "A ![plan]() of it"
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10 * len(data)


@pytest.mark.parametrize("label", ["", "iso-8859-1", "utf-8"])
def test_control_characters_of_latin_1_are_windows_characters(label: str) -> None:
    data = "The pier\x92s price: 5 \x80, caf\u00e9".encode()
    decoded = decode_as(data, label, PATH) if label else decode(data, PATH)
    assert decoded[0] == "The pier\u2019s price: 5 \u20ac, caf\u00e9"


def test_a_line_end_of_mainframes_stays() -> None:
    assert decode("one\u0085two".encode(), PATH)[0] == "one\u0085two"
