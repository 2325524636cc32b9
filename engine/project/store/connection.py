"""A connection to project.db: opening, checks, transactions, backups and errors for users."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from engine.core.errors import (
    DamagedError,
    EngineError,
    InputError,
    ProjectBusyError,
    ResourceError,
    UsageError,
    reason_of,
)
from engine.core.platforms.files import open_private, replace, sync
from engine.project.store.schema import SCHEMA, SCHEMA_VERSION, database_uri

# How long a read-only process waits for a writer that sets up the WAL.
SETTLE_SECONDS = 5.0
# How long a writer waits for another one.
BUSY_SECONDS = 30.0
# Bytes from which copying and checking take notable time: 10 s a GB.
LARGE = 100_000_000
# How long the copy of a large database is good enough, unless damage is met.
KEPT_SECONDS = 7 * 86_400.0
COPY = "project.db.bak"
# Errors on opening a database whose log, the WAL, cannot be written.
_NO_ROOM_FOR_A_LOG = {
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
}


class Database:
    """One connection to project.db.

    Not shared between threads. Every method may raise DamagedError or ResourceError.
    `state_without_log`: None, or for a file that is read without its log, its state when opened
    (`_file_state`).
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        state_without_log: tuple[int, ...] | None = None,
    ) -> None:
        self._db = connection
        self.path = path
        self._state_without_log = state_without_log

    @classmethod
    def create(cls, path: Path) -> Self:
        """Create an empty database.

        Raises EngineError if the file exists.
        """
        if path.exists():
            raise EngineError(
                f"{path} exists already.",
                "A project is created only once.",
                "Open it, or choose another folder.",
                code="project-exists",
            )
        with guarded(path):
            # SQLite's other files get the mode of this one.
            os.close(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
            try:
                connection = connect(path)
                try:
                    connection.executescript(
                        f"BEGIN; {SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
                    )
                except BaseException:
                    connection.close()
                    raise
            except BaseException:
                path.unlink(missing_ok=True)
                raise
        return cls(connection, path)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        check: bool = False,
        busy_seconds: float = BUSY_SECONDS,
    ) -> Self:
        """Open project.db; with `check`, verify every page first.

        `busy_seconds`: how long it waits for another writer. If its log cannot be written, as on a
        read-only or full disk, the file alone is opened for reading, once it holds every commit.
        Raises DamagedError, and UsageError for a newer version's database.
        """
        if not path.is_file():
            raise DamagedError(
                f"{path} is missing.",
                "The project's database is gone.",
                "Run 'engine run' to build it again.",
                code="database-missing",
                command="run",
            )
        deadline = time.monotonic() + SETTLE_SECONDS
        with guarded(path):
            while True:
                try:
                    connection = connect(path, busy_seconds)
                    _check_or_close(connection, path, check)
                    return cls(connection, path)
                except sqlite3.OperationalError as error:
                    if _primary_code(error) not in _NO_ROOM_FOR_A_LOG:
                        raise
                    # The file alone is enough if every commit is in it.
                    if _is_settled(path):
                        state = _file_state(path)
                        connection = connect_for_reading(path)
                        _check_or_close(connection, path, check)
                        return cls(connection, path, state)
                    if time.monotonic() > deadline:
                        raise
                # A process that may write is just opening or closing the database.
                time.sleep(0.05)

    @property
    def is_stale(self) -> bool:
        """Whether a file opened for reading without its log has changed since.

        If so, what was read may be half of a change.
        """
        if self._state_without_log is None:
            return False
        return _file_state(self.path) != self._state_without_log or not _is_settled(self.path)

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    def version(self) -> int:
        """Return a number that changes when another connection has changed the database."""
        return int(self._fetch("PRAGMA data_version")[0][0])

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit every statement of the block together, or none."""
        with guarded(self.path):
            self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            with guarded(self.path):
                self._db.commit()
        except BaseException:
            # A full disk may have rolled back already, or may stop even this.
            with suppress(sqlite3.Error):
                self._db.rollback()
            raise

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo the statements of the block, but not those before it, if the block raises.

        Must be used within a transaction.
        """
        self._execute("SAVEPOINT inner_block")
        try:
            yield
        except BaseException:
            # A full disk may have rolled back everything already.
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK TO inner_block")
                self._db.execute("RELEASE inner_block")
            raise
        self._execute("RELEASE inner_block")

    def _execute(self, sql: str, values: Sequence[Any] = ()) -> None:
        """Execute a statement without a result."""
        self._fetch(sql, values)

    def _fetch(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return all rows of a statement's result."""
        deadline = time.monotonic() + SETTLE_SECONDS
        with guarded(self.path):
            while True:
                try:
                    return self._db.execute(sql, values).fetchall()
                except sqlite3.OperationalError as error:
                    # A reader without the right to write gets this error, too, while a commit is
                    # being written.
                    is_read_only = _primary_code(error) == sqlite3.SQLITE_READONLY
                    if not is_read_only or time.monotonic() > deadline:
                        raise
                time.sleep(0.01)

    def _json(self, text: str) -> Any:
        """Return a value that is stored as JSON."""
        try:
            return json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise note_damage(self.path, f"a value is not JSON ({error})") from None

    @staticmethod
    def is_fresh(
        path: Path,
        copy: Path,
        large: int = LARGE,
    ) -> bool:
        """Return whether a database of more than `large` bytes has been copied recently.

        Then neither another copy nor a check of every page is worth its time.
        """
        try:
            size = path.stat().st_size
            age = time.time() - copy.stat().st_mtime
        except OSError:
            return False
        return size > large and 0 <= age < KEPT_SECONDS

    def backup(self, target: Path) -> None:
        """Write a consistent copy to `target`.

        It replaces an existing one only when complete and synced.
        """
        temporary = target.with_suffix(".tmp")
        with guarded(self.path, temporary):
            try:
                temporary.unlink(missing_ok=True)
                self._db.execute("VACUUM INTO ?", (str(temporary),))
                temporary.chmod(0o600)
                # SQLite does not sync the copy.
                sync(temporary)
                replace(temporary, target)
            except BaseException:
                with suppress(OSError):
                    temporary.unlink(missing_ok=True)
                raise


def connect(path: Path, busy_seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
    """Open a database for reading and writing, with the project's pragmas."""
    connection = sqlite3.connect(
        path,
        timeout=busy_seconds,
        isolation_level=None,
    )
    try:
        connection.create_function(
            "sha256",
            1,
            _sha256,
            deterministic=True,
        )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        # Deleted text must not stay in free pages.
        connection.execute("PRAGMA secure_delete = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _sha256(text: str | None) -> str:
    """Return the hex sha256 of a text, empty for none; statements call it as a function."""
    if text:
        return hashlib.sha256(text.encode()).hexdigest()
    return ""


def connect_for_reading(path: Path) -> sqlite3.Connection:
    """Open a file that cannot be written to, on a full or read-only disk.

    WAL mode would need room for its files there.
    """
    uri = database_uri(path.absolute(), "mode=ro&immutable=1")
    return sqlite3.connect(
        uri,
        uri=True,
        isolation_level=None,
    )


def _is_settled(path: Path) -> bool:
    """Return whether all commits are in the file itself, so that it may be read without its log."""
    try:
        return Path(f"{path}-wal").stat().st_size == 0
    except FileNotFoundError:
        # The last writer removes its log when it closes.
        return True


def _file_state(path: Path) -> tuple[int, ...]:
    """Return values that change when a file is written or replaced; none if it is gone."""
    with suppress(OSError):
        status = path.stat()
        return status.st_ino, status.st_size, status.st_mtime_ns
    return ()


def _check_or_close(
    connection: sqlite3.Connection,
    path: Path,
    every_page: bool,
) -> None:
    """Do as `check_schema`; close the connection if that raises."""
    try:
        check_schema(connection, path, every_page)
    except BaseException:
        connection.close()
        raise


def check_schema(
    connection: sqlite3.Connection,
    path: Path,
    every_page: bool,
) -> None:
    """Raise UsageError for a newer schema, DamagedError for any other mismatch or a bad page."""
    with closing(connection.execute("PRAGMA user_version")) as cursor:
        version = cursor.fetchone()[0]
    if version > SCHEMA_VERSION:
        raise UsageError(
            f"{path} has schema version {version}; this program reads {SCHEMA_VERSION}.",
            "It was written by a newer version of this program.",
            "Use that version, or create a new project over the same documents.",
            code="database-too-new",
        )
    if 0 < version < SCHEMA_VERSION:
        raise DamagedError(
            f"{path} was written by an older version of this program.",
            f"Its schema has version {version}; this program reads {SCHEMA_VERSION}.",
            "Run 'engine run': it builds the project again from the documents. Judgments and"
            " settings are kept.",
            code="database-outdated",
            command="run",
        )
    if version != SCHEMA_VERSION:
        raise note_damage(path, f"its schema has version {version}")
    if every_page:
        with closing(connection.execute("PRAGMA quick_check(1)")) as cursor:
            report = cursor.fetchone()[0]
        if report != "ok":
            raise note_damage(path, report)


def note_damage(path: Path, detail: str) -> DamagedError:
    """Make the next run check every page, however recent the last copy is, and return the error."""
    with suppress(OSError):
        os.utime(path.with_name(COPY), (0, 0))
    to_do = "Run 'engine run': it restores the last good copy and builds the rest again."
    return DamagedError(
        f"{path} is damaged.",
        f"SQLite says: {detail}.",
        to_do,
        code="database-damaged",
        command="run",
    )


@contextmanager
def guarded(path: Path, written: Path | None = None) -> Iterator[None]:
    """Turn SQLite's exceptions into errors that a user can act on.

    `written`: the file that is written, if it is not `path`.
    """
    try:
        yield
    except sqlite3.ProgrammingError:
        # This is a fault of this program, not of the file.
        raise
    except UnicodeEncodeError as error:
        raise InputError(
            "A text or a file's name cannot be stored.",
            f"It holds bytes that are not text: character {error.start + 1:,} of"
            f" {len(error.object):,}.",
            "Rename the file, or save it as UTF-8.",
            code="text-not-storable",
        ) from error
    except UnicodeDecodeError as error:
        # SQLite quotes a damaged page in its message.
        raise note_damage(path, f"it holds bytes that are not text ({error.reason})") from error
    except OSError as error:
        to_do = "Check the disk's space and the folder's permissions."
        raise ResourceError(
            f"{written or path} could not be written.", reason_of(error), to_do, code="write-failed"
        ) from error
    except sqlite3.DatabaseError as error:
        raise _explain(
            error,
            path,
            written or path,
        ) from error


def _primary_code(error: sqlite3.Error) -> int:
    """Return the primary code of an SQLite error; the higher bits of its code are details."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _explain(
    error: sqlite3.DatabaseError,
    path: Path,
    written: Path,
) -> EngineError:
    """Return the error for users; `path`: the database, `written`: the file that was written."""
    text = str(error)
    code = _primary_code(error)
    if code == sqlite3.SQLITE_FULL:
        return ResourceError(
            f"{written} could not be written.",
            f"SQLite says: {text}.",
            "Free some space on its disk and run again.",
            code="disk-full",
            command="run",
        )
    if code == sqlite3.SQLITE_IOERR:
        return ResourceError(
            f"{written} could not be read or written.",
            f"SQLite says: {text}.",
            "Check that its disk is there and has free space, then run again.",
            code="write-failed",
            command="run",
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        to_do = "Try again when the other program is done."
        return ProjectBusyError("The project's database is busy.", text, to_do)
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
        return EngineError(
            f"{path} cannot be opened.", text, "Check the folder's permissions.", code="file-access"
        )
    return note_damage(path, text)
