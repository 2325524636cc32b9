"""Wrong use of the commands: what an option takes, and options that exclude each other."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from fixtures.errors import error_of
from fixtures.office import zipped
from fixtures.pipeline import engine_here, stage_here
from fixtures.project_files import create_project
from fixtures.user_folders import DATA
from rich.console import Console

from engine.core.platforms import SYSTEM
from engine.project.folder import ProjectFolder


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("search", "p", "door", "--sort", "foo"), ("--sort", "score", "date", "foo")),
        (("search", "p", "door", "--min-score", "abc"), ("--min-score", "abc")),
        (("judge", "p", "--depth", "0"), ("--depth", "1", "0")),
        (("judge", "p", "--depth", "101"), ("--depth", "100", "101")),
        (("mcp", "p", "--install", "gpt"), ("--install", "claude", "lmstudio", "gpt")),
        (("mcp", "p", "--install", "claud"), ("--install", "'claud'", "'claude'")),
        (("search", "p", "door", "--sort", "dat"), ("'dat'", "'date'")),
        (("search", "p", "door", "--nothing"), ("--nothing",)),
        (("search", "p", "door", "--mode", "fast"), ("--mode", "hybrid", "fast")),
        (("encoders", "comapre"), ("ACTION", "list", "compare", "comapre")),
        (("documents", "p", "retyr"), ("retry", "export", "retyr")),
        (("models", "ad"), ("list", "add", "'ad'")),
        (("search", "p", "two", "words"), ("words",)),
        (("run", "p", "--ray", ""), ("--ray", "HOST:PORT", "auto")),
    ],
)
def test_a_wrong_argument_is_named_with_what_may_stand_there(
    arguments: tuple[str, ...], named: tuple[str, ...]
) -> None:
    code, error = error_of(*arguments)
    assert code == 2
    assert all(word in error["what"] for word in named)


@pytest.mark.parametrize(
    ("arguments", "code", "error_code", "named"),
    [
        (("share", "p", "--off", "--group", "g"), 2, "options-conflict", ("--off", "--group")),
        (("study", "bmembed-t2"), 2, "study-not-named", ("'bmembed-t2'",)),
        (("documents", "p", "export", "--json"), 2, "options-conflict", ("export", "--json")),
        (("lab", "p", "--set", "topk=3"), 2, "lab-option-invalid", ("'topk'",)),
        (("lab", "p", "--set", "top_k"), 2, "settings-no-value", ("top_k",)),
        (("lab", "p", "--set", "top_k=99"), 2, "lab-option-invalid", ("top_k", "99")),
        (("models", "add", "/nowhere/m"), 3, "path-missing", ("/nowhere/m",)),
        (("unbundle", "/nowhere/b", "/etc/hosts"), 3, "path-missing", ("/nowhere/b",)),
    ],
)
def test_what_is_missing_or_contradicts_itself_is_named(
    arguments: tuple[str, ...], code: int, error_code: str, named: tuple[str, ...]
) -> None:
    exit_code, error = error_of(*arguments)
    assert (exit_code, error["code"]) == (code, error_code)
    assert all(word in error["what"] for word in named)


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (("judge", "p", "--query"), "engine judge --help"),
        (("models", "get", "m", "--to"), "engine models --help"),
        (("judge", "p", "--nothing"), "engine judge --help"),
        (("--nothing",), "engine --help"),
    ],
)
def test_the_advice_names_the_help_of_the_command(arguments: tuple[str, ...], command: str) -> None:
    code, error = error_of(*arguments)
    assert code == 2
    assert command in error["to_do"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("",), "query-empty"),
        (("!!!",), "query-empty"),
        (("--", "-door"), "query-empty"),
        (("like:nowhere",), "document-missing"),
        (("--like", "nowhere"), "document-missing"),
        (("door", "--type", "pfd"), "type-unknown"),
        (("door", "--type", "md", "--type", "pfd"), "type-unknown"),
    ],
)
def test_what_cannot_be_looked_for_is_wrong_use(
    project: ProjectFolder, arguments: tuple[str, ...], expected: str
) -> None:
    code, error = error_of(
        "search",
        "--mode",
        "keywords",
        str(project.path),
        *arguments,
    )
    assert (code, error["code"]) == (2, expected)


@pytest.mark.parametrize(
    "options", [(), ("--type", "pdf"), ("--author", "nobody"), ("--language", "fr")]
)
def test_to_find_nothing_is_no_error(project: ProjectFolder, options: tuple[str, ...]) -> None:
    done = engine_here(
        "search",
        str(project.path),
        "xylophone",
        "--mode",
        "keywords",
        *options,
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr


def test_a_document_of_one_project_is_looked_for_in_all(
    project: ProjectFolder, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DATA, str(tmp_path / "data"))
    empty = ProjectFolder.create(
        tmp_path / "without", {"corpus": {"paths": [str(tmp_path / "one")]}}
    )
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a.md").write_text("A door.")
    for stage in ("ingest", "index"):
        stage_here(empty.path, stage)
    (like,) = {row.path for row in project.store().documents()[:1]}
    every = (
        "--mode",
        "keywords",
        "--all",
        "--also",
        str(empty.path),
        "--also",
        str(project.path),
        "--json",
    )
    answers = json.loads(engine_here("search", *every, "--like", like).stdout)
    assert [bool(one["found"]["hits"]) for one in answers] == [False, True]
    code, error = error_of(
        "search",
        *every,
        "--like",
        "nowhere",
    )
    assert (code, error["code"]) == (2, "document-missing")


@pytest.mark.posix(reason="links need a right on Windows")
def test_a_new_project_names_each_folder_once_and_says_which_are_empty(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a.md").write_text("A door.")
    (tmp_path / "bare").mkdir()
    (tmp_path / "link").symlink_to("full")
    paths = [str(tmp_path / name) for name in ("full", "bare", "link", "full/../bare")]
    done = engine_here(
        "new",
        str(tmp_path / "project"),
        *paths,
    )
    assert len(ProjectFolder(tmp_path / "project").settings().corpus.paths) == 2
    assert done.stdout == f"{tmp_path / 'project'}\n"
    assert [str(tmp_path / "full/../bare") in line for line in done.stderr.splitlines()] == [
        False,
        True,
        False,
    ]


@pytest.mark.skipif(SYSTEM != "linux", reason="other systems have no such names")
def test_a_name_that_is_not_utf_8_can_be_printed(tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    done = engine_here(
        "new",
        str(folder),
        str(tmp_path / "bare"),
    )
    assert done.stdout.startswith(f"{tmp_path}/caf")
    assert (folder / "project.toml").is_file()


def test_a_search_of_all_projects_takes_no_project() -> None:
    for arguments in (("--all", "handbook", "door"), ("handbook", "door", "--also", "elsewhere")):
        code, error = error_of("search", *arguments)
        assert (code, error["code"]) == (2, "options-conflict")


def test_a_project_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    for name, lines in (("nowhere", 2), ("bare", 3)):  # of a folder, also why it is no project
        done = engine_here(
            "adapt",
            str(tmp_path / name),
            "--dry-run",
            check=False,
        )
        assert (done.returncode, len(done.stderr.splitlines())) == (2, lines)


def test_a_dry_run_without_documents_prints_the_error_alone(tmp_path: Path) -> None:
    unread = ProjectFolder.create(tmp_path / "unread", {})
    done = engine_here(
        "adapt",
        str(unread.path),
        "--dry-run",
        check=False,
    )
    assert (done.returncode, len(done.stderr.splitlines())) == (3, 2)


def test_to_compare_encoders_takes_a_project_and_encoders() -> None:
    for arguments in (("compare",), ("compare", "sample"), ("list", "sample", "e5")):
        code, error = error_of("encoders", *arguments)
        assert (code, error["code"]) == (2, "wrong-use")
        assert arguments[0] in error["what"]
    code, error = error_of("config", "get", "sample")
    assert code == 2
    assert "engine config list" in error["to_do"]


def test_the_end_of_a_watch_is_said(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.runs.watching.watch", lambda *_, **__: None)
    assert engine_here("watch", str(project.path)).stderr


def test_a_status_breaks_no_words_at_the_edge(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = engine_here("status", str(project.path)).stdout
    monkeypatch.setattr("engine.cli.console.output", lambda: Console(width=40, color_system=None))
    broken = engine_here("status", str(project.path)).stdout
    assert max(map(len, broken.splitlines())) <= 40 < max(map(len, whole.splitlines()[1:]))
    path = str(project.path)  # a word that is longer than a line
    assert broken.replace("\n", "").count(path) == 1
    assert "".join(broken.split()) == "".join(whole.split())
    assert {*broken.split()} - {*whole.split()} <= {part for part in broken.split() if part in path}


def test_files_of_archives_are_printed_as_the_archive_once(tmp_path: Path) -> None:
    doors = zipped({"a.txt": "The red door.", "deep/b.txt": "The green door."})
    project = create_project(tmp_path, {"doors.zip": doors, "c.txt": "The blue door."})
    documents = tmp_path / "documents"
    for stage in ("ingest", "index"):
        stage_here(project.path, stage)
    asked = (
        "search",
        str(project.path),
        "door",
        "--mode",
        "keywords",
    )
    assert len(json.loads(engine_here(*asked, "--json").stdout)["hits"]) == 3
    printed = engine_here(*asked, "--files").stdout.splitlines()
    assert sorted(printed) == [str(documents / "c.txt"), str(documents / "doors.zip")]
    code, error = error_of(
        *asked,
        "--files",
        "--json",
    )
    assert (code, error["code"]) == (2, "options-conflict")


def test_a_project_without_an_index_says_what_to_do_when_all_are_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DATA, str(tmp_path / "data"))
    bare = ProjectFolder.create(tmp_path / "bare", {})
    done = engine_here(
        "search",
        "--all",
        "door",
        "--also",
        str(bare.path),
        "--mode",
        "keywords",
    )
    assert "engine run" in done.stderr


def test_no_rejected_queries_reads_differently_from_no_queries(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.api.Project.queries", lambda *_: [])
    none, rejected = (
        engine_here("queries", str(project.path), *options).stderr
        for options in ((), ("--rejected",))
    )
    assert none != rejected != ""


def test_options_are_described_in_one_style() -> None:
    for words in ((), ("config",), ("config", "set"), ("run",)):
        options = (
            engine_here(*words, "--help")
            .stdout.partition("Options:\n")[2]
            .partition("\n\n")[0]
            .splitlines()
        )
        texts = [line.split("  ")[-1].strip() for line in options if line.startswith("  -")]
        assert texts
        assert not [text for text in texts if text[0].isupper() or text.endswith(".")]


@pytest.mark.parametrize(
    "words",
    [
        ("new", "project", "{}"),
        ("find", "{}", "door"),
        ("purge", "{}", "--yes"),
        ("models", "add", "{}"),
        ("mcp", "--skill", "{}", "--yes"),
        ("study", "--list", "{}"),
    ],
)
def test_the_home_of_an_unknown_user_is_wrong_use(words: tuple[str, ...]) -> None:
    arguments = [word.format("~no-such-user-here/a") for word in words]
    code, error = error_of(*arguments)
    assert (code, error["code"]) == (2, "path-invalid")


@pytest.mark.parametrize("words", [("new", "p", ""), ("find", "", "door"), ("purge", "", "--yes")])
def test_an_empty_path_does_not_mean_the_current_folder(words: tuple[str, ...]) -> None:
    code, error = error_of(*words)
    assert (code, error["code"]) == (2, "path-invalid")


def test_paths_that_cannot_be_are_refused_before_they_are_set(project: ProjectFolder) -> None:
    before = project.settings().corpus.paths
    paths = "~no-such-user-here/a"
    code, error = error_of(
        "config",
        "set",
        str(project.path),
        "corpus.paths",
        paths,
    )
    assert (code, error["code"]) == (2, "path-invalid")
    assert project.settings().corpus.paths == before


@pytest.mark.posix(reason="the system's limit of names")
def test_a_folder_that_the_system_does_not_show_hinders_nothing_else(
    project: ProjectFolder, tmp_path: Path
) -> None:
    """As on a network drive that has vanished; a name that is too long is refused likewise."""
    unseen = str(tmp_path / ("x" * 300))
    name = str(project.path)
    set_to = engine_here(
        "config",
        "set",
        name,
        "corpus.paths",
        unseen,
    )
    assert sum(unseen in line for line in set_to.stderr.splitlines()) == 2  # set, and not there
    assert engine_here("search", name, "door", "--mode", "keywords").returncode == 0
    engine_here(
        "bundle",
        name,
        str(tmp_path / "x.bundle"),
    )
    engine_here(
        "export",
        name,
        str(tmp_path / "taken"),
        "--only",
        "chunks",
    )
    made = json.loads(
        engine_here("unbundle", str(tmp_path / "x.bundle"), str(tmp_path / "made"), "--json").stdout
    )
    assert "path-missing" in [note["code"] for note in made["notes"]]
    purged = json.loads(engine_here("purge", str(tmp_path / "made"), "--yes", "--json").stdout)
    (documents,) = (one for one in purged["elsewhere"] if one["path"] == unseen)
    assert not documents["found"]
