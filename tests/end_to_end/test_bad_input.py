"""Bad documents, damaged files, a full disk: a clear error or warning, and what was searchable
stays searchable.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from fixtures.errors import error_of
from fixtures.pipeline import SAMPLE, copy_documents, engine, engine_here

from engine.project.folder import ProjectFolder
from engine.queries.rejection import NONE_LEFT
from engine.service import methods

NOISE = bytes(range(256)) * 8


def hits(
    project: Path,
    query: str = "freezer door",
    mode: str = "bm25",
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(
        engine_here("search", str(project), query, "--mode", mode, "--json").stdout
    )["hits"]
    return rows


def overwrite(path: Path, start: int = 20) -> None:
    """Flip bytes in the middle of a file, keeping its size."""
    with path.open("r+b") as file:
        file.seek(start)
        old = file.read(64)
        file.seek(start)
        file.write(bytes(byte ^ 0x55 for byte in old))


def stages(*arguments: str) -> dict[str, str]:
    """Stage → reason that it ran for, or 'skipped'."""
    log = [json.loads(line) for line in engine_here(*arguments, "--json").stdout.splitlines()]
    ran = {event["stage"]: event["reason"] for event in log if event["event"] == "stage_started"}
    return ran | {event["stage"]: "skipped" for event in log if event["event"] == "stage_skipped"}


def kinds(project: Path) -> dict[str, str]:
    """Why files are not searched, by path."""
    rows = json.loads(engine_here("documents", str(project), "--json").stdout)
    return {row["path"]: row["kind"] for row in rows if row["state"] != "read"}


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory, make_project: Callable[[Path], Path]) -> Path:
    path = make_project(tmp_path_factory.mktemp("indexed") / "project")
    copy_documents(
        path / "documents",
        ("incidents", "policies"),
        6,
    )
    engine_here(
        "import-judgments",
        str(path),
        str(SAMPLE / "questions.jsonl"),
    )
    engine_here("ingest", str(path))
    engine_here("index", str(path))
    return path


@pytest.fixture
def small(indexed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(indexed, tmp_path / "small"))


def test_an_empty_folder(make_project: Callable[[Path], Path], tmp_path: Path) -> None:
    project = make_project(tmp_path / "empty")
    (project / "documents").mkdir()
    code, error = error_of("adapt", str(project))
    assert (code, error["code"], error["stage"]) == (3, "no-documents", "ingest")
    assert engine_here("search", str(project), "x", check=False).returncode == 3


def test_a_missing_folder_and_an_emptied_one_keep_what_was_searchable(small: Path) -> None:
    shutil.rmtree(small / "documents")
    code, error = error_of("ingest", str(small))
    assert (code, error["code"], str(small / "documents") in error["what"]) == (
        3,
        "path-missing",
        True,
    )
    (small / "documents").mkdir()
    code, error = error_of("ingest", str(small))
    assert (code, error["code"]) == (3, "no-documents")
    assert hits(small)


def test_a_corpus_of_three_words_is_searchable(
    make_project: Callable[[Path], Path], tmp_path: Path
) -> None:
    project = make_project(tmp_path / "tiny")
    (project / "documents").mkdir()
    (project / "documents" / "a.txt").write_text("cold blue freezer")
    completed = engine_here("adapt", str(project))
    assert NONE_LEFT in completed.stderr
    assert [hit["path"] for hit in hits(project, "freezer")] == ["a.txt"]
    (hit,) = hits(project, "blue freezer", "hybrid")
    assert set(hit["rankers"]) == {"bm25", "semantic"}
    assert (
        json.loads(engine_here("report", str(project), "--json").stdout)["in_use"]["hybrid"]["name"]
        == "base"
    )


def test_unreadable_files_among_good_ones_are_warned_of_once_and_listed(small: Path) -> None:
    documents = small / "documents"
    (documents / "noise.txt").write_bytes(NOISE)
    (documents / "empty.md").write_bytes(b"")
    (documents / "latin.txt").write_bytes(
        "Der Kühlraum der Straßenmeisterei ist größer als üblich.".encode("latin-1")
    )
    (documents / "scan.pdf").write_bytes(b"%PDF-1.4")
    first = engine_here("ingest", str(small))
    for name in ("noise.txt", "empty.md", ".pdf"):
        assert name in first.stderr
    assert all(part in first.stderr for part in ("read: 1 ", "unchanged: 12 ", "unreadable: 3"))
    assert "!" not in engine_here("ingest", str(small)).stderr
    status = json.loads(engine_here("status", str(small), "--json").stdout)
    assert set(status["quarantined"]) == {"noise.txt", "empty.md", "scan.pdf"}
    assert (status["counts"]["quarantined"], status["counts"]["skipped"], status["skipped"]) == (
        3,
        0,
        {},
    )
    engine_here("index", str(small))
    assert [hit["path"] for hit in hits(small, "Straßenmeisterei Kühlraum")][:1] == ["latin.txt"]


def test_nothing_but_unreadable_files(make_project: Callable[[Path], Path], tmp_path: Path) -> None:
    project = make_project(tmp_path / "noise")
    (project / "documents").mkdir()
    (project / "documents" / "noise.txt").write_bytes(NOISE)
    code, error = error_of("ingest", str(project))
    assert (code, error["code"]) == (3, "no-documents")
    assert "noise.txt" in error["why"]
    assert kinds(project) == {"noise.txt": "binary"}


def test_the_only_documents_turning_unreadable_keep_what_was_searchable(small: Path) -> None:
    readable, *others = sorted(path for path in (small / "documents").rglob("*") if path.is_file())
    for path in others:
        path.unlink()
    engine_here("ingest", str(small))
    engine_here("index", str(small))
    word = max(re.findall(r"[a-z]+", readable.read_text()), key=len)
    expected = hits(small, word)
    assert expected
    readable.write_bytes(NOISE)
    for _ in range(2):
        code, error = error_of("ingest", str(small))
        assert (code, error["code"]) == (3, "no-documents")
        assert readable.name in error["why"]
        assert hits(small, word) == expected
        engine_here("index", str(small))
    readable.rename(
        readable.with_name("other.txt")
    )  # what stood in the file that is gone now is gone
    code, error = error_of("ingest", str(small))
    assert (code, error["code"]) == (3, "no-documents")
    assert hits(small, word) == []


def test_a_project_among_the_documents_is_not_read(small: Path, indexed: Path) -> None:
    shutil.copytree(indexed, small / "documents" / "other")
    engine_here("ingest", str(small))
    assert kinds(small)["other"] == "project"
    status = json.loads(engine_here("status", str(small), "--json").stdout)
    assert (status["counts"]["documents"], [*status["skipped"]]) == (12, ["other"])
    settings = small / "project.toml"
    settings.write_text(settings.read_text().replace('paths = ["documents"]', 'paths = ["."]'))
    code, error = error_of("ingest", str(small))
    assert (code, error["code"]) == (3, "no-documents")
    assert hits(small)


def test_damaged_indexes_are_noted_by_search_and_rebuilt_by_the_next_run(project: Path) -> None:
    (lexical,) = project.glob("lexical/*/*/*.term")
    (vectors,) = project.glob("vectors/*/part-000001.vec")
    overwrite(vectors, 500)
    code, error = error_of(
        "search",
        str(project),
        "door",
        "--mode",
        "semantic",
    )
    assert (code, error["code"]) == (7, "index-damaged")
    answer = json.loads(engine_here("search", str(project), "door", "--json").stdout)
    assert answer["hits"]
    assert error["what"] in answer["notes"][0]
    assert hits(project)
    overwrite(lexical)
    code, error = error_of(
        "search",
        str(project),
        "door",
        "--mode",
        "bm25",
    )
    assert (code, error["code"]) == (7, "index-damaged")
    ran = stages("adapt", str(project))
    assert "skipped" not in (ran["index"], ran["embed"])
    assert [ran[stage] for stage in ("generate", "rank", "train", "evaluate")] == ["skipped"] * 4
    assert hits(project)


def test_a_damaged_adapter_is_trained_again(project: Path) -> None:
    (weights,) = project.glob("adapters/*/adapter_model.safetensors")
    os.truncate(weights, 3000)
    assert stages("train", str(project))["train"] != "skipped"
    assert stages("train", str(project))["train"] == "skipped"
    assert hits(project)


@pytest.mark.parametrize(
    ("harm", "code"),
    [
        ("truncated", "model-damaged"),
        ("changed", "adapter-changed"),
        ("gone", "adapter-invalid"),
        ("settings gone", "adapter-invalid"),
    ],
)
def test_every_harm_to_an_adapter_is_seen(
    project: Path,
    harm: str,
    code: str,
) -> None:
    (weights,) = project.glob("adapters/*/adapter_model.safetensors")
    assert verdict(project) == ""
    if harm == "truncated":
        os.truncate(weights, 3000)
    elif harm == "changed":
        overwrite(weights, weights.stat().st_size - 200)
    elif harm == "gone":
        shutil.rmtree(weights.parent)
    else:
        (weights.parent / "adapter_config.json").unlink()
    assert verdict(project) == code


def verdict(project: Path) -> str:
    """The code of the error that makes `train` run, without running it; empty if there is
    none.
    """
    from engine.project.folder import ProjectFolder
    from engine.project.stage import ProjectSnapshot
    from engine.runs.pipeline import stage_status, verify_status

    folder = ProjectFolder.open(project)
    store = folder.store()
    try:
        snapshot = ProjectSnapshot(
            folder,
            folder.settings(),
            store,
        )
        return verify_status(snapshot, stage_status(snapshot, "train")).code
    finally:
        store.close()


@pytest.mark.parametrize("harm", ["truncated", "garbage", "gone"])
@pytest.mark.parametrize("copy", [True, False])
def test_a_damaged_database_is_restored_or_rebuilt(
    small: Path,
    harm: str,
    copy: bool,
) -> None:
    expected = hits(small)
    database = small / "project.db"
    for suffix in ("-wal", "-shm"):
        Path(f"{database}{suffix}").unlink(missing_ok=True)
    if not copy:
        (small / "project.db.bak").unlink()
    if harm == "truncated":
        os.truncate(database, database.stat().st_size // 3)
    elif harm == "garbage":
        database.write_bytes(os.urandom(50_000))
    else:
        database.unlink()
    code, error = error_of(
        "search",
        str(small),
        "door",
        "--mode",
        "bm25",
    )
    assert (code, error["code"].startswith("database-"), error["command"]) == (7, True, "run")
    events = [
        json.loads(line) for line in engine_here("ingest", str(small), "--json").stdout.splitlines()
    ]
    assert any(event["event"] == "warning" for event in events)
    (read,) = (
        event["summary"]["files_read"] for event in events if event["event"] == "stage_finished"
    )
    assert read == (0 if copy else 12)
    status = json.loads(engine_here("status", str(small), "--json").stdout)
    assert (status["counts"]["documents"], status["counts"]["judged_queries"]) == (12, 130)
    if not copy:
        engine_here("index", str(small))
    assert [hit["path"] for hit in hits(small)] == [hit["path"] for hit in expected]
    assert bool(list(small.glob("project.db.damaged-*"))) == (harm != "gone")


def test_a_typo_in_the_settings_names_the_nearest_key(small: Path) -> None:
    settings = small / "project.toml"
    good = settings.read_text()
    for written, typo, kind, value in [
        ("chunk_tokens = 96", "chunk_tokenz = 96", "settings-unknown-key", "corpus.chunk_tokens"),
        ("[ranking]", "[rankings]", "settings-unknown-key", "'ranking'"),
        ("chunk_tokens = 96", 'chunk_tokens = "many"', "settings-invalid", "corpus.chunk_tokens"),
        ("[ranking]", "[ranking", "settings-not-toml", ""),
    ]:
        settings.write_text(good.replace(written, typo))
        for command in (
            ["status", str(small)],
            ["ingest", str(small)],
            ["search", str(small), "x", "--mode", "bm25"],
        ):
            code, error = error_of(*command)
            assert (code, error["code"]) == (2, kind)
            assert value in error["what"] + error["why"] + error["to_do"]
            assert "project.toml" in error["what"]
    settings.write_text(good)
    assert hits(small)


def test_a_model_folder_that_is_gone(small: Path, tiny_model: Path) -> None:
    ProjectFolder(small).change_settings({"encoder.model": str(tiny_model.parent / "gone")})
    code, error = error_of("adapt", str(small))
    assert (code, error["code"]) == (3, "model-missing")
    assert "gone" in error["what"]
    assert hits(small)
    states = {
        row["stage"]: row
        for row in json.loads(engine_here("status", str(small), "--json").stdout)["stages"]
    }
    assert states["embed"]["state"] != "done"
    assert "gone" in states["embed"]["reason"]


@contextmanager
def mounted(folder: Path, *options: str) -> Iterator[Path]:
    folder.mkdir(exist_ok=True)
    if shutil.which("mount") is None:
        pytest.skip("there is no mount command")
    completed = subprocess.run(
        ["mount", *options, str(folder)], capture_output=True, text=True, check=False
    )
    if completed.returncode:
        pytest.skip(f"nothing can be mounted here: {completed.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("stage", ["ingest", "index", "embed"])
def test_a_full_disk_is_an_error_and_forgotten_once_there_is_room(
    indexed: Path, tmp_path: Path, stage: str, disk_filler: Callable[[Path, int], None]
) -> None:
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=6m", "tmpfs") as disk:
        project = Path(shutil.copytree(indexed, disk / "project"))
        if stage == "ingest":
            for folder in ("contracts", "minutes", "mail"):
                copy_documents(
                    project / "documents",
                    (folder,),
                    8,
                )
        disk_filler(disk, 24_000)
        with mock.patch.dict(os.environ, {"BMEMBED_ERRORS": "json"}):
            run = engine_here if stage == "embed" else engine  # of which a process loads the model
            full = run(
                stage,
                str(project),
                *(["--force"] if stage == "index" else []),
                check=False,
            )
        assert full.returncode == 6, full.stderr
        error = json.loads(full.stderr.splitlines()[-1])
        assert error["code"] in ("disk-full", "write-failed"), error
        assert re.search("disk|space", f"{error['what']} {error['why']}"), error
        (disk / "ballast").unlink()
        assert hits(project)
        engine_here(stage, str(project))
        assert not list(project.glob("*/.tmp-*"))
        status = json.loads(engine_here("status", str(project), "--json").stdout)["stages"]
        assert {row["stage"]: row["state"] for row in status}[stage] == "done"


def test_a_read_only_project_is_an_error(indexed: Path, tmp_path: Path) -> None:
    project = Path(shutil.copytree(indexed, tmp_path / "project"))
    with mounted(project, "--bind", str(project)):
        subprocess.run(["mount", "-o", "remount,ro,bind", str(project)], check=True)
        for command in (["ingest"], ["import-judgments", str(SAMPLE / "questions.jsonl")]):
            completed = engine_here(
                command[0],
                str(project),
                *command[1:],
                check=False,
            )
            assert completed.returncode in (3, 5), completed.stderr
            assert completed.stderr.startswith("Error")
            assert re.search("permission|write|read-only", completed.stderr, flags=re.I)


def test_a_read_only_project_can_be_looked_at(indexed: Path, tmp_path: Path) -> None:
    project = Path(shutil.copytree(indexed, tmp_path / "project"))
    with mounted(project, "--bind", str(project)):
        subprocess.run(["mount", "-o", "remount,ro,bind", str(project)], check=True)
        printed = json.loads(engine_here("status", str(project), "--json").stdout)
        answer = methods(ProjectFolder(project))["status"]()()
    for status in (printed, answer):
        assert (status["running"], [row["state"] for row in status["stages"]][:2]) == (
            False,
            ["done", "done"],
        )
        assert status["counts"]["chunks"] > 0
    assert answer["problem"] is None


def test_search_goes_on_while_the_disk_is_full(
    indexed: Path, tmp_path: Path, disk_filler: Callable[[Path, int], None]
) -> None:
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=6m", "tmpfs") as disk:
        project = Path(shutil.copytree(indexed, disk / "project"))
        disk_filler(disk, 0)
        assert hits(project)


def test_a_read_only_project_is_searchable(indexed: Path, tmp_path: Path) -> None:
    project = Path(shutil.copytree(indexed, tmp_path / "project"))
    with mounted(project, "--bind", str(project)):
        subprocess.run(["mount", "-o", "remount,ro,bind", str(project)], check=True)
        assert hits(project)
