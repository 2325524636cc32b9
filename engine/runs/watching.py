"""Keep a project up to date with its folders: new text is searchable within seconds.

The adapter stays as it is.
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
from engine.core.platforms.files import is_document
from engine.core.text import duration
from engine.project.folder import OWN_FOLDERS, ProjectFolder
from engine.project.stage import KEYWORD_STAGES
from engine.project.store.artifact_info import QueriesInfo

MAX_EMBEDDING_DELAY = 60.0
"""Seconds for which newer changes may put off embedding."""
MIN_EMBEDDING_SECONDS = 30.0
"""Seconds that embedding runs before a newer change interrupts it; complete shards are kept."""
REPORT_SECONDS = 10.0
"""Minimum time between two reports about embedding."""
SETTLE_MS = 400
"""Changes that follow one another this closely are handled together."""
BUSY_SECONDS = 5.0
"""The wait before another attempt while a run holds the project."""
UPDATE_SECONDS = 600.0
"""The wait before an update without a sign of change.

File systems lose some changes, and network folders report none.
"""
CHECK_SECONDS = 1.0
"""The time between two checks whether the watched folders were replaced."""
_OWN = {*OWN_FOLDERS, "project.toml", "project.db"}
_DATABASE_ENDINGS = ("-wal", "-shm", "-journal", ".bak")


def watch(
    project: ProjectFolder,
    *,
    report: Callable[[str], None],
    on_event: Callable[[Event], None] | None = None,
    stop: threading.Event,
) -> None:
    """Update the project now and after every change in its folders, until `stop` is set.

    `report` gets a sentence after each update, `on_event` every event except warnings that a stage
    repeats. Unreadable files and a run that holds the project do not end the watch. Raises
    UsageError if the project names no folder, ProjectBusyError if another process watches it.
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
        updater = ProjectUpdater(
            project,
            report,
            on_event,
            stop,
            dirty,
        )
        while not stop.is_set():
            updater.take_changes()
            _wait(
                dirty,
                stop,
                updater.update() or UPDATE_SECONDS,
            )
        watcher.join()


class Changes(threading.Event):
    """An event that is set when something changes.

    `since`: time.monotonic() of the first change since the event was last cleared.
    """

    since: float | None = None

    def set(self) -> None:
        """Record a change."""
        if not self.is_set():
            self.since = time.monotonic()
        super().set()


def _wait(
    dirty: threading.Event,
    stop: threading.Event,
    seconds: float,
) -> None:
    """Wait until something changes, the time is over or the watch should end."""
    end = time.monotonic() + seconds
    while not stop.is_set() and time.monotonic() < end and not dirty.wait(0.2):
        pass


@dataclass
class SourceFolders:
    """The folders that the project's settings name now, with their identities on disk."""

    project: ProjectFolder
    _paths: list[Path] = field(default_factory=list)

    def identities(self) -> dict[Path, tuple[int, int]]:
        """Return the identity on disk of each folder; a replaced folder has another one."""
        # The updater reports invalid settings.
        with suppress(errors.EngineError):
            self._paths = self.project.sources(self.project.settings())
        identities = {}
        for path in self._paths:
            folder = path.parent if is_document(path) else path
            # The folder may be gone at this moment.
            with suppress(OSError):
                status = folder.stat()
                if S_ISDIR(status.st_mode):
                    identities[folder] = (status.st_dev, status.st_ino)
        return identities


@dataclass
class RepeatedWarnings:
    """Distinguishes new warnings from those that a stage gave in its last run, too.

    Warnings of a run outside its stages are kept by their code instead of a stage.
    """

    _former: dict[str, set[str]] = field(default_factory=dict)  # Stage → texts of its previous run.
    _now: dict[str, set[str]] = field(default_factory=dict)  # Stage → texts of its current run.

    def is_news(self, event: Event) -> bool:
        """Return False for a warning that its stage gave in its last run too, else True."""
        if isinstance(event, StageStarted):
            interrupted = self._now.get(event.stage, set())
            self._former[event.stage] = self._former.get(event.stage, set()) | interrupted
            self._now[event.stage] = set()
        elif isinstance(event, StageFinished):
            self._former[event.stage] = self._now.pop(event.stage, set())
        elif isinstance(event, Warned):
            return self._is_new_warning(event)
        return True

    def _is_new_warning(self, warning: Warned) -> bool:
        """Note a warning, and return whether it is new."""
        key = warning.stage if warning.stage in self._now else warning.code
        if not key:
            return True
        current = self._now.setdefault(key, set())
        is_known = warning.text in self._former.get(key, current) | current
        current.add(warning.text)
        return not is_known


@dataclass
class ProjectUpdater:
    """Runs the stages that make changes searchable, and reports the outcome.

    Times are values of time.monotonic().
    """

    project: ProjectFolder
    report: Callable[[str], None]
    on_event: Callable[[Event], None] | None
    stop: threading.Event
    dirty: Changes  # Set when something changes.
    embedded: float = field(default_factory=time.monotonic)  # When everything was last embedded.
    _since: float | None = None  # The first change that no update has handled.
    embedding_since: float = 0.0  # When the present embedding began.
    _reported: float = 0.0  # When embedding was last reported.
    _problem: str = ""  # The problem that was reported last.
    _warnings: RepeatedWarnings = field(default_factory=RepeatedWarnings)

    def take_changes(self) -> None:
        """Clear `dirty`, so that later changes ask for another update.

        The time of the first change that no update has handled is kept.
        """
        since = self.dirty.since
        self.dirty.since = None
        self.dirty.clear()
        if self._since is None:
            self._since = since

    def update(self) -> float:
        """Make changes searchable; return the seconds to wait before another attempt, or 0."""
        started = time.monotonic() if self._since is None else self._since
        try:
            done = self.run_stages(KEYWORD_STAGES, self.stop.is_set)
            self._since = None
            ingest = done.get("ingest", {})
            changed = _describe_changes(ingest)
            if changed:
                self.report(f"{changed}: searchable after {duration(time.monotonic() - started)}.")
            self.embedding_since = time.monotonic()
            self._reported = self.embedding_since
            if "embed" in self.run_stages(("embed",), self.is_put_off):
                self.report(
                    f"Semantic search is up to date after {duration(time.monotonic() - started)}."
                )
            self.embedded = time.monotonic()
            self._problem = ""
            if changed:
                self.report_changed_share()
        except errors.ProjectBusyError:
            # The user's own run reads the folders as well.
            return BUSY_SECONDS
        except errors.CancelledError:
            return 0.0
        except (errors.NoDocumentsError, errors.SettingsError) as error:
            self._report_problem(error.what, error.why)
        except errors.EngineError as error:
            self._report_problem(
                error.what,
                error.why,
                error.to_do,
            )
            return BUSY_SECONDS
        return 0.0

    def _report_problem(self, *sentences: str) -> None:
        """Report a problem once, however often it is met: a folder may be away for hours."""
        text = " ".join(filter(None, sentences))
        if text != self._problem:
            self.report(text)
        self._problem = text

    def is_put_off(self) -> bool:
        """Return whether embedding should stop, because the watch ends or newer changes wait."""
        now = time.monotonic()
        was_embedded_lately = now - self.embedded < MAX_EMBEDDING_DELAY
        has_run_long = now - self.embedding_since >= MIN_EMBEDDING_SECONDS
        gives_way = was_embedded_lately or has_run_long
        return self.stop.is_set() or (self.dirty.is_set() and gives_way)

    def _report_progress(self, event: Progress) -> None:
        """Report the progress of embedding now and then."""
        now = time.monotonic()
        if event.stage == "embed" and event.total and now - self._reported >= REPORT_SECONDS:
            self._reported = now
            self.report(
                f"For semantic search {event.done:,} of {event.total:,} {event.unit} are done."
            )

    def run_stages(
        self, stages: tuple[str, ...], should_stop: Callable[[], bool]
    ) -> dict[str, dict[str, Any]]:
        """Run stages; return the summaries of those that had something to do."""
        from engine.runs.pipeline import run

        done: dict[str, dict[str, Any]] = {}

        def note(event: Event) -> None:
            if isinstance(event, StageFinished):
                done[event.stage] = event.summary
            elif isinstance(event, Progress):
                self._report_progress(event)
            if self._warnings.is_news(event) and self.on_event is not None:
                self.on_event(event)

        run(
            self.project,
            stages=stages,
            on_event=note,
            should_stop=should_stop,
        )
        return done

    def report_changed_share(self) -> None:
        """Advise an adaptation if more chunks changed since training than the settings allow."""
        with closing(self.project.store()) as store:
            has_queries = store.artifact(QueriesInfo) is not None
            share = store.changed_share() if has_queries else 0.0
        limit = self.project.settings().corpus.retrain_threshold
        if share > limit:
            self.report(
                f"{100 * share:.0f} % of the chunks have changed since the adapter was trained"
                f" (corpus.retrain_threshold is {100 * limit:.0f} %): a new adaptation is"
                f" worthwhile, with 'engine adapt {self.project.argument}'."
            )


def _describe_changes(ingest: dict[str, Any]) -> str:
    """Return "3 read, 1 removed" from the summary of `ingest`, empty without changes."""
    verbs = {
        "files_read": "read",
        "files_renamed": "renamed",
        "files_removed": "removed",
    }
    return ", ".join(f"{ingest[key]} {verb}" for key, verb in verbs.items() if ingest.get(key))


def watch_folders(
    sources: SourceFolders,
    dirty: threading.Event,
    stop: threading.Event,
    check_seconds: float = CHECK_SECONDS,
) -> None:
    """Set `dirty` whenever something changes, until `stop` is set; to be called in its own thread.

    A folder that is moved away takes its watch along, so a folder that appears in its place gets
    a new watch. `check_seconds`: the time between two checks of the folders themselves.
    """
    identities: dict[Path, tuple[int, int]] | None = None
    while not stop.is_set():
        former_identities = identities
        identities = sources.identities()
        if former_identities is not None and identities != former_identities:
            dirty.set()
        if not identities:
            stop.wait(check_seconds)
            continue
        try:
            _watch_until_replaced(
                identities, sources, dirty, stop, check_seconds, again=former_identities is not None
            )
        except (OSError, RuntimeError):
            # A folder is gone and may come back, or a file name is not UTF-8.
            dirty.set()
            stop.wait(check_seconds)


def _watch_until_replaced(
    watched: dict[Path, tuple[int, int]],
    sources: SourceFolders,
    dirty: threading.Event,
    stop: threading.Event,
    check_seconds: float,
    *,
    again: bool,
) -> None:
    """Watch these folders until they are replaced by others.

    `again`: set `dirty` at once, since changes between two watches are seen by neither.
    """
    import watchfiles

    project_folder = sources.project.path
    for changes in watchfiles.watch(
        *watched,
        watch_filter=lambda _change, path: not _is_own(Path(path), project_folder),
        debounce=SETTLE_MS,
        stop_event=stop,
        rust_timeout=int(1000 * check_seconds),
        yield_on_timeout=True,
        raise_interrupt=False,
        ignore_permission_denied=True,
        force_polling=_needs_polling(list(watched)),
    ):
        if changes or again:
            dirty.set()
        again = False
        if sources.identities() != watched:
            return


def _is_own(path: Path, project: Path) -> bool:
    """Return whether the project itself writes this path.

    Such paths are seen if the project lies in a watched folder.
    """
    if not path.is_relative_to(project) or path == project:
        return False
    name = path.relative_to(project).parts[0]
    for ending in _DATABASE_ENDINGS:
        name = name.removesuffix(ending)
    return name in _OWN or name.startswith(".tmp-") or name.endswith(".lock")


def _needs_polling(folders: Sequence[Path]) -> bool | None:
    """Return True if the folders must be polled because the system has too few watches for them.

    None leaves the choice to watchfiles.
    """
    try:
        max_watches = int(Path("/proc/sys/fs/inotify/max_user_watches").read_text())
    except (OSError, ValueError):
        return None
    count = 0
    for folder in folders:
        for _path, subfolders, _files in os.walk(folder):
            count += len(subfolders) + 1
            # Other programs need some of them.
            if 2 * count > max_watches:
                return True
    return None
