"""What the place of a project's folder means for searching and changing the project."""

from __future__ import annotations

from pathlib import Path

from engine.core.messages.project import Finding
from engine.core.platforms.files import is_writable
from engine.project.folder import ProjectFolder

NETWORK_FILE_SYSTEMS = frozenset(
    (
        "9p",
        "afpfs",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "davfs",
        "fuse.rclone",
        "fuse.sshfs",
        "gpfs",
        "lustre",
        "nfs",
        "nfs4",
        "smb2",
        "smb3",
        "smbfs",
        "webdav",
    )
)
SYNCHRONISED = (
    "cloudstorage",  # macOS: ~/Library/CloudStorage/PROVIDER
    "dropbox",
    "google drive",
    "googledrive",
    "mobile documents",  # iCloud Drive
    "nextcloud",
    "onedrive",
    "owncloud",
)
"""How the names of folders begin that a program keeps the same on several machines."""


def examine_place(project: ProjectFolder) -> list[Finding]:
    """Return what a read-only, remote or synchronised folder means for a project; empty if none."""
    findings = []
    if not is_writable(project.path):
        found = f"{project.path} is read-only for you"
        follows = (
            "it can be searched, with what is indexed; runs, judgments and changes of settings need"
            " a copy on a disk that you can write to"
        )
        findings.append(Finding("place", "note", found, follows, "project-read-only"))
    file_system = find_network_file_system(project.path)
    if file_system:
        found = f"{project.path} is on a network drive ({file_system})"
        follows = (
            "use it from one machine at a time, as locks may not reach others; searches wait for"
            " the network, and fail without it"
        )
        findings.append(Finding("place", "note", found, follows, "project-on-network"))
    folder = find_synchronised_folder(project.path)
    if folder:
        found = f"{project.path} is in {folder}, which seems to be synchronised"
        follows = (
            "a copy that is made during a run may be damaged, and files that are only online make a"
            " search wait or fail: move it out with 'engine bundle'; documents may stay there"
        )
        findings.append(Finding("place", "note", found, follows, "project-synchronised"))
    return findings


def find_network_file_system(folder: Path) -> str:
    """Return the kind of the network file system that holds a folder, empty if it is on a disk."""
    import psutil

    folder = folder.resolve()
    if folder.drive.startswith("\\\\"):
        return folder.drive
    partitions = [
        partition
        for partition in psutil.disk_partitions(all=True)
        if folder.is_relative_to(partition.mountpoint)
    ]
    if not partitions:
        return ""
    # Of several mounts at one place, the last one is seen.
    partition = max(reversed(partitions), key=lambda mount: len(Path(mount.mountpoint).parts))
    is_remote = "remote" in partition.opts.split(",")  # as psutil says on Windows
    if is_remote or partition.fstype.lower() in NETWORK_FILE_SYSTEMS:
        return partition.fstype
    return ""


def find_synchronised_folder(folder: Path) -> Path | None:
    """Return the folder above, or the folder itself, that a program such as OneDrive keeps.

    Judged by its name: the programs have no other mark in common.
    """
    folder = folder.resolve()
    for parent in (folder, *folder.parents):
        if parent.name.casefold().startswith(SYNCHRONISED):
            return parent
    return None
