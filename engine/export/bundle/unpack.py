"""One file → a project in a new folder, complete or absent; and verification of such a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile, gettempdir
from typing import IO
from zipfile import ZipFile, ZipInfo

from engine.core.disk import check_room, disk_errors, expand_home, path_exists, sync_tree
from engine.core.errors import EngineError, InputError, UsageError
from engine.core.messages.project import Bundled, ExportNote, Unbundled
from engine.core.platforms.files import rename, sync
from engine.endpoint.address import is_server
from engine.export.bundle.archive import (
    DATABASE,
    SETTINGS,
    Entry,
    Manifest,
    check_name,
    copy_stream,
    damaged_error,
    list_entries,
    malformed_as_damaged,
    read_manifest,
    unsafe_error,
    verify_seal,
)
from engine.export.bundle.pack import describe_unfinished
from engine.export.bundle.password import BODY, check_password, decrypt, is_encrypted
from engine.export.folder import workplace
from engine.project.folder import ProjectFolder, locate, projects_root
from engine.project.store.artifact_info import EvaluationInfo, SemanticVectorsInfo, VectorsInfo
from engine.project.store.artifacts import Artifact
from engine.project.store.schema import find_foreign_part
from engine.project.store.store import Store
from engine.reranking.chosen import reranker_of
from engine.settings.schema import Settings

_ALLOW_PUBLIC = (
    "encoder.endpoint_allow_public",
    "queries.endpoint_allow_public",
    "search.reranker_allow_public",
)
Password = Callable[[], str | None]
"""Called if a bundle is encrypted; returns the password, None if it is not known."""


@dataclass(frozen=True, slots=True)
class _Bundle:
    """An opened bundle."""

    digest: str  # The sha256 that the file ends with.
    encrypted: bool  # Whether it has a password.
    archive: ZipFile  # Of an encrypted bundle, the decrypted one.
    infos: Mapping[str, ZipInfo]  # Its entries by name.
    manifest: Manifest | None  # None if the password is unknown.

    def copy(self, name: str, target: IO[bytes] | None) -> None:
        """Copy a file of the bundle, or only read it without a `target`.

        Raises DamagedError if it differs from the manifest, OSError.
        """
        assert self.manifest is not None
        with malformed_as_damaged():
            source = self.archive.open(self.infos[name])
        with source:
            if copy_stream(source, target) != self.manifest.files[name]:
                raise damaged_error(f"{name} is not the file that was bundled")


def _check_file(file: Path) -> None:
    """Raise InputError if there is no such file."""
    if not file.is_file():
        raise InputError(
            f"There is no file {file}.",
            "",
            "Check the path.",
            code="path-missing",
        )


@contextmanager
def _open_bundle(
    file: Path,
    password: Password,
    place: Path | None = None,
) -> Iterator[_Bundle]:
    """Yield a bundle whose seal, names and sizes were checked.

    `place`: the folder for its decrypted copy. An encrypted bundle without a password has no
    manifest.
    """
    _check_file(file)
    with file.open("rb") as raw:
        digest = verify_seal(raw)
        with _open_archive(raw) as (archive, infos):
            if not is_encrypted(infos):
                yield _Bundle(
                    digest,
                    False,
                    archive,
                    infos,
                    read_manifest(archive, infos),
                )
                return
            secret = password()
            if secret is None:
                yield _Bundle(
                    digest,
                    True,
                    archive,
                    infos,
                    None,
                )
                return
            check_password(secret)
            check_room(place or Path(gettempdir()), infos[BODY].file_size)
            with TemporaryFile(dir=place) as decrypted:
                decrypt(archive, secret, decrypted)
                verify_seal(decrypted)
                with _open_archive(decrypted) as (body, body_infos):
                    manifest = read_manifest(body, body_infos)
                    yield _Bundle(
                        digest,
                        True,
                        body,
                        body_infos,
                        manifest,
                    )


@contextmanager
def _open_archive(file: IO[bytes]) -> Iterator[tuple[ZipFile, dict[str, ZipInfo]]]:
    """Yield the archive in a file, and its entries by name."""
    length = file.seek(0, 2)
    with malformed_as_damaged():
        archive = ZipFile(file)
    with archive:
        yield archive, list_entries(archive, length)


def verify(file: Path, password: Password = lambda: None) -> Bundled:
    """Read a whole bundle and compare it with its digests.

    Of an encrypted one without a password, only the outer digest is checked. Raises DamagedError,
    InputError, UsageError for a wrong password.
    """
    with disk_errors(f"{file} could not be read."), _open_bundle(file, password) as bundle:
        manifest = bundle.manifest
        bundled = Bundled(
            file,
            file.stat().st_size,
            bundle.digest,
            bundle.encrypted,
        )
        if manifest is None:
            return bundled
        for name in manifest.files:
            bundle.copy(name, None)
        return replace(
            bundled,
            files=len(manifest.files),
            search_only=manifest.search_only,
            notes=_describe_unfinished(bundle),
            project=manifest.project,
            created=manifest.created,
        )


def _describe_unfinished(bundle: _Bundle) -> tuple[ExportNote, ...]:
    """Return the note of `describe_unfinished`, if this version can read the bundle's database."""
    check_room(Path(gettempdir()), bundle.infos[DATABASE].file_size)
    with TemporaryDirectory() as place:
        path = Path(place) / DATABASE
        with path.open("xb") as target:
            bundle.copy(DATABASE, target)
        _check_tables(path)
        with suppress(EngineError), closing(Store.open(path)) as store:
            return describe_unfinished(store)
    return ()


def _check_tables(database: Path) -> None:
    """Raise InputError for a database with parts, such as triggers, that no project has."""
    part = find_foreign_part(database)
    if part:
        raise unsafe_error(f"Its database holds {part}, which no project has")


def unbundle(
    file: Path, name: str, *, model: str = "", password: Password = lambda: None
) -> Unbundled:
    """Make the project `name` (a name or a path) from a bundle, completely or not at all.

    `model`: the folder or file of the encoder's model on this machine. Raises InputError for unsafe
    contents, DamagedError, UsageError for an existing project or a wrong password, ResourceError if
    the disk is full.
    """
    _check_file(file)
    final = locate(name)
    ProjectFolder.check_new(final, {})
    if final.parent == projects_root():
        final.parent.mkdir(
            mode=0o700,
            parents=True,
            exist_ok=True,
        )
    if not final.parent.is_dir():
        raise InputError(
            f"{final.parent} is not a folder.",
            "The project goes into it.",
            "Create it.",
            code="path-missing",
        )
    with (
        disk_errors(f"{file} could not be unpacked."),
        workplace(final) as work,
        _open_bundle(file, password, work) as bundle,
    ):
        manifest = bundle.manifest
        if manifest is None:
            raise UsageError(
                f"{file} has a password.",
                "None was given.",
                "Use --password-file, or set BMEMBED_BUNDLE_PASSWORD. On a terminal it asks.",
                code="bundle-password-missing",
            )
        size = sum(entry.bytes for entry in manifest.files.values())
        check_room(work, size)
        project = ProjectFolder(work / "project")
        project.path.mkdir(mode=0o700)
        _unpack(
            bundle,
            manifest.files,
            project.path,
        )
        _check_tables(project.path / DATABASE)
        for folder in manifest.folders:
            (project.path / folder).mkdir(parents=True, exist_ok=True)
        moved = {named: str(final / place) for named, place in manifest.models.items()}
        _adapt_to_this_machine(project, moved, model)
        sync_tree(project.path)
        rename(project.path, final)
        sync(final.parent)
    notes = tuple(_list_notes(ProjectFolder(final)))
    return Unbundled(
        final,
        len(manifest.files),
        size,
        manifest.search_only,
        notes,
    )


def _unpack(
    bundle: _Bundle,
    files: Mapping[str, Entry],
    folder: Path,
) -> None:
    """Write the files; settings come last, as without them the folder is no project."""
    for name in sorted(files, key=lambda name: (name == SETTINGS, name)):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as target:
            path.chmod(0o600)
            bundle.copy(name, target)


def _adapt_to_this_machine(
    project: ProjectFolder,
    moved: Mapping[str, str],
    model: str,
) -> None:
    """Check settings and database, and replace names of models by their paths on this machine.

    `moved`: names of the bundle's models → their paths here. `model`: the path of the encoder's
    model, if the user gave one. Public servers are no longer allowed. A server is no longer used as
    reranker, as it would get passages unasked; the next evaluation decides again.
    """
    settings = project.settings()
    with closing(project.store(check=True)) as store:
        for artifact in store.artifacts().values():
            for folder in filter(None, (artifact.folder, *artifact.info.folders_read)):
                check_name(folder)
        vectors = store.artifact(VectorsInfo)
        if model:
            model_name = vectors.info.model if vectors else settings.encoder.model
            moved = {**moved, model_name: str(expand_home(model).absolute())}
        # None restores the default, which allows no public servers.
        changes: dict[str, str | None] = dict.fromkeys(_ALLOW_PUBLIC)
        if settings.encoder.model in moved:
            changes["encoder.model"] = moved[settings.encoder.model]
        if settings.encoder.small_model in moved:
            changes["encoder.small_model"] = moved[settings.encoder.small_model]
        if is_server(settings.search.reranker):
            changes["search.rerank"] = None
            _forget_reranker(store)
        project.change_settings(changes)
        for index in (vectors, store.artifact(SemanticVectorsInfo)):
            if index is not None and moved:
                info = index.info
                model = moved.get(info.model, info.model)
                small_model = moved.get(info.small_model, info.small_model)
                renamed = replace(
                    info,
                    model=model,
                    small_model=small_model,
                )
                store.put_artifact(replace(index, info=renamed))
    (project.path / "settings.lock").unlink(missing_ok=True)


def _forget_reranker(store: Store) -> None:
    """Remove what an evaluation decided about a reranker, and mark the evaluation as outdated."""
    evaluation = store.artifact(EvaluationInfo)
    if evaluation is not None and evaluation.info.reranker is not None:
        without = replace(evaluation.info, reranker=None)
        store.put_artifact(replace(evaluation, info=without, fingerprint=""))


def _list_notes(project: ProjectFolder) -> Iterator[ExportNote]:
    """Yield what the project lacks on this machine, and where it sends text."""
    settings = project.settings()
    with closing(project.store()) as store:
        vectors = store.artifact(VectorsInfo)
        semantic = store.artifact(SemanticVectorsInfo)
        yield from describe_unfinished(store)
    yield from _list_servers(settings, vectors.info.endpoint if vectors else "")
    try:
        if not is_server(settings.search.reranker):
            reranker_of(project, settings)
    except EngineError as error:
        to_do = "Name the reranker in search.reranker."
        yield ExportNote(
            code="model-missing",
            what=error.what,
            to_do=to_do,
        )
    for source in project.sources(settings):
        if path_exists(source):
            what = f"'engine run' will read {source}."
            to_do = "If these are not the documents, set corpus.paths first."
            yield ExportNote(
                code="bundle-reads",
                what=what,
                to_do=to_do,
            )
        else:
            what = (
                f"The documents in {source} are not here: search works without them, 'engine run'"
                " does not."
            )
            to_do = "To bring it up to date here, set corpus.paths."
            yield ExportNote(
                code="path-missing",
                what=what,
                to_do=to_do,
            )
    if vectors is not None:
        indexes: list[Artifact[VectorsInfo]] = [vectors]
        if semantic is not None:
            indexes.append(semantic)
        yield from _check_model(project, indexes)


def _list_servers(settings: Settings, index_endpoint: str) -> Iterator[ExportNote]:
    """Yield a note for each server that would get text.

    `index_endpoint`: the server that made the vectors, which the settings may no longer name.
    """
    servers = {
        "encoder.endpoint": settings.encoder.endpoint,
        "queries.endpoint": settings.queries.endpoint,
    }
    if is_server(settings.search.reranker):
        servers["search.reranker"] = settings.search.reranker
    for key, url in servers.items():
        if url:
            what = f"{key} sends text to {url}."
            to_do = "Empty it unless you know that server."
            yield ExportNote(
                code="bundle-names-server",
                what=what,
                to_do=to_do,
            )
    if index_endpoint not in ("", settings.encoder.endpoint):
        what = f"Search by meaning sends queries to {index_endpoint}, which made the vectors."
        to_do = (
            "Unless you know that server, set encoder.model and run 'engine embed --force' first."
        )
        yield ExportNote(
            code="bundle-names-server",
            what=what,
            to_do=to_do,
        )


def _check_model(
    project: ProjectFolder, indexes: Sequence[Artifact[VectorsInfo]]
) -> Iterator[ExportNote]:
    """Yield a note unless this machine has the model that the indexes were made with.

    `indexes`: that of hybrid search, then that of semantic search if there is one.
    """
    from engine.encoders.for_project import source_of
    from engine.encoders.graph.query_graph import QueryGraph

    info = indexes[0].info
    adapter = project.path / info.adapter if info.adapter else None
    # With the graph of its query encoder, a search mode needs no model.
    graphs = [QueryGraph.open(project.path / index.folder, index.info.encoder) for index in indexes]
    if all(graphs):
        search = "can search by meaning"
    elif any(graphs):
        mode = "hybrid" if graphs[0] else "semantic"
        search = f"can search by meaning only in {mode} search"
    else:
        search = "cannot search by meaning"
    to_do = (
        f"The project {search} without it. Put the model there, or name its folder with --model."
    )
    try:
        source = source_of(info, project.settings())
        current = source.vectors_fingerprint(
            info.max_tokens,
            adapter,
            info.interpolation_weight,
        )
        if current != info.encoder:
            what = f"The model {info.model} is not the one that the documents were embedded with."
            yield ExportNote(
                code="model-changed",
                what=what,
                to_do=to_do,
            )
    except EngineError as error:
        yield ExportNote(
            code="model-missing",
            what=error.what,
            to_do=to_do,
        )
