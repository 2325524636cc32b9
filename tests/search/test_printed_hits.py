"""Hits as `engine search` prints them."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fixtures.found import build_hit
from fixtures.records import build_chunk, build_document, store_document
from rich.console import Console
from typer.testing import CliRunner

from engine.cli.app import app
from engine.cli.console import output, show_found
from engine.cli.run_view import RunView
from engine.core.disk import write_text
from engine.core.errors import UsageError
from engine.core.events import Progress
from engine.core.messages.search import Found, Hit, Ranked, Reranked
from engine.project.folder import ProjectFolder

HIT = build_hit(
    path="a/lease.md",
    source="/data/left/docs",
    title="Lease",
    headings=("Rent",),
    snippet="The tenant pays.",
    marks=((4, 10),),
    start=40,
    end=56,
    line=7,
    rankers={"semantic": Ranked(2, 0.5), "bm25": Ranked(1, 3.0)},
)


def print_hits(
    *hits: Hit,
    sources: tuple[str, ...] = (),
    **options: Any,
) -> str:
    printed = io.StringIO()
    console = Console(
        file=printed,
        highlight=False,
        soft_wrap=True,
        **options,
    )
    show_found(
        Found("tenant", "hybrid", hits),
        console,
        sources,
    )
    return printed.getvalue()


def test_a_hit_in_plain_text() -> None:
    assert (
        print_hits(HIT)
        == "1. a/lease.md:7  Lease › Rent  [keywords #1, semantic #2]\n   The tenant pays.\n"
    )
    assert print_hits(replace(HIT, page=3)).startswith("1. a/lease.md, page 3  Lease")
    word = replace(
        HIT,
        format="docx",
        author="Ada Quay",
        created=0.0,
        changed=1.9e9,
    )
    assert print_hits(word).startswith("1. a/lease.md  Lease › Rent  Ada Quay  2030-03-1")
    assert print_hits(replace(HIT, created=1e300)).startswith(
        "1. a/lease.md:7  Lease › Rent  [keywords"
    )


@pytest.mark.parametrize("no_color", ["", "1"])
def test_marks_are_coloured_and_nothing_is_with_no_color(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], no_color: str
) -> None:
    for name, value in {"NO_COLOR": no_color, "FORCE_COLOR": "1", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(
        sys.stderr,
        "isatty",
        lambda: True,
    )
    found = Found(
        "tenant",
        "hybrid",
        (HIT,),
        notes=("A note.",),
    )
    show_found(found, output())
    with RunView() as view:
        view(Progress(stage="index", done=1, total=2, unit="chunks"))
    written = capsys.readouterr()
    assert "tenant" in written.out
    assert ["\x1b" in text for text in (written.out, written.err)] == [not no_color] * 2


def test_several_sources_are_named() -> None:
    other = replace(
        HIT,
        source="/data/mail",
        rank=2,
    )
    lines = print_hits(HIT, other).splitlines()
    assert lines[0].startswith(f"1. {Path('docs/a/lease.md')}:7")
    assert lines[2].startswith(f"2. {Path('mail/a/lease.md')}:7")


def test_one_of_several_sources_is_named_though_the_others_have_no_hit() -> None:
    several = print_hits(HIT, sources=("/data/left/docs", "/data/mail"))
    assert several.startswith(f"1. {Path('docs/a/lease.md')}:7")
    assert print_hits(HIT, sources=("/data/left/docs",)).startswith("1. a/lease.md:7")


def test_the_root_folder_as_a_source() -> None:
    hit = replace(HIT, source="/")
    assert print_hits(hit, sources=("/", "/data")).startswith(f"1. {Path('/a/lease.md')}:7")


def test_a_folders_name_cannot_steer_the_terminal() -> None:
    printed = print_hits(replace(HIT, source="/data/\x1b[2J"), HIT)
    assert "\x1b" not in printed
    assert f"1. {Path('�[2J/a/lease.md')}" in printed


@pytest.fixture
def twice(
    project: ProjectFolder,
    corpus: Any,
    tmp_path: Path,
) -> list[Path]:
    """One file name in two folders of one name."""
    sources = [tmp_path / "left" / "docs", tmp_path / "right" / "docs"]
    paths = ", ".join(f"'{source}'" for source in sources)
    for source in sources:
        source.mkdir(parents=True)
    write_text(project.path / "project.toml", f"[corpus]\npaths = [{paths}]")
    store = project.store()
    for source in sources:
        document = build_document(
            "same.md",
            "\n\nWombats dig.",
            title="Same",
            source=str(source),
        )
        chunk = build_chunk(
            "Wombats dig.",
            start=2,
            content_hash=str(source),
        )
        store_document(store, document, [chunk])
    store.close()
    corpus.index(vectors=False)
    return sources


def test_the_command_distinguishes_two_files_of_one_name(
    project: ProjectFolder, twice: list[Path]
) -> None:
    done = CliRunner().invoke(app, ["search", str(project.path), "wombats", "--mode", "bm25"])
    assert done.exit_code == 0, done.output
    assert f"1. {Path('left/docs/same.md')}:3  Same  [keywords #1]" in done.stdout
    assert f"2. {Path('right/docs/same.md')}:3  Same  [keywords #2]" in done.stdout
    done = CliRunner().invoke(app, ["search", str(project.path), "!!!"])
    assert isinstance(done.exception, UsageError)
    assert (done.exception.code, done.stdout) == ("query-empty", "")


def test_it_says_how_many_passages_were_reranked(capsys: pytest.CaptureFixture[str]) -> None:
    show_found(Found("tenant", "hybrid", (HIT,), reranked=Reranked(34, 0.92)), output())
    written = capsys.readouterr()
    assert "34" in written.err
    assert "0.9 s" in written.err
    assert "34" not in written.out
