"""Step Documents: what can be read, patterns, folders, reading, what was left out."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fixtures.app import drive, screen_text, text_of, until, until_screen, until_text
from fixtures.pipeline import engine_here
from fixtures.shown_numbers import numbers
from fixtures.tiny_model import encoder_settings
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input
from textual.widgets.tree import TreeNode

from bmembed_tui.client.run_state import RunState
from bmembed_tui.dialogs.confirmations import ErrorDialog
from bmembed_tui.dialogs.folder_picker import FolderPicker
from bmembed_tui.project.screen import ProjectScreen
from bmembed_tui.steps.documents.pane import DocumentsPane
from bmembed_tui.steps.documents.text import build_skipped_rows, format_status
from bmembed_tui.widgets import folder_tree
from bmembed_tui.widgets.change_line import ChangeLine, format_error
from bmembed_tui.widgets.fields import join_patterns, split_patterns
from bmembed_tui.widgets.folder_tree import Entry, list_entries
from bmembed_tui.widgets.safe import SafeTable
from engine.core.messages.documents import LeftOut, Scanned, Unread, UnreadFiles
from engine.core.messages.project import ProjectStatus, StageState
from engine.core.text import size_text
from engine.project.folder import ProjectFolder

pytestmark = pytest.mark.usefixtures("own_folders")


def _project(tmp_path: Path, *folders: Path) -> Path:
    return ProjectFolder.create(
        tmp_path / "project", {"corpus": {"paths": [str(folder) for folder in folders]}}
    ).path


async def _at_documents(pilot: Pilot[Any]) -> DocumentsPane:
    app = pilot.app
    await until(
        pilot,
        lambda: isinstance(app.screen, ProjectScreen) and app.screen.pane is not None,
        "the project",
    )
    assert isinstance(app.screen, ProjectScreen)
    app.screen.go("documents")
    await until(
        pilot,
        lambda: _pane(pilot).scanned is not None,
        "the files to be counted",
    )
    await pilot.pause()
    return _pane(pilot)


def _pane(pilot: Pilot[Any]) -> DocumentsPane:
    pane: DocumentsPane = pilot.app.screen_stack[1].query_one(DocumentsPane)
    return pane


async def until_files(pilot: Pilot[Any], count: int) -> None:
    """Wait until so many files are counted: the last row has the sums."""
    table = _pane(pilot).query_one("#formats", SafeTable)
    await until(
        pilot,
        lambda: table.row_count and str(table.get_row_at(table.row_count - 1)[1]) == f"{count:,}",
        f"{count} files",
    )


def _labels(pane: DocumentsPane) -> list[str]:
    tree = pane.query_one("#sources", folder_tree.FolderTree)

    def lines(node: TreeNode[Any]) -> Iterator[str]:
        for child in node.children:
            yield str(child.label)
            if child.is_expanded:
                yield from lines(child)

    return list(lines(tree.root))


@pytest.mark.processes
def test_enter_reads_the_documents_and_enter_goes_on(new_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        pane = await _at_documents(pilot)
        await until_files(pilot, 24)
        await pilot.press("enter")
        await until(
            pilot,
            lambda: pilot.app.screen.is_at("search"),
            "the search",
        )
        await pilot.press("a", "x")  # which have a meaning outside the list
        await until(
            pilot, lambda: pilot.app.screen.pane.question.query == "ax", "what is typed meanwhile"
        )
        pilot.app.screen.action_go("documents")
        await until(
            pilot,
            lambda: pane.is_read() and not pane.is_reading(),
            "its end",
        )
        await until(
            pilot, lambda: numbers(text_of(pilot, "#documents-status"))[:1] == [24], "the documents"
        )
        shown = screen_text(pilot.app)  # type: ignore[arg-type]
        assert all(
            str(pane.query_one(f"#{name}").label) in shown for name in ("again", "add", "remove")
        )
        assert not pane.query_one("#skipped-part").display
        await pilot.press("enter")
        await until(
            pilot,
            lambda: pilot.app.screen.is_at("model"),
            "the next step",
        )
        assert pane.host.status.done("ingest", "index")

    drive(
        story,
        new_project,
        (80, 24),
    )


@pytest.mark.posix(reason="names hold no control characters on Windows")
def test_formats_are_counted_with_their_sums_and_names_are_shown_as_typed(tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    for name, size in (
        ("a.txt", 10),
        ("b.txt", 20),
        ("[@click=app.quit]x[.md", 1500),
        ("esc\x1b[2J\u202e.pic", 7),
    ):
        (folder / name).write_text("x" * size)

    async def story(pilot: Pilot[Any]) -> tuple[list[list[str]], list[str]]:
        pane = await _at_documents(pilot)
        table = pane.query_one("#formats")
        await until(
            pilot,
            lambda: numbers(text_of(pilot, "#skipped-title")) == [1],
            "the file that is left out",
        )
        await until(
            pilot,
            lambda: len(_labels(pane)) == 5,
            "the tree",
        )
        return [
            [str(cell) for cell in table.get_row_at(row)] for row in range(table.row_count)
        ], _labels(pane)[1:]

    rows, names = drive(story, _project(tmp_path, folder))
    assert names == [
        "[@click=app.quit]x[.md  1.5 kB",
        "a.txt  10 B",
        "b.txt  20 B",
        "esc␛[2J\ufffd.pic  7 B",
    ]
    assert rows[0] == ["Markdown", "1", "1.5 kB"]
    assert [row[1:] for row in rows[1:]] == [["2", "30 B"], ["3", "1.5 kB"]]


def test_patterns_are_counted_while_typing_and_written_by_enter(new_project: Path) -> None:
    before = (new_project / "project.toml").read_text()

    async def story(pilot: Pilot[Any]) -> None:
        pane = await _at_documents(pilot)
        field = pane.query_one("#exclude")
        field.focus()
        await pilot.press(*"policies", "slash")
        await until_files(pilot, 12)
        assert (new_project / "project.toml").read_text() == before
        await pilot.press("escape")
        await until_files(pilot, 24)
        assert (field.value, field.has_focus) == ("", True)
        await pilot.press(
            *"policies",
            "slash",
            "comma",
            *"mail",
            "enter",
        )
        await until(
            pilot,
            lambda: (new_project / "project.toml").read_text() != before,
            "the change to be written",
        )
        await until(
            pilot,
            lambda: not field.is_changed,
            "the change to be kept",
        )
        kept = (new_project / "project.toml").read_text()
        field.focus()
        await pilot.press("comma", "exclamation_mark")
        await until(
            pilot,
            lambda: text_of(pilot, "#patterns-note").startswith("✗"),
            "the error",
        )
        await pilot.press("enter")
        assert (await until_screen(pilot, ErrorDialog)).error.code == "pattern-invalid"
        await pilot.press("escape")
        assert (new_project / "project.toml").read_text() == kept
        field.value = ""
        field.post_message(events.Paste("drafts/\n\n*.tmp\r\nold\x1b[2J\n"))
        await until(
            pilot,
            lambda: field.patterns == ["drafts/", "*.tmp", "old␛[2J"],
            "the pasted lines as patterns",
        )

    drive(
        story,
        new_project,
        (160, 40),
        step="documents",
    )
    assert ProjectFolder(new_project).settings().corpus.exclude == ["policies/", "mail"]


def test_patterns_are_parted_and_put_together_again() -> None:
    assert split_patterns(" a/, *.md ,,b c ") == ["a/", "*.md", "b c"]
    assert join_patterns(["a/", "x,y", '"z']) == 'a/, "x,y", """z"'
    assert split_patterns(join_patterns(["a/", "x,y", '"z', 'in"side'])) == [
        "a/",
        "x,y",
        '"z',
        'in"side',
    ]
    assert split_patterns("y" * 200_000 + ",b")[1] == "b"


def test_folders_are_added_and_removed(new_project: Path, tmp_path: Path) -> None:
    more = tmp_path / "more"
    more.mkdir()
    (more / "one.txt").write_text("One more document about cooling.")

    async def story(pilot: Pilot[Any]) -> None:
        pane = await _at_documents(pilot)
        await pilot.press("a")
        picker = await until_screen(pilot, FolderPicker)
        await until(
            pilot,
            lambda: isinstance(picker.focused, Input),
            "the field",
        )
        for char in str(more):
            picker.focused.insert_text_at_cursor(char)  # type: ignore[union-attr]
        await pilot.press("enter")
        await until_files(pilot, 25)
        assert _labels(pane)[0] == "documents"
        assert ProjectFolder(new_project).settings().corpus.paths == ["documents", str(more)]
        await pilot.press("x")
        await until_files(pilot, 1)

    drive(
        story,
        new_project,
        (160, 40),
        step="documents",
    )
    assert ProjectFolder(new_project).settings().corpus.paths == [str(more)]


def test_a_change_that_makes_stages_stale_is_confirmed_before_it_is_written(
    new_project: Path, tmp_path: Path
) -> None:
    engine_here(
        "run",
        str(new_project),
        "--only",
        "ingest,index",
    )
    (more := tmp_path / "more").mkdir()
    project = ProjectFolder(new_project)

    async def story(pilot: Pilot[Any]) -> None:
        pane = await _at_documents(pilot)
        field = pane.query_one("#exclude", Input)
        field.value = "incidents/"
        for changes, keys in (
            (lambda: pane.take_dropped(str(more)), ("tab", "enter")),
            (pane.save, ("tab", "enter")),
            (pane.save, ("enter",)),
        ):
            changes()
            await until(
                pilot,
                lambda: pilot.app.focused and pilot.app.focused.id == "change-apply",
                "the question",
            )
            corpus = project.settings().corpus
            assert (corpus.paths, corpus.exclude) == (["documents"], [])
            await pilot.press(*keys)
            await until(
                pilot,
                lambda: not pane.query_one(ChangeLine).display,
                "the answer",
            )
        await until(pilot, lambda: project.settings().corpus.exclude == ["incidents/"])
        assert project.settings().corpus.paths == ["documents"]
        await until(pilot, lambda: pane.host.status.state("ingest") == "stale")

    drive(
        story,
        new_project,
        (160, 40),
        step="documents",
    )


@pytest.mark.parametrize("files", [{}, {"a.txt": b"\xff\xfe\x00"}])
def test_a_folder_without_text_gives_the_engines_error(
    tmp_path: Path, files: dict[str, bytes]
) -> None:
    folder = tmp_path / "papers"
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)

    async def story(pilot: Pilot[Any]) -> None:
        pane = await _at_documents(pilot)
        await pilot.press("enter")
        dialog = await until_screen(pilot, ErrorDialog)
        assert dialog.error.code == "no-documents"
        await until(
            pilot,
            lambda: not pane.is_reading(),
            "the run's end",
        )
        await until(
            pilot,
            lambda: dialog.check_action("dismiss", ()),
            "the dialog to take keys",
        )
        await pilot.press("escape")
        await until(
            pilot,
            lambda: isinstance(pilot.app.screen, ProjectScreen),
            "the project",
        )
        line = format_error(dialog.error).plain
        await until(
            pilot, lambda: text_of(pilot, "#documents-status") == line, "the error in the pane"
        )
        assert not pane.is_read()

    drive(
        story,
        _project(tmp_path, folder),
        (120, 40),
    )


def test_one_short_document_is_read(tmp_path: Path, tiny_model: Path) -> None:
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "a.txt").write_text("three little words")

    async def story(pilot: Pilot[Any]) -> None:
        pane = await _at_documents(pilot)
        await until(
            pilot,
            lambda: numbers(text_of(pilot, "#documents-status")) == [1, 18],
            "one file of 18 bytes",
        )
        await pilot.press("enter")
        await until(
            pilot, lambda: pane.is_read() and not pane.is_reading(), "the end of the reading"
        )
        await until(
            pilot,
            lambda: numbers(text_of(pilot, "#documents-status")) == [1, 1],
            "a document and a chunk",
        )

    project = _project(tmp_path, folder)
    encoder = encoder_settings(tiny_model)  # which a run also embeds by
    ProjectFolder(project).change_settings({f"encoder.{name}": encoder[name] for name in encoder})
    drive(
        story,
        project,
        (120, 40),
    )


def test_unreadable_files_are_listed_with_the_reason_and_tried_again_by_a_key(
    new_project: Path,
) -> None:
    broken = new_project / "documents" / "[red]broken[@click=app.quit].txt"
    broken.write_bytes(bytes(range(256)) * 20)
    engine_here(
        "run",
        str(new_project),
        "--only",
        "ingest,index",
    )

    async def story(pilot: Pilot[Any]) -> None:
        pane = await _at_documents(pilot)
        await until(
            pilot,
            lambda: numbers(text_of(pilot, "#skipped-title")) == [1],
            "the file that is left out",
        )
        await until(
            pilot,
            lambda: pane.query_one("#retry").display,
            "the button",
        )
        await until_text(pilot, broken.name)
        await until(
            pilot,
            lambda: numbers(text_of(pilot, "#documents-status"))[::2] == [24, 1],
            "documents, and left out",
        )
        broken.write_text("The broken file was mended.")
        await pilot.press("r")
        await until(
            pilot,
            lambda: numbers(text_of(pilot, "#documents-status"))[:1] == [25],
            "the file to be read",
        )
        await until(
            pilot, lambda: not pane.query_one("#skipped-part").display, "the list to be empty"
        )

    drive(
        story,
        new_project,
        (160, 40),
        step="documents",
    )


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
def test_each_file_that_was_left_out_is_shown_with_its_whole_reason(
    new_project: Path, size: tuple[int, int]
) -> None:
    """Paths may be long, and so may reasons: the line under the list has both of the row that
    the cursor is at.
    """
    long = "a folder whose name is long/and one in it/report of the first quarter.txt"
    for path, content in (("binary.txt", bytes(range(256)) * 20), (long, b"")):
        (new_project / "documents" / path).parent.mkdir(parents=True, exist_ok=True)
        (new_project / "documents" / path).write_bytes(content)
    engine_here(
        "run",
        str(new_project),
        "--only",
        "ingest,index",
    )

    with closing(ProjectFolder(new_project).store()) as store:
        reasons = {row.path: row.reason for row in store.ledger("quarantined")}

    def is_shown(pilot: Pilot[Any], path: str) -> bool:
        return f"{path}: {reasons[path]}" in " ".join(screen_text(pilot.app).split())  # type: ignore[arg-type]

    async def story(pilot: Pilot[Any]) -> None:
        pane = await _at_documents(pilot)
        table = pane.query_one("#skipped", SafeTable)
        await until(
            pilot,
            lambda: table.row_count == 2 and table.region.height > 2,
            "the list",
        )
        await until(
            pilot,
            lambda: any("binary.txt" in label for label in _labels(pane)),
            "the tree, which moves the list",
        )
        table.focus()
        await pilot.press("down")
        await until(
            pilot,
            lambda: is_shown(pilot, "binary.txt"),
            "the second reason",
        )
        pane.show_status(pane.host.status)  # which reads and counts them again
        await pane.workers.wait_for_complete()
        assert table.cursor_row == 1
        await pilot.press("up")
        await until(
            pilot,
            lambda: is_shown(pilot, long),
            "the first reason",
        )

    drive(
        story,
        new_project,
        size,
        step="documents",
    )


def test_a_folder_that_is_missing_and_a_mistake_in_project_toml_are_shown(tmp_path: Path) -> None:
    async def story(pilot: Pilot[Any]) -> list[str]:
        pane = await _at_documents(pilot)
        status = pane.query_one("#documents-status")
        await until(
            pilot, lambda: "corpus.paths in project.toml" in str(status.render()), "what to do"
        )
        await until(
            pilot, lambda: len(_labels(pane)) == 2 and _labels(pane)[1].startswith("✗"), "the tree"
        )
        labels = _labels(pane)
        (pane.host.project.path / "project.toml").write_text('[corpus]\npath = ["documents"]\n')
        pane.enter()
        await until_text(pilot, "corpus.path")
        return labels

    gone = tmp_path / "gone"
    with pytest.raises(FileNotFoundError) as caught:
        os.scandir(gone)
    missing = f"✗ {caught.value.strerror.lower()}"
    assert drive(story, _project(tmp_path, gone), (120, 40)) == [str(gone), missing]


@pytest.mark.parametrize("count", [1200, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_large_folder_is_listed_in_the_background_and_shown_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(count):
        (folder / f"{number:06}.txt").touch()
    listing = threading.Event()
    threads = list[int]()

    def held(*arguments: Any) -> tuple[list[Entry], int]:
        threads.append(threading.get_ident())
        listing.wait(60)
        return list_entries(*arguments)

    monkeypatch.setattr(folder_tree, "list_entries", held)

    async def story(pilot: Pilot[Any]) -> None:
        pane = await _at_documents(pilot)
        pane.query_one("#exclude").focus()
        await pilot.press("x")  # the folder is still being listed, and the app goes on
        assert pane.query_one("#exclude").value == "x"
        assert _labels(pane)[0] == str(folder)
        assert len(_labels(pane)) == 2
        listing.set()
        await until(
            pilot,
            lambda: len(_labels(pane)) == 1002,
            "the first thousand",
        )
        assert _labels(pane)[1:3] == ["000000.txt  0 B", "000001.txt  0 B"]
        assert numbers(_labels(pane)[-1]) == [count - 1000]
        await until_text(pilot, f"{count:,}")

    drive(
        story,
        _project(tmp_path, folder),
        (120, 40),
    )
    assert threads
    assert threading.get_ident() not in threads


def test_folders_come_before_files_and_case_does_not_matter(tmp_path: Path) -> None:
    for name in ("zoo", "Alps"):
        (tmp_path / name).mkdir()
    for name in ("b.txt", "A.txt", ".hidden"):
        (tmp_path / name).write_text("")
    assert [entry.name for entry in list_entries(tmp_path)[0]] == ["Alps", "zoo", "A.txt", "b.txt"]


def test_files_left_out_are_counted_once() -> None:
    unread = [
        Unread("documents", "a.txt", "empty", True),
        Unread("", "old.pdf", "passed over long ago", False),
    ]
    passed = tuple(LeftOut("documents", path, "no") for path in ("b.pdf", "a.txt"))
    scan = Scanned(
        (),
        0,
        0,
        passed,
        700,
        0.0,
    )
    rows, total = build_skipped_rows(UnreadFiles(tuple(unread), 2, 1), scan)
    assert rows == [("b.pdf", "no"), ("a.txt", "empty")]
    assert total == 700
    assert build_skipped_rows(UnreadFiles(tuple(unread), 3002, 3001), scan)[1] == 3700


def test_equal_paths_in_two_folders_are_two_files() -> None:
    unread = [Unread(f"/{place}", "a.txt", place, True) for place in ("old", "new")]
    passed = tuple(LeftOut("/new", name, "no") for name in ("b.pdf", "a.txt"))
    rows, total = build_skipped_rows(
        UnreadFiles(tuple(unread), 2, 2), Scanned((), 0, 0, passed, 2, 0.0)
    )
    assert rows == [("b.pdf", "no"), ("a.txt (in /new)", "new"), ("a.txt (in /old)", "old")]
    assert total == 3


def test_sizes_are_in_powers_of_a_thousand() -> None:
    assert [size_text(n) for n in (0, 999, 1000, 215_900, 4_000_000, 10**9)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "215.9 kB",
        "4.0 MB",
        "1.0 GB",
    ]


@pytest.mark.parametrize(("files", "shown"), [(66, [66, 178, 14]), (52, [52, 66, 178, 14])])
def test_files_and_the_documents_in_them_are_both_counted(files: int, shown: list[int]) -> None:
    counts = {
        "files": files,
        "documents": 66,
        "chunks": 178,
        "skipped": 11,
        "quarantined": 3,
    }
    status = ProjectStatus(stages=(StageState("ingest", "done", ""),), counts=counts)
    assert numbers(format_status(status, RunState(), None, None, is_reading=False).plain) == shown
