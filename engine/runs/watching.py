"""Keeps a project in line with its folders while they change: what is new is searchable within
seconds, the adapter stays.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISDIR
from typing import Any

from engine.core import errors
from engine.core.events import Event, Progress, StageFinished, StageStarted, Warned
from engine.core.text import duration
from engine.project.folder import OWN_FOLDERS, ProjectFolder
from engine.project.store.artifact_info import QueriesInfo

WORDS = ("ingest", "index")  # what makes documents found by their words, and by their meaning
MEANING = ("embed",)
EMBED_SECONDS = (
    60.0  # so long newer changes may put off what makes the older ones found by their meaning
)
SHARE_SECONDS = (
    30.0  # so long it has to itself before a newer change breaks it off; whole shards are kept
)
QUIET_SECONDS = 10.0  # so long nothing is reported of embedding
SETTLE_MS = 400  # changes that follow one another this closely are taken together
BUSY_SECONDS = 5.0
# a look without a sign of change: a file system may lose some, a network folder reports none
LOOK_SECONDS = 600.0
GLANCE_SECONDS = 1.0  # between two glances at whether the folders are still those that are watched
_OWN = {*OWN_FOLDERS, "project.toml", "project.db"}
_BESIDE = ("-wal", "-shm", "-journal", ".bak")  # of the database


def watch(
    project: ProjectFolder,
    *,
    report: Callable[[str], None],
    on_event: Callable[[Event], None] | None = None,
    stop: threading.Event,
) -> None:
    """Bring the project in line now, and again whenever something changes in its folders, until
    `stop` is set.

    `report` gets a sentence after each time, `on_event` every event but warnings that a stage
    repeats. A file that cannot be read, or a run that holds the project, ends nothing. Raises
    UsageError where the project names no folder, ProjectBusyError where another process watches it.
    """
    sources = project.sources(project.settings())
    if not sources:
        raise errors.UsageError(
            "There is nothing to watch.",
            "corpus.paths in project.toml is empty.",
            "Name a folder in corpus.paths.",
            code="documents-not-chosen",
        )
    dirty = Changes()
    watcher = threading.Thread(
        target=watch_folders, args=(SourceFolders(project), dirty, stop), daemon=True
    )
    with project.locked("watch"):
        watcher.start()
        report(f"Watching {', '.join(map(str, sources))}.")
        updater = ProjectUpdater(project, report, on_event, stop, dirty)
        while not stop.is_set():
            updater.take_changes()
            _wait(dirty, stop, updater.bring_in_line() or LOOK_SECONDS)
        watcher.join()


class Changes(threading.Event):
    """Set when something changes; `since`: when the first change was seen that nobody has taken,
    by time.monotonic().
    """

    since: float | None = None

    def set(self) -> None:
        """Something has changed."""
        if not self.is_set():
            self.since = time.monotonic()
        super().set()


def _wait(dirty: threading.Event, stop: threading.Event, seconds: float) -> None:
    """Until something changes, the time is over or the watch is to end."""
    end = time.monotonic() + seconds
    while not stop.is_set() and time.monotonic() < end and not dirty.wait(0.2):
        pass


@dataclass
class SourceFolders:
    """The folders of a project: those that its settings name now, and which ones on the disk
    these are.
    """

    project: ProjectFolder
    _paths: list[Path] = field(default_factory=list)

    def identities(self) -> dict[Path, tuple[int, int]]:
        """Folder → its identity on the disk, which another one in its place does not have."""
        # who brings the project in line says what is wrong with them
        with suppress(errors.SettingsError):
            self._paths = self.project.sources(self.project.settings())
        found = {}
        for folder in (path.parent if path.is_file() else path for path in self._paths):
            with suppress(OSError):  # gone at this moment
                status = folder.stat()
                if S_ISDIR(status.st_mode):
                    found[folder] = (status.st_dev, status.st_ino)
        return found


@dataclass
class RepeatedWarnings:
    """What every stage has warned of, in its last run and in the one that runs; and runs between
    their stages, by code.
    """

    _former: dict[str, set[str]] = field(default_factory=dict)
    _now: dict[str, set[str]] = field(default_factory=dict)

    def is_news(self, event: Event) -> bool:
        """Whether an event is anything but a warning that its stage gave in its last run, too."""
        if isinstance(event, StageStarted):
            broken_off = self._now.get(event.stage, set())
            self._former[event.stage] = self._former.get(event.stage, set()) | broken_off
            self._now[event.stage] = set()
        elif isinstance(event, StageFinished):
            self._former[event.stage] = self._now.pop(event.stage, set())
        elif isinstance(event, Warned) and (
            key := event.stage if event.stage in self._now else event.code
        ):
            now = self._now.setdefault(key, set())
            known = event.text in self._former.get(key, now) | now
            now.add(event.text)
            return not known
        return True


@dataclass
class ProjectUpdater:
    """Runs the stages that make changes searchable, and reports what came of it."""

    project: ProjectFolder
    report: Callable[[str], None]
    on_event: Callable[[Event], None] | None
    stop: threading.Event
    dirty: Changes
    embedded: float = field(default_factory=time.monotonic)
    _since: float | None = None
    embedding_since: float = 0.0
    _reported: float = 0.0
    _problem: str = ""
    _warnings: RepeatedWarnings = field(default_factory=RepeatedWarnings)

    def take_changes(self) -> None:
        """What changes from here on asks for a run of its own.

        Those that no run has seen to yet wait since the first of them.
        """
        since = self.dirty.since
        self.dirty.since = None
        self.dirty.clear()
        self._since = since if self._since is None else self._since

    def bring_in_line(self) -> float:
        """Make what changed searchable.

        Returns the seconds to wait before it is tried again, or 0.
        """
        if self._since is None:
            started = time.monotonic()
        else:
            started = self._since
        try:
            done = self.run_stages(WORDS, self.stop.is_set)
            self._since = None
            ingest = done.get("ingest", {})
            changed = _changes(ingest)
            if changed:
                self.report(f"{changed}: searchable after {duration(time.monotonic() - started)}.")
            self.embedding_since = self._reported = time.monotonic()
            if "embed" in self.run_stages(MEANING, self.is_put_off):
                self.report(
                    f"Semantic search is up to date after {duration(time.monotonic() - started)}."
                )
            self.embedded = time.monotonic()
            self._problem = ""
            if changed:
                self.report_changed_share()
        except errors.ProjectBusyError:
            return BUSY_SECONDS  # a run of the user's own: it reads the folders as well
        except errors.CancelledError:
            return 0.0
        except (errors.NoDocumentsError, errors.SettingsError) as error:
            self._report_problem(error.what, error.why)
        except errors.EngineError as error:
            self._report_problem(error.what, error.why, error.to_do)
            return BUSY_SECONDS
        return 0.0

    def _report_problem(self, *sentences: str) -> None:
        """Once, however often it is met: a folder may be away for hours."""
        text = " ".join(filter(None, sentences))
        if text != self._problem:
            self.report(text)
        self._problem = text

    def is_put_off(self) -> bool:
        """Whether embedding gives way to newer changes."""
        now = time.monotonic()
        gives_way = (
            now - self.embedded < EMBED_SECONDS or now - self.embedding_since >= SHARE_SECONDS
        )
        return self.stop.is_set() or (self.dirty.is_set() and gives_way)

    def _report_progress(self, event: Progress) -> None:
        """Now and then, of what takes long."""
        if (
            event.stage in MEANING
            and event.total
            and time.monotonic() - self._reported >= QUIET_SECONDS
        ):
            self._reported = time.monotonic()
            self.report(
                f"For semantic search {event.done:,} of {event.total:,} {event.unit} are done."
            )

    def run_stages(
        self, stages: tuple[str, ...], should_stop: Callable[[], bool]
    ) -> dict[str, dict[str, Any]]:
        """One run; returns the summaries of the stages that had something to do."""
        from engine.runs.pipeline import run

        done: dict[str, dict[str, Any]] = {}

        def note(event: Event) -> None:
            if isinstance(event, StageFinished):
                done[event.stage] = event.summary
            elif isinstance(event, Progress):
                self._report_progress(event)
            if self._warnings.is_news(event) and self.on_event is not None:
                self.on_event(event)

        run(self.project, stages=stages, on_event=note, should_stop=should_stop)
        return done

    def report_changed_share(self) -> None:
        """Where more of the chunks changed since training than the settings allow."""
        with closing(self.project.store()) as store:
            if store.artifact(QueriesInfo) is not None:
                share = store.changed_share()
            else:
                share = 0.0
        limit = self.project.settings().corpus.retrain_threshold
        if share > limit:
            self.report(
                f"{100 * share:.0f} % of the chunks have changed since the adapter was trained"
                f" (corpus.retrain_threshold is {100 * limit:.0f} %): a new adaptation is"
                f" worthwhile, with 'engine adapt {self.project.argument}'."
            )


def _changes(ingest: dict[str, Any]) -> str:
    names = {"files_read": "read", "files_renamed": "renamed", "files_removed": "removed"}
    return ", ".join(f"{ingest[key]} {word}" for key, word in names.items() if ingest.get(key))


def watch_folders(sources: SourceFolders, dirty: threading.Event, stop: threading.Event) -> None:
    """Set `dirty` whenever something changes, until `stop` is set. Done in a thread of its own.

    A folder that is moved away takes its watch along: one that stands in its place is watched anew,
    as is one that was not there before.
    """
    watched: dict[Path, tuple[int, int]] | None = None
    while not stop.is_set():
        former = watched
        watched = sources.identities()
        if former is not None and watched != former:
            dirty.set()
        if not watched:
            stop.wait(GLANCE_SECONDS)
            continue
        try:
            _watch_these(watched, sources, dirty, stop, again=former is not None)
        except (
            OSError,
            RuntimeError,
        ):
            # a folder is gone, and may come back; or a change has a name that is not UTF-8
            dirty.set()
            stop.wait(GLANCE_SECONDS)


def _watch_these(
    watched: dict[Path, tuple[int, int]],
    sources: SourceFolders,
    dirty: threading.Event,
    stop: threading.Event,
    *,
    again: bool,
) -> None:
    """Watch until other folders stand there.

    `again`: changes between two watches were seen by neither.
    """
    import watchfiles

    own = sources.project.path
    for changes in watchfiles.watch(
        *watched,
        watch_filter=lambda _change, path: not _is_own(Path(path), own),
        debounce=SETTLE_MS,
        stop_event=stop,
        rust_timeout=int(1000 * GLANCE_SECONDS),
        yield_on_timeout=True,
        raise_interrupt=False,
        ignore_permission_denied=True,
        force_polling=_polling(list(watched)),
    ):
        if changes or again:
            dirty.set()
        again = False
        if sources.identities() != watched:
            return


def _is_own(path: Path, project: Path) -> bool:
    """Whether this is what the project itself writes, where it lies in a watched folder."""
    if not path.is_relative_to(project) or path == project:
        return False
    name = path.relative_to(project).parts[0]
    for ending in _BESIDE:
        name = name.removesuffix(ending)
    return name in _OWN or name.startswith(".tmp-") or name.endswith(".lock")


def _polling(folders: Sequence[Path]) -> bool | None:
    """Whether the folders must be asked now and then, as the system has no watches left for all
    of theirs.
    """
    try:
        most = int(Path("/proc/sys/fs/inotify/max_user_watches").read_text())
    except (OSError, ValueError):
        return None
    count = 0
    for folder in folders:
        for _, inner, _ in os.walk(folder):
            count += len(inner) + 1
            if 2 * count > most:
                return True
    return None
