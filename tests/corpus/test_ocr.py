"""OCR with a program in tesseract's place: what it is asked, what it may not do, and what the ledger says."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures import office
from fixtures.pipeline import ingest_here

from engine.corpus import ocr
from engine.corpus.sandbox import Limits, Outcome, Pool, Tesseract, find_tesseract
from engine.doctor import examine
from engine.errors import SettingsError
from engine.project import ProjectFolder
from engine.store import LedgerRow

PROGRAM = f"""#!{sys.executable}
import socket, sys, time
asked = sys.argv[1:]
if asked == ["--version"]:
    print("tesseract 9.1\\n leptonica-1.2")
elif asked == ["--list-langs"]:
    print('List of available languages in "/data" (3):\\ndeu\\neng\\nosd')
else:
    assert asked[:3] == ["stdin", "stdout", "-l"], asked
    picture = sys.stdin.buffer.read()
    if picture == b"slow":
        time.sleep(60)
    if picture == b"broken":
        sys.exit(1)
    try:
        socket.socket()
        network = "open"
    except OSError:
        network = "refused"
    try:
        with open(__file__ + ".written", "w") as file:
            file.write("x")
        writing = "open"
    except OSError:
        writing = "refused"
    kind = " ".join(picture.split(b"\\n")[0].decode("latin-1").split()) if picture[:2] == b"P5" else "a photo"
    print(f"The pelican sleeps: {{kind}}, {{asked[3]}}, network {{network}}, writing {{writing}}.\\n\\f", end="")
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tesseract that is found first."""
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "tesseract").write_text(PROGRAM)
    (folder / "tesseract").chmod(0o700)
    monkeypatch.setenv("PATH", str(folder))
    return folder / "tesseract"


@pytest.fixture
def found(program: Path) -> Tesseract:
    tesseract = find_tesseract()
    assert tesseract is not None
    return tesseract


@pytest.fixture
def read(found: Tesseract) -> Iterator[object]:
    pool = Pool(1, Limits(), (), found)
    yield lambda path: pool.read(path, path.suffix.lstrip("."))
    pool.close()


def test_what_is_installed_is_found(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tesseract = find_tesseract()
    assert tesseract == Tesseract(str(program), "tesseract 9.1", "deu+eng", ("deu", "eng", "osd"))
    named = find_tesseract("eng, deu")
    assert named is not None
    assert named.languages == "eng+deu"
    with pytest.raises(SettingsError, match="'fra', which the installed tesseract has no data for"):
        find_tesseract("fra")
    monkeypatch.setenv("PATH", "")
    assert find_tesseract() is None


def test_only_pages_without_text_are_read_and_the_program_is_confined(tmp_path: Path, read) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "mixed.pdf").write_bytes(office.pdf("The heron moors at noon.", "", "The tern rests."))
    outcome: Outcome = read(tmp_path / "mixed.pdf")
    (document,) = outcome.documents
    heron, pelican, tern = document.text.split("\n\n")
    assert (heron, tern) == ("The heron moors at noon.", "The tern rests.")
    refused = "refused" if sys.platform == "linux" else "open"
    size = "P5 2550 3301 255"  # 612 × 792 points at 300 dots an inch, rounded up
    assert pelican == f"The pelican sleeps: {size}, deu+eng, network {refused}, writing refused."
    assert [page.name for page in document.pages] == ["page 1", "page 2", "page 3"]
    assert document.note == "by OCR: 1 of 3 pages"


def test_a_page_that_cannot_be_drawn_costs_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def draw(page: object) -> bytes:
        drawn.append(1)
        if len(drawn) == 2:
            raise RuntimeError("a torn page")
        return b"picture"

    monkeypatch.setattr(ocr, "_drawn", draw)
    monkeypatch.setattr(ocr, "_asker", lambda picture: ("The pelican sleeps.", ""))
    monkeypatch.setattr(ocr, "MOST_PAGES", 3)
    pages, told = ocr.pages_filled(office.pdf("", "", "", "", ""), [])
    assert [bool(page) for page in pages] == [True, False, True, False, False]
    assert told == "by OCR: 2 of 5 pages; only 3 of 5 pages without text were looked at; page 2: a torn page"


def test_pictures_of_their_own_and_in_mails(tmp_path: Path, read) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "mail.eml").write_bytes(
        office.eml({"photo.jpeg": b"\xff\xd8\xff", "drawing.heic": b"x", "bad.png": b"broken"})
    )
    outcome: Outcome = read(tmp_path / "mail.eml")
    photo = outcome.documents[1]
    assert (photo.member, photo.format, photo.note) == ("photo.jpeg", "jpg", "by OCR")
    assert photo.text.startswith("The pelican sleeps: a photo, deu+eng")
    assert [(part.member, part.kind, part.reason) for part in outcome.left_out] == [
        ("drawing.heic", "needs OCR", "a picture of a kind that OCR does not read"),
        ("bad.png", "needs OCR", "a picture that OCR could not read: tesseract failed (exit code 1)"),
    ]


def test_a_page_that_takes_too_long_is_given_up(found: Tesseract) -> None:
    assert found.read(b"slow", 2**31, 1) == ("", "tesseract was ended after 1 s")
    assert not found.running


def test_the_ledger_tells_what_ocr_read_and_switching_it_takes_effect(tmp_path: Path, program: Path) -> None:
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "scan.pdf").write_bytes(office.pdf("", ""))
    (documents / "photo.png").write_bytes(b"\x89PNG")
    (documents / "note.txt").write_bytes(b"The tern rests on the pier.")
    project = ProjectFolder.create(tmp_path / "project", {"corpus": {"paths": [str(documents)]}})

    def ledger(*, ocr: bool) -> dict[str, LedgerRow]:
        project.change_settings({"corpus.ocr": ocr})
        ingest_here(project.path)
        store = project.store()
        rows = {row.path: row for row in store.ledger()}
        store.close()
        return rows

    def standing(rows: dict[str, LedgerRow]) -> dict[str, tuple[str, str, str]]:
        return {path: (row.state, row.kind, row.reason) for path, row in rows.items() if path != "note.txt"}

    without = {"scan.pdf": ("quarantined", "needs OCR", "its pages are pictures: without OCR they hold no text")}
    read = {"scan.pdf": ("read", "OCR", "by OCR: 2 of 2 pages"), "photo.png": ("read", "OCR", "by OCR")}
    assert standing(ledger(ocr=False)) == without
    assert standing(ledger(ocr=True)) == read
    assert ingest_here(project.path)[0]["files_read"] == 0
    whole = program.read_text()
    program.write_text("#!/bin/false\n")  # it is gone: what it read stays
    assert standing(ledger(ocr=True)) == read
    (documents / "later.pdf").write_bytes(office.pdf(""))
    assert standing(ledger(ocr=True)) == {**read, "later.pdf": without["scan.pdf"]}
    program.write_text(whole)  # it is back: what has come meanwhile is read as well
    assert standing(ledger(ocr=True)) == {**read, "later.pdf": ("read", "OCR", "by OCR: 1 of 1 page")}
    (documents / "later.pdf").unlink()
    program.write_text("#!/bin/false\n")
    assert standing(ledger(ocr=True)) == read
    (finding,) = (finding for finding in examine(project) if finding.topic == "ocr")
    assert (finding.state, finding.found) == ("problem", "no tesseract was found")
    assert standing(ledger(ocr=False)) == without
