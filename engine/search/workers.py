"""Threads that work off tasks in order, and what the searching ones hold: heavy modules and a
searcher of their own.
"""

from __future__ import annotations

import importlib
import queue
import threading
from collections.abc import Callable

from engine.project.folder import ProjectFolder
from engine.search.searcher import Searcher

Job = Callable[[], None]
HEAVY = ("numpy", "engine.lexical.index")
_loading = threading.Lock()
heavy_loaded = False


def preload() -> None:
    """Import what several threads need, once: two first imports at once can meet a half-loaded
    module.

    The first task that needs these modules calls this; others wait until it is done. Torch stays
    for later, as only the semantic thread needs it. An `extra` task that needs numpy or an index
    calls this first, too.
    """
    global heavy_loaded
    with _loading:
        if not heavy_loaded:
            for module in HEAVY:
                importlib.import_module(module)
            heavy_loaded = True


class Worker:
    """A thread that works off jobs in order; `at_end` runs in it when it finishes.

    Jobs must not raise.
    """

    def __init__(self, at_end: Job | None = None) -> None:
        self._jobs: queue.Queue[Job | None] = queue.Queue()
        self._at_end = at_end
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while job := self._jobs.get():
            job()
        if self._at_end is not None:
            self._at_end()

    def has_more(self) -> bool:
        """Whether a job waits."""
        return not self._jobs.empty()

    def put(self, job: Job) -> None:
        """Queue a job."""
        self._jobs.put(job)

    def finish(self) -> None:
        """Work off what was asked for, then end."""
        self._jobs.put(None)
        self._thread.join()


class OwnSearcher:
    """The searcher of one thread, opened by the task that needs it first: a failure is that
    task's answer only.

    `is_wanted`: whether another task waits for it.
    """

    def __init__(self, project: ProjectFolder) -> None:
        self.project = project
        self._searcher: Searcher | None = None
        self.is_wanted: Callable[[], bool] = lambda: False

    def look(self) -> Searcher:
        """The searcher, for a task that only reads the database.

        Raises DamagedError and what opening may raise.
        """
        if self._searcher is None:
            self._searcher = Searcher(self.project)
        return self._searcher

    def ready(self) -> Searcher:
        """The searcher, for a task that searches: the heavy modules are loaded first."""
        preload()
        return self.look()

    def close(self) -> None:
        """Let go of the database."""
        if self._searcher is not None:
            self._searcher.close()
