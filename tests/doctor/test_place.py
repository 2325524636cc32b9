"""What `engine doctor` says of the place of a project's folder."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from engine.doctor import place
from engine.doctor.doctor import examine
from engine.doctor.place import examine_place
from engine.project.folder import ProjectFolder


class Mount(NamedTuple):
    mountpoint: str
    fstype: str
    opts: str = "rw"


def codes(project: ProjectFolder) -> list[str]:
    return [finding.code for finding in examine_place(project)]


def test_nothing_is_said_of_an_ordinary_folder(project: ProjectFolder) -> None:
    assert codes(project) == []


def test_a_read_only_folder(project: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        place,
        "is_writable",
        lambda folder: folder != project.path,
    )
    assert codes(project) == ["project-read-only"]
    places = [finding for finding in examine(project) if finding.topic == "place"]
    assert [(finding.state, finding.code) for finding in places] == [("note", "project-read-only")]


@pytest.mark.parametrize(
    ("mounts", "expected"),
    [
        ([Mount("ABOVE", "nfs4")], ["project-on-network"]),
        ([Mount("ABOVE", "ext4", "rw,remote")], ["project-on-network"]),
        ([Mount("ABOVE", "nfs4"), Mount("PROJECT", "ext4")], []),
        ([Mount("ABOVE", "ext4"), Mount("PROJECT", "cifs")], ["project-on-network"]),
        ([Mount("PROJECT", "autofs"), Mount("PROJECT", "nfs")], ["project-on-network"]),
        ([Mount("BESIDE", "nfs4")], []),
    ],
)
def test_a_folder_on_a_network_drive(
    project: ProjectFolder,
    monkeypatch: pytest.MonkeyPatch,
    mounts: list[Mount],
    expected: list[str],
) -> None:
    """The mount nearest to the folder counts, and of two at one place the later one."""
    path = project.path.resolve()
    places = {
        "ABOVE": path.parent,
        "PROJECT": path,
        "BESIDE": path.with_name("proj"),
    }
    found = [mount._replace(mountpoint=str(places[mount.mountpoint])) for mount in mounts]
    monkeypatch.setattr(
        psutil,
        "disk_partitions",
        lambda **_: found,
    )
    assert codes(project) == expected


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("OneDrive - Firm/notes", ["project-synchronised"]),
        ("Dropbox", ["project-synchronised"]),
        ("Library/CloudStorage/GoogleDrive-me/notes", ["project-synchronised"]),
        ("my onedrive/notes", []),
    ],
)
def test_a_folder_that_a_program_synchronises(
    tmp_path: Path, folder: str, expected: list[str]
) -> None:
    assert codes(ProjectFolder.create(tmp_path / folder / "project", {})) == expected
