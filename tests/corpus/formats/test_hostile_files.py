"""Files that were made to do harm, and files that harm has been done to."""

from __future__ import annotations

import io
import os
import random
import stat
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from fixtures import office
from fixtures.errors import unreadable
from fixtures.read_files import opened
from fixtures.shown_numbers import numbers

from engine.core.records import ReadDocument
from engine.corpus.formats import MAX_FILE, Finding, LeftOut, Member, UnreadableFileError
from engine.corpus.formats.archives.members import ArchiveLimits
from engine.corpus.formats.archives.zipped import ZipReader
from engine.corpus.formats.containers import CompoundFile
from engine.corpus.formats.opening import FileLimits, read_everything
from engine.corpus.scan.formats import FORMATS, ending_of

ENTITIES = (
    '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">'
    + "".join(
        f'<!ENTITY {new} "{f"&{old};" * 10}">'
        for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + "]>"
)


@pytest.mark.parametrize(
    "name", ["../up.txt", "/etc/evil.txt", "a/../../up.txt", "..\\up.txt", "C:\\evil.txt"]
)
def test_names_that_lead_out_of_an_archive_are_refused(tmp_path: Path, name: str) -> None:
    found = opened(
        tmp_path, "a.zip", office.zipped({name: "The pelican.", "good.txt": "The heron."})
    )
    assert [(item.member, type(item)) for item in found[1:]] == [("good.txt", ReadDocument)]
    assert isinstance(found[0], LeftOut)
    assert (found[0].state, found[0].kind) == ("quarantined", "refused")
    assert sorted(item.name for item in tmp_path.iterdir()) == ["a.zip"]


def test_an_archive_that_zeros_follow_is_read(tmp_path: Path) -> None:
    (found,) = opened(
        tmp_path,
        "a.zip",
        office.zipped({"a.txt": "The pelican."}) + bytes(50_000),
    )
    assert isinstance(found, ReadDocument)
    assert found.text == "The pelican."
    with unreadable("damaged"):
        opened(
            tmp_path,
            "b.zip",
            b"PK\x03\x04" + bytes(100),
        )


def test_an_archive_of_hidden_files_is_empty(tmp_path: Path) -> None:
    with unreadable("empty"):
        opened(
            tmp_path,
            "a.zip",
            office.zipped({".env.txt": "The pelican."}),
        )


def test_links_in_an_archive_are_not_followed(tmp_path: Path) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        link = zipfile.ZipInfo("secret.txt")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    (found,) = opened(
        tmp_path,
        "a.zip",
        file.getvalue(),
    )
    assert isinstance(found, LeftOut)
    assert (found.state, found.kind) == ("skipped", "link")


def test_a_bomb_is_refused_by_the_size_that_it_declares(tmp_path: Path) -> None:
    with unreadable("too large"):
        opened(
            tmp_path,
            "a.docx",
            office.zipped(
                {"[Content_Types].xml": "<Types/>", "word/document.xml": bytes(80 * 2**20)}
            ),
        )
    found = opened(
        tmp_path, "a.zip", office.zipped({"bomb.txt": bytes(80 * 2**20), "a.txt": "fine"})
    )
    assert [(item.member, getattr(item, "kind", "")) for item in found] == [
        ("bomb.txt", "too large"),
        ("a.txt", ""),
    ]


def unzipped(
    path: Path,
    content: bytes,
    limits: ArchiveLimits,
) -> list[Finding]:
    return list(ZipReader(limits).read(path, content))


def name_and_kind(finding: Finding) -> tuple[str, str]:
    if isinstance(finding, LeftOut):
        return finding.member, finding.kind
    assert isinstance(finding, Member)
    return finding.path, ""


def test_the_part_of_a_large_archive_that_fits_the_limit_is_read(tmp_path: Path) -> None:
    files = {
        "a.txt": "x " * 2**18,
        "b.txt": "y " * 2**19,
        "c.txt": "fine",
    }
    limits = ArchiveLimits(unpacked=2**20)
    found = unzipped(
        tmp_path / "a.zip",
        office.zipped(files),
        limits,
    )
    assert [name_and_kind(item) for item in found] == [
        ("a.txt", ""),
        ("b.txt", "too large"),
        ("c.txt", ""),
    ]
    assert isinstance(found[1], LeftOut)
    assert numbers(found[1].reason) == [1]


def test_a_bomb_that_lies_about_its_size_is_stopped_while_it_unpacks(tmp_path: Path) -> None:
    content = office.zipped({"a.txt": "fine", "b.txt": "x" * 3 * 2**20})
    found = unzipped(
        tmp_path / "a.zip",
        content,
        ArchiveLimits(member=2**20),
    )
    assert [name_and_kind(item) for item in found] == [
        ("a.txt", ""),
        ("b.txt", "too large"),
    ]


def test_archives_in_archives_end_somewhere(tmp_path: Path) -> None:
    content = office.zipped({"core.txt": "The pelican."})
    for _ in range(9):
        content = office.zipped({"inner.zip": content, "near.txt": "The heron."})
    found = opened(tmp_path, "a.zip", content)
    deepest = [item for item in found if isinstance(item, LeftOut)]
    assert {item.kind for item in deepest} == {"unsupported"}
    assert not any("core.txt" in item.member for item in found)
    assert sum(isinstance(item, ReadDocument) for item in found) == 6


def test_many_members_end_somewhere(tmp_path: Path) -> None:
    content = office.zipped({f"{n}.txt": "The heron." for n in range(5)})
    found = opened(
        tmp_path,
        "a.zip",
        content,
        FileLimits(members=3),
    )
    assert [type(item) for item in found] == [ReadDocument] * 3 + [LeftOut] * 2


@pytest.mark.parametrize("name", ["a.odp", "a.docx", "a.odt", "a.epub"])
def test_entities_are_never_expanded(tmp_path: Path, name: str) -> None:
    source = {
        "a.odp": office.odp(),
        "a.docx": office.docx(),
        "a.odt": office.odt(),
        "a.epub": office.epub(),
    }[name]
    with zipfile.ZipFile(io.BytesIO(source)) as archive:
        files = {item: archive.read(item) for item in archive.namelist()}
    for part in ("content.xml", "word/document.xml", "a.xhtml"):
        if part in files:
            text = files[part].decode().replace(office.XML, office.XML + ENTITIES)
            files[part] = text.replace("The pelican", "The pelican &i;").encode()
    path = tmp_path / name
    path.write_bytes(office.zipped(files))
    found: list[ReadDocument | LeftOut] = []
    with suppress(UnreadableFileError):
        found += read_everything(path, FORMATS[ending_of(name)])
    assert sum(len(item.text) for item in found if isinstance(item, ReadDocument)) < 1000


def test_a_compound_file_of_nonsense_never_loops() -> None:
    random.seed(5)
    whole = office.msg({"a.txt": b"The pelican." * 600})
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(random.randint(1, 40)):
            data[random.randrange(len(data))] = random.choice((0, 1, 0xFF, random.randrange(256)))
        try:
            compound = CompoundFile(bytes(data))
            for name in compound.names():
                assert len(compound.read(name)) <= len(data)
        except ValueError:
            continue


def test_a_text_that_is_too_long_is_not_kept(tmp_path: Path) -> None:
    limits = FileLimits(text=1000)
    with unreadable("too large", "1,200"):
        opened(
            tmp_path,
            "a.txt",
            b"x" * 1200,
            limits,
        )
    content = office.zipped({"a.txt": "x" * 1200, "b.txt": "The heron."})
    found = opened(
        tmp_path,
        "a.zip",
        content,
        limits,
    )
    assert [getattr(item, "kind", "") for item in found] == ["too large", ""]


def test_all_texts_of_a_file_together_are_bounded(tmp_path: Path) -> None:
    content = office.zipped({f"{n}.txt": "x" * 400 for n in range(3)})
    found = opened(
        tmp_path,
        "a.zip",
        content,
        FileLimits(texts=1000),
    )
    assert [(item.member, getattr(item, "kind", "")) for item in found] == [
        ("0.txt", ""),
        ("1.txt", ""),
        ("2.txt", "too large"),
    ]


def test_a_mailbox_unpacks_nothing_however_large_it_is(tmp_path: Path) -> None:
    limits = FileLimits(unpacked=1000)
    mails = [office.eml(text=f"Mail {n}. " + "The pelican rests. " * 30) for n in range(9)]
    found = opened(
        tmp_path,
        "a.mbox",
        office.mbox(*mails),
        limits,
    )
    assert [type(item) for item in found] == [ReadDocument] * 9
    packed = office.zipped({f"{n}.txt": "The heron. " * 90 for n in range(9)})
    found = opened(
        tmp_path,
        "a.zip",
        packed,
        limits,
    )
    assert {getattr(item, "kind", "") for item in found} == {"", "too large"}


def test_an_office_file_above_the_limit_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.docx"
    path.write_bytes(office.docx())
    os.truncate(path, MAX_FILE + 1)
    with unreadable("too large"):
        list(read_everything(path, "docx"))


def test_a_fault_of_a_reader_is_a_reason_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.corpus.formats import office as reading

    class PanicError(BaseException):
        """As a library's panic comes: not an Exception."""

    def fail(*_: object) -> None:
        raise PanicError

    monkeypatch.setattr(reading, "read_bytes", fail)
    with unreadable("crashed", "PanicError"):
        opened(
            tmp_path,
            "a.docx",
            office.docx(),
        )
    found = opened(
        tmp_path, "a.zip", office.zipped({"a.docx": office.docx(), "b.txt": "The heron."})
    )
    assert [item.member for item in found] == ["a.docx", "b.txt"]
