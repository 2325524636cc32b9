"""`engine doctor --offline`: whether all that the program needs is on this machine.

Nothing is imported or looked up elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from engine.core.assets import asset_path
from engine.core.extras import EXTRAS, install_command, missing_packages
from engine.core.messages.project import Finding

PROJECT = "bmembed-tui"
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


def packages() -> list[Finding]:
    """All packages that this one needs, directly or not, in versions that it can use, with every
    file that was installed.
    """
    wrong: list[str] = []
    names = {found.name for found in _needed(wrong)}
    if wrong:
        if len(wrong) > 5:
            more = f" and {len(wrong) - 5} more"
        else:
            more = ""
        return [
            Finding("packages", "problem", ", ".join(wrong[:5]) + more, "install bmembed-tui again")
        ]
    return [
        Finding(
            "packages", "good", f"{len(names)} packages", "none is missing, and none of their files"
        )
    ]


def _needed(wrong: list[str]) -> Iterator[metadata.Distribution]:
    """Installed packages, those of extras that are there included; `wrong` gets what is missing."""
    from packaging.requirements import Requirement

    extras = ",".join(name for name in EXTRAS if not missing_packages(name))
    wanted = [Requirement(f"{PROJECT}[{extras}]")]
    seen = set()
    while wanted:
        one = wanted.pop()
        if (key := (one.name.lower().replace("_", "-"), *sorted(one.extras))) in seen:
            continue
        seen.add(key)
        try:
            found = metadata.distribution(one.name)
        except metadata.PackageNotFoundError:
            wrong.append(f"{one.name} is missing")
            continue
        if not one.specifier.contains(found.version, prereleases=True):
            wrong.append(f"{one.name} {found.version} is not {one.specifier}")
        # Python compiles what has no .pyc file.
        wrong += [
            f"{file} is missing"
            for file in found.files or ()
            if file.suffix != ".pyc" and not Path(file.locate()).exists()
        ]
        for needed in map(Requirement, found.requires or ()):
            if not needed.marker or any(
                needed.marker.evaluate({"extra": extra}) for extra in one.extras or {""}
            ):
                wanted.append(needed)
        yield found


def shipped() -> list[Finding]:
    """The files that come with the program: sample, prompts, templates, word lists.

    Raises EngineError where one is missing.
    """
    folder = [asset_path(name) for name in SHIPPED][-1].parents[SHIPPED[-1].count("/")]
    return [Finding("files", "good", "sample, prompts, templates and word lists", f"in {folder}")]


def extra(name: str, use: str, *, needed: bool = False) -> list[Finding]:
    """An extra and its `use`. `needed`: the settings name something that cannot do without it."""
    if missing := missing_packages(name):
        state = "problem" if needed else "absent"
        follows = f"only {use} need it; to install it: {install_command(name)}"
        return [Finding(name, state, f"{', '.join(missing)} not installed", follows)]
    return [Finding(name, "good", ", ".join(EXTRAS[name].values()), f"{use} can be used")]
