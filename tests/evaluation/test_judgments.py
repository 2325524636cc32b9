"""Known answers become relevant chunks: evidence, borders, paths, graded documents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from fixtures.records import build_document
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.records import Chunk, Document, FurtherAnswer, JudgedQuery, Query
from engine.evaluation import judgments as judgments_module
from engine.evaluation.evidence_index import CompactTexts
from engine.evaluation.judgments import (
    Judgment,
    clusters_of,
    combine_judgments,
    judge_generated,
    judge_queries,
    judgments_fingerprint,
)
from engine.project.folder import ProjectFolder
from engine.project.stage import fingerprint

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


def document(
    number: int,
    text: str,
    path: str = "",
    external_id: str | None = None,
) -> Document:
    path = path or f"docs/{number}.txt"
    return build_document(
        path,
        text,
        title="",
        external_id=external_id,
        id=number,
    )


def chunked(documents: list[Document], *bounds: list[tuple[int, int]]) -> list[Chunk]:
    """Chunks with ids 10, 11, … over the documents in order, by character spans."""
    spans = [
        (doc, ordinal, *span)
        for doc, document_spans in zip(documents, bounds, strict=True)
        for ordinal, span in enumerate(document_spans)
    ]
    return [
        Chunk(
            doc.id,
            ordinal,
            start,
            end,
            doc.text[start:end],
            (),
            1,
            doc.text[start:end],
            "h",
            10 + row,
        )
        for row, (doc, ordinal, start, end) in enumerate(spans)
    ]


def judge(
    documents,
    chunks,
    evidence=(),
    grades=(),
    path=None,
):
    [judgment] = judge_queries(
        [JudgedQuery("q", "text", tuple(evidence), tuple(grades), path)], chunks, documents
    )
    return judgment


TEXT = (  # 47 characters; the second sentence starts at 27
    "The quick brown fox jumps. The lazy dog sleeps."
)
ONE = [document(1, TEXT)]
HALVES = chunked(ONE, [(0, 26), (27, 47)])


def test_white_space_does_not_matter() -> None:
    judgment = judge(
        ONE,
        HALVES,
        ["The\nlazy   d og", "quickbrown"],
    )
    assert judgment.level == "chunk"
    assert judgment.grades == {11: 1, 10: 1}
    assert judgment.evidence_by_chunk == {11: (0,), 10: (1,)}
    assert (judgment.evidence, judgment.unmatched) == (2, ())


def test_case_does_matter_and_what_is_missing_is_reported() -> None:
    judgment = judge(
        ONE,
        HALVES,
        ["the QUICK", "lazy dog"],
    )
    assert judgment.evidence_by_chunk == {11: (1,)}
    assert (judgment.evidence, judgment.unmatched, judgment.usable) == (2, ("the QUICK",), True)
    lost = judge(
        ONE,
        HALVES,
        ["nowhere"],
    )
    assert (lost.usable, lost.unmatched) == (False, ("nowhere",))


OWNERS = {
    10: 1,
    11: 1,
    20: 2,
}


def test_the_same_question_judged_twice_is_right_where_either_says_so() -> None:
    imported = Judgment(
        "k",
        "Which?",
        "chunk",
        {10: 1},
        {10: (0,)},
        2,
        ("lost",),
    )
    marked = Judgment(
        "user:1",
        "which?",
        "chunk",
        {10: 1, 20: 1},
        {10: (0,), 20: (1,)},
        2,
    )
    both = combine_judgments([imported, marked], OWNERS)
    assert (both.key, both.text, both.level, both.unmatched) == ("k", "Which?", "chunk", ("lost",))
    assert both.grades == {10: 1, 20: 1}
    assert both.evidence_by_chunk == {10: (0,), 20: (2,)}, (
        "what the same chunk answers is no second evidence"
    )
    assert both.evidence == 3


def test_a_right_chunk_makes_its_document_right_where_documents_are_judged() -> None:
    imported = Judgment(
        "k",
        "Which?",
        "document",
        {1: 2},
    )
    marked = Judgment(
        "user:1",
        "which?",
        "chunk",
        {10: 1, 20: 1},
        {10: (0,), 20: (1,)},
        2,
    )
    both = combine_judgments([imported, marked], OWNERS)
    assert (both.level, both.grades, both.evidence_by_chunk) == ("document", {1: 2, 2: 1}, {})
    unusable = Judgment(
        "k",
        "Which?",
        "document",
        {},
        {},
        1,
        ("gone",),
    )
    alone = combine_judgments([unusable, marked], OWNERS)
    assert (alone.level, alone.grades, alone.unmatched) == ("chunk", {10: 1, 20: 1}, ("gone",))
    assert alone.evidence_by_chunk == {10: (1,), 20: (2,)}


def test_a_string_across_a_border_counts_for_the_chunk_with_the_larger_part() -> None:
    assert list(judge(ONE, HALVES, ["jumps. The"]).grades) == [10]
    assert list(judge(ONE, HALVES, ["s. The lazy"]).grades) == [11]
    assert list(judge(ONE, HALVES, ["jum ps. The laz"]).grades) == [
        10
    ]  # six code points on each side: the earlier


def test_a_string_that_one_chunk_holds_whole_does_not_count_for_others() -> None:
    overlapping = chunked(ONE, [(0, 26), (20, 35), (27, 47)])
    assert list(judge(ONE, overlapping, ["jumps. The"]).grades) == [11]
    assert list(judge(ONE, overlapping, ["The lazy"]).grades) == [11, 12]


def test_all_chunks_that_hold_the_string_are_relevant_also_in_other_documents() -> None:
    both = [document(1, TEXT), document(2, "Again: the lazy dog.")]
    chunks = chunked(
        both,
        [(0, 26), (27, 47)],
        [(0, 20)],
    )
    assert list(judge(both, chunks, ["lazy dog"]).grades) == [11, 12]


def test_a_string_never_spans_two_documents() -> None:
    both = [document(1, "first part"), document(2, "second part")]
    chunks = chunked(
        both,
        [(0, 10)],
        [(0, 11)],
    )
    assert not judge(both, chunks, ["part second"]).usable


@pytest.mark.parametrize("path", ["mail/b.txt", "b.txt", "mail\\b.txt"])
def test_a_path_narrows_to_its_document(path) -> None:
    both = [document(1, TEXT, "mail/a.txt"), document(2, TEXT, "mail/b.txt")]
    chunks = chunked(
        both,
        [(0, 47)],
        [(0, 47)],
    )
    assert list(judge(both, chunks, ["lazy dog"], path=path).grades) == [11]


def test_an_unknown_path_matches_nothing_and_is_reported() -> None:
    judgment = judge(
        ONE,
        HALVES,
        ["lazy dog"],
        path="gone.txt",
    )
    assert not judgment.usable
    assert judgment.unmatched == ("gone.txt", "lazy dog")
    assert not judge([document(1, TEXT, "data.txt")], HALVES, ["lazy dog"], path="a.txt").usable


def test_a_path_alone_makes_its_document_the_answer() -> None:
    judgment = judge(
        ONE,
        HALVES,
        path="docs/1.txt",
    )
    assert (judgment.level, judgment.grades) == ("document", {1: 1})


def test_graded_documents_by_external_id_or_path() -> None:
    documents = [
        document(1, "a", external_id="X1"),
        document(2, "b", path="folder/b.txt"),
        document(3, "c", external_id="X3"),
    ]
    judgment = judge(
        documents, [], grades=[("X1", 3), ("folder/b.txt", 1), ("X3", 0), ("X9", 2), ("X8", -1)]
    )
    assert judgment.level == "document"
    assert judgment.grades == {1: 3, 2: 1}
    assert judgment.unmatched == ("X9",)


def test_evidence_goes_before_grades_and_grades_stand_in_for_lost_evidence() -> None:
    documents = [document(1, TEXT, external_id="X1")]
    judgment = judge(
        documents,
        HALVES,
        ["lazy dog"],
        [("X1", 2)],
    )
    lost = judge(
        documents,
        HALVES,
        ["lazy cat"],
        [("X1", 2)],
    )
    assert (judgment.level, judgment.grades) == ("chunk", {11: 1})
    assert (lost.level, lost.grades, lost.unmatched) == ("document", {1: 2}, ("lazy cat",))


def test_repeated_and_empty_evidence_counts_once_or_not_at_all() -> None:
    judgment = judge(
        ONE,
        HALVES,
        ["lazy dog", "lazy  dog", " \n", ""],
    )
    assert (judgment.evidence, judgment.evidence_by_chunk) == (1, {11: (0,)})


def test_generated_queries_have_their_source_chunk() -> None:
    [judgment] = judge_generated(
        [Query("who?", "question", 77, 5, "evidence", "heldout", 9)], {5: 5}
    )
    assert (
        judgment.key,
        judgment.text,
        judgment.grades,
        judgment.evidence_by_chunk,
        judgment.evidence,
    ) == (
        "9",
        "who?",
        {77: 1},
        {77: (0,)},
        1,
    )


TEXTS = st.lists(
    st.text(alphabet="ab \n\u3000\u00e9\U0001f600", max_size=60), min_size=1, max_size=4
)
NEEDLES = st.lists(
    st.text(alphabet="ab \u3000\u00e9\U0001f600", min_size=1, max_size=40), min_size=1, max_size=6
)


@given(TEXTS, NEEDLES, st.data())
@settings(max_examples=200)
def test_every_occurrence_is_found_as_plain_search_finds_it(texts, needles, data) -> None:
    whole = data.draw(st.sampled_from(texts))
    start = data.draw(st.integers(0, len(whole)))
    needles = [*needles, whole[start : start + data.draw(st.integers(1, 50))]]
    index = CompactTexts(texts)
    for needle, places in index.find(needles).items():
        compact = "".join(needle.split())
        expected = [
            (number, place, place + len(compact))
            for number, text in enumerate("".join(text.split()) for text in texts)
            for place in range(len(text))
            if compact and text.startswith(compact, place)
        ]
        assert places == expected
    for number, text in enumerate(texts):
        assert index.compact_span(number, 0, len(text) + 5) == (0, len("".join(text.split())))
        assert index.compact_span(number, 1, 1)[0] == len("".join(text[:1].split()))


def test_blocks_do_not_show() -> None:
    texts = ["abc def ghi jkl mno pqr stu vwx yz " * 20, "yz abc defghi jkl"]
    needles = ["abcdefghijklmnopqrstuvwxyz", "z a", "yzabcdefghijklmnopqrstuvwxyzabcdefghijkl", "q"]
    whole = CompactTexts(texts).find(needles)
    assert CompactTexts(texts, block=37).find(needles) == whole
    assert len(whole["q"]) == 20


def test_documents_are_read_once_and_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"Pump {number} leaks. Valve {number % 3} is shut." for number in range(9)]
    documents = [document(number, text) for number, text in enumerate(texts, 1)]
    chunks = chunked(documents, *[[(0, 14), (14, len(text))] for text in texts])
    judged = [
        JudgedQuery("1", "a", ("pump 4 leaks", "Pump 4 leaks", "Valve 1 is")),
        JudgedQuery("2", "b", ("leaks. Valve 2",)),
        JudgedQuery("3", "c", (), (("docs/7.txt", 2),)),
    ]
    whole = judge_queries(judged, chunks, documents)
    assert [sorted(judgment.grades) for judgment in whole] == [[13, 18, 19, 25], [14], [7]]
    sizes = []

    class Counted(CompactTexts):
        def __init__(self, texts: Sequence[str]) -> None:
            sizes.append(len(texts))
            super().__init__(texts)

    monkeypatch.setattr(judgments_module, "CompactTexts", Counted)
    assert judge_queries(judged, chunks, iter(documents), block=60) == whole
    assert sizes == [2, 2, 2, 2, 1]
    assert judge_queries(judged[2:], chunks, iter(documents)) == whole[2:]
    assert sizes == [2, 2, 2, 2, 1]


@pytest.mark.shared
def test_real_evidence_is_found_where_plain_search_finds_it() -> None:
    folder = SHARED / "multihop-partial"
    if not folder.is_dir():
        pytest.skip(f"{folder} is missing")
    entries = [json.loads(line) for line in (folder / "corpus.jsonl").open(encoding="utf-8")]
    documents = [
        document(number, entry["text"], external_id=entry["_id"])
        for number, entry in enumerate(entries, 1)
    ]
    chunks = chunked(documents, *[[(0, len(doc.text))] for doc in documents])
    real = json.loads((folder / "evidence.json").read_text(encoding="utf-8"))
    judged = [
        JudgedQuery(str(row), entry["query"], tuple(entry["evidence_list"]))
        for row, entry in enumerate(real)
    ]
    judgments = judge_queries(judged, chunks, documents)
    assert all(judgment.usable and not judgment.unmatched for judgment in judgments)
    compact = {chunk.id: "".join(chunk.text.split()) for chunk in chunks}
    for query, judgment in list(zip(judged, judgments, strict=True))[::60]:
        strings = ["".join(string.split()) for string in query.evidence]
        assert set(judgment.grades) == {
            chunk for chunk, text in compact.items() if any(string in text for string in strings)
        }


def test_queries_of_copies_share_a_cluster_and_those_of_unknown_source_have_their_own() -> None:
    queries = [Query("who?", "question", 77, document, "", "heldout") for document in (5, 6, 8, 4)]
    judgments = judge_generated(queries, {4: 4, 5: 4, 6: 4, 7: 7})
    assert clusters_of([*judgments, Judgment("k", "what?", "chunk", {77: 1})]).tolist() == [
        4,
        4,
        -3,
        4,
        -5,
    ]


SECOND = "Elsewhere the lazy dog sleeps. A cat looks on."  # the second sentence starts at 31
TWO = [document(1, TEXT), document(2, SECOND)]
OF_TWO = chunked(TWO, [(0, 26), (27, 47)], [(0, 30), (31, 46)])  # chunks 10, 11 and 12, 13


def further(*also: FurtherAnswer) -> Judgment:
    judged = JudgedQuery(
        "q",
        "text",
        ("quick brown",),
        path="docs/1.txt",
        also=also,
    )
    return judge_queries([judged], OF_TWO, TWO)[0]


def test_further_answers_are_as_right_as_the_first() -> None:
    assert further().grades == {10: 1}
    judgment = further(FurtherAnswer("docs/2.txt", ("lazy dog", "A cat")))
    assert (judgment.level, judgment.grades, judgment.unmatched) == (
        "chunk",
        {10: 1, 12: 1, 13: 1},
        (),
    )
    assert (judgment.evidence_by_chunk, judgment.evidence) == ({10: (0,), 12: (1,), 13: (2,)}, 3)


def test_a_further_answer_without_a_path_is_looked_for_everywhere() -> None:
    assert further(FurtherAnswer(None, ("lazy dog",))).grades == {10: 1, 11: 1, 12: 1}


def test_a_further_document_as_a_whole_makes_all_answers_documents() -> None:
    judgment = further(FurtherAnswer("docs/2.txt"))
    assert (judgment.level, judgment.grades) == ("document", {1: 1, 2: 1})


def test_what_is_not_found_of_further_answers_is_reported_and_harms_nothing() -> None:
    judgment = further(
        FurtherAnswer("docs/9.txt", ("lazy dog",)), FurtherAnswer("docs/2.txt", ("A cow",))
    )
    assert (judgment.level, judgment.grades) == ("chunk", {10: 1})
    assert judgment.unmatched == ("docs/9.txt", "lazy dog", "A cow")
    judged = JudgedQuery(
        "q",
        "text",
        ("nowhere",),
        also=(FurtherAnswer("docs/2.txt", ("A cat",)),),
    )
    (only,) = judge_queries(
        [judged],
        OF_TWO,
        TWO,
    )
    assert (only.level, only.grades, only.unmatched) == ("chunk", {13: 1}, ("nowhere",))


def test_further_answers_change_the_fingerprint_and_questions_without_them_keep_theirs(
    project: ProjectFolder,
) -> None:
    plain = JudgedQuery(
        "k",
        "who?",
        ("He.",),
        path="a.md",
    )
    with closing(project.store()) as store:
        store.put_judged([plain])
        before = judgments_fingerprint(store)
        assert before == fingerprint(judged=[["k", "who?", ("He.",), (), "a.md"]])
        store.put_judged([replace(plain, also=(FurtherAnswer("b.md", ("She.",)),))])
        assert judgments_fingerprint(store) != before
