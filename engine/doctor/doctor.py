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

from engine.core.disk import get_file_size, is_shared, path_exists
from engine.core.errors import EngineError, UsageError, reason_of
from engine.core.messages.project import Finding
from engine.core.platforms.users import has_access_lists, is_in_profile
from engine.doctor.findings import (
    estimate_needs,
    examine_gpu,
    examine_reranker,
    examine_vector_index,
)
from engine.doctor.installed import examine_extra, examine_files, examine_packages
from engine.doctor.place import examine_place
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
"""Free disk space below which a run may fail."""
MIN_MEMORY_GB = 3.0
"""Free memory that every stage with the bundled model needs."""
MAX_PATHS_SHOWN = 10
EXTRA_USES = {
    "desktop": "desktop windows",
    "parquet": "exports as Parquet",
    "qdrant": "exports for Qdrant",
    "lancedb": "exports for LanceDB",
    "age": "bundles with a password",
    "gguf": "exports as GGUF",
    "ray": "runs on a Ray cluster",
}
"""Extra → what needs it."""


def examine(
    project: ProjectFolder | None = None, model: str | None = None, *, offline: bool = False
) -> list[Finding]:
    """Examine device, precision, GPU, memory, disk, model files, permissions and versions.

    With a project, its device, precision, model, disk, permissions and database are examined, and
    the needs of its next run are estimated. `model`: a model to examine instead of the project's,
    or a file of vectors to use with it. `offline`: instead, examine all that must be installed on
    a machine without a network. Never raises.
    """
    settings = _read_settings(project)
    encoder = settings.encoder
    if model:
        encoder = encoder.model_copy(update={"model": model, "endpoint": ""})
    has_needs = not encoder.endpoint and bool(project or model)
    checks: dict[str, Callable[[], list[Finding]]] = {
        "python": _examine_python,
        "llm": lambda: _examine_llm(settings, encoder),
        "device": lambda: _examine_hardware(settings.encoder.device, settings.encoder.dtype),
        "gpu": examine_gpu,
        "memory": _examine_memory,
        "disk": lambda: _examine_disk(project),
        "place": lambda: examine_place(project) if project else [],
        "ocr": lambda: _examine_ocr(settings),
        "reading": _examine_reading,
        "documents": lambda: _examine_documents(project, settings) if project else [],
        "model": lambda: _examine_model(encoder),
        "languages": lambda: _examine_languages(project, encoder) if project else [],
        "needs": lambda: estimate_needs(project, settings, encoder.model) if has_needs else [],
        "reranker": lambda: examine_reranker(project, settings) if project else [],
        "permissions": lambda: _examine_permissions(project),
        "network": _examine_network,
        "versions": _examine_versions,
        "project": lambda: _examine_project(project) if project else [],
        "vectors": lambda: examine_vector_index(project) if project else [],
    }
    if offline:
        offline_topics = (
            "python",
            "packages",
            "files",
            "model",
            "llm",
            "ocr",
            "reading",
            *EXTRA_USES,
            "network",
        )
        checks |= {"packages": examine_packages, "files": examine_files}
        checks |= {name: partial(examine_extra, name, use) for name, use in EXTRA_USES.items()}
        checks = {topic: checks[topic] for topic in offline_topics}
    findings = []
    for topic, check in checks.items():
        findings += _run_check(topic, check)
    return findings


def _run_check(topic: str, check: Callable[[], list[Finding]]) -> list[Finding]:
    """Return the findings of a check, or its error as a finding."""
    try:
        return check()
    except EngineError as error:
        return [Finding(topic, "problem", error.what.rstrip("."), f"{error.why} {error.to_do}")]
    except OSError as error:
        found = reason_of(error).rstrip(".")
        return [Finding(topic, "problem", found, "it cannot be examined", "file-access")]


def _read_settings(project: ProjectFolder | None) -> Settings:
    """Return the project's settings, or the defaults.

    The defaults also stand for an invalid project.toml, which `_examine_project` reports.
    """
    try:
        if project:
            return project.settings()
        return Settings()
    except EngineError:
        return Settings()


def _examine_python() -> list[Finding]:
    """Return the version of Python, the system and the processor."""
    text = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    is_supported = sys.version_info >= (3, 11)
    if is_supported:
        return [Finding("python", "good", text, "supported")]
    return [Finding("python", "problem", text, "Python 3.11 or later is needed")]


def _examine_hardware(device: str, dtype: str) -> list[Finding]:
    """Return the device, precision and threads that a training would use."""
    from engine.encoders.hardware import choose_hardware

    hardware = choose_hardware(
        device,
        dtype,
        purpose="train",
    )
    return [
        Finding(choice.setting, "good", choice.value, choice.reason) for choice in hardware.choices
    ]


def _examine_memory() -> list[Finding]:
    """Return how much memory is free."""
    import psutil

    memory = psutil.virtual_memory()
    free = memory.available / 1e9
    found = f"{free:.1f} GB of {memory.total / 1e9:.1f} GB free"
    if free >= MIN_MEMORY_GB:
        return [Finding("memory", "good", found, "enough for every stage with the bundled model")]
    return [Finding("memory", "problem", found, "lower queries_per_step, or close programs")]


def _examine_disk(project: ProjectFolder | None) -> list[Finding]:
    """Return how much disk space is free.

    Whether it suffices for a project's next run is reported by `estimate_needs`.
    """
    root = project.path if project else projects_root()
    # The folder of all projects may not exist yet.
    existing_folder = next(folder for folder in (root, *root.parents) if folder.exists())
    free = shutil.disk_usage(existing_folder).free / 1e9
    found = f"{free:.1f} GB free at {existing_folder}"
    if free < MIN_FREE_GB:
        follows = f"less than {MIN_FREE_GB:.0f} GB: free some space before a run"
        if project:
            follows += "; what is indexed can be searched meanwhile"
        return [Finding("disk", "problem", found, follows)]
    if project:
        return []
    return [Finding("disk", "good", found, "'engine doctor PROJECT' says how much a run needs")]


def _examine_llm(settings: Settings, encoder: EncoderSettings) -> list[Finding]:
    """Return whether llama.cpp is installed; a problem if the settings need it."""
    encodes_with_gguf = is_gguf(encoder.model) and not encoder.endpoint
    needed = encodes_with_gguf or resolve_backend(settings).backend == "gguf"
    return examine_extra("llm", "GGUF models", needed=needed)


def _examine_ocr(settings: Settings) -> list[Finding]:
    """Return whether scans can be read, and whether the settings ask for it."""
    from engine.corpus.sandbox.tesseract import find_tesseract

    corpus = settings.corpus
    tesseract = find_tesseract(corpus.ocr_languages)
    if tesseract is None:
        to_do = "to read scans and pictures, install tesseract from your system's packages"
        if corpus.ocr:
            return [Finding("ocr", "problem", "tesseract is not installed", to_do)]
        to_do += " and set corpus.ocr = true"
        return [Finding("ocr", "absent", "tesseract is not installed", to_do)]
    found = f"{tesseract.version} at {tesseract.program}, languages {tesseract.languages}"
    if corpus.ocr:
        follows = "scanned pages and pictures are read"
    else:
        follows = "OCR is off: set corpus.ocr = true to read scans and pictures with it"
    return [Finding("ocr", "good", found, follows)]


def _examine_reading() -> list[Finding]:
    """Start a process that reads documents, and return what the system refuses to it."""
    from engine.corpus.sandbox.child import find_confinement

    try:
        confinement = find_confinement()
    except (OSError, RuntimeError) as error:
        return [Finding("reading", "problem", str(error), "documents cannot be read")]
    refused, means = confinement.describe()
    if not refused:
        follows = "a bad file can do whatever you can: read only documents that you trust"
        found = "nothing is refused to reading processes"
        return [Finding("reading", "problem", found, follows, "reading-not-confined")]
    state = "good" if confinement.is_complete else "absent"
    found = f"processes that read documents are refused {refused}"
    return [Finding("reading", state, found, f"by {means}")]


def _examine_documents(project: ProjectFolder, settings: Settings) -> list[Finding]:
    """Return the folders of documents that are missing, such as on an unmounted disk."""
    follows = "what was read of it stays searchable; connect its disk"
    return [
        Finding("documents", "problem", f"{path} is missing", follows)
        for path in project.sources(settings)
        if not path_exists(path)
    ]


def _examine_model(encoder: EncoderSettings) -> list[Finding]:
    """Return which encoder is used, where it is, and what can be done with it."""
    from engine.encoders.kinds.chosen import encoder_source

    source = encoder_source(encoder)
    if source.server:
        where = f"at {source.server}, which gets the text of chunks and queries"
    else:
        where = "on this machine"
    if encoder.small_model:
        follows = (
            f"an adapter is trained and exported of {Path(encoder.small_model).name} alone, whose"
            " vectors join its own"
        )
        return [Finding("model", "good", f"{source.name}, the first {where}", follows)]
    folder = source.folder
    if folder is None:
        follows = "no adapter can be trained for it or exported"
        return [Finding("model", "good", f"{source.name}, {where}", follows)]
    found = (
        f"{folder.name}, {folder.dimension} dimensions, at most {folder.max_tokens} tokens, in"
        f" {folder.path}"
    )
    return [Finding("model", "good", found, "complete; no network is needed")]


def _examine_languages(project: ProjectFolder, encoder: EncoderSettings) -> list[Finding]:
    """Return whether the encoder lacks the documents' language."""
    from engine.encoders.choosing.languages import language_finding
    from engine.encoders.kinds.chosen import encoder_source

    # `_examine_model` and `_examine_project` report these errors.
    with suppress(EngineError), closing(project.store()) as store:
        finding = language_finding(store, encoder_source(encoder))
        return [finding] if finding else []
    return []


def _examine_permissions(project: ProjectFolder | None) -> list[Finding]:
    """Report files of a project that others than the user (and its group) can open.

    Without a project: the folders of all projects, and what the app stores about its user, such as
    the list of recent projects and records of faults.
    """
    group = ""
    forbidden = 0o077  # all rights of group and others
    if project:
        paths = _list_project_paths(project)
        found = f"the project's files in {project.path}"
        to_do = f"run 'engine share {project.argument} --off'"
        if is_shared(project.path):
            group = " and its group"
            forbidden = 0o027  # the group's right to write, all rights of others
    else:
        projects = list(known_projects())
        paths = [*projects, *_list_state_paths()]
        found = f"{len(projects)} project{'' if len(projects) == 1 else 's'} in {projects_root()}"
        to_do = "run chmod go= on them"
    if has_access_lists():
        return [_describe_access_lists(found, paths[0] if project else projects_root())]
    open_paths = [path for path in paths if _is_open_to_others(path, forbidden)]
    if open_paths:
        names = ", ".join(map(str, open_paths[:MAX_PATHS_SHOWN]))
        if len(open_paths) > MAX_PATHS_SHOWN:
            names += f" and {len(open_paths) - MAX_PATHS_SHOWN} more"
        return [Finding("permissions", "problem", f"others can read {names}", to_do)]
    return [Finding("permissions", "good", found, f"only you{group} can read them")]


def _describe_access_lists(found: str, folder: Path) -> Finding:
    """Return whether a folder is in the user's profile, which Windows closes to other users.

    `found`: what was looked at. Access lists, which Windows has instead of modes, are not read.
    """
    if is_in_profile(folder):
        follows = "unless their access lists were changed, other users cannot read them"
        return Finding(
            "permissions",
            "note",
            found,
            f"{follows}; that is not checked",
        )
    follows = (
        f"{folder} is outside your profile, so other users may read them: look at the folder's"
        " Properties, Security"
    )
    return Finding(
        "permissions",
        "problem",
        found,
        follows,
        "project-outside-profile",
    )


def _list_project_paths(project: ProjectFolder) -> list[Path]:
    """Return the project's folder, its files, and the engine's own folders with their contents."""
    folder = project.path
    paths = [folder, *(path for path in folder.iterdir() if path.is_file())]
    for name in OWN_FOLDERS:
        paths += [folder / name, *(folder / name).rglob("*")]
    return paths


def _list_state_paths() -> list[Path]:
    """Return the folder with what the app stores about its user, and its contents."""
    from platformdirs import user_state_path

    state = user_state_path("bmembed", appauthor=False)
    if not state.is_dir():
        return []
    return [state, *sorted(state.iterdir())]


def _is_open_to_others(path: Path, rights: int) -> bool:
    """Return whether others than the user have one of the `rights` to a file or folder."""
    try:
        status = path.lstat()
    except OSError:
        return False  # a run has just removed it
    return not stat.S_ISLNK(status.st_mode) and bool(stat.S_IMODE(status.st_mode) & rights)


def _examine_network() -> list[Finding]:
    """Return whether the model libraries' offline switches are set."""
    if os.environ.get("HF_HUB_OFFLINE") == "1":
        return [Finding("network", "good", "offline switches are set", _describe_fetching())]
    to_do = "start the program by its own command"
    return [Finding("network", "problem", "offline switches are missing", to_do)]


def _describe_fetching() -> str:
    """Return whether models may be fetched here, in words."""
    from engine.models.policy import check_fetching_allowed

    try:
        check_fetching_allowed("")
    except UsageError as error:
        return f"no library looks anything up, and no model may be fetched: {error.why}"
    return "no library looks anything up; models are fetched only by 'engine models get'"


def _examine_versions() -> list[Finding]:
    """Return the versions of the libraries, and which are missing."""
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


def _examine_project(project: ProjectFolder) -> list[Finding]:
    """Return the state of a project's settings and database, and its size."""
    project.settings()
    with closing(project.store(check=True)) as store:
        counts = store.counts()
    megabytes = sum(map(get_file_size, project.path.rglob("*"))) / 1e6
    found = (
        f"{counts['chunks']:,} chunks, {counts['queries']:,} queries, {megabytes:,.0f} MB in"
        f" {project.path}"
    )
    return [Finding("project", "good", found, "the database is sound")]
