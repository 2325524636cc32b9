"""The table of systems: hand-computed figures, document-level collapsing, and what is left out."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from engine.core.errors import TooLittleTextError
from engine.core.figures import FigureTable
from engine.core.messages.wire import from_json
from engine.evaluation.comparison import MULTIHOP, collapse, compare
from engine.evaluation.judgments import Judgment


def document_of(chunks):
    return chunks // 10


def by_chunk(key: str, *chunks: int) -> Judgment:
    return Judgment(
        key,
        f"text {key}",
        "chunk",
        dict.fromkeys(chunks, 1),
        {chunk: (i,) for i, chunk in enumerate(chunks)},
        len(chunks),
    )


def test_chunks_collapse_to_documents_by_their_best_chunk() -> None:
    ids = np.array([[31, 12, 30, 11, 55], [7, 8, -1, -1, -1]])
    assert collapse(ids, document_of).tolist() == [[3, 1, 5, -1, -1], [0, -1, -1, -1, -1]]


def test_figures_by_hand_in_percent() -> None:
    judgments = [by_chunk("a", 1), by_chunk("b", 2, 3)]
    systems = {"base": [[1, 9], [9, 2]], "other": [[9, 8], [2, 3]]}
    comparison = compare(
        systems,
        judgments,
        document_of,
        samples=200,
    )
    assert comparison.table.systems["base"]["hit@1"].value == 50.0
    assert comparison.table.systems["base"]["mrr@10"].value == 75.0
    assert comparison.table.systems["base"]["recall@10"].value == 75.0
    assert comparison.table.systems["other"]["map@10"].value == 50.0
    assert comparison.table.systems["base"][MULTIHOP].value == pytest.approx(
        100 * (1 + (1 / 2) / 2) / 2
    )
    assert comparison.values["other"]["hit@1"].tolist() == [0, 1]
    assert comparison.table.differences["other"]["mrr@10"].value == pytest.approx(-25.0)
    assert "base" not in comparison.table.differences


def test_queries_of_the_document_with_most_are_counted() -> None:
    judgments = [
        replace(by_chunk(key, 1), source=source)
        for key, source in zip("abcd", (7, 8, 7, 7), strict=True)
    ]
    assert compare({"base": [[1]] * 4}, judgments, document_of, samples=10).table.one_document == 3
    assert (
        compare(
            {"base": [[1]] * 4}, [by_chunk(key, 1) for key in "abcd"], document_of, samples=10
        ).table.one_document
        == 1
    )


def test_document_judgments_are_measured_on_documents() -> None:
    judgment = Judgment(
        "q",
        "text",
        "document",
        {3: 2, 5: 1},
    )
    comparison = compare(
        {"base": [[31, 30, 32, 55, 12]]},
        [judgment],
        document_of,
        samples=10,
    )
    assert comparison.table.systems["base"]["ndcg@10"].value == pytest.approx(100.0)
    assert comparison.table.systems["base"]["recall@10"].value == 100.0
    assert MULTIHOP not in comparison.table.systems["base"]


def test_queries_without_an_answer_in_the_corpus_are_left_out() -> None:
    empty = Judgment(
        "lost",
        "text",
        "chunk",
        {},
        {},
        1,
        ("gone",),
    )
    comparison = compare(
        {"base": [[4], [1]]},
        [empty, by_chunk("a", 1)],
        document_of,
        samples=10,
    )
    assert (comparison.keys, comparison.table.left_out) == (("a",), 1)
    assert comparison.table.systems["base"]["hit@1"].value == 100.0
    with pytest.raises(TooLittleTextError):
        compare(
            {"base": [[4]]},
            [empty],
            document_of,
        )


def test_a_clear_gain_is_called_better_and_the_json_form_says_so() -> None:
    judgments = [by_chunk(str(row), 1) for row in range(40)]
    base = [[1] if row % 4 == 0 else [2] for row in range(40)]
    better = [[1] if row % 4 else [2] for row in range(40)]
    comparison = compare(
        {"base": base, "adapted": better, "same": base}, judgments, document_of, samples=2_000
    )
    assert comparison.table.differences["adapted"]["hit@1"].verdict == "better"
    assert comparison.table.differences["same"]["hit@1"].verdict == "no difference shown"
    table = json.loads(json.dumps(asdict(comparison.table)))
    assert table["queries"] == 40
    cell = table["systems"]["adapted"]["hit@1"]
    assert cell["value"] == 75.0
    assert 50 < cell["low"] < 75 < cell["high"] < 100
    assert table["differences"]["adapted"]["hit@1"]["value"] == 50.0


def test_misfits_are_refused() -> None:
    with pytest.raises(ValueError, match="'base'"):
        compare(
            {"adapted": [[1]]},
            [by_chunk("a", 1)],
            document_of,
        )
    with pytest.raises(ValueError, match="for 1 judgments"):
        compare(
            {"base": [[1], [2]]},
            [by_chunk("a", 1)],
            document_of,
        )


def test_pairs_are_compared_with_each_other_not_with_base() -> None:
    judgments = [by_chunk(str(row), 1) for row in range(40)]
    right = [[1]] * 40
    wrong = [[2]] * 40
    half = [[1] if row % 2 else [2] for row in range(40)]
    systems = {
        "base": right,
        "one": half,
        "other": wrong,
    }
    comparison = compare(
        systems, judgments, document_of, samples=500, pairs=[("one", "other"), ("other", "one")]
    )
    gap = comparison.table.pairs["one − other"]["hit@1"]
    assert (gap.value, gap.verdict) == (50.0, "better")
    assert 25 < gap.low < 50 < gap.high < 75
    assert comparison.table.pairs["other − one"]["hit@1"].verdict == "worse"
    assert asdict(comparison.table)["pairs"]["one − other"]["hit@1"]["value"] == 50.0
    assert comparison.table.differences["one"]["hit@1"].value == -50.0


def test_systems_are_tested_with_the_bootstrap_and_with_fishers_randomisation() -> None:
    judgments = [by_chunk(str(row), 1) for row in range(40)]
    right = [[1]] * 40
    half = [[1] if row % 2 else [2] for row in range(40)]
    nearly = [[1] if row % 2 or row == 0 else [2] for row in range(40)]  # one query more than half
    comparison = compare(
        {"base": half, "near": nearly, "best": right},
        judgments,
        document_of,
        samples=999,
        pairs=[("best", "near")],
    )
    gap = comparison.table.gap("best", "near")
    assert gap is not None
    assert (gap.value, gap.verdict, gap.p_value, gap.needed) == (47.5, "better", 1 / 1_000, None)
    small = comparison.table.differences["near"]["hit@1"]
    assert (small.value, small.verdict, small.p_value) == (2.5, "no difference shown", 1.0)
    assert small.needed == 314  # 7.849 · s² / d², s² = 0.025 · 0.975 · 40 / 39, d = 0.025
    assert comparison.table.gap("near", "base") == comparison.table.differences["near"]["ndcg@10"]
    assert comparison.table.gap("near", "best") is None
    assert (
        from_json(FigureTable, json.loads(json.dumps(asdict(comparison.table)))) == comparison.table
    )


def test_equal_systems_need_no_number_of_queries() -> None:
    comparison = compare(
        {"base": [[1]] * 9, "same": [[1]] * 9}, [by_chunk(str(n), 1) for n in range(9)], document_of
    )
    gap = comparison.table.differences["same"]["ndcg@10"]
    assert (gap.p_value, gap.needed, gap.verdict) == (1.0, None, "no difference shown")
