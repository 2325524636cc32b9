"""Stop words in capital letters, such as IT, among other words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.lexical.analysis import Analyzer
from engine.lexical.bm25 import code_bonus, idf
from engine.lexical.index import LexicalIndex
from engine.lexical.matches import matched_spans

TEXTS = [
    "Policy on security at the gates. It is a security policy for guards.",
    "The IT department has a policy, which covers security of servers and of the people there.",
    "Travel policy. It is old.",
    "MENU AS IT IS SERVED",
]


@pytest.mark.parametrize(
    ("language", "text", "codes"),
    [
        ("en", "Our IT and its ITs", ["-it"]),
        ("en", "the IT-department, IT.", ["-itdepart", "-it"]),
        ("en", "IT SECURITY", []),
        ("en", "It is, GmbH, BEIT, A", []),
        ("de", "Ein MAN und die IT", ["-man"]),
        ("none", "Our IT", []),
    ],
)
def test_stop_words_in_capitals_have_codes(
    language: str,
    text: str,
    codes: list[str],
) -> None:
    assert sorted(Analyzer(language).terms(text).codes) == sorted(codes)


def test_a_stop_word_in_capitals_counts_as_a_word(tmp_path: Path) -> None:
    index = LexicalIndex.build(
        tmp_path / "index",
        enumerate(TEXTS),
        "en",
    )
    plain, scores = index.search("it security policy", 10)
    capitals, other_scores = index.search("IT security policy", 10)
    assert (plain[0], capitals[0]) == (0, 1)
    bonus = code_bonus(idf(np.array([1]), len(TEXTS)))
    by_chunk = dict(zip(plain.tolist(), scores.tolist(), strict=True))
    expected = [
        by_chunk[1] + bonus,
        by_chunk[0],
        by_chunk[2],
    ]
    assert other_scores.tolist() == pytest.approx(expected, rel=1e-6)
    everything = index.search("IT SECURITY POLICY", 10)
    assert everything[0].tolist() == plain.tolist()


def test_it_counts_in_a_corpus_of_several_languages(tmp_path: Path) -> None:
    texts = [*enumerate(TEXTS), (7, "Die IT hat Richtlinien für die Sicherheit.")]
    index = LexicalIndex.build(
        tmp_path / "index",
        texts,
        "en",
        languages={7: "de"},
    )
    assert sorted(index.search("our IT", 10)[0].tolist()) == [1, 7]
    assert index.search("our it", 10)[0].tolist() == [7]


def test_it_is_marked_as_written() -> None:
    text = "It is the IT policy."
    spans = matched_spans("IT policy", text, "en")
    assert [text[start:end] for start, end in spans] == ["IT", "policy"]
    assert [text[start:end] for start, end in matched_spans("it policy", text, "en")] == ["policy"]
