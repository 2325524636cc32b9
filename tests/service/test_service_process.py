"""`engine serve --stdio` as the app starts it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fixtures.pipeline import environment

from engine.project.folder import ProjectFolder

pytestmark = pytest.mark.cold  # which libraries a process has loaded is asked here


class Client:
    """One question at a time."""

    def __init__(self, project: Path) -> None:
        command = [
            sys.executable,
            "-m",
            "engine",
            "serve",
            str(project),
            "--stdio",
        ]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        self._key = 0

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._key += 1
        message = {
            "jsonrpc": "2.0",
            "id": self._key,
            "method": method,
            "params": params,
        }
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert answer["id"] == self._key
        return answer

    def result(self, method: str, **params: Any) -> Any:
        answer = self.ask(method, **params)
        assert "error" not in answer, answer
        return answer["result"]

    def libraries(self) -> str:
        return Path(f"/proc/{self.process.pid}/maps").read_text()


@pytest.fixture
def client(project: ProjectFolder) -> Iterator[Client]:
    opened = Client(project.path)
    yield opened
    _, reported = opened.process.communicate(timeout=60)
    assert (opened.process.returncode, "Traceback" in reported) == (0, False)


def test_a_session(client: Client, project: ProjectFolder) -> None:
    status = client.result("status")
    assert [row["state"] for row in status["stages"]] == ["done"] * 4 + ["to do"] * 3
    assert client.result("scan")["files"] == 5
    queries = client.result("queries", limit=2)
    assert len(queries["queries"]) == 2
    assert client.result("what_if", changes={"ranking.k": 7})["stages"][0]["stage"] == "rank"
    assert client.result("change", changes={"search.top": 3})["settings"]["search"]["top"] == 3
    hit = client.result("search", query=queries["queries"][0]["text"], mode="bm25")["hits"][0]
    assert client.result("judge", query="mine", chunk_id=hit["chunk_id"], relevant=True) == {
        "judged_queries": 1
    }
    assert client.result("judgments", query="mine")["chunks"] == {str(hit["chunk_id"]): True}
    first = queries["queries"][0]["id"]
    assert client.result("edit_query", id=first, text="mine own")["text"] == "mine own"
    assert client.result("delete_queries", ids=[first]) == {"deleted": 1}
    assert client.result("skipped")["total"] == 2
    assert {section["name"] for section in client.result("schema")["sections"]} >= {
        "corpus",
        "training",
    }
    if sys.platform == "linux":
        assert "numpy" in client.libraries()
        assert "libtorch" not in client.libraries()
    assert {row["topic"] for row in client.result("doctor")["findings"]} >= {
        "python",
        "device",
        "project",
    }


def test_errors_name_what_to_do(client: Client, project: ProjectFolder) -> None:
    error = client.ask("change", changes={"search.topp": 3})["error"]
    assert (error["code"], error["data"]["type"]) == (-32000, "SettingsError")
    assert "'search.top'" in error["data"]["to_do"]
    assert client.ask("report")["error"]["data"]["type"] == "NotBuiltError"
    assert client.ask("scan", paths="documents")["error"]["code"] == -32602
    assert client.ask("scan", folder="documents")["error"]["code"] == -32602
    with project.locked():
        assert (
            client.ask("edit_query", id=1, text="a")["error"]["data"]["type"] == "ProjectBusyError"
        )
        assert client.result("status")["running"] is True
    (project.path / "project.toml").write_text("[search\n")
    assert client.result("status")["problem"]["type"] == "SettingsError"
    assert client.ask("settings")["error"]["data"]["type"] == "SettingsError"
