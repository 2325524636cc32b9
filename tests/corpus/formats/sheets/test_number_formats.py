"""Numbers by the codes of their cells' formats.

The texts are what Excel shows, in single spaces.
"""

from __future__ import annotations

import pytest

from engine.corpus.formats.sheets.built_in_formats import BUILT_IN
from engine.corpus.formats.sheets.number_formats import choose_code
from engine.corpus.formats.sheets.shown import find_added_text, find_hidden_digits, show_number

EUROS = '_-* #,##0.00 "€"_-;-* #,##0.00 "€"_-'
FIFTY = [
    ("#,##0.##", 1234.56, "1,234.56"),
    ("0.##", 7.25, "7.25"),
    ("0.##", 7.5, "7.5"),
    ("0.0##", 7.125, "7.125"),
    ("#.##", 0.5, ".5"),
    ("0.###", 12.5, "12.5"),
    ("#,##0.###", 98765.432, "98,765.432"),
    ("0.0#", 3.1, "3.1"),
    ("0.00##", 3.14159, "3.1416"),
    ("00000", 1067, "01067"),
    ("0000000", 90887, "0090887"),
    ("000", 7, "007"),
    ('"PN-"00000', 42, "PN-00042"),
    ("000-00-0000", 12345678, "012-34-5678"),
    ("(###) ###-####", 5551234567, "(555) 123-4567"),
    ("000\\.000\\.000", 12345678, "012.345.678"),
    ("0000-00-00", 20310517, "2031-05-17"),
    ('00":"00', 830, "08:30"),
    ("# ?/?", 0.75, "3/4"),
    ("# ?/?", 2.5, "2 1/2"),
    ("# ??/??", 3.125, "3 1/8"),
    ('General" kg"', 72.5, "72.5 kg"),
    ("General", 0.3, "0.3"),
    ("General", 59.97, "59.97"),
    ("General", 1.21, "1.21"),
    ("General", 115, "115"),
    ("General", 1234567890123, "1.23457E+12"),
    ("0%", 0.125, "13%"),
    ("0.0%", 0.0745, "7.5%"),
    ("0.00%", 0.0745, "7.45%"),
    ("0", 2.5, "3"),
    ("0.0", 0.25, "0.3"),
    ("0.00", 1.005, "1.01"),
    ('#,##0.00 "€";-#,##0.00 "€"', -42.5, "-42.50 €"),
    ("#,##0 ;(#,##0)", -310, "(310)"),
    (EUROS, 815.4, "815.40 €"),
    ("0.0,", 15600, "15.6"),
    ('0.0,,"m"', 23400000, "23.4m"),
    ("##0.0E+0", 12345, "12.3E+3"),
    ('[<1000]0" m";0.0," km"', 2500, "2.5 km"),
    ('@" pcs"', 12, "12 pcs"),
    ("0_0_0", 5, "5"),
    ("#", 0, ""),
    ('0;0;"-"', 0, "-"),
    ('"ok";"bad";"none"', -3, "bad"),
    ("\\A0000", 37, "A0037"),
    ('0000"/"00', 203105, "2031/05"),
    ("#\\ ##0", 27450, "27 450"),
    ("#'##0", 31200, "31'200"),
    ("#,##0", 27450, "27,450"),
]
SECTIONS = [
    ('"yes";"yes";"no"', 0, "no"),
    ('0;-0;"zero"', 0, "zero"),
    (";;;", 99, ""),
    ("0;;0", -4, ""),
    ("0.0;(0.0)", 0, "0.0"),
    ('[>=1000]0.0,"k";0', 15600, "15.6k"),
    ('[>=1000]0.0,"k";0', -5, "-5"),
    ("[=1]0;[=2]00;000", 3, "003"),
    ("[=1]0;[=2]00;000", 2, "02"),
    ('[<0]"minus "0;0', -5, "minus 5"),
    ("[>0]0;(0)", -5, "(5)"),
    ("[<>0]0;;", 0, ""),
    ('[Red][<-100]"low";0', -7, "-7"),
    ("0;@", -7, "-7"),
    ('[Color 12]0.0_);"x"\\;0', -1, "x;1"),
]
NUMBERS = [
    ("0.00", -0.001, "-0.00"),
    ("0.00", 2.675, "2.68"),
    ("0", -2.5, "-3"),
    ("0.0", -0.25, "-0.3"),
    ("0.##", 12, "12."),
    (".00", 12.5, "12.50"),
    ("#,##0", 999, "999"),
    ("#,##0", 1234567, "1,234,567"),
    ("0,000", 7, "0,007"),
    ("#,##0,", 27450, "27"),
    ("0,.00", 1230, "1.23"),
    ("0.0##0", 1.5, "1.5000"),
    ("?0.0?", 7.5, "7.5"),
    ("0 0 0", 123, "1 2 3"),
    ("00-00", 12345, "123-45"),
    ('0" dollars and ".00" cents"', 19.99, "19 dollars and .99 cents"),
    ("0%%", 0.01, "100%%"),
    ("#\u202f##0.0", 5, "5.0"),
    ("#\xa0##0.0", 27450, "27 450.0"),
    ("0.00 kr", 5, "5.00 kr"),
    ("$0.00", -5, "-$5.00"),
    ('"x', 5, "x"),
    ("0\\", 5, "5"),
    ("0*", 5, "5"),
    ("0_", 5, "5"),
    ("[$", 5, ""),
    ("", 5, ""),
    ("[$€-2] #,##0.00", 1234.5, "€ 1,234.50"),
    ("#,##0.00 [$€-407]", 1234.5, "1,234.50 €"),
    ("[$CHF-807] #,##0.00", 3, "CHF 3.00"),
    ("[$-409]0.0", 3, "3.0"),
    ("[DBNum1][$-804]0", 3, "3"),
]
SCIENTIFIC = [
    ("0.00E+00", 12345.678, "1.23E+04"),
    ("0.00E-00", 12345.678, "1.23E04"),
    ("0.0e+0", 0.00012, "1.2e-4"),
    ("0E+0", 9.99, "1E+1"),
    ("##0.0E+0", 999.999, "1.0E+3"),
    ("##0.0E+0", 1234567, "1.2E+6"),
    ("00.0E+0", 1234, "12.3E+2"),
    ("0.00E+00", 0, "0.00E+00"),
    ("0.00E+00", -150, "-1.50E+02"),
]
FRACTIONS = [
    ("# ?/?", 0.75, "3/4"),
    ("# ?/?", -1.2, "-1 1/5"),
    ("# ?/?", 12.3, "12 1/3"),
    ("# ?/?", 123.45, "123 4/9"),
    ("# ?/?", -123.456, "-123 1/2"),
    ("# ??/??", 3.14159265, "3 1/7"),
    ("# ???/???", 3.14159265, "3 16/113"),
    ("?/?", 2.5, "5/2"),
    ("# ?/8", 0.5, "4/8"),
    ("# ??/100", 2.07, "2 7/100"),
    ("# ?/?", 5, "5"),
    ("# ?/?", 0, "0"),
    ("# ?/?", 0.999, "1"),
    ("0 ?/?", 0.5, "0 1/2"),
    ('# ?/?" in"', 2.5, "2 1/2 in"),
    ("# ?/2", 0.999, "1"),
]
GENERAL = [
    (0, "0"),
    (-0.0, "0"),
    (0.1 + 0.2, "0.3"),
    (12345678901, "12345678901"),
    (123456789012, "1.23457E+11"),
    (-1234567.12345, "-1234567.123"),
    (12345678.12345, "12345678.12"),
    (0.00001234, "0.00001234"),
    (0.000012345678, "1.23457E-05"),
    (99999999999.7, "1E+11"),
    (1 / 3, "0.333333333"),
    (1e20, "1E+20"),
    (1e-300, "1E-300"),
    (1e300, "1E+300"),
    (0.0001234567891, "0.000123457"),
]
DAY = 47985.0
HALF = 47985.60421
DATES = [
    ("yyyy\\-mm\\-dd", DAY, "2031-05-17"),
    ("d. mmmm yyyy", DAY, "17. May 2031"),
    ("[$-407]d. MMM. yy;@", DAY, "17. Mai. 31"),
    ("[$-407]dddd, d. mmmm yyyy", DAY, "Samstag, 17. Mai 2031"),
    ("[$-de-DE]mmmm", DAY, "Mai"),
    ("[$-40C]d mmmm yyyy", DAY, "17 mai 2031"),
    ("[$-415]d mmmm yyyy", DAY, "17 maja 2031"),
    ("[$-415]mmmm", DAY, "maj"),
    ("[$-419]d mmmm yyyy", DAY, "17 мая 2031"),
    ("[$-816]dddd", DAY, "sábado"),
    ("[$-1010409]mmm", DAY, "May"),
    ("dddd", DAY, "Saturday"),
    ("ddd dd", DAY, "Sat 17"),
    ("mmmmm", DAY, "M"),
    ("yy/mm", DAY, "31/05"),
    ("mmm-yy", DAY, "May-31"),
    # Eras: 2031 is the 13th year of Reiwa, and the 120th of Taiwan's republic.
    ('[$-411]ggge"年"m"月"d"日";@', DAY, "令和13年5月17日"),
    ("[$-411]ge.m.d", DAY, "R13.5.17"),
    ("[$-ja-JP]gg ee", DAY, "令 13"),
    ('[$-ja-JP-x-gannen]ggge"年"', 43586, "令和元年"),
    ('[$-411]ggge"年"', 43586, "令和1年"),
    ('[$-411]ggge"年"m"月"d"日"', 43585, "平成31年4月30日"),
    ("[$-411]ge", 1, "M33"),
    ("[$-404]e/m/d", DAY, "120/5/17"),
    ('[$-404]gge"年"', DAY, "民國120年"),
    ('[$-804]e"年"', DAY, "2031年"),
    ("[$-F800]dddd, mmmm dd, yyyy", DAY, "Saturday, May 17, 2031"),
    # Calendars in the locale: 3 is the Japanese, 4 that of Taiwan, 5 the Korean, 7 the Thai one.
    ("[$-30411]ge.m.d", DAY, "R13.5.17"),
    ("[$-1030000]ee", DAY, "13"),
    ("[$-1040404]e/m/d", DAY, "120/5/17"),
    ("[$-50412]yyyy", DAY, "4364"),
    ("[$-107041E]d mmm yyyy;@", DAY, "17 พ.ค. 2574"),
    ("[$-187041E]d mmmm yy", DAY, "17 พฤษภาคม 74"),
    ("[$-th-TH,D07]d/m/yyyy", DAY, "17/5/2574"),
    ("[$-41E]d mmmm yyyy", DAY, "17 พฤษภาคม 2031"),
    # The calendar of Hijri is not computed.
    ("B2dd/mm/yyyy", DAY, "17/05/2031"),
    ("[$-1010401]B1d/m/yy", DAY, "17/5/31"),
    # Days and times in East Asia.
    ('yyyy"年"m"月"d"日"(aaa)', DAY, "2031年5月17日(土)"),
    ("[$-411]dddd", DAY, "土曜日"),
    ("[$-804]aaaa;@", DAY, "星期六"),
    ("[$-404]aaa;@", DAY, "週六"),
    ('[$-ko-KR]m"월" d"일" aaaa', DAY, "5월 17일 토요일"),
    ("[$-411]mmmm", DAY, "5月"),
    ("[$-412]AM/PM h:mm", HALF, "오후 2:30"),
    ("[$-411]h:mm AM/PM", 0.25, "6:00 午前"),
    ('0" Maaa"', 5, "5 Maaa"),
    ("e", DAY, "2031"),
    ("bbbb", DAY, "2574"),
    ("yyyy年m月d日", DAY, "2031年5月17日"),
    ("d/m/yyyy h:mm", HALF, "17/5/2031 14:30"),
    ("dd.mm.yyyy", 47985.999999, "17.05.2031"),
    ("hh:mm AM/PM", HALF, "02:30 PM"),
    ("h:mm a/p", HALF, "2:30 P"),
    ("h AM/PM", 0.0, "12 AM"),
    ("上午/下午h", HALF, "下午2"),
    ("h:mm", 0.999999, "0:00"),
    ("h:mm", 0.5207, "12:29"),
    ("h:mm:ss", 0.521, "12:30:14"),
    ("m:ss.0", 0.00123, "1:46.3"),
    ("ss.000", 0.00123456, "46.666"),
    ("[h]:mm", 1.5, "36:00"),
    ("[mm]:ss", 0.0625, "90:00"),
    ("[ss]", 0.001, "86"),
    ("[hh]:mm:ss", 0.25, "06:00:00"),
    ("[h]:mm", -1.5, "-36:00"),
    ("h:mm", -0.5, "-0.5"),
    ("yyyy", 3e6, "3000000"),
    ("d.m.yyyy", 1, "1.1.1900"),
    ("d.m.yyyy", 59, "28.2.1900"),
    ("d.m.yyyy", 60, "29.2.1900"),
    ("d.m.yyyy", 61, "1.3.1900"),
    ("dddd", 1, "Sunday"),
    ("d.m.yyyy", 2958465, "31.12.9999"),
    ('"At" h:mm AM/PM "on" dddd mmmm d"," yyyy', HALF, "At 2:30 PM on Saturday May 17, 2031"),
]


STRANGE = (
    "?",
    "/",
    "?/",
    "/?",
    "0/0",
    "#/0",
    "E+",
    "0E+",
    "E+0",
    ".",
    ",",
    "0,,,,,,",
    "[h",
    "s.",
    ".s",
    "0" * 2000,
    "]",
    ";" * 9,
    "[>]0",
    "[>1e999]0;0",
    "General General",
    "@@",
    "[$-FFFFFFFFFFFF]d",
    "\\",
    '"',
    "0.0.0",
    "%",
    "h.0",
    "ss.0000000000",
)


@pytest.mark.parametrize(
    ("code", "value", "shown"), [*FIFTY, *SECTIONS, *NUMBERS, *SCIENTIFIC, *FRACTIONS, *DATES]
)
def test_a_number_is_shown_by_its_code(
    code: str,
    value: float,
    shown: str,
) -> None:
    assert show_number(value, code) == shown


@pytest.mark.parametrize(("value", "shown"), GENERAL)
def test_the_format_general_has_eleven_characters(value: float, shown: str) -> None:
    assert show_number(value, "General") == shown


@pytest.mark.parametrize(
    ("number", "value", "shown"),
    [
        (1, 2.5, "3"),
        (3, 27450, "27,450"),
        (7, -5, "($5.00)"),
        (9, 0.19, "19%"),
        (12, 0.75, "3/4"),
        (14, DAY, "2031-05-17"),
        (15, DAY, "17-May-31"),
        (20, 0.5, "12:00"),
        (22, HALF, "2031-05-17 14:30"),
        (37, -310, "(310)"),
        (44, 815.4, "$815.40"),
        (43, 0, "-"),
        (46, 1.5, "36:00:00"),
        (48, 12345, "12.3E+3"),
        (49, 4711, "4711"),
    ],
)
def test_formats_without_a_code_are_those_of_the_standard(
    number: int, value: float, shown: str
) -> None:
    assert show_number(value, BUILT_IN[number]) == shown


def test_a_workbook_may_count_from_1904() -> None:
    assert show_number(0, "yyyy-mm-dd", from_1904=True) == "1904-01-01"
    assert show_number(46523, "yyyy-mm-dd dddd", from_1904=True) == "2031-05-17 Saturday"


def test_a_code_of_the_file_holds_but_for_days_as_the_users_country_writes_them() -> None:
    assert choose_code(14, '0.00" bar"') == '0.00" bar"'
    assert choose_code(14, "m/d/yyyy") == BUILT_IN[14]
    assert choose_code(164, "m/d/yyyy") == "m/d/yyyy"
    assert choose_code(0, None) == "General"


def test_digits_that_the_format_general_hides_are_found() -> None:
    assert find_hidden_digits(4006381333931.0, "General") == "4006381333931"
    assert find_hidden_digits(4006381333931.0, '@" pcs"') == "4006381333931"
    assert [
        find_hidden_digits(4006381333931.0, code) for code in ("0", "#,##0", "0.00E+00", "yyyy")
    ] == [""] * 4
    assert [
        find_hidden_digits(value, "General") for value in (12345678901.0, 1e15, 1234567890123.5)
    ] == [""] * 3


def test_a_format_may_add_to_a_text() -> None:
    assert find_added_text('@" pcs"') == ("", " pcs")
    assert find_added_text('0;0;0;"No. "@') == ("No. ", "")
    assert [find_added_text(code) for code in ("0.00", "General", ";;;", "@", "_(@_)", "@@")] == [
        None
    ] * 6


@pytest.mark.parametrize("value", [0.0, -1e300, 1e300, 1e-300, 2958465.9999999, 59.99999999])
def test_no_code_fails(value: float) -> None:
    for code in STRANGE:
        assert isinstance(show_number(value, code), str)


@pytest.mark.parametrize(
    ("code", "number", "text"),
    [
        ("0.0\\ kg", 7.25, "7.3 kg"),
        ("0 pcs", 12, "12 pcs"),
        ("#,##0 Stk", 1200, "1,200 Stk"),
        ("0 days", 3, "3 days"),
        ("0.00 m", 7.3, "7.30 m"),
        ("EUR 0.00", 5, "EUR 5.00"),
        ("mm:ss.0", 0.0012, "01:43.7"),
        ("[h]:mm:ss.00", 1.5, "36:00:00.00"),
        ("YYYY-MM-DD", 47985, "2031-05-17"),
    ],
)
def test_date_letters_next_to_digits_are_text(
    code: str,
    number: float,
    text: str,
) -> None:
    assert show_number(number, code) == text
