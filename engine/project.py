"""A project folder: create, open, lock, paths, and artifacts that are complete or absent."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import settings as settings_module
from engine.errors import DamagedError, EngineError, ProjectBusyError, ResourceError, UsageError, nearest
from engine.settings import Settings
from engine.store import Artifact, Store

ARTIFACT_ROOTS = ("lexical", "rankings", "adapters", "reports", "vectors")
FOLDERS = (*ARTIFACT_ROOTS, "runs", "imports", "cache")


def projects_root() -> Path:
    """Folder of the projects that are named, not given by path: in the user's data folder (platformdirs)."""
    from platformdirs import user_data_path

    return user_data_path("bmembed", appauthor=False) / "projects"


def locate(name_or_path: str | os.PathLike[str]) -> Path:
    """The folder of a project given by path, or by name in `projects_root()`."""
    text = os.fspath(name_or_path)
    path = _expanded(text)
    if _is_file(path / "project.toml") or path.is_absolute() or os.sep in text or text.startswith("."):
        return path.absolute()
    if not text or any(char in text for char in '\\:*?"<>|\0'):
        raise UsageError(
            f"'{text}' is not a project name.", "A name is also a folder's name.", "Use letters, digits, - and _."
        )
    return projects_root() / text


def _expanded(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise UsageError(f"'{text}' names no folder.", f"{error}.", "Give the whole path.") from None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(
            f"{path.parent} cannot be a project's folder.", f"{why}.", "Choose another folder or name."
        ) from None


def known_projects() -> list[Path]:
    """Folders under `projects_root()` that hold a project, in order of name."""
    root = projects_root()
    return sorted(path.parent for path in root.glob("*/project.toml")) if root.is_dir() else []


@dataclass(frozen=True)
class Building:
    """An artifact in the making: write into `folder`; `name` is where it will lie, relative to the project."""

    folder: Path
    name: str


@dataclass(frozen=True)
class ProjectFolder:
    """A project on disk. Opening it reads nothing but project.toml; nothing is held open."""

    path: Path

    @classmethod
    def create(cls, path: Path, chosen: dict[str, dict[str, Any]]) -> ProjectFolder:
        """Make the folder (0700), project.toml (0600) and an empty database. `chosen`: section → key → value.

        Raises SettingsError for a bad value, EngineError where a project or other files are already there.
        """
        settings_module.validate(chosen)
        text = settings_module.template(chosen)
        if _is_file(path / "project.toml"):
            raise UsageError(
                f"{path} already holds a project.", "A project is created only once.", f"Use 'engine run {path}'."
            )
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise UsageError(
                f"{path} is not empty.", "A project wants a folder of its own.", "Choose another folder or name."
            )
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.chmod(0o700)
        except (OSError, ValueError) as error:
            raise EngineError(
                f"{path} cannot be created.", str(error), "Choose a folder that you may write to."
            ) from error
        folder = cls(path)
        with _disk_errors(f"The project {path} could not be created."):
            try:
                folder._make_folders()
                Store.create(path / "project.db").close()
            except BaseException:
                folder._remove_empty_folders()
                raise
            try:
                write_text(path / "project.toml", text)
            except BaseException:
                (path / "project.db").unlink(missing_ok=True)
                folder._remove_empty_folders()
                raise
        return folder

    @classmethod
    def open(cls, name_or_path: str | os.PathLike[str]) -> ProjectFolder:
        """The project of that name or path. Raises UsageError that names the nearest known project."""
        path = locate(name_or_path)
        if not _is_file(path / "project.toml"):
            names = [project.name for project in known_projects()]
            near = nearest(path.name, names)
            hint = f"Did you mean '{near}'?" if near else "Create it with 'engine new', or give the path of its folder."
            raise UsageError(f"There is no project at {path}.", "The folder holds no project.toml.", hint)
        return cls(path)

    @property
    def argument(self) -> str:
        """What names this project on the command line: its name, or its path when it lies elsewhere."""
        return self.name if self.path.parent == projects_root() else str(self.path)

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.name

    def settings(self) -> Settings:
        """project.toml as it is now. Raises SettingsError."""
        return settings_module.load(self.path / "project.toml")

    def sources(self, settings: Settings) -> list[Path]:
        """The folders and files to read; relative ones are taken from the project folder."""
        return [(self.path / _expanded(text)).absolute() for text in settings.corpus.paths]

    def store(self, *, check: bool = False) -> Store:
        """A new connection to project.db; the caller closes it."""
        return Store.open(self.path / "project.db", check=check)

    def _make_folders(self) -> None:
        for name in FOLDERS:
            (self.path / name).mkdir(mode=0o700, exist_ok=True)

    def _remove_empty_folders(self) -> None:
        for name in FOLDERS:
            with suppress(OSError):
                (self.path / name).rmdir()

    def repair(self) -> str | None:
        """Make folders that are missing and put the last good database in a damaged one's place. Holds the lock.

        Returns a sentence for the user when something was restored.
        """
        database, backup = self.path / "project.db", self.path / "project.db.bak"
        with _disk_errors(f"The project {self.path} could not be repaired."):
            self._make_folders()
            try:
                self.store(check=True).close()
                return None
            except DamagedError as damage:
                reason = damage.what
            good = self._good_copy(backup)
            aside = self._set_aside(database)
            if good is None:
                Store.create(database).close()
                return f"{reason}{aside} It is built again from the documents and the imports folder."
            good.replace(database)
            _sync_folder(self.path)
            return f"{reason}{aside} The copy of the last good run was restored."

    def _good_copy(self, backup: Path) -> Path | None:
        """A private, checked copy of the backup, to be renamed into place; None where there is no good backup."""
        if not backup.is_file():
            return None
        temporary = self.path / ".tmp-project.db"
        for suffix in ("-wal", "-shm"):
            Path(f"{temporary}{suffix}").unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as target, backup.open("rb") as source:
            shutil.copyfileobj(source, target)
            target.flush()
            os.fsync(target.fileno())
        try:
            Store.open(temporary, check=True).close()
        except (DamagedError, UsageError):
            temporary.unlink()
            return None
        return temporary

    def _set_aside(self, database: Path) -> str:
        """Rename a damaged database, with SQLite's files beside it; returns the sentence that tells where to."""
        stem = f"project.db.damaged-{int(time.time())}"
        names = (stem if number == 1 else f"{stem}-{number}" for number in itertools.count(1))
        aside = next(self.path / name for name in names if not (self.path / name).exists())
        moved = False
        for suffix in ("", "-wal", "-shm"):
            source = Path(f"{database}{suffix}")
            if source.exists():
                source.replace(Path(f"{aside}{suffix}"))
                moved = True
        return f" It was set aside as {aside.name}." if moved else ""

    @contextmanager
    def locked(self, name: str = "run", wait: float = 0.5) -> Iterator[None]:
        """Hold the project for one process. Raises ProjectBusyError after `wait` seconds.

        The default wait outlasts `is_running`, which holds the lock for a moment.
        """
        from filelock import FileLock, Timeout

        lock = FileLock(self.path / f"{name}.lock", mode=0o600)
        try:
            lock.acquire(timeout=wait)
        except Timeout:
            raise ProjectBusyError(
                f"A run holds the project {self.name}.",
                "Two runs at once would overwrite each other's work.",
                f"Wait for it ('engine status {self.argument}'), or stop it ('engine cancel {self.argument}').",
            ) from None
        except (OSError, NotImplementedError) as error:
            raise EngineError(
                f"The project {self.name} cannot be locked.", f"{error}.", "Keep it on a disk that you may write to."
            ) from error
        try:
            yield
        finally:
            lock.release()

    def is_running(self) -> bool:
        """Whether a run holds the project now."""
        try:
            with self.locked(wait=0.1):
                return False
        except ProjectBusyError:
            return True

    @contextmanager
    def building(self, root: str, name: str) -> Iterator[Building]:
        """Yield an empty temporary folder; on success it is fsynced and renamed to `root/name` (or `root/name-2` …).

        On any exception the temporary folder is removed. What was there before stays either way, until `sweep`.
        """
        parent = self.path / root
        parent.mkdir(mode=0o700, exist_ok=True)
        names = (name if number == 1 else f"{name}-{number}" for number in itertools.count(1))
        final = next(candidate for candidate in names if not (parent / candidate).exists())
        temporary = parent / f".tmp-{name}"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(mode=0o700)
        try:
            yield Building(temporary, f"{root}/{final}")
            _sync_tree(temporary)
            temporary.rename(parent / final)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        _sync_folder(parent)

    def folder_of(self, artifact: Artifact) -> Path:
        """Absolute folder of an artifact. Raises DamagedError when it is gone."""
        folder = self.path / artifact.folder
        if not folder.is_dir():
            raise DamagedError(
                f"{folder} is missing.",
                "The database names it, the disk does not hold it.",
                "Run 'engine run' to build it again.",
            )
        return folder

    def sweep(self, in_use: set[str]) -> None:
        """Remove artifact folders and leftovers of interrupted builds that nothing in `in_use` ('root/name') names."""
        for root in ARTIFACT_ROOTS:
            for folder in (self.path / root).iterdir() if (self.path / root).is_dir() else ():
                if f"{root}/{folder.name}" not in in_use and folder.is_dir():
                    shutil.rmtree(folder, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write a small private file so that it is complete or unchanged after a crash."""
    temporary = path.with_name(f".tmp-{path.name}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


@contextmanager
def _disk_errors(what: str) -> Iterator[None]:
    """Turn the system's refusals into errors that a user can act on."""
    try:
        yield
    except OSError as error:
        kind = ResourceError if error.errno in (errno.ENOSPC, errno.EDQUOT) else EngineError
        raise kind(what, f"{error}.", "Check the disk's free space and the folder's permissions.") from error


def _sync_tree(folder: Path) -> None:
    for parent, _, names in os.walk(folder):
        for name in names:
            descriptor = os.open(os.path.join(parent, name), os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        _sync_folder(Path(parent))


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":
        return  # Windows has no handle on a folder to flush
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
