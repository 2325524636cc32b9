"""A project that assistants search: by keyword until the encoder is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from engine.core.errors import EngineError, UsageError
from engine.core.messages.report import SearchMode
from engine.core.messages.search import Found, Mode, Search
from engine.core.messages.wire import from_json
from engine.core.records import Document
from engine.core.text import short_names
from engine.project.folder import ProjectFolder, known_projects
from engine.search.encoding import NamedEncoder
from engine.search.methods import HANDLERS
from engine.search.workers import ThreadSearcher


def label_projects(names: Sequence[str]) -> dict[str, ProjectFolder]:
    """Return the named projects, or all, by their `short_names`.

    Raises UsageError if there are none.
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
    return {labels[folder.path]: folder for folder in folders}


def no_project(labels: Sequence[str], *, named: bool = True) -> UsageError:
    """Return the error for an unknown label or, if not `named`, for a missing one."""
    if named:
        what = "There is no such project here."
    else:
        what = "No project is named, and there are several."
    return UsageError(
        what, f"Projects: {', '.join(labels)}.", "Name one of these.", code="project-missing"
    )


LOADING = (
    "The encoder is loading: found by keyword alone. A search in some seconds finds by meaning,"
    " too."
)


class ServedProject:
    """A served project, with its `label` among all of them.

    Its methods must be called in one thread; the encoder is loaded and used in another.
    """

    def __init__(self, folder: ProjectFolder, label: str) -> None:
        self.folder = folder
        self.label = label
        self._light = ThreadSearcher(folder)
        self._full = ThreadSearcher(folder)
        self._thread = ThreadPoolExecutor(1)
        self._loading: Future[Found] | None = None
        self._problem: BaseException | None = None

    def prepare(self) -> None:
        """Import what keyword search needs, and open the database."""
        self._light.ready()

    def load(self) -> None:
        """Start to load the encoder, unless it is loaded or loading."""
        if self._loading is not None:
            if not self._loading.done():
                return
            self._problem = self._loading.exception()
            if self._problem is None:
                return
        self._loading = self._thread.submit(self._warm_up)

    def _warm_up(self) -> Found:
        return self._full.ready().search("warm up", top=1)

    @property
    def _is_loaded(self) -> bool:
        if self._loading is None or not self._loading.done():
            return False
        return self._loading.exception() is None

    @property
    def mode(self) -> Mode:
        """The mode in which a search is answered now."""
        if self._is_loaded:
            return self.folder.settings().search.mode_in_json
        return "bm25"

    def search(self, **params: Any) -> Found:
        """Search with the params of `Search`. Raises EngineError."""
        if self._is_loaded:
            return self._search_fully(params)
        by_keyword = {**params, "mode": "bm25"}
        request = from_json(Search, {**by_keyword, "rerank": False}, strict=True)
        found: Found = HANDLERS[Search](request)(self._light)
        if params.get("mode") == "bm25" or self.folder.settings().search.mode == "keywords":
            if found.can_rerank:
                return self._search_fully(by_keyword)
            return found
        self.load()
        note = _describe_problem(self._problem) if self._problem else LOADING
        return replace(found, notes=(*found.notes, note))

    def _search_fully(self, params: dict[str, Any]) -> Found:
        """Search in the thread that uses the encoder and the reranker."""
        task = HANDLERS[Search](from_json(Search, params, strict=True))
        found: Found = self._thread.submit(task, self._full).result()
        return found

    def encoders(self) -> dict[SearchMode, NamedEncoder]:
        """Return the encoder of each search mode; empty before anything is embedded."""
        try:
            return self._light.look().encoders.by_mode()
        except EngineError:
            return {}

    def document(self, stable_id: str) -> Document | None:
        """Return a document with its text."""
        return self._light.look().document_of(stable_id)

    def facets(self, query: str | None) -> dict[str, dict[str, int]]:
        """Count documents by type, author, tag, language, year and folder.

        All documents, or those that contain a word of `query`.
        """
        if query is None:
            return self._light.look().facets()
        searcher = self._light.ready()
        found = searcher.search(
            query, mode="bm25", top=1, with_facets=True, syntax=True, rerank=False
        )
        return found.facets

    def close(self) -> None:
        """Close the database, without waiting for an encoder that is still being loaded."""
        self._light.close()


def _describe_problem(problem: BaseException) -> str:
    if isinstance(problem, EngineError):
        return f"Found by keyword alone. {problem.what} {problem.to_do}".strip()
    return f"Found by keyword alone. The encoder cannot be loaded ({type(problem).__name__})."
