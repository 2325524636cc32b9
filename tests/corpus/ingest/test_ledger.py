"""What an ingest makes of a folder of good and bad files, and what it keeps of each in the
ledger.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fixtures import office
from fixtures.errors import fails
from fixtures.pipeline import engine_here, ingest_here, stage_here
from fixtures.project_files import create_project
from fixtures.shown_numbers import numbers

from engine.api import Project
from engine.core.errors import InputError, NoDocumentsError
from engine.core.messages.documents import FileOutcome
from engine.core.messages.search import Search
from engine.corpus.formats.locked import NO_PASSWORD, NONE_FITS, PASSWORDS_ADVICE
from engine.corpus.ingest.ingest import ReadingPace
from engine.corpus.sandbox import child, pool
from engine.corpus.sandbox.outcome import Limits
from engine.project.folder import ProjectFolder
from engine.project.store.store import Store

PDF = office.pdf("The pelican boards at dawn.", "The heron moors at noon.")
PLAN = office.pdf(
    "The pelican boards at dawn, too.", "The heron moors at noon."
)  # not a copy: those take one place
FILES = {
    "a.pdf": PDF,
    "b.docx": office.docx(),
    "c.xlsx": office.xlsx(),
    "locked.pdf": office.locked_pdf(),
    "scan.pdf": office.pdf(""),
    "broken.docx": office.docx()[:500],
    "blank.txt": b"  \n",
    "mail.eml": office.eml(
        {"plan.pdf": PLAN, "photo.jpg": b"\xff\xd8", "locked.docx": office.locked_package()}
    ),
    "note.txt": b"The tern rests on the pier.",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return create_project(tmp_path, FILES).path


def stored(project: Path) -> Store:
    return ProjectFolder(project).store()


def ledger(project: Path) -> dict[str, FileOutcome]:
    store = stored(project)
    try:
        return {row.path: row for row in store.ledger()}
    finally:
        store.close()


def warnings_of(project: Path) -> list[str]:
    lines = engine_here("ingest", str(project), "--json").stdout.splitlines()
    events = [json.loads(line) for line in lines]
    return [event["text"] for event in events if event["event"] == "warning"]


def test_what_was_guessed_of_a_text_is_noted(tmp_path: Path) -> None:
    files = {
        "a.txt": "Пеликан отдыхает на причале и ждёт корабль.".encode("koi8-r"),
        "b.jsonl": b'{"berth": "North pelican"}\n{"berth": "So',
    }
    project = create_project(tmp_path, files).path
    ingest_here(project)
    rows = ledger(project)
    assert {path: (row.state, row.kind) for path, row in rows.items()} == {
        "a.txt": ("read", ""),
        "b.jsonl": ("read", ""),
    }
    assert "koi8-r" in rows["a.txt"].reason
    assert numbers(rows["b.jsonl"].reason) == [2]


def test_documents_of_a_touched_file_have_its_new_time(project: Path) -> None:
    def times() -> dict[str, float]:
        with closing(stored(project)) as store:
            return {row.path: row.modified for row in store.documents()}

    ingest_here(project)
    before = times()
    touched = {"note.txt", "mail.eml", "mail.eml/plan.pdf"}
    assert touched < set(before)
    for name in ("note.txt", "mail.eml"):
        os.utime(project.parent / "documents" / name, (5e8, 5e8))
    done, _ = ingest_here(project)
    assert (done["files_read"], done["new_chunks"]) == (0, 0)
    assert times() == {path: 5e8 if path in touched else time for path, time in before.items()}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_files_whose_names_are_not_utf_8_are_read(tmp_path: Path) -> None:
    project = create_project(tmp_path).path
    for name, content in (
        (b"\xe9.csv", office.CSV),
        (b"\xe9.docx", office.docx()),
        (b"\xe9.zip", office.zipped({"x.txt": "The tern."})),
    ):
        Path(os.fsdecode(bytes(tmp_path / "documents") + b"/caf" + name)).write_bytes(content)
    ingest_here(project)
    assert {path: (row.state, row.documents) for path, row in ledger(project).items()} == {
        r"caf\xe9.csv": ("read", 1),
        r"caf\xe9.docx": ("read", 1),
        r"caf\xe9.zip": ("read", 1),
    }
    done, _ = ingest_here(project)
    assert (done["files_read"], done["files_unchanged"]) == (0, 3)


def test_every_file_has_its_row_and_every_failure_its_reason(project: Path) -> None:
    done, reported = ingest_here(project)
    rows = ledger(project)
    assert {path: (row.state, row.kind) for path, row in rows.items()} == {
        "a.pdf": ("read", ""),
        "b.docx": ("read", ""),
        "c.xlsx": ("read", ""),
        "note.txt": ("read", ""),
        "locked.pdf": ("quarantined", "encrypted"),
        "scan.pdf": ("quarantined", "needs OCR"),
        "broken.docx": ("quarantined", "damaged"),
        "blank.txt": ("quarantined", "empty"),
        "mail.eml": ("read", ""),
        "mail.eml/photo.jpg": ("skipped", "needs OCR"),
        "mail.eml/locked.docx": ("quarantined", "encrypted"),
    }
    assert rows["mail.eml"].documents == 2
    assert all(row.reason for row in rows.values() if row.state != "read")
    assert (
        done["files_read"],
        done["files_skipped"],
        done["files_quarantined"],
        done["documents"],
    ) == (5, 0, 4, 6)
    assert any("locked.pdf" in text and NO_PASSWORD in text for text in reported)
    assert reported.count(PASSWORDS_ADVICE) == 1


ADVISED = ("corpus.ocr", "corpus.passwords_file")


def test_files_and_what_is_inside_them_are_counted_apart(project: Path) -> None:
    (project.parent / "documents" / "Contract 2.1").write_bytes(office.docx())
    ingest_here(project)
    listed = engine_here("documents", str(project))
    counts, *hints = listed.stderr.splitlines()
    assert [numbers(part) for part in counts.split(";")] == [[6, 4], [1, 1]]
    assert [name in hint for hint, name in zip(hints, ADVISED, strict=True)] == [True, True]
    assert ledger(project)["Contract 2.1"].format == "docx"
    none = engine_here(
        "documents",
        str(project),
        "--path",
        "none",
    )
    assert (none.stdout, len(none.stderr.splitlines())) == ("", 1)


def test_what_is_inside_files_that_were_not_read_is_counted_by_the_run_as_by_the_list(
    project: Path,
) -> None:
    (project.parent / "documents" / "secrets.zip").write_bytes(
        office.zipped({"blank.txt": " ", "broken.docx": "PK"})
    )
    done, _ = ingest_here(project)
    inside = {path for path in ledger(project) if path.startswith(("mail.eml/", "secrets.zip/"))}
    assert ledger(project)["secrets.zip"].state == "quarantined"
    assert (done["left_out_inside_files"], len(inside)) == (4, 4)
    with closing(stored(project)) as store:
        assert {path for _, path, _ in store.unread_parts()} == inside


def test_unreadable_files_are_counted_while_others_are_read(project: Path) -> None:
    seen: list[int] = []

    def should_stop() -> bool:
        with closing(stored(project)) as store:
            seen.append(store.counts()["quarantined"])
        return False

    ingest_here(
        project,
        should_stop,
        ReadingPace(files_per_transaction=1),
    )
    assert set(range(4)) <= set(seen)


def test_what_was_quarantined_is_not_read_again_until_it_changes(project: Path) -> None:
    ingest_here(project)
    done, reported = ingest_here(project)
    assert (done["files_read"], done["files_unchanged"], done["files_quarantined"], reported) == (
        0,
        5,
        4,
        [],
    )
    os.utime(project.parent / "documents" / "scan.pdf")
    assert (ingest_here(project)[0]["files_read"], ledger(project)["scan.pdf"].kind) == (
        0,
        "needs OCR",
    )
    (project.parent / "documents" / "scan.pdf").write_bytes(PDF)
    assert ingest_here(project)[0]["files_read"] == 1
    assert ledger(project)["scan.pdf"].state == "read"


def test_a_retry_reads_quarantined_files_and_files_with_such_parts_again(project: Path) -> None:
    from engine.service.documents import retry_matching

    ingest_here(project)
    folder = ProjectFolder(project)
    assert retry_matching(folder, ["*.eml", "scan.*"]) == 2
    assert retry_matching(folder) == 5
    done, _ = ingest_here(project)
    assert (done["files_read"], done["new_chunks"], done["files_quarantined"]) == (1, 0, 4)
    assert ledger(project)["mail.eml/locked.docx"].kind == "encrypted"


def test_a_run_names_some_of_many_files_that_it_cannot_read(project: Path) -> None:
    done, warnings = ingest_here(project, pace=ReadingPace(max_named=2))
    assert done["files_quarantined"] == 4
    assert [numbers(text)[0] for text in warnings[2:] if text != PASSWORDS_ADVICE] == [2]


def test_a_run_warns_once_where_readers_are_less_confined(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(limits: Limits, *, lock_down: bool) -> child.ReadingProcess:
        if lock_down:
            raise OSError(5, "Access is denied")
        return start_reader(limits, lock_down=False)

    start_reader = child.start_reader
    monkeypatch.setattr(
        child,
        "can_lock_down",
        lambda: True,
    )
    monkeypatch.setattr(
        pool,
        "LOCKDOWN",
        child.LockdownTrial(),
    )
    monkeypatch.setattr(pool, "start_reader", start)
    _, warnings = ingest_here(project)
    (warning,) = (text for text in warnings if "Access is denied" in text)
    assert "may read other files" in warning
    # Nothing is read now.
    _, warnings = ingest_here(project)
    assert not any("Access is denied" in text for text in warnings)


def test_a_broken_data_set_stops_no_run(project: Path) -> None:
    documents = project.parent / "documents"
    for folder in ("set", "other", "judged"):
        (documents / folder / "qrels").mkdir(parents=True)
    good = '{"_id": "1", "text": "The pelican."}\n'
    (documents / "set" / "corpus.jsonl").write_text(good + '{"broken": tr')
    (documents / "other" / "corpus.jsonl").write_text('{"text": "The gull waits."}\n')
    (documents / "other" / "note.txt").write_text("The heron moors.")
    (documents / "judged" / "corpus.jsonl").write_text(good)
    (documents / "judged" / "queries.jsonl").write_text("{broken")
    (documents / "judged" / "qrels" / "test.tsv").write_text("q\t1\t1\n")
    ingest_here(project)
    rows = ledger(project)
    assert (rows["set/corpus.jsonl"].state, rows["set/corpus.jsonl"].kind) == (
        "quarantined",
        "damaged",
    )
    assert numbers(rows["set/corpus.jsonl"].reason)[0] == 2  # the line
    read = ("note.txt", "other/corpus.jsonl", "other/note.txt", "judged/corpus.jsonl")
    assert [rows[path].state for path in read] == ["read"] * 4


def test_what_was_too_much_is_tried_again_where_the_limit_is_raised(project: Path) -> None:
    ingest_here(project)
    store = stored(project)
    record = next(one for (_, path), one in store.files().items() if path == "note.txt")
    with store.transaction():
        store.put_file(
            replace(
                record, state="quarantined", kind="timed out", reason="it was not read within 60 s"
            )
        )
    store.close()
    ingest_here(project)
    ProjectFolder(project).change_settings({"corpus.reading_memory_mb": 3000})
    ingest_here(project)
    assert ledger(project)["note.txt"].kind == "timed out"
    ProjectFolder(project).change_settings({"corpus.reading_seconds": 120})
    ingest_here(project)
    assert ledger(project)["note.txt"].state == "read"


def test_deleted_files_leave_search_also_where_nothing_else_can_be_read(tmp_path: Path) -> None:
    files = dict.fromkeys(("a.txt", "b.txt", "c.txt"), "The pelican boards.")
    project = create_project(tmp_path, files).path
    documents = tmp_path / "documents"
    ingest_here(project)

    def after_ingest() -> dict[str, str]:
        with fails(NoDocumentsError, "no-documents"):
            ingest_here(project)
        rows = {path: row.state for path, row in ledger(project).items()}
        with closing(stored(project)) as store:
            assert (store.counts()["chunks"] > 0) == ("read" in rows.values())
        return rows

    for file in documents.iterdir():
        file.rename(tmp_path / file.name)
    assert after_ingest() == {
        "a.txt": "read",
        "b.txt": "read",
        "c.txt": "read",
    }  # as if a disk were not mounted
    (documents / "x.pdf").write_bytes(b"%PDF-1.4")
    (tmp_path / "c.txt").rename(documents / "c.txt")
    (documents / "c.txt").write_bytes(bytes(range(256)) * 8)
    assert after_ingest() == {
        "c.txt": "read",
        "x.pdf": "quarantined",
    }  # c.txt is still there: so is what was read of it
    (documents / "c.txt").unlink()
    assert after_ingest() == {"x.pdf": "quarantined"}
    (documents / "x.pdf").rename(documents / "x.wpd")
    assert after_ingest() == {"x.wpd": "skipped"}


@pytest.mark.parametrize("within_project", [False, True])
@pytest.mark.parametrize("state", ["empty", "gone"])
def test_one_of_several_folders_that_is_empty_or_gone_loses_nothing(
    tmp_path: Path, state: str, within_project: bool
) -> None:
    share = tmp_path / ("project/share" if within_project else "share")
    own = tmp_path / "own"
    project = ProjectFolder.create(
        tmp_path / "project", {"corpus": {"paths": [str(share), str(own)]}}
    ).path
    for folder, name in ((share, "a"), (share, "b"), (own, "c"), (own, "d")):
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.txt").write_text(f"The pelican boards {name}.")
    ingest_here(project)
    aside = tmp_path / "aside"
    share.rename(aside)
    if state == "empty":
        share.mkdir()
    (own / "d.txt").unlink()
    for _ in range(2):  # it is said in each run
        (warning,) = warnings_of(project)
        assert str(share) in warning
        rows = ledger(project)
        folder = "share" if within_project else str(share)
        assert {path: row.state for path, row in rows.items()} == {
            folder: "skipped",
            "a.txt": "read",
            "b.txt": "read",
            "c.txt": "read",
        }
        assert rows[folder].kind == "no access"
        opened = Project.open(project)
        assert list(opened.skipped()) == [folder]
        opened.close()
        with closing(stored(project)) as store:
            assert store.counts()["chunks"] == 3
    shutil.rmtree(share, ignore_errors=True)
    aside.rename(share)
    (share / "b.txt").unlink()
    assert warnings_of(project) == []
    assert {path: row.state for path, row in ledger(project).items()} == {
        "a.txt": "read",
        "c.txt": "read",
    }


def test_each_folder_that_is_gone_is_named_and_counts_as_no_file(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("first", "second", "third")]
    for number, folder in enumerate(paths):
        folder.mkdir()
        (folder / f"{number}.txt").write_text(f"The pelican boards {number}.")
    project = ProjectFolder.create(
        tmp_path / "project", {"corpus": {"paths": list(map(str, paths))}}
    ).path
    ingest_here(project)
    shutil.rmtree(paths[0])
    shutil.rmtree(paths[1])
    assert ingest_here(project)[0]["files_skipped"] == 0
    opened = Project.open(project)
    assert list(opened.skipped()) == [str(paths[0]), str(paths[1])]
    opened.close()


def test_a_folder_that_was_never_read_is_no_folder_that_is_away(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/a.txt").write_text("The pelican boards.")
    paths = [str(tmp_path / "own"), str(tmp_path / "nowhere")]
    project = ProjectFolder.create(tmp_path / "project", {"corpus": {"paths": paths}}).path
    with fails(InputError, "path-missing"):
        ingest_here(project)
    (tmp_path / "nowhere").mkdir()
    assert warnings_of(project) == []


def test_every_file_that_is_left_out_has_its_row_however_many_there_are(tmp_path: Path) -> None:
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "photo.jpg").write_bytes(b"\xff\xd8")
    (tmp_path / "first" / "a.txt").write_text("The pelican boards.")
    for number in range(1200):
        (tmp_path / "second" / f"{number:04}.qqq").touch()
    paths = [str(tmp_path / "first"), str(tmp_path / "second")]
    project = ProjectFolder.create(tmp_path / "project", {"corpus": {"paths": paths}}).path
    done, reported = ingest_here(project)
    assert [numbers(text) for text in reported] == [[1202, 1200, 2]]
    store = stored(project)
    rows = [(row.source, row.path, row.state, row.kind) for row in store.ledger("skipped")]
    assert (done["files_skipped"], store.counts()["skipped"], len(rows)) == (1202, 1202, 1202)
    store.close()
    assert rows[0] == (paths[1], "0000.qqq", "skipped", "unsupported")
    assert rows[-2:] == [(path, "photo.jpg", "skipped", "needs OCR") for path in paths]
    opened = Project.open(project)
    assert {f"{path}/photo.jpg" for path in paths} < opened.skipped().keys()
    opened.close()
    assert ingest_here(project)[1] == []
    (tmp_path / "second" / "0000.qqq").unlink()
    assert ingest_here(project)[0]["files_skipped"] == 1201


def test_a_quarantined_file_that_was_closed_for_a_while_is_quarantined_again(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.corpus.ingest import ingest

    (project.parent / "documents" / "old.txt").write_bytes(
        "Пеликан отдыхает на причале.".encode("koi8-r")
    )
    ingest_here(project)
    before = ledger(project)
    looked = ingest.hash_file

    def closed(path: Path) -> str:
        if path.name in ("scan.pdf", "old.txt"):
            raise PermissionError(
                13,
                "Permission denied",
                str(path),
            )
        return looked(path)

    monkeypatch.setattr(ingest, "hash_file", closed)
    for name in ("scan.pdf", "old.txt"):
        os.utime(project.parent / "documents" / name)
    for _ in range(2):
        ingest_here(project)
        closed_rows = [ledger(project)[name] for name in ("scan.pdf", "old.txt")]
        assert {(row.state, row.kind) for row in closed_rows} == {("skipped", "no access")}
    monkeypatch.undo()
    done, _ = ingest_here(project)
    after = ledger(project)
    assert after == before
    assert (after["scan.pdf"].kind, "koi8-r" in after["old.txt"].reason) == ("needs OCR", True)
    assert done["new_chunks"] == 0


def test_what_lies_in_a_closed_folder_stays_where_nothing_else_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = ProjectFolder.create(tmp_path / "project", {"corpus": {"paths": ["documents"]}}).path
    (project / "documents" / "deep").mkdir(parents=True)
    (project / "documents" / "deep" / "a.txt").write_text("The pelican boards.")
    ingest_here(project)
    listed = os.scandir

    def closed(path: str | Path) -> Any:
        if str(path).endswith("/deep"):
            raise PermissionError(
                13,
                "Permission denied",
                str(path),
            )
        return listed(path)

    monkeypatch.setattr(os, "scandir", closed)
    with fails(NoDocumentsError, "no-documents"):
        ingest_here(project)
    rows = ledger(project)
    assert {path: (row.state, row.kind) for path, row in rows.items()} == {
        "deep": ("skipped", "no access"),
        "deep/a.txt": ("read", ""),
    }


def test_a_renamed_file_keeps_its_chunks_and_is_not_read(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.corpus.sandbox.pool import Pool

    ingest_here(project)
    store = stored(project)
    before = {chunk.id: chunk.text for chunk in store.chunks()}
    fingerprint = store.corpus_fingerprint()
    store.close()
    documents = project.parent / "documents"
    (documents / "mail.eml").rename(documents / "post.eml")
    (documents / "moved").mkdir()
    (documents / "c.xlsx").rename(documents / "moved" / "Berth list.xlsx")
    monkeypatch.setattr(Pool, "read", None)
    done, _ = ingest_here(project)
    assert (
        done["files_renamed"],
        done["files_removed"],
        done["files_read"],
        done["new_chunks"],
    ) == (2, 0, 0, 0)
    store = stored(project)
    assert {chunk.id: chunk.text for chunk in store.chunks()} == before
    assert store.corpus_fingerprint() == fingerprint
    paths = {document.path for document in store.documents()}
    store.close()
    assert {"post.eml", "post.eml/plan.pdf", "moved/Berth list.xlsx"} <= paths
    assert not {"mail.eml", "mail.eml/plan.pdf", "c.xlsx"} & paths
    assert "post.eml/locked.docx" in ledger(project)


def test_a_copy_is_no_rename(project: Path) -> None:
    ingest_here(project)
    documents = project.parent / "documents"
    shutil.copy(documents / "a.pdf", documents / "copy.pdf")
    done, _ = ingest_here(project)
    assert (done["files_renamed"], done["files_read"], done["documents"]) == (0, 1, 7)
    (documents / "a.pdf").unlink()
    shutil.copy(documents / "copy.pdf", documents / "x.pdf")
    (documents / "y.pdf").write_bytes(PDF)
    done, _ = ingest_here(project)
    assert (done["files_renamed"], done["files_read"], done["documents"]) == (1, 1, 8)


def test_chunks_know_their_pages_and_documents_their_author(project: Path) -> None:
    ingest_here(project)
    store = stored(project)
    by_path = {document.path: document for document in store.documents()}
    pages = {
        path: [chunk.pages for chunk in store.chunks_of(document.id)]
        for path, document in by_path.items()
    }
    store.close()
    assert pages["a.pdf"] == [((0, 1, "page 1"), (29, 2, "page 2"))]
    assert [page[2] for chunk in pages["c.xlsx"] for page in chunk] == [
        "sheet Berths",
        "sheet Pilots",
    ]
    assert pages["note.txt"] == [()]
    assert (by_path["b.docx"].author, by_path["b.docx"].created) == ("Ada Quay", 1930367167.0)
    assert by_path["mail.eml/plan.pdf"].format == "pdf"


def test_a_text_of_5_gb_is_left_alone(project: Path) -> None:
    with (project.parent / "documents" / "note.txt").open("r+b") as file:
        file.truncate(5 * 2**30)
    ingest_here(project)
    row = ledger(project)["note.txt"]
    assert (row.state, row.kind, numbers(row.reason)) == ("quarantined", "too large", [512])


@pytest.mark.posix(reason="a folder holds no pipes on Windows")
def test_a_pipe_in_a_files_place_does_not_hold_the_run(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.corpus.ingest import ingest

    looked = ingest.hash_file

    def replaced(path: Path) -> str:
        if path.name == "note.txt":
            path.unlink()
            os.mkfifo(path)
        return looked(path)

    monkeypatch.setattr(ingest, "hash_file", replaced)
    ingest_here(project)
    assert (ledger(project)["note.txt"].state, ledger(project)["a.pdf"].state) == (
        "skipped",
        "read",
    )


def test_a_search_shows_page_slide_and_sheet(project: Path) -> None:
    from engine.search.searcher import Searcher

    (project.parent / "documents" / "deck.pptx").write_bytes(office.pptx())
    stage_here(project, "ingest")
    stage_here(project, "index")
    searcher = Searcher(ProjectFolder(project))
    places = {
        hit.path: (hit.page, hit.place, hit.author)
        for hit in searcher.search(Search("heron", "bm25")).hits
    }
    searcher.close()
    assert places == {
        "a.pdf": (2, "page 2", "Ada Quay"),
        "b.docx": (2, "page 2", "Ada Quay"),
        "c.xlsx": (2, "sheet Pilots", "Ada Quay"),
        "deck.pptx": (2, "slide 2", "Ada Quay"),
        "mail.eml/plan.pdf": (2, "page 2", "Ada Quay"),
    }


def test_before_anything_is_read_the_command_names_the_one_that_reads(project: Path) -> None:
    listed = engine_here("documents", str(project))
    assert (listed.stdout, f"engine run {project}" in listed.stderr) == ("", True)


@pytest.mark.posix(reason="names hold no control characters on Windows")
def test_the_command_lists_retries_and_exports(project: Path) -> None:
    (project.parent / "documents" / "=1+1.txt").write_bytes(bytes(range(256)))
    (project.parent / "documents" / "b\x1b[31m.txt").write_bytes(b"The tern rests.")
    ingest_here(project)
    listed = engine_here(
        "documents",
        str(project),
        "--state",
        "unreadable",
    )
    (line,) = (line for line in listed.stdout.splitlines() if " locked.pdf " in line)
    assert line.split() == ["unreadable", "(encrypted)", "locked.pdf", *NO_PASSWORD.split()]
    assert "a.pdf" not in listed.stdout
    reported = json.loads(
        engine_here("documents", str(project), "--json", "--path", "*.pdf").stdout
    )
    assert {(row["path"], row["state"]) for row in reported} == {
        ("a.pdf", "read"),
        ("locked.pdf", "quarantined"),
        ("scan.pdf", "quarantined"),
    }
    rows = list(
        csv.DictReader(io.StringIO(engine_here("documents", str(project), "export").stdout))
    )
    assert {row["path"] for row in rows} >= {
        "'=1+1.txt",
        "b�[31m.txt",
        "mail.eml/photo.jpg",
        "a.pdf",
    }
    assert len(json.loads(engine_here("documents", str(project), "--json").stdout)) == len(rows)
    again_read = engine_here("documents", str(project), "retry", "--path", "scan.pdf").stderr
    assert again_read.startswith("1 ")
    assert f"engine run {project}" in again_read
    (again,) = json.loads(
        engine_here("documents", str(project), "--json", "--path", "scan.pdf").stdout
    )
    assert again["size"] == (project.parent / "documents" / "scan.pdf").stat().st_size
    (before,) = (row["reason"] for row in reported if row["path"] == "scan.pdf")
    assert again["reason"] != before
    ingest_here(project)
    assert ledger(project)["scan.pdf"].reason == before
    wrong = engine_here(
        "documents",
        str(project),
        "--state",
        "lost",
        check=False,
    )
    assert (wrong.returncode, "unreadable" in wrong.stderr) == (2, True)


def test_search_filters_by_author_language_and_the_documents_own_date(project: Path) -> None:
    from engine.search.searcher import Searcher

    documents = project.parent / "documents"
    (documents / "brief.txt").write_text(
        "Der Reiher und der pelican ruhen am Abend auf der Mole und warten auf den Lotsen."
    )
    (documents / "later.eml").write_bytes(
        office.eml(text="The pelican is late.").replace(b"2031", b"2033")
    )
    (documents / "note.md").write_text("---\ntags: [Berths, plan/2031]\n---\nA pelican.\n")
    stage_here(project, "ingest")
    stage_here(project, "index")
    searcher = Searcher(ProjectFolder(project))

    def paths(**where: Any) -> set[str]:
        request = Search(
            "pelican",
            "bm25",
            top=50,
            **where,
        )
        return {hit.path for hit in searcher.search(request).hits}

    everything = {
        "a.pdf",
        "b.docx",
        "c.xlsx",
        "mail.eml",
        "mail.eml/plan.pdf",
        "brief.txt",
        "later.eml",
        "note.md",
    }
    assert paths() == everything
    assert paths(authors=("quay",)) == everything - {"brief.txt", "note.md"}
    assert paths(tags=("berths",)) == {"note.md"}
    assert paths(tags=("plan", "rent")) == {"note.md"}
    assert paths(authors=("quay",), types=("eml",)) == {"mail.eml", "later.eml"}
    assert paths(languages=("de",)) == {"brief.txt"}
    assert paths(after="2033-01-01") == {"later.eml"}
    found = searcher.search(Search("pelican", "bm25", top=1, facets=True))
    searcher.close()
    assert found.facets["type"] == {"pdf": 2, "eml": 2, "docx": 1, "xlsx": 1, "txt": 1, "md": 1}
    assert found.facets["tag"] == {"Berths": 1, "plan/2031": 1}
    assert found.facets["author"] == {"Ada Quay": 4, "Ada Quay <ada@harbour.example>": 2}
    assert found.facets["language"]["de"] == 1
    assert (found.facets["year"]["2031"], found.facets["year"]["2033"]) == (5, 1)


def test_facets_count_all_that_was_found_however_many_are_shown(tmp_path: Path) -> None:
    from engine.search.searcher import Searcher

    files = {f"{n}.md": f"The pelican, the pelican on pier {n}." for n in range(150)}
    for number in range(3):  # they rank behind all of the others
        text = f"On pier {number} a pelican was seen. " + "A tern rests. " * 20
        files[f"{number}.txt"] = text
    project = create_project(tmp_path, files).path
    ingest_here(project)
    stage_here(project, "index")
    searcher = Searcher(ProjectFolder(project))
    try:
        for top in (1, 50):
            found = searcher.search(Search("pelican", "bm25", top=top, facets=True))
            assert found.facets["type"] == {"md": 150, "txt": 3}
        among = searcher.search(Search("pelican", "bm25", types=("text",), facets=True))
        assert among.facets["type"] == {"txt": 3}
        none = searcher.search(Search("pelican", "bm25", types=("pages",)))
        assert (none.hits, len(none.notes), "pages" in none.notes[0]) == ((), 1, True)
        none = searcher.search(Search("pelican", "bm25", languages=("tlh",)))
        assert (none.hits, len(none.notes), "tlh" in none.notes[0]) == ((), 1, True)
    finally:
        searcher.close()


def test_passwords_of_a_named_file_open_locked_files_and_stay_out_of_the_project(
    project: Path, tmp_path: Path
) -> None:
    documents = project.parent / "documents"
    (documents / "locked.zip").write_bytes(office.locked_zip("tern.txt", b"The tern rests."))
    ingest_here(project)
    assert ledger(project)["locked.zip/tern.txt"].kind == "encrypted"
    secrets = tmp_path / "secrets.txt"
    secrets.write_text("wrong\n")
    ProjectFolder(project).change_settings({"corpus.passwords_file": str(secrets)})
    ingest_here(project)
    assert (ledger(project)["locked.pdf"].kind, ledger(project)["locked.pdf"].reason) == (
        "encrypted",
        NONE_FITS,
    )
    assert ledger(project)["locked.zip/tern.txt"].reason == NONE_FITS
    secrets.write_text("wrong\nsecret\n")
    os.utime(secrets, ns=(1, 1))
    done, _ = ingest_here(project)
    rows = ledger(project)
    assert (
        rows["locked.pdf"].state,
        rows["locked.zip"].state,
        rows["mail.eml/locked.docx"].kind,
    ) == (
        "read",
        "read",
        "encrypted",
    )
    assert done["files_read"] == 3  # with the mail, which holds something locked still
    assert ingest_here(project)[0]["files_read"] == 0
    assert not any(
        b"secret\n" in file.read_bytes() or b"wrong" in file.read_bytes()
        for file in project.rglob("*")
        if file.is_file()
    )
    secrets.unlink()
    with fails(InputError, "passwords-unreadable"):
        ingest_here(project)
