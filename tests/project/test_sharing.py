"""Who may read a project."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest
from fixtures.errors import fails
from fixtures.pipeline import engine_here

from engine.core.errors import UsageError
from engine.project.folder import ProjectFolder
from engine.project.sharing import plan_sharing, share_new_files

grp = pytest.importorskip("grp", reason="groups of users are for POSIX systems")
as_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can give files to other users and groups"
)
GROUP = grp.getgrgid(1).gr_name


def rights(folder: Path) -> tuple[set[int], set[int]]:
    """The modes of all folders, and of all files."""
    states = [path.lstat() for path in (folder, *folder.rglob("*")) if not path.is_symlink()]
    folders = {stat.S_IMODE(state.st_mode) for state in states if stat.S_ISDIR(state.st_mode)}
    return folders, {stat.S_IMODE(state.st_mode) for state in states if stat.S_ISREG(state.st_mode)}


@as_root
def test_a_group_may_read_it_and_what_comes_into_it_until_it_is_taken_back(
    project: ProjectFolder,
) -> None:
    assert rights(project.path) == ({0o700}, {0o600})
    plan = plan_sharing(project, GROUP)
    assert (plan.folders, plan.files) == (
        1 + sum(1 for path in project.path.rglob("*") if path.is_dir()),
        2,
    )
    plan.apply()
    assert rights(project.path) == ({0o2750}, {0o640})
    assert {path.stat().st_gid for path in project.path.rglob("*")} == {1}
    again = plan_sharing(project, GROUP)
    assert (again.folders, again.files) == (0, 0)
    project.change_settings({"search.top": 7})
    with project.building("reports", "new") as building:
        building.folder.chmod(0o700)  # what is made in it has another group now
        (building.folder / "inner").mkdir(mode=0o700)
        (building.folder / "inner" / "file").touch(mode=0o600)
    with project.locked():
        pass
    assert rights(project.path) == ({0o2750}, {0o640})
    (project.path / "imports" / "late").touch(mode=0o600)
    os.chown(
        project.path / "imports" / "late",
        -1,
        2,
    )
    share_new_files(project)
    assert rights(project.path) == ({0o2750}, {0o640})
    assert {path.stat().st_gid for path in project.path.rglob("*")} == {1}
    plan_sharing(project, None).apply()
    assert rights(project.path) == ({0o700}, {0o600})
    project.change_settings({"search.top": 8})
    share_new_files(project)
    assert rights(project.path) == ({0o700}, {0o600})


@as_root
def test_what_another_owns_and_what_links_lead_to_stay(
    project: ProjectFolder, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.touch(mode=0o600)
    (project.path / "cache" / "link").symlink_to(outside)
    os.mkfifo(project.path / "cache" / "pipe", 0o600)
    plan_sharing(project, GROUP).apply()
    assert stat.S_IMODE(outside.stat().st_mode) == 0o600
    foreign = project.path / "cache" / "foreign"
    foreign.touch(mode=0o600)
    os.chown(foreign, 65534, 1)
    for group in (GROUP, None):
        with fails(UsageError, "share-not-owner", foreign):
            plan_sharing(project, group)
    assert stat.S_IMODE(foreign.stat().st_mode) == 0o600


@as_root
def test_the_bit_that_a_folder_above_lacks_is_named(project: ProjectFolder, tmp_path: Path) -> None:
    advice = []
    for group in (1, 65534):
        os.chown(
            tmp_path,
            -1,
            group,
        )
        tmp_path.chmod(0o700)
        (line,) = engine_here(
            "share", str(project.path), "--group", GROUP, "--yes"
        ).stderr.splitlines()
        (command,) = [
            match
            for match in re.findall(r"chmod (.{3}) (.+?)(?: &&|\. )", line)
            if str(tmp_path.resolve()) in match[1].split()
        ]
        advice.append(command[0])
    assert advice == ["g+x", "o+x"]


@as_root
def test_folders_above_that_keep_the_group_out_are_named(
    project: ProjectFolder, tmp_path: Path
) -> None:
    tmp_path.chmod(0o700)
    assert tmp_path.resolve() in plan_sharing(project, GROUP).closed
    tmp_path.chmod(0o711)
    assert tmp_path.resolve() not in plan_sharing(project, GROUP).closed
    os.chown(
        tmp_path,
        -1,
        1,
    )
    tmp_path.chmod(0o701)
    assert tmp_path.resolve() in plan_sharing(project, GROUP).closed
    assert plan_sharing(project, None).closed == ()


def test_a_group_that_there_is_not(project: ProjectFolder) -> None:
    with fails(UsageError, "group-unknown", "no-such-group"):
        plan_sharing(project, "no-such-group")
    assert rights(project.path) == ({0o700}, {0o600})
