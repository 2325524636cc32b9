"""A document at the place that was found, however long it is."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fixtures.app import drive, text_of, until
from fixtures.search_step import shown
from fixtures.shown_numbers import numbers
from textual.pilot import Pilot

from bmembed_tui.open_file import OpenResult, open_file
from bmembed_tui.steps.search.document_view import DocumentView
from bmembed_tui.steps.search.hit_text import open_hit
from bmembed_tui.steps.search.preview import PreviewScreen
from bmembed_tui.widgets.change_line import format_error
from engine.core.errors import EngineError, UsageError
from engine.core.messages.search import DocumentText, Hit, ReadDocument
from engine.core.messages.wire import from_json

SENTENCE = "The pump has a seal. "


def hit_at(
    start: int,
    end: int,
    title: str = "A [bold]title",
) -> Hit:
    return from_json(
        Hit,
        {
            "rank": 1,
            "score": 1.0,
            "path": "deep/in/[@click=app.quit]a.txt",
            "source": "/nowhere",
            "title": title,
            "headings": [],
            "snippet": "seal",
            "marks": [[0, 4]],
            "format": "txt",
            "modified": 0.0,
            "chunk_id": 1,
            "document_id": 5,
            "start": start,
            "end": end,
            "line": 3,
            "page": 2,
            "rankers": {},
            "shares": {},
        },
    )


async def opened(
    pilot: Pilot[Any], text: str | EngineError, hit: Hit, terms: tuple[str, ...]
) -> PreviewScreen:
    async def ask(request: Any) -> Any:
        assert request == ReadDocument(5)
        if isinstance(text, EngineError):
            raise text
        return DocumentText(
            hit.path,
            hit.source,
            hit.title,
            text,
            "txt",
        )

    screen = PreviewScreen(ask, hit, terms)
    await pilot.app.push_screen(screen)
    return screen


def test_millions_of_characters_open_at_the_place() -> None:
    head = SENTENCE * 100_000 + "\n\n"
    chunk = "Here stands the \x1b[31mhit with a seal\u202e in it.\n"
    text = head + chunk + ("x" * 3_000_000) + "\nthe last line"

    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(
            pilot,
            text,
            hit_at(len(head), len(head) + len(chunk)),
            ("seal",),
        )
        view = screen.query_one(DocumentView)
        await until(
            pilot,
            lambda: view.ready and 50_000 in numbers(text_of(pilot, "#preview-place")),
            "the text",
        )
        assert view.rows > 60_000
        line = "\n ▌ Here stands the ␛[31mhit with a seal\ufffd in it."
        await until(
            pilot,
            lambda: line in shown(pilot),
            "the place",
        )
        assert "50,000+" in text_of(pilot, "#preview-place")
        await pilot.press("end")
        await until(
            pilot,
            lambda: "the last line" in shown(pilot),
            "the end",
        )
        await pilot.press("h")
        await until(
            pilot,
            lambda: "Here stands the" in shown(pilot),
            "the hit",
        )
        await pilot.resize_terminal(60, 20)
        await until(
            pilot, lambda: view.ready and "Here stands the" in shown(pilot), "the same place"
        )

    drive(story, size=(80, 24))


def test_matches_are_gone_through_in_a_ring() -> None:
    text = "one seal\n" + "\n" * 100 + "two seals and a SEAL\n" + "\n" * 100 + "end"

    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(
            pilot,
            text,
            hit_at(0, 9),
            ("seals", "seal"),
        )
        view = screen.query_one(DocumentView)
        await until(
            pilot, lambda: numbers(text_of(pilot, "#preview-place"))[-2:] == [1, 3], "the matches"
        )
        assert "one seal" in shown(pilot)
        await pilot.press("n")
        assert view.match == 1
        assert "two seals" in shown(pilot)
        await pilot.press("n", "n")
        assert view.match == 0
        await pilot.press("N")
        assert view.match == 2
        assert numbers(text_of(pilot, "#preview-place"))[-2:] == [3, 3]
        await pilot.press("c")
        assert pilot.app.clipboard == "one seal\n"
        await pilot.press("y")
        assert pilot.app.clipboard == str(Path("/nowhere/deep/in/[@click=app.quit]a.txt"))
        await pilot.press("q")
        assert not isinstance(pilot.app.screen, PreviewScreen)

    drive(story, size=(80, 24))


@pytest.mark.parametrize("text", ["", "\n", "word"])
def test_short_documents(text: str) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        await opened(
            pilot,
            text,
            hit_at(0, len(text)),
            (),
        )
        await until(
            pilot,
            lambda: "A [bold]title" in shown(pilot),
            "the title",
        )
        await pilot.press(
            "n",
            "N",
            "h",
            "end",
        )
        assert "A [bold]title" in shown(pilot)
        assert "[@click=app.quit]a.txt" in shown(pilot)

    drive(story, size=(80, 24))


def test_a_document_that_is_gone_is_an_error_in_place() -> None:
    async def story(pilot: Pilot[Any]) -> None:
        error = UsageError(
            "Gone.",
            "Deleted.",
            "Search again.",
            code="document-missing",
        )
        await opened(
            pilot,
            error,
            hit_at(0, 1),
            (),
        )
        await until(
            pilot, lambda: text_of(pilot, "#preview-note") == format_error(error).plain, "the error"
        )
        assert pilot.app.screen.query_one("#preview-note").display

    drive(story, size=(80, 24))


def test_without_a_display_the_path_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "a.txt"
    gone = open_file(file).problem
    file.write_text("text")
    without_display = open_file(file).problem
    assert str(file) in gone
    assert str(file) in without_display
    assert gone != without_display


@pytest.mark.posix(reason="xdg-open comes with Linux")
@pytest.mark.skipif(sys.platform != "linux", reason="xdg-open and its viewers")
@pytest.mark.parametrize(
    ("viewer", "program", "arguments"),
    [
        ("org.gnome.Evince.desktop", "evince", ["--page-index=3", "{file}"]),
        ("org.kde.okular.desktop", "okular", ["--page=3", "{file}"]),
        ("org.pwmt.zathura-pdf-mupdf.desktop", "zathura", ["--page=3", "{file}"]),
        ("qpdfview.desktop", "qpdfview", ["{file}#3"]),
        ("firefox-esr.desktop", "firefox", ["file://{quoted}#page=3"]),
        ("mupdf.desktop", "xdg-open", ["{file}"]),  # one that is not known to take a page
        ("org.gnome.Evince.desktop", "xdg-open", ["{file}"]),  # one that is not there
    ],
)
def test_a_pdf_opens_at_its_page_where_the_viewer_can(
    viewer: str, program: str, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    called = tmp_path / "called"
    programs.mkdir()
    for name in {program, "xdg-open"}:
        (programs / name).write_text(
            f'#!/bin/sh\nprintf "%s\\n" {name} "$@" > {called}.new; {shutil.which("mv")}'
            f" {called}.new {called}\n"
        )
    (programs / "xdg-mime").write_text(
        f'#!/bin/sh\n[ "$*" = "query default application/pdf" ] && echo {viewer}\n'
    )
    for made in programs.iterdir():
        made.chmod(0o700)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("DISPLAY", ":0")
    file = tmp_path / "a plan.pdf"
    file.write_bytes(b"%PDF-1.4")
    assert open_file(file, 3) == OpenResult("", program != "xdg-open")
    end = time.monotonic() + 30
    while not called.exists() and time.monotonic() < end:
        time.sleep(0.02)
    quoted = str(file).replace(" ", "%20")
    assert called.read_text().splitlines() == [
        program,
        *(part.format(file=file, quoted=quoted) for part in arguments),
    ]


@pytest.mark.parametrize(
    ("page", "at_page", "shown_page"),
    [(3, True, []), (3, False, [3]), (None, False, [])],
)
def test_where_the_viewer_gets_no_page_the_user_reads_it(
    page: int | None, at_page: bool, shown_page: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "bmembed_tui.steps.search.hit_text.open_file", lambda *_: OpenResult("", at_page)
    )
    notice = asyncio.run(open_hit(replace(hit_at(0, 5), page=page)))
    assert (numbers(notice), hit_at(0, 5).path in notice) == (shown_page, True)


def test_the_last_wish_counts_while_the_rows_are_on_their_way() -> None:
    text = SENTENCE * 40_000

    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(
            pilot,
            text,
            hit_at(0, 50),
            (),
        )
        view = screen.query_one(DocumentView)
        await until(
            pilot,
            lambda: view.ready,
            "the text",
        )
        view.lay_out(len(text) // 2, 0)  # as a resize does
        view.go_to(10_000, 0)
        await until(
            pilot,
            lambda: view.ready,
            "the place",
        )
        assert view.top_offset <= 10_000 < view.top_offset + 80

    drive(story, size=(80, 24))
