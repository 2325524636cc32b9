"""A project → one file.

A run may write meanwhile: the bundle is what search used at one moment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from zipfile import ZIP_DEFLATED

from engine.core.disk import disk_errors
from engine.core.errors import DamagedError, EngineError, NotBuiltError, ProjectBusyError
from engine.core.messages.project import Bundled, ExportNote
from engine.core.messages.wire import to_json
from engine.core.platforms.files import rename, sync
from engine.encoders.graph.shared_graphs import files_in_place_of
from engine.encoders.kinds.chosen import model_path
from engine.encoders.model_folder import BUNDLED_NAMES, folder_name, read_modules
from engine.endpoint.address import is_server
from engine.export.bundle.archive import (
    COPIED,
    DATABASE,
    FORMAT,
    MANIFEST,
    MODELS,
    SETTINGS,
    Manifest,
    add_file,
    new_archive,
    seal,
)
from engine.export.bundle.password import check_password, encrypt
from engine.export.folder import check_target, remembering, workplace
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

ATTEMPTS = 5  # A run replaces unfinished indexes at most every ten seconds.
_MODEL_SUFFIXES = (
    ".json",
    ".txt",
    ".model",
    ".jinja",
    ".safetensors",
)


class _BundledModel(NamedTuple):
    """A model to bundle: its place in the bundle, and its file or folder."""

    place: str
    path: Path


def bundle_project(
    project: ProjectFolder,
    target: Path,
    *,
    search_only: bool = False,
    with_model: bool = False,
    password: str | None = None,
) -> Bundled:
    """Write a project into `target`, a file that is complete or absent.

    `search_only`: only what search reads. `with_model`: include the encoder's model; a model inside
    the project is always included. Raises UsageError for a target that exists, NotBuiltError if
    there is nothing to search, ModelError, ProjectBusyError, ResourceError if the disk is full.
    """
    if password is not None:
        check_password(password)
    final = check_target(
        project,
        target,
        file=True,
    )
    with (
        disk_errors(f"The bundle {target} could not be written."),
        workplace(final) as work,
        ExitStack() as stack,
    ):
        # A project on a full or read-only disk can be bundled, but does not remember it.
        with suppress(OSError):
            stack.enter_context(remembering(project, final, ["bundle"]))
        bundle_file = work / "bundle"
        for _ in range(ATTEMPTS):
            written = _write(
                project,
                work,
                bundle_file,
                search_only,
                with_model,
            )
            if written is not None:
                break
        else:
            raise ProjectBusyError(
                f"A run changes {project.name} faster than it can be copied.",
                "Each copy was outdated before it was complete.",
                f"Try again after the run: 'engine status {project.argument}'.",
                command="status",
            )
        digest = seal(bundle_file)
        if password is not None:
            plain = bundle_file
            bundle_file = work / "encrypted"
            encrypt(plain, bundle_file, password)
            digest = seal(bundle_file)
        size = bundle_file.stat().st_size
        bundle_file.chmod(0o600)
        rename(bundle_file, final)
        sync(final.parent)
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
    """Write an unsealed bundle to `made`; return its manifest, and notes about it.

    `work`: a folder for copies of the database. Returns None if a run replaced artifacts while they
    were copied.
    """
    from engine.runs.pipeline import find_folders_in_use

    settings = project.settings()
    database = work / DATABASE
    with closing(project.store()) as store:
        store.backup(database)
        with closing(Store.open(database)) as copy:
            before = find_folders_in_use(copy)
            if not before and not any(copy.counts().values()):
                raise NotBuiltError(
                    f"There is nothing in the project {project.name} yet.",
                    "Its documents were not read.",
                    f"Run 'engine run {project.argument}' first.",
                    stage="ingest",
                )
            names = _list_search_folders(project, copy) if search_only else sorted(before)
            vectors = copy.artifact(VectorsInfo)
            unfinished = describe_unfinished(copy)
            if search_only:
                copy.keep_search_only()
                # A backup is compact: nothing of what was deleted is left in it.
                copy.backup(work / "half.db")
                database = work / "half.db"
        info = vectors.info if vectors else None
        models = _choose_models(
            project,
            settings,
            info,
            with_model,
        )
        try:
            with new_archive(made) as archive:
                files = {
                    SETTINGS: add_file(archive, SETTINGS, project.path / SETTINGS),
                    DATABASE: add_file(archive, DATABASE, database),
                }
                folders = []
                project_files = _list_files(project, names, search_only)
                for name, path in (*project_files, *_list_model_files(models)):
                    if path.is_dir():
                        folders.append(name)
                    else:
                        files[name] = add_file(archive, name, path)
                places = {name: model.place for name, model in models.items()}
                manifest = Manifest(
                    format=FORMAT,
                    program=f"bmembed-tui {__version__}",
                    created=datetime.now(UTC).isoformat(timespec="seconds"),
                    search_only=search_only,
                    files=files,
                    folders=tuple(folders),
                    models=places,
                    project=project.name,
                )
                text = json.dumps(
                    to_json(manifest),
                    ensure_ascii=False,
                    indent=1,
                )
                archive.writestr(MANIFEST, text, ZIP_DEFLATED)
        except (FileNotFoundError, DamagedError):
            if find_folders_in_use(store) == before:
                raise
        if find_folders_in_use(store) != before:
            return None
        notes = _describe_missing_models(
            info,
            settings.search.reranker,
            places,
        )
        return manifest, unfinished + notes


def _list_search_folders(project: ProjectFolder, store: Store) -> list[str]:
    """Return the folders that search reads."""
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
    for index in (vectors, store.artifact(SemanticVectorsInfo)):
        if index is not None:
            folders += [index.folder, *index.info.folders_read]
    return list(dict.fromkeys(folders))


def _list_files(
    project: ProjectFolder, names: list[str], search_only: bool
) -> Iterator[tuple[str, Path]]:
    """Yield name in the bundle and path of the files, and of the empty folders, to bundle.

    `names`: the folders of the artifacts, relative to the project.
    """
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
        # This raises an error if the artifact is gone.
        if name in names:
            project.folder_of(Artifact(ArtifactInfo(), "", name))
        for path in sorted(top.rglob("*")):
            is_unfinished = name in COPIED and path.name.startswith(".")
            if is_unfinished or path.is_symlink():
                continue
            if path.is_file() or not any(path.iterdir()):
                folder = path.parent.relative_to(project.path)
                for file in files_in_place_of(path):
                    yield (folder / file.name).as_posix(), file


def _choose_models(
    project: ProjectFolder, settings: Settings, info: VectorsInfo | None, with_model: bool
) -> dict[str, _BundledModel]:
    """Return the models to bundle, by their names in settings and indexes.

    They are those that the index (`info`) was made with, or without an index those of the settings.
    Without `with_model`, only models inside the project are bundled. With it, raises ModelError for
    a model that is missing.
    """
    encoder_settings = info or settings.encoder
    models: dict[str, _BundledModel] = {}
    roles = {
        "model": "" if encoder_settings.endpoint else encoder_settings.model,
        "small_model": encoder_settings.small_model,
    }
    for role, model in roles.items():
        if not model or model in BUNDLED_NAMES:
            continue
        try:
            path = model_path(model)
        except EngineError:
            if with_model:
                raise
            continue
        if with_model or path.is_relative_to(project.path.resolve()):
            name = re.sub(
                r"[^\w.-]",
                "_",
                folder_name(path),
            )
            models[model] = _BundledModel(f"{MODELS}/{role}/{name}", path)
    return models


def _list_model_files(models: dict[str, _BundledModel]) -> Iterator[tuple[str, Path]]:
    """Yield name in the bundle and path of the model files that are loaded.

    Pickles and other programs' formats are left out.
    """
    for place, path in models.values():
        if path.is_file():
            yield place, path
            continue
        folders = {path, *(module.folder for module in read_modules(path))}
        for folder in sorted(folders):
            if not folder.is_dir():
                continue
            for file in sorted(folder.iterdir()):
                if file.is_file() and file.suffix in _MODEL_SUFFIXES:
                    yield f"{place}/{file.relative_to(path).as_posix()}", file


def describe_unfinished(store: Store) -> tuple[ExportNote, ...]:
    """Return a note on what a run has yet to read, index or embed; empty if nothing."""
    corpus = store.artifact(CorpusInfo)
    chunks = store.count("chunks")
    lexical = store.artifact(LexicalInfo)
    vectors = store.artifact(VectorsInfo)
    embedded = vectors.info.chunks if vectors else 0
    sentences = []
    if corpus is None or corpus.fingerprint == INCOMPLETE:
        sentences.append("Not all documents are read.")
    if lexical is None:
        sentences.append("There is no keyword index.")
    semantic = store.artifact(SemanticVectorsInfo)
    if semantic is not None and not semantic.info.shared:
        embedded = min(embedded, semantic.info.chunks)
    if embedded < chunks:
        sentences.append(
            f"{embedded:,} of {chunks:,} chunks are embedded: search by meaning finds no others."
        )
    if not sentences:
        return ()
    to_do = "'engine run' completes the project; then bundle it again."
    return (ExportNote(code="bundle-unfinished", what=" ".join(sentences), to_do=to_do),)


def _describe_missing_models(
    info: VectorsInfo | None, reranker: str, places: dict[str, str]
) -> tuple[ExportNote, ...]:
    """Return notes about models that the other machine must have.

    `places`: the bundled models, by name.
    """
    missing: list[str] = []
    if info is not None:
        model = "" if info.endpoint else info.model
        available = {
            "",
            *BUNDLED_NAMES,
            *places,
        }
        missing = [name for name in (model, info.small_model) if name not in available]
    to_do = "Have it on the other machine ('engine unbundle --model'), or add --with-model."
    notes = [_note_missing_model(name, to_do) for name in missing]
    if reranker and not is_server(reranker):
        to_do = "Have it on the other machine, and name its folder there in search.reranker."
        notes.append(_note_missing_model(reranker, to_do))
    return tuple(notes)


def _note_missing_model(name: str, to_do: str) -> ExportNote:
    what = f"It is not in the bundle: {name}."
    return ExportNote(
        code="bundle-without-model",
        what=what,
        to_do=to_do,
    )
