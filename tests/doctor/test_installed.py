"""`engine doctor --offline`: packages by their metadata, down to the last, and the files that
come with the program.
"""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import pytest
from fixtures.pipeline import engine_here

from engine.core.extras import EXTRAS
from engine.core.messages.project import Finding
from engine.doctor import installed
from engine.doctor.doctor import examine
from engine.doctor.installed import examine_files, examine_packages


def put(
    site: Path,
    name: str,
    version: str,
    *requires: str,
    files: tuple[str, ...] = (),
) -> None:
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"
    )
    (folder / "RECORD").write_text("".join(f"{file},,\n" for file in files))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(installed, "PROJECT", "our_program")
    # It lists no missing files from Python 3.12 on.
    monkeypatch.setattr(
        metadata.Distribution,
        "files",
        (),
    )
    for name, module in (
        ("llm", "no_such_module"),
        ("desktop", "json"),
        ("parquet", "json"),
    ):
        monkeypatch.setitem(
            EXTRAS,
            name,
            {module: module},
        )
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def named(finding: Finding) -> set[str]:
    return {
        name
        for name in ("direct", "deep", "absent", "optional", "here.py", "gone.py", "used")
        if name in finding.found
    }


def test_what_is_missing_or_too_old_is_named_however_deep(site: Path) -> None:
    extras = ("optional; extra == 'llm'", "used; extra == 'parquet'")
    put(
        site,
        "our_program",
        "1.0",
        "direct[more]>=2",
        *extras,
        "absent; python_version < '3'",
    )
    put(
        site,
        "direct",
        "2.5",
        "deep>=3; extra == 'more'",
        files=("here.py", "gone.py", "gone.pyc"),
    )
    put(
        site,
        "deep",
        "2.0",
        "absent",
        "our_program",
    )
    (site / "here.py").touch()
    (finding,) = examine_packages()
    assert (finding.state, named(finding)) == ("problem", {"deep", "absent", "gone.py", "used"})
    put(site, "used", "1.0")
    put(site, "absent", "1.0")
    put(site, "deep", "3.0")
    (site / "deep-2.0.dist-info" / "METADATA").unlink()
    (site / "deep-2.0.dist-info" / "RECORD").unlink()
    (site / "deep-2.0.dist-info").rmdir()
    (site / "gone.py").touch()
    (finding,) = examine_packages()
    assert (finding.state, finding.found.split()[0]) == ("good", "4")


@pytest.mark.parametrize(
    ("file", "state"),
    [
        ("../../bin/direct", "good"),
        ("../../../Scripts/direct.exe", "good"),
        ("bin/direct", "good"),
        ("Scripts/direct.exe", "good"),
        ("direct/include/ATen/native/list.txt", "good"),
        ("direct/core/list.h", "good"),
        ("direct/core/list.hpp", "good"),
        ("direct/core/list.cuh", "good"),
        ("direct/lib/direct.lib", "good"),
        ("vcruntime140_1.dll", "good"),
        ("msvcp140.dll", "good"),
        ("direct/__pycache__/core.pyc", "good"),
        ("direct/bin/direct.exe", "problem"),
        ("direct/lib/msvcp140.dll", "problem"),
        ("direct/lib/direct.dll", "problem"),
        ("direct.dll", "problem"),
        ("direct/include.py", "problem"),
    ],
)
def test_only_files_that_the_program_needs_may_not_be_missing(
    site: Path, file: str, state: str
) -> None:
    put(
        site,
        "our_program",
        "1.0",
        files=(file,),
    )
    (finding,) = examine_packages()
    assert finding.state == state


def test_a_program_that_was_never_installed_is_a_problem(site: Path) -> None:
    (finding,) = examine_packages()
    assert finding.state == "problem"
    assert "our_program" in finding.found


def test_files_that_come_with_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [finding.state for finding in examine_files()] == ["good"]
    monkeypatch.setattr(
        installed,
        "SHIPPED",
        (*installed.SHIPPED, "prompts/none.txt"),
    )
    (finding,) = (one for one in examine(offline=True) if one.topic == "files")
    assert finding.state == "problem"
    assert "prompts/none.txt" in finding.found


def test_the_command_names_extras_and_fails_for_problems(site: Path) -> None:
    done = engine_here(
        "doctor",
        "--offline",
        "--json",
        check=False,
    )
    findings = {one["topic"]: one["state"] for one in json.loads(done.stdout)}
    assert {"llm", "desktop", "parquet", "ocr"} <= findings.keys()
    assert (findings["packages"], findings["files"], findings["model"]) == (
        "problem",
        "good",
        "good",
    )
    assert done.returncode == 3
    put(site, "our_program", "1.0")
    assert engine_here("doctor", "--offline", "--json", check=False).returncode == 0
