from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from fixtures.errors import fails
from fixtures.project_files import files, mode, names, put_file
from fixtures.user_folders import DATA

from engine.api import Project
from engine.core.disk import write_text
from engine.core.errors import DamagedError, EngineError, ResourceError, SettingsError, UsageError
from engine.project.folder import FOLDERS, ProjectFolder, known_projects, locate, projects_root
from engine.project.store.artifact_info import VectorsInfo
from engine.project.store.artifacts import Artifact

# create and open


def test_a_new_project_is_private(project: ProjectFolder) -> None:
    assert mode(project.path) == 0o700
    assert {mode(project.path / name) for name in FOLDERS} == {0o700}
    assert mode(project.path / "project.toml") == mode(project.path / "project.db") == 0o600
    assert names(project.path) == {*FOLDERS, "project.toml", "project.db"}


def test_create_makes_parents_and_takes_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir(mode=0o755)
    assert mode(ProjectFolder.create(tmp_path / "empty", {}).path) == 0o700
    created = ProjectFolder.create(tmp_path / "a" / "b" / "c", {"search": {"top": 4}})
    assert created.settings().search.top == 4
    assert created.name == "c"


def test_create_refuses_a_folder_with_anything_in_it(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "mine.txt").write_text("mine")
    with fails(EngineError, "project-folder-invalid"):
        ProjectFolder.create(tmp_path / "letters", {})
    assert names(tmp_path / "letters") == {"mine.txt"}
    with fails(EngineError, "project-folder-invalid"):
        ProjectFolder.create(tmp_path / "letters" / "mine.txt", {})
    with fails(EngineError, "write-failed", tmp_path / "letters" / "mine.txt" / "project"):
        ProjectFolder.create(tmp_path / "letters" / "mine.txt" / "project", {})


def test_create_refuses_an_existing_project(project: ProjectFolder) -> None:
    put_file(project, "a.md")
    with fails(EngineError, "project-exists"):
        ProjectFolder.create(project.path, {})
    assert files(project) == {"a.md"}


def test_a_bad_setting_makes_no_folder(tmp_path: Path) -> None:
    for chosen in ({"search": {"topp": 3}}, {"corpus": {"paths": ["caf\udce9"]}}):
        with pytest.raises(SettingsError):
            ProjectFolder.create(tmp_path / "new", chosen)  # type: ignore[arg-type]
        assert not (tmp_path / "new").exists()


def test_a_creation_that_fails_can_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("engine.project.folder.write_text", fail)
        for path in (tmp_path / "new", tmp_path / "of" / "mine" / "new"):
            with fails(ResourceError, "disk-full"):
                ProjectFolder.create(path, {})
            assert names(tmp_path) == set()
        (tmp_path / "of" / "new").mkdir(parents=True)
        with fails(ResourceError, "disk-full"):
            ProjectFolder.create(tmp_path / "of" / "new", {})
        assert names(tmp_path / "of" / "new") == set()
    assert ProjectFolder.create(tmp_path / "new", {}).settings()


def test_creation_on_a_full_disk(small_disk: Path, disk_filler: Callable[..., None]) -> None:
    (small_disk / "new").mkdir()
    disk_filler(small_disk)
    with pytest.raises(ResourceError):
        ProjectFolder.create(small_disk / "new", {})
    (small_disk / "ballast").unlink()
    assert ProjectFolder.create(small_disk / "new", {}).settings()


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "a:b", "what?", "", "~no-such-user-here/x"])
def test_names_that_no_folder_can_have(name: str) -> None:
    with pytest.raises(UsageError):
        ProjectFolder.open(name)
    with pytest.raises(EngineError):
        ProjectFolder.create(locate(name), {})


@pytest.mark.parametrize("name", ["y" * 300, "a\0b"])
def test_paths_that_no_folder_can_have(tmp_path: Path, name: str) -> None:
    with pytest.raises(EngineError):
        ProjectFolder.open(str(tmp_path / name))
    with pytest.raises(EngineError):
        ProjectFolder.create(locate(str(tmp_path / name)), {})


def test_names_lie_in_the_users_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DATA, str(tmp_path))
    assert tmp_path in projects_root().parents
    ProjectFolder.create(locate("handbook"), {})
    ProjectFolder.create(locate("letters"), {})
    try:
        assert [path.name for path in known_projects()] == ["handbook", "letters"]
        assert ProjectFolder.open("handbook").path == projects_root() / "handbook"
        with fails(UsageError, "project-missing", "'handbook'"):
            ProjectFolder.open("handbok")
        with fails(UsageError, "project-missing", "'letters'"):
            ProjectFolder.open("Letter")
        with fails(UsageError, "project-missing", command="new"):
            ProjectFolder.open("qqqqqqqq")
    finally:
        shutil.rmtree(projects_root())
    assert known_projects() == []


def test_a_name_means_the_same_project_wherever_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DATA, str(tmp_path / "data"))
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    ProjectFolder.create(here / "handbook", {})
    assert ProjectFolder.open("handbook").path == here / "handbook"
    named = ProjectFolder.create(projects_root() / "handbook", {})
    assert ProjectFolder.open("handbook").path == named.path
    assert ProjectFolder.open("./handbook").path == here / "handbook"
    assert named.argument == "handbook"


def test_open_by_path(
    project: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("project", "./project", str(tmp_path / "project"), tmp_path / "project"):
        assert ProjectFolder.open(name).path == project.path


def test_sources_are_taken_from_the_project_folder(tmp_path: Path) -> None:
    chosen = {"corpus": {"paths": ["docs", str(tmp_path / "elsewhere"), "~/home"]}}
    created = ProjectFolder.create(tmp_path / "p", chosen)  # type: ignore[arg-type]
    assert created.sources(created.settings()) == [
        tmp_path / "p" / "docs",
        tmp_path / "elsewhere",
        Path.home() / "home",
    ]
    write_text(created.path / "project.toml", "[corpus]\npaths = ['~no-such-user-here/x']")
    with fails(UsageError, "path-invalid", "no-such-user"):
        created.sources(created.settings())


def test_write_text_is_all_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_text(path, "one")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "\ud800")
    assert (path.read_text(), mode(path), names(tmp_path)) == ("one", 0o600, {"run.json"})
    write_text(path, "two")
    assert path.read_text() == "two"


# artifacts


def test_an_artifact_appears_complete(project: ProjectFolder) -> None:
    with project.building("vectors", "abc") as building:
        (building.folder / "sub").mkdir()
        (building.folder / "sub" / "file").write_text("1")
        assert not (project.path / "vectors" / "abc").exists()
    assert building.name == "vectors/abc"
    assert names(project.path / "vectors") == {"abc"}
    assert mode(project.path / "vectors" / "abc") == 0o700
    assert (
        project.folder_of(Artifact(VectorsInfo(), "abc", building.name)) / "sub" / "file"
    ).read_text() == "1"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_failed_build_leaves_nothing_and_the_former_artifact(
    project: ProjectFolder, error: type[BaseException]
) -> None:
    with project.building("vectors", "abc") as building:
        (building.folder / "file").write_text("former")

    def fail() -> None:
        with project.building("vectors", "abc") as half:
            (half.folder / "file").write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert names(project.path / "vectors") == {"abc"}
    assert (project.path / "vectors" / "abc" / "file").read_text() == "former"


def test_building_the_same_again_takes_another_name(project: ProjectFolder) -> None:
    for name in ("vectors/abc", "vectors/abc-2", "vectors/abc-3"):
        with project.building("vectors", "abc") as building:
            (building.folder / "file").write_text(name)
        assert building.name == name
    assert (project.path / "vectors" / "abc" / "file").read_text() == "vectors/abc"


def test_what_a_killed_build_left_is_not_taken_over(project: ProjectFolder) -> None:
    (project.path / "vectors" / ".tmp-abc").mkdir()
    (project.path / "vectors" / ".tmp-abc" / "half").write_text("half")
    with project.building("vectors", "abc") as building:
        assert names(building.folder) == set()


def test_sweep_keeps_what_is_in_use(project: ProjectFolder) -> None:
    for root, name in (
        ("vectors", "a"),
        ("vectors", "b"),
        ("vectors", ".tmp-c"),
        ("adapters", "a"),
        ("reports", "sweep-a"),
        ("reports", "b"),
        ("runs", "r"),
        ("cache", "x"),
    ):
        (project.path / root / name).mkdir()
    (project.path / "vectors" / "note.txt").write_text("mine")
    project.sweep({"vectors/b"})
    assert names(project.path / "vectors") == {"b", "note.txt"}
    assert names(project.path / "adapters") == set()
    assert names(project.path / "reports") == {"sweep-a"}
    assert names(project.path / "runs") == {"r"}
    assert names(project.path / "cache") == {"x"}


def test_a_missing_artifact_folder_is_damage(project: ProjectFolder) -> None:
    with fails(DamagedError, "artifact-missing"):
        project.folder_of(Artifact(VectorsInfo(), "abc", "vectors/abc"))


@pytest.mark.posix(reason="links need a right on Windows")
def test_a_path_that_leads_upwards_is_followed_through_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "far" / "within").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "within")
    monkeypatch.chdir(tmp_path / "far")
    assert locate("../made") == tmp_path / "made"
    assert locate(str(tmp_path / "link" / "..")) == tmp_path / "far"
    assert locate(str(tmp_path / "link")) == tmp_path / "link"
    created = Project.create(tmp_path / "project", ["../link/../within"])
    assert created.settings().corpus.paths == [str(tmp_path / "far" / "within")]
