"""Puts the last good copy of a project's database in a damaged one's place."""

from __future__ import annotations

import itertools
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from engine.core.disk import sync
from engine.core.errors import DamagedError, UsageError
from engine.project.store.connection import COPY
from engine.project.store.store import Store


@dataclass(frozen=True, slots=True)
class Repair:
    """What was done to a database.

    `damage`: why; `aside`: where the damaged one lies, None where there was none; `restored`:
    whether the copy of the last good run is in its place, else it is an empty one.
    """

    damage: DamagedError
    aside: Path | None
    restored: bool

    def __str__(self) -> str:
        if self.aside:
            aside = f" It was set aside as {self.aside.name}."
        else:
            aside = ""
        if self.restored:
            end = "The copy of the last good run was restored."
        else:
            end = "It is built again from the documents and the imports folder."
        return f"{self.damage.what}{aside} {end}"


def repair(folder: Path) -> Repair | None:
    """Check a project's database, and replace a damaged one by the copy of the last good run,
    else by an empty one.

    The caller holds the project's lock. None where the database is sound; a damaged one stays, set
    aside. A large one that has just been copied, page by page, is only opened. Raises OSError, and
    UsageError for a newer version's database.
    """
    database = folder / "project.db"
    backup = folder / COPY
    try:
        Store.open(database, check=not Store.is_fresh(database, backup)).close()
        return None
    except DamagedError as error:
        damage = error
    good = _good_copy(backup)
    aside = _set_aside(database)
    if good is None:
        Store.create(database).close()
    else:
        good.replace(database)
        sync(folder)
    return Repair(damage, aside, good is not None)


def _good_copy(backup: Path) -> Path | None:
    """A private, checked copy of the backup, to be renamed into place; None where there is no
    good backup.
    """
    if not backup.is_file():
        return None
    temporary = backup.with_name(".tmp-project.db")
    for suffix in ("-wal", "-shm"):
        Path(f"{temporary}{suffix}").unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as target, backup.open("rb") as source:
        shutil.copyfileobj(source, target)
        target.flush()
        os.fsync(target.fileno())
    try:
        Store.open(temporary, check=True).close()
    except (DamagedError, UsageError):
        temporary.unlink()
        return None
    return temporary


def _set_aside(database: Path) -> Path | None:
    """Rename a damaged database, with SQLite's files beside it; its new path, None where there
    was no file.
    """
    stem = f"project.db.damaged-{int(time.time())}"
    names = (stem if number == 1 else f"{stem}-{number}" for number in itertools.count(1))
    aside = next(
        database.with_name(name) for name in names if not database.with_name(name).exists()
    )
    moved = False
    for suffix in ("", "-wal", "-shm"):
        source = Path(f"{database}{suffix}")
        if source.exists():
            source.replace(Path(f"{aside}{suffix}"))
            moved = True
    return aside if moved else None
