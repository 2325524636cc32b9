"""ZIP archives as other programs write them: names in code pages of Windows, and archives in several parts."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from pathlib import Path

import pytest
from fixtures import office
from fixtures.errors import unreadable

from engine.core.records import ReadDocument
from engine.corpus.formats import LeftOut, archive
from engine.corpus.formats.opening import everything_in

SAMPLES = Path(__file__).resolve().parents[4] / "shared" / "data" / "office" / "tika"


def written(*names: bytes, beside: bytes = b"") -> bytes:
    """An archive of members with such names, which it does not call UTF-8; `beside`: the name that a field beside each holds."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for number, name in enumerate(names):
            member = zipfile.ZipInfo(chr(ord("A") + number) * len(name))
            check = struct.pack("<BI", 1, zlib.crc32(name)) + beside
            member.extra = struct.pack("<HH", 0x7075, len(check)) + check if beside else b""
            made.writestr(member, "The pelican.")
    content = file.getvalue()
    for number, name in enumerate(names):
        content = content.replace(bytes([ord("A") + number]) * len(name), name)
    return content


def names_in(path: Path) -> list[str]:
    return [found.member for found in everything_in(path, "zip") if isinstance(found, ReadDocument)]


@pytest.mark.parametrize(
    ("encoding", "names"),
    [
        ("gb18030", ["资料/会议记录.txt", "报告.txt"]), ("cp932", ["ソフト.txt", "資料.txt"]), ("cp866", ["Отчёт.txt", "фото.txt"]),
        ("utf-8", ["näher.txt", "报告.txt"]), ("cp437", ["näher.txt", "Größe.txt"]),
        ("cp850", ["São.txt", "Année.txt", "Größe.txt"]),
    ],
)  # fmt: skip
def test_names_are_read_in_the_code_page_that_they_are_written_in(
    tmp_path: Path, encoding: str, names: list[str]
) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(written(*(name.encode(encoding) for name in names)))
    assert names_in(path) == names


def test_a_name_that_is_reported_beside_in_utf_8_counts_where_it_is_of_this_name(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    content = written(b"n\x84her.txt", beside="näher ★.txt".encode())
    path.write_bytes(content)
    assert names_in(path) == ["näher ★.txt"]
    path.write_bytes(content.replace(b"n\x84her", b"n\x81her"))
    assert names_in(path) == ["nüher.txt"]


SHOWN = {
    "gbk.zip": ["审计压缩包文件检索测试/集团邮件审计系统2021年自动巡检需求文档_V4.0.doc"],
    "testZipEntryNameCharsetShiftSJIS.zip": ["文章1.txt", "文章2.txt"],
}


@pytest.mark.shared
@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the shared data sets are missing")
def test_names_in_archives_of_other_programs_are_legible() -> None:
    reported = {name: [found.member for found in everything_in(SAMPLES / name, "zip")] for name in SHOWN}
    assert reported == SHOWN


@pytest.mark.parametrize("start", [b"PK\x07\x08PK\x03\x04", b"the rest of a member"])
def test_a_part_of_an_archive_is_not_supported(tmp_path: Path, start: bytes) -> None:
    path = tmp_path / "a.zip"
    last = bytearray(office.zipped({"a.txt": "The pelican."}))
    end = last.rfind(b"PK\x05\x06")
    struct.pack_into("<HH", last, end + 4, 2, 2)
    last[:4] = b"rest"  # the member begins in the part before
    for content in (start + bytes(last), bytes(last), b"PK\x07\x08" + bytes(last[:end])):
        path.write_bytes(content)
        with unreadable("unsupported"):
            list(everything_in(path, "zip"))
    inner = office.zipped({"part.zip": bytes(last), "b.txt": "The heron."})
    path.write_bytes(inner)
    left, read = everything_in(path, "zip")
    assert isinstance(left, LeftOut)
    assert (left.kind, read.member) == ("unsupported", "b.txt")


def test_an_archive_whose_end_names_a_wrong_disk_is_read_where_all_of_it_is_there(tmp_path: Path) -> None:
    content = bytearray(office.zipped({"a.txt": "The pelican.", "b.txt": "The heron."}))
    content[content.rfind(b"PK\x05\x06") + 4] = 3
    (tmp_path / "a.zip").write_bytes(content)
    assert names_in(tmp_path / "a.zip") == ["a.txt", "b.txt"]


def test_many_long_names_that_fit_no_code_page_are_not_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(archive, "guess_encoding_of_names", lambda names: asked.append(len(names)) or "")
    members = [zipfile.ZipInfo(bytes([200 + number] * 60_000).decode("cp437")) for number in range(20)]
    assert len(archive.names_of(members)) == 20
    assert len(asked) == 1
    asked.clear()
    archive.names_of([zipfile.ZipInfo(bytes([200 + number] * 60).decode("cp437")) for number in range(20)])
    assert asked == [20 * 61 - 1, *[60] * 20]
