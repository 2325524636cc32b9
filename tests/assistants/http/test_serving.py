"""`engine serve --http` as a process."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fixtures.errors import error_of
from fixtures.pipeline import ROOT, engine_here, environment

from engine.assistants.http.token import token_file


@pytest.mark.posix(reason="Windows has no signals to one process")
def test_it_serves_until_it_is_stopped_and_never_prints_its_token(handbook: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "engine", "serve", "--http", "127.0.0.1:0", str(handbook)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=ROOT,
    )
    try:
        assert server.stderr
        first = server.stderr.readline()
        port = re.search(r"http://127\.0\.0\.1:(\d+)", first)
        assert port
        token = engine_here("serve", "--show-token").stdout.strip()
        assert token == token_file().read_text().strip()
        client = http.client.HTTPConnection(
            "127.0.0.1",
            int(port[1]),
            timeout=120,
        )
        body = json.dumps({"query": "roof", "mode": "bm25"})
        headers = {"Authorization": f"Bearer {token}"}
        client.request(
            "POST",
            "/search",
            body,
            headers,
        )
        hits = json.loads(client.getresponse().read())["hits"]
        assert {hit["path"] for hit in hits} == {"contracts/lease.md", "reports/wing #1.txt"}
        server.send_signal(signal.SIGTERM)
        printed, rest = server.communicate(timeout=60)
    finally:
        server.kill()
    assert server.returncode == 0
    assert printed == ""
    assert token not in first + rest


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--http", "0.0.0.0:0"], "address-not-loopback"),
        (["--http", "here"], "address-invalid"),
        (["--http", "127.0.0.1:0", "--stdio"], "stdio-required"),
        ([], "stdio-required"),
        (["--http", "127.0.0.1:0", "nowhere"], "project-missing"),
        (["--stdio", "a", "b"], "stdio-required"),
    ],
)
def test_what_cannot_be_served(arguments: list[str], code: str) -> None:
    found, error = error_of("serve", *arguments)
    assert (found, error["code"]) == (2, code)
