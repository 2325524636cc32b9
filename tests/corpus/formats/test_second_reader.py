"""Each of the two libraries that read office files can take the other's place."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from fixtures import office
from fixtures.errors import unreadable

from engine.core.records import ReadDocument
from engine.corpus.formats import find_reader
from engine.corpus.formats.general import MIME, extract_document
from engine.corpus.formats.opening import read_everything

WORDS = re.compile(r"\w+")
FILES = {
    "docx": office.docx(),
    "xlsx": office.xlsx(),
    "pptx": office.pptx(),
    "doc": office.doc(),
    "xls": office.xls(),
    "ppt": office.ppt(),
    "odt": office.odt(),
    "ods": office.ods(),
    "odp": office.odp(),
    "epub": office.epub(),
    "msg": office.msg(),
    "rtf": office.RTF,
}


def test_every_format_that_xberg_reads_is_among_the_files() -> None:
    # Files of Numbers are read in test_iwork.py.
    assert FILES.keys() == MIME.keys() - {"numbers"}


@pytest.mark.parametrize("format", FILES)
def test_the_second_reader_finds_the_words_that_the_first_finds(format: str) -> None:
    first = next(iter(find_reader(format).read(Path(f"a.{format}"), FILES[format])))
    second, said, lost = extract_document(
        Path(f"a.{format}"),
        FILES[format],
        format,
    )
    assert isinstance(first, ReadDocument)
    assert "pelican" in first.text
    beside = " ".join([*(page.name for page in first.pages), str(said["title"])])
    # fields that are no text of xberg's
    if format == "msg":
        fields = "Subject Harbour plan From To Ada Quay ada harbour example Bo"
    else:
        fields = ""
    assert set(WORDS.findall(first.text)) <= set(WORDS.findall(f"{second.text} {beside} {fields}"))
    assert not lost


def test_a_panic_of_the_second_reader_is_a_reason_like_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import xberg

    class Panic(BaseException):
        """As PyO3 raises it, which is no Exception."""

    def fail(*_: object) -> None:
        raise Panic

    monkeypatch.setattr(xberg, "extract", fail)
    with unreadable("damaged"):
        extract_document(
            Path("a.rtf"),
            office.RTF,
            "rtf",
        )


def test_a_file_that_the_first_reader_cannot_read_is_read_by_the_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import office_oxide

    def fail(*_: object) -> None:
        raise office_oxide.OfficeOxideError("not today")

    monkeypatch.setattr(
        office_oxide, "Document", type("Document", (), {"from_bytes": staticmethod(fail)})
    )
    (tmp_path / "a.docx").write_bytes(office.docx())
    (found,) = read_everything(tmp_path / "a.docx", "docx")
    assert isinstance(found, ReadDocument)
    assert "The pelican boards at dawn." in found.text


def test_a_picture_that_is_missing_costs_a_presentation_nothing(tmp_path: Path) -> None:
    picture = (
        '<p:pic><p:nvPicPr><p:cNvPr id="9" name="x"/><p:cNvPicPr/><p:nvPr/></p:nvPicPr><p:blipFill>'
        '<a:blip r:embed="rId99"'
        ' xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"/></p:blipFill></p:pic>'
    )
    with zipfile.ZipFile(io.BytesIO(office.pptx())) as archive:
        parts: dict[str, str | bytes] = {name: archive.read(name) for name in archive.namelist()}
    slide = parts["ppt/slides/slide1.xml"]
    assert isinstance(slide, bytes)
    parts["ppt/slides/slide1.xml"] = slide.replace(b"</p:spTree>", f"{picture}</p:spTree>".encode())
    assert parts["ppt/slides/slide1.xml"] != slide
    (tmp_path / "a.pptx").write_bytes(office.zipped(parts))
    (found,) = read_everything(tmp_path / "a.pptx", "pptx")
    assert isinstance(found, ReadDocument)
    assert "pelican" in found.text
    assert [page.name for page in found.pages] == ["slide 1", "slide 2"]


PROGRAM = """
import os
import sys
from pathlib import Path
from engine.corpus.formats.general import extract_with_xberg
for path in map(Path, sys.argv[1:]):
    print(path.name, len(extract_with_xberg(path, path.read_bytes(), path.suffix[1:]).content.split()), flush=True)
os._exit(0)  # as reading processes do: threads of xberg can crash while Python shuts down
"""  # noqa: E501


def test_xberg_needs_no_network_and_fetches_nothing(tmp_path: Path) -> None:
    """In a network namespace with nothing in it, and outside the sandbox, which would refuse a
    connection: models for OCR and layouts, which it has for pictures and pages, would have to
    come from somewhere, and to lie in a cache.
    """
    program = shutil.which("unshare")
    if (
        program is None
        or subprocess.run([program, "-n", "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("this user may not make a network namespace (unshare -n)")
    picture = b"\x89PNG\r\n\x1a\n" + bytes(64)
    with zipfile.ZipFile(io.BytesIO(office.docx())) as archive:
        pictured = office.zipped(
            {n: archive.read(n) for n in archive.namelist()} | {"word/media/image1.png": picture}
        )
    files = {
        "a.docx": pictured,
        "a.xlsx": office.xlsx(),
        "a.pptx": office.pptx(),
        "a.doc": office.doc(),
        "a.odt": office.odt(),
        "a.ods": office.ods(),
        "a.odp": office.odp(),
        "a.epub": office.epub(),
        "a.msg": office.msg(),
        "a.rtf": rb"{\rtf1 The pelican boards at dawn.}",
    }
    home = tmp_path / "home"
    home.mkdir()
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    done = subprocess.run(
        [program, "-n", sys.executable, "-c", PROGRAM, *(str(tmp_path / name) for name in files)],
        env=environment
        | {
            "HOME": str(home),
            "TMPDIR": str(home),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    found = dict(line.split() for line in done.stdout.splitlines())
    assert found.keys() == files.keys()
    assert all(int(words) >= 2 for words in found.values())
    assert list(home.iterdir()) == []
