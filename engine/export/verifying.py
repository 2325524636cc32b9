"""Whether the files of a project are what they were when they were written, as far as their digests were recorded then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from pathlib import Path

from engine.core.errors import DamagedError, EngineError
from engine.core.messages.project import Verified
from engine.project.folder import OWN_FOLDERS, ProjectFolder
from engine.project.store.artifact_info import AdapterInfo


def verify_project(project: ProjectFolder) -> Verified:
    """Read every file that has a digest, and let SQLite check the pages of the database, which has none."""
    from engine.encoders.fingerprint import adapter_digest
    from engine.encoders.graph.query_graph import FOLDER, is_settled
    from engine.encoders.vector_shards import read_hashes
    from engine.lexical.index import LexicalIndex
    from engine.vectors.index import VectorIndex

    root, damaged, known = project.path, dict[str, str](), set[Path]()

    def check(files: Iterable[Path], what: Path, test: Callable[[], object]) -> None:
        found = {file for file in files if file.is_file()}
        known.update(found)
        try:
            sound = test() not in (None, False)
            why = "its digest is another one"
        except EngineError as error:
            sound, why = False, error.why.rstrip(".") or error.what.rstrip(".")
        if not sound:
            damaged[what.relative_to(root).as_posix()] = why

    for folder in _folders(root / "lexical"):
        check(folder.rglob("*"), folder, partial(LexicalIndex.open, folder))
    for folder in _folders(root / "vectors"):
        check(folder.glob("*"), folder, partial(VectorIndex.open, folder))
        check((folder / FOLDER).glob("*"), folder / FOLDER, partial(is_settled, folder))
    for shard in root.glob("cache/**/*.vec"):
        check([shard], shard, partial(read_hashes, shard))
    try:
        with closing(project.store(check=True)) as store:
            trained = store.artifact(AdapterInfo)
    except DamagedError as error:
        trained, damaged["project.db"] = None, error.why.rstrip(".")
    if trained and trained.info.adapter:
        adapter, digest = root / trained.info.adapter, trained.info.digest
        parts = [adapter / name for name in ("adapter_model.safetensors", "adapter_config.json")]
        check(parts, adapter, lambda: adapter_digest(adapter) == digest)
    files = [path for path in root.iterdir() if path.is_file()]
    files += [path for name in OWN_FOLDERS for path in (root / name).rglob("*") if path.is_file()]
    without = Counter(path.relative_to(root).parts[0] for path in files if path not in known)
    spoilt = [root / name for name in damaged]
    undamaged = sum(not any(file.is_relative_to(one) for one in spoilt) for file in known)
    return Verified(root, undamaged, damaged, dict(sorted(without.items())))


def _folders(place: Path) -> list[Path]:
    """Finished artifacts."""
    return [one for one in sorted(place.glob("*")) if one.is_dir() and not one.name.startswith(".")]
