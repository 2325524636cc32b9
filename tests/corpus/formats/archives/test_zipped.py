"""ZIP archives as other programs write them: names in code pages of Windows."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path
from zlib import crc32

import pytest
from fixtures import office

from engine.core.records import ReadDocument
from engine.corpus.formats.opening import read_everything

SAMPLES = Path(__file__).resolve().parents[5] / "shared" / "data" / "office" / "tika"


def written(*names: bytes) -> bytes:
    """An archive of members with such names, which it does not call UTF-8."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for number, name in enumerate(names):
            member = zipfile.ZipInfo(chr(ord("A") + number) * len(name))
            made.writestr(member, "The pelican.")
    content = file.getvalue()
    for number, name in enumerate(names):
        content = content.replace(bytes([ord("A") + number]) * len(name), name)
    return content


def names_in(path: Path) -> list[str]:
    return [
        found.member for found in read_everything(path, "zip") if isinstance(found, ReadDocument)
    ]


@pytest.mark.parametrize(
    ("encoding", "names"),
    [
        ("gb18030", ["资料/会议记录.txt", "报告.txt"]),
        ("cp932", ["ソフト.txt", "資料.txt"]),
        ("cp866", ["Отчёт.txt", "фото.txt"]),
        ("utf-8", ["näher.txt", "报告.txt"]),
        ("cp437", ["näher.txt", "Größe.txt"]),
        ("cp850", ["São.txt", "Année.txt", "Größe.txt"]),
    ],
)
def test_names_are_read_in_the_code_page_that_they_are_written_in(
    tmp_path: Path, encoding: str, names: list[str]
) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(written(*(name.encode(encoding) for name in names)))
    assert names_in(path) == names


SHOWN = {
    "gbk.zip": ["审计压缩包文件检索测试/集团邮件审计系统2021年自动巡检需求文档_V4.0.doc"],
    "testZipEntryNameCharsetShiftSJIS.zip": ["文章1.txt", "文章2.txt"],
}


@pytest.mark.shared
@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the shared data sets are missing")
def test_names_in_archives_of_other_programs_are_legible() -> None:
    reported = {
        name: [found.member for found in read_everything(SAMPLES / name, "zip")] for name in SHOWN
    }
    assert reported == SHOWN


def test_an_archive_whose_end_names_a_wrong_disk_is_read_where_all_of_it_is_there(
    tmp_path: Path,
) -> None:
    content = bytearray(office.zipped({"a.txt": "The pelican.", "b.txt": "The heron."}))
    content[content.rfind(b"PK\x05\x06") + 4] = 3
    (tmp_path / "a.zip").write_bytes(content)
    assert names_in(tmp_path / "a.zip") == ["a.txt", "b.txt"]


def test_a_name_in_utf_8_beside_another_is_taken_if_it_belongs_to_it(tmp_path: Path) -> None:
    def member(
        stored: str,
        unicode_name: str,
        checksum: int,
    ) -> zipfile.ZipInfo:
        info = zipfile.ZipInfo(stored)
        field = struct.pack("<BI", 1, checksum) + unicode_name.encode()
        info.extra = struct.pack("<HH", 0x7075, len(field)) + field
        return info

    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member("_____.txt", "Отчёт.txt", crc32(b"_____.txt")), "The pelican.")
        archive.writestr(member("renamed.txt", "План.txt", crc32(b"____.txt")), "The pelican.")
    assert names_in(path) == ["Отчёт.txt", "renamed.txt"]


def test_members_in_hidden_folders_are_hidden(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("p/.git/HEAD", "p/desktop.ini", "__MACOSX/p/x.txt", "p/a.txt"):
            archive.writestr(name, "The pelican.")
    assert names_in(path) == ["p/a.txt"]
