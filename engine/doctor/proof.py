"""`engine doctor --proof`: a page that shows that reading, searching and adapting open no
connection on this machine.
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
from engine.core.errors import StageError, UsageError
from engine.doctor.watched import SocketAttempt, Watched, run_watched, unavailable
from engine.encoders.kinds.chosen import encoder_source
from engine.project.folder import ProjectFolder
from engine.settings.schema import EncoderSettings
from engine.version import __version__

QUERY = "who may release a batch without the final test"
SMALL: dict[str, dict[str, Any]] = {
    "training": {"preset": "quick", "adapter_scope": "both", "steps": 4, "eval_every": 2},
    "queries": {"max_queries": 200},
    "evaluation": {"max_heldout": 30},
}
_TRIES = """
import socket, subprocess, sys
for family in (socket.AF_INET, socket.AF_INET6):
    try:
        socket.socket(family)
        sys.exit(1)
    except PermissionError:
        pass
if sys.argv[1:]:
    sys.exit(subprocess.run([sys.executable, "-c", sys.argv[1]]).returncode)
"""
_TRIED = ["AF_INET", "AF_INET6"] * 2
UNIX = "AF_UNIX"
TAIL = 500  # characters of a failed command's output


@dataclass(frozen=True, slots=True)
class ProofStep:
    """A command that was run without sockets, and what it tried nonetheless."""

    does: str
    command: str
    seconds: float
    sockets: tuple[SocketAttempt, ...]

    @property
    def network(self) -> tuple[SocketAttempt, ...]:
        """Without those of Unix, which reach this machine alone."""
        return tuple(one for one in self.sockets if one.family != UNIX)


@dataclass(frozen=True, slots=True)
class Place:
    """Files of one place that were opened; `written`, those for writing."""

    name: str
    read: tuple[str, ...]
    written: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Proof:
    """What the page says.

    `hashes`: sha256 of the model's files by path; `code`: of the program's own files, all together,
    in the form of sha256sum sorted by path. `refused`: sockets asked for on purpose, all of them
    refused and seen.
    """

    created: str
    version: str
    system: str
    python: str
    packages: tuple[str, ...]
    model: str
    hashes: Mapping[str, str]
    code: str
    refused: tuple[SocketAttempt, ...]
    steps: tuple[ProofStep, ...]
    places: tuple[Place, ...]

    @property
    def attempts(self) -> tuple[SocketAttempt, ...]:
        """Network sockets that the program asked for."""
        return tuple(one for step in self.steps for one in step.network)

    @property
    def local(self) -> int:
        """Unix sockets that it asked for: the C library looks up user names with them, if there
        is a cache of names.
        """
        return sum(len(step.sockets) - len(step.network) for step in self.steps)


def prove(target: Path, model: str | None, report: Callable[[str], None]) -> Proof:
    """Read, search and adapt the sample with sockets refused by the kernel, and write the page
    `target` and a JSON file beside it.

    `report` gets the name of each step as it begins. Raises UsageError where a file is there
    already, ResourceError where the kernel cannot refuse sockets, StageError where a command fails.
    """
    from engine.evaluation.reporting.page import pages

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
    refused = _refusal()
    with tempfile.TemporaryDirectory(prefix="bmembed-proof-") as folder:
        project = Path(folder, "project")
        corpus = {"paths": [str(asset_path("sample/documents"))]}
        encoder = {"model": model} if model else {}
        ProjectFolder.create(project, {**SMALL, "corpus": corpus, "encoder": encoder})
        # What a run keeps for other projects, the base query encoder, goes with the proof's own.
        environ = {**os.environ, "XDG_DATA_HOME": str(Path(folder, "data"))}
        steps = []
        watched = []
        for does, words in _commands(str(project)):
            report(does)
            began = time.monotonic()
            watched.append(_run([sys.executable, "-P", "-m", "engine", *words], environ))
            seconds = round(time.monotonic() - began, 1)
            steps.append(
                ProofStep(does, f"engine {' '.join(words)}", seconds, tuple(watched[-1].sockets))
            )
        places = _places(watched, Path(folder), weights)
    if weights:
        files = sorted(path for path in weights.rglob("*") if path.is_file())
    else:
        files = []
    proof = Proof(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        version=__version__,
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
        packages=tuple(
            sorted({f"{one.name} {one.version}" for one in metadata.distributions()}, key=str.lower)
        ),
        model=source.name,
        hashes={str(path): remembered_sha256(path) for path in files},
        code=_code_hash(),
        refused=refused,
        steps=tuple(steps),
        places=places,
    )
    with disk_errors(f"The proof could not be written to {target}."):
        write_text(target, pages().get_template("proof.html.j2").render(proof=proof))
        write_text(data, json.dumps(asdict(proof), indent=1, ensure_ascii=False))
    return proof


def _commands(project: str) -> Sequence[tuple[str, Sequence[str]]]:
    return (
        ("read documents and index them", ("run", project)),
        ("search", ("search", project, QUERY)),
        ("adapt the encoder", ("adapt", project)),
        ("search again", ("search", project, QUERY)),
    )


def _refusal() -> tuple[SocketAttempt, ...]:
    """Ask for sockets in a process and in its child: every one must be refused, and seen."""
    found = run_watched([sys.executable, "-c", _TRIES, _TRIES], os.environ)
    if found.exit_code or [one.family for one in found.sockets] != _TRIED:
        raise unavailable()
    return tuple(SocketAttempt(one.family, "on purpose") for one in found.sockets)


def _run(command: Sequence[str], environ: Mapping[str, str]) -> Watched:
    found = run_watched(command, environ)
    if found.exit_code:
        raise StageError(
            f"'{' '.join(command[4:])}' failed without sockets.",
            found.output[-TAIL:].strip(),
            "Run it without --proof: if it fails as well, the proof is not the cause.",
            code="proof-failed",
        )
    return found


def _places(watched: Sequence[Watched], folder: Path, model: Path | None) -> tuple[Place, ...]:
    """The files that were opened, each under the first place that holds it."""
    program = Path(__file__).parents[2]
    roots = {
        "the sample's documents": [asset_path("sample/documents")],
        "the model": [model] if model else [],
        "the proof's own project": [folder],
        "the program": [program / "engine", program / "bmembed_tui", asset_path("sample").parent],
        "Python and its packages": [
            Path(one) for one in (sys.prefix, sys.base_prefix, sys.exec_prefix)
        ],
        "the system": [
            Path(one)
            for one in ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc", "/proc", "/sys", "/dev")
        ],
    }
    read, written = (
        {path: _place(path, roots) for path in sorted(set().union(*found))}
        for found in ([one.read for one in watched], [one.written for one in watched])
    )
    names = [*roots, "elsewhere"]
    found = (
        Place(name, *(tuple(p for p, at in kind.items() if at == name) for kind in (read, written)))
        for name in names
    )
    return tuple(place for place in found if place.read or place.written)


def _place(path: str, roots: Mapping[str, Sequence[Path]]) -> str:
    spellings = (Path(path), Path(path).resolve())
    return next(
        (
            n
            for n, own in roots.items()
            if any(one.is_relative_to(root) for one in spellings for root in own)
        ),
        "elsewhere",
    )


def _code_hash() -> str:
    root = Path(__file__).parents[2]
    files = sorted(
        path for name in ("engine", "bmembed_tui") for path in (root / name).rglob("*.py")
    )
    lines = (f"{remembered_sha256(path)}  {path.relative_to(root).as_posix()}\n" for path in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()
