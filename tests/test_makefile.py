"""What `make` says while it installs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_the_long_installation_is_announced_and_followed(tmp_path: Path) -> None:
    done = subprocess.run(
        ["make", "--dry-run", f"VENV={tmp_path}/new", "demo"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    (said,) = [place for place, line in enumerate(lines) if "about ten minutes" in line]
    (installs,) = [place for place, line in enumerate(lines) if "pip install" in line]
    assert lines[said].startswith(f'echo "Installing into {tmp_path}/new: ')
    assert said < installs
    assert "--quiet" not in lines[installs]
    assert lines[-1] == f"{tmp_path}/new/bin/engine demo"
