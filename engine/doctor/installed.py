"""`engine doctor --offline`: whether all that the program needs is on this machine.

Nothing is imported or looked up elsewhere.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from fnmatch import fnmatchcase
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from engine.core.assets import asset_path
from engine.core.extras import EXTRAS, install_command, missing_packages
from engine.core.messages.project import Finding

if TYPE_CHECKING:
    from packaging.requirements import Requirement

PROJECT = "bmembed-tui"
MAX_SHOWN = 5
_ELSEWHERE = ("..", "bin", "Scripts")
"""First folders of paths in RECORD that lead to programs, or (`..`) out of the packages."""
_NOT_NEEDED = (
    ".pyc",
    ".h",
    ".hpp",
    ".cuh",
    ".lib",
)
"""Endings of files that Python makes itself, or that only a C++ compiler reads."""
_RUNTIME = "*140*.dll"
"""Microsoft's C++ runtime, such as vcruntime140_1.dll."""
SHIPPED = (
    "sample/documents",
    "sample/questions.jsonl",
    "prompts/questions.txt",
    "report/report.html.j2",
    "words/english.toml",
    "export/card.md.j2",
    "export/search.md.j2",
    "general/knowledge.jsonl",
    "desktop/bmembed.png",
    "studies.toml",
    "assistants/server.json",
    "assistants/bmembed-search/SKILL.md",
)
"""Files and folders of assets/, one of each kind, whose presence is checked."""


def examine_packages() -> list[Finding]:
    """Return whether all required packages are complete and in usable versions.

    That includes indirect requirements, and those of extras that are installed.
    """
    problems: list[str] = []
    names = {package.name for package in _list_packages(problems)}
    if problems:
        found = ", ".join(problems[:MAX_SHOWN])
        if len(problems) > MAX_SHOWN:
            found += f" and {len(problems) - MAX_SHOWN} more"
        return [Finding("packages", "problem", found, "install bmembed-tui again")]
    follows = "none is missing, and none of their files"
    return [Finding("packages", "good", f"{len(names)} packages", follows)]


def _list_packages(problems: list[str]) -> Iterator[metadata.Distribution]:
    """Yield the installed packages that are required; append what is wrong to `problems`."""
    from packaging.requirements import Requirement

    extras = ",".join(name for name in EXTRAS if not missing_packages(name))
    pending = [Requirement(f"{PROJECT}[{extras}]")]
    checked = set()
    while pending:
        requirement = pending.pop()
        # A package with other extras has other requirements.
        key = (requirement.name.lower().replace("_", "-"), *sorted(requirement.extras))
        if key in checked:
            continue
        checked.add(key)
        try:
            package = metadata.distribution(requirement.name)
        except metadata.PackageNotFoundError:
            problems.append(f"{requirement.name} is missing")
            continue
        if not requirement.specifier.contains(package.version, prereleases=True):
            problems.append(f"{requirement.name} {package.version} is not {requirement.specifier}")
        problems += [f"{file} is missing" for file in _list_missing_files(package)]
        for dependency in map(Requirement, package.requires or ()):
            if _applies(dependency, requirement.extras):
                pending.append(dependency)
        yield package


def _list_missing_files(package: metadata.Distribution) -> list[str]:
    """Return the missing files of a package, except those that it works without.

    They are read from RECORD, since `package.files` leaves out missing ones from Python 3.12 on.
    """
    record = package.read_text("RECORD") or ""
    missing = []
    for row in csv.reader(record.splitlines()):
        if not row or _may_be_missing(row[0]):
            continue
        if not Path(str(package.locate_file(row[0]))).exists():
            missing.append(row[0])
    return missing


def _may_be_missing(name: str) -> bool:
    """Return whether the program works without a file of RECORD.

    Installers move programs and headers to folders of their own; after `pip install --target`,
    RECORD still has the usual paths. The portable folder for Windows has neither, and keeps
    Microsoft's C++ runtime next to Python.
    """
    path = PurePosixPath(name.replace("\\", "/"))
    folders = path.parts[:-1]
    if folders and folders[0] in _ELSEWHERE:
        return True
    if not folders and fnmatchcase(path.name, _RUNTIME):
        return True
    return "include" in folders or path.suffix in _NOT_NEEDED


def _applies(requirement: Requirement, extras: set[str]) -> bool:
    """Return whether a requirement holds on this machine, for a package with these extras."""
    if not requirement.marker:
        return True
    return any(requirement.marker.evaluate({"extra": extra}) for extra in extras or {""})


def examine_files() -> list[Finding]:
    """Return where the program's own files are: sample, prompts, templates, word lists.

    Raises EngineError where one is missing.
    """
    for name in SHIPPED:
        asset_path(name)
    folder = asset_path("studies.toml").parent
    return [Finding("files", "good", "sample, prompts, templates and word lists", f"in {folder}")]


def examine_extra(
    name: str,
    use: str,
    *,
    needed: bool = False,
) -> list[Finding]:
    """Return whether an extra is installed.

    `use`: what needs it. `needed`: whether the settings name something that needs it.
    """
    missing = missing_packages(name)
    if missing:
        state = "problem" if needed else "absent"
        follows = f"only {use} need it; to install it: {install_command(name)}"
        return [Finding(name, state, f"{', '.join(missing)} not installed", follows)]
    return [Finding(name, "good", ", ".join(EXTRAS[name].values()), f"{use} can be used")]
