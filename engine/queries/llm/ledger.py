"""The answers of a language model so far, so that no chunk is asked about twice.

A ledger is a file with one JSON object per line.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.core.disk import write_text
from engine.core.platforms.files import delete_file, open_private
from engine.core.records import Chunk, QueryKind
from engine.llm.shapes import replace_surrogates
from engine.project.folder import ProjectFolder
from engine.queries.llm.answer import Answer, Dropped, Item
from engine.queries.rejection import read_reason

PATTERN = "answers-*.jsonl"


def passage_key(chunk: Chunk, title: str) -> str:
    """Return the key of a chunk in the ledger: a hash of all that a prompt shows of it."""
    text = json.dumps([title, chunk.headings, chunk.text])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class Ledger:
    """The answers of one recipe, in `cache/answers-RECIPE.jsonl`.

    Each answer is written to disk before the next is requested.
    """

    def __init__(self, project: ProjectFolder, recipe: str) -> None:
        self.path = project.path / "cache" / f"answers-{recipe}.jsonl"
        self.path.parent.mkdir(mode=0o700, exist_ok=True)
        self._file = open_private(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        data = self.path.read_bytes()
        complete_size = data.rfind(b"\n") + 1  # bytes of complete lines
        if complete_size < len(data):  # A crash left an incomplete line.
            os.ftruncate(self._file, complete_size)
        self._answers = {key: answer for key, answer, _ in _read_lines(data[:complete_size])}

    def get(self, key: str) -> Answer | None:
        """Return the final answer of a chunk, or None."""
        answer = self._answers.get(key)
        if answer is not None and answer.is_final:
            return answer
        return None

    def was_refused(self, key: str) -> bool:
        """Return whether a server refused this chunk in an earlier run but has answered others.

        It may well refuse the chunk forever.
        """
        answer = self._answers.get(key)
        if answer is None or answer.is_final or not answer.refused:
            return False
        return any(not other.problem for other in self._answers.values())

    def add(self, key: str, answer: Answer) -> Answer:
        """Write an answer to disk, and return it as it will be read back."""
        as_read = replace(
            answer,
            items=tuple(answer.items),
            dropped=tuple(answer.dropped),
            seconds=round(answer.seconds, 3),
        )
        data = {
            "key": key,
            "items": as_read.items,
            "lost": [[*dropped.item, dropped.reason] for dropped in as_read.dropped],
            "problem": as_read.problem,
            "lasting": as_read.lasting,
            "seconds": as_read.seconds,
            "refused": as_read.refused,
        }
        line = (json.dumps(data) + "\n").encode()
        size_before = os.fstat(self._file).st_size
        try:
            if os.write(self._file, line) < len(line):
                raise OSError(
                    errno.ENOSPC,
                    os.strerror(errno.ENOSPC),
                    str(self.path),
                )
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, size_before)
            raise
        self._answers[key] = as_read
        return as_read

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def answer_files(project: ProjectFolder) -> list[Path]:
    """Return the ledgers of all recipes ever used."""
    return sorted((project.path / "cache").glob(PATTERN))


def delete_other_answers(project: ProjectFolder, keys: Collection[str]) -> None:
    """Delete the answers of all recipes, except those with these keys (`passage_key`).

    Answers quote documents, and quotes of deleted text must not remain.
    """
    for path in answer_files(project):
        kept_lines = []
        has_others = False
        data = path.read_bytes()
        complete_size = data.rfind(b"\n") + 1
        for key, _, line in _read_lines(data[:complete_size]):
            if key in keys:
                kept_lines.append(line)
            else:
                has_others = True
        if not kept_lines:
            delete_file(path)
        elif has_others:
            write_text(path, "".join(kept_lines))


def _read_lines(data: bytes) -> Iterator[tuple[str, Answer, str]]:
    """Yield key, answer and text of every readable line."""
    for line in data.split(b"\n"):
        try:
            entry = json.loads(line)
            yield str(entry["key"]), _read_answer(entry), line.decode() + "\n"
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue


def _read_item(
    question: str,
    evidence: str,
    kind: QueryKind,
) -> Item:
    """Return an item with its lone surrogates, which no file can hold, replaced."""
    return Item(
        replace_surrogates(str(question)),
        replace_surrogates(str(evidence)),
        kind,
    )


def _read_answer(data: dict[str, Any]) -> Answer:
    """Read an entry that `Ledger.add` has written."""
    dropped = []
    for question, evidence, kind, words in data["lost"]:
        reason, _ = read_reason(str(words))
        item = _read_item(question, evidence, kind)
        dropped.append(Dropped(item, reason or str(words)))
    items = [_read_item(*item) for item in data["items"]]
    return Answer(
        tuple(items),
        tuple(dropped),
        str(data["problem"]),
        bool(data["lasting"]),
        bool(data["refused"]),
        float(data["seconds"]),
    )
