"""`engine doctor --proof`: a page that shows that the program opens no network connection.

Reading, searching and adapting are run on the sample, with sockets refused by the kernel.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from engine.core.assets import asset_path
from engine.core.disk import disk_errors, remembered_sha256, write_text
from engine.core.errors import InputError, StageError, UsageError
from engine.doctor.watched import (
    SocketAttempt,
    WatchedProgram,
    build_unavailable_error,
    run_watched,
)
from engine.encoders.kinds.chosen import encoder_source
from engine.project.folder import ProjectFolder
from engine.settings.schema import EncoderSettings
from engine.version import __version__

QUERY = "who may release a batch without the final test"
SMALL_SETTINGS: dict[str, dict[str, Any]] = {
    "training": {"preset": "quick", "adapter_scope": "both", "steps": 4, "eval_every": 2},
    "queries": {"max_queries": 200},
    "evaluation": {"max_heldout": 30},
}
"""Settings with which adapting the sample takes little time."""
# A program that asks for sockets. If this code is also its argument, a child process runs it, too.
_SOCKET_TEST = """
import socket, subprocess, sys
for family in (socket.AF_INET, socket.AF_INET6):
    try:
        socket.socket(family)
        sys.exit(1)
    except PermissionError:
        pass
if sys.argv[1:]:
    sys.exit(subprocess.run([sys.executable, "-P", "-c", sys.argv[1]]).returncode)
"""
_TESTED_FAMILIES = ["AF_INET", "AF_INET6"] * 2
UNIX = "AF_UNIX"
TAIL = 500
"""Number of characters of a failed command's output that its error shows."""


@dataclass(frozen=True, slots=True)
class ProofStep:
    """A command that was run without sockets, and the sockets that it tried to open."""

    does: str  # What it does, in words.
    command: str  # The command line.
    seconds: float
    sockets: tuple[SocketAttempt, ...]

    @property
    def network(self) -> tuple[SocketAttempt, ...]:
        """The attempts without Unix sockets, which reach only this machine."""
        return tuple(attempt for attempt in self.sockets if attempt.family != UNIX)


@dataclass(frozen=True, slots=True)
class Place:
    """The files of one place that were opened, by absolute path."""

    name: str  # Such as `the model`.
    read: tuple[str, ...]  # Opened for reading.
    written: tuple[str, ...]  # Opened for writing.


@dataclass(frozen=True, slots=True)
class Proof:
    """What the page says."""

    created: str
    version: str
    system: str
    python: str
    packages: tuple[str, ...]
    model: str
    hashes: Mapping[str, str]  # Path → sha256 of the model's files.
    # Sha256 over the program's own files: that of the output of sha256sum, sorted by path.
    code: str
    # The sockets that were asked for on purpose; all were refused and recorded.
    refused: tuple[SocketAttempt, ...]
    steps: tuple[ProofStep, ...]  # The commands that were run.
    places: tuple[Place, ...]  # The files that they opened.

    @property
    def attempts(self) -> tuple[SocketAttempt, ...]:
        """The network sockets that the program asked for."""
        attempts: list[SocketAttempt] = []
        for step in self.steps:
            attempts += step.network
        return tuple(attempts)

    @property
    def local(self) -> int:
        """The number of Unix sockets that the program asked for.

        The C library looks up user names with them, if there is a cache of names.
        """
        return sum(len(step.sockets) - len(step.network) for step in self.steps)


def prove(
    target: Path,
    model: str | None,
    report: Callable[[str], None],
) -> Proof:
    """Run the program on the sample without sockets, and write the page `target` with the results.

    A JSON file is written next to the page. `report` gets the name of each step as it begins.
    Raises UsageError where one of the files exists, InputError where their folder does not,
    ResourceError where the kernel cannot refuse sockets, StageError where a command fails.
    """
    from engine.evaluation.reporting.page import build_environment

    if target.suffix == ".json":
        raise UsageError(
            f"The page cannot have the name {target.name}.",
            "The same figures for programs are written to a file of that name, next to it.",
            "Name it like proof.html.",
        )
    if not target.parent.is_dir():
        raise InputError(
            f"{target.parent} is not a folder.",
            "The page goes into it.",
            "Create it.",
            code="path-missing",
        )
    data = target.with_suffix(".json")
    for path in (target, data):
        if path.exists():
            raise UsageError(
                f"{path} exists.",
                "Nothing was overwritten.",
                "Name another file.",
                code="target-exists",
            )
    source = encoder_source(EncoderSettings(model=model) if model else EncoderSettings())
    weights = source.folder.path if source.folder else None
    report("test of the kernel's refusal")
    refused = _test_refusal()
    with tempfile.TemporaryDirectory(prefix="bmembed-proof-") as folder:
        project = Path(folder, "project")
        corpus = {"paths": [str(asset_path("sample/documents"))]}
        encoder = {"model": model} if model else {}
        ProjectFolder.create(project, {**SMALL_SETTINGS, "corpus": corpus, "encoder": encoder})
        # A run shares the base query encoder with other projects; the proof's stays in its folder.
        environ = {**os.environ, "XDG_DATA_HOME": str(Path(folder, "data"))}
        steps, watched = _run_steps(project, environ, report)
        places = _group_files(
            watched,
            Path(folder),
            weights,
        )
    packages = {f"{package.name} {package.version}" for package in metadata.distributions()}
    proof = Proof(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        version=__version__,
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
        packages=tuple(sorted(packages, key=str.lower)),
        model=source.name,
        hashes=_hash_files(weights) if weights else {},
        code=_hash_code(),
        refused=refused,
        steps=steps,
        places=places,
    )
    with disk_errors(f"The proof could not be written to {target}."):
        write_text(target, build_environment().get_template("proof.html.j2").render(proof=proof))
        write_text(data, json.dumps(asdict(proof), indent=1, ensure_ascii=False))
    return proof


def _run_steps(
    project: Path, environ: Mapping[str, str], report: Callable[[str], None]
) -> tuple[tuple[ProofStep, ...], list[WatchedProgram]]:
    """Run the commands on a project; return each as a step, and what its processes did."""
    steps = []
    watched = []
    for description, arguments in _list_commands(str(project)):
        report(description)
        started = time.monotonic()
        program = _run_or_fail(arguments, environ)
        seconds = round(time.monotonic() - started, 1)
        command = f"engine {' '.join(arguments)}"
        steps.append(ProofStep(description, command, seconds, tuple(program.sockets)))
        watched.append(program)
    return tuple(steps), watched


def _hash_files(folder: Path) -> dict[str, str]:
    """Return the sha256 of each file in a folder, by path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path): remembered_sha256(path) for path in files}


def _list_commands(project: str) -> Sequence[tuple[str, Sequence[str]]]:
    """Return each command of the proof: what it does, in words, and its arguments."""
    return (
        ("read documents and index them", ("run", project)),
        ("search", ("search", project, QUERY)),
        ("adapt the encoder", ("adapt", project)),
        ("search again", ("search", project, QUERY)),
    )


def _test_refusal() -> tuple[SocketAttempt, ...]:
    """Ask for sockets in a process and in its child; every attempt must be refused and recorded."""
    program = run_watched([sys.executable, "-P", "-c", _SOCKET_TEST, _SOCKET_TEST], os.environ)
    families = [attempt.family for attempt in program.sockets]
    if program.exit_code or families != _TESTED_FAMILIES:
        raise build_unavailable_error()
    return tuple(SocketAttempt(family, "on purpose") for family in families)


def _run_or_fail(arguments: Sequence[str], environ: Mapping[str, str]) -> WatchedProgram:
    """Run a command of `engine` without sockets. Raises StageError if it fails."""
    program = run_watched([sys.executable, "-P", "-m", "engine", *arguments], environ)
    if program.exit_code:
        raise StageError(
            f"'{' '.join(arguments)}' failed without sockets.",
            program.output[-TAIL:].strip(),
            "Run it without --proof: if it fails as well, the proof is not the cause.",
            code="proof-failed",
        )
    return program


def _group_files(
    programs: Sequence[WatchedProgram], folder: Path, model: Path | None
) -> tuple[Place, ...]:
    """Return the files that the programs opened, grouped by the first place that contains them.

    `folder`: the proof's temporary folder. `model`: the folder of the encoder.
    """
    checkout = Path(__file__).parents[2]
    system_folders = (
        "/usr",
        "/lib",
        "/lib64",
        "/bin",
        "/sbin",
        "/etc",
        "/proc",
        "/sys",
        "/dev",
    )
    roots = {
        "the sample's documents": [asset_path("sample/documents")],
        "the model": [model] if model else [],
        "the proof's own project": [folder],
        "the program": [checkout / "engine", checkout / "bmembed_tui", asset_path("sample").parent],
        "Python and its packages": list(map(Path, (sys.prefix, sys.base_prefix, sys.exec_prefix))),
        "the system": list(map(Path, system_folders)),
    }
    read = _group_by_place([program.read for program in programs], roots)
    written = _group_by_place([program.written for program in programs], roots)
    names = [name for name in (*roots, "elsewhere") if name in read or name in written]
    return tuple(Place(name, read.get(name, ()), written.get(name, ())) for name in names)


def _group_by_place(
    file_sets: Sequence[set[str]], roots: Mapping[str, Sequence[Path]]
) -> dict[str, tuple[str, ...]]:
    """Return the files of all sets by the name of their place; `roots`: name → folders."""
    groups: dict[str, list[str]] = {}
    for path in sorted(set[str]().union(*file_sets)):
        groups.setdefault(_find_place(path, roots), []).append(path)
    return {name: tuple(paths) for name, paths in groups.items()}


def _find_place(path: str, roots: Mapping[str, Sequence[Path]]) -> str:
    """Return the name of the first place with a folder that contains a file."""
    spellings = (Path(path), Path(path).resolve())  # with and without symbolic links
    for name, folders in roots.items():
        for folder in folders:
            if any(spelling.is_relative_to(folder) for spelling in spellings):
                return name
    return "elsewhere"


def _hash_code() -> str:
    """Return the sha256 over the program's own files (`Proof.code`)."""
    root = Path(__file__).parents[2]
    files = [*(root / "engine").rglob("*.py"), *(root / "bmembed_tui").rglob("*.py")]
    sums = ""
    for path in sorted(files):
        sums += f"{remembered_sha256(path)}  {path.relative_to(root).as_posix()}\n"
    return hashlib.sha256(sums.encode()).hexdigest()
