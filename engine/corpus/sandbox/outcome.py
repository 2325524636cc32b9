"""What a reading process may use, and what came of a file."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.core.records import Kind, ReadDocument
from engine.corpus.formats import LeftOut


@dataclass(frozen=True, slots=True)
class Limits:
    """Of each reading process: address space in bytes, and files until it is renewed. `seconds`: for a file, or one thing
    inside it; a file as a whole has `whole` times as many, and a second more for each MB. `ocr_seconds`: of OCR, for a file.
    """

    memory: int = 2 * 2**30
    seconds: int = 60
    files: int = 2000
    ocr_seconds: int = 1800
    whole: int = 20

    def of_whole(self, size: int) -> float:
        """Seconds for a file of `size` bytes and all that is inside it, OCR apart."""
        return self.seconds * self.whole + size / 1e6


@dataclass(slots=True)
class Outcome:
    """What came of one file: its documents and what inside it was left out; or `kind` and `reason` why it gave nothing.

    `closed`: the system did not let us read it, which says nothing about its content.
    """

    documents: list[ReadDocument] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    kind: Kind = ""
    reason: str = ""
    closed: bool = False
    _seen: set[str] = field(default_factory=set)

    def keep(self, found: ReadDocument | LeftOut) -> None:
        """Add a finding; one that is known already, as a second reading of a file does, changes nothing."""
        if found.member in self._seen:
            return
        self._seen.add(found.member)
        if isinstance(found, LeftOut):
            self.left_out.append(found)
        else:
            self.documents.append(found)

    @property
    def length(self) -> int:
        """Characters of all its documents."""
        return sum(len(document.text) for document in self.documents)

    def give_up(self, kind: Kind, reason: str) -> None:
        """The rest of the file cannot be read: what came of it before stays."""
        if self.documents:
            self.left_out.append(LeftOut("…", "quarantined", kind, f"the rest was given up: {reason}"))
        else:
            self.kind, self.reason = kind, reason
