"""Numbers that an office program counts stand before the headings and list items of .odt files."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures import office
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from engine.corpus.odf_numbers import with_numbers
from engine.corpus.opening import everything_in
from engine.corpus.package import package_of
from engine.corpus.readers import ReadDocument

SPACES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "text", "style", "table")
) + ' xmlns:loext="urn:org:documentfoundation:names:experimental:office:xmlns:loext:1.0"'  # fmt: skip
MIME = "application/vnd.oasis.opendocument.text"


def number(level: int, figures: str, rest: str = 'style:num-suffix="."') -> str:
    return f'<text:list-level-style-number text:level="{level}" style:num-format="{figures}" {rest}/>'


def bullet(level: int) -> str:
    return f'<text:list-level-style-bullet text:level="{level}" text:bullet-char="x"/>'


def list_style(name: str, *levels: str) -> str:
    return f'<text:list-style style:name="{name}">{"".join(levels)}</text:list-style>'


def outline(*figures: str) -> str:
    levels = "".join(
        f'<text:outline-level-style text:level="{level}" style:num-format="{one}" text:display-levels="{level}"/>'
        for level, one in enumerate(figures, 1)
    )
    return f'<text:outline-style style:name="Outline">{levels}</text:outline-style>'


def listed(inner: str, style: str = "L1", more: str = "") -> str:
    return f'<text:list text:style-name="{style}" {more}>{inner}</text:list>'


def items(*texts: str) -> str:
    return "".join(f"<text:list-item><text:p>{text}</text:p></text:list-item>" for text in texts)


def content(body: str, styles: str = "") -> bytes:
    head = f"<office:document-content {SPACES}><office:automatic-styles>{styles}</office:automatic-styles>"
    whole = f"{head}<office:body><office:text>{body}</office:text></office:body></office:document-content>"
    return f'<?xml version="1.0" encoding="UTF-8"?>{whole}'.encode()


def odt(body: str, styles: str = "", sheet: str = "") -> bytes:
    return office.zipped({
        "mimetype": MIME, "content.xml": content(body, styles),
        "styles.xml": f"<office:document-styles {SPACES}><office:styles>{sheet}</office:styles></office:document-styles>",
    })  # fmt: skip


def read(tmp_path: Path, made: bytes) -> ReadDocument:
    (tmp_path / "a.odt").write_bytes(made)
    (document,) = everything_in(tmp_path / "a.odt", "odt")
    assert isinstance(document, ReadDocument)
    return document


def lines(tmp_path: Path, body: str, styles: str = "", sheet: str = "") -> list[str]:
    return [line for line in read(tmp_path, odt(body, styles, sheet)).text.split("\n") if line]


CLAUSES = list_style("L1", number(1, "1"), number(2, "a", 'style:num-suffix=")" text:display-levels="2"'), bullet(3))


def test_items_are_reported_with_their_numbers(tmp_path: Path) -> None:
    deep = listed(items("pelicans", "herons"))
    body = listed(
        f"<text:list-item><text:p>Berths</text:p><text:p>of the harbour</text:p>{deep}</text:list-item>{items('Pilots')}"
    )
    assert lines(tmp_path, body, CLAUSES) == [
        "1. Berths", "of the harbour", "1.a) pelicans", "1.b) herons", "2. Pilots",
    ]  # fmt: skip


def test_lists_of_bullets_stay_lists_and_bullets_among_numbers_keep_their_dashes(tmp_path: Path) -> None:
    styles = CLAUSES + list_style("L2", bullet(1))
    whole = listed(items("tern", "gull"), "L2")
    deepest = listed(f"<text:list-item>{listed(items('mooring'))}</text:list-item>")
    mixed = listed(f"<text:list-item><text:p>Berths</text:p>{deepest}</text:list-item>")
    assert lines(tmp_path, f"<text:p>Birds:</text:p>{whole}{mixed}", styles) == [
        "Birds:", "- tern", "- gull", "1. Berths", "- mooring",
    ]  # fmt: skip


def test_lists_begin_anew_unless_they_go_on(tmp_path: Path) -> None:
    body = "<text:p>between</text:p>".join(
        (
            listed(items("a", "b"), more='xml:id="first"'), listed(items("c")),
            listed(items("d"), more='text:continue-numbering="true"'), listed(items("e"), more='text:continue-list="first"'),
            listed('<text:list-item text:start-value="7"><text:p>f</text:p></text:list-item>' + items("g")),
        )
    )  # fmt: skip
    found = [line for line in lines(tmp_path, body, CLAUSES) if line != "between"]
    assert found == ["1. a", "2. b", "1. c", "2. d", "3. e", "7. f", "8. g"]


def test_headings_count_by_the_outline_and_stay_headings_in_lists(tmp_path: Path) -> None:
    def heading(level: int, text: str, more: str = "") -> str:
        return f'<text:h text:outline-level="{level}" {more}>{text}</text:h>'

    styles = CLAUSES + '<style:style style:name="P1" style:family="paragraph" style:list-style-name=""/>'
    body = (
        heading(1, "Berths") + heading(2, "Depth") + "<text:p>is 9 m</text:p>" + heading(1, "Preface", 'text:style-name="P1"')
        + heading(1, "Foreword", 'text:is-list-header="true"') + heading(2, "Notice")
        + heading(1, "Annex", 'text:restart-numbering="true" text:start-value="9"')
        + listed(f"<text:list-item>{heading(2, 'Pilots &amp; boats')}</text:list-item>")
    )  # fmt: skip
    document = read(tmp_path, odt(body, styles, outline("I", "1")))
    reported = ["I Berths", "I.1 Depth", "Preface", "Foreword", "I.2 Notice", "IX Annex", "1. Pilots & boats"]
    assert [(heading.level, heading.title) for heading in document.headings] == [
        *zip((1, 2, 1, 1, 2, 1, 2), reported, strict=True)
    ]
    assert [line for line in document.text.split("\n") if line] == [*reported[:2], "is 9 m", *reported[2:]]


def test_what_a_level_shows(tmp_path: Path) -> None:
    styles = list_style(
        "L1", number(1, "A", 'style:num-prefix="§ " text:start-value="3"'), number(2, ""),
        number(3, "1", 'text:display-levels="3" style:num-suffix=":"'),
        number(4, "i", 'loext:num-list-format="(%1%-%4%)" style:num-suffix="."'),
    )  # fmt: skip
    flat = listed(
        "<text:list-item><text:p>a</text:p><text:list><text:list-item><text:p>b</text:p><text:list><text:list-item><text:p>c</text:p>"
        "<text:list><text:list-item><text:p>d</text:p></text:list-item></text:list></text:list-item></text:list></text:list-item>"
        "</text:list></text:list-item>"
    )
    assert lines(tmp_path, flat, styles) == ["§ C a", "b", "C.1: c", "(C-i) d"]


def test_headers_later_paragraphs_and_what_was_taken_away_have_none(tmp_path: Path) -> None:
    gone = "<text:tracked-changes><text:changed-region><text:deletion>" + listed(items("gone")) + (
        "</text:deletion></text:changed-region></text:tracked-changes>"
    )  # fmt: skip
    body = gone + listed(
        "<text:list-header><text:p>Birds</text:p></text:list-header><text:list-item><text:p/></text:list-item>" + items("tern")
    )  # fmt: skip
    assert lines(tmp_path, body, CLAUSES) == ["Birds", "2. tern"]


def test_numbers_that_are_written_for_others_are_reported_once_and_apart(tmp_path: Path) -> None:
    body = '<text:h text:outline-level="1"><text:number>1.</text:number>Berths</text:h>'
    assert lines(tmp_path, body) == ["1. Berths"]
    assert lines(tmp_path, body, "", outline("1")) == ["1 Berths"]


TAGS = (
    '<text:list text:style-name="L1">', '<text:list text:continue-numbering="true">', "<text:list/>", "</text:list>",
    "<text:list-item>", "</text:list-item>", "<text:list-header>", "</text:list-header>", "<text:p>", "</text:p>", "<text:p/>",
    '<text:h text:outline-level="2">', "</text:h>", "text", "<text:tracked-changes>", "</text:tracked-changes>", '<text:p a="<>">',
)  # fmt: skip


@given(st.lists(st.sampled_from(TAGS), max_size=20).map("".join))
def test_no_word_is_lost_whatever_is_open(body: str) -> None:
    made = content(body, CLAUSES)
    changed = with_numbers(made, package_of(odt(body, CLAUSES, outline("1"))))
    assert changed.count(b"text</") >= made.count(b"text</text:p>")
    assert changed.count(b"<text:p") == made.count(b"<text:p")
    try:
        etree.fromstring(made)
    except etree.XMLSyntaxError:
        return
    etree.fromstring(changed)


@pytest.mark.parametrize(
    "body",
    ['<text:list-style style:name="L1">' * 150_000, "<text:list><text:list-item>" * 100_000, "<text:h " * 400_000,
     "<text:p>" + '<text:h a="' * 300_000, "<text:list>" + "</text:list-item><text:p>x</text:p>" * 100_000],
)  # fmt: skip
def test_tags_that_never_end_are_passed_over(body: str) -> None:
    """Each would take minutes where the search for their ends began anew."""
    package = package_of(odt("", CLAUSES, outline("1")))
    assert with_numbers(content(body, CLAUSES), package).endswith(b"</office:document-content>")
