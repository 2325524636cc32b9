"""The file of the token."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fixtures.errors import fails
from fixtures.project_files import mode

from engine.assistants.http.token import read_token
from engine.core.errors import InputError


def test_it_is_made_once_for_its_user_alone(tmp_path: Path) -> None:
    file = tmp_path / "bmembed" / "http-token"
    token = read_token(file)
    assert len(token) >= 32
    assert read_token(file) == token
    assert mode(file) == 0o600
    assert mode(file.parent) == 0o700
    assert os.listdir(file.parent) == ["http-token"]
    file.unlink()
    assert read_token(file) != token


def test_programs_that_make_it_at_once_use_the_same(tmp_path: Path) -> None:
    file = tmp_path / "http-token"
    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(read_token, [file] * 32))) == 1
    assert os.listdir(tmp_path) == ["http-token"]


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param("readable", marks=pytest.mark.posix(reason="modes of files")),
        pytest.param("link", marks=pytest.mark.posix(reason="links need a right on Windows")),
        "short",
        "folder",
        pytest.param("pipe", marks=pytest.mark.posix(reason="a folder holds no pipes on Windows")),
        "binary",
    ],
)
def test_one_that_others_may_know_or_choose_is_refused(tmp_path: Path, spoil: str) -> None:
    file = tmp_path / "http-token"
    good = read_token(file)
    if spoil == "readable":
        file.chmod(0o640)
    else:
        file.unlink()
        {
            "link": lambda: (
                (tmp_path / "elsewhere").write_text(good)
                and file.symlink_to(tmp_path / "elsewhere")
            ),
            "short": lambda: file.write_text("secret"),
            "folder": lambda: file.mkdir(0o600),
            "pipe": lambda: os.mkfifo(file, 0o600),
            "binary": lambda: file.write_bytes(b"\xff" * 64),
        }[spoil]()
        if not file.is_symlink():
            file.chmod(0o600)
    with fails(InputError, "token-unsafe", file):
        read_token(file)
