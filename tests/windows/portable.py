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
from story import COUNT, SAMPLE
from wine import REPORT_SECONDS, ROOT, build_environment

SECONDS = 1800.0  # the modules of torch are compiled first, which takes minutes under Wine
BUILD_MODEL = """
import sys
from pathlib import Path
from fixtures.tiny_gguf import build_tiny_gguf
build_tiny_gguf(Path(sys.argv[1]), context=512)
build_tiny_gguf(Path(sys.argv[2]), template=None, context=512, llama__pooling_type=1)
"""


def run_command(
    folder: Path,
    name: str,
    *arguments: str,
) -> str:
    """Run one of the folder's commands as its double click would, and return its output.

    Raises RuntimeError if it fails.
    """
    environment = dict(os.environ) if HERE else build_environment(SECONDS)
    environment.pop("PYTHONPATH", None)
    start = ["cmd", "/c"] if HERE else ["wine", "cmd", "/c"]
    command = [
        *start,
        name_path(folder / name),
        *arguments,
    ]
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


def search(
    folder: Path,
    project: str,
    query: str,
    mode: str,
) -> str:
    """Return the file of the first hit."""
    output = run_command(
        folder,
        "engine.cmd",
        "search",
        project,
        query,
        "--mode",
        mode,
        "--json",
    )
    return str(json.loads(output)["hits"][0]["path"])


def adapt(folder: Path, project: str) -> str:
    """Adapt the encoder in two steps, and return the states of the stages that does."""
    run_command(
        folder,
        "engine.cmd",
        "config",
        "set",
        project,
        "training.steps",
        "2",
    )
    run_command(folder, "engine.cmd", "adapt", project)
    status = json.loads(run_command(folder, "engine.cmd", "status", project, "--json"))
    states = {stage["stage"]: stage["state"] for stage in status["stages"]}
    if states["train"] != "done" or states["evaluate"] != "done":
        raise RuntimeError(f"the encoder was not adapted: {states}")
    return f"train {states['train']}, evaluate {states['evaluate']}"


def embed_by_gguf(
    folder: Path,
    place: Path,
    documents: str,
) -> str:
    """Search by an embedding model in a GGUF file, and add a language model in one.

    Both have random weights. Return the file of the first hit.
    """
    models = [place / "writer.gguf", place / "encoder.gguf"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    command = [
        sys.executable,
        "-c",
        BUILD_MODEL,
        *map(str, models),
    ]
    subprocess.run(
        command,
        env=environment,
        check=True,
    )
    writer, encoder = map(name_path, models)
    run_command(
        folder,
        "engine.cmd",
        "models",
        "add",
        writer,
    )
    project = name_path(place / "gguf")
    run_command(
        folder,
        "engine.cmd",
        "new",
        project,
        documents,
        "--model",
        encoder,
    )
    run_command(folder, "engine.cmd", "run", project)
    return search(folder, project, "seagulls", "semantic")


def main(archive_path: Path) -> int:
    """Unpack and start."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("BMEMBED_SMOKE")) as directory:
        place = Path(directory)
        with zipfile.ZipFile(archive_path) as archive:
            archive.extractall(place)
        folder = place / "bmembed"
        if not HERE:
            adapt_packages(folder / "packages")
            shutil.copy(Path(__file__).parent / "hook" / "sitecustomize.py", folder / "packages")
        documents = place / "documents"
        documents.mkdir()
        for name, text in TEXTS.items():
            (documents / name).write_text(text, encoding="utf-8")
        for path in sorted(SAMPLE.rglob("*.md"))[:COUNT]:
            shutil.copy(path, documents)
        project = name_path(place / "project")
        named = name_path(documents)
        steps = {
            "engine --version": lambda: run_command(folder, "engine.cmd", "--version"),
            "bmembed --version": lambda: run_command(folder, "bmembed.cmd", "--version"),
            "new": lambda: run_command(folder, "engine.cmd", "new", project, named),
            "run": lambda: run_command(folder, "engine.cmd", "run", project),
            "keywords": lambda: search(folder, project, "ferry", "keywords"),
            "meaning": lambda: search(folder, project, "seagulls", "semantic"),
            "hybrid": lambda: search(folder, project, "seagulls", "hybrid"),
            "adapt": lambda: adapt(folder, project),
        }
        if (folder / "packages" / "llama_cpp").is_dir():
            steps["GGUF models"] = lambda: embed_by_gguf(folder, place, named)
        for title, step in steps.items():
            started = time.monotonic()
            try:
                output = step()
            except (RuntimeError, ValueError, LookupError, subprocess.SubprocessError) as error:
                print(f"{title}: FAILED after {time.monotonic() - started:.0f} s\n{error}")
                return 1
            print(f"{title}: {time.monotonic() - started:.0f} s: {output.strip()[:80]}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[-1])))
