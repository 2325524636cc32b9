"""A project that assistants search: by keyword at once, and as its settings say once the encoder
is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from engine.core.errors import EngineError, UsageError
from engine.core.messages.report import SearchMode
from engine.core.messages.search import Found, Mode, Search
from engine.core.messages.wire import params_of
from engine.core.records import Document
from engine.core.text import short_names
from engine.project.folder import ProjectFolder, known_projects
from engine.search.encoding import NamedEncoder
from engine.search.methods import HANDLERS
from engine.search.workers import OwnSearcher


def labelled(names: Sequence[str]) -> dict[str, ProjectFolder]:
    """The named projects, all where none is named, by `short_names`.

    Raises UsageError without any.
    """
    folders = [
        ProjectFolder.open(name) for name in dict.fromkeys(names or map(str, known_projects()))
    ]
    if not folders:
        raise UsageError(
            "There are no projects yet.",
            "No project was named.",
            "Make one with 'engine new'.",
            code="project-missing",
            command="new",
        )
    names_of = short_names([one.path for one in folders])
    return {names_of[one.path]: one for one in folders}


def no_project(labels: Sequence[str], *, named: bool = True) -> UsageError:
    """The error of a label that is none of these, or where one of several is to be `named`."""
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
    """Its methods are called in one thread; the encoder is loaded and used in another.

    `label`: its name among all served.
    """

    def __init__(self, folder: ProjectFolder, label: str) -> None:
        self.folder = folder
        self.label = label
        self._light = OwnSearcher(folder)
        self._full = OwnSearcher(folder)
        self._thread = ThreadPoolExecutor(1)
        self._loading: Future[Found] | None = None
        self._problem: BaseException | None = None

    def prepare(self) -> None:
        """Import what a search by keyword needs, and open the database."""
        self._light.ready()

    def load(self) -> None:
        """Begin to load the encoder, again where it could not be loaded."""
        if self._loading is not None and self._loading.done():
            self._problem = self._loading.exception()
        if self._loading is None or (self._loading.done() and self._problem):
            self._loading = self._thread.submit(lambda: self._full.ready().search("warm up", top=1))

    @property
    def _loaded(self) -> bool:
        return (
            self._loading is not None and self._loading.done() and self._loading.exception() is None
        )

    @property
    def mode(self) -> Mode:
        """How a search is answered now."""
        if self._loaded:
            return self.folder.settings().search.mode_in_json
        return "bm25"

    def search(self, **params: Any) -> Found:
        """What is found. Raises EngineError."""
        if self._loaded:
            task = HANDLERS[Search](params_of(Search, params))
            return self._thread.submit(task, self._full).result()  # type: ignore[no-any-return]
        keywords = {**params, "mode": "bm25"}
        found: Found = HANDLERS[Search](params_of(Search, {**keywords, "rerank": False}))(
            self._light
        )
        if params.get("mode") == "bm25" or self.folder.settings().search.mode == "keywords":
            if not found.can_rerank:
                return found
            task = HANDLERS[Search](params_of(Search, keywords))
            return self._thread.submit(task, self._full).result()  # type: ignore[no-any-return]
        self.load()
        return replace(
            found,
            notes=(*found.notes, _keywords_alone(self._problem) if self._problem else LOADING),
        )

    def encoders(self) -> dict[SearchMode, NamedEncoder]:
        """The encoder of each search mode; empty before anything is embedded."""
        try:
            return self._light.look().encoders.by_mode()
        except EngineError:
            return {}

    def document(self, stable_id: str) -> Document | None:
        """A document with its text."""
        return self._light.look().document_of(stable_id)

    def facets(self, query: str | None) -> dict[str, dict[str, int]]:
        """How many documents have each type, author, language, year and folder: all, or those
        that hold a word of `query`.
        """
        if query is None:
            return self._light.look().facets()
        return (
            self._light.ready()
            .search(query, mode="bm25", top=1, with_facets=True, syntax=True, rerank=False)
            .facets
        )

    def close(self) -> None:
        """Let go of the database; an encoder that is still being loaded is not waited for."""
        self._light.close()


def _keywords_alone(problem: BaseException) -> str:
    if isinstance(problem, EngineError):
        return f"Found by keyword alone. {problem.what} {problem.to_do}".strip()
    return f"Found by keyword alone. The encoder cannot be loaded ({type(problem).__name__})."
