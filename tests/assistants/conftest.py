from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from fixtures.assistants import indexed
from fixtures.once import made_once

LEASE = "# Lease\n\nThe tenant pays the rent monthly.\n\nThe landlord repairs the roof.\n"
DOCUMENTS = {
    "contracts/lease.md": LEASE,
    "contracts/loan.txt": "The borrower pays interest on the loan every month.\n",
    "reports/wing #1.txt": (
        "Pressure on the wing rises with speed.\nThe roof of the tunnel was heated.\n"
    ),
    "reports/gauge.txt": "".join(
        f"{number}: the gauge shows a steady pressure of air\n" for number in range(1, 1501)
    ),
    "reports/endless.txt": "steam " * 10_000,
}


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the project `handbook`, which no test changes, and its documents."""
    return made_once(
        tmp_path_factory, "for-assistants", lambda folder: indexed(folder / "handbook", DOCUMENTS)
    )


@pytest.fixture
def handbook(tmp_path: Path, shelf: Path) -> Path:
    """A copy of the project."""
    return Path(shutil.copytree(shelf / "handbook", tmp_path / "handbook"))


@pytest.fixture
def embedded(tmp_path: Path, finished_built: Path) -> Path:
    """A project that is searched by meaning, too."""
    return Path(shutil.copytree(finished_built, tmp_path / "embedded"))
