"""The projects that a server of this room serves."""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.errors import UsageError
from engine.core.text import short_names
from engine.project.folder import ProjectFolder, known_projects


def labelled(names: Sequence[str]) -> dict[str, ProjectFolder]:
    """The named projects, all where none is named, by `short_names`. Raises UsageError without any."""
    folders = [ProjectFolder.open(name) for name in dict.fromkeys(names or map(str, known_projects()))]
    if not folders:
        raise UsageError(
            "There are no projects yet.", "No project was named.", "Make one with 'engine new'.",
            code="project-missing", command="new",
        )  # fmt: skip
    names_of = short_names([one.path for one in folders])
    return {names_of[one.path]: one for one in folders}


def no_project(labels: Sequence[str], *, named: bool = True) -> UsageError:
    """The error of a label that is none of these, or where one of several is to be `named`."""
    what = "There is no such project here." if named else "No project is named, and there are several."
    return UsageError(what, f"Projects: {', '.join(labels)}.", "Name one of these.", code="project-missing")
