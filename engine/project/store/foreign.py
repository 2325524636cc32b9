"""Whether a database from elsewhere has the tables of a project and nothing that computes: a view can take for ever to read."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from engine.project.store.schema import SCHEMA

_ALL = "SELECT type, name, rootpage FROM sqlite_master"
_COMPUTED = "SELECT 1 FROM pragma_table_xinfo(?) WHERE hidden"


def foreign_part(path: Path) -> str:
    """A view, trigger, virtual table, table with generated columns or other part that no project has, as a sentence has it; empty
    where there is none, and for what is no database at all."""
    with closing(sqlite3.connect(":memory:")) as own:
        own.executescript(SCHEMA)
        known = {(kind, name) for kind, name, _ in own.execute(_ALL)}
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as found:
        for kind, name, page in found.execute(_ALL).fetchall():
            is_known = (kind, name) in known or name.startswith("sqlite_")
            if not (is_known and page) or found.execute(_COMPUTED, (name,)).fetchone():
                return f"the {kind} {name!r}"
    return ""
