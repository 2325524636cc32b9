"""Text for people."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from engine.core.text import (
    about_count,
    approximate_duration,
    duration,
    estimate_line,
    metric_name,
    short_names,
)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0124, "12 ms"),
        (0.0996, "0.1 s"),
        (0.42, "0.4 s"),
        (42.4, "42 s"),
        (250, "4 min 10 s"),
        (754, "12 min"),
        (11_100, "3 h 05 min"),
        (math.nan, "?"),
        (-1, "?"),
    ],
)
def test_durations(seconds: float, expected: str) -> None:
    assert duration(seconds) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (44, "less than a minute"),
        (50, "about 1 minute"),
        (130, "about 2 minutes"),
        (430, "about 8 minutes"),
        (1000, "about 15 minutes"),
        (51 * 60, "about 45 minutes"),
        (55 * 60, "about 1 hour"),
        (4 * 3600, "about 4 hours"),
        (math.inf, "?"),
    ],
)
def test_lengths_of_time_that_are_estimates_are_round(seconds: float, expected: str) -> None:
    assert approximate_duration(seconds) == expected


def test_estimated_numbers_of_queries_are_rounded_upwards_to_two_digits() -> None:
    assert [about_count(count) for count in (7, 99, 100, 219, 1001)] == [
        "7",
        "99",
        "100",
        "220",
        "1,100",
    ]


def test_an_estimate_names_the_stages_that_take_a_minute_and_those_that_nobody_knows() -> None:
    seconds = {
        "index": 1.0,
        "train": 320.0,
        "evaluate": 170.0,
    }
    line = "about 8 minutes on this machine: train 5 min, evaluate 3 min"
    assert estimate_line({"index": 1.0, "train": 330.0}, []) == "about 6 minutes on this machine"
    assert estimate_line(seconds, []) == line
    assert estimate_line({"train": 900.0, "evaluate": 125.0}, []).startswith("about 17 minutes "), (
        "as its parts say"
    )
    assert estimate_line(seconds, ["generate"]) == f"{line}; not known: generate"
    assert estimate_line({}, ["generate"]) == "not known: generate"


def test_folders_of_one_name_are_named_with_the_folders_that_tell_them_apart() -> None:
    folders = [
        Path(path) for path in ("/a/x/sample", "/b/x/sample", "/b/y/sample", "/b/notes", "sample")
    ]
    assert list(short_names(folders).values()) == [
        str(Path("a/x/sample")),
        str(Path("b/x/sample")),
        str(Path("y/sample")),
        "notes",
        "sample",
    ]
    assert short_names([]) == {}


@pytest.mark.parametrize(
    ("folders", "expected"),
    [
        (["/a/docs", "/b/mail"], ["docs", "mail"]),
        (["/a/docs", "/b/docs"], ["a/docs", "b/docs"]),
        (["/x/a/docs", "/y/a/docs", "/z"], ["x/a/docs", "y/a/docs", "z"]),
        (["/docs", "/a/docs"], ["/docs", "a/docs"]),
        (["/", "/a"], ["/", "a"]),
    ],
)
def test_short_names_tell_folders_apart(folders: list[str], expected: list[str]) -> None:
    names = short_names([Path(folder) for folder in folders]).values()
    assert list(names) == [str(Path(name)) for name in expected]


def test_a_metric_has_a_name_that_people_know() -> None:
    assert [metric_name(name).split("@")[0] for name in ("ndcg@10", "map@10 (multihop)")] == [
        "nDCG",
        "MAP",
    ]
    assert "multihop" not in metric_name("map@10 (multihop)")
