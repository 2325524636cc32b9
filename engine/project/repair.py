"""Replace a damaged project database by its last good copy."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from engine.core.errors import DamagedError, UsageError
from engine.core.platforms.files import open_private, replace, sync
from engine.project.store.connection import COPY
from engine.project.store.store import Store


@dataclass(frozen=True, slots=True)
class Repair:
    """What was done to a damaged database."""

    damage: DamagedError  # Why it was replaced.
    aside: Path | None  # Where the damaged file lies now; None if there was no file.
    restored: bool  # The copy of the last good run was restored; otherwise the database is empty.

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
    """Check a project's database; replace a damaged one by its last good copy or an empty one.

    Returns None for a sound database. A damaged one is set aside. A large database that was copied
    recently (and so read page by page) is only opened. The caller holds the project's lock. Raises
    OSError, and UsageError for a newer version's database.
    """
    database = folder / "project.db"
    backup = folder / COPY
    try:
        Store.open(database, check=not Store.is_fresh(database, backup)).close()
        return None
    except DamagedError as error:
        damage = error
    replacement = _copy_backup(backup)
    aside = _set_aside(database)
    if replacement is None:
        Store.create(database).close()
    else:
        replace(replacement, database)
        sync(folder)
    return Repair(
        damage,
        aside,
        replacement is not None,
    )


def _copy_backup(backup: Path) -> Path | None:
    """Return a private, checked copy of the backup, ready to be renamed; None without one."""
    if not backup.is_file():
        return None
    temporary = backup.with_name(".tmp-project.db")
    for suffix in ("-wal", "-shm"):
        Path(f"{temporary}{suffix}").unlink(missing_ok=True)
    descriptor = open_private(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
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
    """Rename a damaged database and SQLite's files; return its new path, None without a file."""
    stem = f"project.db.damaged-{int(time.time())}"
    aside = database.with_name(stem)
    number = 1
    while aside.exists():
        number += 1
        aside = database.with_name(f"{stem}-{number}")
    moved = False
    for suffix in ("", "-wal", "-shm"):
        source = Path(f"{database}{suffix}")
        if source.exists():
            replace(source, Path(f"{aside}{suffix}"))
            moved = True
    return aside if moved else None
