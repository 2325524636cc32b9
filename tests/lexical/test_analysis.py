"""Text → terms: codes, languages, scripts without spaces, and the places of a query's words."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.text import LANGUAGES
from engine.lexical.analysis import Analyzer
from engine.lexical.languages import (
    SAME_AS,
    detect_language,
    language_of,
    main_language,
    supported_languages,
)
from engine.lexical.matches import matched_spans

ENGLISH = Analyzer("en")
PLAIN = Analyzer("none")

ANY_TEXT = st.text(
    alphabet=st.one_of(st.characters(), st.characters(categories=["Cs"])), max_size=60
)


@pytest.mark.parametrize(
    ("text", "words", "codes"),
    [
        ("PHX-121", ["phx", "121"], ["phx-121"]),
        ("phx121", ["phx", "121"], ["phx-121"]),
        ("ISO/IEC-27001", ["iso", "iec", "27001"], ["iso-iec-27001"]),
        ("KL-4400/B", ["kl", "4400", "b"], ["kl-4400-b"]),
        ("v2.3.1", ["v2", "3", "1"], ["v-2.3.1", "2.3.1"]),
        ("snake_case_3", ["snake", "case", "3"], ["snake-case-3"]),
        ("mp3", ["mp3"], ["mp-3"]),
        ("well-known", ["well", "known"], ["-wellknown"]),
        ("U.S.A. and z.B.", ["u", "s", "a", "and", "z", "b"], ["-usa", "-zb"]),
        ("node.js", ["node", "js"], []),
        ("O'Brien, O\u2019Neill", ["o", "brien", "o", "neill"], ["-obrien", "-oneill"]),
        ("don't, Don\u2019t", ["don", "t", "don", "t"], ["-dont", "-dont"]),
        ("5\u00b5m, 5um", ["5um", "5", "um", "5um", "5", "um"], []),
        ("Hauptstr. 12, Bonner Str.", ["hauptstr", "12", "bonner", "str"], []),
        ("str2 astr", ["str2", "astr"], ["str-2"]),
        ("मैं\u200cने", ["मैं", "ने"], ["-मैंने"]),
        ("75kW 12m² 3kg", ["75kw", "75", "kw", "12m2", "12", "m2", "3kg", "3", "kg"], []),
        ("5G M8 2b", ["5g", "5", "g", "m8", "2b"], ["m-8"]),
        ("M8x40", ["m8", "40"], ["m-8-x-40"]),
        ("1920x1080", ["1920", "1080"], ["1920-x-1080"]),
        ("0x80070005", ["0x80070005"], ["0-x-80070005"]),
        ("IMG_20310412_v2", ["img", "20310412", "v2"], ["img-20310412-v-2", "2031-04-12"]),
        ("20310412_scan", ["20310412", "scan"], ["2031-04-12"]),
        ("\u0410\u0412-121", ["\u0430\u0432", "121"], ["ab-121"]),  # Cyrillic letters
        ("\u0661\u0662\u0663\u0664\u0665", ["12345"], []),  # Arabic digits
        ("and/or", ["and", "or"], []),
        (
            "30-day 25-year-old 10th 1990s 2024",
            ["30", "day", "25", "year", "old", "10th", "1990s", "2024"],
            [],
        ),
        ("3.5", ["3", "5"], ["3.5"]),
        ("3-5", ["3", "5"], ["3-5"]),
        (
            "\uff30\uff28\uff38\uff0d\uff11\uff12\uff11",
            ["phx", "121"],
            ["phx-121"],
        ),  # full-width PHX-121
        ("the end.", ["the", "end"], []),
    ],
)
def test_codes_are_found_whole_and_in_parts_and_prose_is_not_a_code(
    text: str, words: list[str], codes: list[str]
) -> None:
    terms = PLAIN.terms(text)
    assert (terms.words, terms.codes) == (words, codes)


def test_english_words_are_stemmed_and_stop_words_dropped() -> None:
    assert ENGLISH.analyse("The runners were running to Amazon's dogs") == [
        "runner",
        "were",
        "run",
        "amazon",
        "dog",
    ]
    assert Analyzer("en", stop_words=False).analyse("the dogs") == ["the", "dog"]


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("de", "Häuser", "hauser"),
        ("de", "Straßen", "Strasse"),
        ("de", "Hauptstr. 12, Bonner Str.", "Hauptstraße 12, Bonner Straße"),
        ("fr", "naïves", "naive"),
        ("es", "canción", "CANCION"),
        ("ru", "книгами", "книга"),
        ("none", "cafe\u0301", "café"),
        ("none", "ﬁnance", "finance"),
        ("pl", "Łódź", "lodz"),
        ("el", "ΑΘΗΝΩΝ", "Αθηνών"),
        ("none", "οδός", "ΟΔΟΣ"),
        ("ru", "ёлка", "елка"),
        ("none", "C\u043a\u043b\u0430\u0434", "\u0441\u043a\u043b\u0430\u0434"),  # a Latin C
        ("ar", "الإيجار", "الايجار"),
        ("none", "مكتبى", "مكتبي"),
        ("none", "کتاب", "كتاب"),  # Persian kaf
        ("none", "5º 2.ª", "5 2"),
        ("none", "Ø12 ø 12,5", "12 12,5"),
        ("none", "β-blocker", "Beta-blocker"),
        ("none", "TNFα", "tnfalpha"),
        ("none", "OʼBrien Hawaiʻi", "OBrien Hawaii"),
        ("none", "Ph.D.", "ph.d"),
        ("ja", "髙橋 渡邉 﨑", "高橋 渡辺 崎"),
    ],
)
def test_forms_that_must_meet_in_one_term(
    language: str,
    one: str,
    other: str,
) -> None:
    analyzer = Analyzer(language)
    assert analyzer.analyse(one) == analyzer.analyse(other) != []


def test_plurals_of_acronyms_are_words_and_hold_their_singular() -> None:
    terms = ENGLISH.terms("PDFs and mRNAs, but URLs and MPs'")
    assert terms.words == ["pdfs", "mrnas", "url", "mps"]
    assert terms.codes == ["-pdf", "-mrna"]  # the stemmer removes the s of URLs
    assert ENGLISH.terms("CDs-7").codes == ["-cd", *ENGLISH.terms("cds-7").codes]


@pytest.mark.parametrize("language", ["cs", "en", "none"])
def test_only_german_words_are_completed_to_streets(language: str) -> None:
    assert Analyzer(language).analyse("zimní semestr") == ["zimni", "semestr"]


def test_letters_of_other_scripts_are_not_folded_into_each_other() -> None:
    assert PLAIN.analyse("й") != PLAIN.analyse("и")
    assert PLAIN.analyse("हिन्दी") == PLAIN.analyse("हिंदी") == ["हिंदी"]  # with its vowel signs


def test_points_that_stand_for_vowels_do_not_count() -> None:
    assert PLAIN.analyse("حَبيبي") == PLAIN.analyse("حبيبي") == PLAIN.analyse("حبيــبي")
    assert PLAIN.analyse("שָׁלוֹם") == PLAIN.analyse("שלום")
    assert PLAIN.analyse("حدب") != PLAIN.analyse("جدب")  # another letter, not a point


def test_scripts_without_spaces_give_pairs() -> None:
    assert PLAIN.analyse("東京都") == ["東", "京", "都", "東京", "京都"]
    assert PLAIN.query_terms("東京都").words == {"東京": 1.0, "京都": 1.0}
    assert PLAIN.query_terms("京").words == {"京": 1.0}
    assert PLAIN.analyse("ภาษา") == ["ภา", "าษ", "ษา"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("全文検\n索の", ["全", "文", "検", "索", "全文", "文検", "検索", "索の"]),
        ("検 \n\t 索", ["検", "索", "検索"]),
        ("エン\nジン", ["エン", "ンジ", "ジン"]),
        ("検\n\n索", ["検", "索"]),  # another paragraph
        ("検 索", ["検", "索"]),
        ("検\n\u3000索", ["検", "索"]),  # a paragraph that begins with a blank of its own
        ("検。\n索", ["検", "索"]),
        ("検\nA", ["検", "a"]),
        ("A\n検", ["a", "検"]),
        ("한국\n어", ["한국", "어"]),  # Korean is written with blanks
        ("ภา\nษา", ["ภา", "ษา"]),
        ("x\n検\n索", ["x", "検", "索", "検索"]),
    ],
)
def test_a_line_end_parts_no_chinese_or_japanese_word(text: str, words: list[str]) -> None:
    assert PLAIN.analyse(text) == words
    assert PLAIN.unstemmed(text).words.keys() == PLAIN.query_terms(text).words.keys()


def test_query_terms_count_words_and_keep_the_parts_of_codes() -> None:
    query = ENGLISH.query_terms("pump pumps PHX-121 PHX-121")
    assert query.words == {"pump": 2.0, "phx": 2.0, "121": 2.0}
    assert query.codes == {"phx-121": ("phx", "121")}


@pytest.mark.parametrize(
    ("text", "words"),
    [("QX-77/B", ["qx", "77"]), ("v2.3.1", ["v2"]), ("A-1", ["a", "1"]), ("plan B", ["plan", "b"])],
)
def test_single_characters_of_a_code_are_queried_only_without_longer_parts(
    text: str, words: list[str]
) -> None:
    assert list(PLAIN.query_terms(text).words) == words
    assert list(PLAIN.unstemmed(text).words) == words
    assert list(Analyzer("none", prefix="§").query_terms(text).words) == [
        f"§{word}" for word in words
    ]


@pytest.mark.parametrize(
    ("query", "text", "marked"),
    [
        ("running dog", "Dogs ran; the dog's leash, run-down.", ["Dogs", "dog", "run"]),
        (
            "PHX-121",
            "The PHX-121, phx121's and PHX 122 or KL-121",
            ["PHX-121", "phx121", "PHX", "121"],
        ),
        ("121", "part phx121", ["121"]),
        ("天気", "東京の天気は", ["天気"]),
        ("水", "水道", ["水"]),
        ("東京都", "東京都庁", ["東京都"]),
        ("検索", "検査と全文検\n索の検\n\n索", ["検\n索"]),
        ("全文検索", "全文\n検 \n 索", ["全文\n検 \n 索"]),
        ("検索", "文検\n査", []),
        ("仕組み", "索エン\n仕組\nみ説明\n仕組", ["仕組\nみ", "仕組"]),
        ("finance", "The ﬁnance plan", ["ﬁnance"]),
        ("0", "step \U0001f101", ["\U0001f101"]),  # whose plain form is `0,`
        ("the", "the end", []),
        ("", "text", []),
    ],
)
def test_matched_spans(
    query: str,
    text: str,
    marked: list[str],
) -> None:
    assert [text[start:end] for start, end in matched_spans(query, text, "en")] == marked


@given(ANY_TEXT, ANY_TEXT)
def test_any_text_can_be_analysed_and_marked(query: str, text: str) -> None:
    for term in ENGLISH.analyse(text):
        assert term
        assert not any(char.isspace() for char in term)
        term.encode()
    spans = matched_spans(query, text, "en")
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(before[1] < after[0] for before, after in pairwise(spans))


@given(ANY_TEXT)
def test_a_text_that_shares_a_term_with_itself_is_marked(text: str) -> None:
    wanted = ENGLISH.query_terms(text)
    assert bool(matched_spans(text, text, "en")) == bool(wanted.words or wanted.codes)


def test_detected_languages() -> None:
    english = ["The committee approved the annual budget after a long discussion."] * 5
    german = ["Der Ausschuss hat den Haushalt nach langer Diskussion genehmigt."] * 5
    assert detect_language(english)[0] == "en"
    assert detect_language(german)[0] == "de"
    code, reason = detect_language(english + german)
    assert code == "none"
    assert "mixed" in reason
    assert detect_language([])[0] == "none"
    signs = "+++ *** === @@@ abcdefgh ijklmnop qrst uvwx"
    assert detect_language([signs] * 5)[0] == "none"
    assert language_of(signs) == "und"
    assert detect_language(["12 34", ""])[0] == "none"
    assert detect_language(["今日は東京の天気がとても良いです。明日も晴れるでしょう。"])[0] == "ja"


def test_the_main_language_has_60_percent_of_what_is_in_a_known_one() -> None:
    code, reason = main_language({"en": 620, "de": 380, "und": 5000})
    assert code == "en"
    assert "62%" in reason
    assert "99" in main_language({"en": 9_960, "de": 40})[1]  # where there are others, not "100%"
    code, reason = main_language({"en": 590, "de": 410})
    assert code == "none"
    assert "59%" in reason
    assert [
        main_language({"und": 5000})[0],
        main_language({"en": 19})[0],
        main_language({"ja": 19})[0],
    ] == [
        "none",
        "none",
        "ja",
    ]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("恭喜陳奎良高票當選雲林縣總工會模範勞工代表", "zh"),
        ("星期一會議記錄", "zh"),
        ("ازيك عامل ايه النهارده يا صاحبي", "ar"),
        (
            (
                "Subject: test pièce jointe From: 'nicolas1.23456@free.fr' </O=OEXCH018/OU=GROUP>"
                " contenu"
            ),
            "fr",
        ),
        ("Der Bericht liegt unter \\\\server\\share\\reports\\january.txt und wartet", "de"),
        ("https://example.org/terms/of/use ops@example.org", "und"),
    ],
)
def test_short_texts_are_in_no_dialect_and_addresses_in_no_language(
    text: str, language: str
) -> None:
    assert language_of(text) == language


def test_every_supported_language_analyses() -> None:
    assert "none" in supported_languages()
    for code in supported_languages():
        assert Analyzer(code).analyse("abc-12 text")


def test_importing_the_room_loads_no_heavy_library() -> None:
    code = (
        "import engine.lexical, sys; print(sorted({'tantivy', 'numpy', 'torch', 'py3langid'} &"
        " set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_a_table_of_numbers_is_in_no_language() -> None:
    rows = [
        f"date: 2031-04-{day:02} | id: {7919 * day} | temp: {day / 7:.2f} | hum: {day / 3:.1f}"
        for day in range(1, 29)
    ]
    codes = "\n".join(
        f"serial_no: KL_4400_{row} | fault_code: ERR_TEMP_HIGH | tech_name: anna_meier"
        for row in range(9)
    )
    assert [language_of("\n".join(rows)), language_of(codes)] == ["und", "und"]
    prose = (
        "On 2031-04-01 the technician replaced KL_4400_7, since its fan had stopped in the night of"
        " 31 March."
    )
    assert language_of(prose) == "en"
    assert detect_language([prose, *rows])[0] == "en"


def test_every_language_that_is_recognised_has_a_name() -> None:
    import py3langid

    assert (
        language_of("The harbour master closes the quay at night.") == "en"
    )  # which limits py3langid to such languages
    codes = {SAME_AS.get(code, code) for code, _ in py3langid.rank(b"")}
    assert "qu" in codes
    assert [code for code in codes if code not in LANGUAGES] == []


@pytest.mark.parametrize(
    ("text", "words", "codes"),
    [
        ("warranty¹ covers", ["warranty", "covers"], []),
        ("Gewährleistung¹⁾", ["gewahrleistung"], []),
        ("¹Department", ["department"], []),
        ("guaranteeᵃ", ["guarantee"], []),
        ("1250² 10⁶", ["1250", "10"], []),
        ("tax¹", ["tax", "tax1"], ["tax-1"]),
        ("km² m²", ["km", "km2", "m2"], ["km-2", "m-2"]),
        ("H₂O", ["h2o"], ["h-2-o"]),
        ("¹ 2ⁿᵈ nº", ["1", "2", "no"], []),
    ],
)
def test_superscripts_hide_no_word(
    text: str,
    words: list[str],
    codes: list[str],
) -> None:
    terms = Analyzer("none").terms(text)
    assert (terms.words, terms.codes) == (words, codes)


def test_a_word_with_a_mark_is_found_and_shown() -> None:
    spans = matched_spans("warranty tax", "The warranty¹ and the tax².", "en")
    assert spans == [(4, 12), (22, 25)]
