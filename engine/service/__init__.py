"""Methods of `engine serve` for user interfaces, for everything except search.

In: JSON params. Out: tasks that return JSON. Nothing heavy is imported before a task needs it;
every method that writes, except `change`, holds the project's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from engine.core.messages.wire import Request, from_json, to_json
from engine.project.folder import ProjectFolder
from engine.service import answers, documents, judging, options, preferring, queries, status

Task = Callable[[], Any]
HANDLERS: dict[type[Request[Any]], Callable[[ProjectFolder, Any], Any]] = {}
"""Type of a request → the function that answers it."""
for module in (status, options, documents, queries, judging):
    HANDLERS.update(module.HANDLERS)


def methods(project: ProjectFolder) -> Mapping[str, Callable[..., Task]]:
    """Return the methods of a project by name, to be called with a request's params as keywords.

    A method checks its params at once, and raises TypeError or ValueError if they are invalid. It
    returns a task that the server runs later, in order, on another thread; the task may raise any
    EngineError.
    """
    handlers = {
        **HANDLERS,
        **answers.AnswerWriter().handlers,
        **preferring.ListComparer().handlers,
    }
    return {
        kind.method: partial(_build_task, project, kind, handler)
        for kind, handler in handlers.items()
    }


def _build_task(
    project: ProjectFolder,
    kind: type[Request[Any]],
    handler: Callable[[ProjectFolder, Any], Any],
    /,
    **params: Any,
) -> Task:
    """Return a task that handles a request with these params.

    The other parameters are positional-only, so that params may have names such as `project`.
    """
    request = from_json(
        kind,
        params,
        strict=True,
    )
    return lambda: to_json(handler(project, request))
