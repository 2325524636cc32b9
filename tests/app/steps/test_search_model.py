"""What the Search step computes without a screen: rows of text, scores, filters, marks, what is
said.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from fixtures.shown_numbers import numbers
from rich.cells import cell_len, get_character_cell_size
from rich.style import Style

from bmembed_tui.client.progress import format_bar
from bmembed_tui.client.run_state import RunState, StageRun
from bmembed_tui.steps.search import hit_text
from bmembed_tui.steps.search.explanation import (
    BAR_COLUMNS,
    format_adapter,
    format_explanation,
    format_ranker,
)
from bmembed_tui.steps.search.hit_list import build_snippet_rows
from bmembed_tui.steps.search.hit_text import (
    find_file,
    format_file_path,
    format_heading,
    format_origin,
    format_place,
)
from bmembed_tui.steps.search.model import Answer, Filters, Question, collect_terms, find_terms
from bmembed_tui.steps.search.search_as_you_type import Searching
from bmembed_tui.steps.search.text import (
    EVERY_PASSAGE,
    FOUND_BY,
    format_embedding,
    format_found_by,
    format_no_hits,
    format_status,
)
from bmembed_tui.widgets import text_rows
from bmembed_tui.widgets.text_rows import (
    TextRows,
    build_segments,
    find_line_cuts,
    find_spans_within,
    fit_text,
)
from engine.core.events import Progress
from engine.core.messages.search import Explained, Found, Hit, RankComparison, Search
from engine.core.messages.wire import from_json
from engine.core.text import visible


def hit(**parts: Any) -> Hit:
    answer = {
        "rank": 1,
        "score": 0.0481927,
        "path": "a/b.md",
        "source": "/docs",
        "title": "B",
        "headings": ["B", "C", "D"],
        "snippet": "one two three",
        "marks": [[4, 7]],
        "format": "md",
        "modified": 0.0,
        "chunk_id": 7,
        "document_id": 3,
        "start": 10,
        "end": 23,
        "line": 4,
        "page": None,
        "rankers": {"bm25": {"rank": 2, "score": 6.874}},
        "shares": {"bm25": 0.75, "semantic": 0.25},
    }
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
def test_lines_are_cut_at_blanks_and_by_columns(
    line: str,
    width: int,
    cuts: list[int],
) -> None:
    assert find_line_cuts(line, width) == cuts


def test_rows_know_their_places() -> None:
    rows = TextRows("first line\n\nab cd ef\r\n", 6)
    texts = [rows.text[start:end] for start, end in map(rows.span, range(len(rows)))]
    assert texts == ["first ", "line", "", "ab cd ", "ef\r", ""]
    assert [rows.row_of(offset) for offset in (0, 5, 6, 9, 11, 12, 18, 22)] == [
        0,
        0,
        1,
        1,
        2,
        3,
        4,
        5,
    ]


def test_characters_taken_for_harmless_are_so() -> None:
    narrow = [char for char in map(chr, range(sys.maxunicode)) if text_rows.NARROW.fullmatch(char)]
    assert len(narrow) > 800
    assert all(get_character_cell_size(char) == 1 and visible(char) == char for char in narrow)


def test_text_is_fitted_from_either_end() -> None:
    assert fit_text("abcdef", 6) == "abcdef"
    assert fit_text("abcdef", 4) == "abc…"
    assert fit_text("abcdef", 4, keep_end=True) == "…def"
    assert fit_text("漢字漢字", 4, keep_end=True) == "…字"
    assert fit_text("a\x1b[2Jb", 9) == "a␛[2Jb"
    assert fit_text("abc", 0) == ""


def test_marks_become_segments_and_control_characters_signs() -> None:
    base = Style(bold=True)
    mark = Style(underline=True)
    drawn = build_segments(
        "ab\x07cd",
        base,
        [(1, 3, mark), (4, 99, mark)],
    )
    assert [(one.text, one.style) for one in drawn] == [
        ("a", base),
        ("b␇", base + mark),
        ("c", base),
        ("d", base + mark),
    ]


def test_spans_within_a_row() -> None:
    spans = [
        (0, 4),
        (5, 9),
        (12, 14),
    ]
    starts = [start for start, _ in spans]
    assert find_spans_within(spans, starts, 3, 6) == [(0, (0, 4)), (1, (5, 9))]
    assert find_spans_within(spans, starts, 9, 12) == []
    assert find_spans_within([], [], 0, 5) == []


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_file_whose_name_is_not_utf_8_is_found_again(tmp_path: Path) -> None:
    raw = Path(os.fsdecode(bytes(tmp_path) + b"/b\xfcro/caf\xe9.zip"))
    raw.parent.mkdir()
    raw.write_text("x")
    for path in (r"b\xfcro/caf\xe9.zip", r"b\xfcro/caf\xe9.zip/plan.txt"):
        found = hit(source=str(tmp_path), path=path)
        assert find_file(found) == raw
        assert format_file_path(found) == rf"{tmp_path}/b\xfcro/caf\xe9.zip"
    mixed = Path(os.fsdecode(bytes(tmp_path) + rb"/a\x41" + b"\xe9.txt"))
    mixed.write_text("z")
    assert find_file(hit(source=str(tmp_path), path=r"a\x41\xe9.txt")) == mixed
    named = tmp_path / r"tern\xe9.txt"
    named.write_text("y")
    assert find_file(hit(source=str(tmp_path), path=named.name)) == named


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_on_windows_a_backslash_is_no_escaped_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        hit_text,
        "are_names_bytes",
        lambda: False,
    )
    monkeypatch.setattr(
        os,
        "fsdecode",
        lambda name: name.decode("utf-8", "surrogatepass"),
    )
    found = hit(source=r"D:\xfer", path="report.docx")
    assert find_file(found) == Path(r"D:\xfer/report.docx")
    other = tmp_path / "Dé"
    other.mkdir()
    (other / "report.docx").write_text("x")
    found = hit(source=rf"{tmp_path}/D\xc3\xa9", path="report.docx")
    assert find_file(found) == Path(found.source) / "report.docx"


def test_a_hit_shows_where_it_stands() -> None:
    assert format_place(hit()) == "line 4"
    assert format_place(hit(page=2)) == "page 2"
    assert format_heading(hit()) == "C › D"  # the title is not said twice
    assert format_heading(hit(place="sheet D")) == "C"  # nor is the name of the sheet
    assert format_origin(hit()) == ""
    assert format_origin(hit(author="Ada", changed=1.9e9)) == "2030-03-17 · Ada"
    assert find_file(hit()) == Path("/docs/a/b.md")


@pytest.mark.parametrize(
    ("filters", "named"),
    [
        (Filters(), ()),
        (Filters(after="2031-04-30", before="2031-05-01"), ()),
        (Filters(after="2031-4-30"), ("'2031-4-30'", "after")),
        (Filters(before="2031-02-30"), ("'2031-02-30'", "before")),
        (Filters(before="20310430"), ("'20310430'", "before")),
        (Filters(after="2031-05-01", before="2031-05-01"), ("'after'", "'before'")),
    ],
)
def test_filters_are_checked_where_they_are_typed(filters: Filters, named: tuple[str, ...]) -> None:
    problem = filters.find_problem()
    assert bool(problem) == bool(named)
    assert all(name in problem for name in named)


def test_filters_become_params() -> None:
    filters = Filters(" contracts/**, *.md ,", "", " 2031-05-01 ")
    for facet, value in (
        ("type", "md"),
        ("type", "txt"),
        ("author", 'Ada "Quay", Bo'),
        ("language", "en"),
    ):
        filters = filters.toggle(facet, value)
    assert filters.count == 6
    assert filters.build_request("q", "bm25", facets=True) == Search(
        "q",
        "bm25",
        paths=("contracts/**", "*.md"),
        types=("md", "txt"),
        before="2031-05-01",
        authors=('"Ada Quay, Bo"',),
        languages=("en",),
        facets=True,
        series="typed-bm25",
        rerank=False,
    )
    assert filters.toggle("type", "md").get_values("type") == ("txt",)


def test_terms_are_the_forms_that_the_engine_marked() -> None:
    hits = [hit(snippet="Valves and a valve", marks=[[0, 6], [13, 18]])]
    assert collect_terms("valve", hits) == ("valves", "valve")
    assert collect_terms("an old valve", []) == ("valve", "old")
    assert find_terms("Valves, VALVE; devalve valve_x", ("valves", "valve")) == [(0, 6), (8, 13)]
    assert find_terms("水道管の水", ("水道",)) == [(0, 2)]
    assert find_terms("c++ or c", ("c++",)) == [(0, 3)]
    assert find_terms("anything", ()) == []


def test_the_snippets_rows_with_most_marks_are_shown() -> None:
    found = hit(snippet="aaaa bbbb cccc dddd eeee", marks=[[10, 14], [15, 19]])
    first, second = build_snippet_rows(
        found, 9
    )  # rows of seven columns, two for what is left out: one word each
    assert (first.plain, second.plain) == ("\n   … cccc", "\n   dddd …")
    assert [(one.start, one.end) for one in first.spans] == [(6, 10)]
    assert [(one.start, one.end) for one in second.spans] == [(4, 8)]
    (whole,) = build_snippet_rows(found, 40)
    assert whole.plain == "\n   aaaa bbbb cccc dddd eeee"
    assert [(one.start, one.end) for one in whole.spans] == [(14, 18), (19, 23)]


@pytest.mark.parametrize(
    ("in_use", "ranks", "figures"),
    [
        ("interpolated-0.75", RankComparison(14, None, 3), [0.75, 14, 3]),  # weight, ranks
        ("adapted", RankComparison(3, 0.25, 1204, 0.5), [3, 0.25, 1204, 0.5]),  # ranks, cosines
        ("base", RankComparison(3, None, 3), []),
        ("adapted", RankComparison(None, None, 3), []),
        ("adapted", RankComparison(), []),
    ],
)
def test_whether_the_adapter_moved_a_hit(
    in_use: str, ranks: RankComparison, figures: list[float]
) -> None:
    text = format_adapter(Explained(in_use, {7: ranks}), ranks)
    assert numbers(text) == figures
    assert text.startswith(in_use) == (in_use != "base" and ranks.in_use_rank is not None)


def test_shares_are_drawn() -> None:
    nothing = RankComparison()
    assert format_bar(0.75, BAR_COLUMNS) == "████████░░"
    assert format_bar(0.0, BAR_COLUMNS) == "░░░░░░░░░░"
    with_rank = format_ranker(
        "bm25",
        hit(),
        nothing,
    )
    without = format_ranker(
        "semantic",
        hit(),
        nothing,
    )
    assert (numbers(with_rank), format_bar(0.75, BAR_COLUMNS) in with_rank) == (
        [2, 6.87, 75],
        True,
    )  # rank, score, percent
    assert (numbers(without), format_bar(0.25, BAR_COLUMNS) in without) == ([25], True)
    assert with_rank.index("█") == without.index("█")
    assert numbers(format_ranker("semantic", hit(shares={}), nothing)) == []


def test_the_rank_of_a_hit_grouped_by_document_is_that_of_its_document() -> None:
    rankers = {"bm25": {"rank": 9, "score": 6.87, "document_rank": 4}}
    known = RankComparison(
        14,
        0.5,
        30,
        0.4125,
    )
    assert numbers(format_ranker("bm25", hit(rankers=rankers), None)) == [4, 6.87, 75]
    # The encoder is asked for the rank of the passage alone.
    of_passage = format_ranker(
        "semantic",
        hit(rankers=rankers),
        known,
    )
    of_document = format_ranker(
        "bm25",
        hit(rankers=rankers),
        known,
    )
    assert of_passage.split()[:2] != of_document.split()[:2]
    assert format_ranker("bm25", hit(), known).split()[0] == of_document.split()[0]


def test_a_ranker_without_a_share_in_a_hit_shows_its_known_rank() -> None:
    known = RankComparison(
        14,
        0.5,
        30,
        0.4125,
    )
    assert numbers(format_ranker("semantic", hit(shares={}), known)) == [30, 0.412]
    assert numbers(format_ranker("semantic", hit(), known)) == [30, 0.412, 25]
    assert numbers(format_ranker("semantic", hit(), RankComparison(14))) == [25]


def test_a_share_of_a_hit_that_the_encoder_has_not_ranked_is_said_to_be_estimated() -> None:
    nothing = RankComparison()
    without_share = hit(shares={"bm25": 1.0})
    assert format_ranker("semantic", hit(), nothing) != format_ranker("semantic", hit(), None)
    for ranks in (nothing, None):
        text = format_ranker("semantic", without_share, ranks)
        assert text.startswith(format_ranker("semantic", hit(), None)[:20])
    found = hit(rankers={"semantic": {"rank": 1, "score": 0.5}})
    assert format_ranker("bm25", found, nothing) == format_ranker("bm25", found, None)
    assert format_ranker("semantic", found, nothing) == format_ranker("semantic", found, None)


def test_why_shows_what_is_known_and_the_engines_note() -> None:
    assert format_explanation(hit(), None, "loading").plain.splitlines()[2].split() == [
        "adapter",
        "loading",
    ]
    ranks = RankComparison(
        9,
        0.25,
        2,
        0.5,
    )
    explained = Explained(
        "adapted",
        {7: ranks},
        "a note " * 60,
    )
    text = format_explanation(hit(), explained).plain
    assert format_adapter(explained, ranks) in text
    assert text.count("a note") == 60


def test_every_row_fits_its_width() -> None:
    text = "Straße 漢字 and e\u0301 \u202eturned \x1b[2J " * 40
    for width in (1, 2, 7, 30):
        rows = TextRows(text, width)
        for number in range(len(rows)):
            start, end = rows.span(number)
            assert cell_len(visible(text[start:end]).rstrip()) <= max(2, width)


class Requests:
    """Collects what `Searching` starts, to be worked off when a test says so."""

    def __init__(self) -> None:
        self.made: list[Any] = []
        self.started: dict[str, Any] = {}

    async def ask(self, request: Any) -> Any:
        self.made.append(request)
        if isinstance(request, Search):
            return Found(
                request.query,
                request.mode,
                (),
            )
        return True

    def start(self, work: Any, group: str) -> None:
        self.started[group] = work


def test_which_ranker_alone_answered_is_said_where_the_mode_asks_for_another() -> None:
    keywords = hit(shares={})
    fused = hit()
    meaning = hit(shares={}, rankers={"semantic": {"rank": 1, "score": 0.4}})
    said = {
        (mode, by, len(hits)): format_found_by(mode, Answer(Question("q"), by, hits))
        for mode, by, hits in (
            ("hybrid", "hybrid", (fused,)),
            ("hybrid", "hybrid", (fused, keywords)),
            ("hybrid", "hybrid", ()),
            ("bm25", "bm25", (keywords,)),
            ("semantic", "semantic", (meaning,)),
        )
    }
    assert set(said.values()) == {""}
    alone = [
        format_found_by("hybrid", Answer(Question("q"), by, (one,)))
        for by, one in (("hybrid", keywords), ("hybrid", meaning))
    ]
    assert alone == [FOUND_BY["bm25"], FOUND_BY["semantic"]]
    assert (
        format_found_by("semantic", Answer(Question("q"), "bm25", (keywords,))) == FOUND_BY["bm25"]
    )


def test_the_newest_question_wins_and_bm25_stands_in() -> None:
    requests = Requests()
    changed = []
    searching = Searching(
        requests.ask,
        requests.start,
        changed.append,
        patience=0.0,
    )
    searching.warm_up()
    searching.search(Question("old"), "hybrid")
    assert set(requests.started) == {"warm", "search-hybrid", "search-bm25"}
    old = requests.started["search-hybrid"]
    searching.search(Question("new"), "hybrid")
    asyncio.run(old())  # an answer to the old question comes late
    assert changed == []
    assert searching.answer("hybrid") is None
    asyncio.run(requests.started["search-bm25"]())
    standing_in = searching.answer("hybrid")
    assert standing_in is not None
    assert (standing_in.by, standing_in.question.query) == ("bm25", "new")
    asyncio.run(requests.started["search-hybrid"]())
    own = searching.answer("hybrid")
    assert own is not None
    assert own.by == "hybrid"
    asyncio.run(requests.started["warm"]())
    requests.started.clear()
    searching.search(Question("third"), "semantic")
    assert set(requests.started) == {
        "search-semantic",
        "fallback",
    }  # the encoder is ready: nobody stands in
    third = requests.started.pop("search-semantic")
    asyncio.run(requests.started["fallback"]())  # but it takes long
    assert set(requests.started) == {"search-bm25", "fallback"}
    asyncio.run(requests.started.pop("search-bm25")())
    assert searching.answer("semantic") is searching.answers["bm25"]
    asyncio.run(third())
    asyncio.run(requests.started["fallback"]())
    assert set(requests.started) == {"fallback"}  # nothing is waited for
    assert {one.series for one in requests.made if isinstance(one, Search)} == {
        "typed-hybrid",
        "typed-bm25",
        "typed-semantic",
    }


def test_a_date_that_the_request_refuses_is_an_error_of_the_answer() -> None:
    requests = Requests()
    searching = Searching(
        requests.ask,
        requests.start,
        lambda _mode: None,
    )
    searching.search(Question("q", Filters(after="before 1970")), "bm25")
    asyncio.run(requests.started["search-bm25"]())
    answer = searching.answer("bm25")
    assert answer is not None
    assert "before 1970" in answer.error
    assert requests.made == []


def test_the_end_of_embedding_is_announced() -> None:
    run = RunState(current="embed", stages={"embed": StageRun("embed")})
    begun = format_embedding(run, is_first=True)
    run.stages["embed"].progress = Progress(
        stage="embed",
        done=7,
        total=7,
        unit="chunks",
    )
    assert format_embedding(run, is_first=True) != begun
    assert format_embedding(run, is_first=True) != format_embedding(run, is_first=False)


def test_without_hits_the_words_are_not_blamed_alone_where_filters_are_set() -> None:
    said = {
        format_no_hits(Answer(Question("q", filters), "bm25", ()), by_meaning_follows=follows)
        for filters in (Filters(), Filters(paths="*.md"))
        for follows in (True, False)
    }
    assert len(said) == 4


@pytest.mark.parametrize("by_document", [True, False])
def test_the_status_says_that_every_passage_is_shown(by_document: bool) -> None:
    async def ask(*_: object) -> Any:
        raise AssertionError("nothing is asked")

    searching = Searching(
        ask,
        lambda *_: None,
        lambda _: None,
    )
    searching.question = Question("pump", by_document=by_document)
    searching.answers["bm25"] = Answer(
        searching.question,
        "bm25",
        (hit(),),
    )
    parts = format_status("bm25", searching).split(" · ")
    assert (EVERY_PASSAGE in parts) is not by_document
