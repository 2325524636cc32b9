"""Titles, authors and dates that pages and Markdown files state of themselves."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.records import ReadDocument
from engine.corpus.formats import find_reader
from engine.corpus.formats.html import read_metadata
from engine.corpus.formats.html.nodes import parse_page
from engine.corpus.formats.markdown import FrontMatter, split_front_matter
from engine.corpus.ingest.previous import build_stored_document
from engine.corpus.scan.scan import ScannedFile
from engine.corpus.text.metadata import (
    StatedMetadata,
    drop_placeholder_names,
    join_names,
    parse_date,
    parse_tags,
)

NOON = 1_935_230_400.0  # 2031-04-29T12:00:00Z


def at(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp()  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "2031-04-29",
        "2031/4/29",
        "2031.04.29",
        "20310429",
        "29.4.2031",
        "29. 04. 2031",
        "April 29, 2031",
        "29 April 2031",
        "Apr. 29th, 2031",
        "Tuesday, April 29 2031",
        "29-Apr-2031",
        "2031-04-29T12:00",
        "2031-04-29 14:00:00.25 +0200",
        "2031-04-29T07:00:00-05:00",
        "Tue, 29 Apr 2031 12:00:00 GMT",
        "20310429T120000Z",
        " 2031-04-29\n12:00 UTC",
    ],
)
def test_dates(text: str) -> None:
    assert parse_date(text) == NOON == at(2031, 4, 29, 12)


@pytest.mark.parametrize(
    ("authors", "found"),
    [
        ("(anonymous)", ""),
        ("Anonymous", ""),
        ("[unspecified]", ""),
        ("Ada Quay, Unknown Author", "Ada Quay"),
        ("", ""),
        ("Ada Quay, Bo", "Ada Quay, Bo"),
        ("Anonymous Bosch", "Anonymous Bosch"),
    ],
)
def test_placeholder_names_of_authors_are_dropped(authors: str, found: str) -> None:
    assert drop_placeholder_names(authors) == found
    file = ScannedFile(
        "/d",
        "a.pdf",
        "/d/a.pdf",
        1,
        0,
        "pdf",
    )
    read = ReadDocument(
        "A",
        "Text",
        author=authors,
    )
    assert build_stored_document(file, "h", read).author == found


def test_dates_without_a_day_are_their_first() -> None:
    assert parse_date("2031-04") == parse_date("April 2031") == at(2031, 4, 1, 12)
    assert parse_date("2031") == at(2031, 1, 1, 12)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "3/4/2031",
        "2031-13-01",
        "2031-02-30",
        "soon",
        "`r Sys.Date()`",
        "0000",
        "0;0",
        "2031-04-29 25:00",
        "1" * 99,
    ],
)
def test_what_is_no_date_or_may_be_two(text: str) -> None:
    assert parse_date(text) is None


def test_names_are_joined_once_and_addresses_left_out() -> None:
    assert (
        join_names(["Ann  Heron", "https://example.org/ann", "", "Bo", "Ann Heron"])
        == "Ann Heron, Bo"
    )


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            "title: Plain # a comment\nauthor: Ann Heron\ndate: 2031-04-29",
            StatedMetadata("Plain", "Ann Heron", NOON),
        ),
        (
            "title: \"Front: \\\"m\\\" # no\"\nauthor: 'Ann''s'",
            StatedMetadata('Front: "m" # no', "Ann's"),
        ),
        (
            'Title: C# guide\nauthors: [Ann, "Heron, Bo"]',
            StatedMetadata("C# guide", "Ann, Heron, Bo"),
        ),
        (
            "authors:\n- Ann\n- Bo # the second\ntags:\n  - x",
            StatedMetadata("", "Ann, Bo", tags="x"),
        ),
        (
            "author:\n  - name: Ann Heron\n    affiliation: Pier 3\n  - name: 'Bo'\n",
            StatedMetadata("", "Ann Heron, Bo"),
        ),
        ("author:\n  name: Ann\n  email: ann@example.org", StatedMetadata("", "Ann")),
        ("author: {name: Ann, email: a@b}\ntitle: ~", StatedMetadata("", "Ann")),
        (
            "title: >-\n  Folded\n  title\nlastmod: 2031-04-29T12:00:00Z",
            StatedMetadata("Folded title", changed=NOON),
        ),
        (
            "title: On\n  two lines\n\n# a comment\ndate: 29 April 2031",
            StatedMetadata("On two lines", created=NOON),
        ),
        (
            "date: soon\ncreated: 2031-04-29\nlast build: no\n  more\nauthor: null",
            StatedMetadata(created=NOON),
        ),
    ],
)
def test_front_matter_in_yaml(fields: str, said: StatedMetadata) -> None:
    found = split_front_matter(f"---\n{fields}\n---\nBody\n")
    assert (found.body.strip(), found.metadata) == ("Body", said)
    assert len(found.body) == len(found.text)
    before = len(f"---\n{fields}\n---\n".splitlines())
    assert found.text[: found.text.index("Body")].count("\n") == before
    assert found.body[: found.body.index("Body")].count("\n") == before


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("---\ncustomer: Nordwind\n---\nBody", "\ncustomer: Nordwind\n\nBody"),
        (
            "---\ntags: [crane, frost]\naliases:\n  - Quay\n...\n",
            "\ntags: [crane, frost]\naliases:\n  - Quay\n\n",
        ),
        (
            '+++\ncustomer = "Nordwind"\ndate = 2031-04-29\n+++\nBody',
            '\ncustomer = "Nordwind"\ndate = 2031-04-29\n\nBody',
        ),
        ("---\ndraft: false\n# a comment\nnote: ~ # none\nid: 4711\n---\n", "\n\n\n\nid: 4711\n\n"),
        ('---\ncity: "K\\u00f6ln \\xfc \\ud83d"\n---\n', '\ncity: "Köln ü \\ud83d"\n\n'),
        ("---\nsummary: |\n  Two\n  # lines\n---\n", "\nsummary: |\n  Two\n\n\n"),
        ("---\n---\nBody", "\n\nBody"),
    ],
)
def test_fields_are_text(source: str, text: str) -> None:
    assert split_front_matter(source).text == text


def test_fields_in_toml() -> None:
    fields = 'title = "On"\nauthors = ["Ann", "Bo"]\ndate = 2031-04-29\n[params]\nkey = 1'
    assert split_front_matter(f"+++\n{fields}\n+++\nBody").metadata == StatedMetadata(
        "On", "Ann, Bo", NOON
    )


@pytest.mark.parametrize(
    ("fields", "tags"),
    [
        ("tags: [Travel, refunds]", "Travel, refunds"),
        ("tags:\n- '#travel'\n- project/alpha\n- Travel", "travel, project/alpha"),
        ("tags: travel, office rules", "travel, office rules"),
        ("tag: one\nkeywords: two; three\ncategories:\n  - four", "one, two, three, four"),
        ("tags: ~", ""),
        ("tags: 2031", "2031"),
        ("tags: [https://example.org/travel, a]", "a"),
        ("tags: [Übergabe, 契約]", "Übergabe, 契約"),
    ],
)
def test_tags_of_front_matter(fields: str, tags: str) -> None:
    assert split_front_matter(f"---\n{fields}\n---\nBody\n").metadata.tags == tags


def test_tags_are_few_and_short() -> None:
    found = parse_tags([*(f"tag {number}" for number in range(200)), "x" * 101])
    assert found.split(", ") == [f"tag {number}" for number in range(50)]


@pytest.mark.parametrize(
    ("keywords", "tags"),
    [("#epsilon #zeta", "epsilon, zeta"), ("Ticket #42, Quay #7", "Ticket #42, Quay #7")],
)
def test_blanks_separate_tags_that_begin_with_a_hash(keywords: str, tags: str) -> None:
    assert parse_tags(keywords) == tags


def test_keywords_of_a_page_are_its_tags() -> None:
    source = """<head><meta name="keywords" content="Lease, notice period"><meta
        property="article:tag" content="Harbour"><meta property="article:tag" content="lease">"""
    assert read_metadata(parse_page(source)).tags == "Lease, notice period, Harbour"


@pytest.mark.parametrize(
    "text",
    [
        "---\nJust prose here.\n---\nBody",
        "---\nPelicans: birds\nthat fly far.\n---\nBody",
        "---\nThe berths are: full.\n---\nBody",
        "---\n- item: one\n---\nBody",
        "---\ntitle: T: no YAML\n---\nBody",
        "+++\ntitle = broken # no\n+++\nBody",
        "Body\n---\ntitle: T\n---\n",
    ],
)
def test_what_is_no_front_matter_stays(text: str) -> None:
    assert split_front_matter(text) == FrontMatter(text, text)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (
            '<meta name="author" content="Ann &amp; Bo"><meta name=date content=2031-04-29>',
            StatedMetadata("", "Ann & Bo", NOON),
        ),
        (
            "<META CONTENT='Ann' NAME='Author'/><meta name='DC.creator' content='Bo'>",
            StatedMetadata("", "Ann"),
        ),
        (
            (
                '<meta property="article:published_time" content="2031-04-29T12:00:00+00:00"'
                ' /><meta property="article:author" content="https://example.org/ann"><meta'
                ' name="citation_author" content="Heron, A."><meta name="citation_author"'
                ' content="Bo">'
            ),
            StatedMetadata("", "Heron, A., Bo", NOON),
        ),
        (
            (
                '<meta name="dcterms.created" content="2031"><meta name="DCTERMS.modified"'
                ' content="2031-04-29">'
            ),
            StatedMetadata("", "", at(2031, 1, 1, 12), NOON),
        ),
        (
            '<meta name="date" content="soon"><meta name="pubdate" content="2031-04-29">',
            StatedMetadata("", "", NOON),
        ),
        (
            (
                '<!-- <meta name="author" content="Old"> --><meta name="author" content="Ann"><!--'
                " open"
            ),
            StatedMetadata("", "Ann"),
        ),
        ('</head><body><meta name="author" content="Ann">', StatedMetadata()),
        (
            '<meta charset="utf-8"><meta name="author"><metadata name="author" content="x">',
            StatedMetadata(),
        ),
    ],
)
def test_heads_of_pages(head: str, said: StatedMetadata) -> None:
    source = f"<html><head><title>T</title>{head}</head><body>Text"
    assert read_metadata(parse_page(source)) == said


@pytest.mark.parametrize(
    "piece", ["<meta ", '<meta "', "<!--", "<meta name='", "<meta a=b ", "<meta name="]
)
def test_a_hostile_head_takes_no_time(piece: str) -> None:
    started = time.process_time()
    source = piece * (2**20 // len(piece))
    assert read_metadata(parse_page(source)) == StatedMetadata()
    assert time.process_time() - started < 2


@given(st.text(st.sampled_from("ab:-[]{}\"'#|>,= \n\tname")))
def test_any_fields_can_be_read(text: str) -> None:
    found = split_front_matter(f"---\n{text}\n---\nBody")
    assert found.body.endswith("Body")
    assert len(found.body) == len(found.text)


def test_readers_find_them(tmp_path: Path) -> None:
    for name, content in (
        ("a.md", "---\ntitle: T\nauthor: Ann\ndate: 2031-04-29\nlastmod: 2031-04-29\n---\nBody"),
        (
            "a.html",
            (
                "<title>T</title><meta name=author content=Ann><meta name=created"
                " content=2031-04-29><meta name=modified content=2031-04-29><p>Body"
            ),
        ),
    ):
        (tmp_path / name).write_text(content)
        (found,) = find_reader(name.partition(".")[2]).read(tmp_path / name)
        assert isinstance(found, ReadDocument)
        assert (found.title, found.author, found.created, found.changed) == ("T", "Ann", NOON, NOON)
        assert found.text.endswith("Body")
