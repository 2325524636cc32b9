"""A project that assistants search: by keyword until the encoder is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Lock

from engine.core.errors import EngineError, UsageError
from engine.core.messages.report import SearchMode
from engine.core.messages.search import Found, Mode, Search
from engine.core.records import Document
from engine.core.text import short_names
from engine.project.folder import ProjectFolder, known_projects
from engine.search.encoding import NamedEncoder
from engine.search.workers import ThreadSearcher


def label_projects(names: Sequence[str]) -> dict[str, ProjectFolder]:
    """Return label → project, for the named projects, or for all known ones if none is named.

    A label is the project's `short_names` entry, with slashes on every system. Raises UsageError if
    there are no projects.
    """
    wanted = names or [str(path) for path in known_projects()]
    folders = [ProjectFolder.open(name) for name in dict.fromkeys(wanted)]
    if not folders:
        raise UsageError(
            "There are no projects yet.",
            "No project was named.",
            "Make one with 'engine new'.",
            code="project-missing",
            command="new",
        )
    labels = short_names([folder.path for folder in folders])
    return {Path(labels[folder.path]).as_posix(): folder for folder in folders}


def project_missing_error(labels: Sequence[str], *, named: bool = True) -> UsageError:
    """Return the error for an unknown label or, if not `named`, for a missing one."""
    if named:
        what = "There is no such project here."
    else:
        what = "No project is named, and there are several."
    return UsageError(
        what, f"Projects: {', '.join(labels)}.", "Name one of these.", code="project-missing"
    )


LOADING = (
    "These results are by keyword only, because the encoder is still loading. Search again in a few"
    " seconds to search by meaning, too."
)


class ServedProject:
    """A served project; its `label` differs from those of the other served projects.

    All methods except `load` must be called in the same thread, which uses the searcher for
    keywords. The searcher with the encoder is loaded and used in a thread of its own.
    """

    def __init__(self, folder: ProjectFolder, label: str) -> None:
        self.folder = folder
        self.label = label
        self._keyword_searcher = ThreadSearcher(folder)
        self._full_searcher = ThreadSearcher(folder)
        self._thread = ThreadPoolExecutor(1)
        self._lock = Lock()
        self._loading: Future[Found] | None = None
        self._problem: BaseException | None = None  # why the encoder could not be loaded

    def prepare(self) -> None:
        """Import what keyword search needs, and open the database."""
        self._keyword_searcher.ready()

    def load(self) -> None:
        """Start to load the encoder, unless it is loaded or loading; try again if it failed.

        Thread-safe.
        """
        with self._lock:
            if self._loading is not None:
                if not self._loading.done():
                    return
                self._problem = self._loading.exception()
                if self._problem is None:
                    return
            self._loading = self._thread.submit(self._warm_up)

    def _warm_up(self) -> Found:
        """Load the encoder by a first search with it."""
        return self._full_searcher.ready().search(Search("warm up", top=1))

    @property
    def _is_loaded(self) -> bool:
        """Whether the encoder can be used."""
        loading = self._loading
        return loading is not None and loading.done() and loading.exception() is None

    @property
    def mode(self) -> Mode:
        """The mode in which a search is answered now."""
        if self._is_loaded:
            return self.folder.settings().search.mode_in_json
        return "bm25"

    def search(self, request: Search) -> Found:
        """Return the hits, by keyword until the encoder is loaded. Raises EngineError."""
        if self._is_loaded:
            return self._search_fully(request)
        by_keyword = replace(request, mode="bm25")
        # The reranker, like the encoder, is used only in the other thread.
        found = self._keyword_searcher.ready().search(replace(by_keyword, rerank=False))
        if request.mode == "bm25" or self.folder.settings().search.mode == "keywords":
            if found.can_rerank:
                return self._search_fully(by_keyword)
            return found
        self.load()
        note = _describe_problem(self._problem) if self._problem else LOADING
        return replace(found, notes=(*found.notes, note))

    def _search_fully(self, request: Search) -> Found:
        """Search in the thread that uses the encoder and the reranker."""
        return self._thread.submit(lambda: self._full_searcher.ready().search(request)).result()

    def encoders(self) -> dict[SearchMode, NamedEncoder]:
        """Return the encoder of each search mode; empty before anything is embedded."""
        try:
            return self._keyword_searcher.look().encoders.by_mode()
        except EngineError:
            return {}

    def document(self, stable_id: str) -> Document | None:
        """Return a document with its text, by the id that no run changes; None without it."""
        return self._keyword_searcher.look().document_of(stable_id)

    def facets(self, query: str | None) -> dict[str, dict[str, int]]:
        """Count documents by type, author, tag, language, year and folder.

        `query`: count only documents that contain a word of it; None to count all.
        """
        if query is None:
            return self._keyword_searcher.look().facets()
        request = Search(
            query,
            "bm25",
            top=1,
            facets=True,
            rerank=False,
        )
        return self._keyword_searcher.ready().search(request).facets

    def close(self) -> None:
        """Close the database, without waiting for an encoder that is still being loaded."""
        self._keyword_searcher.close()


def _describe_problem(problem: BaseException) -> str:
    """Return the note that results are by keyword only, since the encoder could not be loaded."""
    if isinstance(problem, EngineError):
        return f"These results are by keyword only. {problem.what} {problem.to_do}".strip()
    name = type(problem).__name__
    return f"These results are by keyword only, because the encoder cannot be loaded ({name})."
