"""Searching what is not built, being built, damaged, deleted or replaced."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fixtures.errors import fails
from fixtures.files_in_use import refuse_as_windows
from fixtures.found import QUERY, ids, paths, rankers_of

from engine.core.errors import DamagedError, EngineError, NotBuiltError
from engine.core.events import RunStarted, encode
from engine.core.messages.search import Search
from engine.core.platforms import SYSTEM
from engine.project.folder import ProjectFolder
from engine.search.searcher import Searcher


def test_nothing_is_built_yet(corpus: Any, open_searcher: Callable[[], Searcher]) -> None:
    for mode in ("bm25", "semantic", "hybrid"):
        with fails(NotBuiltError, "not-built", command="run"):
            open_searcher().search(Search(QUERY, mode))  # type: ignore[arg-type]


def write_running_record(project: ProjectFolder) -> Path:
    """Write the record of a run that this process holds; the run's folder."""
    folder = project.path / "runs" / "1"
    folder.mkdir(parents=True, exist_ok=True)
    record = {
        "run": "1",
        "state": "running",
        "pid": os.getpid(),
        "time": 1.0,
    }
    (folder / "run.json").write_text(json.dumps(record))
    return folder


@contextmanager
def at_work(project: ProjectFolder, stages: list[str] | None = None) -> Iterator[None]:
    """A run holds the project, and its record says that it goes on."""
    folder = write_running_record(project)
    if stages is not None:
        (folder / "events.jsonl").write_text(encode(RunStarted(run="1", stages=stages)) + "\n")
    with project.locked():
        yield


def test_no_run_is_advised_while_one_is_building_the_indexes(
    corpus: Any, open_searcher: Callable[[], Searcher]
) -> None:
    for mode in ("bm25", "semantic", "hybrid"):
        with at_work(corpus.project), fails(NotBuiltError, "not-built", command="status") as caught:
            open_searcher().search(Search(QUERY, mode))  # type: ignore[arg-type]
        assert "engine run" not in str(caught.value)
    corpus.index(vectors=False)
    not_built = open_searcher().search(Search(QUERY))
    with at_work(corpus.project):
        being_built = open_searcher().search(Search(QUERY))
    assert rankers_of(not_built) == rankers_of(being_built) == {"bm25"}
    assert len(being_built.notes) == 1
    assert "engine" not in being_built.notes[0]
    assert being_built.notes != not_built.notes
    # Nothing is left to do but to wait.
    assert (not_built.commands, being_built.commands) == (("run", "embed"), ())


def test_a_run_is_advised_if_the_current_one_leaves_the_vectors_out(
    corpus: Any, open_searcher: Callable[[], Searcher]
) -> None:
    for stages, command in ((["ingest", "index"], "run"), (["evaluate", "embed"], "status")):
        with (
            at_work(corpus.project, stages=stages),
            fails(NotBuiltError, "not-built", stage="embed", command=command),
        ):
            open_searcher().search(Search(QUERY, "semantic"))


def test_a_database_that_is_missing_while_a_run_goes_on(project: ProjectFolder) -> None:
    (project.path / "project.db").unlink()
    with at_work(project), fails(DamagedError, "database-missing", command="status"):
        Searcher(project)


def test_a_killed_run_builds_nothing(
    project: ProjectFolder, open_searcher: Callable[[], Searcher]
) -> None:
    write_running_record(project)
    with fails(NotBuiltError, "not-built", command="run"):
        open_searcher().search(Search(QUERY, "bm25"))


def test_hybrid_goes_on_with_bm25_alone(corpus: Any, open_searcher: Callable[[], Searcher]) -> None:
    corpus.index(vectors=False)
    searcher = open_searcher()
    found = searcher.search(Search(QUERY))
    assert ids(found) == ids(searcher.search(Search(QUERY, "bm25"))) != []
    assert len(found.notes) == 1
    assert rankers_of(found) == {"bm25"}
    with pytest.raises(NotBuiltError):
        searcher.search(Search(QUERY, "semantic"))


def test_hybrid_goes_on_with_semantic_alone(
    corpus: Any, fake_encoder: Any, open_searcher: Callable[[], Searcher]
) -> None:
    corpus.index(lexical=False)
    found = open_searcher().search(Search(QUERY))
    assert (len(found.hits), rankers_of(found), len(found.notes)) == (6, {"semantic"}, 1)


@pytest.mark.parametrize(("kind", "other"), [("lexical", "semantic"), ("vectors", "bm25")])
def test_a_damaged_index_is_noted_and_the_other_answers(
    indexed: Any,
    open_searcher: Callable[[], Searcher],
    damage: Callable[[Any], None],
    kind: str,
    other: Any,
) -> None:
    damage(indexed.folder(kind))
    searcher = open_searcher()
    found = searcher.search(Search(QUERY))
    assert ids(found) == ids(searcher.search(Search(QUERY, other))) != []
    assert "damaged" in found.notes[0]
    with pytest.raises(DamagedError):
        searcher.search(Search(QUERY, "semantic" if other == "bm25" else "bm25"))


def test_both_damaged(
    indexed: Any, open_searcher: Callable[[], Searcher], damage: Callable[[Any], None]
) -> None:
    damage(indexed.folder("lexical"))
    damage(indexed.folder("vectors"))
    with pytest.raises(DamagedError):
        open_searcher().search(Search(QUERY))


def test_a_model_that_is_gone_stops_semantic_search_only(
    corpus: Any, open_searcher: Callable[[], Searcher], tmp_path: Path
) -> None:
    corpus.index(model=str(tmp_path / "no-model"))
    searcher = open_searcher()
    found = searcher.search(Search(QUERY))
    assert ids(found) == ids(searcher.search(Search(QUERY, "bm25"))) != []
    assert "no-model" in found.notes[0]
    with fails(EngineError, "model-missing", "no-model"):
        searcher.search(Search(QUERY, "semantic"))


@pytest.mark.parametrize("mode", ["bm25", "semantic", "hybrid"])
def test_deleted_documents_are_never_shown(
    crowded: Any, open_searcher: Callable[[], Searcher], mode: Any
) -> None:
    searcher = open_searcher()
    assert paths(searcher.search(Search("roof", mode, top=20))) == {"crowd.md"}
    crowded.drop("crowd.md")
    for after in (None, "1970-01-01T00:00:00+00:00"):
        found = searcher.search(Search("roof", mode, top=20, after=after))
        assert "crowd.md" not in paths(found)


def test_deleted_documents_do_not_crowd_out_the_rest(indexed: Any, searcher: Searcher) -> None:
    indexed.drop("contracts/lease.md")
    found = searcher.search(Search("roof", "bm25", top=1))
    assert [hit.snippet for hit in found.hits] == ["The roof of the tunnel was heated."]
    assert found.hits[0].rank == 1


@pytest.mark.parametrize("globs", [None, ("contracts/**",)])
def test_a_changed_document_is_found_by_its_former_text_until_it_is_indexed(
    indexed: Any, searcher: Searcher, globs: tuple[str, ...] | None
) -> None:
    indexed.put("contracts/lease.md", ["Cats are forbidden.", "The landlord repairs the roof."])
    assert (
        searcher.search(Search("tenant rent", "bm25", paths=globs)).hits[0].snippet
        == "The tenant pays the rent monthly."
    )
    assert searcher.search(Search("cats", "bm25", paths=globs)).hits == ()
    indexed.index()
    assert searcher.search(Search("tenant rent", "bm25", paths=globs)).hits == ()
    assert (
        searcher.search(Search("cats", "bm25", paths=globs)).hits[0].snippet
        == "Cats are forbidden."
    )


@pytest.mark.parametrize("kind", ["lexical", "vectors"])
def test_an_index_that_is_replaced_and_swept_while_it_is_opened(
    indexed: Any,
    open_searcher: Callable[[], Searcher],
    project: ProjectFolder,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    """A run puts a new index in place between the searcher's look at the database and its
    opening of the folder.
    """
    folder_of = ProjectFolder.folder_of
    looked = []

    def index_before_folder_of(self: ProjectFolder, artifact: Any) -> Path:
        if artifact.info.kind == kind and not looked:
            looked.append(artifact.folder)
            indexed.index()
            store = project.store()
            project.sweep({artifact.folder for artifact in store.artifacts().values()})
            store.close()
        return folder_of(self, artifact)

    monkeypatch.setattr(ProjectFolder, "folder_of", index_before_folder_of)
    found = open_searcher().search(Search(QUERY))
    assert looked
    assert not (project.path / looked[0]).exists()
    assert (len(found.hits), found.notes) == (6, ())


@pytest.mark.skipif(SYSTEM != "linux", reason="it reads /proc")
def test_a_closed_searcher_has_no_index_open(searcher: Searcher, project: ProjectFolder) -> None:
    assert searcher.search(Search(QUERY, "hybrid")).hits
    with refuse_as_windows(project.path) as emulation:
        with pytest.raises(PermissionError):
            shutil.rmtree(project.path / "vectors")
        assert emulation.refusals
        emulation.refusals.clear()
        searcher.close()
        shutil.rmtree(project.path)
    assert emulation.refusals == []


def test_indexing_is_not_advised_while_a_run_or_watch_will_do_it(
    corpus: Any, open_searcher: Callable[[], Searcher]
) -> None:
    corpus.index()
    corpus.put(
        "late.md",
        ["A late roof."],
        modified=9.0,
    )
    searcher = open_searcher()
    assert searcher.search(Search(QUERY, "bm25")).commands == ("index",)
    for hold in (at_work(corpus.project), corpus.project.locked("watch")):
        with hold:
            found = searcher.search(Search(QUERY, "bm25"))
        assert (len(found.notes), found.commands) == (1, ())
