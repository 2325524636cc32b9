"""Notebooks, notes and pages as Jupyter, Evernote and Safari save them."""

from __future__ import annotations

import json
import plistlib
from base64 import encodebytes
from pathlib import Path

import pytest
from fixtures.errors import unreadable
from fixtures.read_files import only, opened

from engine.core.records import ReadDocument
from engine.corpus.formats import LeftOut

PICTURE = "iVBORw0KGgo" * 50


def test_texts_code_and_printed_results_of_a_notebook_are_read(tmp_path: Path) -> None:
    outputs = [
        {"output_type": "stream", "text": ["mean 4711\n"]},
        {"output_type": "display_data", "data": {"image/png": PICTURE}},
        {"output_type": "execute_result", "data": {"text/plain": ["42"], "text/html": "<b>42"}},
        {"output_type": "error", "traceback": ["\u001b[31mError"]},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# Pump *tests*\n", "The inter**lock**."]},
        {"cell_type": "code", "source": "# no heading\nrun()", "outputs": outputs},
        {"cell_type": "code", "source": [], "outputs": []},
    ]
    found = only(opened(tmp_path, "a.ipynb", json.dumps({"cells": cells}).encode()))
    fence = "`" * 8
    assert (found.title, found.format) == ("Pump tests", "ipynb")
    assert [heading.title for heading in found.headings] == ["Pump tests"]
    assert found.text == (
        f"# Pump *tests*\nThe interlock.\n\n{fence}\n# no heading\nrun()\n{fence}\n\n"
        f"{fence}\nmean 4711\n{fence}\n\n{fence}\n42\n{fence}"
    )


def test_an_old_notebook_is_read(tmp_path: Path) -> None:
    cell = {
        "cell_type": "code",
        "input": "run()",
        "outputs": [{"text": "4711"}],
    }
    source = json.dumps({"nbformat": 3, "worksheets": [{"cells": [cell]}]})
    text = only(opened(tmp_path, "a.ipynb", source.encode())).text
    assert [line for line in text.split("\n") if line.isalnum() or "(" in line] == ["run()", "4711"]


@pytest.mark.parametrize("source", [b"{", b"[1]", b'{"cells": [1]}', b"[" * 100_000])
def test_what_is_no_notebook_is_damaged(tmp_path: Path, source: bytes) -> None:
    with unreadable("damaged"):
        opened(tmp_path, "a.ipynb", source)


NOTES = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE en-export SYSTEM "http://xml.evernote.com/pub/evernote-export3.dtd">
<en-export><note><title>Kai &amp; Kran</title><content><![CDATA[<?xml version="1.0"?>
<!DOCTYPE en-note SYSTEM "http://xml.evernote.com/pub/enml2.dtd">
<en-note><div>Der Kran <b>dreht</b></div><div>nicht.</div></en-note>]]></content>
<created>20310304T050607Z</created><tag>Hafen</tag><tag>Kran</tag>
<note-attributes><author>Ada</author></note-attributes>
<resource><data encoding="base64">{picture}</data><mime>image/png</mime></resource>
<resource><data encoding="base64">{text}</data><mime>text/plain</mime>
<resource-attributes><file-name>plan.txt</file-name></resource-attributes></resource>
</note><note><title></title><content>&lt;en-note&gt;Zwei&lt;/en-note&gt;</content></note>
</en-export>"""


def test_notes_of_evernote_are_documents_with_their_files(tmp_path: Path) -> None:
    packed = encodebytes(b"The pelican " * 20).decode()
    source = NOTES.format(picture=encodebytes(bytes(9999)).decode(), text=packed)
    found = opened(
        tmp_path,
        "a.enex",
        source.encode(),
    )
    note, file, other = [one for one in found if isinstance(one, ReadDocument)]
    assert len(found) == 3
    assert (note.member, note.title, note.author) == ("Kai & Kran", "Kai & Kran", "Ada")
    assert (note.tags, note.created, note.format) == ("Hafen, Kran", 1930367167.0, "enex")
    assert note.text == "Kai & Kran\n\nDer Kran dreht\n\nnicht."
    assert (file.member, file.text.split()[:2]) == ("Kai & Kran/plan.txt", ["The", "pelican"])
    assert (other.member, other.text) == ("note 2", "Zwei")


def test_files_of_a_note_without_a_name_or_with_damaged_data_lose_nothing_else(
    tmp_path: Path,
) -> None:
    unnamed = "<resource><data>VGhlIGhlcm9u</data><mime>text/plain</mime></resource>"
    damaged = "<resource><data>ü</data><mime>application/pdf</mime></resource>"
    note = f"<note><title>Kai</title><content>Eins</content>{damaged}{unnamed}</note>"
    found = opened(
        tmp_path,
        "a.enex",
        f"<en-export>{note}</en-export>".encode(),
    )
    documents = [one for one in found if isinstance(one, ReadDocument)]
    assert [(one.member, one.text) for one in documents] == [
        ("Kai", "Kai\n\nEins"),
        ("Kai/attachment.txt", "The heron"),
    ]
    (left,) = [one for one in found if isinstance(one, LeftOut)]
    assert (left.member, left.kind) == ("Kai/attachment.pdf", "empty")


@pytest.mark.parametrize(
    ("source", "kind"), [(b"no XML", "damaged"), (b"<en-export><note/></en-export>", "empty")]
)
def test_an_export_without_notes_says_why(
    tmp_path: Path,
    source: bytes,
    kind: str,
) -> None:
    with unreadable(kind):
        opened(tmp_path, "a.enex", source)


@pytest.mark.parametrize("encoding", ["UTF-8", "windows-1252", ""])
@pytest.mark.parametrize("format", [plistlib.FMT_BINARY, plistlib.FMT_XML])
def test_a_page_saved_by_safari_is_read(
    tmp_path: Path, encoding: str, format: plistlib.PlistFormat
) -> None:
    page = "<title>Pr\u00fcfung</title><p>Der Kai \u00fcber Nacht</p>".encode(encoding or "utf-8")
    resource = {"WebResourceData": page, "WebResourceTextEncodingName": encoding}
    source = plistlib.dumps({"WebMainResource": resource}, fmt=format)
    found = only(opened(tmp_path, "a.webarchive", source))
    assert (found.title, found.text) == ("Pr\u00fcfung", "Der Kai \u00fcber Nacht")


@pytest.mark.parametrize(
    "source",
    [
        b"bplist00",
        b"<plist><dict/></plist>",
        plistlib.dumps([1]),
        plistlib.dumps({}).replace(b"UTF-8", b"zTF-8"),
        b"text",
    ],
)
def test_what_is_no_page_of_safari_is_damaged(tmp_path: Path, source: bytes) -> None:
    with unreadable("damaged"):
        opened(tmp_path, "a.webarchive", source)
