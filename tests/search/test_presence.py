"""Documents whose files are gone, or have changed since they were read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from fixtures.records import build_document
from fixtures.shown_numbers import numbers

from engine.core.records import Document
from engine.search.presence import Presence

Make = Callable[..., Document]


@pytest.fixture
def document(tmp_path: Path) -> Make:
    (tmp_path / "files" / "in").mkdir(parents=True)
    (tmp_path / "project").mkdir()
    for name in ("a.txt", "in/mail.eml"):
        (tmp_path / "files" / name).write_text("The tern.")
        os.utime(tmp_path / "files" / name, (1000.0, 1000.0))

    def make(
        path: str,
        number: int = 1,
        **more: object,
    ) -> Document:
        usual = {
            "source": "../files",
            "size": 9,
            "modified": 1000.0,
            "id": number,
        }
        return build_document(path, **{**usual, **more})

    return make


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("a.txt", True),
        ("in/mail.eml", True),
        ("in/mail.eml/plan.pdf", True),
        ("in/mail.eml/a.zip/b.txt", True),
        ("b.txt", False),
        ("in/other.eml/plan.pdf", False),
        ("gone/c.txt", False),
        ("a.txt/b", True),
        ("caf\\xe9.txt", True),
        ("a\0.txt", True),
        pytest.param(
            "in/" + "x" * 5000,
            True,
            marks=pytest.mark.posix(reason="a name that is too long is one of no file on Windows"),
        ),
    ],
)
def test_a_document_is_there_where_its_file_is_or_what_holds_it(
    tmp_path: Path, document: Make, path: str, there: bool
) -> None:
    presence = Presence(tmp_path / "project")
    assert presence.has(document(path)) == there
    assert presence.gone == (set() if there else {1})
    assert presence.changed == set()
    assert presence.has(document(path, external_id="d1"))


def test_a_document_that_a_cloud_took_from_this_device_is_not_gone(
    tmp_path: Path, document: Make
) -> None:
    for name in (".plan.pdf.icloud", "mail.eml.nextcloud"):
        (tmp_path / "files" / name).write_text("a placeholder")
    presence = Presence(tmp_path / "project")
    assert presence.has(document("plan.pdf"))
    assert presence.has(document("mail.eml/plan.pdf"))
    assert not presence.has(document("in/plan.pdf"))
    assert not presence.has(document("x" * 250))


@pytest.mark.parametrize("state", ["missing", "empty", "closed"])
@pytest.mark.posix(reason="modes of files")
def test_an_unreachable_source_removes_no_documents(
    tmp_path: Path, document: Make, state: str
) -> None:
    for path in (tmp_path / "files" / "a.txt", tmp_path / "files" / "in" / "mail.eml"):
        path.unlink()
    (tmp_path / "files" / "in").rmdir()
    if state == "missing":
        (tmp_path / "files").rmdir()
    elif state == "closed":
        if os.geteuid() == 0:
            pytest.skip("no folder is closed to root")
        (tmp_path / "files").chmod(0)
    presence = Presence(tmp_path / "project")
    assert presence.has(document("a.txt"))
    assert presence.notes("it") == []


def test_what_is_gone_and_what_has_changed_is_noted(tmp_path: Path, document: Make) -> None:
    presence = Presence(tmp_path / "project")
    assert presence.has(document("a.txt"))
    assert presence.notes("it") == []
    os.utime(tmp_path / "files" / "a.txt", (1500.0, 1500.0))
    assert presence.has(document("a.txt"))
    assert not presence.has(document("b.txt", 2))
    assert not presence.has(document("c.txt", 3))
    gone, changed, command = presence.notes("it")
    assert (numbers(gone), numbers(changed)) == ([2], [1])
    assert "'engine run it'" in command
