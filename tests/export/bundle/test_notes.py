"""What unbundling says of servers and rerankers, and what it takes back."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from fixtures.shown_numbers import numbers
from fixtures.stored import put_document

from engine.export.bundle.pack import bundle_project, describe_unfinished
from engine.export.bundle.unpack import unbundle, verify
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import (
    CorpusInfo,
    EvaluationInfo,
    InUseInfo,
    LexicalInfo,
    RerankerInfo,
    VectorsInfo,
)
from engine.project.store.artifacts import INCOMPLETE, Artifact

RERANKER = RerankerInfo(used=True, fingerprint="forged")


def moved(
    folder: Path, reranker: str
) -> tuple[list[tuple[str, str]], list[tuple[str, str]], ProjectFolder]:
    """Notes of bundling and of unbundling a project that is made of what a bundle can claim, and
    the new project.
    """
    project = ProjectFolder.create(folder / "made", {})
    project.change_settings(
        {
            "search.reranker": reranker,
            "search.rerank": "on",
            "search.reranker_allow_public": True,
            "encoder.endpoint_allow_public": True,
            "queries.endpoint": "https://9.9.9.9/v1",
            "queries.endpoint_allow_public": True,
        }
    )
    with closing(project.store()) as store:
        store.put_artifact(
            Artifact(
                EvaluationInfo(hybrid=InUseInfo(reason="why"), reranker=RERANKER), "e", "reports/e"
            )
        )
        store.put_artifact(
            Artifact(VectorsInfo(endpoint="https://1.1.1.1/v1", dimension=4), "v", "vectors/v")
        )
    for name in ("reports/e", "vectors/v"):
        (project.path / name).mkdir(parents=True)
    packed = bundle_project(project, folder / "x.bundle")
    unpacked = unbundle(folder / "x.bundle", str(folder / "unpacked"))
    notes = ([(one.code, one.what) for one in found.notes] for found in (packed, unpacked))
    return *notes, ProjectFolder(unpacked.folder)


def test_no_server_gets_text_without_a_note(tmp_path: Path) -> None:
    _, notes, project = moved(tmp_path, "https://8.8.8.8/v1")
    named = [what for code, what in notes if code == "bundle-names-server"]
    assert len(named) == 3
    assert all(
        sum(url in what for what in named) == 1
        for url in ("//8.8.8.8/", "//9.9.9.9/", "//1.1.1.1/")
    )
    settings = project.settings()
    assert (settings.search.reranker, settings.search.rerank) == ("https://8.8.8.8/v1", "auto")
    allowed = (settings.encoder.endpoint_allow_public, settings.queries.endpoint_allow_public)
    assert (*allowed, settings.search.reranker_allow_public) == (False, False, False)
    with closing(project.store()) as store:
        evaluation = store.artifact(EvaluationInfo)
    assert evaluation is not None
    assert (evaluation.info.reranker, evaluation.info.hybrid.reason, evaluation.fingerprint) == (
        None,
        "why",
        "",
    )


def test_folders_here_that_a_run_would_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    project = ProjectFolder.create(
        tmp_path / "made", {"corpus": {"paths": [str(tmp_path / "here"), str(tmp_path / "no")]}}
    )
    with closing(project.store()) as store:
        put_document(store, ["one"])
        store.put_artifact(Artifact(CorpusInfo(), "c", ""))
        store.put_artifact(Artifact(LexicalInfo(), "l", "lexical/l"))
    (project.path / "lexical/l").mkdir(parents=True)
    bundle_project(project, tmp_path / "x.bundle")
    notes = unbundle(tmp_path / "x.bundle", str(tmp_path / "unpacked")).notes
    named = {one.code: one.what for one in notes if one.code in ("bundle-reads", "path-missing")}
    assert str(tmp_path / "here") in named["bundle-reads"]
    assert str(tmp_path / "no") in named["path-missing"]


def test_what_no_run_has_finished_is_named(tmp_path: Path) -> None:
    """The chunks of a project are read, and half of them are embedded."""
    project = ProjectFolder.create(tmp_path / "made", {})
    with closing(project.store()) as store:
        put_document(store, ["one", "two"])
        store.put_artifact(Artifact(CorpusInfo(), "c", ""))
        store.put_artifact(Artifact(LexicalInfo(), "l", "lexical/l"))
        store.put_artifact(Artifact(VectorsInfo(chunks=1), INCOMPLETE, "vectors/v"))
        (note,) = describe_unfinished(store)
        assert (note.code, numbers(note.what)) == ("bundle-unfinished", [1, 2])
        store.put_artifact(Artifact(VectorsInfo(chunks=2), "v", "vectors/v"))
        assert describe_unfinished(store) == ()
        store.put_artifact(Artifact(CorpusInfo(), INCOMPLETE, ""))
        assert [note.code for note in describe_unfinished(store)] == ["bundle-unfinished"]
        store.put_artifact(Artifact(VectorsInfo(chunks=1), INCOMPLETE, "vectors/v"))
        (both,) = describe_unfinished(store)
        assert numbers(both.what) == [1, 2]
    for folder in ("lexical/l", "vectors/v"):
        (project.path / folder).mkdir(parents=True)
    made = bundle_project(project, tmp_path / "x.bundle")
    assert verify(made.file).notes == made.notes == (both,)
    assert both in unbundle(made.file, str(tmp_path / "unpacked")).notes


def test_a_reranker_s_folder_is_named_and_stays_in_use(tmp_path: Path) -> None:
    packed, unpacked, project = moved(tmp_path, "own-reranker")
    assert [code for code, what in packed if "own-reranker" in what] == ["bundle-without-model"]
    assert [code for code, what in unpacked if "own-reranker" in what] == ["model-missing"]
    with closing(project.store()) as store:
        evaluation = store.artifact(EvaluationInfo)
    assert evaluation is not None
    assert evaluation.info.reranker == RERANKER
