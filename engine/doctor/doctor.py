"""What this machine and installation can do, and what follows from it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import stat
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from engine.core.disk import is_shared
from engine.core.errors import EngineError, UsageError
from engine.core.messages.project import Finding
from engine.doctor.findings import file_size, gpu, needs, reranker, vector_index
from engine.doctor.installed import extra, packages, shipped
from engine.encoders.kinds.chosen import is_gguf
from engine.project.folder import OWN_FOLDERS, ProjectFolder, known_projects, projects_root
from engine.queries.choosing import resolve_backend
from engine.settings.schema import EncoderSettings, Settings

PACKAGES = (
    "torch",
    "transformers",
    "sentence-transformers",
    "peft",
    "tantivy",
    "usearch",
    "textual",
    "semantic-text-splitter",
    "platformdirs",
    "matplotlib",
)
MIN_FREE_GB = 2.0
MIN_MEMORY_GB = 3.0
OPEN_SHOWN = 10
EXTRA_USES = {
    "desktop": "desktop windows",
    "parquet": "exports as Parquet",
    "qdrant": "exports for Qdrant",
    "lancedb": "exports for LanceDB",
    "age": "bundles with a password",
    "gguf": "exports as GGUF",
    "ray": "runs on a Ray cluster",
}


def examine(
    project: ProjectFolder | None = None, model: str | None = None, *, offline: bool = False
) -> list[Finding]:
    """Look at device, precision, GPU, memory, disk, model files, permissions and versions.

    Raises nothing. `offline`: instead, at all that must be installed for a machine without a
    network.

    With a project, its own device, precision, model, disk, permissions and database are looked at,
    and what its next run needs is estimated. `model`: instead of its; or a file of vectors beside
    it.
    """
    settings = _settings(project)
    encoder = settings.encoder
    if model and model.endswith((".npy", ".safetensors")):
        chosen = encoder.model_copy(update={"vectors": model})
    else:
        if model:
            chosen = encoder.model_copy(update={"model": model, "endpoint": "", "vectors": ""})
        else:
            chosen = encoder
    checks: dict[str, Callable[[], list[Finding]]] = {
        "python": _python,
        "llm": lambda: _llm(settings, chosen),
        "device": lambda: _hardware(encoder.device, encoder.dtype),
        "gpu": gpu,
        "memory": _memory,
        "disk": lambda: _disk(project),
        "ocr": lambda: _ocr(settings),
        "documents": lambda: _documents(project, settings) if project else [],
        "model": lambda: _model(chosen),
        "languages": lambda: _languages(project, chosen) if project else [],
        "needs": lambda: (
            needs(project, settings, chosen.model)
            if (project or model) and not chosen.endpoint
            else []
        ),
        "reranker": lambda: reranker(project, settings) if project else [],
        "permissions": lambda: _permissions(project),
        "network": _offline,
        "versions": _versions,
        "project": lambda: _project(project) if project else [],
        "vectors": lambda: vector_index(project) if project else [],
    }
    if offline:
        wanted = ("python", "packages", "files", "model", "llm", "ocr", *EXTRA_USES, "network")
        checks |= {"packages": packages, "files": shipped}
        checks |= {name: partial(extra, name, use) for name, use in EXTRA_USES.items()}
        checks = {topic: checks[topic] for topic in wanted}
    return [finding for topic, check in checks.items() for finding in _found(topic, check)]


def _found(topic: str, check: Callable[[], list[Finding]]) -> list[Finding]:
    try:
        return check()
    except EngineError as error:
        return [Finding(topic, "problem", error.what.rstrip("."), f"{error.why} {error.to_do}")]


def _settings(project: ProjectFolder | None) -> Settings:
    """The project's; the defaults without one, and where project.toml is wrong, which `_project`
    reports.
    """
    try:
        if project:
            return project.settings()
        return Settings()
    except EngineError:
        return Settings()


def _python() -> list[Finding]:
    text = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    good = sys.version_info >= (3, 11)
    if good:
        follows = "supported"
    else:
        follows = "Python 3.11 or later is needed"
    return [Finding("python", "good" if good else "problem", text, follows)]


def _hardware(device: str, dtype: str) -> list[Finding]:
    from engine.encoders.hardware import choose_hardware

    hardware = choose_hardware(device, dtype, purpose="train")
    return [
        Finding(choice.setting, "good", choice.value, choice.reason) for choice in hardware.choices
    ]


def _memory() -> list[Finding]:
    import psutil

    memory = psutil.virtual_memory()
    free = memory.available / 1e9
    found = f"{free:.1f} GB of {memory.total / 1e9:.1f} GB free"
    if free >= MIN_MEMORY_GB:
        return [Finding("memory", "good", found, "enough for every stage with the bundled model")]
    return [Finding("memory", "problem", found, "lower queries_per_step, or close programs")]


def _disk(project: ProjectFolder | None) -> list[Finding]:
    """What is free. Whether it suffices for a project's next run is reported by `needs`."""
    if project:
        root = project.path
    else:
        root = projects_root()
    place = next(folder for folder in (root, *root.parents) if folder.exists())
    free = shutil.disk_usage(place).free / 1e9
    found = f"{free:.1f} GB free at {place}"
    if free >= MIN_FREE_GB:
        if not project:
            return [
                Finding("disk", "good", found, "'engine doctor PROJECT' says how much a run needs")
            ]
        return []
    return [
        Finding(
            "disk",
            "problem",
            found,
            f"less than {MIN_FREE_GB:.0f} GB: free some space before a run",
        )
    ]


def _llm(settings: Settings, encoder: EncoderSettings) -> list[Finding]:
    gguf = is_gguf(encoder.model) and not encoder.endpoint
    return extra("llm", "GGUF models", needed=gguf or resolve_backend(settings).backend == "gguf")


def _ocr(settings: Settings) -> list[Finding]:
    """Whether scans can be read, and whether they are."""
    from engine.corpus.sandbox.tesseract import find_tesseract

    corpus = settings.corpus
    found = find_tesseract(corpus.ocr_languages)
    if found is None:
        todo = "to read scans and pictures, install tesseract from your system's packages"
        todo += "" if corpus.ocr else " and set corpus.ocr = true"
        return [
            Finding(
                "ocr", "problem" if corpus.ocr else "absent", "tesseract is not installed", todo
            )
        ]
    off = "OCR is off: set corpus.ocr = true to read scans and pictures with it"
    if corpus.ocr:
        follows = "scanned pages and pictures are read"
    else:
        follows = off
    return [
        Finding(
            "ocr",
            "good",
            f"{found.version} at {found.program}, languages {found.languages}",
            follows,
        )
    ]


def _documents(project: ProjectFolder, settings: Settings) -> list[Finding]:
    """Folders of documents that are not there, such as on a disk that is not mounted."""
    return [
        Finding(
            "documents",
            "problem",
            f"{path} is missing",
            "what was read of it stays searchable; connect its disk",
        )
        for path in project.sources(settings)
        if not path.exists()
    ]


def _model(chosen: EncoderSettings) -> list[Finding]:
    from engine.encoders.kinds.chosen import encoder_source
    from engine.encoders.kinds.given_vectors import read_vectors

    source = encoder_source(chosen)
    if chosen.vectors:
        given = read_vectors(chosen.vectors).rows.shape
    else:
        given = None
    if source.server:
        where = f"at {source.server}, which gets the text of chunks and queries"
    else:
        where = "on this machine"
    if given:
        found = f"{source.name} with {given[0]} vectors of {given[1]} dimensions, {where}"
        follows = (
            "a map makes those of queries, and of chunks without a given one; the model that made"
            " these is not trained"
        )
        return [Finding("model", "good", found, follows)]
    if chosen.small_model:
        trained = (
            f"an adapter is trained and exported of {Path(chosen.small_model).name} alone, whose"
            " vectors join its own"
        )
        return [Finding("model", "good", f"{source.name}, the first {where}", trained)]
    if (folder := source.folder) is None:
        return [
            Finding(
                "model",
                "good",
                f"{source.name}, {where}",
                "no adapter can be trained for it or exported",
            )
        ]
    found = (
        f"{folder.name}, {folder.dimension} dimensions, at most {folder.max_tokens} tokens, in"
        f" {folder.path}"
    )
    return [Finding("model", "good", found, "complete; no network is needed")]


def _languages(project: ProjectFolder, chosen: EncoderSettings) -> list[Finding]:
    from engine.encoders.choosing.languages import language_finding
    from engine.encoders.kinds.chosen import encoder_source

    # which `_model` and `_project` report
    with (
        suppress(EngineError),
        closing(project.store()) as store,
    ):
        if found := language_finding(store, encoder_source(chosen)):
            return [found]
        return []
    return []


def _permissions(project: ProjectFolder | None) -> list[Finding]:
    """Whether only the user can open a project's folder and what the engine keeps there; without
    one, all projects, and what the app keeps about its user: the list of recent ones, records of
    faults.
    """
    from platformdirs import user_state_path

    if project:
        folder = project.path
        own = (project.path / name for name in OWN_FOLDERS)
        files = (path for path in folder.iterdir() if path.is_file())
        paths = [folder, *files, *(path for part in own for path in (part, *part.rglob("*")))]
        found = f"the project's files in {folder}"
        to_do = f"run 'engine share {project.argument} --off'"
    else:
        state = user_state_path("bmembed", appauthor=False)
        paths = [*known_projects(), *([state, *sorted(state.iterdir())] if state.is_dir() else [])]
        projects = len(known_projects())
        found = f"{projects} project{'' if projects == 1 else 's'} in {projects_root()}"
        to_do = "run chmod go= on them"
    shared = project is not None and is_shared(project.path)
    if open_ones := [path for path in paths if _others_may(path, 0o027 if shared else 0o077)]:
        names = ", ".join(map(str, open_ones[:OPEN_SHOWN]))
        if len(open_ones) > OPEN_SHOWN:
            more = f" and {len(open_ones) - OPEN_SHOWN} more"
        else:
            more = ""
        return [Finding("permissions", "problem", f"others can read {names}{more}", to_do)]
    return [
        Finding(
            "permissions",
            "good",
            found,
            f"only you{' and its group' if shared else ''} can read them",
        )
    ]


def _others_may(path: Path, rights: int) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False  # a run has just removed it
    return not stat.S_ISLNK(found.st_mode) and bool(stat.S_IMODE(found.st_mode) & rights)


def _offline() -> list[Finding]:
    on = os.environ.get("HF_HUB_OFFLINE") == "1"
    return [
        Finding(
            "network",
            "good" if on else "problem",
            "offline switches are set" if on else "offline switches are missing",
            _describe_fetching() if on else "start the program by its own command",
        )
    ]


def _describe_fetching() -> str:
    """Say whether models may be fetched here, which nothing else does."""
    from engine.models.policy import check_fetching_allowed

    try:
        check_fetching_allowed("")
    except UsageError as error:
        return f"no library looks anything up, and no model may be fetched: {error.why}"
    return "no library looks anything up; models are fetched only by 'engine models get'"


def _versions() -> list[Finding]:
    installed = []
    findings = []
    for name in PACKAGES:
        try:
            installed.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            findings.append(
                Finding("versions", "problem", f"{name} is missing", "install bmembed-tui again")
            )
    return [Finding("versions", "good", ", ".join(installed), "all there"), *findings]


def _project(project: ProjectFolder) -> list[Finding]:
    """One project's settings, its database, and its size."""
    project.settings()
    with closing(project.store(check=True)) as store:
        counts = store.counts()
    size = sum(map(file_size, project.path.rglob("*"))) / 1e6
    found = (
        f"{counts['chunks']:,} chunks, {counts['queries']:,} queries, {size:,.0f} MB in"
        f" {project.path}"
    )
    return [Finding("project", "good", found, "the database is sound")]
