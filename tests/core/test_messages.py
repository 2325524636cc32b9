from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fixtures.found import build_hit

from engine.core.errors import SettingsError
from engine.core.figures import Difference
from engine.core.messages import documents, project, queries, search
from engine.core.messages.project import Effect, ProjectStatus, RunRecord, StageState, WhatIf
from engine.core.messages.queries import ReadQueries
from engine.core.messages.report import GateOutcome, GateRow, GateTable
from engine.core.messages.search import Explained, Found, Hit, RankComparison, Ranked, Search
from engine.core.messages.wire import (
    MessageError,
    Request,
    from_json,
    to_json,
)

REQUESTS = [
    kind
    for module in (documents, project, queries, search)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Request) and kind is not Request
]


def hit(**fields: Any) -> Hit:
    rankers = {"bm25": Ranked(1, 2.5), "semantic": Ranked(4, 0.25)}
    return build_hit(
        headings=("One",),
        marks=((0, 3),),
        rankers=rankers,
        **fields,
    )


@pytest.mark.parametrize(
    "message",
    [
        Found(
            "q", "hybrid", (hit(), hit(page=3, place="slide 3")), ("a note",), {"type": {"md": 2}}
        ),
        Explained(
            "interpolated-0.5", {7: RankComparison(3, 0.5, 1, 0.75), 8: RankComparison()}, "a note"
        ),
        ProjectStatus(
            "/p",
            "p",
            True,
            RunRecord("r", Path("/p/runs/r")),
            {"files": 3},
            (StageState("ingest", "done", ""),),
        ),
        Effect(),
        Search("q", mode="bm25", top=3, paths=("a/**",)),
    ],
)
def test_a_message_comes_back_from_its_json(message: Any) -> None:
    assert from_json(type(message), json.loads(json.dumps(to_json(message)))) == message


def test_an_error_comes_back_as_its_own_type() -> None:
    error = SettingsError("what", "why", "do")
    back = from_json(Effect, to_json(Effect(problem=error))).problem
    assert isinstance(back, SettingsError)
    assert back.as_dict() == error.as_dict()


def test_keys_of_a_later_version_are_passed_over() -> None:
    assert (
        from_json(
            StageState, {"stage": "train", "state": "done", "reason": "", "mood": "good"}
        ).stage
        == "train"
    )


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({"rank": None}, r"hits\[0\]\.rank\b"),
        ({"rank": True}, r"hits\[0\]\.rank"),
        ({"score": "0.5"}, r"hits\[0\]\.score\b"),
        ({"marks": [[1]]}, r"hits\[0\]\.marks\[0\]"),
        ({"rankers": {"bm25": {"rank": 1}}}, r"hits\[0\]\.rankers\.bm25\.score\b"),
        ({"headings": "One"}, r"hits\[0\]\.headings\b"),
    ],
)
def test_the_error_names_what_is_wrong(change: dict[str, Any], reported: str) -> None:
    data = to_json(Found("q", "hybrid", (hit(),)))
    data["hits"][0] |= change
    with pytest.raises(MessageError, match=reported):
        from_json(Found, data)


@pytest.mark.parametrize("data", [None, [], "x", {}, {"in_use": "base", "chunks": {"one": {}}}])
def test_what_is_no_such_message(data: Any) -> None:
    with pytest.raises(MessageError):
        from_json(Explained, data)


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        (Search, {"query": "q", "mode": "best"}),
        (Search, {"query": "q", "page": 2}),
        (ReadQueries, {"offset": -1}),
        (ReadQueries, {"limit": 2**63}),
        (WhatIf, {}),
        (WhatIf, {"changes": {1: 2}}),
    ],
)
def test_params_are_read_strictly(kind: Any, params: dict[str, Any]) -> None:
    with pytest.raises(MessageError):
        from_json(kind, params, strict=True)


def test_one_condition_of_a_search_is_not_taken_apart() -> None:
    search = Search("q", types="pdf", paths="a/**", authors=("Ada", "Ben"))  # type: ignore[arg-type]
    assert (search.types, search.paths, search.authors) == (("pdf",), ("a/**",), ("Ada", "Ben"))
    assert (search.tags, search.languages) == (None, None)


def test_parameters_of_none_are_not_sent() -> None:
    parameters = to_json(Search("q", facets=True))
    assert parameters == {
        "query": "q",
        "facets": True,
        "syntax": True,
        "by_document": False,
        "by_date": False,
    }


def test_every_method_has_one_request() -> None:
    assert sorted(kind.method for kind in REQUESTS) == sorted({kind.method for kind in REQUESTS})


def test_the_messages_need_no_library() -> None:
    code = (
        "import sys\nbefore = set(sys.modules)\nimport engine.core.messages.documents,"
        " engine.core.messages.project, engine.core.messages.queries\nimport"
        " engine.core.messages.search\nprint(*{name.partition('.')[0] for name in set(sys.modules)"
        " - before} - sys.stdlib_module_names)"
    )
    completed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert completed.stdout.split() == ["engine"]


@pytest.mark.parametrize(
    ("outcome", "low", "p", "decided", "explained"),
    [
        ("not shown", 0.3, 0.2, True, True),
        ("not shown", -0.3, 0.029, True, True),
        ("not shown", -0.3, 0.2, True, False),
        ("not shown", 0.3, 0.029, False, False),
        ("proved", 0.3, 0.029, True, False),
        ("expected", 0.3, 0.029, True, True),
    ],
)
def test_a_gain_that_is_not_shown_although_its_interval_or_p_seems_to_show_it_is_explained(
    outcome: GateOutcome, low: float, p: float, decided: bool, explained: bool
) -> None:
    gap = Difference(
        6.4,
        low,
        12.4,
        0.98,
        "no difference shown",
        0.06,
    )
    row = GateRow(
        "adapted 0.6",
        "adapted",
        0.6,
        gap,
        p,
        outcome,
    )
    assert bool(GateTable("hybrid", "judged", 40, (row,), decided).strictness_note) is explained
    unmeasured = GateRow(
        "adapted 0.7",
        "adapted",
        0.7,
        None,
        1.0,
        outcome,
    )
    assert not GateTable("hybrid", "judged", 40, (unmeasured,), decided).strictness_note
    flattering = GateTable("hybrid", "model", 40, (row,), decided).strictness_note
    assert (flattering != GateTable("hybrid", "judged", 40, (row,), decided).strictness_note) is (
        explained
    )
