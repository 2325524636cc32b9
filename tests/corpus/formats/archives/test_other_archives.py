"""Archives of tar and 7-Zip, and compressed files: read as ZIP archives are, within the same
limits.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

import py7zr
import pytest
from fixtures import office
from fixtures.read_files import opened

from engine.core.records import ReadDocument
from engine.corpus.formats import LeftOut, Member, UnreadableFileError, locked
from engine.corpus.formats.archives.members import ArchiveLimits
from engine.corpus.formats.archives.seven_zip import SevenZipReader
from engine.corpus.formats.archives.tarballs import TarReader
from engine.corpus.sandbox.outcome import Limits
from engine.corpus.sandbox.pool import Pool
from engine.corpus.scan.formats import FORMATS, ending_of

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

FILES = {
    "a/plan.txt": b"The pelican boards.",
    "b.docx": office.docx(),
    ".hidden": b"x",
    "__MACOSX/a.txt": b"x",
    "clip.mov": b"0" * 50,
    "größe.txt": "Die Größe".encode(),
    "nothing.txt": b"",
    "inner.zip": office.zipped({"c.txt": "The heron."}),
}
READ = {"a/plan.txt", "b.docx", "größe.txt", "inner.zip/c.txt"}
LEFT_OUT = {"clip.mov": "unsupported", "nothing.txt": "empty"}
PACKED: dict[str, Callable[[bytes], bytes]] = {
    ".tar": bytes,
    ".tar.gz": gzip.compress,
    ".tgz": gzip.compress,
    ".tar.xz": lzma.compress,
    ".txz": lzma.compress,
    ".tar.bz2": bz2.compress,
    ".tbz2": bz2.compress,
    ".tar.zst": zstd.compress,
    ".tzst": zstd.compress,
}

# What takes long to pack is large.
QUICKLY_PACKED: dict[str, Callable[[bytes], bytes]] = {
    ".tar": bytes,
    ".tar.gz": partial(gzip.compress, compresslevel=1),
    ".tar.xz": partial(lzma.compress, preset=0),
    ".tar.bz2": partial(bz2.compress, compresslevel=1),
    ".tar.zst": zstd.compress,
}


def tar(
    files: Mapping[str, bytes],
    *more: tarfile.TarInfo,
    form: int = tarfile.PAX_FORMAT,
    encoding: str = "utf-8",
) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=form, encoding=encoding) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        for member in more:
            archive.addfile(member, io.BytesIO(b"0" * member.size))
    return content.getvalue()


def special(
    name: str,
    kind: bytes,
    target: str = "",
) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = kind
    member.linkname = target
    return member


def packed_by_7z(
    files: Mapping[str, bytes],
    password: str | None = None,
    *,
    hide_names: bool = False,
    filters: list[dict[str, int]] | None = None,
) -> bytes:
    content = io.BytesIO()
    with py7zr.SevenZipFile(
        content, "w", filters=filters, password=password, header_encryption=hide_names
    ) as archive:
        for name, data in files.items():
            archive.writestr(data, name)
    return content.getvalue()


def sorted_out(found: list[ReadDocument | LeftOut]) -> tuple[set[str], dict[str, str]]:
    """The members that were read, and why others were not."""
    read = {one.member for one in found if isinstance(one, ReadDocument)}
    return read, {one.member: one.kind for one in found if isinstance(one, LeftOut)}


@pytest.fixture
def passwords() -> Iterator[Callable[..., None]]:
    yield lambda *known: locked.use_passwords(known, 30.0)
    locked.use_passwords((), 30.0)


@pytest.mark.parametrize("ending", PACKED)
def test_archives_of_tar_are_read_however_they_are_packed(tmp_path: Path, ending: str) -> None:
    content = PACKED[ending](tar(FILES))
    assert sorted_out(opened(tmp_path, f"a{ending}", content)) == (READ, LEFT_OUT)


def test_archives_of_7z_are_read(tmp_path: Path) -> None:
    assert sorted_out(opened(tmp_path, "a.7z", packed_by_7z(FILES))) == (READ, LEFT_OUT)


@pytest.mark.parametrize("name", ["a.7z", "a.tar.xz", "a.tar.zst"])
def test_archives_are_read_in_confinement(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(packed_by_7z(FILES) if name == "a.7z" else PACKED[name[1:]](tar(FILES)))
    with closing(Pool(1, Limits(seconds=120))) as reading:
        outcome = reading.read(path, FORMATS[ending_of(name)])
    assert {document.member for document in outcome.documents} == READ
    assert {part.member: part.kind for part in outcome.left_out} == LEFT_OUT


def test_archives_inside_archives_are_read(tmp_path: Path) -> None:
    inner = {
        "x.tar.gz": gzip.compress(tar({"a.txt": b"The tern."})),
        "y.7z": packed_by_7z({"b.txt": b"The eider."}),
    }
    for name, content in {"a.tar": tar(inner), "b.7z": packed_by_7z(inner)}.items():
        assert sorted_out(opened(tmp_path, name, content)) == ({"x.tar.gz/a.txt", "y.7z/b.txt"}, {})


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("note.txt.gz", gzip.compress),
        ("note.txt.xz", lzma.compress),
        ("note.txt.bz2", bz2.compress),
        ("note.txt.zst", zstd.compress),
    ],
)
def test_a_file_that_is_compressed_alone_is_read(
    tmp_path: Path, name: str, pack: Callable[[bytes], bytes]
) -> None:
    (found,) = opened(
        tmp_path,
        name,
        pack(b"The tern."),
    )
    assert isinstance(found, ReadDocument)
    assert (found.member, found.text) == ("note.txt", "The tern.")


def test_links_devices_and_names_that_lead_out_are_left_out(tmp_path: Path) -> None:
    more = (
        special("link.txt", tarfile.SYMTYPE, "/etc/passwd"),
        special("hard.txt", tarfile.LNKTYPE, "a.txt"),
        special("pipe", tarfile.FIFOTYPE),
        special("folder", tarfile.DIRTYPE),
        special("../out.txt", tarfile.REGTYPE),
        special("/etc/out.txt", tarfile.REGTYPE),
    )
    read, left_out = sorted_out(opened(tmp_path, "a.tar", tar({"./a.txt": b"The tern."}, *more)))
    assert read == {"a.txt"}
    assert left_out == {
        "link.txt": "link",
        "hard.txt": "link",
        "pipe": "unsupported",
        "out.txt": "refused",
        "etc/out.txt": "refused",
    }


@pytest.mark.parametrize(
    ("encoding", "name"), [("cp1252", "Prüfbericht Größe.txt"), ("utf-8", "Größe 资料.txt")]
)
def test_names_in_old_archives_of_tar_are_legible(
    tmp_path: Path,
    encoding: str,
    name: str,
) -> None:
    content = tar(
        {name: b"The tern."},
        form=tarfile.GNU_FORMAT,
        encoding=encoding,
    )
    assert sorted_out(opened(tmp_path, "a.tar", content))[0] == {name}


@pytest.mark.parametrize("hide_names", [False, True])
def test_locked_archives_of_7z_are_opened_by_a_known_password(
    tmp_path: Path, passwords: Callable[..., None], hide_names: bool
) -> None:
    content = packed_by_7z(
        {"a.txt": b"The tern.", "b.txt": b"The eider."}, "secret", hide_names=hide_names
    )
    for known in ((), ("wrong",)):
        passwords(*known)
        with pytest.raises(UnreadableFileError) as closed:
            opened(tmp_path, "a.7z", content)
        assert closed.value.kind == "encrypted"
    passwords("wrong", "secret")
    assert sorted_out(opened(tmp_path, "a.7z", content)) == ({"a.txt", "b.txt"}, {})


@pytest.mark.parametrize("ending", QUICKLY_PACKED)
def test_what_comes_before_a_damage_is_read(tmp_path: Path, ending: str) -> None:
    noise = random.Random(0).randbytes(1_500_000)
    files = {
        "a.txt": b"The tern.",
        "b.txt": noise,
        "c.txt": b"The eider.",
    }
    content = QUICKLY_PACKED[ending](tar(files))
    found = sorted_out(opened(tmp_path, f"a{ending}", content[: len(content) - 500_000]))
    assert found == ({"a.txt"}, {"the rest of the archive": "damaged"})


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.7z", packed_by_7z({"a.txt": b"The tern." * 99})[:120], "damaged"),
        ("a.tar.gz", gzip.compress(tar(FILES))[:40], "damaged"),
        ("a.tar.zst", zstd.compress(tar(FILES))[:60], "damaged"),
        ("a.tar.xz", b"\xfd7zXZ\0" + bytes(50), "damaged"),
        ("a.tar", b"no archive at all " * 99, "damaged"),
        ("a.7z", b"no archive at all", "damaged"),
        ("a.7z", b"", "empty"),
        ("a.tar", tar({}), "empty"),
        ("a.tar", tar({".x": b"y"}), "empty"),
        ("a.7z", packed_by_7z({".x": b"y"}), "empty"),
    ],
    ids=[
        "cut 7z",
        "cut gz",
        "cut zst",
        "cut xz",
        "no tar",
        "no 7z",
        "empty file",
        "empty tar",
        "hidden file in a tar",
        "hidden file in a 7z",
    ],
)
def test_damaged_and_empty_archives_say_so(
    tmp_path: Path, name: str, content: bytes, kind: str
) -> None:
    with pytest.raises(UnreadableFileError) as failed:
        opened(tmp_path, name, content)
    assert failed.value.kind == kind


def test_archives_with_the_ending_of_another_kind_are_read(tmp_path: Path) -> None:
    kinds = {
        "a.zip": packed_by_7z,
        "b.7z": tar,
        "c.tar": lambda files: gzip.compress(tar(files)),
        "d.tgz": tar,
    }
    for name, pack in kinds.items():
        assert sorted_out(opened(tmp_path, name, pack({"a.txt": b"The tern."})))[0] == {"a.txt"}
    zipped = office.zipped({"a.txt": "The tern."})
    assert sorted_out(opened(tmp_path, "e.tar", zipped))[0] == {"a.txt"}


def test_bombs_are_refused(tmp_path: Path) -> None:
    large = {
        "a.txt": b"The tern.",
        "big.txt": bytes(70 * 2**20),
        "b.txt": b"The eider.",
    }
    found = sorted_out(opened(tmp_path, "a.tar.xz", QUICKLY_PACKED[".tar.xz"](tar(large))))
    assert found == ({"a.txt"}, {"big.txt": "too large", "the rest of the archive": "too large"})
    quickly = [{"id": py7zr.FILTER_LZMA2, "preset": 0}]
    found = sorted_out(opened(tmp_path, "a.7z", packed_by_7z(large, filters=quickly)))
    assert found == ({"a.txt", "b.txt"}, {"big.txt": "too large"})
    alone = QUICKLY_PACKED[".tar.gz"](b"x" * 70 * 2**20)
    assert sorted_out(opened(tmp_path, "a.txt.gz", alone)) == (set(), {"a.txt": "too large"})


def test_files_that_are_too_large_are_left_out(tmp_path: Path) -> None:
    limits = ArchiveLimits(member=100)
    files = {
        "a.txt": b"The tern.",
        "b.txt": b"x" * 101,
        "c.txt": b"The eider." * 9,
        "d.txt": b"The gull.",
    }
    tar_findings = TarReader(limits).read(tmp_path / "a.tar", tar(files))
    seven_zip_findings = SevenZipReader(limits).read(tmp_path / "a.7z", packed_by_7z(files))
    for findings in (tar_findings, seven_zip_findings):
        read = set()
        left_out = {}
        for finding in findings:
            if isinstance(finding, LeftOut):
                left_out[finding.member] = finding.kind
            elif isinstance(finding, Member):
                read.add(finding.path)
        assert (read, left_out) == ({"a.txt", "c.txt", "d.txt"}, {"b.txt": "too large"})


def test_members_with_one_name_are_all_read(tmp_path: Path) -> None:
    content = io.BytesIO()
    with py7zr.SevenZipFile(content, "w") as archive:
        for bird in (b"The tern.", b"The eider.", b"The gull."):
            archive.writestr(bird, "a.txt")
    texts = {
        one.text
        for one in opened(tmp_path, "a.7z", content.getvalue())
        if isinstance(one, ReadDocument)
    }
    assert texts == {"The tern.", "The eider.", "The gull."}
