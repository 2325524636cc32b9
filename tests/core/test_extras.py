"""Extras: what is missing, and the command that installs it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from engine.core.errors import UsageError
from engine.core.extras import (
    EXTRAS,
    check_extra,
    describe_missing,
    install_command,
    missing_packages,
)

PYTHON = f'"{sys.executable}"'


def clone(folder: Path) -> Path:
    for name in ("pyproject.toml", "constraints.txt"):
        (folder / name).touch()
    return folder


def test_the_command_suits_the_way_in_which_the_program_was_installed(tmp_path: Path) -> None:
    root = clone(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    editable = f'{PYTHON} -m pip install -c "{root / "constraints.txt"}" -e "{root}[llm]"'
    assert install_command("llm", root, root / ".venv") == f'make -C "{root}" llm'
    assert install_command("llm", root, elsewhere) == editable
    assert install_command("desktop", root, root / ".venv") == editable.replace("llm", "desktop")
    assert (
        install_command("llm", elsewhere, elsewhere)
        == f'{PYTHON} -m pip install "bmembed-tui[llm]"'
    )
    (elsewhere / "uv-receipt.toml").touch()
    assert (
        install_command("llm", elsewhere, elsewhere)
        == f'uv pip install --python {PYTHON} "bmembed-tui[llm]"'
    )


def test_a_package_that_cannot_be_imported_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        EXTRAS,
        "llm",
        {"json": "present", "no_such_module": "absent-package"},
    )
    assert missing_packages("llm") == ["absent-package"]
    assert "absent-package" in describe_missing("llm")
    with pytest.raises(UsageError) as error:
        check_extra("llm", "It cannot be used")
    assert error.value.code == "package-missing"
    assert install_command("llm") in error.value.to_do
    monkeypatch.setitem(
        EXTRAS,
        "llm",
        {"json": "present"},
    )
    assert (missing_packages("llm"), describe_missing("llm")) == ([], "")
    check_extra("llm", "It cannot be used")
