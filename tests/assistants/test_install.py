"""Assistants' configuration files, in homes made up for the test."""

from __future__ import annotations

import io
import json
import os
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fixtures.pipeline import engine_here
from fixtures.project_files import mode
from fixtures.user_folders import HOME

from engine.api import Project
from engine.assistants import install as installing
from engine.assistants.install import installation, own_command
from engine.core.platforms import processes

PLACES = {
    "claude": ".claude.json",
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "codex": ".codex/config.toml",
    "cursor": ".cursor/mcp.json",
    "lmstudio": ".lmstudio/mcp.json",
}
JSON_CLIENTS = [name for name in PLACES if name != "codex"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv(HOME, str(folder))
    monkeypatch.setattr(installing, "SYSTEM", "linux")
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return Project.create(str(tmp_path / "my notes"), [tmp_path]).path


def put(
    home: Path,
    client: str,
    text: str,
) -> Path:
    path = home / PLACES[client]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def read(path: Path) -> Any:
    if path.suffix == ".toml":
        return tomllib.loads(path.read_text())
    return json.loads(path.read_text())


def problem(*arguments: str) -> tuple[int, str]:
    done = engine_here(*arguments, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize("client", PLACES)
def test_a_missing_file_is_created(
    home: Path,
    notes: Path,
    client: str,
) -> None:
    shown = engine_here("mcp", str(notes), "--install", client, "--yes").stdout
    path = home / PLACES[client]
    servers = read(path)["mcp_servers" if client == "codex" else "mcpServers"]
    assert list(servers) == ["bmembed"]
    entry = servers["bmembed"]
    assert entry["args"][-2:] == ["mcp", str(notes)]
    assert os.access(entry["command"], os.X_OK)
    assert "bmembed" in shown
    assert mode(path) == 0o600
    assert [one.name for one in path.parent.iterdir()] == [
        path.name
    ]  # nothing else, such as a backup of nothing


@pytest.mark.parametrize("client", JSON_CLIENTS)
def test_all_else_in_a_json_file_stays_and_the_file_as_it_was_is_kept(
    home: Path, notes: Path, client: str
) -> None:
    before = (
        '{\n    "theme": "Zürich",\n    "mcpServers": {"other": {"command": "x", "env": {"KEY":'
        ' "1"}}},\n    "n": 1.5\n}\n'
    )
    path = put(home, client, before)
    path.chmod(0o644)
    former_mode = mode(path)
    engine_here(
        "mcp",
        str(notes),
        "--install",
        client,
        "--yes",
    )
    data = read(path)
    assert list(data["mcpServers"]) == ["other", "bmembed"]
    del data["mcpServers"]["bmembed"]
    assert data == json.loads(before)
    assert path.read_text().startswith('{\n    "theme": "Zürich",\n')
    assert mode(path) == former_mode
    (backup,) = path.parent.glob(f"{path.name}.*.bak")
    assert backup.read_text() == before


def test_comments_and_order_of_a_toml_file_stay(home: Path, notes: Path) -> None:
    before = (
        '# mine\nmodel = "x"  # the best\n\n[mcp_servers.other]\ncommand = "y"\n\n[tui]\ntheme ='
        ' "dark"\n'
    )
    path = put(home, "codex", before)
    engine_here(
        "mcp",
        str(notes),
        "--install",
        "codex",
        "--yes",
    )
    after = path.read_text()
    assert [
        line for line in after.splitlines() if line in before.splitlines()
    ] == before.splitlines()
    servers = tomllib.loads(after)["mcp_servers"]
    assert servers["other"] == {"command": "y"}
    assert servers["bmembed"]["args"][-1] == str(notes)


@pytest.mark.parametrize("client", PLACES)
def test_a_second_time_changes_nothing_and_other_projects_the_entry_alone(
    home: Path, notes: Path, client: str
) -> None:
    arguments = ("--install", client, "--yes")
    engine_here(
        "mcp",
        str(notes),
        *arguments,
    )
    path = home / PLACES[client]
    first = path.read_text()
    assert engine_here("mcp", str(notes), *arguments).stdout == ""
    assert path.read_text() == first
    engine_here("mcp", *arguments)
    (entry,) = read(path)["mcp_servers" if client == "codex" else "mcpServers"].values()
    assert entry["args"][-1] == "mcp"


def test_what_the_user_has_added_to_the_entry_stays(home: Path, notes: Path) -> None:
    path = put(
        home,
        "cursor",
        '{"mcpServers": {"bmembed": {"command": "old", "env": {"XDG_DATA_HOME": "/d"}}}}',
    )
    engine_here(
        "mcp",
        str(notes),
        "--install",
        "cursor",
        "--yes",
    )
    entry = read(path)["mcpServers"]["bmembed"]
    assert entry["env"] == {"XDG_DATA_HOME": "/d"}
    assert entry["command"] != "old"


@pytest.mark.parametrize(
    "text", ["{", "[]", '"x"', '{"mcpServers": []}', '{// mine\n"a": 1}', "[" * 100_000]
)
@pytest.mark.parametrize("client", JSON_CLIENTS[:1])
def test_a_json_file_that_cannot_be_read_is_left_alone(
    home: Path, notes: Path, client: str, text: str
) -> None:
    path = put(home, client, text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BMEMBED_ERRORS", "json")
        code, error = problem(
            "mcp",
            str(notes),
            "--install",
            client,
            "--yes",
        )
    assert (code, json.loads(error.splitlines()[-1])["code"]) == (3, "config-invalid")
    assert path.read_text() == text
    assert list(path.parent.iterdir()) == [path]


def test_half_a_surrogate_pair_is_refused_before_anything_is_written(home: Path) -> None:
    from engine.core.errors import InputError

    path = put(home, "claude", '{"title": "\\ud800"}')
    with pytest.raises(InputError) as caught:
        installation("claude", [])
    assert caught.value.code == "config-invalid"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("client", PLACES)
@pytest.mark.parametrize("content", [b"{ broken", b"= 1", b"\xff\xfe"])
def test_a_broken_file_of_each_assistant_is_left_alone(
    home: Path, client: str, content: bytes
) -> None:
    path = put(home, client, "")
    path.write_bytes(content)
    from engine.core.errors import InputError

    with pytest.raises(InputError) as caught:
        installation(client, [])
    assert caught.value.code == "config-invalid"
    assert path.read_bytes() == content


def test_an_empty_file_is_filled(home: Path, notes: Path) -> None:
    path = put(home, "lmstudio", "")
    engine_here(
        "mcp",
        str(notes),
        "--install",
        "lmstudio",
        "--yes",
    )
    assert list(read(path)["mcpServers"]) == ["bmembed"]


def test_nothing_is_written_without_consent(
    home: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(home, "claude", '{"a": 1}\n')
    monkeypatch.setattr(
        sys,
        "stdin",
        io.StringIO(),
    )
    done = engine_here(
        "mcp",
        str(notes),
        "--install",
        "claude",
        check=False,
    )
    assert done.returncode == 2
    assert "+" in done.stdout
    assert path.read_text() == '{"a": 1}\n'
    assert list(home.iterdir()) == [path]


def test_a_file_that_changes_while_the_user_looks_is_left_alone(home: Path, notes: Path) -> None:
    from engine.core.errors import UsageError

    path = put(home, "claude", '{"a": 1}\n')
    change = installation("claude", [notes])
    path.write_text('{"a": 2}\n')
    with pytest.raises(UsageError) as caught:
        change.write()
    assert caught.value.code == "config-changed"
    assert path.read_text() == '{"a": 2}\n'


@pytest.mark.posix(reason="links need a right on Windows")
def test_the_target_of_a_link_is_changed(home: Path, notes: Path) -> None:
    real = home / "dotfiles.json"
    real.write_text("{}")
    (home / ".claude.json").symlink_to(real)
    engine_here(
        "mcp",
        str(notes),
        "--install",
        "claude",
        "--yes",
    )
    assert (home / ".claude.json").is_symlink()
    assert "bmembed" in read(real)["mcpServers"]


def test_a_project_that_there_is_not_is_installed_nowhere(home: Path) -> None:
    assert problem("mcp", "none", "--install", "cursor", "--yes")[0] == 2
    assert list(home.iterdir()) == []


def test_places_that_the_environment_names(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "c"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "d"))
    (home / ".lmstudio-home-pointer").write_text(f"{tmp_path / 'e'}\n")
    paths = [installation(client, []).path for client in ("codex", "claude", "lmstudio")]
    assert paths == [
        tmp_path / "c/config.toml",
        tmp_path / "d/.claude.json",
        tmp_path / "e/mcp.json",
    ]


def test_the_skill_is_written_into_a_folder_of_skills(home: Path) -> None:
    engine_here(
        "mcp",
        "--skill",
        str(home / "skills"),
        "--yes",
    )
    (path,) = (home / "skills").rglob("SKILL.md")
    _, head, text = path.read_text().split("---\n", 2)
    facts = dict(line.split(": ", 1) for line in head.splitlines())
    assert facts["name"] == path.parent.name
    assert len(facts["name"]) <= 64
    assert 0 < len(facts["description"]) <= 1024
    assert text.strip()
    path.write_text("mine")
    engine_here(
        "mcp",
        "--skill",
        str(home / "skills"),
        "--yes",
    )
    (backup,) = path.parent.glob("SKILL.md.*.bak")
    assert backup.read_text() == "mine"


def test_our_own_program_is_found_under_its_name_on_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = tmp_path / "Scripts"
    scripts.mkdir()
    monkeypatch.setattr(
        processes,
        "sys",
        SimpleNamespace(platform="win32"),
    )
    monkeypatch.setattr(
        sys,
        "executable",
        str(tmp_path / "python.exe"),
    )
    monkeypatch.setattr(
        installing.sysconfig,
        "get_path",
        lambda _: str(scripts),
    )
    (scripts / "engine").touch()
    assert own_command() == [str(tmp_path / "python.exe"), "-P", "-m", "engine"]
    (scripts / "engine.exe").touch()
    assert own_command() == [str(scripts / "engine.exe")]
    (tmp_path / "engine.exe").touch()
    assert own_command() == [str(tmp_path / "engine.exe")]
