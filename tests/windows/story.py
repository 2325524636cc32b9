"""What the README shows beyond `smoke.py`: `story.py` under Wine, `story.py --here` on this system.

Adapts the encoder to twelve documents of the sample in two steps, reports, judges, exports, bundles
and unbundles, answers over MCP and HTTP, keeps up with a new file, and purges. Prints the seconds
of each step, and ends with 1 at the first that fails.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from smoke import HERE, SECONDS, name_path, run_engine
from wine import ROOT, build_command, build_environment

SAMPLE = ROOT / "assets" / "sample" / "documents"
COUNT = 12
PAUSE_SECONDS = 2.0


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run `engine ARGUMENTS` beside the block, and end it after that."""
    command = ["-m", "engine", *arguments]
    child = subprocess.Popen(
        [sys.executable, "-P", *command] if HERE else build_command(command),
        env=None if HERE else build_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield child
    finally:
        child.terminate()
        child.wait(60)


def expect(is_true: object, what: str) -> None:
    """Raise RuntimeError if something is not so."""
    if not is_true:
        raise RuntimeError(what)


def wait_for(
    look: Callable[[], object], what: str, child: subprocess.Popen[bytes] | None = None
) -> None:
    """Wait until `look` returns something true, which a process may have to be running for."""
    end = time.monotonic() + SECONDS
    while not look():
        if child is not None:
            expect(child.poll() is None, f"{what}: the process ended with {child.returncode}")
        expect(time.monotonic() < end, f"{what} did not happen within {SECONDS:.0f} s")
        time.sleep(PAUSE_SECONDS)


def search(project: str, query: str) -> list[str]:
    """Return the files of the hits by keyword."""
    answer = json.loads(run_engine("search", project, query, "--mode", "keywords", "--json"))
    return [hit["path"] for hit in answer["hits"]]


def adapt(project: str) -> None:
    """Adapt in two steps, and look whether an adapter was trained."""
    run_engine(
        "config",
        "set",
        project,
        "training.steps",
        "2",
    )
    run_engine("adapt", project)
    stages = {
        stage["stage"]: stage
        for stage in json.loads(run_engine("status", project, "--json"))["stages"]
    }
    expect(stages["train"]["state"] == "done", f"no adapter was trained: {stages['train']}")
    expect(stages["evaluate"]["state"] == "done", f"not evaluated: {stages['evaluate']}")
    expect(json.loads(run_engine("report", project, "--json")), "the report is empty")


def judge(project: str) -> None:
    """Answer one hit of a query as right."""
    before = json.loads(run_engine("status", project, "--json"))["counts"]["judged_queries"]
    run_engine(
        "judge",
        project,
        "--query",
        "who orders the spare parts",
        text="y\nq\n",
    )
    after = json.loads(run_engine("status", project, "--json"))["counts"]["judged_queries"]
    expect(after == before + 1, f"{before} judged queries before, {after} after")


def export(project: str, place: Path) -> None:
    """Export the adapter, chunks and the encoder as ONNX."""
    run_engine(
        "export",
        project,
        name_path(place),
        "--only",
        "adapter,chunks,onnx",
    )
    names = {path.name for path in place.rglob("*")}
    expect("adapter_model.safetensors" in names, f"no adapter among {sorted(names)}")
    expect("model.onnx" in names, f"no ONNX model among {sorted(names)}")


def move(
    project: str,
    place: Path,
    query: str,
) -> None:
    """Bundle the project, check the file, and search in what is unpacked from it."""
    bundle = name_path(place / "moved.bundle")
    run_engine("bundle", project, bundle)
    run_engine("verify", bundle)
    moved = name_path(place / "moved")
    run_engine("unbundle", bundle, moved)
    expect(search(moved, query) == search(project, query), "the moved project finds other files")


def ask_as_assistant(project: str) -> None:
    """Ask `engine mcp` for its tools and for a search."""
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "story", "version": "1"},
    }
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    answers = [json.loads(line) for line in run_engine("mcp", project, text=text).splitlines()]
    tools = next(answer for answer in answers if answer.get("id") == 2)["result"]["tools"]
    expect("search" in {tool["name"] for tool in tools}, f"no tool 'search' among {tools}")


def ask_over_http(project: str, query: str) -> None:
    """Ask `engine serve --http` for a search."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = run_engine("serve", "--show-token").strip()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/search",
        json.dumps({"query": query, "mode": "keywords"}).encode(),
        {"Authorization": f"Bearer {token}"},
    )

    def is_answered() -> bool:
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return bool(json.load(answer)["hits"])
        except (ConnectionError, urllib.error.URLError):
            return False

    with started("serve", project, "--http", f"127.0.0.1:{port}") as child:
        wait_for(is_answered, "an answer over HTTP", child)


def keep_up(project: str, documents: Path) -> None:
    """Let `engine watch` find a file that is written while it runs."""
    with started("watch", project) as child:
        time.sleep(PAUSE_SECONDS)
        (documents / "zebra.txt").write_text("The zebra eats oats in the stable.")
        wait_for(
            lambda: "zebra.txt" in search(project, "zebra oats"),
            "finding a new file",
            child,
        )
    # A stage notices within seconds that the process that started it was killed.
    wait_for(
        lambda: not json.loads(run_engine("status", project, "--json"))["running"],
        "the end of the stage",
    )


def main() -> int:
    """Run every step."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("BMEMBED_SMOKE")) as name:
        folder = Path(name)
        documents = folder / "documents"
        documents.mkdir()
        for path in sorted(SAMPLE.rglob("*.md"))[:COUNT]:
            shutil.copy(path, documents)
        project = name_path(folder / "project")
        query = "spare parts"
        steps: dict[str, Callable[[], object]] = {
            "new": lambda: run_engine("new", project, name_path(documents)),
            "adapt and report": lambda: adapt(project),
            "judge": lambda: judge(project),
            "export": lambda: export(project, folder / "export"),
            "bundle, verify, unbundle": lambda: move(project, folder, query),
            "mcp": lambda: ask_as_assistant(project),
            "serve --http": lambda: ask_over_http(project, query),
            "watch": lambda: keep_up(project, documents),
            "purge": lambda: run_engine("purge", project, "--yes"),
        }
        for title, step in steps.items():
            begun = time.monotonic()
            try:
                step()
            except (RuntimeError, ValueError, LookupError) as error:
                print(f"{title}: FAILED after {time.monotonic() - begun:.0f} s\n{error}")
                return 1
            print(f"{title}: {time.monotonic() - begun:.0f} s", flush=True)
        expect(not (folder / "project").exists(), "the purged project is still there")
    return 0


if __name__ == "__main__":
    sys.exit(main())
