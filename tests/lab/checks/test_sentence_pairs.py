"""A user's sentence pairs: read from every form, refused where they are no pairs, and what encoders
make of them.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixtures.errors import fails

from engine.core.errors import CancelledError, DatasetError
from engine.core.figures import Interval
from engine.encoders.geometry.lorentz import Lorentz
from engine.encoders.geometry.similarity import COSINE, Similarity
from engine.lab.checks.sentence_pairs import (
    MIN_PAIRS,
    Pair,
    SentencePairs,
    read_pairs,
)

ROWS = [(f"a {number}", f"b, {number}", number / 2) for number in range(MIN_PAIRS)]
OBJECTS = "".join(
    json.dumps({"sentence1": a, "sentence2": b, "score": s}) + "\n" for a, b, s in ROWS
)


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pairs.jsonl", OBJECTS),
        ("pairs.ndjson", OBJECTS),
        (
            "pairs.tsv",
            "sentence1\tsentence2\tscore\n" + "".join(f"{a}\t{b}\t{s}\n" for a, b, s in ROWS),
        ),
        ("pairs.csv", "\ufeff" + "".join(f'{a},"{b}",{s}\n' for a, b, s in ROWS)),
    ],
)
def test_pairs_are_read_from_every_form(
    tmp_path: Path,
    name: str,
    text: str,
) -> None:
    assert read_pairs(written(tmp_path / name, text)) == [Pair(*row) for row in ROWS]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a\tb\t1\n" * 3, "holds 3 pairs"),
        ("a\tb\t1\n" * 30, "with different scores"),
        ("a\tb\t1\na\tb\n", "Row 2 is not two sentences"),
        ("a\tb\t1\n\tb\t2\n", "Row 2 has an empty sentence"),
        ("a\tb\tnan\n", "Row 1 has"),
    ],
)
def test_what_is_no_pairs_is_refused_with_the_reason(
    tmp_path: Path,
    text: str,
    why: str,
) -> None:
    with pytest.raises(DatasetError) as told:
        read_pairs(written(tmp_path / "pairs.tsv", text))
    assert why in told.value.why
    with fails(DatasetError, "sentence-pairs-invalid"):
        read_pairs(tmp_path / "missing.tsv")


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        (
            "other.jsonl",
            "".join(json.dumps({"text1": a, "text2": b, "score": s}) + "\n" for a, b, s in ROWS),
            "Row 1 is not two sentences",
        ),
        (
            "null.jsonl",
            '{"sentence1": null, "sentence2": "b", "score": 1}\n',
            "Row 1 is not two sentences",
        ),
        (
            "broken.jsonl",
            '{"sentence1": "a", "sen\n',
            "Row 1 is not two sentences",
        ),  # objects have no head
        ("open.csv", '"a,b,1\n' + "a,b,2\n" * 30, "It is no table"),
        ("long.csv", '"a,b,1\n' + "a,b,2\n" * 30_000, "It is no table"),
        ("long.tsv", "a" * 140_000 + "\tb\t1\n", "It is no table"),
    ],
)
def test_pairs_that_would_be_read_wrong_are_refused(
    tmp_path: Path, name: str, text: str, why: str
) -> None:
    csv.field_size_limit(131_072)  # other readers of this process may have raised it
    with pytest.raises(DatasetError) as told:
        read_pairs(written(tmp_path / name, text))
    assert why in told.value.why


def test_quotation_marks_between_tabs_are_text_and_rows_end_at_line_ends_alone(
    tmp_path: Path,
) -> None:
    odd = [
        ('"Open', "b\u2028c", 1.0),
        *ROWS,
        ("closed", 'at last"', 2.0),
    ]
    text = "".join(f"{a}\t{b}\t{s}\r\n" for a, b, s in odd)
    (tmp_path / "pairs.tsv").write_text(
        text,
        encoding="utf-8",
        newline="",
    )
    assert read_pairs(tmp_path / "pairs.tsv") == [Pair(*row) for row in odd]


class Turned:
    """Sees `b, N` at an angle from `a N` that grows with N where `good`, and by chance where
    not.
    """

    def __init__(
        self,
        good: bool,
        check_stop: Callable[[], None] = lambda: None,
        similarity: Similarity = COSINE,
    ) -> None:
        self._check_stop = check_stop
        self.similarity = similarity
        if good:
            self._angles = np.linspace(1.5, 0.1, MIN_PAIRS)
        else:
            self._angles = np.random.default_rng(3).uniform(0.1, 1.5, MIN_PAIRS)

    def query_vectors(self, texts: list[str]) -> Any:
        self._check_stop()
        rows = [(text[0], int(text.split()[-1])) for text in texts]
        angles = [0.0 if one == "a" else self._angles[number] for one, number in rows]
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


@pytest.mark.parametrize("similarity", [COSINE, Lorentz()])
def test_encoders_are_compared_by_rank_correlation(tmp_path: Path, similarity: Similarity) -> None:
    written(tmp_path / "pairs.tsv", "".join(f"{a}\t{b}\t{s}\n" for a, b, s in ROWS))
    pairs = SentencePairs(tmp_path / "pairs.tsv", 0)
    assert pairs.figures() is None
    pairs.record("base", Turned(False))  # type: ignore[arg-type]
    pairs.record("adapted", Turned(True, similarity=similarity))  # type: ignore[arg-type]
    found = pairs.figures()
    assert found is not None
    assert (found.file, found.pairs) == ("pairs.tsv", MIN_PAIRS)
    assert found.systems["adapted"] == Interval(100.0, 100.0, 100.0)
    gap = found.differences["adapted"]
    assert gap.value == pytest.approx(100 - found.systems["base"].value)
    assert SentencePairs(None, 0).figures() is None


def test_a_run_is_cancelled_while_the_sentences_are_encoded(tmp_path: Path) -> None:
    def check_stop() -> None:
        raise CancelledError("The run was cancelled.")

    written(tmp_path / "pairs.tsv", "".join(f"{a}\t{b}\t{s}\n" for a, b, s in ROWS))
    with pytest.raises(CancelledError):
        SentencePairs(tmp_path / "pairs.tsv", 0).record("base", Turned(True, check_stop))  # type: ignore[arg-type]
