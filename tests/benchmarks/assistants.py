"""How soon `engine mcp` answers the handshake and a first search by keyword, compared with a server
of the official SDK without any tool.

Least seconds of several rounds, by the clock and of processors, and the ratio of the two servers.
The project is the sample.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 7
QUERY = "who may release a batch without the final test"
BARE = """
import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

async def main():
    async with stdio_server() as (reading, writing):
        server = Server("bare")
        await server.run(reading, writing, server.create_initialization_options())

anyio.run(main)
"""
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
} | {"PYTHONPATH": str(ROOT)}


def engine(*arguments: str) -> None:
    """Run a command of the engine."""
    subprocess.run(
        [sys.executable, "-m", "engine", *arguments],
        env=ENVIRONMENT,
        capture_output=True,
        check=True,
    )


def processors(process: subprocess.Popen[bytes]) -> float:
    """Seconds of processors that a process has had (Linux)."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(
    arguments: list[str], calls: list[tuple[str, dict[str, Any]]]
) -> list[tuple[float, float]]:
    """Seconds from the start to the answer of each call, by the clock and of processors."""
    pipe = subprocess.PIPE
    started = time.perf_counter()
    times = []
    with subprocess.Popen(
        [sys.executable, *arguments], env=ENVIRONMENT, stdin=pipe, stdout=pipe, stderr=pipe
    ) as process:
        assert process.stdin
        assert process.stdout
        for number, (method, params) in enumerate(calls):
            request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            assert "result" in json.loads(process.stdout.readline())
            times.append((time.perf_counter() - started, processors(process)))
        process.stdin.close()
    return times


def least(rounds: list[tuple[float, float]]) -> tuple[float, float]:
    """The least of each column."""
    clock, of_processors = zip(*rounds, strict=True)
    return min(clock), min(of_processors)


def main() -> None:
    """Print the least of several rounds: what other programs add is not asked for."""
    client = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "benchmark", "version": "1"},
    }
    greeting = ("initialize", client)
    search = ("tools/call", {"name": "search", "arguments": {"query": QUERY}})
    with tempfile.TemporaryDirectory() as folder:
        project = str(Path(folder) / "project")
        engine("new", project, str(ROOT / "assets/sample/documents"))
        engine("ingest", project)
        engine("index", project)
        bare = []
        ready = []
        first = []
        for _ in range(ROUNDS):
            bare += measured(["-c", BARE], [greeting])
            one, other = measured(["-m", "engine", "mcp", project], [greeting, search])
            ready.append(one)
            first.append((other[0] - one[0], other[1] - one[1]))
    rows = {
        "SDK, no tools: ready": least(bare),
        "engine mcp: ready": least(ready),
        "first search after that": least(first),
    }
    for name, (clock, of_processors) in rows.items():
        print(f"{name:<24} {clock:5.2f} s, {of_processors:5.2f} s of processors")
    ratio = [
        mine / theirs
        for mine, theirs in zip(
            rows["engine mcp: ready"], rows["SDK, no tools: ready"], strict=True
        )
    ]
    print(
        f"engine mcp : SDK without tools, ready = {ratio[0]:.2f} by the clock, {ratio[1]:.2f} by"
        " processor time"
    )


if __name__ == "__main__":
    main()
