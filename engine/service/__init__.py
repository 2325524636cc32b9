"""Service: what a user interface asks of a project besides searching, as methods of `engine serve`.

In: JSON params. Out: tasks that give JSON. A method checks its params at once (TypeError or ValueError where they are
wrong) and returns the task, which the server does later, in order, on a thread of its own; the task may raise any
EngineError. Nothing heavy is imported before a task needs it. What writes, but for `change`, holds the project's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from engine.project.folder import ProjectFolder
from engine.service.answers import METHODS as ANSWERS
from engine.service.documents import METHODS as DOCUMENTS
from engine.service.judging import METHODS as JUDGING
from engine.service.options import METHODS as OPTIONS
from engine.service.queries import METHODS as QUERIES
from engine.service.standing import METHODS as STANDING

Task = Callable[[], Any]


def methods(project: ProjectFolder) -> Mapping[str, Callable[..., Task]]:
    """The methods of one project by name; each is called with a request's params as keywords."""
    tables = (STANDING, OPTIONS, DOCUMENTS, QUERIES, JUDGING, ANSWERS)
    return {name: partial(method, project) for table in tables for name, method in table.items()}
