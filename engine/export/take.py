"""An export from beginning to end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from engine.core.disk import file_sha256
from engine.core.messages.project import Exported
from engine.export.card import facts, write_cards
from engine.export.folder import checked_target, complete_or_absent
from engine.export.kinds import ALL, DEFAULT, Kind, available, parse_kinds
from engine.export.source import Source
from engine.project.folder import ProjectFolder

MANIFEST = "manifest.json"


def export_project(
    project: ProjectFolder,
    target: Path,
    kinds: Iterable[str] | None = None,
    *,
    report: Callable[[str], None] = lambda _text: None,
) -> Exported:
    """Write an export into `target`, a folder that is not there yet: complete, or not at all.

    `kinds`: names of `KINDS`; each of them must be there. None: adapter and model; ("all",):
        everything; of these two what
    the project lacks is left out. `report` gets a line for every kind begun. Raises UsageError for
    a target that is taken or a kind that is unknown, NotBuiltError for what no run has made,
    ProjectBusyError, ResourceError when the disk is full.
    """
    wanted = list(DEFAULT if kinds is None else kinds)
    insist = kinds is not None and wanted != ["all"]
    if wanted == ["all"]:
        names = ALL
    else:
        names = parse_kinds(wanted)
    final = checked_target(project, target)
    with project.locked(), closing(project.store()) as store:
        source = Source(project, project.settings(), store)
        found, left_out = available(source, names, insist=insist)
        with complete_or_absent(project, final, [kind.name for kind in found]) as folder:
            written, size = _fill(source, found, folder, report)
        notes = source.notes([kind.name for kind in found])
    text = tuple(kind.name for kind in found if kind.holds_text)
    return Exported(final, tuple(kind.name for kind in found), text, written, size, left_out, notes)


def _fill(
    source: Source, kinds: list[Kind], folder: Path, report: Callable[[str], None]
) -> tuple[int, int]:
    for kind in kinds:
        report(f"{kind.name}: {kind.what}")
        kind.write(source, folder)
    known = facts(source, [kind.name for kind in kinds])
    write_cards(known, folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    listed = {path.relative_to(folder).as_posix(): _described(path) for path in files}
    text = json.dumps({**known, "files": listed}, ensure_ascii=False, indent=1)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")
    return (
        len(files) + 1,
        sum(int(one["bytes"]) for one in listed.values()) + len(text.encode()) + 1,
    )


def _described(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": file_sha256(path)}
