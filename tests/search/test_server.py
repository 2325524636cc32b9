from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from fixtures.pipeline import WAIT_SECONDS
from fixtures.serving import ask, ask_once, code, request

from engine.core.subprocesses import import_path
from engine.project.folder import ProjectFolder
from engine.search.server import Server

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
NO_METHOD = -32601
INVALID_PARAMS = -32602
INTERNAL = -32603
ENGINE = -32000


@pytest.mark.parametrize("mode", ["bm25", "semantic", "hybrid", None])
def test_search(
    indexed: Any,
    project: ProjectFolder,
    mode: str | None,
) -> None:
    answer = ask_once(project, request(1, "search", query="who repairs the roof", mode=mode, top=2))
    assert answer["id"] == 1
    assert answer["result"]["mode"] == (mode or "hybrid")
    assert len(answer["result"]["hits"]) == 2
    first = answer["result"]["hits"][0]
    assert first["snippet"] == "The landlord repairs the roof."
    assert [first["snippet"][a:b] for a, b in first["marks"]] == ["repairs", "roof"]


def test_search_with_filters(indexed: Any, project: ProjectFolder) -> None:
    answers = ask(
        project,
        request(
            "p", "search", query="pays roof", mode="bm25", paths=["contracts/**"], types=["html"]
        ),
        request("f", "search", query="pays roof", mode="bm25", types=["pdf", "html"]),
        request(
            "d", "search", query="pays roof", mode="bm25", after="1970-01-25", before="1970-03-01"
        ),
    )
    found = {answer["id"]: {hit["path"] for hit in answer["result"]["hits"]} for answer in answers}
    assert found == {
        "p": {"contracts/old/loan.html"},
        "f": {"contracts/old/loan.html"},
        "d": {"reports/wing.md"},
    }


def test_document_ping_and_warm_up(indexed: Any, project: ProjectFolder) -> None:
    store = project.store()
    row = store.documents()[0].id
    store.close()
    lines = [
        request(1, "document", document_id=row),
        request(2, "ping"),
        request(3, "warm_up"),
        request(4, "warm_up", mode="bm25"),
    ]
    answers = {answer["id"]: answer["result"] for answer in ask(project, *lines)}
    assert answers[1]["text"] == "The tenant pays the rent monthly. The landlord repairs the roof."
    assert (answers[1]["path"], answers[1]["format"]) == ("contracts/lease.md", "md")
    assert set(answers[1]) == {"path", "source", "title", "text", "format"}
    assert (answers[2], answers[3], answers[4]) == ("pong", True, True)


def test_a_document_that_is_not_there(project: ProjectFolder) -> None:
    answer = ask_once(project, request(1, "document", document_id=77))
    assert code(answer) == ENGINE
    assert answer["error"]["data"]["to_do"]


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "nonsense",
        '{"jsonrpc": "2.0", "id": 1',
        "[" * 100_000,
        '{"a":' * 50_000,
        "9" * 10_000,
        b"\xff\xfe",
        b'{"id": "\xe9"}',
    ],
)
def test_what_is_not_json(project: ProjectFolder, line: str | bytes) -> None:
    answer = ask_once(project, line)
    assert (code(answer), answer["id"]) == (PARSE_ERROR, None)


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("3", None),
        ("[]", None),
        ('"x"', None),
        ("null", None),
        ("{}", None),
        ('[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', None),
        ('{"jsonrpc": "1.0", "id": 1, "method": "ping"}', 1),
        ('{"id": 1, "method": "ping"}', 1),
        ('{"jsonrpc": "2.0", "id": "a"}', "a"),
        ('{"jsonrpc": "2.0", "id": 1, "method": 5}', 1),
        ('{"jsonrpc": "2.0", "id": [1], "method": "ping"}', None),
        ('{"jsonrpc": "2.0", "id": {"a": 1}, "method": "ping"}', None),
        ('{"jsonrpc": "2.0", "id": NaN, "method": "ping"}', None),
        ('{"jsonrpc": "2.0", "id": true, "method": "ping"}', None),
        ('{"jsonrpc": "2.0", "method": "ping", "id": ' + "[" * 900 + "]" * 900 + "}", None),
    ],
)
def test_what_is_not_a_request(
    project: ProjectFolder,
    line: str,
    key: Any,
) -> None:
    answer = ask_once(project, line)
    assert (code(answer), answer["id"]) == (INVALID_REQUEST, key)


@pytest.mark.parametrize("method", ["seek", "", "__class__", "Search", "\u202e"])
def test_unknown_methods(project: ProjectFolder, method: str) -> None:
    answer = ask_once(project, request(1, method))
    assert (code(answer), answer["id"]) == (NO_METHOD, 1)
    assert "search" in answer["error"]["data"]


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"query": 5},
        {"query": None},
        {"query": ["x"]},
        {"query": "x", "mode": ["x"]},
        {"query": "x", "mode": "best"},
        {"query": "x", "mode": {}},
        {"query": "x", "mode": 0},
        {"query": "x", "top": "3"},
        {"query": "x", "top": 1.5},
        {"query": "x", "top": True},
        {"query": "x", "top": 0},
        {"query": "x", "top": -1},
        {"query": "x", "top": -(2**80)},
        {"query": "x", "top": [1]},
        {"query": "x", "paths": "*.md"},
        {"query": "x", "paths": [1]},
        {"query": "x", "paths": {}},
        {"query": "x", "types": "md"},
        {"query": "x", "formats": "md"},
        {"query": "x", "formats": [None]},
        {"query": "x", "formats": 0},
        {"query": "x", "after": 5},
        {"query": "x", "after": "soon"},
        {"query": "x", "before": ""},
        {"query": "x", "after": ["2031-01-01"]},
        {"query": "x", "page": 2},
        {"query": "x", "series": 1},
        {"query": "x", "series": ["a"]},
    ],
)
def test_wrong_params_of_search(
    indexed: Any, project: ProjectFolder, params: dict[str, Any]
) -> None:
    answer = ask_once(project, request(1, "search", **params))
    assert (code(answer), answer["id"]) == (INVALID_PARAMS, 1)


@pytest.mark.parametrize("document_id", ["1", 1.5, None, True, [1], 0, -1, 2**63, 2**200])
def test_wrong_params_of_document(project: ProjectFolder, document_id: Any) -> None:
    assert (
        code(ask_once(project, request(1, "document", document_id=document_id))) == INVALID_PARAMS
    )


@pytest.mark.parametrize("params", [[], ["x"], "x", 5, None])
def test_params_that_are_no_object(project: ProjectFolder, params: Any) -> None:
    assert (
        code(
            ask_once(
                project, json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": params})
            )
        )
        == INVALID_PARAMS
    )


def test_a_malformed_glob_is_the_callers_fault(indexed: Any, project: ProjectFolder) -> None:
    answer = ask_once(project, request(1, "search", query="roof", mode="bm25", paths=["[z-a]"]))
    assert answer["error"]["data"]["type"] == "UsageError"


@pytest.mark.parametrize("top", [10**6, 2**63, 2**200])
def test_a_huge_top_gives_all_there_is(
    indexed: Any,
    project: ProjectFolder,
    top: int,
) -> None:
    assert (
        len(ask_once(project, request(1, "search", query="roof", top=top))["result"]["hits"]) == 6
    )


def test_an_engine_error_is_carried_whole(project: ProjectFolder) -> None:
    answer = ask_once(project, request(1, "search", query="roof", mode="bm25"))
    assert code(answer) == ENGINE
    assert answer["error"]["data"]["type"] == "NotBuiltError"
    assert "engine run" in answer["error"]["data"]["to_do"]


@pytest.mark.parametrize("key", [0, -1, 2**100, "", "a", "né \u2028", None])
def test_ids_are_echoed(project: ProjectFolder, key: Any) -> None:
    assert ask_once(project, request(key, "ping")) == {
        "jsonrpc": "2.0",
        "id": key,
        "result": "pong",
    }


def test_notifications_are_never_answered(indexed: Any, project: ProjectFolder) -> None:
    def note(method: str, **params: Any) -> str:
        return json.dumps({"jsonrpc": "2.0", "method": method, "params": params})

    lines = [
        note("ping"),
        note("seek"),
        note("search", query=5),
        note("search", query="roof"),
        note("document", document_id=77),
    ]
    assert ask(project, *lines, request(1, "ping")) == [
        {"jsonrpc": "2.0", "id": 1, "result": "pong"}
    ]


def test_blank_lines_are_passed_over(project: ProjectFolder) -> None:
    assert [
        answer["id"]
        for answer in ask(project, "\n", request(1, "ping") + "\r\n", "   ", request(2, "ping"))
    ] == [
        1,
        2,
    ]


def test_answers_are_ascii_on_one_line(indexed: Any, project: ProjectFolder) -> None:
    output = io.StringIO()
    Server(project, output).serve(
        [request("né", "search", query="Köln Miete 文 \ud800", mode="bm25")]
    )
    assert output.getvalue().isascii()
    assert output.getvalue().count("\n") == 1
    answer = json.loads(output.getvalue())
    assert answer["id"] == "né"
    assert answer["result"]["hits"][0]["snippet"] == "Zahlung der Miete in Köln."


def test_shutdown_answers_finishes_and_reads_no_further(
    indexed: Any, project: ProjectFolder
) -> None:
    answers = ask(
        project, request(1, "search", query="roof"), request(2, "shutdown"), request(3, "ping")
    )
    assert sorted(answer["id"] for answer in answers) == [1, 2]
    assert (
        ask(project, json.dumps({"jsonrpc": "2.0", "method": "shutdown"}), request(3, "ping")) == []
    )


class PanicError(BaseException):
    """As native code raises it: not an Exception."""


def test_a_fault_in_one_answer_does_not_end_the_others(
    indexed: Any, project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def encode_queries(self, texts: list[str]) -> Any:
            raise PanicError("called `Option::unwrap()`")

    monkeypatch.setattr(
        "engine.search.loaded.LoadedProject.query_encoder", lambda self, artifact: Broken()
    )
    answers = ask(
        project,
        *(request(n, "search", query="roof", mode="semantic") for n in range(3)),
        request(3, "ping"),
    )
    assert sorted(answer["id"] for answer in answers) == [0, 1, 2, 3]
    assert [code(answer) for answer in answers if answer["id"] < 3] == [INTERNAL] * 3


def test_a_database_that_breaks_after_the_start_is_answered_with(project: ProjectFolder) -> None:
    def lines() -> Iterator[str]:
        for path in project.path.glob("project.db*"):
            path.unlink()
        (project.path / "project.db").write_bytes(b"garbage" * 99)
        yield request(
            1,
            "search",
            query="roof",
        )
        yield request(
            2,
            "document",
            document_id=1,
        )
        yield request(
            3,
            "search",
            query="roof",
            mode="bm25",
        )

    output = io.StringIO()
    Server(project, output).serve(lines())
    answers = [json.loads(line) for line in output.getvalue().splitlines()]
    assert sorted(answer["id"] for answer in answers) == [1, 2, 3]
    assert {answer["error"]["data"]["type"] for answer in answers} == {"DamagedError"}


def test_a_damaged_database_is_every_searchs_answer_and_stops_nothing_else(
    project: ProjectFolder,
) -> None:
    (project.path / "project.db").write_bytes(b"garbage" * 99)
    lines = [
        request(1, "search", query="roof"),
        request(2, "document", document_id=1),
        request(3, "ping"),
        request(4, "status"),
    ]
    answers = {
        answer["id"]: answer
        for answer in ask(project, *lines, extra={"status": lambda: lambda: {"state": "damaged"}})
    }
    assert [answers[key]["error"]["data"]["type"] for key in (1, 2)] == ["DamagedError"] * 2
    assert (answers[3]["result"], answers[4]["result"]) == ("pong", {"state": "damaged"})


def test_an_output_that_nobody_reads_any_more_ends_the_server(project: ProjectFolder) -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    lines = iter(["not json"] * 10_000)
    Server(project, Closed()).serve(lines)
    assert len(list(lines)) == 9_998


def test_as_a_process_with_bytes_that_are_not_utf8(corpus: Any, project: ProjectFolder) -> None:
    """A bad byte spoils its own line only, whatever the locale says."""
    corpus.index(vectors=False)
    code = (
        "import sys\nfrom pathlib import Path\nfrom engine.project.folder import ProjectFolder\n"
        "from engine.search.server import Server\n"
        "Server(ProjectFolder(Path(sys.argv[1])), sys.stdout).serve(sys.stdin)"
    )
    lines = [
        b'{"jsonrpc": "2.0", "id": "\xe9", "method": "ping"}',
        b'{"jsonrpc":"2.0","id":"n\xc3\xa9","method":"search","params":{"query":"K\xc3\xb6ln"}}',
    ]
    done = subprocess.run(
        [sys.executable, "-c", code, str(project.path)],
        input=b"\n".join(lines) + b"\n",
        capture_output=True,
        env=dict(
            os.environ,
            PYTHONPATH=import_path(),
            PYTHONIOENCODING="latin-1",
            PYTHONUTF8="0",
        ),
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == [None, "né"]
    assert answers[1]["result"]["hits"][0]["snippet"] == "Zahlung der Miete in Köln."
    assert answers[1]["result"]["notes"]
