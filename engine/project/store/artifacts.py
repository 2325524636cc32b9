"""Table of the current artifact of every kind."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Generic, TypeVar

from engine.project.store.artifact_info import KINDS, ArtifactInfo
from engine.project.store.connection import Database

INCOMPLETE = "incomplete"
Info = TypeVar(
    "Info",
    bound=ArtifactInfo,
    covariant=True,
)


@dataclass(frozen=True, slots=True)
class Artifact(Generic[Info]):
    """The current artifact of a kind: the record of its stage, its fingerprint and its folder.

    The folder is relative to the project.
    """

    info: Info
    fingerprint: str
    folder: str = ""


class ArtifactTables(Database):
    """The artifacts that the stages have put in place."""

    def replace_artifact(self, artifact: Artifact[ArtifactInfo]) -> None:
        """Make an artifact the current one of its kind, within a transaction of the caller."""
        info = json.dumps(artifact.info.to_dict())
        self._execute(
            "INSERT OR REPLACE INTO artifacts (kind, fingerprint, folder, created, info) VALUES (?,"
            " ?, ?, ?, ?)",
            (artifact.info.kind, artifact.fingerprint, artifact.folder, time.time(), info),
        )

    def put_artifact(
        self, artifact: Artifact[ArtifactInfo], *, instead_of: type[ArtifactInfo] | None = None
    ) -> None:
        """Make an artifact, already complete on disk, the current one of its kind.

        The artifact of the kind `instead_of` is removed in the same transaction; its folder is
        swept later.
        """
        with self.transaction():
            self.replace_artifact(artifact)
            if instead_of is not None:
                self._execute("DELETE FROM artifacts WHERE kind = ?", (instead_of.kind,))

    def mark_incomplete(self, kind: type[ArtifactInfo]) -> None:
        """Mark a kind as incomplete until an artifact of it is put again.

        Must be called within the transaction that begins to change what the artifact describes.
        """
        self._execute(
            """INSERT INTO artifacts (kind, fingerprint, folder, created, info) VALUES (?, ?, '', 0, '{}')
            ON CONFLICT (kind) DO UPDATE SET fingerprint = excluded.fingerprint""",  # noqa: E501
            (kind.kind, INCOMPLETE),
        )

    def artifact(self, kind: type[Info]) -> Artifact[Info] | None:
        """Return the current artifact of a kind, None if there is none."""
        rows = self._fetch(
            "SELECT info, fingerprint, folder FROM artifacts WHERE kind = ?", (kind.kind,)
        )
        if rows:
            return self._read_artifact(kind, *rows[0])
        return None

    def artifacts(self) -> dict[str, Artifact[ArtifactInfo]]:
        """Return every current artifact by kind."""
        rows = self._fetch("SELECT kind, info, fingerprint, folder FROM artifacts")
        return {
            kind: self._read_artifact(KINDS.get(kind, ArtifactInfo), *row) for kind, *row in rows
        }

    def _read_artifact(
        self, kind: type[Info], info: str, fingerprint: str, folder: str
    ) -> Artifact[Info]:
        """Return the artifact in a row of the table. `info`: its record as JSON."""
        return Artifact(
            kind.from_dict(self._json(info)),
            fingerprint,
            folder,
        )
