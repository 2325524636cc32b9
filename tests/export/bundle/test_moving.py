"""A project in another place, its original and documents gone, finds what it found."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fixtures.errors import fails
from fixtures.pipeline import engine_here, environment, ingest_here
from fixtures.project_files import create_project, mode
from fixtures.quick_password import quick_passwords
from fixtures.stored import put_document

from engine.core.errors import DamagedError, NotBuiltError, ResourceError, UsageError
from engine.core.messages.project import Bundled
from engine.core.messages.search import MODES, Search
from engine.export.bundle.pack import bundle_project
from engine.export.bundle.unpack import unbundle, verify
from engine.export.folder import known_exports
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import VectorsInfo
from engine.search.searcher import Searcher

QUERIES = ("What caused the outage?", "badge policy visitors", "coolant leak")


def hits(project: Path) -> list[tuple[int, float, str, str]]:
    with closing(Searcher(ProjectFolder(project))) as searcher:
        found = [
            hit
            for query in QUERIES
            for mode in MODES
            for hit in searcher.search(Search(query, mode)).hits
        ]
    assert len(found) > 30
    return [(hit.chunk_id, hit.score, hit.path, hit.snippet) for hit in found]


@pytest.fixture
def project(finished_built: Path, tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(Path(shutil.copytree(finished_built, tmp_path / "original")))


@pytest.mark.parametrize("name", ["whole", "half", "locked"])
def test_hits_are_equal_where_neither_original_nor_documents_are(
    halves: dict[str, Bundled], finished_built: Path, tmp_path: Path, name: str
) -> None:
    before = hits(finished_built)
    made = unbundle(
        halves[name].file,
        str(tmp_path / "made"),
        password=lambda: "correct horse",
    )
    assert hits(made.folder) == before
    assert "path-missing" in [note.code for note in made.notes]  # the documents
    assert (
        mode(made.folder),
        mode(made.folder / "project.db"),
    ) == (0o700, 0o600)


def test_the_model_is_taken_along_and_found(
    project: ProjectFolder, tiny_model: Path, tmp_path: Path
) -> None:
    """Also by `engine run`: the whole project is up to date in its new place."""
    model = Path(shutil.copytree(tiny_model, project.path / "own-model"))
    project.change_settings({"encoder.model": str(model)})
    with closing(project.store()) as store:
        vectors = store.artifact(VectorsInfo)
        assert vectors is not None
        shutil.rmtree(project.path / vectors.folder / "query-encoder")  # the model is needed then
    engine_here("embed", str(project.path))
    for search_only in (True, False):
        file = tmp_path / f"{search_only}.bundle"
        assert bundle_project(project, file, search_only=search_only).notes == ()
    before = hits(project.path)
    shutil.move(project.path, tmp_path / "gone")
    for search_only in (True, False):
        made = unbundle(tmp_path / f"{search_only}.bundle", str(tmp_path / f"made-{search_only}"))
        assert [note.code for note in made.notes] == ["path-missing"]
        assert hits(made.folder) == before
        settings = ProjectFolder(made.folder).settings()
        assert settings.encoder.model == str(made.folder / "models" / "model" / "own-model")


def test_a_model_elsewhere_is_checked_by_its_fingerprint(
    halves: dict[str, Bundled], tiny_model: Path, tmp_path: Path
) -> None:
    moved = Path(shutil.copytree(tiny_model, tmp_path / "moved"))
    assert [note.code for note in halves["half"].notes] == ["bundle-without-model"]

    def codes(name: str, model: Path) -> list[str]:
        made = unbundle(
            halves["half"].file,
            str(tmp_path / name),
            model=str(model),
        )
        return [note.code for note in made.notes if note.code != "path-missing"]

    assert codes("right", moved) == []
    assert codes("missing", tmp_path / "none") == ["model-missing"]
    config = moved / "config_sentence_transformers.json"
    config.write_text('{"prompts": {"query": "other: "}}')
    assert codes("other", moved) == ["model-changed"]


def test_the_half_is_smaller_and_holds_no_training_data(
    halves: dict[str, Bundled], tmp_path: Path
) -> None:
    assert halves["half"].bytes < 0.75 * halves["whole"].bytes
    made = unbundle(halves["half"].file, str(tmp_path / "made"))
    with closing(ProjectFolder(made.folder).store()) as store:
        counts = store.counts()
        assert (counts["queries"], counts["judged_queries"], store.document_queries()) == (0, 0, [])
        assert counts["chunks"] > 0
        vectors = store.artifact(VectorsInfo)
    assert vectors is not None
    # search needs the one in use
    if vectors.info.adapter:
        adapters = {"adapters"}
    else:
        adapters = set()
    kept = {path.name for path in made.folder.iterdir()}
    assert kept == adapters | {"lexical", "project.db", "project.toml", "vectors"}


def test_existing_projects_and_files_are_not_overwritten(
    halves: dict[str, Bundled], project: ProjectFolder, tmp_path: Path
) -> None:
    with fails(UsageError, "project-exists"):
        unbundle(halves["half"].file, str(project.path))
    (tmp_path / "file").write_text("mine")
    with fails(UsageError, "target-exists"):
        bundle_project(project, tmp_path / "file")
    with fails(UsageError, "target-exists", tmp_path / f"{project.name}.bundle"):
        bundle_project(project, tmp_path)
    with fails(UsageError, "target-in-project"):
        bundle_project(project, project.path / "x.bundle")


def test_missing_artifacts_cannot_be_bundled(tmp_path: Path) -> None:
    empty = ProjectFolder.create(tmp_path / "empty", {})
    for search_only in (True, False):
        with fails(NotBuiltError, "not-built", stage="ingest"):
            bundle_project(
                empty,
                tmp_path / "x.bundle",
                search_only=search_only,
            )
    with closing(empty.store()) as store:
        put_document(store, ["one"])
    with fails(NotBuiltError, "not-built", stage="index"):
        bundle_project(
            empty,
            tmp_path / "x.bundle",
            search_only=True,
        )
    made = bundle_project(empty, tmp_path / "whole.bundle")
    assert unbundle(made.file, str(tmp_path / "made")).files == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "made", "whole.bundle"]


def test_a_missing_index_is_an_error(project: ProjectFolder, tmp_path: Path) -> None:
    shutil.rmtree(project.path / "vectors")
    with fails(DamagedError, "artifact-missing"):
        bundle_project(project, tmp_path / "x.bundle")
    assert [path.name for path in tmp_path.iterdir()] == ["original"]


def test_a_purge_names_the_bundle(project: ProjectFolder, tmp_path: Path) -> None:
    bundle_project(project, tmp_path / "x.bundle")
    (known,) = known_exports(project)
    assert (known["folder"], known["kinds"]) == (str(tmp_path / "x.bundle"), ["bundle"])


def test_a_bundle_is_remembered_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a purge removes what a killed one leaves."""
    project = create_project(tmp_path, {"a.txt": "The tern rests."})
    ingest_here(project.path)
    remembered: list[dict[str, Any]] = []

    def see(
        _plain: Path,
        _target: Path,
        _password: str,
    ) -> None:
        remembered.extend(known_exports(project))
        raise KeyboardInterrupt

    monkeypatch.setattr("engine.export.bundle.pack.encrypt", see)
    with pytest.raises(KeyboardInterrupt):
        bundle_project(
            project,
            tmp_path / "x.bundle",
            password="p",
        )
    assert [entry["folder"] for entry in remembered] == [str(tmp_path / "x.bundle")]
    assert known_exports(project) == []


def test_a_run_that_replaces_what_is_copied_makes_it_copied_again(
    project: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a run holds the lock: bundling takes none."""
    from engine.export.bundle import pack

    with closing(project.store()) as store:
        vectors = store.artifact(VectorsInfo)
        assert vectors is not None
    former = project.path / vectors.folder
    add_file = pack.add_file
    calls = []

    def swept_meanwhile(
        archive: Any,
        name: str,
        path: Path,
    ) -> Any:
        if name.startswith("vectors/") and not calls:
            calls.append(name)
            former.rename(former.with_name("later"))
            with closing(project.store()) as store:
                store.put_artifact(
                    type(vectors)(vectors.info, vectors.fingerprint, "vectors/later")
                )
        return add_file(archive, name, path)

    monkeypatch.setattr(pack, "add_file", swept_meanwhile)
    with project.locked():
        made = bundle_project(
            project,
            tmp_path / "x.bundle",
            search_only=True,
        )
    assert calls
    assert verify(made.file).files == made.files
    assert hits(unbundle(made.file, str(tmp_path / "made")).folder) == hits(project.path)


@pytest.mark.parametrize("free", [4_096, 40_000, 300_000])
def test_a_full_disk_leaves_nothing(
    halves: dict[str, Bundled],
    project: ProjectFolder,
    small_disk: Path,
    disk_filler: Callable[..., None],
    free: int,
) -> None:
    disk_filler(small_disk, free)
    with fails(ResourceError, "disk-full", small_disk):
        bundle_project(project, small_disk / "x.bundle")
    with quick_passwords(), fails(ResourceError, "disk-full", small_disk):
        bundle_project(
            project,
            small_disk / "x.bundle",
            search_only=True,
            password="p",
        )
    with fails(ResourceError, "disk-full"):
        unbundle(halves["half"].file, str(small_disk / "made"))
    assert [path.name for path in small_disk.iterdir()] == ["ballast"]


@pytest.mark.posix(reason="SIGSTOP")
@pytest.mark.parametrize("moment", ["project/lexical", "project/project.toml"])
def test_an_unbundle_that_is_killed_leaves_no_project_and_the_next_one_tidies_up(
    halves: dict[str, Bundled], tmp_path: Path, moment: str
) -> None:
    target = tmp_path / "made"
    step = "sync_tree" if moment.endswith("toml") else "_adapt_to_this_machine"
    code = (
        "import os, sys, signal; from pathlib import Path; from engine.export.bundle import"
        " unpack\ndef stop(_): os.kill(os.getpid(),"
        f" signal.SIGSTOP)\nunpack.{step} = lambda"
        " *_: stop(0)\nunpack.unbundle(Path(sys.argv[1]), sys.argv[2])"
    )
    command = [
        sys.executable,
        "-c",
        code,
        str(halves["half"].file),
        str(target),
    ]
    with subprocess.Popen(command, env=environment()) as child:
        os.waitpid(child.pid, os.WUNTRACED)
        (left,) = tmp_path.glob(".made.*.part")
        assert (left / moment).exists()
        assert not target.exists()
        unbundle(
            halves["half"].file, str(tmp_path / "made")
        )  # another one at the same time leaves it alone
        assert left.exists()
        child.send_signal(signal.SIGKILL)
    shutil.rmtree(target)
    unbundle(halves["half"].file, str(target))
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def test_the_commands(project: ProjectFolder, tmp_path: Path) -> None:
    file = tmp_path / "x.bundle"
    word = tmp_path / "word"
    word.write_text("secret\n")
    assert (
        engine_here("bundle", str(project.path), str(file), "--password-file", str(word)).stdout
        == f"{file}\n"
    )
    done = engine_here(
        "unbundle",
        str(file),
        str(tmp_path / "made"),
        "--password-file",
        str(word),
    )
    assert done.stdout == f"{tmp_path / 'made'}\n"
    assert '"files": null' in engine_here("verify", str(file), "--json").stdout
    said = set()
    for options in ((), ("--search-only",)):
        copy = tmp_path / f"{len(said)}.bundle"
        engine_here(
            "bundle",
            str(project.path),
            str(copy),
            *options,
        )
        line = engine_here("verify", str(copy)).stdout.splitlines()[0].removeprefix(str(copy))
        assert project.path.name in line
        assert verify(copy).created[:10] in line
        said.add(re.sub(r"\d+", "", line))
    assert len(said) == 2
