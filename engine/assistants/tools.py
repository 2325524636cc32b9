"""What an assistant can ask of projects.

Nothing is changed; documents are named `PROJECT:ID`, with the id that no run changes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import chain, zip_longest
from threading import Timer
from typing import Any
from urllib.parse import quote

from engine.assistants.served import ServedProject, labelled, no_project
from engine.core.errors import EngineError, UsageError
from engine.core.messages.search import MAX_FACETS, MODE_OF_NAME, Found, Hit
from engine.core.messages.wire import to_json
from engine.core.records import Document
from engine.core.text import day
from engine.search.filters import date_of

LINES = 200
MAX_LINES = 1_000
MAX_TEXT = 50_000  # characters
LOAD_AFTER = 2.0  # seconds, in which a first search is not disturbed


class ProjectTools:
    """The tools over some projects, all where none is named.

    Raises UsageError where there is none. For one thread.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._projects = {
            label: ServedProject(one, label) for label, one in labelled(names).items()
        }
        first = next(iter(self._projects.values()))
        with suppress(EngineError):  # a search says so
            first.prepare()
        self._timer = Timer(LOAD_AFTER, first.load) if len(self._projects) == 1 else None
        if self._timer:
            self._timer.daemon = True
            self._timer.start()

    def close(self) -> None:
        """Let go of databases and threads."""
        if self._timer:
            self._timer.cancel()
        for project in self._projects.values():
            project.close()

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The result of a tool for arguments that its schema allows. Raises EngineError."""
        found: dict[str, Any] = getattr(self, f"_{name}")(**arguments)
        return found

    def _search(
        self,
        query: str,
        project: str | None = None,
        top: int = 10,
        mode: str | None = None,
        **filters: Any,
    ) -> dict[str, Any]:
        if mode is None:
            wanted = {}
        else:
            wanted = {"mode": MODE_OF_NAME[mode]}
        found: dict[ServedProject, Found | EngineError] = {}
        for one in self._named(project):
            try:
                answer = one.search(query=query, top=top + 1, by_document=True, **filters, **wanted)
                found[one] = answer.problem or answer
            except EngineError as error:
                found[one] = error
        problems = [one for one in found.values() if isinstance(one, EngineError)]
        if len(problems) == len(found):
            raise problems[0]
        return _as_results(found, top)

    def _fetch(self, id: str) -> dict[str, Any]:
        project, document = self._document(id)
        lines = document.text.count("\n") + 1
        text = document.text[:MAX_TEXT]
        facts = {
            "project": project.label,
            "path": document.path,
            "type": document.format,
            "author": document.author,
            "language": document.language,
            "date": day(date_of(document)),
            "lines": str(lines),
        }
        if len(text) < len(document.text):
            before = text.rpartition("\n")[2]
            facts.update(next_line=str(text.count("\n") + 1), next_offset=str(len(before)))
        return {
            **_head(project, document),
            "text": text,
            "metadata": {key: one for key, one in facts.items() if one},
        }

    def _get(
        self, id: str, start: int = 1, end: int | None = None, offset: int = 0
    ) -> dict[str, Any]:
        project, document = self._document(id)
        lines = document.text.split("\n")
        end = start + LINES - 1 if end is None else end
        if not start <= min(end, len(lines)):
            raise UsageError(
                "There are no such lines.",
                f"The document has {len(lines):,} lines.",
                f"Choose start and end from 1 to {len(lines):,}, start first.",
                code="lines-missing",
            )
        wanted = lines[start - 1 : min(end, len(lines))]
        wanted[0] = wanted[0][offset:]
        shown = wanted[:MAX_LINES]
        while len(shown) > 1 and sum(map(len, shown)) + len(shown) > MAX_TEXT:
            shown.pop()
        text = "\n".join(shown)
        return {
            **_head(project, document),
            "text": text[:MAX_TEXT],
            "start": start,
            "end": start + len(shown) - 1,
            "lines": len(lines),
            "truncated": len(shown) < len(wanted) or len(text) > MAX_TEXT,
            **({"next_offset": offset + MAX_TEXT} if len(text) > MAX_TEXT else {}),
        }

    def _similar(self, id: str, top: int = 10) -> dict[str, Any]:
        project, document = self._document(id)
        query = f'like:"{document.stable_id}"'
        return _as_results(
            {project: project.search(query=query, top=top + 1, by_document=True)}, top
        )

    def _facets(self, query: str | None = None, project: str | None = None) -> dict[str, Any]:
        found = {one.label: one.facets(query) for one in self._named(project)}
        full = any(
            len(counts) >= MAX_FACETS for kinds in found.values() for counts in kinds.values()
        )
        return {"projects": found, "truncated": full}

    def _status(self, project: str | None = None) -> dict[str, Any]:
        from engine.core.messages.project import ReadStatus
        from engine.service.status import status  # a first search does without it

        found = []
        for one in self._named(project):
            now = status(one.folder, ReadStatus())
            found.append(
                {
                    "project": one.label,
                    "mode": one.mode if now.built("embed") else "bm25",
                    "running": now.running,
                    "counts": now.counts,
                    "encoders": {mode: asdict(encoder) for mode, encoder in one.encoders().items()},
                    "stages": {
                        stage.stage: f"{stage.state}: {stage.reason}" for stage in now.stages
                    },
                    **({"error": to_json(now.problem)} if now.problem else {}),
                }
            )
        return {"projects": found}

    def _named(self, label: str | None) -> list[ServedProject]:
        if label is None:
            return list(self._projects.values())
        if label not in self._projects:
            raise no_project([*self._projects])
        return [self._projects[label]]

    def _document(self, id: str) -> tuple[ServedProject, Document]:
        """The document of an id, with its project, which an id may leave out where there is only
        one.
        """
        label, _, stable_id = id.rpartition(":")
        for project in self._named(label or None)[:1]:
            if document := project.document(stable_id):
                return project, document
        raise UsageError(
            "There is no document with this id.",
            "Its file may have been moved or deleted, or the id is incomplete.",
            "Search again, and take the whole id of a hit: PROJECT:ID.",
            code="document-missing",
        )


def _as_results(found: dict[ServedProject, Found | EngineError], top: int) -> dict[str, Any]:
    """The first `top` hits, projects taking turns, and what to know of each search."""
    answered = {project: one for project, one in found.items() if isinstance(one, Found)}
    turns = chain(
        *zip_longest(*([(project, hit) for hit in one.hits] for project, one in answered.items()))
    )
    hits = [_as_result(*one) for one in turns if one]
    searched = [
        (
            {
                "project": project.label,
                "mode": _mode(one),
                "notes": list(one.notes),
                "suggestion": one.suggestion,
                "reranked": one.reranked.passages if one.reranked else 0,
            }
            if isinstance(one, Found)
            else {"project": project.label, "error": one.as_dict()}
        )
        for project, one in found.items()
    ]
    return {"results": hits[:top], "truncated": len(hits) > top, "searched": searched}


def _mode(found: Found) -> str:
    """What has answered: of hybrid search, the one ranker where only one has."""
    rankers = {name for hit in found.hits for name in hit.rankers}
    if len(rankers) == 1:
        return rankers.pop()
    return found.mode


def _as_result(project: ServedProject, hit: Hit) -> dict[str, Any]:
    if hit.page and hit.format == "pdf":
        anchor = f"#page={hit.page}"
    else:
        anchor = ""
    return {
        "id": f"{project.label}:{hit.id}",
        "title": hit.title or hit.path,
        "url": _url(hit.source, hit.path) + anchor,
        "text": hit.snippet,
        "project": project.label,
        "path": hit.path,
        "line": hit.line,
        "place": hit.page_name,
        "date": day(hit.date),
        "rankers": {name: ranked.rank for name, ranked in hit.rankers.items()},
    }


def _head(project: ServedProject, document: Document) -> dict[str, str]:
    return {
        "id": f"{project.label}:{document.stable_id}",
        "title": document.title or document.path,
        "url": _url(str(project.folder.path / document.source), document.path),
    }


def _url(source: str, path: str) -> str:
    return "file://" + quote(os.fsencode(f"{source}/{path}"))
