"""How soon `engine mcp` is ready and finds by keyword, against an SDK's server without tools.

Prints the fewest seconds of several rounds, by the clock and of processors, and the ratio of the
two servers. The project is the sample.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

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
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
ENVIRONMENT.pop("PYTHONDONTWRITEBYTECODE", None)


class Seconds(NamedTuple):
    """Seconds by the clock, and of processors."""

    clock: float
    processors: float


def engine(*arguments: str) -> None:
    """Run a command of the engine. Raises CalledProcessError."""
    subprocess.run(
        [sys.executable, "-m", "engine", *arguments],
        env=ENVIRONMENT,
        capture_output=True,
        check=True,
    )


def read_processor_seconds(process: subprocess.Popen[bytes]) -> float:
    """Return the seconds of processors that a process has had (Linux)."""
    # What follows the process's name. The fields are numbered from 3 there: 14 is utime, 15 stime.
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(arguments: list[str], calls: list[tuple[str, dict[str, Any]]]) -> list[Seconds]:
    """Return the seconds from the start of a server to the answer of each call.

    `arguments`: of Python. `calls`: method and parameters.
    """
    pipe = subprocess.PIPE
    started = time.perf_counter()
    times = []
    with subprocess.Popen(
        [sys.executable, *arguments], env=ENVIRONMENT, stdin=pipe, stdout=pipe, stderr=pipe
    ) as process:
        assert process.stdin
        assert process.stdout
        for number, (method, params) in enumerate(calls):
            request = {
                "jsonrpc": "2.0",
                "id": number,
                "method": method,
                "params": params,
            }
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            assert "result" in json.loads(process.stdout.readline())
            seconds = time.perf_counter() - started
            times.append(Seconds(seconds, read_processor_seconds(process)))
        process.stdin.close()
    return times


def find_least(rounds: list[Seconds]) -> Seconds:
    """Return the fewest seconds by the clock, and the fewest of processors."""
    return Seconds(
        min(seconds.clock for seconds in rounds), min(seconds.processors for seconds in rounds)
    )


def main() -> None:
    """Print the fewest seconds of several rounds, to leave out what other programs add."""
    client = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "benchmark", "version": "1"},
    }
    greeting = ("initialize", client)
    search = ("tools/call", {"name": "search", "arguments": {"query": QUERY}})
    with tempfile.TemporaryDirectory() as folder:
        project = str(Path(folder) / "project")
        engine(
            "new",
            project,
            str(ROOT / "assets/sample/documents"),
        )
        engine("ingest", project)
        engine("index", project)
        bare = []
        ready = []
        first = []
        for _ in range(ROUNDS):
            bare += measure(["-c", BARE], [greeting])
            greeted, found = measure(["-m", "engine", "mcp", project], [greeting, search])
            ready.append(greeted)
            first.append(
                Seconds(found.clock - greeted.clock, found.processors - greeted.processors)
            )
    sdk = find_least(bare)
    ours = find_least(ready)
    rows = {
        "SDK, no tools: ready": sdk,
        "engine mcp: ready": ours,
        "first search after that": find_least(first),
    }
    for name, seconds in rows.items():
        print(f"{name:<24} {seconds.clock:5.2f} s, {seconds.processors:5.2f} s of processors")
    print(
        f"engine mcp : SDK without tools, ready = {ours.clock / sdk.clock:.2f} by the clock,"
        f" {ours.processors / sdk.processors:.2f} by processor time"
    )


if __name__ == "__main__":
    main()
