"""A changed folder re-does only what changed."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fixtures.errors import error_of
from fixtures.pipeline import SAMPLE, engine_here, ingest_here
from fixtures.shown_numbers import numbers

from engine.core.errors import CancelledError
from engine.core.messages.search import MODES
from engine.corpus.ingest import ingest as corpus_ingest
from engine.corpus.ingest.ingest import ReadingPace
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import LexicalInfo

POLICY = (
    "The zanzibar clause: {} must be countersigned by the quarry warden before the lorry leaves the"
    " yard.\n"
)


def events_of(*arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in engine_here(*arguments, "--json").stdout.splitlines()]


def summary(*arguments: str) -> dict[str, Any]:
    """The summary of a stage that ran alone; empty when it was skipped."""
    finished = [event for event in events_of(*arguments) if event["event"] == "stage_finished"]
    return finished[-1]["summary"] if finished else {}


def hits(project: Path, query: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(
        engine_here("search", str(project), query, "--mode", "bm25", "--passages", "--json").stdout
    )["hits"]
    return rows


def paths(project: Path, query: str) -> list[str]:
    return [hit["path"] for hit in hits(project, query)]


def set_threshold(project: Path, threshold: float) -> None:
    settings = project / "project.toml"
    settings.write_text(
        re.sub(
            r"^retrain_threshold = .*$",
            f"retrain_threshold = {threshold}",
            settings.read_text(),
            flags=re.M,
        )
    )


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory, make_project: Callable[[Path], Path]) -> Path:
    """Twenty small documents, ingested and indexed."""
    path = make_project(tmp_path_factory.mktemp("indexed") / "project")
    (path / "documents").mkdir()
    for number in range(20):
        (path / "documents" / f"{number:02}.md").write_text(
            f"# Rule {number}\n\n" + POLICY.format(f"order {number}")
        )
    assert summary("ingest", str(path))["files_read"] == 20
    assert summary("index", str(path))["added"] == 20
    return path


@pytest.fixture
def small(indexed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(indexed, tmp_path / "small"))


def test_one_changed_file_is_all_that_is_read_indexed_and_embedded(project: Path) -> None:
    set_threshold(project, 0.5)
    changed = project / "documents" / "policies" / "new.txt"
    changed.write_text(POLICY.format("nothing"))
    first = summary("ingest", str(project))
    assert (first["files_read"], first["files_unchanged"], first["new_chunks"]) == (1, 24, 1)
    changed.write_text(POLICY.format("everything"))
    second = summary("ingest", str(project))
    assert (second["files_read"], second["files_unchanged"], second["new_chunks"]) == (1, 24, 1)
    indexed = summary("index", str(project))
    assert (indexed["added"], indexed["removed"], indexed["updated"]) == (1, 0, True)
    assert summary("embed", str(project))["embedded"] == 1
    assert paths(project, "zanzibar everything")[0] == "policies/new.txt"


def test_an_updated_index_finds_the_same_as_a_rebuilt_one(project: Path) -> None:
    set_threshold(project, 0.9)
    documents = project / "documents"
    for round_ in ("first", "second"):
        (documents / "policies" / "new.txt").write_text(POLICY.format(round_))
        (documents / "policies" / f"{round_}.txt").write_text(
            POLICY.format("every order of the yard")
        )
        shutil.rmtree(documents / "incidents", ignore_errors=True)
        engine_here("run", str(project))

    def rankings() -> list[list[tuple[str, float]]]:
        searches = [
            (mode, query)
            for mode in MODES
            for query in ("quarry warden", "freezer door", "first order")
        ]
        answers = [
            json.loads(
                engine_here(
                    "search", str(project), query, "--mode", mode, "--passages", "--json"
                ).stdout
            )["hits"]
            for mode, query in searches
        ]
        return [[(hit["path"], round(hit["score"], 5)) for hit in hits] for hits in answers]

    updated = rankings()
    engine_here(
        "index",
        str(project),
        "--force",
    )
    assert summary("embed", str(project), "--force")["embedded"] == 0
    assert all(updated)
    assert updated == rankings()


def test_a_file_touched_without_change_makes_nothing_stale(project: Path) -> None:
    for path in (project / "documents").rglob("*.*"):
        os.utime(path)
    events = events_of("adapt", str(project))
    (ingest,) = [event["summary"] for event in events if event["event"] == "stage_finished"]
    assert (ingest["files_read"], ingest["files_unchanged"], ingest["new_chunks"]) == (0, 24, 0)
    skipped = [event["stage"] for event in events if event["event"] == "stage_skipped"]
    assert skipped == ["index", "generate", "rank", "train", "evaluate", "embed"]


def test_a_deleted_file_is_never_shown_again_once_ingest_has_run(small: Path) -> None:
    assert "07.md" in paths(small, "rule 7")
    (small / "documents" / "07.md").unlink()
    assert summary("ingest", str(small))["files_removed"] == 1
    assert "07.md" not in paths(small, "rule 7")
    assert len(paths(small, "zanzibar")) == 10  # the others move up
    assert summary("index", str(small))["removed"] == 1
    assert "07.md" not in paths(small, "rule 7")


def test_a_changed_file_is_still_found_between_ingest_and_index(small: Path) -> None:
    (small / "documents" / "07.md").write_text(
        "# Rule 7\n\nNothing about the yard any more: pelicans only.\n"
    )
    engine_here("ingest", str(small))
    assert paths(small, "zanzibar order 7"), "the former index must go on answering"
    engine_here("index", str(small))
    assert paths(small, "pelicans") == ["07.md"]
    assert "07.md" not in paths(small, "zanzibar")


def test_a_renamed_file_is_found_under_its_new_name_only(small: Path) -> None:
    (small / "documents" / "07.md").rename(small / "documents" / "seven.md")
    counts = summary("ingest", str(small))
    assert (
        counts["files_read"],
        counts["files_removed"],
        counts["files_renamed"],
        counts["new_chunks"],
    ) == (0, 0, 1, 0)
    names = paths(small, "rule 7")
    assert "seven.md" in names
    assert "07.md" not in names


def test_a_name_that_a_file_had_which_is_gone_is_free_for_another_one(small: Path) -> None:
    documents = small / "documents"
    (documents / "07.md").unlink()
    engine_here("ingest", str(small))  # not indexed: the former index still names what 07.md said
    (documents / "08.md").rename(documents / "07.md")
    counts = summary("ingest", str(small))
    assert (
        counts["files_read"],
        counts["files_removed"],
        counts["files_renamed"],
        counts["new_chunks"],
    ) == (0, 0, 1, 0)
    assert paths(small, "rule 8")[0] == "07.md"
    engine_here("index", str(small))
    assert paths(small, "rule 8")[0] == "07.md"
    assert "Rule 7" not in [hit["title"] for hit in hits(small, "rule 7")]


@pytest.mark.posix(reason="Windows does not tell when a file was renamed")
def test_files_that_exchange_their_names_are_seen_to_be_changed(small: Path) -> None:
    """As long, and of the same time of change."""
    first = small / "documents" / "07.md"
    other = small / "documents" / "08.md"
    assert first.stat().st_size == other.stat().st_size
    for file in (first, other):
        os.utime(file, (1e9, 1e9))
    engine_here("ingest", str(small))
    first.rename(small / "kept")
    other.rename(first)
    (small / "kept").rename(other)
    assert summary("ingest", str(small))["files_read"] == 2
    engine_here("index", str(small))
    assert hits(small, "rule 7")[0]["path"] == "08.md"
    assert hits(small, "rule 8")[0]["path"] == "07.md"


def test_a_file_that_comes_back_is_found_again(small: Path) -> None:
    text = (small / "documents" / "07.md").read_text()
    (small / "documents" / "07.md").unlink()
    engine_here("ingest", str(small))
    (small / "documents" / "07.md").write_text(text)
    assert summary("ingest", str(small))["files_read"] == 1
    engine_here("index", str(small))
    assert "07.md" in paths(small, "rule 7")


def test_below_the_threshold_the_adapter_is_kept_and_the_reason_shown(project: Path) -> None:
    set_threshold(project, 0.3)
    shutil.copy(
        SAMPLE / "documents" / "mail" / "2031-03-03-heron-decision.txt", project / "documents"
    )
    engine_here("ingest", str(project))
    engine_here("index", str(project))
    (skipped,) = [
        event for event in events_of("generate", str(project)) if event["event"] == "stage_skipped"
    ]
    assert "kept" in skipped["reason"]
    assert "30 %" in skipped["reason"]
    assert "corpus.retrain_threshold" in skipped["reason"]
    for stage in ("rank", "train", "evaluate"):
        assert [event["event"] for event in events_of(stage, str(project))].count(
            "stage_skipped"
        ) == 1, stage
    states = {
        row["stage"]: row["state"]
        for row in json.loads(engine_here("status", str(project), "--json").stdout)["stages"]
    }
    assert states == {**dict.fromkeys(states, "done"), "embed": "stale"}


def test_above_the_threshold_the_adapter_is_trained_again(project: Path) -> None:
    set_threshold(project, 0.001)
    shutil.rmtree(project / "documents" / "incidents")
    engine_here("ingest", str(project))
    engine_here("index", str(project))
    stages = json.loads(engine_here("status", str(project), "--json").stdout)["stages"]
    states = {row["stage"]: row["state"] for row in stages}
    assert (states["index"], states["generate"], states["train"], states["embed"]) == (
        "done",
        "stale",
        "stale",
        "stale",
    )


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of files that the system refuses to open, as it does for an owner without the right
    or a failing disk.
    """
    names: set[str] = set()
    opened = corpus_ingest.hash_file

    def open_file(path: Path) -> str:
        if path.name in names:
            raise PermissionError(
                13,
                "Permission denied",
                str(path),
            )
        return opened(path)

    monkeypatch.setattr(corpus_ingest, "hash_file", open_file)
    return names


def test_a_file_that_cannot_be_opened_stays_searchable_and_is_tried_again(
    small: Path, refused: set[str]
) -> None:
    changed = small / "documents" / "07.md"
    changed.write_text("# Rule 7\n\nNothing about the yard any more: pelicans only.\n")
    refused.add("07.md")
    counts, warnings = ingest_here(small)
    (warning,) = warnings
    assert "07.md" in warning
    assert (counts["files_skipped"], counts["files_removed"], counts["documents"]) == (1, 0, 20)
    engine_here("index", str(small))
    assert "07.md" in paths(small, "rule 7")
    assert ingest_here(small)[1] == [], "the same reason is told once"
    refused.clear()
    counts, warnings = ingest_here(small)  # neither size nor time stamp differ from the last look
    assert (counts["files_read"], counts["new_chunks"], counts["files_skipped"], warnings) == (
        1,
        1,
        0,
        [],
    )
    engine_here("index", str(small))
    assert paths(small, "pelicans") == ["07.md"]


def test_an_unchanged_file_that_is_open_again_is_not_read_twice(
    small: Path, refused: set[str]
) -> None:
    file = small / "documents" / "07.md"
    before = file.stat()
    os.utime(file)
    refused.add("07.md")
    assert ingest_here(small)[0]["files_skipped"] == 1
    refused.clear()
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))  # as when it was last read
    counts, _ = ingest_here(small)
    assert (counts["files_read"], counts["files_unchanged"], counts["files_skipped"]) == (0, 20, 0)


def test_a_new_file_that_cannot_be_opened_is_read_once_it_can_be(
    small: Path, refused: set[str]
) -> None:
    (small / "documents" / "new.md").write_text("# New\n\nPelicans may enter the yard.\n")
    refused.add("new.md")
    assert ingest_here(small)[0]["documents"] == 20
    refused.clear()
    counts, _ = ingest_here(small)
    assert (counts["files_read"], counts["documents"]) == (1, 21)


def test_a_file_that_holds_no_text_any_more_leaves_search(small: Path) -> None:
    (small / "documents" / "07.md").write_bytes(bytes(range(256)) * 8)
    counts, warnings = ingest_here(small)
    assert (counts["documents"], counts["files_quarantined"]) == (19, 1)
    (warning,) = warnings
    assert "07.md" in warning
    with closing(ProjectFolder.open(small).store()) as store:
        assert [(row.path, row.kind) for row in store.ledger("quarantined")] == [
            ("07.md", "binary")
        ]
    assert "07.md" not in paths(small, "rule 7")
    assert ingest_here(small)[1] == []


def test_files_of_a_folder_that_cannot_be_listed_stay_searchable(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (small / "documents" / "deep").mkdir()
    (small / "documents" / "07.md").rename(small / "documents" / "deep" / "07.md")
    (small / "documents" / "deeper.md").write_text("# Deeper\n\nNot in that folder.\n")
    assert ingest_here(small)[0]["documents"] == 21
    (small / "documents" / "deeper.md").unlink()
    opened = os.scandir

    def listed(path: str | int) -> Any:  # a number where a folder is being removed
        if isinstance(path, str | Path) and Path(path).name == "deep":
            raise PermissionError(13, "Permission denied", path)
        return opened(path)

    monkeypatch.setattr(os, "scandir", listed)
    counts, warnings = ingest_here(small)
    assert (counts["documents"], counts["files_removed"]) == (20, 1)
    (warning,) = warnings
    assert numbers(warning) == [1, 1]  # left out, for one reason
    engine_here("index", str(small))
    assert "deep/07.md" in paths(small, "rule 7")


def test_an_ingest_that_was_stopped_does_not_look_done(
    small: Path,
) -> None:
    for number in range(3):
        (small / "documents" / f"new-{number}.md").write_text(
            f"# New {number}\n\nPelicans may enter the yard.\n"
        )
    (small / "documents" / "07.md").unlink()
    store = ProjectFolder.open(small).store()
    with pytest.raises(CancelledError):
        ingest_here(
            small,
            lambda: any(path == "new-0.md" for _, path in store.files()),
            ReadingPace(files_per_transaction=1),
        )
    store.close()
    code, error = error_of("index", str(small))
    assert (code, error["code"], error["stage"]) == (3, "stage-unfinished", "ingest")
    stages = {
        row["stage"]: row
        for row in json.loads(engine_here("status", str(small), "--json").stdout)["stages"]
    }
    assert stages["ingest"]["state"] != "done"
    assert "07.md" not in paths(small, "rule 7"), "its file is gone"
    (small / "documents" / "07.md").write_text(
        "What was read before is searched until the next ingest."
    )
    assert "07.md" in paths(small, "rule 7")
    (small / "documents" / "07.md").unlink()
    counts = summary("ingest", str(small))
    assert (counts["files_read"], counts["files_removed"]) == (2, 1)
    assert summary("index", str(small))["added"] == 3


def test_an_ingest_that_is_stopped_before_it_changes_anything_leaves_the_project_done(
    small: Path,
) -> None:
    os.utime(small / "documents" / "07.md")
    with pytest.raises(CancelledError):
        ingest_here(small, lambda: True)
    assert summary("index", str(small)) == {}


def test_an_index_of_another_version_or_built_by_force_is_rebuilt(small: Path) -> None:
    from engine.project.folder import ProjectFolder

    assert summary("index", str(small), "--force")["updated"] is False
    for version in (0, None):
        (small / "documents" / "07.md").write_text(
            f"# Rule 7\n\nPelicans only, by version {version}.\n"
        )
        engine_here("ingest", str(small))
        store = ProjectFolder.open(small).store()
        former = store.artifact(LexicalInfo)
        assert former is not None
        store.put_artifact(replace(former, info=replace(former.info, version=version)))
        store.close()
        assert summary("index", str(small))["updated"] is False
    (small / "documents" / "08.md").write_text("# Rule 8\n\nPelicans only.\n")
    engine_here("ingest", str(small))
    assert summary("index", str(small))["updated"] is True


def test_a_title_is_searched_with_every_chunk_and_a_new_title_takes_its_place(small: Path) -> None:
    body = "\n".join(
        f"Paragraph {number} tells of granite and lorries.\n" * 20 for number in range(6)
    )
    (small / "documents" / "titled.html").write_text(
        f"<title>The walrus agreement</title><pre>{body}"
    )
    chunks = summary("ingest", str(small))["new_chunks"]
    assert summary("index", str(small))["updated"]
    assert len(paths(small, "walrus")) == min(chunks, 10) > 1, (
        "only the first chunk knows the title"
    )
    (small / "documents" / "titled.html").write_text(
        f"<title>The narwhal agreement</title><pre>{body}"
    )
    read = summary("ingest", str(small))
    assert (read["files_read"], read["new_chunks"]) == (1, 0)
    retitled = summary("index", str(small))
    assert (retitled["updated"], retitled["added"], retitled["removed"]) == (True, chunks, 0)
    assert set(paths(small, "narwhal")) == {"titled.html"}
    assert paths(small, "walrus") == []
    assert summary("index", str(small)) == {}


def test_titles_are_left_out_where_the_user_does_not_want_them(small: Path) -> None:
    (small / "documents" / "titled.txt").write_text("The walrus agreement\n\nNothing else.")
    (small / "documents" / "walrus.html").write_text(
        "<title>The walrus agreement</title><p>Granite."
    )
    ProjectFolder.open(small).change_settings({"lexical.titles": False})
    summary("ingest", str(small))
    summary("index", str(small))
    assert paths(small, "walrus") == ["titled.txt"]
    ProjectFolder.open(small).change_settings({"lexical.titles": True})
    summary("index", str(small))
    assert paths(small, "walrus") == ["walrus.html", "titled.txt"]


GERMAN = (
    "Die Kündigungsfrist des Vertrags beträgt drei Monate. Der Pächter der Mole hat die Schlüssel"
    " des Hafenhauses am Ende der Pacht beim Hafenmeister abzugeben.\n"
)


def test_a_document_is_stemmed_in_its_own_language(small: Path) -> None:
    """A query finds other forms of its words in a German letter of an English corpus; English is
    found as before.
    """
    before = paths(small, "countersigning the clauses")
    (small / "documents" / "brief.txt").write_text(GERMAN)
    summary("ingest", str(small))
    assert summary("index", str(small))["updated"] is True
    project = ProjectFolder.open(small)
    store = project.store()
    artifact = store.artifact(LexicalInfo)
    store.close()
    assert artifact is not None
    assert (artifact.info.language, artifact.info.languages) == ("en", ("de",))
    for query in ("Kündigungsfristen", "Verträge", "Hafenhäuser"):
        (hit,) = hits(small, query)
        assert hit["path"] == "brief.txt"
        start, end = hit["marks"][0]
        assert hit["snippet"][start:end] in ("Kündigungsfrist", "Vertrags", "Hafenhauses")
    assert paths(small, "countersigning the clauses") == before

    (small / "documents" / "brief.txt").write_text("The harbour house is closed. " * 10)
    summary("ingest", str(small))
    assert summary("index", str(small))["updated"] is True
    assert paths(small, "Hafenhäuser") == []
    assert set(paths(small, "harbours")) == {"brief.txt"}


def test_a_language_that_is_set_is_that_of_all_documents(small: Path) -> None:
    (small / "documents" / "brief.txt").write_text(GERMAN)
    ProjectFolder.open(small).change_settings({"lexical.language": "en"})
    summary("ingest", str(small))
    summary("index", str(small))
    assert set(paths(small, "Kündigungsfrist")) == {"brief.txt"}
    assert paths(small, "Kündigungsfristen") == []


def test_languages_that_are_stored_are_kept(small: Path) -> None:
    (small / "documents" / "brief.txt").write_text(GERMAN)
    summary("ingest", str(small))
    summary("index", str(small))
    project = ProjectFolder.open(small)
    with closing(project.store()) as store:
        (brief,) = (document for document in store.documents() if document.path == "brief.txt")
        store.put_languages([(brief.id, "gsw")])
    summary(
        "index",
        str(small),
        "--force",
    )
    with closing(project.store()) as store:
        assert {document.language for document in store.documents()} == {"en", "gsw"}


def test_a_deleted_file_leaves_search_before_anything_runs_and_comes_back_with_it(
    small: Path,
) -> None:
    name, *_ = paths(small, "countersigning the clauses")
    file = small / "documents" / name
    content = file.read_bytes()
    file.unlink()
    answer = json.loads(
        engine_here(
            "search", str(small), "countersigning the clauses", "--mode", "bm25", "--json"
        ).stdout
    )
    assert name not in [hit["path"] for hit in answer["hits"]]
    first, last = answer["notes"]
    assert first.startswith("1 document ")
    assert f"'engine run {small}'" in last
    file.write_bytes(content)
    assert name in paths(small, "countersigning the clauses")


def test_what_an_index_does_not_hold_yet_is_noted(small: Path) -> None:
    def notes(mode: str) -> list[str]:
        output = engine_here("search", str(small), "capybara", "--mode", mode, "--json").stdout
        return list(json.loads(output)["notes"])

    engine_here("embed", str(small))
    (unknown,) = notes("hybrid")
    assert "engine" not in unknown, "a word that no document has, not an index that lacks something"
    (small / "documents" / "capybara.txt").write_text("A capybara runs the canteen.")
    engine_here("ingest", str(small))
    (note,) = notes("bm25")
    assert all(data in note for data in ("1 chunk ", "keyword search", f"'engine index {small}'"))
    engine_here("index", str(small))
    assert notes("bm25") == []
    (note,) = notes("hybrid")
    assert all(data in note for data in ("1 chunk ", "semantic", f"'engine embed {small}'"))
    engine_here("embed", str(small))
    assert notes("hybrid") == []
