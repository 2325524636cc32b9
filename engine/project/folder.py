"""A project folder: create, open, lock, paths, and artifacts that are complete or absent."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from engine.core.disk import disk_errors, expand_home, file_mode, publish_folder, write_text
from engine.core.errors import (
    DamagedError,
    EngineError,
    ProjectBusyError,
    UsageError,
    nearest,
    reason_of,
)
from engine.core.platforms.files import (
    has_room_for_names,
    try_remove_file,
    try_remove_tree,
)
from engine.core.platforms.locks import holder_file, is_held
from engine.core.platforms.names import is_reserved_here
from engine.core.platforms.processes import quote_argument
from engine.core.text import harmless
from engine.project.repair import Repair, repair
from engine.project.store.artifact_info import ArtifactInfo
from engine.project.store.artifacts import Artifact
from engine.project.store.store import Store
from engine.settings import load as settings_loading
from engine.settings.schema import Settings

ARTIFACT_ROOTS = (
    "lexical",
    "rankings",
    "adapters",
    "reports",
    "vectors",
)
FOLDERS = (
    *ARTIFACT_ROOTS,
    "runs",
    "imports",
    "cache",
)
# FOLDERS, and those that only some projects have.
OWN_FOLDERS = (
    *FOLDERS,
    "checkpoints",
    "studies",
    "sweep",
)
KEPT = "sweep-"
"""Prefix of reports (of `engine sweep`) that are kept although no artifact names them."""


def projects_root() -> Path:
    """Return the folder of projects given by name, in the user's data folder (platformdirs)."""
    from platformdirs import user_data_path

    return user_data_path("bmembed", appauthor=False) / "projects"


def locate(name_or_path: str | os.PathLike[str]) -> Path:
    """Return the folder of a project given by path, or by name in `projects_root()`.

    A name means a folder in the working directory only if no project in `projects_root()` has it:
    so it means the same project from everywhere. Raises UsageError for what is no name.
    """
    text = os.fspath(name_or_path)
    path_by_name = _find_by_name(text)
    is_known = bool(text) and _is_file(path_by_name / "project.toml")
    if text:
        path = expand_home(text)
        is_here = not is_known and _is_file(path / "project.toml")
        is_path = path.is_absolute() or os.sep in text or "/" in text or text.startswith(".")
        if is_here or is_path:
            return full_path(path)
    # A command takes what begins with a hyphen for an option, and no list shows control characters.
    is_awkward = text.startswith("-") or harmless(text) != text
    is_impossible = is_reserved_here(text) or any(char in text for char in '\\:*?"<>|\0')
    if not text or is_impossible or (is_awkward and not is_known):
        raise UsageError(
            f"'{text}' is not a project name.",
            "A project's name is also that of its folder.",
            "Use letters, digits, - and _, and begin with a letter or a digit.",
            code="project-name-invalid",
        )
    return path_by_name


def _find_by_name(name: str) -> Path:
    """Return the folder in `projects_root()` for a project of that name.

    Some systems decompose letters such as ü in the names of folders, others do not.
    """
    path = projects_root() / name
    if not name.isascii() and not _is_file(path / "project.toml"):
        wanted = unicodedata.normalize("NFC", name)
        for project in known_projects():
            if unicodedata.normalize("NFC", project.name) == wanted:
                return project
    return path


def full_path(path: Path) -> Path:
    """Return a path from the root, resolving ".." through links as the system does."""
    if ".." in path.parts:
        return Path(os.path.realpath(path))
    return path.absolute()


def _make_folder(
    folder: Path,
    made: list[Path],
    mode: int = 0o700,
) -> None:
    """Make a folder unless it exists. A new folder is appended to `made`."""
    with suppress(FileExistsError):
        folder.mkdir(mode)
        made.append(folder)


def _is_file(path: Path) -> bool:
    """Return whether there is a file.

    Raises UsageError if the system refuses the name of its folder, such as a long one.
    """
    try:
        return path.is_file()
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(
            f"{path.parent} cannot be a project's folder.",
            f"{why}.",
            "Choose another folder or name.",
            code="project-folder-invalid",
        ) from None


def known_projects() -> list[Path]:
    """Return the folders under `projects_root()` that hold a project, by name."""
    root = projects_root()
    if root.is_dir():
        return sorted(path.parent for path in root.glob("*/project.toml"))
    return []


SAMPLE_SETTINGS: dict[str, dict[str, Any]] = {
    # A large language model wrote the queries: assets/sample/README.md.
    "queries": {"backend": "imported"},
    "training": {"preset": "quick"},
}
SAMPLE_QUERIES = "sample/queries.jsonl"
SAMPLE_QUESTIONS = "sample/questions.jsonl"
SAMPLE_MEASURING = "sample/questions-measuring.jsonl"
"""The half of the sample's judged questions that measures what the other half chose."""


MAX_NAME = 120
"""Maximum number of characters of a file's path within a project."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds a lock, as its file names it."""

    pid: int
    since: str  # Local time, such as `2026-01-31 09:45`.
    command: str  # Such as `engine adapt`.
    is_run: bool = False  # Whether 'engine status' shows it and 'engine cancel' stops it.

    def __str__(self) -> str:
        return f"{self.command} (process {self.pid}, since {self.since})"


def record_holder(lock: Path, *, is_run: bool = False) -> None:
    """Write this process's id and command into the file of a lock that it holds.

    Arguments are left out, as they may be a query. On a full disk nothing is written.
    """
    # The program is `…/bin/engine`, or `…/engine/__main__.py`.
    if "engine" in Path(sys.argv[0]).parts[-2:] and len(sys.argv) > 1:
        command = f"engine {sys.argv[1]}"
    elif is_run:
        command = "a run in the background"
    else:
        command = "another program"
    holder = Holder(
        os.getpid(),
        f"{datetime.now():%Y-%m-%d %H:%M}",
        command,
        is_run,
    )
    with suppress(OSError):
        holder_file(lock).write_text(json.dumps(asdict(holder)), encoding="utf-8")


def holder_of(lock: Path) -> Holder | None:
    """Return the process that holds a lock; None if unknown."""
    import psutil

    with suppress(OSError, ValueError, TypeError):
        holder = Holder(**json.loads(holder_file(lock).read_text(encoding="utf-8")))
        if psutil.pid_exists(holder.pid):
            return holder
    return None


@dataclass(frozen=True)
class Building:
    """An artifact in the making: write into `folder`; `name` is its later place in the project."""

    folder: Path
    name: str


@dataclass(frozen=True)
class ProjectFolder:
    """A project on disk. Opening it reads nothing but project.toml; nothing is held open."""

    path: Path

    @classmethod
    def create(cls, path: Path, chosen: dict[str, dict[str, Any]]) -> ProjectFolder:
        """Make the folder (0700), project.toml (0600) and an empty database.

        `chosen`: section → key → value. Raises SettingsError for a bad value, EngineError if a
        project or other files are already there.
        """
        text = cls.check_new(path, chosen)
        made: list[Path] = []
        try:
            cls._write_new(path, text, made)
        except BaseException:
            for folder in reversed(made):
                # A folder stays if somebody has put something into it.
                with suppress(OSError):
                    folder.rmdir()
            raise
        return cls(path)

    @staticmethod
    def _write_new(
        path: Path,
        settings_text: str,
        made: list[Path],
    ) -> None:
        """Make a project's folder and what is in it, project.toml last.

        Folders that were not there are appended to `made`, for the caller to remove after an error.
        """
        try:
            missing = [folder for folder in path.parents if not folder.exists()]
            for folder in reversed(missing):
                # Folders above the project get the user's usual rights.
                _make_folder(folder, made, mode=0o777)
            _make_folder(path, made)
            path.chmod(0o700)
        except (OSError, ValueError) as error:
            raise EngineError(
                f"{path} cannot be created.",
                reason_of(error),
                "Choose a folder that you can write to.",
                code="write-failed",
            ) from error
        if not has_room_for_names(path, MAX_NAME):
            raise EngineError(
                f"{path} cannot be a project's folder.",
                "Its path is so long that Windows would not open the files in it.",
                "Choose a folder with a shorter path.",
                code="project-folder-invalid",
            )
        with disk_errors(f"The project {path} could not be created."):
            for name in FOLDERS:
                _make_folder(path / name, made)
            Store.create(path / "project.db").close()
            try:
                write_text(path / "project.toml", settings_text)
            except BaseException:
                (path / "project.db").unlink(missing_ok=True)
                raise

    @classmethod
    def check_new(cls, path: Path, chosen: dict[str, dict[str, Any]]) -> str:
        """Return the project.toml that `create` would write, or raise what `create` would."""
        settings_loading.validate(chosen, "The new project")
        text = settings_loading.template(chosen)
        if _is_file(path / "project.toml"):
            raise UsageError(
                f"{path} already holds a project.",
                "Nothing was overwritten.",
                f"Choose another name. 'engine status {cls(path).argument}' shows what is there;"
                " 'engine purge' deletes it.",
                code="project-exists",
            )
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise UsageError(
                f"{path} is not empty." if path.is_dir() else f"{path} is a file.",
                "A project needs its own folder.",
                "Choose another folder or name.",
                code="project-folder-invalid",
            )
        return text

    @classmethod
    def open(cls, name_or_path: str | os.PathLike[str]) -> ProjectFolder:
        """Return the project of that name or path.

        Raises UsageError that names the nearest known project.
        """
        path = locate(name_or_path)
        if not _is_file(path / "project.toml"):
            names = [project.name for project in known_projects()]
            nearest_name = nearest(path.name, names)
            if nearest_name:
                hint = f"Did you mean '{nearest_name}'?"
            else:
                hint = "'engine list' shows your projects, 'engine new' creates one."
            if path.is_dir():
                why = "The folder holds no project.toml."
            else:
                why = ""
            raise UsageError(
                f"There is no project at {path}.",
                why,
                hint,
                code="project-missing",
                command="new",
            )
        return cls(path)

    @property
    def argument(self) -> str:
        """The project as a quoted command-line argument: its name, or its path if elsewhere."""
        # A name that begins with a hyphen would be an option.
        if self.path.parent == projects_root() and not self.name.startswith("-"):
            return quote_argument(self.name)
        return quote_argument(str(self.path))

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.name

    def settings(self) -> Settings:
        """Read project.toml as it is now.

        Raises SettingsError.
        """
        return settings_loading.load(self.path / "project.toml")

    def change_settings(
        self, changes: Mapping[str, Any], check: Callable[[Settings], None] = lambda _: None
    ) -> Settings:
        """Set keys of project.toml ("section.key" → value, None: default); return all settings.

        Comments, order and manual changes up to this moment are kept. Raises SettingsError for an
        invalid change, and what `check` raises; the file then stays as it is.
        """
        from engine.settings import edit as settings_editing

        path = self.path / "project.toml"
        with self.locked("settings", wait=5.0), disk_errors(f"{path} could not be written."):
            while True:
                text = settings_loading.read_text(path)
                settings, changed = settings_editing.change(
                    text,
                    changes,
                    str(path),
                )
                check(settings)
                if changed == text:
                    return settings
                # If the text differs now, an editor has just saved it: try again.
                if settings_loading.read_text(path) == text:
                    # If project.toml is a link, the file that it points to is replaced.
                    write_text(path.resolve(), changed)
                    return settings

    def settings_text(self) -> str:
        """Return the text of project.toml, valid or not.

        Raises SettingsError if it cannot be read.
        """
        return settings_loading.read_text(self.path / "project.toml")

    def sources(self, settings: Settings) -> list[Path]:
        """Return the folders and files to read; relative ones start at the project folder."""
        return [(self.path / expand_home(text)).absolute() for text in settings.corpus.paths]

    def store(self, *, check: bool = False) -> Store:
        """Return a new connection to project.db, which the caller closes."""
        self._check_exists()
        return Store.open(self.path / "project.db", check=check)

    def _check_exists(self) -> None:
        """Raise UsageError if the project's folder is gone."""
        if not self.path.is_dir():
            raise UsageError(
                f"There is no project at {self.path}.",
                "Its folder was deleted or moved.",
                "Open it at its new place.",
                code="project-missing",
            )

    def repair(self) -> Repair | None:
        """Make missing folders and replace a damaged database by its last good copy.

        Returns what was done to the database, None if it is sound. The caller holds the lock.
        """
        with disk_errors(f"The project {self.path} could not be repaired."):
            for name in FOLDERS:
                (self.path / name).mkdir(mode=0o700, exist_ok=True)
            return repair(self.path)

    @contextmanager
    def locked(
        self, name: str = "run", wait: float = 0.5, *, is_run: bool = False
    ) -> Iterator[None]:
        """Hold the project, or another lock `name` of it, for one process.

        `is_run`: others may follow and cancel it. The default wait outlasts `is_running`, which
        holds the lock for a moment. Raises ProjectBusyError after `wait` seconds, UsageError if the
        project is gone.
        """
        from filelock import FileLock, Timeout

        # Taking the lock would create the folder again.
        self._check_exists()
        path = self.path / f"{name}.lock"
        lock = FileLock(path, mode=file_mode(self.path))
        try:
            lock.acquire(timeout=wait)
        except Timeout:
            raise self._explain_busy(name) from None
        except (OSError, NotImplementedError) as error:
            raise self._explain_unlockable(error) from error
        try:
            record_holder(path, is_run=is_run)
            yield
        finally:
            if holder_file(path) != path:
                try_remove_file(holder_file(path))
            lock.release()

    def _explain_busy(self, name: str) -> ProjectBusyError:
        """Return the error that another process holds the lock `name`."""
        stop_hint = (
            f"'engine cancel {self.argument}' stops a run early; what it has done so far stays."
        )
        if name in ("settings", "judging"):
            subject = "settings" if name == "settings" else "marks"
            what = f"Another program is changing the {subject} of {self.name}."
            return ProjectBusyError(what, "One change is written after the other.", "Try again.")
        if name == "sweep":
            what = f"A study or sweep of {self.name} is running."
            why = "Both would train in the same copy of the project."
            return ProjectBusyError(
                what,
                why,
                f"Wait for it. {stop_hint}",
                command="cancel",
            )
        holder = holder_of(self.path / f"{name}.lock")
        by_whom = str(holder or "another command")
        if name == "watch":
            what = f"The project {self.name} is watched already, by {by_whom}."
            why = "One watch keeps it up to date."
            return ProjectBusyError(
                what, why, "Stop that one first, with Ctrl-C, or leave it running.", command="watch"
            )
        what = f"The project {self.name} is in use by {by_whom}."
        why = "Two changes at once would overwrite each other."
        if holder is None or not holder.is_run:
            return ProjectBusyError(what, why, "Wait until it has finished, then try again.")
        to_do = (
            f"Wait until it has finished. 'engine status {self.argument}' shows how far the run is."
            f" {stop_hint}"
        )
        return ProjectBusyError(
            what,
            why,
            to_do,
            command="status",
        )

    def _explain_unlockable(self, error: Exception) -> EngineError:
        """Return the error for a system that refuses the lock file."""
        return EngineError(
            f"The project {self.name} cannot be locked.",
            reason_of(error),
            "Keep it on a disk that you can write to.",
            code="project-not-locked",
        )

    def is_running(self, lock: str = "run") -> bool:
        """Return whether a run, or the holder of another `lock`, holds the project now.

        Read access suffices. Raises EngineError if the lock may not be read, UsageError if the
        project is gone.
        """
        self._check_exists()
        try:
            return is_held(self.path / f"{lock}.lock")
        except OSError as error:
            raise self._explain_unlockable(error) from error

    @contextmanager
    def building(self, root: str, name: str) -> Iterator[Building]:
        """Yield an empty temporary folder that becomes `root/name` (or `root/name-2` …).

        On any exception the temporary folder is removed. Existing folders stay until `sweep`.
        """
        parent = self.path / root
        parent.mkdir(mode=0o700, exist_ok=True)
        final = name
        number = 1
        while (parent / final).exists():
            number += 1
            final = f"{name}-{number}"
        with publish_folder(parent / f".tmp-{name}", parent / final) as temporary:
            yield Building(temporary, f"{root}/{final}")

    def folder_of(self, artifact: Artifact[ArtifactInfo]) -> Path:
        """Return the absolute folder of an artifact.

        Raises DamagedError if it is gone.
        """
        folder = self.path / artifact.folder
        if not folder.is_dir():
            raise DamagedError(
                f"{folder} is missing.",
                "The database names it, but it is not on disk.",
                "Run 'engine run' to build it again.",
                code="artifact-missing",
                command="run",
            )
        return folder

    def sweep(self, in_use: set[str]) -> None:
        """Remove artifact folders and leftovers of builds, except `in_use` ('root/name').

        Reports of 'engine sweep' stay, as no stage can make them again.
        """
        for root in ARTIFACT_ROOTS:
            if not (self.path / root).is_dir():
                continue
            for folder in (self.path / root).iterdir():
                is_kept = f"{root}/{folder.name}" in in_use or folder.name.startswith(KEPT)
                if folder.is_dir() and not is_kept:
                    try_remove_tree(folder)
