"""`engine doctor PROJECT` looks at that project."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from fixtures.tiny_cross_encoder import build_cross_encoder
from fixtures.tiny_model import build_tiny_model, encoder_settings

from engine.cli.looking import finding_lines
from engine.core.messages.project import Finding
from engine.corpus.sandbox import child
from engine.corpus.sandbox.confinement import Confinement
from engine.doctor import doctor
from engine.doctor.doctor import examine
from engine.doctor.findings import examine_reranker
from engine.project.folder import ProjectFolder
from engine.settings.schema import Settings


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("model") / "tiny")


def test_lines_fit_the_terminal() -> None:
    long = Finding(
        "memory need", "problem", "about 2.2 GB of " + "9.9 GB " * 12, "close other programs " * 9
    )
    lines = finding_lines(long, 80)
    assert max(map(len, lines)) <= 80
    assert " ".join(" ".join(lines).split()).endswith(" ".join(long.follows.split()))
    assert len(finding_lines(long, 10_000)) == 1


def about(findings: list[Finding], topic: str) -> list[Finding]:
    return [finding for finding in findings if finding.topic == topic]


def test_a_projects_own_model_and_hardware(tmp_path: Path, model: Path) -> None:
    made = {"encoder": encoder_settings(model)}
    project = ProjectFolder.create(tmp_path / "project", made)
    findings = examine(project)
    assert [str(model.resolve()) in finding.found for finding in about(findings, "model")] == [True]
    (precision,) = (finding for finding in findings if finding.topic in ("dtype", "precision"))
    assert precision.found == "float32"
    assert "auto" not in precision.follows
    assert about(findings, "disk") == []  # the need says what is free, too
    assert len(about(findings, "disk need")) == 1
    shutil.move(model, tmp_path / "gone")
    try:
        assert [finding.state for finding in about(examine(project), "model")] == ["problem"]
        assert [
            finding.state for finding in about(examine(project, str(tmp_path / "gone")), "model")
        ] == ["good"]
    finally:
        shutil.move(tmp_path / "gone", model)


@pytest.mark.posix(reason="modes of files")
@pytest.mark.parametrize(
    "place",
    [
        ".",
        "project.toml",
        "project.db",
        "runs",
        "cache/vectors.bin",
        "sweep",
        "sweep/project.db",
        "checkpoints/a",
    ],
)
def test_what_others_may_open_is_a_problem(project: ProjectFolder, place: str) -> None:
    for folder in ("sweep", "checkpoints", "checkpoints/a"):
        (project.path / folder).mkdir(mode=0o700)
    for file in ("cache/vectors.bin", "sweep/project.db"):
        (project.path / file).touch(mode=0o600)
    assert [finding.state for finding in about(examine(project), "permissions")] == ["good"]
    path = project.path / place
    path.chmod(path.stat().st_mode | 0o040)
    (finding,) = about(examine(project), "permissions")
    assert finding.state == "problem"
    assert str(path) in finding.found
    assert "--off" in finding.follows


def test_on_windows_modes_say_nothing_about_who_can_read(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.path / "project.toml").chmod(0o666)
    monkeypatch.setattr("engine.doctor.doctor.has_access_lists", lambda: True)
    monkeypatch.setattr(
        Path,
        "home",
        lambda: project.path.parent,
    )
    assert [finding.state for finding in about(examine(project), "permissions")] == ["note"]


def test_a_project_outside_the_profile_is_a_problem_on_windows(
    project: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.doctor.doctor.has_access_lists", lambda: True)
    monkeypatch.setattr(
        Path,
        "home",
        lambda: tmp_path / "profile",
    )
    (finding,) = about(examine(project), "permissions")
    assert (finding.state, finding.code) == ("problem", "project-outside-profile")


@pytest.mark.posix(reason="modes of files")
def test_the_apps_own_records_are_looked_at(user_folders: Path) -> None:
    from platformdirs import user_state_path

    folder = user_state_path("bmembed", appauthor=False)
    folder.mkdir(
        mode=0o700,
        parents=True,
        exist_ok=True,
    )
    (folder / "recent.json").touch(mode=0o600)
    assert str(folder).startswith(str(user_folders))
    assert [finding.state for finding in about(examine(), "permissions")] == ["good"]
    (folder / "recent.json").chmod(0o640)
    try:
        (finding,) = about(examine(), "permissions")
    finally:
        (folder / "recent.json").unlink()
    assert finding.state == "problem"
    assert str(folder / "recent.json") in finding.found


@pytest.mark.posix(reason="modes of files")
def test_documents_in_the_project_folder_are_the_users_own_affair(project: ProjectFolder) -> None:
    (project.path / "documents").mkdir(mode=0o755)
    (project.path / "documents" / "a.txt").touch(mode=0o644)
    assert [finding.state for finding in about(examine(project), "permissions")] == ["good"]


def test_a_file_that_a_run_has_just_removed_is_no_fault(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.path / "cache" / "gone").touch(mode=0o600)
    real = Path.stat

    def stat(path: Path, **options: bool) -> os.stat_result:
        if path.name == "gone" and not calls:
            calls.append(path)
        elif path.name == "gone":
            raise FileNotFoundError(path)
        return real(path, **options)

    calls: list[Path] = []
    monkeypatch.setattr(Path, "stat", stat)
    (size,) = about(examine(project), "project")
    assert (size.state, len(calls)) == ("good", 1)


def test_a_folder_of_documents_that_is_gone_is_a_problem(
    project: ProjectFolder, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    project.change_settings({"corpus.paths": [str(there), str(tmp_path / "gone")]})
    (found,) = about(examine(project), "documents")
    assert found.state == "problem"
    assert str(tmp_path / "gone") in found.found


def test_wrong_settings_are_a_finding(project: ProjectFolder) -> None:
    (project.path / "project.toml").write_text('[encoder]\ndevice = "toaster"\n')
    problems = [
        finding for finding in about(examine(project), "project") if finding.state == "problem"
    ]
    assert len(problems) == 1
    assert "project.toml" in problems[0].found


def test_how_many_passages_fit_into_a_searchs_time(tmp_path: Path) -> None:
    folder = build_cross_encoder(tmp_path / "reranker")
    project = ProjectFolder.create(
        tmp_path / "project", {"search": {"reranker": str(folder), "rerank_seconds": 60.0}}
    )
    settings = project.settings()
    (finding,) = examine_reranker(project, settings)
    assert (finding.topic, finding.state) == ("reranker", "good")
    assert folder.name in finding.found
    assert finding.follows.startswith("100 ")
    assert examine_reranker(project, Settings()) == []
    shutil.rmtree(folder)
    assert [one.state for one in about(examine(project), "reranker")] == ["problem"]


def test_readers_that_nothing_is_refused_to_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "find_confinement", Confinement)
    (finding,) = about(examine(), "reading")
    assert (finding.state, finding.code) == ("problem", "reading-not-confined")


def test_readers_that_do_not_start_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("no memory")

    monkeypatch.setattr(child, "find_confinement", fail)
    (finding,) = about(examine(), "reading")
    assert (finding.state, finding.found) == ("problem", "no memory")


@pytest.mark.posix(reason="the system's limit of names")
def test_what_the_system_does_not_show_is_a_problem(project: ProjectFolder, tmp_path: Path) -> None:
    unseen = str(tmp_path / ("x" * 300))
    project.change_settings({"corpus.paths": [unseen]})
    (found,) = about(examine(project), "documents")
    assert (found.state, unseen in found.found) == ("problem", True)


def test_a_check_that_the_system_refuses_ends_no_other(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_folder: Path) -> bool:
        raise PermissionError(13, "Permission denied", "/mnt")

    monkeypatch.setattr(doctor, "is_shared", refuse)
    findings = examine(project)
    (found,) = about(findings, "permissions")
    assert (found.state, found.code) == ("problem", "file-access")
    assert about(findings, "project")[0].state == "good"
