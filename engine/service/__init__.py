"""Service: what a user interface asks of a project besides searching, as methods of `engine
serve`.

In: JSON params. Out: tasks that give JSON. A method checks its params at once (TypeError or
    ValueError where they are
wrong) and returns the task, which the server does later, in order, on a thread of its own; the task
may raise any EngineError. Nothing heavy is imported before a task needs it. What writes, but for
`change`, holds the project's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from engine.core.messages.wire import Request, params_of, to_json
from engine.project.folder import ProjectFolder
from engine.service import answers, documents, judging, options, preferring, queries, status

Task = Callable[[], Any]
HANDLERS: dict[type[Request[Any]], Callable[[ProjectFolder, Any], Any]] = {
    kind: handler
    for module in (status, options, documents, queries, judging)
    for kind, handler in module.HANDLERS.items()
}


def methods(project: ProjectFolder) -> Mapping[str, Callable[..., Task]]:
    """The methods of one project by name; each is called with a request's params as keywords."""
    handlers = {**HANDLERS, **answers.Answering().handlers, **preferring.Comparing().handlers}
    return {
        kind.method: partial(_task, project, kind, handler) for kind, handler in handlers.items()
    }


def _task(
    project: ProjectFolder,
    kind: type[Request[Any]],
    handler: Callable[[ProjectFolder, Any], Any],
    /,
    **params: Any,
) -> Task:
    request = params_of(kind, params)
    return lambda: to_json(handler(project, request))
