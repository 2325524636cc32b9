"""What the Search step computes without a screen: rows of text, scores, filters, marks, what is told."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len, get_character_cell_size
from rich.style import Style

from bmembed_tui.steps.progress import bar
from bmembed_tui.steps.search.explanation import BAR, adapter_text, ranker_lines, why_text
from bmembed_tui.steps.search.hit_rows import snippet_rows
from bmembed_tui.steps.search.hit_text import file_name, file_of, heading_of, origin_of, place_of, score_text
from bmembed_tui.steps.search.model import Answer, Filters, Question, find_terms, terms_of
from bmembed_tui.steps.search.search_as_you_type import Facts, Searching
from bmembed_tui.widgets import text_rows
from bmembed_tui.widgets.plain import visible
from bmembed_tui.widgets.text_rows import TextRows, fitted, line_cuts, segments, spans_within
from engine.core.messages.search import Explained, Found, Hit, RankComparison, Search
from engine.core.messages.wire import from_json


def hit(**parts: Any) -> Hit:
    answer = {
        "rank": 1, "score": 0.0481927, "path": "a/b.md", "source": "/docs", "title": "B", "headings": ["B", "C", "D"],
        "snippet": "one two three", "marks": [[4, 7]], "format": "md", "modified": 0.0, "chunk_id": 7, "document_id": 3,
        "start": 10, "end": 23, "line": 4, "page": None, "rankers": {"bm25": {"rank": 2, "score": 6.874}},
        "shares": {"bm25": 0.75, "semantic": 0.25},
    }  # fmt: skip
    return from_json(Hit, {**answer, **parts})


@pytest.mark.parametrize(
    ("line", "width", "cuts"),
    [
        ("", 5, [0]),
        ("abcde", 5, [5]),
        ("ab cd ef", 5, [6, 8]),  # the blank after "ab cd" hangs over the edge
        ("abcdefgh", 3, [3, 6, 8]),
        ("a bcdefgh", 4, [2, 6, 9]),
        ("漢字漢字", 4, [2, 4]),  # two columns each
        ("漢 字漢字", 4, [2, 4, 5]),
        ("a\x1bbc", 2, [2, 4]),  # a control character is shown as one sign
        ("abc", 0, [1, 2, 3]),
    ],
)
def test_lines_are_cut_at_blanks_and_by_columns(line: str, width: int, cuts: list[int]) -> None:
    assert line_cuts(line, width) == cuts


def test_rows_know_their_places() -> None:
    rows = TextRows("first line\n\nab cd ef\r\n", 6)
    texts = [rows.text[start:end] for start, end in map(rows.span, range(len(rows)))]
    assert texts == ["first ", "line", "", "ab cd ", "ef\r", ""]
    assert [rows.row_of(offset) for offset in (0, 5, 6, 9, 11, 12, 18, 22)] == [0, 0, 1, 1, 2, 3, 4, 5]


def test_characters_taken_for_harmless_are_so() -> None:
    narrow = [char for char in map(chr, range(sys.maxunicode)) if text_rows._NARROW.fullmatch(char)]
    assert len(narrow) > 800
    assert all(get_character_cell_size(char) == 1 and visible(char) == char for char in narrow)


def test_text_is_fitted_from_either_end() -> None:
    assert fitted("abcdef", 6) == "abcdef"
    assert fitted("abcdef", 4) == "abc…"
    assert fitted("abcdef", 4, keep_end=True) == "…def"
    assert fitted("漢字漢字", 4, keep_end=True) == "…字"
    assert fitted("a\x1b[2Jb", 9) == "a␛[2Jb"
    assert fitted("abc", 0) == ""


def test_marks_become_segments_and_control_characters_signs() -> None:
    base, mark = Style(bold=True), Style(underline=True)
    drawn = segments("ab\x07cd", base, [(1, 3, mark), (4, 99, mark)])
    assert [(one.text, one.style) for one in drawn] == [
        ("a", base), ("b␇", base + mark), ("c", base), ("d", base + mark),
    ]  # fmt: skip


def test_spans_within_a_row() -> None:
    spans = [(0, 4), (5, 9), (12, 14)]
    starts = [start for start, _ in spans]
    assert spans_within(spans, starts, 3, 6) == [(0, (0, 4)), (1, (5, 9))]
    assert spans_within(spans, starts, 9, 12) == []
    assert spans_within([], [], 0, 5) == []


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_file_whose_name_is_not_utf_8_is_found_again(tmp_path: Path) -> None:
    raw = Path(os.fsdecode(bytes(tmp_path) + b"/b\xfcro/caf\xe9.zip"))
    raw.parent.mkdir()
    raw.write_text("x")
    for path in (r"b\xfcro/caf\xe9.zip", r"b\xfcro/caf\xe9.zip/plan.txt"):
        found = hit(source=str(tmp_path), path=path)
        assert file_of(found) == raw
        assert file_name(found) == rf"{tmp_path}/b\xfcro/caf\xe9.zip"
    mixed = Path(os.fsdecode(bytes(tmp_path) + rb"/a\x41" + b"\xe9.txt"))
    mixed.write_text("z")
    assert file_of(hit(source=str(tmp_path), path=r"a\x41\xe9.txt")) == mixed
    named = tmp_path / r"tern\xe9.txt"
    named.write_text("y")
    assert file_of(hit(source=str(tmp_path), path=named.name)) == named


def test_a_hit_says_where_it_stands() -> None:
    assert place_of(hit()) == "line 4"
    assert place_of(hit(page=2)) == "page 2"
    assert heading_of(hit()) == "C › D"  # the title is not said twice
    assert heading_of(hit(place="sheet D")) == "C"  # nor is the name of the sheet
    assert origin_of(hit()) == ""
    assert origin_of(hit(author="Ada", changed=1.9e9)) == "Ada · 2030-03-17"
    assert str(file_of(hit())) == "/docs/a/b.md"
    assert score_text(hit(), "hybrid") == "0.0482"
    assert score_text(hit(score=6.874, shares={}), "hybrid") == "6.87"  # BM25 alone had to do
    by_meaning = hit(score=0.4239, shares={}, rankers={"semantic": {"rank": 1, "score": 0.4239}})
    assert score_text(by_meaning, "semantic") == "0.424"


@pytest.mark.parametrize(
    ("filters", "problem"),
    [
        (Filters(), ""),
        (Filters(after="2031-04-30", before="2031-05-01"), ""),
        (Filters(after="2031-4-30"), "'2031-4-30' is not a date: write after as YYYY-MM-DD."),
        (Filters(before="2031-02-30"), "'2031-02-30' is not a date: write before as YYYY-MM-DD."),
        (Filters(before="20310430"), "'20310430' is not a date: write before as YYYY-MM-DD."),
        (Filters(after="2031-05-01", before="2031-05-01"), "No date is both: 'after' must be earlier than 'before'."),
    ],
)
def test_filters_are_checked_where_they_are_typed(filters: Filters, problem: str) -> None:
    assert filters.problem() == problem


def test_filters_become_params() -> None:
    filters = Filters(" contracts/**, *.md ,", "md, txt", "", " 2031-05-01 ", "Ada, Quay", " en")
    assert filters.count == 5
    assert filters.request("q", "bm25", facets=True) == Search(
        "q", "bm25", paths=("contracts/**", "*.md"), types=("md", "txt"), before="2031-05-01",
        authors=("Ada", "Quay"), languages=("en",), facets=True, series="typed-bm25",
    )  # fmt: skip
    assert Filters(authors='Bo, "Ada Quay, Bo"').request("q", "bm25", facets=False).authors == ("Bo", '"Ada Quay, Bo"')
    quoted = Filters().toggled("author", "Ada Quay, Bo")
    assert quoted.request("q", "bm25", facets=False).authors == ('"Ada Quay, Bo"',)


@pytest.mark.parametrize(
    ("before", "facet", "value", "after"),
    [
        (Filters(formats="md, txt"), "type", "pdf", Filters(formats="md txt pdf")),
        (Filters(formats="md, txt"), "type", "md", Filters(formats="txt")),
        (Filters(languages="de"), "language", "de", Filters()),
        (Filters(authors="Bo"), "author", "Ada Quay, Bo", Filters(authors='"Ada Quay, Bo"')),
        (Filters(authors='"Ada Quay, Bo"'), "author", "Ada Quay, Bo", Filters()),
        (Filters("*.md"), "folder", "a/b [1], c", Filters("/a/b ?1?? c/")),
        (Filters("/a/b/"), "folder", "a/b", Filters()),
        (Filters(), "folder", ".", Filters("/./")),
        (Filters("/a/./"), "folder", "a/.", Filters()),
        (Filters(after="2030-01-01"), "year", "2031", Filters(after="2031-01-01", before="2032-01-01")),
        (Filters(after="2031-01-01", before="2032-01-01"), "year", "2031", Filters()),
        (Filters(), "year", "0031", Filters(after="0031-01-01", before="0032-01-01")),
    ],
)
def test_a_facet_becomes_a_filter_and_is_let_go(before: Filters, facet: str, value: str, after: Filters) -> None:
    assert before.toggled(facet, value) == after
    assert not after.problem()


def test_terms_are_the_forms_that_the_engine_marked() -> None:
    hits = [hit(snippet="Valves and a valve", marks=[[0, 6], [13, 18]])]
    assert terms_of("valve", hits) == ("valves", "valve")
    assert terms_of("an old valve", []) == ("valve", "old")
    assert find_terms("Valves, VALVE; devalve valve_x", ("valves", "valve")) == [(0, 6), (8, 13)]
    assert find_terms("水道管の水", ("水道",)) == [(0, 2)]
    assert find_terms("c++ or c", ("c++",)) == [(0, 3)]
    assert find_terms("anything", ()) == []


def test_the_snippets_rows_with_most_marks_are_shown() -> None:
    found = hit(snippet="aaaa bbbb cccc dddd eeee", marks=[[10, 14], [15, 19]])
    first, second = snippet_rows(found, 9, 2)  # rows of seven columns, two for what is left out: one word each
    assert (first.text, first.marks) == ("… cccc", ((2, 6),))
    assert (second.text, second.marks) == ("dddd …", ((0, 4),))
    (whole,) = snippet_rows(found, 40, 2)
    assert (whole.text, whole.marks) == ("aaaa bbbb cccc dddd eeee", ((10, 14), (15, 19)))


@pytest.mark.parametrize(
    ("served", "standing", "note", "told"),
    [
        ("merge-0.75", RankComparison(14, None, 3), "", "merge-0.75: base rank 14 → 3, up 11"),
        ("adapted", RankComparison(3, None, 1204), "", "adapted: base rank 3 → 1,204, down 1,201"),
        ("adapted", RankComparison(3, None, 3), "", "adapted: did not move it, rank 3"),
        ("base", RankComparison(3, None, 3), "", "none is served; base ranks it 3"),
        ("adapted", RankComparison(None, None, 3), "why", "adapted: rank 3; base rank unknown (w)"),
        ("adapted", RankComparison(), "why", "not ranked by the encoder: why"),
    ],
)
def test_whether_the_adapter_moved_a_hit(served: str, standing: RankComparison, note: str, told: str) -> None:
    facts = Facts(None, None, None)  # type: ignore[arg-type]
    facts.explained = Explained(served, {7: standing}, note)
    assert adapter_text(hit(), facts, loading=False) == told


def test_shares_are_drawn() -> None:
    assert bar(0.75, BAR) == "████████░░"
    assert bar(0.0, BAR) == "░░░░░░░░░░"
    lines = dict(ranker_lines(hit(), "hybrid", 40))
    assert lines["BM25"] == "rank 2   score 6.87        ████████░░  75%"
    assert lines["semantic"] == "not among its best         ██░░░░░░░░  25%"
    assert dict(ranker_lines(hit(), "bm25"))["semantic"] == "had no part in this list"


def test_of_a_ranker_without_a_part_in_a_hit_its_place_is_told_where_it_is_known() -> None:
    facts = Facts(None, None, None)  # type: ignore[arg-type]
    facts.explained = Explained("adapted", {hit().chunk_id: RankComparison(14, 0.5, 30, 0.4125, 30, 0.4125)})
    assert (
        dict(ranker_lines(hit(), "bm25", facts=facts))["semantic"] == "rank 30  cosine 0.412, had no part in this list"
    )
    told = dict(ranker_lines(hit(), "hybrid", facts=facts))["semantic"]
    assert told == "rank 30  cosine 0.412      ██░░░░░░░░  25% of the score"
    facts.explained = Explained("adapted", {hit().chunk_id: RankComparison(14)}, "gone")
    assert dict(ranker_lines(hit(), "hybrid", facts=facts))["semantic"].startswith("not among its best  ")


def test_the_whole_story_of_a_hit_leaves_nothing_out() -> None:
    facts = Facts(None, None, None)  # type: ignore[arg-type]
    assert adapter_text(hit(), facts, loading=True) == "the encoder is loading"
    assert adapter_text(hit(), facts, loading=False) == "asking …"
    facts.explain_error = "No index."
    assert adapter_text(hit(), facts, loading=False) == "not known: No index."
    facts.explained = Explained("adapted", {7: RankComparison(9, 0.25, 2, 0.5)}, "a note " * 60)
    text = why_text(hit(), "hybrid", facts, loading=False).plain
    assert "base rank 9 → 2, up 7" in text
    assert "cosine by base 0.250, as served 0.500" in text
    assert text.count("a note") == 60


def test_a_similarity_with_hubs_taken_off_is_named_and_shown_in_its_parts() -> None:
    from bmembed_tui.steps.search.text import scale

    facts = Facts(None, None, None)  # type: ignore[arg-type]
    found = hit(rankers={"semantic": {"rank": 2, "score": 0.4125, "hub_offset": 0.2}}, shares={})
    assert dict(ranker_lines(found, "semantic", 80))["semantic"] == "rank 2   similarity 0.412"
    wide = dict(ranker_lines(found, "semantic", 120))["semantic"]
    assert wide == "rank 2   similarity 0.412, cosine 0.613 less 0.200 as a hub"
    facts.explained = Explained("adapted", {7: RankComparison(9, 0.25, 4, 0.6125, 2, 0.4125, 0.2)})
    text = why_text(found, "semantic", facts, loading=False).plain
    assert "cosine by base 0.250, as served 0.613" in text or "as served 0.612" in text
    assert "Similarity 0.412, by which semantic search ranks, is cosine 0.613 less 0.200 as a hub" in text
    assert dict(ranker_lines(hit(), "bm25", facts=facts))["semantic"].startswith("rank 2   similarity 0.412")
    question = Question("a", Filters())
    assert scale(Answer(question, "semantic", (found,))) == "similarity"
    assert (
        scale(Answer(question, "semantic", (hit(rankers={"semantic": {"rank": 2, "score": 0.4125}}, shares={}),)))
        == "cosine"
    )


def test_every_row_fits_its_width() -> None:
    text = "Straße 漢字 and e\u0301 \u202eturned \x1b[2J " * 40
    for width in (1, 2, 7, 30):
        rows = TextRows(text, width)
        for number in range(len(rows)):
            start, end = rows.span(number)
            assert cell_len(visible(text[start:end]).rstrip()) <= max(2, width)


class Asked:
    """Collects what `Searching` starts, to be worked off when a test says so."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.started: dict[str, Any] = {}

    async def ask(self, request: Any) -> Any:
        self.asked.append(request)
        return Found(request.query, request.mode, ()) if isinstance(request, Search) else True

    def start(self, work: Any, group: str) -> None:
        self.started[group] = work


def test_the_newest_question_wins_and_bm25_stands_in() -> None:
    import asyncio

    from bmembed_tui.steps.search.model import Question

    asked, told = Asked(), []
    searching = Searching(asked.ask, asked.start, told.append)
    searching.warm_up()
    searching.look(Question("old"), "hybrid")
    assert set(asked.started) == {"warm", "search-hybrid", "search-bm25"}
    old = asked.started["search-hybrid"]
    searching.look(Question("new"), "hybrid")
    asyncio.run(old())  # an answer to the old question comes late
    assert told == []
    assert searching.answer("hybrid") is None
    asyncio.run(asked.started["search-bm25"]())
    standing_in = searching.answer("hybrid")
    assert standing_in is not None
    assert (standing_in.by, standing_in.question.query) == ("bm25", "new")
    asyncio.run(asked.started["search-hybrid"]())
    own = searching.answer("hybrid")
    assert own is not None
    assert own.by == "hybrid"
    asyncio.run(asked.started["warm"]())
    asked.started.clear()
    searching.look(Question("third"), "semantic")
    assert set(asked.started) == {"search-semantic"}  # the encoder is ready: nobody stands in
    assert {one.series for one in asked.asked if isinstance(one, Search)} == {"typed-hybrid", "typed-bm25"}
