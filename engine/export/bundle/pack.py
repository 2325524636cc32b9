"""A project → one file.

A run may write meanwhile: what is bundled is what search used at one moment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from zipfile import ZIP_DEFLATED

from engine.core.disk import disk_errors, sync
from engine.core.errors import DamagedError, EngineError, NotBuiltError, ProjectBusyError
from engine.core.messages.project import Bundled, ExportNote
from engine.core.messages.wire import to_json
from engine.encoders.graph.shared_graphs import files_in_place_of
from engine.encoders.kinds.chosen import model_path
from engine.encoders.model_folder import BUNDLED_NAMES, folder_name, module_folders
from engine.endpoint.address import is_server
from engine.export.bundle.archive import (
    COPIED,
    DATABASE,
    FORMAT,
    MANIFEST,
    MODELS,
    SETTINGS,
    Manifest,
    add,
    new_archive,
    seal,
)
from engine.export.bundle.password import check_password, encrypt
from engine.export.folder import checked_target, remember, workplace
from engine.project.folder import KEPT, ProjectFolder
from engine.project.store.artifact_info import (
    ArtifactInfo,
    CorpusInfo,
    LexicalInfo,
    SemanticVectorsInfo,
    VectorsInfo,
)
from engine.project.store.artifacts import INCOMPLETE, Artifact
from engine.project.store.store import Store
from engine.settings.schema import Settings
from engine.version import __version__

ATTEMPTS = 5  # a run puts unfinished indexes in place at most every ten seconds
_OF_MODELS = (".json", ".txt", ".model", ".jinja", ".safetensors")


def bundle_project(
    project: ProjectFolder,
    target: Path,
    *,
    search_only: bool = False,
    with_model: bool = False,
    password: str | None = None,
) -> Bundled:
    """Write a project into `target`, a file that is complete or absent.

    `search_only`: what search reads alone. `with_model`: with the encoder's model; one that lies in
        the project is always in it.
    Raises UsageError for a target that is taken, NotBuiltError where there is nothing to search,
    ModelError, ProjectBusyError, ResourceError when the disk is full.
    """
    if password is not None:
        check_password(password)
    final = checked_target(project, target, file=True)
    with disk_errors(f"The bundle {target} could not be written."), workplace(final) as work:
        made = work / "bundle"
        for _ in range(ATTEMPTS):
            if (written := _write(project, work, made, search_only, with_model)) is not None:
                break
        else:
            raise ProjectBusyError(
                f"A run changes {project.name} faster than it can be copied.",
                "Each copy was outdated before it was complete.",
                f"Try again after the run: 'engine status {project.argument}'.",
                command="status",
            )
        digest = seal(made)
        if password is not None:
            plain = made
            made = work / "encrypted"
            encrypt(plain, made, password)
            digest = seal(made)
        size = made.stat().st_size
        made.chmod(0o600)
        made.rename(final)
        sync(final.parent)
    with suppress(OSError):  # a project that cannot be written to is not purged
        remember(project, final, ["bundle"])
    manifest, notes = written
    return Bundled(
        final,
        size,
        digest,
        password is not None,
        len(manifest.files),
        search_only,
        notes,
        manifest.project,
        manifest.created,
    )


def _write(
    project: ProjectFolder, work: Path, made: Path, search_only: bool, with_model: bool
) -> tuple[Manifest, tuple[ExportNote, ...]] | None:
    """The unsealed bundle; None where a run has replaced meanwhile what was being copied."""
    from engine.runs.pipeline import in_use

    settings = project.settings()
    database = work / DATABASE
    with closing(project.store()) as store:
        store.backup(database)
        with closing(Store.open(database)) as copy:
            before = in_use(copy)
            if not before and not any(copy.counts().values()):
                raise NotBuiltError(
                    f"There is nothing in the project {project.name} yet.",
                    "Its documents were not read.",
                    f"Run 'engine run {project.argument}' first.",
                    stage="ingest",
                )
            if search_only:
                names = _search_half(project, copy)
            else:
                names = sorted(before)
            vectors = copy.artifact(VectorsInfo)
            lacking = unfinished(copy)
            if search_only:
                copy.keep_search_only()
                copy.backup(work / "half.db")
                database = work / "half.db"
        models = _models(project, settings, vectors.info if vectors else None, with_model)
        try:
            with new_archive(made) as archive:
                files = {
                    SETTINGS: add(archive, SETTINGS, project.path / SETTINGS),
                    DATABASE: add(archive, DATABASE, database),
                }
                folders = []
                for name, path in (*_found(project, names, search_only), *_of_models(models)):
                    if path.is_dir():
                        folders.append(name)
                    else:
                        files[name] = add(archive, name, path)
                places = {named: place for named, (place, _) in models.items()}
                created = datetime.now(UTC).isoformat(timespec="seconds")
                program = f"bmembed-tui {__version__}"
                manifest = Manifest(
                    FORMAT,
                    program,
                    created,
                    search_only,
                    files,
                    tuple(folders),
                    places,
                    project.name,
                )
                archive.writestr(
                    MANIFEST,
                    json.dumps(to_json(manifest), ensure_ascii=False, indent=1),
                    ZIP_DEFLATED,
                )
        except (FileNotFoundError, DamagedError):
            if in_use(store) == before:
                raise
        if in_use(store) != before:
            return None
        return manifest, lacking + _notes(
            vectors.info if vectors else None, settings.search.reranker, places
        )


def _search_half(project: ProjectFolder, store: Store) -> list[str]:
    """The folders that search reads."""
    lexical = store.artifact(LexicalInfo)
    vectors = store.artifact(VectorsInfo)
    if lexical is None:
        raise NotBuiltError(
            f"The project {project.name} has no keyword index yet.",
            "Without it there is nothing to search.",
            f"Run 'engine run {project.argument}'.",
            stage="index",
        )
    folders = [lexical.folder]
    for made in (vectors, store.artifact(SemanticVectorsInfo)):
        if made is not None:
            folders += [made.folder, *made.info.folders_read]
    return list(dict.fromkeys(folders))


def _found(
    project: ProjectFolder, names: list[str], search_only: bool
) -> Iterator[tuple[str, Path]]:
    """The files, and the folders that have none, of what is bundled: its name, and where it is."""
    bundled = [*names]
    if not search_only:
        reports = sorted(path.name for path in project.path.glob(f"reports/{KEPT}*"))
        bundled += [f"reports/{report}" for report in reports]
        bundled += COPIED
    for name in bundled:
        top = project.path / name
        if top.is_file():
            yield name, top
            continue
        if name in names:
            project.folder_of(Artifact(ArtifactInfo(), "", name))  # raises where it is gone
        for path in sorted(top.rglob("*")):
            unfinished = name in COPIED and path.name.startswith(".")
            if (
                not unfinished
                and not path.is_symlink()
                and (path.is_file() or not any(path.iterdir()))
            ):
                folder = path.parent.relative_to(project.path)
                for file in files_in_place_of(path):
                    yield (folder / file.name).as_posix(), file


def _models(
    project: ProjectFolder, settings: Settings, info: VectorsInfo | None, wanted: bool
) -> dict[str, tuple[str, Path]]:
    """The models to bundle: as they are named → the place in the bundle, and where they are.

    Raises ModelError where they are `wanted` and not there.
    """
    chosen = info or settings.encoder
    found = dict[str, tuple[str, Path]]()
    for role, named in (
        ("model", "" if chosen.endpoint else chosen.model),
        ("small_model", chosen.small_model),
    ):
        if not named or named in BUNDLED_NAMES:
            continue
        try:
            path = model_path(named)
        except EngineError:
            if wanted:
                raise
            continue
        if wanted or path.is_relative_to(project.path.resolve()):
            name = re.sub(r"[^\w.-]", "_", folder_name(path))
            found[named] = f"{MODELS}/{role}/{name}", path
    return found


def _of_models(models: dict[str, tuple[str, Path]]) -> Iterator[tuple[str, Path]]:
    """The files of models that are loaded: no pickles, and none of other programs' formats."""
    for place, path in models.values():
        if path.is_file():
            yield place, path
            continue
        for folder in sorted({path, *(folder for _, folder in module_folders(path))}):
            for file in sorted(folder.iterdir()) if folder.is_dir() else ():
                if file.is_file() and file.suffix in _OF_MODELS:
                    yield f"{place}/{file.relative_to(path).as_posix()}", file


def unfinished(store: Store) -> tuple[ExportNote, ...]:
    """What a run has yet to do, by the database of a bundled project: read, index or embed."""
    corpus = store.artifact(CorpusInfo)
    chunks = store.counts()["chunks"]
    lexical = store.artifact(LexicalInfo)
    vectors = store.artifact(VectorsInfo)
    embedded = vectors.info.chunks if vectors else 0
    lacking = []
    if corpus is None or corpus.fingerprint == INCOMPLETE:
        lacking.append("Not all documents are read.")
    if lexical is None:
        lacking.append("There is no keyword index.")
    semantic = store.artifact(SemanticVectorsInfo)
    if semantic is not None and not semantic.info.shared:
        embedded = min(embedded, semantic.info.chunks)
    if embedded < chunks:
        lacking.append(
            f"{embedded:,} of {chunks:,} chunks are embedded: search by meaning finds no others."
        )
    to_do = "'engine run' completes the project; then bundle it again."
    if lacking:
        return (ExportNote(code="bundle-unfinished", what=" ".join(lacking), to_do=to_do),)
    return ()


def _notes(
    info: VectorsInfo | None, reranker: str, places: dict[str, str]
) -> tuple[ExportNote, ...]:
    """Which models the other machine must have."""
    if info is None:
        named = []
    else:
        named = ["" if info.endpoint else info.model, info.small_model, info.given_vectors]
    missing = [name for name in named if name and name not in BUNDLED_NAMES and name not in places]
    what = "It is not in the bundle: {}."
    to_do = "Have it on the other machine ('engine unbundle --model'), or add --with-model."
    notes = [
        ExportNote(code="bundle-without-model", what=what.format(name), to_do=to_do)
        for name in missing
    ]
    if reranker and not is_server(reranker):
        to_do = "Have it on the other machine, and name its folder there in search.reranker."
        notes.append(
            ExportNote(code="bundle-without-model", what=what.format(reranker), to_do=to_do)
        )
    return tuple(notes)
