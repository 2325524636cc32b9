"""The current artifact of every kind."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from engine.project.store.connection import Database, guarded

INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True)
class Artifact:
    """The current artifact of a kind: its fingerprint, its folder (relative to the project) and what its stage noted."""

    kind: str
    fingerprint: str
    folder: str
    created: float
    info: dict[str, Any]


class ArtifactTables(Database):
    """What the stages have put in place."""

    def _put_artifact(self, artifact: Artifact) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO artifacts (kind, fingerprint, folder, created, info) VALUES (?, ?, ?, ?, ?)",
            (artifact.kind, artifact.fingerprint, artifact.folder, artifact.created, json.dumps(artifact.info)),
        )

    def put_artifact(self, artifact: Artifact) -> None:
        """Make an artifact, already complete on disk, the current one of its kind."""
        with self.transaction(), guarded(self.path):
            self._put_artifact(artifact)

    def mark_incomplete(self, kind: str) -> None:
        """Within the transaction that begins to change what a kind stands for: it is not done until it is put again."""
        self._rows(
            """INSERT INTO artifacts (kind, fingerprint, folder, created, info) VALUES (?, ?, '', 0, '{}')
            ON CONFLICT (kind) DO UPDATE SET fingerprint = excluded.fingerprint""",
            (kind, INCOMPLETE),
        )

    def artifact(self, kind: str) -> Artifact | None:
        """The current artifact of a kind, if there is one."""
        return self._artifacts("WHERE kind = ?", kind).get(kind)

    def artifacts(self) -> dict[str, Artifact]:
        """Every current artifact by kind."""
        return self._artifacts("")

    def _artifacts(self, where: str, *values: str) -> dict[str, Artifact]:
        rows = self._rows(f"SELECT kind, fingerprint, folder, created, info FROM artifacts {where}", values)
        return {row[0]: Artifact(row[0], row[1], row[2], row[3], self._json(row[4])) for row in rows}
