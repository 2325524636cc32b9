"""Which files of a folder are documents."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Literal
from unicodedata import normalize

import pytest
from fixtures import office
from fixtures.errors import fails

from engine.core.errors import InputError, UsageError
from engine.core.records import ReadDocument
from engine.corpus.formats.opening import read_everything
from engine.corpus.scan import scan as module
from engine.corpus.scan.scan import Scan, scan


def write(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"text of {name}")


def paths(found: Scan) -> list[str]:
    return [file.path for file in found.files]


def kinds(found: Scan) -> dict[str, str]:
    return {item.path: item.kind for item in found.skipped}


def test_files_are_found_sorted_with_their_formats(tmp_path: Path) -> None:
    write(
        tmp_path,
        "b.md",
        "a.TXT",
        "sub/deep/c.html",
        "sub/d.rst",
        "x.wpd",
        "README",
        "picture.PNG",
        "sub/y.PDF",
        ".hidden.txt",
        ".git/z.txt",
        "sub/.a/b.md",
    )
    found = scan([tmp_path])
    assert [(file.path, file.format) for file in found.files] == [
        ("README", "txt"),
        ("a.TXT", "txt"),
        ("b.md", "md"),
        ("sub/d.rst", "txt"),
        ("sub/deep/c.html", "html"),
        ("sub/y.PDF", "pdf"),
    ]
    assert kinds(found) == {
        "picture.PNG": "needs OCR",
        "x.wpd": "unsupported",
    }
    file = found.files[4]
    status = (tmp_path / "sub/deep/c.html").stat()
    assert (file.source, file.absolute) == (str(tmp_path), tmp_path / "sub/deep/c.html")
    assert (file.size, file.mtime_ns) == (status.st_size, status.st_mtime_ns)


@pytest.mark.parametrize(
    "name",
    [
        "~$Offer.docx",
        "~$Plan.xlsx",
        "~WRL0001.tmp",
        "~WRD4711.tmp",
        "books.laccdb",
        "hall.dwl",
        "~flyer~a1b2.idlk",
    ],
)
def test_files_that_say_who_has_opened_another_are_left_out_silently(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_bytes(b"\5Ada L" + bytes(156))
    (tmp_path / "a.txt").write_text("a")
    found = scan([tmp_path])
    assert paths(found) == ["a.txt"]
    assert found.skipped == []


def test_a_document_that_is_called_like_a_lock_is_read(tmp_path: Path) -> None:
    (tmp_path / "~$Offer.docx").write_bytes(bytes(5000))
    assert paths(scan([tmp_path])) == ["~$Offer.docx"]


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        (("**/*",), (), ["a.txt", "old/b.txt", "old/deep/d.md", "s/c.md"]),
        (("*.md",), (), ["old/deep/d.md", "s/c.md"]),
        (("**/*",), ("old/",), ["a.txt", "s/c.md"]),
        (("**/*",), ("/old/*.txt",), ["a.txt", "old/deep/d.md", "s/c.md"]),
        (("s/**", "a.txt"), ("*.md",), ["a.txt"]),
    ],
)
def test_patterns(
    tmp_path: Path, include: tuple[str, ...], exclude: tuple[str, ...], expected: list[str]
) -> None:
    write(
        tmp_path,
        "a.txt",
        "old/b.txt",
        "old/deep/d.md",
        "s/c.md",
    )
    found = scan(
        [tmp_path],
        include,
        exclude,
    )
    assert paths(found) == expected
    assert found.skipped == []


@pytest.mark.parametrize("written", ["NFC", "NFD"])
@pytest.mark.parametrize("stored", ["NFC", "NFD"])
def test_accents_of_a_pattern_match_however_a_system_stores_them(
    tmp_path: Path, stored: Literal["NFC", "NFD"], written: Literal["NFC", "NFD"]
) -> None:
    write(
        tmp_path, *(normalize(stored, name) for name in ("Entwürfe/a.txt", "b/Käse.txt", "c.txt"))
    )
    patterns = [normalize(written, pattern) for pattern in ("Entwürfe/", "Käse.*")]
    assert paths(scan([tmp_path], exclude=patterns)) == ["c.txt"]
    included = paths(scan([tmp_path], include=patterns))
    assert [normalize("NFC", path) for path in included] == ["Entwürfe/a.txt", "b/Käse.txt"]


def test_a_bad_pattern_is_the_users_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        scan([tmp_path], exclude=["!"])


@pytest.mark.posix(reason="links need a right on Windows")
def test_links_stay_inside_and_loops_end(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    outside = tmp_path / "outside"
    write(inside, "a.txt", "sub/b.txt", ".store/v3.md")
    write(outside, "secret.txt")
    (inside / "sub/loop").symlink_to(inside)
    (inside / "self").symlink_to(inside / "self")
    (inside / "out").symlink_to(outside)
    (inside / "out.txt").symlink_to(outside / "secret.txt")
    (inside / "again.txt").symlink_to(inside / "a.txt")
    (inside / "current.md").symlink_to(inside / ".store/v3.md")
    found = scan([inside])
    assert paths(found) == ["a.txt", "current.md", "sub/b.txt"]
    assert kinds(found) == {
        "out": "refused",
        "out.txt": "refused",
        "self": "broken link",
        "again.txt": "link",
        "sub/loop": "link",
    }
    assert kinds(scan([inside], exclude=["again.txt", "loop"])).keys() == {"out", "out.txt", "self"}


@pytest.mark.posix(reason="links need a right on Windows")
def test_a_link_to_a_file_that_cannot_be_opened_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "a.txt", ".store/contract")

    def closed(
        path: Path,
        *_: object,
        **__: object,
    ) -> None:
        raise PermissionError(
            13,
            "Permission denied",
            str(path),
        )

    monkeypatch.setattr(Path, "open", closed)
    (tmp_path / "contract").symlink_to(tmp_path / ".store/contract")
    found = scan([tmp_path])
    assert paths(found) == ["a.txt"]
    assert kinds(found) == {"contract": "no access"}
    assert kinds(scan([tmp_path / ".store/contract"])) == {"contract": "no access"}


@pytest.mark.posix(reason="links need a right on Windows")
def test_a_prefix_of_the_folder_name_is_not_inside(tmp_path: Path) -> None:
    write(tmp_path, "docs/a.txt", "docs-private/b.txt")
    (tmp_path / "docs/link.txt").symlink_to(tmp_path / "docs-private/b.txt")
    assert paths(scan([tmp_path / "docs"])) == ["a.txt"]


@pytest.mark.posix(reason="pipes with a name")
def test_pipes_are_skipped(tmp_path: Path) -> None:
    write(tmp_path, "a.txt")
    os.mkfifo(tmp_path / "pipe.txt")
    found = scan([tmp_path])
    assert paths(found) == ["a.txt"]
    assert kinds(found) == {"pipe.txt": "unsupported"}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_names_that_are_not_utf_8_are_reported_as_text(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"b\xfcro")
    folder.mkdir()
    (folder / os.fsdecode(b"caf\xe9.txt")).write_text("x")
    (folder / "plan.txt").write_text("y")
    (folder / os.fsdecode(b"\xff.xyz")).write_text("z")
    write(tmp_path, "a\\xe9.txt")
    (tmp_path / os.fsdecode(b"a\xe9.txt")).write_text("which one?")
    found = scan([tmp_path])
    assert {
        file.path: file.absolute.read_text() for file in found.files if file.path != "a\\xe9.txt"
    } == {
        r"b\xfcro/caf\xe9.txt": "x",
        r"b\xfcro/plan.txt": "y",
    }
    assert paths(found).count("a\\xe9.txt") == 1
    assert kinds(found) == {r"b\xfcro/\xff.xyz": "unsupported", r"a\xe9.txt": "unsupported"}
    assert paths(scan([tmp_path], include=[r"b?xfcro/*"], exclude=["*plan*"])) == [
        r"b\xfcro/caf\xe9.txt"
    ]


def test_a_beir_folder_is_one_document_file(tmp_path: Path) -> None:
    write(
        tmp_path,
        "set/corpus.jsonl",
        "set/queries.jsonl",
        "set/qrels/test.tsv",
        "set/notes.md",
        "other.txt",
        "loose.jsonl",
    )
    (tmp_path / "set" / "corpus.jsonl").write_text('{"_id": "1", "text": "The pelican."}\n{broken')
    found = scan([tmp_path])
    assert [(file.path, file.format) for file in found.files] == [
        ("loose.jsonl", "jsonl"),
        ("other.txt", "txt"),
        ("set/corpus.jsonl", "beir"),
    ]
    assert kinds(found) == {"set/notes.md": "data set"}


@pytest.mark.parametrize(
    "content", ["", "{broken", '{"id": 1, "text": "x"}\n', '{"_id": 1}', "[1]", "\xff"]
)
def test_a_corpus_that_is_no_beir_set_is_a_file_like_others(tmp_path: Path, content: str) -> None:
    write(tmp_path, "set/corpus.jsonl", "set/notes.md")
    (tmp_path / "set" / "corpus.jsonl").write_bytes(content.encode("latin-1"))
    found = scan([tmp_path])
    assert [(file.path, file.format) for file in found.files] == [
        ("set/corpus.jsonl", "jsonl"),
        ("set/notes.md", "md"),
    ]
    assert found.skipped == []
    assert [file.format for file in scan([tmp_path / "set" / "corpus.jsonl"]).files] == ["jsonl"]


def test_file_sources_and_sources_that_overlap(tmp_path: Path) -> None:
    write(tmp_path, "a/x.txt", "a/b/y.txt", ".hidden.txt")
    found = scan(
        [tmp_path / "a", tmp_path / "a/b", tmp_path / ".hidden.txt", tmp_path / "a/x.txt"],
        include=["*.txt"],
    )
    assert [(file.source, file.path) for file in found.files] == [
        (str(tmp_path), ".hidden.txt"),
        (str(tmp_path / "a"), "b/y.txt"),
        (str(tmp_path / "a"), "x.txt"),
    ]


@pytest.mark.posix(reason="links need a right on Windows")
def test_a_project_is_left_out_as_a_whole(tmp_path: Path) -> None:
    write(
        tmp_path,
        "a.txt",
        "p/project.toml",
        "p/project.db",
        "p/reports/r.html",
        "p/documents/d.md",
        "q/project.toml",
    )
    (tmp_path / "link").symlink_to(tmp_path / "p")
    found = scan([tmp_path])
    assert paths(found) == ["a.txt"]
    assert kinds(found) == {"p": "project", "link": "link", "q/project.toml": "unsupported"}
    assert kinds(scan([tmp_path / "p"])) == {".": "project"}
    assert paths(scan([tmp_path / "p" / "documents"])) == ["d.md"]


@pytest.mark.posix(reason="links need a right on Windows")
def test_what_the_system_closes_is_distinguished_from_what_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "a.txt", "s/b.txt")
    (tmp_path / "dangling.txt").symlink_to(tmp_path / "nothing")
    listed = os.scandir

    def refuse(path: str) -> object:
        if path.endswith("/s"):
            raise PermissionError(13, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found = scan([tmp_path])
    assert paths(found) == ["a.txt"]
    assert found.inaccessible == [(str(tmp_path), "s")]
    assert kinds(found) == {"s": "no access", "dangling.txt": "broken link"}


def test_what_is_stored_online_only_is_not_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "here.txt", "away.txt")
    size = len("text of away.txt!")
    (tmp_path / "away.txt").write_text("x" * size)
    monkeypatch.setattr(
        module,
        "is_online_only",
        lambda status: status.st_size == size,
    )
    found = scan([tmp_path])
    assert paths(found) == ["here.txt"]
    assert kinds(found) == {"away.txt": "no access"}
    assert found.inaccessible == [(str(tmp_path), "away.txt")]


def test_missing_source(tmp_path: Path) -> None:
    with fails(InputError, "path-missing"):
        scan([tmp_path / "nowhere"])


def test_importing_the_room_loads_no_heavy_library() -> None:
    code = (
        "import sys; from engine.corpus.scan.scan import ScannedFile; from engine.corpus.formats"
        " import find_reader;from engine.corpus.chunking.chunking import Chunker;heavy ="
        " {'tokenizers', 'semantic_text_splitter', 'lxml', 'charset_normalizer',"
        " 'torch'};print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.posix(reason="links need a right on Windows")
def test_links_out_of_the_folder_are_followed_where_that_is_set_and_loops_never(
    tmp_path: Path,
) -> None:
    write(tmp_path, "in/a.txt", "out/b.txt", "out/deep/c.txt")
    (tmp_path / "in" / "there").symlink_to(tmp_path / "out")
    (tmp_path / "out" / "back").symlink_to(tmp_path / "in")
    (tmp_path / "out" / "deep" / "self").symlink_to(tmp_path / "out" / "deep")
    (tmp_path / "in" / "ring").symlink_to(tmp_path / "in" / "ring")
    assert paths(scan([tmp_path / "in"])) == ["a.txt"]
    found = scan([tmp_path / "in"], follow_links=True)
    assert paths(found) == ["a.txt", "there/b.txt", "there/deep/c.txt"]
    assert kinds(found)["ring"] == "broken link"


@pytest.mark.slow
@pytest.mark.posix(reason="paths of ten thousand folders")
def test_folders_ten_thousand_deep_end_somewhere(tmp_path: Path) -> None:
    write(tmp_path, "top.txt")
    inside = os.open(tmp_path, os.O_RDONLY)
    for depth in range(10_000):
        os.mkdir("d", dir_fd=inside)
        deeper = os.open(
            "d",
            os.O_RDONLY,
            dir_fd=inside,
        )
        os.close(inside)
        inside = deeper
        if depth == 100:
            os.close(os.open("deep.txt", os.O_CREAT | os.O_WRONLY, dir_fd=inside))
    os.close(inside)
    try:
        found = scan([tmp_path])
        assert [file.path.count("/") for file in found.files] == [101, 0]
        assert [item.kind for item in found.skipped] == ["no access"]
    finally:
        subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)


def test_files_whose_names_have_no_format_are_known_by_their_content(tmp_path: Path) -> None:
    made = {
        "plan": office.pdf("The pelican."),
        "Contract 2.1": office.docx(),
        "Dr. Ada to Bo": rb"{\rtf1 The pelican.}",
        "report.2021": office.xls(),
        "page": b"\xef\xbb\xbf\n<!DOCTYPE HTML><p>The pelican.",
        "rows.bak": office.docx(),
        "core": b"\x7fELF" + bytes(99),
        "empty": b"",
    }
    for name, content in made.items():
        (tmp_path / name).write_bytes(content)
    found = scan([tmp_path])
    assert {file.path: file.format for file in found.files} == {
        "plan": "pdf",
        "Contract 2.1": "zip",
        "Dr. Ada to Bo": "rtf",
        "report.2021": "doc",
        "page": "html",
    }
    read = {
        file.path: next(iter(read_everything(file.absolute, file.format))) for file in found.files
    }
    assert {
        name: document.format
        for name, document in read.items()
        if isinstance(document, ReadDocument)
    } == {
        "plan": "pdf",
        "Contract 2.1": "docx",
        "Dr. Ada to Bo": "rtf",
        "report.2021": "xls",
        "page": "html",
    }
    assert kinds(found).keys() == {"rows.bak", "core", "empty"}


def test_mails_and_texts_without_an_ending_are_known_by_what_they_hold(tmp_path: Path) -> None:
    (tmp_path / "mail_1").write_bytes(
        b"Received: from a\r\n by b\r\nFrom: Ada <a@b.example>\r\nSubject: x\r\n\r\nHello."
    )
    (tmp_path / "box").write_bytes(
        b"From ada Tue Mar  4 05:06:07 2031\nFrom: Ada <a@b.example>\nSubject: x\n\nHello.\n"
    )
    (tmp_path / "notes").write_bytes(b"Subject: this is a note\nand no mail at all")
    (tmp_path / "Makefile").write_bytes(b"all: a b\n\techo\n")
    (tmp_path / "Contract 2.1").write_bytes(b"The parties agree.")
    (tmp_path / "latin").write_bytes("Der Vertrag \xfcber die K\xfchlung".encode("latin-1"))
    (tmp_path / "wide").write_bytes("The parties agree.".encode("utf-16"))
    (tmp_path / "data").write_bytes(b"text\0and\0zeros")
    (tmp_path / "random").write_bytes(bytes(range(1, 256)) * 9)
    (tmp_path / "blank").write_bytes(b" \n\t\n")
    found = scan([tmp_path])
    assert [(file.path, file.format) for file in found.files] == [
        ("Contract 2.1", "txt"),
        ("Makefile", "txt"),
        ("box", "mbox"),
        ("latin", "txt"),
        ("mail_1", "eml"),
        ("notes", "txt"),
        ("wide", "txt"),
    ]
    assert kinds(found).keys() == {"data", "random", "blank"}


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("a.xlsb", "xlsx"),
        ("a.odg", "odp"),
        ("a.oft", "msg"),
        ("a.XML", "xml"),
        ("a.ics", "ics"),
        ("a.vcard", "vcf"),
        ("a.vtt", "txt"),
        ("a.yml", "txt"),
        ("a.py", "txt"),
        ("a.PS1", "txt"),
        ("a.qmd", "md"),
        ("a.tab", "csv"),
        ("a.emlx", "eml"),
        ("a.ipynb", "ipynb"),
        ("a.enex", "enex"),
        ("a.webarchive", "webarchive"),
        ("a.fodt", "odt"),
        ("app.log-20311130", "txt"),
        ("1700000000.12_3.host.org", "txt"),
        ("Dr.Müller", "txt"),
    ],
)
def test_formats_by_ending(
    tmp_path: Path,
    name: str,
    format: str,
) -> None:
    (tmp_path / name).write_text("a")
    assert [file.format for file in scan([tmp_path]).files] == [format]


@pytest.mark.posix(reason="the system's limit of names")
def test_a_source_that_the_system_does_not_show_is_missing_or_away(tmp_path: Path) -> None:
    """As on a network drive that has vanished; a name that is too long is refused likewise."""
    write(tmp_path, "here/a.txt")
    unseen = tmp_path / ("x" * 300)
    with fails(InputError, "path-missing"):
        scan([tmp_path / "here", unseen])
    found = scan([tmp_path / "here", unseen], read_before={str(unseen)})
    assert paths(found) == ["a.txt"]
    assert [skipped.source for skipped in found.away] == [str(unseen)]


MAIL = b"From: Ada <a@b.example>\r\nSubject: x\r\n\r\nHello."


@pytest.mark.posix(reason="names that Windows does not allow")
@pytest.mark.parametrize(
    ("name", "content", "format"),
    [
        ("cur/1700000000.M12P34.host:2,S", MAIL, "eml"),
        ("cur/1700000000.M1P2.mail.example.org,S=12,W=13:2,RS", MAIL, "eml"),
        ("new/1700000000_1.12345.mail.example.org", MAIL, "eml"),
        ("2031113012.2.csv", b"a,b", "csv"),
        ("2031113012.03.2031.final.csv", b"a,b", "csv"),
        ("1700000000.123456.jpg", b"\xff\xd8\xff", "jpg"),
        ("plan.pdf(1)", b"%PDF-1.4", "pdf"),
        ("index.php?id=12", b"<!DOCTYPE html><p>a", "html"),
        ("show.aspx", b"<html><p>a", "html"),
        ("download.ashx", b"%PDF-1.4", "pdf"),
    ],
)
def test_names_that_servers_give_name_no_format(
    tmp_path: Path, name: str, content: bytes, format: str
) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    files = scan([tmp_path], pictures=True).files
    assert [(file.path, file.format) for file in files] == [(name, format)]


def test_programs_of_servers_and_backups_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "index.php").write_text("<?php echo 1;")
    (tmp_path / "notes.txt~").write_text("an old text")
    found = scan([tmp_path])
    assert paths(found) == []
    assert kinds(found) == dict.fromkeys(("index.php", "notes.txt~"), "unsupported")


def test_what_systems_hide_is_left_out_silently(tmp_path: Path) -> None:
    write(
        tmp_path,
        "a.txt",
        "desktop.ini",
        "sub/Thumbs.db",
        "$RECYCLE.BIN/S-1/$R1.txt",
        "#recycle/b.txt",
        "@eaDir/a.txt/SYNOINDEX_MEDIA_INFO",
        "System Volume Information/c.txt",
        "__MACOSX/d.txt",
    )
    found = scan([tmp_path])
    assert paths(found) == ["a.txt"]
    assert found.skipped == []


def test_a_file_that_a_cloud_replaced_by_a_placeholder_is_online_only(tmp_path: Path) -> None:
    write(
        tmp_path,
        "a/.Plan.pdf.icloud",
        "Offer.docx.nextcloud",
        "x/.c.pdf.icloud",
        "b.txt",
    )
    found = scan([tmp_path], exclude=["x/*"])
    assert paths(found) == ["b.txt"]
    assert kinds(found) == dict.fromkeys(("Offer.docx", "a/Plan.pdf"), "no access")
    source = str(tmp_path)
    assert sorted(found.inaccessible) == [(source, "Offer.docx"), (source, "a/Plan.pdf")]
