"""Threads that run tasks in order, and the searcher that each of them keeps."""

from __future__ import annotations

import importlib
import queue
import threading
from collections.abc import Callable

from engine.project.folder import ProjectFolder
from engine.search.searcher import Searcher

Job = Callable[[], None]
HEAVY = ("numpy", "engine.lexical.index")
"""Modules that several threads import. Only the semantic thread imports torch."""
_importing = threading.Lock()


def preload() -> None:
    """Import the modules in `HEAVY`; call this first in any task that needs numpy or an index.

    If two threads import modules that import each other, Python avoids a deadlock by giving one
    thread a module that the other is still loading. The lock prevents that.
    """
    with _importing:
        for module in HEAVY:
            importlib.import_module(module)


class Worker:
    """A thread that runs jobs in order, and `at_end` when it finishes. Jobs must not raise."""

    def __init__(self, at_end: Job | None = None) -> None:
        self._jobs: queue.Queue[Job | None] = queue.Queue()
        self._at_end = at_end
        self._thread = threading.Thread(target=self._run_jobs, daemon=True)
        self._thread.start()

    def _run_jobs(self) -> None:
        """Run jobs until None is queued, then `at_end`."""
        while job := self._jobs.get():
            job()
        if self._at_end is not None:
            self._at_end()

    def has_more(self) -> bool:
        """Return whether a job is waiting."""
        return not self._jobs.empty()

    def put(self, job: Job) -> None:
        """Queue a job."""
        self._jobs.put(job)

    def finish(self) -> None:
        """Run all queued jobs, then end the thread."""
        self._jobs.put(None)
        self._thread.join()


class ThreadSearcher:
    """The searcher of one thread, opened by the first task that needs it.

    If opening fails, only that task fails. `has_waiting_task` tells whether another task waits for
    the thread; a search then ends its reranking early.
    """

    def __init__(self, project: ProjectFolder) -> None:
        self.project = project
        self._searcher: Searcher | None = None
        self.has_waiting_task: Callable[[], bool] = lambda: False

    def look(self) -> Searcher:
        """Return the searcher without loading the heavy modules, to read the database only.

        Raises DamagedError and whatever opening a project raises.
        """
        if self._searcher is None:
            self._searcher = Searcher(self.project)
        return self._searcher

    def ready(self) -> Searcher:
        """Return the searcher, for a task that searches: the heavy modules are loaded first."""
        preload()
        return self.look()

    def close(self) -> None:
        """Close the database."""
        if self._searcher is not None:
            self._searcher.close()
