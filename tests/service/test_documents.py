from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from fixtures import office
from fixtures.errors import fails
from fixtures.pipeline import ingest_here

from engine.core.errors import InputError, ProjectBusyError, UsageError
from engine.corpus.formats.locked import NO_PASSWORD
from engine.project.folder import ProjectFolder
from engine.service import methods


def test_scan_counts_by_format(project: ProjectFolder, call: Any) -> None:
    files = [
        path
        for path in (project.path / "documents").rglob("*")
        if path.is_file() and path.suffix != ".qqq"
    ]
    sizes: dict[str, list[int]] = {}
    for path in files:
        sizes.setdefault(path.suffix[1:], []).append(path.stat().st_size)
    largest_first = sorted(sizes, key=lambda name: -sum(sizes[name]))
    answer = call("scan")
    assert len(sizes) > 1
    assert answer["formats"] == [
        {"format": name, "files": len(sizes[name]), "bytes": sum(sizes[name])}
        for name in largest_first
    ]
    assert (answer["files"], answer["bytes"]) == (5, sum(path.stat().st_size for path in files))
    (row,) = answer["skipped"]
    assert (row["source"], row["path"]) == (str(project.path / "documents"), "odd.qqq")
    assert ".qqq" in row["reason"]
    assert (answer["skipped_total"], answer["seconds"] >= 0) == (1, True)


def test_scan_with_other_arguments_writes_nothing(
    project: ProjectFolder, call: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "other"
    (folder / "drafts").mkdir(parents=True)
    (folder / "a.md").write_text("12345")
    (folder / "drafts" / "b.md").write_text("123")
    (folder / "c.txt").write_text("1")
    before = (project.path / "project.toml").read_bytes()
    assert call("scan", paths=[str(folder)])["formats"] == [
        {"format": "md", "files": 2, "bytes": 8},
        {"format": "txt", "files": 1, "bytes": 1},
    ]
    assert call("scan", paths=[str(folder)], include=["*.md"], exclude=["drafts/"])["files"] == 1
    assert call("scan", exclude=["incidents/"])["files"] == 3
    assert (project.path / "project.toml").read_bytes() == before


def test_scan_shows_500_left_out_files_and_counts_all(call: Any, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    for number in range(502):
        (folder / f"{number:04}.qqq").touch()
    answer = call("scan", paths=[str(folder)])
    assert (len(answer["skipped"]), answer["skipped_total"], answer["files"]) == (500, 502, 0)
    assert answer["skipped"][499]["path"] == "0499.qqq"


def test_scan_needs_no_valid_settings_when_all_is_given(
    project: ProjectFolder, call: Any, tmp_path: Path
) -> None:
    (project.path / "project.toml").write_text("[serch]\n")
    assert call("scan", paths=[str(tmp_path)], include=["*.none"], exclude=[])["files"] == 0


def test_scan_of_what_is_not_there(call: Any, tmp_path: Path) -> None:
    with fails(InputError, "path-missing"):
        call("scan", paths=[str(tmp_path / "none")])
    with fails(UsageError, "pattern-invalid", "corpus.include"):
        call("scan", include=["!"])
    assert call("scan", paths=[])["files"] == 0


@pytest.mark.parametrize(
    "params", [{"paths": "documents"}, {"include": [1]}, {"exclude": {}}, {"path": []}]
)
def test_wrong_params(project: ProjectFolder, params: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        methods(project)["scan"](**params)


def test_skipped_files_and_a_second_reading(project: ProjectFolder, call: Any) -> None:
    answer = call("skipped")
    rows = [
        (row["source"], row["path"], row["retryable"], bool(row["reason"]))
        for row in answer["files"]
    ]
    assert rows == [("documents", "empty.txt", True, True), ("documents", "odd.qqq", False, True)]
    assert (answer["total"], answer["retryable"]) == (2, 1)
    retried = [
        {"source": "documents", "path": name}
        for name in ("empty.txt", "odd.qqq", "incidents/none.md")
    ]
    assert call("retry", files=retried) == {"forgotten": 1}
    store = project.store()
    record = store.files()["documents", "empty.txt"]
    store.close()
    assert (record.state, record.size, record.mtime_ns, record.content_hash) == (
        "quarantined",
        3,
        -1,
        "",
    )
    file = project.path / "documents" / "empty.txt"
    former = file.stat()
    file.write_bytes(b"ab\n")  # as long as before, and with the former time
    os.utime(file, ns=(former.st_atime_ns, former.st_mtime_ns))
    summary, _ = ingest_here(project.path)
    assert (summary["files_read"], summary["documents"]) == (1, 5)
    assert [row["path"] for row in call("skipped")["files"]] == ["odd.qqq"]


def test_what_was_not_read_inside_files_is_listed_and_tried_again(
    project: ProjectFolder, call: Any
) -> None:
    mail = office.eml({"locked.docx": office.locked_package(), "photo.jpg": b"\xff\xd8"})
    (project.path / "documents" / "mail.eml").write_bytes(mail)
    ingest_here(project.path)
    answer = call("skipped")
    assert [(row["path"], row["retryable"]) for row in answer["files"]] == [
        ("empty.txt", True),
        ("mail.eml/locked.docx", True),
        ("mail.eml/photo.jpg", True),
        ("odd.qqq", False),
    ]
    assert answer["files"][1]["reason"] == NO_PASSWORD
    assert (answer["retryable"], answer["total"]) == (3, 4)
    assert call("retry") == {"forgotten": 2}
    assert ingest_here(project.path)[0]["files_read"] == 1


def test_the_first_of_many_skipped_files_are_listed_and_all_are_tried_again(
    project: ProjectFolder, call: Any
) -> None:
    for number in range(510):
        (project.path / "documents" / f"many-{number:03}.txt").touch()
    ingest_here(project.path)
    answer = call("skipped")
    assert (len(answer["files"]), answer["retryable"], answer["total"]) == (500, 511, 512)
    assert all(row["retryable"] for row in answer["files"])
    assert call("retry") == {"forgotten": 511}


def test_files_that_were_read_are_not_forgotten(project: ProjectFolder, call: Any) -> None:
    store = project.store()
    read = [key for key, record in store.files().items() if record.state == "read"]
    store.close()
    assert call("retry", files=[{"source": source, "path": path} for source, path in read]) == {
        "forgotten": 0
    }
    summary, _ = ingest_here(project.path)
    assert (summary["files_read"], summary["files_unchanged"]) == (0, 4)


def test_nothing_is_forgotten_while_a_run_goes_on(project: ProjectFolder, call: Any) -> None:
    with project.locked(), pytest.raises(ProjectBusyError):
        call("retry", files=[{"source": "documents", "path": "empty.txt"}])


@pytest.mark.parametrize("files", [["a"], [{"source": "a"}], [{"source": "a", "path": 1}]])
def test_retry_with_wrong_params(project: ProjectFolder, files: Any) -> None:
    with pytest.raises(TypeError):
        methods(project)["retry"](files=files)
