"""Characters that nobody sees, in documents and in queries."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.characters import drop_invisible
from engine.core.records import Heading, Page, ReadDocument
from engine.corpus.formats.opening import read_everything
from engine.corpus.text.blocks import restore_words


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Donau\u00addampf\u00adschiff", "Donaudampfschiff"),
        ("Do\u200bnau\u2060dampf\ufeffer", "Donaudampfer"),
        ("a \u00adb \u200b c", "a b  c"),
        ("検\u200b索", "検索"),
        ("\u0e01\u0e32\u200b\u0e23", "\u0e01\u0e32\u200b\u0e23"),  # Thai: it parts words
        (
            "\u0e01\u200ba \u1780\u200b\u1780 \u0eab\u200b\u200b\u0eab",
            "\u0e01\u200ba \u1780\u200b\u1780 \u0eab\u200b\u200b\u0eab",
        ),
        ("\u0e01\u00ad\u0e32\ufeff", "\u0e01\u0e32"),
        (
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        ),  # Persian
        ("\U0001f468\u200d\U0001f469", "\U0001f468\u200d\U0001f469"),
        ("Do\u00ad\nnau flows", "Donau\nflows"),
        ("Do\u00ad \n  nau, flows", "Donau,\nflows"),
        ("Do\u00ad\nnau\nflows", "Donau\nflows"),
        ("Do\u00ad\nnau\u00ad\ndampf\u00ad\nschiff ist", "Donaudampfschiff\nist"),
        ("Do\u00ad\nnau", "Donau"),
        ("Do\u00ad\nnau\n", "Donau\n"),
        ("Do\u00ad\n\nnau", "Do\n\nnau"),
        ("Do\u00ad\n- nau", "Do\n- nau"),
        ("5\u00ad\nnau", "5\nnau"),
        ("plain", "plain"),
        ("", ""),
    ],
)
def test_visible(text: str, shown: str) -> None:
    assert drop_invisible(text) == shown


@given(st.text(st.sampled_from("aé \n\u00ad\u200b\u2060\ufeff\u0e01-")))
def test_nothing_that_is_seen_is_lost(text: str) -> None:
    kept = drop_invisible(text)
    assert "".join(char for char in kept if char in "aé\u0e01-") == "".join(
        char for char in text if char in "aé\u0e01-"
    )
    assert not set(kept) & set("\u00ad\u2060\ufeff")
    assert "\u0e01" in text or "\u200b" not in kept


def test_headings_and_pages_begin_where_they_did() -> None:
    text = "\ufeffOne\u00ad\n\nT\u00adwo\n\nD\u00aday\u00ad\nlight is\nhere."
    found = restore_words(
        ReadDocument(
            "T\u00adwo",
            text,
            (Heading(7, 1, "T\u00adwo"),),
            pages=(Page(0, 1, "page 1"), Page(28, 2, "p\u200b2")),
            author="A\u200bn",
        )
    )
    assert text[7:11] == "T\u00adwo"
    assert text[28:] == "here."
    assert found.text == "One\n\nTwo\n\nDaylight\nis\nhere."
    assert (found.title, found.author) == ("Two", "An")
    assert found.headings == (Heading(5, 1, "Two"),)
    assert found.text[5:8] == "Two"
    assert [(page.start, page.name) for page in found.pages] == [(0, "page 1"), (22, "p2")]
    assert found.text[22:] == "here."


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("R E C H N U N G", "RECHNUNG"),
        ("Die G U T S C H R I F T, bitte", "Die GUTSCHRIFT, bitte"),
        ("A N G E B O T  N R . 7", "ANGEBOT  N R . 7"),
        ("B e s c h l u s s:", "Beschluss:"),
        ("P\u00a0L\u00a0A\u00a0N", "PLAN"),
        ("請\u3000求\u3000書 第2号", "請求書 第2号"),
        ("御\u3000\u3000見\u3000積\u3000書", "御見積書"),
        ("お 知 ら せ", "お知らせ"),
        ("王\u3000明\u3000\u3000李\u3000华", "王明\u3000\u3000李华"),
        ("김 창 호  이 영 희", "김창호  이영희"),
        ("계 약 서", "계약서"),
        ("氏\u3000名: 林\u3000太郎", "氏名: 林\u3000太郎"),
        ("東京 太 郎", "東京 太 郎"),
        ("할 수 있다", "할 수 있다"),
        ("김 창 호* | 견 적 서", "김창호* | 견적서"),
        ("잘 할 수 있다", "잘 할 수 있다"),
        ("제2호 각 목4)에 규정", "제2호 각 목4)에 규정"),
        ("회의는 한 번 더 볼 수 있는 곳", "회의는 한 번 더 볼 수 있는 곳"),
        ("왜 안 와?", "왜 안 와?"),
        ("上 下", "上 下"),
        ("A B C D E F", "A B C D E F"),
        ("U S A", "U S A"),
        ("Monday X X X X X", "Monday X X X X X"),
        ("a x i s Y b", "a x i s Y b"),
        ("1 2 3 4 5", "1 2 3 4 5"),
    ],
)
def test_words_with_blanks_between_their_letters_are_whole(text: str, whole: str) -> None:
    document = ReadDocument(
        text,
        f"{text}\n\nend",
        pages=(Page(len(text) + 2, 1, "page 1"),),
    )
    found = restore_words(document)
    assert (found.title, found.text) == (whole, f"{whole}\n\nend")
    assert found.text[found.pages[0].start :] == "end"


def test_radicals_are_the_characters_that_they_look_like() -> None:
    text = "契約\u2f42書\u2f00式 社\u2ed1 市\u2ea0 関\u2ec4 \u2ed3\u2ed4"
    document = ReadDocument(
        "\u2f42書",
        text,
        headings=(Heading(3, 1, "\u2f42書"),),
    )
    found = restore_words(document)
    assert (found.title, found.text) == ("文書", "契約文書一式 社長 市民 関西 长门")
    assert found.headings == (Heading(3, 1, "文書"),)


def test_a_document_without_invisible_characters_stays_the_same_object() -> None:
    document = ReadDocument(
        "Ä",
        "Ö \u200c\u200d",
        author="Ü",
    )
    assert restore_words(document) is document


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.txt", "Donau\u00addampf \ufeffx", "Donaudampf x"),
        ("a.md", "# Do\u200bnau\n\ndampf", "# Donau\n\ndampf"),
        ("a.html", "<p>Donau&shy;dampf&shy;schiff&#8203;fahrt", "Donaudampfschifffahrt"),
        ("a.csv", "a,Do\u00adnau\n1,2\n", None),
        ("a.eml", "Subject: Do\nContent-Type: text/plain; charset=utf-8\n\nDo\u00adnau", None),
    ],
)
def test_documents_of_all_formats_are_freed_of_them(
    tmp_path: Path, name: str, content: str, text: str | None
) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    (found,) = read_everything(path, name.partition(".")[2])
    assert isinstance(found, ReadDocument)
    assert "Donau" in found.text
    assert text in (None, found.text)
    assert all("\u200b" not in heading.title for heading in found.headings)
