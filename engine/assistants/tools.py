"""The tools that assistants call; they only read.

Documents are named `PROJECT:ID`, with the id that no run changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import chain, zip_longest
from threading import Timer
from typing import Any

from engine.assistants.served import ServedProject, label_projects, project_missing_error
from engine.core.dates import day
from engine.core.errors import EngineError, UsageError
from engine.core.messages.search import MAX_FACETS, Found, Hit, Search, read_mode
from engine.core.messages.wire import from_json, to_json
from engine.core.platforms.names import file_url
from engine.core.records import Document
from engine.search.filters import date_of

LINES = 200
"""Number of lines that `get` returns by default."""
MAX_LINES = 1_000
"""Maximum number of lines that `get` returns."""
MAX_TEXT = 50_000
"""Maximum number of characters that a tool returns."""
LOAD_AFTER = 2.0
"""Seconds before the encoder is loaded, so that loading does not slow down the first search."""


class ProjectTools:
    """The tools for the named projects, or for all. Not thread-safe.

    Raises UsageError if there are no projects.
    """

    def __init__(self, names: Sequence[str]) -> None:
        folders = label_projects(names)
        self._projects = {label: ServedProject(folders[label], label) for label in folders}
        first, *others = self._projects.values()
        with suppress(EngineError):  # The first search raises it again.
            first.prepare()
        # With several projects, each loads its encoder when it is first searched.
        self._timer = Timer(LOAD_AFTER, first.load)
        self._timer.daemon = True
        if not others:
            self._timer.start()

    def close(self) -> None:
        """Close databases and threads."""
        self._timer.cancel()
        for project in self._projects.values():
            project.close()

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool with arguments that its schema allows. Raises EngineError.

        The tool NAME of assets/assistants/server.json is the method _NAME.
        """
        tool = getattr(self, f"_{name}")
        result: dict[str, Any] = tool(**arguments)
        return result

    def _search(
        self,
        query: str,
        project: str | None = None,
        top: int = 10,
        mode: str | None = None,
        **filters: Any,
    ) -> dict[str, Any]:
        """Search a project, or all. Raises an error only if no project can be searched."""
        # Ask for one more hit, to know whether there are others.
        params = {
            "query": query,
            "mode": read_mode(mode),
            "top": top + 1,
            **filters,
        }
        request = from_json(
            Search,
            {"by_document": True, **params},
            strict=True,
        )
        outcomes: dict[ServedProject, Found | EngineError] = {}
        for searched in self._select(project):
            try:
                found = searched.search(request)
                outcomes[searched] = found.problem or found
            except EngineError as error:
                outcomes[searched] = error
        problems = [outcome for outcome in outcomes.values() if isinstance(outcome, EngineError)]
        if len(problems) == len(outcomes):
            raise problems[0]
        return _format_results(outcomes, top)

    def _fetch(self, id: str) -> dict[str, Any]:
        """Return a document's text and properties.

        Of a long text, the beginning; `next_line` and `next_offset` are the arguments with which
        `get` returns the rest.
        """
        project, document = self._find_document(id)
        lines = document.text.count("\n") + 1
        text = document.text[:MAX_TEXT]
        facts = {
            "project": project.label,
            "path": document.path,
            "type": document.format,
            "author": document.author,
            "tags": document.tags,
            "language": document.language,
            "date": day(date_of(document)),
            "lines": str(lines),
        }
        if len(text) < len(document.text):
            last_line = text.rpartition("\n")[2]
            facts["next_line"] = str(text.count("\n") + 1)
            facts["next_offset"] = str(len(last_line))
        return {
            **_describe_document(project, document),
            "text": text,
            "metadata": {key: value for key, value in facts.items() if value},
        }

    def _get(
        self, id: str, start: int = 1, end: int | None = None, offset: int = 0
    ) -> dict[str, Any]:
        """Return lines of a document, from 1, within `MAX_LINES` and `MAX_TEXT`.

        `offset`: characters of the first line to leave out. A line that is too long is cut, and
        `next_offset` says where it goes on.
        """
        project, document = self._find_document(id)
        lines = document.text.split("\n")
        if end is None:
            end = start + LINES - 1
        last = min(end, len(lines))
        if start > last:
            raise UsageError(
                "There are no such lines.",
                f"The document has {len(lines):,} lines.",
                f"Choose start and end from 1 to {len(lines):,}, start first.",
                code="lines-missing",
            )
        selected = lines[start - 1 : last]
        selected[0] = selected[0][offset:]
        returned = selected[:MAX_LINES]
        # Whole lines, unless the first one alone is too long.
        length = len("\n".join(returned))
        while len(returned) > 1 and length >= MAX_TEXT:
            length -= len(returned.pop()) + 1
        text = "\n".join(returned)
        is_cut = len(text) > MAX_TEXT
        result = {
            **_describe_document(project, document),
            "text": text[:MAX_TEXT],
            "start": start,
            "end": start + len(returned) - 1,
            "lines": len(lines),
            "truncated": is_cut or len(returned) < len(selected),
        }
        if is_cut:
            result["next_offset"] = offset + MAX_TEXT
        return result

    def _similar(self, id: str, top: int = 10) -> dict[str, Any]:
        """Search for documents that resemble the document `id`, in the same project."""
        project, document = self._find_document(id)
        query = f'like:"{document.stable_id}"'
        found = project.search(Search(query, top=top + 1, by_document=True))
        return _format_results({project: found}, top)

    def _facets(self, query: str | None = None, project: str | None = None) -> dict[str, Any]:
        """Count documents by type, author and so on, for one project or for each.

        `query`: count only documents that contain one of its words.
        """
        projects = {}
        is_truncated = False
        for counted in self._select(project):
            facets = counted.facets(query)
            projects[counted.label] = facets
            if any(len(counts) >= MAX_FACETS for counts in facets.values()):
                is_truncated = True
        return {"projects": projects, "truncated": is_truncated}

    def _status(self, project: str | None = None) -> dict[str, Any]:
        """Return what a project contains and how it is searched; without `project`, for each."""
        from engine.core.messages.project import ReadStatus
        from engine.service.status import status  # a first search does without it

        projects = []
        for served in self._select(project):
            state = status(served.folder, ReadStatus())
            encoders = served.encoders().items()
            description = {
                "project": served.label,
                "mode": served.mode if state.built("embed") else "bm25",
                "running": state.running,
                "counts": state.counts,
                "encoders": {mode: asdict(encoder) for mode, encoder in encoders},
                "stages": {stage.stage: f"{stage.state}: {stage.reason}" for stage in state.stages},
            }
            if state.problem:
                description["error"] = to_json(state.problem)
            projects.append(description)
        return {"projects": projects}

    def _select(self, label: str | None) -> list[ServedProject]:
        """Return the project of a label, or all projects."""
        if label is None:
            return list(self._projects.values())
        if label not in self._projects:
            raise project_missing_error([*self._projects])
        return [self._projects[label]]

    def _find_document(self, id: str) -> tuple[ServedProject, Document]:
        """Return a document by its id, and its project.

        An id without a project is looked up in all of them. Raises UsageError.
        """
        label, _, stable_id = id.rpartition(":")
        for project in self._select(label or None):
            document = project.document(stable_id)
            if document:
                return project, document
        raise UsageError(
            "There is no document with this id.",
            "Its file may have been moved or deleted, or the id is incomplete.",
            "Search again, and take the whole id of a hit: PROJECT:ID.",
            code="document-missing",
        )


def _format_results(outcomes: dict[ServedProject, Found | EngineError], top: int) -> dict[str, Any]:
    """Return the first `top` hits, one from each project in turn, and a report of each search."""
    by_project = []
    searched = []
    for project, outcome in outcomes.items():
        if isinstance(outcome, EngineError):
            searched.append({"project": project.label, "error": outcome.as_dict()})
        else:
            by_project.append([_format_hit(project, hit) for hit in outcome.hits])
            searched.append(_format_search(project, outcome))
    turns = chain.from_iterable(zip_longest(*by_project))
    hits = [hit for hit in turns if hit is not None]
    return {
        "results": hits[:top],
        "truncated": len(hits) > top,
        "searched": searched,
    }


def _format_search(project: ServedProject, found: Found) -> dict[str, Any]:
    """Return the report of a project's search."""
    return {
        "project": project.label,
        "mode": _find_answering_mode(found),
        "notes": list(found.notes),
        "suggestion": found.suggestion,
        "reranked": found.reranked.passages if found.reranked else 0,
    }


def _find_answering_mode(found: Found) -> str:
    """Return the ranker of the hits if it is only one, otherwise the mode of the search."""
    rankers: set[str] = set()
    for hit in found.hits:
        rankers.update(hit.rankers)
    if len(rankers) == 1:
        return rankers.pop()
    return found.mode


def _format_hit(project: ServedProject, hit: Hit) -> dict[str, Any]:
    """Return a hit as assistants get it; its URL opens a PDF file at the page."""
    is_page = hit.page and hit.format == "pdf"
    anchor = f"#page={hit.page}" if is_page else ""
    return {
        "id": f"{project.label}:{hit.id}",
        "title": hit.title or hit.path,
        "url": file_url(hit.source, hit.path) + anchor,
        "text": hit.snippet,
        "project": project.label,
        "path": hit.path,
        "line": hit.line,
        "place": hit.page_name,
        "date": day(hit.date),
        "rankers": {name: ranked.rank for name, ranked in hit.rankers.items()},
    }


def _describe_document(project: ServedProject, document: Document) -> dict[str, Any]:
    """Return the id, title and URL of a document."""
    return {
        "id": f"{project.label}:{document.stable_id}",
        "title": document.title or document.path,
        "url": file_url(str(project.folder.path / document.source), document.path),
    }
