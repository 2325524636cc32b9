"""The folder that `make windows-zip` packs, unpacked and started: `portable.py ZIP`.

Under Wine, or with `--here` on Windows. No variable names a Python or a package: the folder has to
find its own. Only what Wine itself lacks is put into it. Prints the seconds of each step, and ends
with 1 at the first that fails.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from prepare import adapt_packages
from smoke import HERE, TEXTS, name_path
from wine import REPORT_SECONDS, build_environment

SECONDS = 900.0
# Embedding loads torch, whose modules are compiled then. That takes minutes under Wine, where the
# smoke test does the same with the same packages.
STAGES = "ingest,index,embed" if HERE else "ingest,index"


def run_command(folder: Path, name: str, *arguments: str) -> str:
    """Run one of the folder's commands as its double click would, and return its output.

    Raises RuntimeError if it fails.
    """
    environment = dict(os.environ) if HERE else build_environment(SECONDS)
    environment.pop("PYTHONPATH", None)
    start = ["cmd", "/c"] if HERE else ["wine", "cmd", "/c"]
    command = [*start, name_path(folder / name), *arguments]
    done = subprocess.run(
        command,
        env=environment,
        cwd=folder.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=SECONDS + REPORT_SECONDS,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def search(folder: Path, project: str, query: str, mode: str) -> str:
    """Return the file of the first hit."""
    output = run_command(folder, "engine.cmd", "search", project, query, "--mode", mode, "--json")
    return str(json.loads(output)["hits"][0]["path"])


def main(archive_path: Path) -> int:
    """Unpack and start."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("BMEMBED_SMOKE")) as place:
        with zipfile.ZipFile(archive_path) as archive:
            archive.extractall(place)
        folder = Path(place) / "bmembed"
        if not HERE:
            adapt_packages(folder / "packages")
            shutil.copy(Path(__file__).parent / "hook" / "sitecustomize.py", folder / "packages")
        documents = Path(place) / "documents"
        documents.mkdir()
        for name, text in TEXTS.items():
            (documents / name).write_text(text, encoding="utf-8")
        project = name_path(Path(place) / "project")
        named = name_path(documents)
        steps = {
            "engine --version": lambda: run_command(folder, "engine.cmd", "--version"),
            "bmembed --version": lambda: run_command(folder, "bmembed.cmd", "--version"),
            "new": lambda: run_command(folder, "engine.cmd", "new", project, named),
            "run": lambda: run_command(folder, "engine.cmd", "run", project, "--only", STAGES),
            "keywords": lambda: search(folder, project, "ferry", "keywords"),
        }
        if HERE:
            steps["meaning"] = lambda: search(folder, project, "seagulls", "semantic")
        for name, step in steps.items():
            started = time.monotonic()
            try:
                output = step()
            except (RuntimeError, ValueError, LookupError, subprocess.SubprocessError) as error:
                print(f"{name}: FAILED after {time.monotonic() - started:.0f} s\n{error}")
                return 1
            print(f"{name}: {time.monotonic() - started:.0f} s: {output.strip()[:80]}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[-1])))
