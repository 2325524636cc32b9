"""An export from beginning to end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from engine.core.disk import file_sha256
from engine.core.messages.project import Exported
from engine.export.card import collect_facts, write_cards
from engine.export.folder import check_target, complete_or_absent
from engine.export.kinds import ALL, DEFAULT, Kind, find_available, parse_kinds
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
    """Write an export into `target`, a folder that must not exist: complete, or not at all.

    `kinds`: names of `KINDS`; it is an error if the project lacks one of them. None means adapter
    and model, ["all"] everything; then what the project lacks is left out. `report` gets a line for
    every kind begun. Raises UsageError for a target that exists or a kind that is unknown,
    NotBuiltError for what no run has made, ProjectBusyError, ResourceError if the disk is full.
    """
    # Whether it is an error if the project lacks one of the kinds.
    insist = False
    names: tuple[str, ...] = DEFAULT
    if kinds is not None:
        requested = list(kinds)
        insist = requested != ["all"]
        names = parse_kinds(requested) if insist else ALL
    final = check_target(project, target)
    with project.locked(), closing(project.store()) as store:
        source = Source(
            project,
            project.settings(),
            store,
        )
        present, left_out = find_available(
            source,
            names,
            insist=insist,
        )
        kind_names = tuple(kind.name for kind in present)
        with complete_or_absent(project, final, kind_names) as folder:
            written, size = _write_kinds(
                source,
                present,
                folder,
                report,
            )
        notes = source.notes(kind_names)
    with_text = tuple(kind.name for kind in present if kind.holds_text)
    return Exported(
        final,
        kind_names,
        with_text,
        written,
        size,
        left_out,
        notes,
    )


def _write_kinds(
    source: Source, kinds: list[Kind], folder: Path, report: Callable[[str], None]
) -> tuple[int, int]:
    """Write exports, cards and manifest; return the number of files and their bytes."""
    for kind in kinds:
        report(f"{kind.name}: {kind.what}")
        kind.write(source, folder)
    facts = collect_facts(source, [kind.name for kind in kinds])
    write_cards(facts, folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    entries = {path.relative_to(folder).as_posix(): _describe_file(path) for path in files}
    manifest = json.dumps({**facts, "files": entries}, ensure_ascii=False, indent=1) + "\n"
    (folder / MANIFEST).write_text(
        manifest,
        encoding="utf-8",
        newline="\n",
    )
    size = sum(int(entry["bytes"]) for entry in entries.values())
    return len(files) + 1, size + len(manifest.encode())


def _describe_file(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": file_sha256(path)}
