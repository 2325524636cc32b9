"""OCR with a program in tesseract's place: what it is asked, what it may not do, and what the
ledger says.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from fixtures import office
from fixtures.errors import fails
from fixtures.pipeline import ingest_here
from fixtures.project_files import create_project
from fixtures.shown_numbers import numbers

from engine.core.errors import SettingsError
from engine.core.messages.documents import FileOutcome
from engine.core.platforms import SYSTEM
from engine.corpus.formats import pictures
from engine.corpus.formats.pdf.pdfium import open_pdf
from engine.corpus.ingest import ingest
from engine.corpus.sandbox import tesseract
from engine.corpus.sandbox.outcome import Limits, Outcome
from engine.corpus.sandbox.pool import Pool
from engine.corpus.sandbox.tesseract import Tesseract, find_tesseract
from engine.doctor.doctor import examine

PROGRAM = f"""#!{sys.executable}
import signal, socket, sys, time
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
    if picture == b"killed":
        signal.raise_signal(signal.SIGTERM)
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
"""  # noqa: E501


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tesseract that is found first."""
    if SYSTEM == "windows":
        pytest.skip("not there: a script is no program, and a .cmd file takes two processes")
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "tesseract").write_text(PROGRAM)
    (folder / "tesseract").chmod(0o700)
    monkeypatch.setenv("PATH", str(folder))
    return folder / "tesseract"


@pytest.fixture
def found(program: Path) -> Tesseract:
    installed = find_tesseract()
    assert installed is not None
    return installed


def test_the_setting_reaches_the_reading_process(tmp_path: Path, found: Tesseract) -> None:
    pool = Pool(
        1,
        Limits(ocr_seconds=0),
        (),
        found,
    )
    (tmp_path / "mixed.pdf").write_bytes(office.pdf("The heron moors at noon.", "", ""))
    outcome = pool.read(tmp_path / "mixed.pdf", "pdf")
    pool.close()
    (document,) = outcome.documents
    assert [(part.member, part.kind, numbers(part.reason)) for part in outcome.left_out] == [
        ("pages 2-3", "needs OCR", [2, 3, 0])
    ]
    assert document.text == "The heron moors at noon."
    assert numbers(document.note) == [2, 2, 0]


@pytest.fixture
def read(found: Tesseract) -> Iterator[object]:
    pool = Pool(
        1,
        Limits(),
        (),
        found,
    )
    yield lambda path: pool.read(path, path.suffix.lstrip("."))
    pool.close()


def test_what_is_installed_is_found(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_tesseract() == Tesseract(str(program), "tesseract 9.1", "deu+eng")
    named = find_tesseract("eng, deu")
    assert named is not None
    assert named.languages == "eng+deu"
    with fails(SettingsError, "ocr-language-missing", "'fra'"):
        find_tesseract("fra")
    monkeypatch.setenv("PATH", "")
    assert find_tesseract() is None


def test_only_pages_without_text_are_read_and_the_program_is_confined(tmp_path: Path, read) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "mixed.pdf").write_bytes(
        office.pdf("The heron moors at noon.", "", "The tern rests.")
    )
    outcome: Outcome = read(tmp_path / "mixed.pdf")
    (document,) = outcome.documents
    heron, pelican, tern = document.text.split("\n\n")
    assert (heron, tern) == ("The heron moors at noon.", "The tern rests.")
    refused = "refused" if sys.platform == "linux" else "open"
    size = "P5 2550 3301 255"  # 612 × 792 points at 300 dots an inch, rounded up
    assert pelican == f"The pelican sleeps: {size}, deu+eng, network {refused}, writing refused."
    assert [page.name for page in document.pages] == ["page 1", "page 2", "page 3"]
    assert numbers(document.note) == [1, 3]


def test_a_scan_with_a_stamp_is_read_and_keeps_its_stamp(tmp_path: Path, read) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "stamped.pdf").write_bytes(
        office.pdf("The heron moors at noon.", "", stamp="Received 12 May")
    )
    outcome: Outcome = read(tmp_path / "stamped.pdf")
    (document,) = outcome.documents
    assert "Received 12 May\nThe pelican sleeps" in document.text
    assert (numbers(document.note), outcome.left_out) == ([1, 2], [])


def test_scans_between_pages_of_text_are_read_when_ocr_is_switched_on(
    tmp_path: Path, program: Path
) -> None:
    project = create_project(tmp_path, {"mixed.pdf": office.pdf("The heron moors at noon.", "")})
    standings = []
    for ocr_is_on in (False, True, False):
        project.change_settings({"corpus.ocr": ocr_is_on})
        ingest_here(project.path)
        store = project.store()
        standings.append([(row.path, row.state, row.kind) for row in store.ledger()])
        store.close()
    unread = [("mixed.pdf", "read", ""), ("mixed.pdf/page 2", "quarantined", "needs OCR")]
    assert standings == [unread, [("mixed.pdf", "read", "OCR")], unread]


def test_what_ocr_had_no_time_for_is_listed_and_read_when_it_gets_more(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.service.documents import retry_matching

    mixed = office.pdf("The heron moors at noon.", "")
    project = create_project(
        tmp_path,
        {"mixed.pdf": mixed},
        corpus={"ocr": True},
    )

    def standing(seconds: int, given: int) -> list[tuple[str, str, str]]:
        project.change_settings({"corpus.ocr_seconds": seconds})
        monkeypatch.setattr(
            ingest, "Limits", lambda ocr_seconds, **limits: Limits(ocr_seconds=given, **limits)
        )
        ingest_here(project.path)
        with closing(project.store()) as store:
            return [(row.path, row.state, row.kind) for row in store.ledger()]

    unread = [("mixed.pdf", "read", "OCR"), ("mixed.pdf/page 2", "quarantined", "needs OCR")]
    assert standing(100, 0) == unread
    assert standing(90, 90) == unread
    assert standing(110, 0) == unread
    assert standing(120, 120) == [("mixed.pdf", "read", "OCR")]
    assert retry_matching(project) == 0


def test_a_page_that_cannot_be_drawn_costs_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def draw(page: object) -> bytes:
        drawn.append(1)
        if len(drawn) == 2:
            raise RuntimeError("a torn page")
        return b"picture"

    monkeypatch.setattr(pictures, "draw_page", draw)
    pictures.use_recogniser(lambda picture: ("The pelican sleeps.", ""))
    try:
        pages, reported, unread = pictures.recognise_pages(
            open_pdf(office.pdf(*[""] * 5)), range(1, 6)
        )
    finally:
        pictures.use_recogniser(None)
    assert [number for number, text in pages.items() if text] == [1, 3, 4, 5]
    assert unread == {2: "a torn page"}
    assert numbers(reported) == [4, 5, 2]


def test_ocr_of_a_file_ends_when_its_time_is_over_and_what_was_read_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three pages at 10 s each, 25 s allowed: the third is begun in time, the fourth and fifth
    are not.
    """
    clock = [0.0]

    def recognise(picture: bytes) -> tuple[str, str]:
        clock[0] += 10
        return "The pelican sleeps.", ""

    monkeypatch.setattr(
        pictures.time,
        "monotonic",
        lambda: clock[0],
    )
    monkeypatch.setattr(
        pictures,
        "draw_page",
        lambda page: b"picture",
    )
    pictures.use_recogniser(recognise, 25)
    try:
        pages, reported, unread = pictures.recognise_pages(
            open_pdf(office.pdf(*[""] * 5)), range(1, 6)
        )
        text, problem = pictures.recognise_text(b"another")
        assert (text, numbers(problem), "corpus.ocr_seconds" in problem) == ("", [25], True)
    finally:
        pictures.use_recogniser(None)
    assert [number for number, text in pages.items() if text] == [1, 2, 3]
    assert list(unread) == [4, 5]
    assert numbers(reported) == [3, 5, 2, 5, 25]


def test_pictures_of_their_own_and_in_mails(tmp_path: Path, read) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "mail.eml").write_bytes(
        office.eml({"photo.jpeg": b"\xff\xd8\xff", "drawing.heic": b"x", "bad.png": b"broken"})
    )
    outcome: Outcome = read(tmp_path / "mail.eml")
    photo = outcome.documents[1]
    assert (photo.member, photo.format, bool(photo.note)) == ("photo.jpeg", "jpg", True)
    assert photo.text.startswith("The pelican sleeps: a photo, deu+eng")
    assert [(part.member, part.kind, numbers(part.reason)) for part in outcome.left_out] == [
        ("drawing.heic", "needs OCR", []),
        ("bad.png", "needs OCR", [1]),
    ]


def test_a_page_that_takes_too_long_is_given_up(found: Tesseract) -> None:
    text, problem = found.read(
        b"slow",
        2**31,
        1,
    )
    assert (text, numbers(problem)) == ("", [1])
    assert not found.running


def test_a_signal_from_outside_is_not_taken_for_its_own_limit(found: Tesseract) -> None:
    text, problem = found.read(
        b"killed",
        2**31,
        60,
    )
    assert (text, "SIGTERM" in problem, numbers(problem)) == ("", True, [])


def test_pages_read_by_ocr_are_recorded_and_switching_it_takes_effect(
    tmp_path: Path, program: Path
) -> None:
    files = {
        "scan.pdf": office.pdf("", ""),
        "photo.png": b"\x89PNG",
        "note.txt": b"The tern rests on the pier.",
    }
    project = create_project(tmp_path, files)
    documents = tmp_path / "documents"

    def ledger(*, ocr: bool) -> dict[str, FileOutcome]:
        project.change_settings({"corpus.ocr": ocr})
        ingest_here(project.path)
        store = project.store()
        rows = {row.path: row for row in store.ledger()}
        store.close()
        return rows

    def standing(rows: dict[str, FileOutcome]) -> dict[str, tuple[str, str, list[float]]]:
        return {
            path: (row.state, row.kind, numbers(row.reason))
            for path, row in rows.items()
            if path != "note.txt"
        }

    without = {
        "scan.pdf": ("quarantined", "needs OCR", []),
        "photo.png": ("skipped", "needs OCR", []),
    }
    read = {"scan.pdf": ("read", "OCR", [2, 2]), "photo.png": ("read", "OCR", [])}
    assert standing(ledger(ocr=False)) == without
    assert standing(ledger(ocr=True)) == read
    assert ingest_here(project.path)[0]["files_read"] == 0
    whole = program.read_text()
    program.write_text("#!/bin/false\n")  # it is gone: what it read stays
    assert standing(ledger(ocr=True)) == read
    (documents / "later.pdf").write_bytes(office.pdf(""))
    assert standing(ledger(ocr=True)) == {**read, "later.pdf": without["scan.pdf"]}
    program.write_text(whole)  # it is back: what has come meanwhile is read as well
    assert standing(ledger(ocr=True)) == {**read, "later.pdf": ("read", "OCR", [1, 1])}
    (documents / "later.pdf").unlink()
    program.write_text("#!/bin/false\n")
    assert standing(ledger(ocr=True)) == read
    (finding,) = (finding for finding in examine(project) if finding.topic == "ocr")
    assert finding.state == "problem"
    assert standing(ledger(ocr=False)) == without


def test_a_program_that_cannot_be_limited_reads_nothing(
    found: Tesseract, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows' way: the program and the one that starts it (Chocolatey, Scoop) are in a job."""
    bounds: list[tuple[int, int]] = []

    class Job(tesseract.Job):
        def __init__(self, memory: int, processes: int = 1) -> None:
            bounds.append((memory, processes))
            super().__init__(memory, processes)

    def refuse(*_: object, **__: object) -> None:
        raise OSError("not limited")

    monkeypatch.setattr(tesseract, "Job", Job)
    monkeypatch.setattr(tesseract, "start_in_job", refuse)
    text, problem = found.read(
        b"P5",
        2**31,
        60,
    )
    assert (text, bool(problem)) == ("", True)
    assert bounds == [(2**31, 2)]
    assert not found.running
