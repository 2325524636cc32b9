"""The protocol, with the SDK's own client in a process of its own, and line by line."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fixtures.assistants import answers, called, request, session
from fixtures.pipeline import ROOT, environment

if TYPE_CHECKING:
    from mcp import Client

TOOLS = {
    "search",
    "fetch",
    "get",
    "similar",
    "facets",
    "status",
}
WITHOUT_SOCKETS = (sys.executable, str(Path(__file__).with_name("without_sockets.py")))


@pytest.mark.parametrize(("mode", "revision"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
def test_the_sdk_s_client_finds_and_reads(
    handbook: Path,
    mode: str,
    revision: str,
) -> None:
    async def steps(client: Client) -> None:
        assert client.protocol_version == revision
        assert client.server_info.name == "bmembed"
        assert handbook.name in (client.instructions or "")
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == TOOLS
        for tool in tools.values():
            hints = tool.annotations
            assert hints is not None
            assert hints.read_only_hint is True
            assert hints.open_world_hint is False
            assert hints.destructive_hint is False
            assert tool.output_schema
        found = await client.call_tool(
            "search", {"query": "who repairs the roof"}
        )  # held against the output schema
        (content,) = found.content
        assert json.loads(content.text) == found.structured_content  # type: ignore[union-attr]
        first = found.structured_content["results"][0]
        assert first["path"] == "contracts/lease.md"
        assert all(isinstance(first[name], str) and first[name] for name in ("id", "title", "url"))
        read = await client.call_tool("fetch", {"id": first["id"]})
        assert set(read.structured_content) == {"id", "title", "text", "url", "metadata"}
        for tool, arguments in (
            ("get", {"id": first["id"]}),
            ("similar", {"id": first["id"]}),
            ("facets", {}),
            ("status", {}),
        ):
            answer = await client.call_tool(tool, arguments)
            assert not answer.is_error
        wrong = await client.call_tool("get", {"id": first["id"], "start": -1})
        assert wrong.is_error
        assert json.loads(wrong.content[0].text)["code"] == "arguments-invalid"  # type: ignore[union-attr]

    told = session(
        steps,
        handbook,
        mode=mode,
    )
    assert told.count("\n") == 1  # what a cloud assistant receives
    assert "Traceback" not in told


@pytest.mark.posix(reason="the kernel's refusal is Linux's")
def test_fifty_calls_by_keyword_and_by_meaning_need_no_socket(
    embedded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel ends the server at the first system call that would make one.

    ONNX Runtime, from 1.29 on, would some seconds later: what it prepares for that is not there
    either.
    """
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    seen: set[str] = set()

    async def steps(client: Client) -> None:
        for number in range(50):
            found = await client.call_tool("search", {"query": f"who signs report {number}"})
            (searched,) = found.structured_content["searched"]
            assert found.structured_content["results"]
            seen.add(searched["mode"])
            await asyncio.sleep(0 if "hybrid" in seen else 1)

    session(steps, embedded, before=WITHOUT_SOCKETS)
    assert {"bm25", "hybrid"} <= seen
    assert not list(tmp_path.rglob("deviceid"))


@pytest.mark.posix(reason="the kernel's refusal is Linux's")
def test_the_kernel_does_end_who_makes_a_socket() -> None:
    done = subprocess.run(
        [*WITHOUT_SOCKETS, sys.executable, "-c", "import socket; socket.socketpair()"], check=False
    )
    assert done.returncode < 0


def test_standard_output_carries_the_protocol_alone_and_the_end_of_input_ends_it(
    handbook: Path,
) -> None:
    lines = [
        request("initialize", 1),
        request("tools/call", 2, name="search", arguments={"query": "roof"}),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "engine", "mcp", str(handbook)],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        env=environment(),
        cwd=ROOT,
        check=True,
        timeout=120,
    )
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]


def test_a_project_that_there_is_not_is_the_answer_to_every_call(tmp_path: Path) -> None:
    lines = [
        request("initialize", 1),
        request("tools/call", 2, name="status"),
        request("tools/call", 3, name="facets"),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "engine", "mcp", str(tmp_path / "none")],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        env={**environment(), "BMEMBED_ERRORS": "json"},
        cwd=ROOT,
        check=False,
        timeout=120,
    )
    first, *called = [json.loads(line)["result"] for line in done.stdout.splitlines()]
    assert first["serverInfo"]["name"] == "bmembed"
    assert [one["isError"] for one in called] == [True, True]
    assert {json.loads(one["content"][0]["text"])["code"] for one in called} == {"project-missing"}
    assert (done.returncode, json.loads(done.stderr.splitlines()[-1])["code"]) == (
        2,
        "project-missing",
    )


@pytest.mark.parametrize(
    ("asked", "agreed"),
    [
        ("2024-11-05", "2024-11-05"),
        ("2025-06-18", "2025-06-18"),
        ("1999-01-01", "2025-11-25"),
        (7, "2025-11-25"),
    ],
)
def test_the_revision_is_the_client_s_where_it_is_known(
    handbook: Path, asked: Any, agreed: str
) -> None:
    (answer,) = answers([handbook], request("initialize", protocolVersion=asked))
    assert answer["result"]["protocolVersion"] == agreed
    assert set(answer["result"]) == {
        "protocolVersion",
        "capabilities",
        "serverInfo",
        "instructions",
    }


def test_a_stateless_revision_that_is_not_known_is_refused_with_those_that_are(
    handbook: Path,
) -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}
    (answer,) = answers([handbook], request("tools/list", _meta=meta))
    assert (answer["error"]["code"], answer["error"]["data"]) == (
        -32022,
        {"supported": ["2026-07-28"], "requested": "2099-01-01"},
    )


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("{", -32700),
        ("[" * 100_000, -32700),
        (b"\xff\xfe{}", -32700),
        ("x" * 3_000_000, -32700),
        ("[]", -32600),
        ('{"jsonrpc": "2.0", "id": 1}', -32600),
        (request("resources/list"), -32601),
        ('{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": [1]}', -32602),
        (request("tools/call", name="reset"), -32602),
        (request("tools/call", name=["search"]), -32602),
        (request("tools/call", name="__class__"), -32602),
        (request("tools/call", name="search", arguments=[]), 0),
        (request("tools/list", _meta=5), 0),
        (request("tools/list", _meta={"io.modelcontextprotocol/protocolVersion": []}), -32022),
        (request("tools/call", name="search", arguments="query"), -32602),
    ],
)
def test_a_line_that_is_no_good_request_is_refused_and_the_next_answered(
    handbook: Path, line: str | bytes, code: int
) -> None:
    first, second = answers(
        [handbook],
        line,
        "",
        '{"jsonrpc": "2.0", "method": "notifications/x"}',
        request("ping", "last"),
    )
    answered = {one["id"]: one for one in (first, second)}
    assert answered["last"] == {"jsonrpc": "2.0", "id": "last", "result": {}}
    (other,) = (one for key, one in answered.items() if key != "last")
    assert other.get("error", {}).get("code", 0) == code


HUGE = "a" * 500_000
NUL = "a\0b"
LONE = "\ud800"
HOSTILE: list[tuple[str, dict[str, Any], str]] = [
    *(
        ("search", {"query": value}, "arguments-invalid")
        for value in (HUGE, 5, None, ["a"], {"a": 1}, True)
    ),
    ("search", {}, "arguments-invalid"),
    *(
        ("search", {"query": "a", "top": value}, "arguments-invalid")
        for value in (0, -1, 51, 10**30, 1.5, "3", True)
    ),
    ("search", {"query": "a", "paths": "x"}, "arguments-invalid"),
    ("search", {"query": "a", "paths": [HUGE]}, "arguments-invalid"),
    ("search", {"query": "a", "paths": ["x"] * 21}, "arguments-invalid"),
    ("search", {"query": "a", "mode": "telepathic"}, "arguments-invalid"),
    ("search", {"query": "a", HUGE: 1}, "arguments-invalid"),
    ("search", {"query": "a", "after": "yesterday"}, "date-invalid"),
    *(("search", {"query": value}, "query-empty") for value in ("", " \t", "!!!", "-draft")),
    ("search", {"query": "a", "types": ["pfd"]}, "type-unknown"),
    ("search", {"query": "a", "after": "9999-99-99"}, "date-invalid"),
    ("search", {"query": "a", "project": "../handbook"}, "project-missing"),
    ("search", {"query": "a", "project": NUL}, "project-missing"),
    *(("fetch", {"id": value}, "arguments-invalid") for value in (HUGE, 7, ["x"], {"id": "x"})),
    *(
        ("fetch", {"id": f"handbook:{value}"}, "document-missing")
        for value in ("../../etc/passwd", NUL, "", "%", "'; DROP", LONE)
    ),
    *(
        ("get", {"id": f"{value}:0123456789"}, "project-missing")
        for value in ("/etc", "..", LONE, NUL, "file:///etc")
    ),
    ("fetch", {"id": "/etc/passwd"}, "document-missing"),
    ("fetch", {"id": ""}, "document-missing"),
    *(
        ("get", {"id": "handbook:x", "start": value}, "arguments-invalid")
        for value in (0, -5, 2**63, "1", 1.0)
    ),
    ("get", {"id": "handbook:x", "start": 1, "end": -1}, "arguments-invalid"),
    ("similar", {"id": 'x" title:lease'}, "project-missing"),
    ("similar", {"id": 'handbook:x" title'}, "document-missing"),
    ("similar", {"id": "handbook:x", "top": -1}, "arguments-invalid"),
    ("facets", {"query": HUGE}, "arguments-invalid"),
    ("status", {"project": {"a": 1}}, "arguments-invalid"),
]


def test_hostile_arguments_are_answered_with_a_code_and_without_what_they_hold(
    handbook: Path,
) -> None:
    lines = [
        request("tools/call", n, name=tool, arguments=given)
        for n, (tool, given, _) in enumerate(HOSTILE)
    ]
    answered = {one["id"]: one["result"] for one in answers([handbook], *lines)}
    codes = {}
    for number, result in answered.items():
        text = result["content"][0]["text"]
        assert result["isError"], HOSTILE[number]
        assert "structuredContent" not in result
        assert not re.search("Traceback|etc/passwd|DROP|aaaa", text)
        codes[number] = json.loads(text)["code"]
    assert codes == {number: code for number, (_, _, code) in enumerate(HOSTILE)}


STRANGE = [
    NUL,
    LONE,
    "!!!",
    " ",
    '"',
    "-",
    "like:",
    'like:"../../etc/passwd"',
    "title:" * 160,
    "(" * 1000,
    "*",
]


@pytest.mark.parametrize("query", STRANGE)
def test_strange_queries_find_nothing_wrong(handbook: Path, query: str) -> None:
    found = called(
        handbook,
        "search",
        query=query,
    )
    assert found.get("code") in (None, "query-empty", "document-missing")
    assert "code" in found or len(found["searched"]) == 1


def test_a_fault_of_our_own_is_an_answer_too(
    handbook: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    from engine.assistants.served import ServedProject

    def broken(*_: Any) -> None:
        raise KeyError("sec" + "ret")

    monkeypatch.setattr(ServedProject, "facets", broken)
    assert called(handbook, "facets")["code"] == "internal-fault"
    assert "secret" not in capsys.readouterr().err
