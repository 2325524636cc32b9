"""Keeps a project in line with its folders while they change: what is new is searchable within seconds, the adapter stays."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import CancelledError, EngineError, NoDocumentsError, ProjectBusyError, SettingsError, UsageError
from engine.events import Event, StageFinished

if TYPE_CHECKING:
    from engine.project import ProjectFolder

WORDS, MEANING = ("ingest", "index"), ("embed",)  # what makes documents found by their words, and by their meaning
EMBED_SECONDS = 60.0  # so long newer changes may put off what makes the older ones found by their meaning
SETTLE_MS = 400  # changes that follow one another this closely are taken together
BUSY_SECONDS = 5.0
LOOK_SECONDS = 600.0  # a look without a sign of change: a file system may lose some, a network folder tells none
_OWN = ("project.toml", "project.db", "runs", "lexical", "vectors", "adapters", "reports", "cache", "rankings")


def watch(
    project: ProjectFolder,
    *,
    tell: Callable[[str], None],
    on_event: Callable[[Event], None] | None = None,
    stop: threading.Event,
) -> None:
    """Bring the project in line now, and again whenever something changes in its folders, until `stop` is set.

    `tell` gets a sentence after each time. A file that cannot be read, or a run that holds the project, ends nothing.
    Raises UsageError where the project names no folder, ProjectBusyError never.
    """
    settings = project.settings()
    folders = watched_folders(project.sources(settings))
    if not folders:
        raise UsageError(
            "There is nothing to watch.", "corpus.paths in project.toml is empty.", "Name a folder in corpus.paths."
        )
    dirty = threading.Event()
    watcher = threading.Thread(target=_watch_folders, args=(folders, project.path, dirty, stop), daemon=True)
    watcher.start()
    tell(f"Watching {', '.join(map(str, folders))}.")
    keeper = _Keeper(project, tell, on_event, stop, dirty)
    while not stop.is_set():
        dirty.clear()  # what changes from here on asks for a run of its own
        _wait(dirty, stop, keeper.bring_in_line() or LOOK_SECONDS)
    watcher.join()


def _wait(dirty: threading.Event, stop: threading.Event, seconds: float) -> None:
    """Until something changes, the time is over or the watch is to end."""
    end = time.monotonic() + seconds
    while not stop.is_set() and time.monotonic() < end and not dirty.wait(0.2):
        pass


def watched_folders(sources: Sequence[Path]) -> list[Path]:
    """The folders to watch for some sources: of a file, the one that it lies in."""
    found = (source.parent if source.is_file() else source for source in sources)
    return list(dict.fromkeys(folder for folder in found if folder.is_dir()))


@dataclass
class _Keeper:
    project: ProjectFolder
    tell: Callable[[str], None]
    on_event: Callable[[Event], None] | None
    stop: threading.Event
    dirty: threading.Event
    embedded: float = field(default_factory=time.monotonic)

    def bring_in_line(self) -> float:
        """Make what changed searchable. Returns the seconds to wait before it is tried again, or 0."""
        started = time.monotonic()
        try:
            done = self._run(WORDS, self.stop.is_set)
            ingest = done.get("ingest", {})
            changed = _changes(ingest)
            if changed:
                self.tell(f"{changed}: searchable after {time.monotonic() - started:.1f} s.")
            if "embed" in self._run(MEANING, self._is_put_off):
                self.tell(f"Semantic search is up to date after {time.monotonic() - started:.1f} s.")
            self.embedded = time.monotonic()
            if changed:
                self._tell_drift()
        except ProjectBusyError:
            return BUSY_SECONDS  # a run of the user's own: it reads the folders as well
        except CancelledError:
            return 0.0
        except (NoDocumentsError, SettingsError) as error:
            self.tell(" ".join(filter(None, (error.what, error.why))))
        except EngineError as error:
            self.tell(" ".join(filter(None, (error.what, error.why, error.to_do))))
            return BUSY_SECONDS
        return 0.0

    def _is_put_off(self) -> bool:
        return self.stop.is_set() or (self.dirty.is_set() and time.monotonic() - self.embedded < EMBED_SECONDS)

    def _run(self, stages: tuple[str, ...], should_stop: Callable[[], bool]) -> dict[str, dict[str, Any]]:
        """One run; returns the summaries of the stages that had something to do."""
        from engine.pipeline import run

        done: dict[str, dict[str, Any]] = {}

        def note(event: Event) -> None:
            if isinstance(event, StageFinished):
                done[event.stage] = event.summary
            if self.on_event is not None:
                self.on_event(event)

        run(self.project, stages=stages, on_event=note, should_stop=should_stop)
        return done

    def _tell_drift(self) -> None:
        with closing(self.project.store()) as store:
            drift = store.drift() if store.artifact("queries") is not None else 0.0
        limit = self.project.settings().corpus.drift
        if drift > limit:
            self.tell(
                f"{100 * drift:.0f} % of the chunks changed since the adapter was trained (corpus.drift is "
                f"{100 * limit:.0f} %): a new adaptation is worthwhile, with 'engine run {self.project.argument}'."
            )


def _changes(ingest: dict[str, Any]) -> str:
    names = {"files_read": "read", "files_renamed": "renamed", "files_removed": "removed"}
    return ", ".join(f"{ingest[key]} {word}" for key, word in names.items() if ingest.get(key))


def _watch_folders(folders: Sequence[Path], own: Path, dirty: threading.Event, stop: threading.Event) -> None:
    """Set `dirty` whenever something changes, until `stop` is set. Done in a thread of its own."""
    import watchfiles

    def counts(_change: watchfiles.Change, path: str) -> bool:
        """Whether a change may matter: not what the project itself writes, where it lies in a watched folder."""
        inside = Path(path).parts[len(own.parts) :] if Path(path).is_relative_to(own) else ()
        return not (inside and (inside[0].startswith(_OWN) or inside[0].endswith(".lock")))

    while not stop.is_set():
        try:
            for _ in watchfiles.watch(
                *folders, watch_filter=counts, debounce=SETTLE_MS, stop_event=stop, rust_timeout=1000,
                raise_interrupt=False, ignore_permission_denied=True, force_polling=_polling(folders),
            ):  # fmt: skip
                dirty.set()
        except OSError:  # a folder is gone: the next look says so, and it may come back
            dirty.set()
            stop.wait(BUSY_SECONDS)


def _polling(folders: Sequence[Path]) -> bool | None:
    """Whether the folders must be asked now and then, as the system has no watches left for all of theirs."""
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
