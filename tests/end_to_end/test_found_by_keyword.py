"""What people look for by keyword and must find: names of files, fields before a text."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from fixtures.pipeline import engine_here, ingest_here
from fixtures.project_files import create_project

from engine.core.messages.search import Found, Search
from engine.project.folder import ProjectFolder
from engine.search.searcher import Searcher

Find = Callable[[str], Found]


@pytest.fixture(scope="module")
def searching(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], Find]]:
    """Makes a project of a folder, once, and searches it by keyword."""
    searchers: dict[Path, Searcher] = {}

    def search_in(folder: Path) -> Find:
        if folder not in searchers:
            path = tmp_path_factory.mktemp("searching") / "project"
            project = ProjectFolder.create(path, {"corpus": {"paths": [str(folder)]}})
            read_again(project.path)
            searchers[folder] = Searcher(project)
        searcher = searchers[folder]
        return lambda query: searcher.search(Search(query, "bm25", top=10))

    yield search_in
    for searcher in searchers.values():
        searcher.close()


def read_again(project: Path) -> None:
    ingest_here(project)
    engine_here("index", str(project))


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[dict[str, str]], Path]:
    """A folder of files with these contents, made once."""
    folders: dict[tuple[str, ...], Path] = {}

    def write_folder(files: dict[str, str]) -> Path:
        if tuple(files) not in folders:
            folders[tuple(files)] = tmp_path_factory.mktemp("documents")
            for name, content in files.items():
                (folders[tuple(files)] / name).write_text(content)
        return folders[tuple(files)]

    return write_folder


def paths(result: Found) -> list[str]:
    return [hit.path for hit in result.hits]


NAMES = {
    "Offer_Crane_2031.html": "<title>Our proposal</title><p>We lift it for you.",
    "Call notes Lindner.md": "# Notes\n\nThe caller wants a lower price.",
    "lease_2031-final.txt": "The tenant pays on the third working day.",
}


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("Crane", "Offer_Crane_2031.html"),
        ("Offer_Crane_2031", "Offer_Crane_2031.html"),
        ("Offer_Crane_2031.html", "Offer_Crane_2031.html"),
        ("offer crane 2031", "Offer_Crane_2031.html"),
        ('"Offer Crane"', "Offer_Crane_2031.html"),
        ("Lindner", "Call notes Lindner.md"),
        ("Lindn*", "Call notes Lindner.md"),
        ("Lindner price", "Call notes Lindner.md"),
        ("lease_2031-final", "lease_2031-final.txt"),
        ("lease_2031-final.txt", "lease_2031-final.txt"),
        ("In lease_2031-final.txt: who pays", "lease_2031-final.txt"),
    ],
)
def test_a_file_is_found_by_its_name(
    searching: Callable[[Path], Find],
    folder_of: Callable[[dict[str, str]], Path],
    query: str,
    first: str,
) -> None:
    result = searching(folder_of(NAMES))(query)
    assert paths(result)[0] == first
    assert result.suggestion == ""
    assert not any("No document contains" in note for note in result.notes)


def test_a_file_is_found_by_its_new_name(tmp_path: Path) -> None:
    project = create_project(tmp_path, {"North.txt": "Nothing of note\n\nThe tenant pays."})
    folder = tmp_path / "documents"
    read_again(project.path)
    searcher = Searcher(project)
    assert paths(searcher.search(Search("North", "bm25"))) == ["North.txt"]
    (folder / "North.txt").rename(folder / "South.txt")
    read_again(project.path)
    assert paths(searcher.search(Search("South", "bm25"))) == ["South.txt"]
    assert paths(searcher.search(Search("North", "bm25"))) == []
    searcher.close()


STOP_WORDS = {
    "fleet.txt": (
        "Herr Weber fährt einen neuen MAN für die Spedition. Das Fahrzeug steht am Tor drei und"
        " wird dort von der Werkstatt jede Woche geprüft und gewaschen."
    ),
    "usage.txt": (
        "In der Werkstatt nimmt man die Bremsen ab. Die Fahrer warten so lange im Büro, bis die"
        " Fahrzeuge fertig sind und man sie wieder fahren darf."
    ),
    "help.txt": (
        "Ask Will or Ida about the harbour. The report says that to be or not to be\nis the"
        " question, and nobody knew what the answer to it was."
    ),
    "plan.txt": (
        "Will the crane arrive on Monday? The foreman will know, as he and the driver will meet in"
        " the morning at the gate of the yard."
    ),
    "The Who.txt": (
        "A band from London played in the hall of the harbour and the neighbours of the hall"
        " complained about it."
    ),
}


@pytest.mark.parametrize(
    ("query", "expected", "left_out"),
    [
        ('"to be or not to be"', ["help.txt"], "to, be, or, not"),
        ("to be or not to be", ["help.txt"], "to, be, or, not"),
        ("To Be or Not to Be", ["help.txt"], "To, Be, or, Not"),
        ("MAN", ["fleet.txt"], "MAN"),
        ("man", ["usage.txt"], "man"),
        ("Will", ["help.txt", "plan.txt"], "Will"),  # not as the beginning of a sentence first
        ("not for", [], "not, for"),
    ],
)
def test_a_query_of_stop_words_finds_what_it_can_and_says_what_is_left_out(
    searching: Callable[[Path], Find],
    folder_of: Callable[[dict[str, str]], Path],
    query: str,
    expected: list[str],
    left_out: str,
) -> None:
    result = searching(folder_of(STOP_WORDS))(query)
    assert paths(result) == expected
    assert result.notes[0].startswith(f"{left_out} ")
    assert "stop word" in result.notes[0]
    assert all(hit.marks for hit in result.hits)


@pytest.mark.parametrize(
    ("query", "expected", "noted"),
    [
        ("DE 811 907 980", "vat.txt", False),
        ("IT60X0542811101000000123456", "bank.txt", False),
        ("DE811907981", "", True),
        ("IT77X0542811101000000123457", "", True),
    ],
)
def test_numbers_that_begin_with_a_stop_word_are_looked_for_as_numbers(
    searching: Callable[[Path], Find],
    folder_of: Callable[[dict[str, str]], Path],
    query: str,
    expected: str,
    noted: bool,
) -> None:
    texts = {
        "vat.txt": "Our number is DE 811 907 980, as it was, and the goods were sent to the yard.",
        "bank.txt": "Paid to IT60 X054 2811 1010 0000 0123 456 for the repair of the crane.",
        "es.txt": "El informe de la comision es de los vecinos y de las empresas de la ciudad.",
        "en.txt": "It is said that it was the harbour that they would have to leave.",
    }
    result = searching(folder_of(texts))(query)
    assert list(result.notes) == [f"No document contains {query}."] * noted
    if expected:
        assert result.hits[0].path == expected


@pytest.mark.parametrize("query", ["Werkstatt man", "harbour", "zebra"])
def test_no_note_mentions_stop_words_of_a_query_with_other_words(
    searching: Callable[[Path], Find], folder_of: Callable[[dict[str, str]], Path], query: str
) -> None:
    result = searching(folder_of(STOP_WORDS))(query)
    assert not any("stop word" in note for note in result.notes)


def test_files_with_the_same_text_take_one_place(
    searching: Callable[[Path], Find], tmp_path: Path
) -> None:
    folder = tmp_path / "documents"
    (folder / "old").mkdir(parents=True)
    for name in ("lease.txt", "old/lease.txt", "lease (1).md"):
        (folder / name).write_text("The tenant of the pier pays monthly.")
    (folder / "other.txt").write_text("The tenant of the pier pays monthly.\n\nNobody else does.")
    search = searching(folder)
    result = search("tenant pier")
    assert sorted(hit.copies for hit in result.hits) == [1, 3]
    assert len(result.hits) == 2
    assert {hit.path for hit in result.hits if hit.copies == 1} == {"other.txt"}
    (folder / "old/lease.txt").unlink()  # before the next run
    assert sorted(hit.copies for hit in search("tenant pier").hits) == [1, 2]


@pytest.mark.shared
@pytest.mark.parametrize(
    ("fault", "queries"),
    [
        (
            "01-xlsx-number-formats",
            {
                "7.25": "clean.xlsx",
                "1234.56": "clean.xlsx",
                "01067": "clean.xlsx",
                "PN-00042": "clean.xlsx",
                "012-34-5678": "clean.xlsx",
                "5551234567": "clean.xlsx",
                "(555) 123-4567": "clean.xlsx",
                '"72.5 kg"': "clean.xlsx",
                '"12 pcs"': "clean.xlsx",
                "7.5%": "clean.xlsx",
            },
        ),
        (
            "02-symbol-fonts",
            {"kΩ": "sentence.docx", '"25 μm"': "sentence.docx", '"25 µm"': "sentence.docx"},
        ),
        (
            "03-footnote-marks",
            {
                "warranty": "uni.txt",
                "gearbox": "uni.txt",
                "couplings": "uni.txt",
                "guarantee": "foot.md",
                "ratchet": "foot.md",
                "surety": "sup.html",
                "bearings": "sup.html",
                "collateral": "supdocx.docx",
                "flywheel": "supdocx.docx",
                "sprocket": "supdocx.docx",
                "termination": "superscript.pdf",
                "indemnity": "superscript.pdf",
            },
        ),
        (
            "05-suspended-hyphen",
            {
                "Kunden": "de_und.pdf",
                "Lieferantendaten": "de_und.pdf",
                "Sach": "de_oder.pdf",
                "Haupt": "de_oder.pdf",
                "Nebenkosten": "de_oder.pdf",
                "short": "en_and.pdf",
                "audit": "en_and.pdf",
                "vracht": "nl_en.pdf",
                '"vracht- en verzendkosten"': "nl_en.pdf",
            },
        ),
        (
            "07-mail-raw-headers",
            {
                "Türschließer": "a_rawutf8_utf8body.eml",
                "Brücke": "b_rawcp1252.eml",
                "Bruecke": "b_rawcp1252.eml",
                "Übergabeprotokoll": "c_rawattname.eml",
                "Küche": "raw8subject.eml",
                "Käse": "t_mixedmbox.mbox",
                "Überweisung": "t_mixedmbox.mbox",
            },
        ),
        (
            "10-amounts",
            {
                "9,90": "r1.txt",
                "9.90": "r1.txt",
                "19,90": "r2.txt",
                "12.750,00": "big1.txt",
                "12750": "big3.txt",
            },
        ),
        (
            "14-rtf-mid-word",
            {
                "interlocking": "b_toggle.rtf",
                "PX-4411": "a_word_runs.rtf",
                "Kranführer": "a_word_runs.rtf",
                "Brücke": "c_umlaut_uni.rtf",
                "Straße": "c_umlaut_uni.rtf",
                "sic": "d_punct.rtf",
                "contractual": "e_bookmark.rtf",
                "spellcheck": "e_bookmark.rtf",
                "12a": "f_link.rtf",
                "overflow": "groups.rtf",
                "underline": "groups.rtf",
            },
        ),
        (
            "15-xlsx-escapes",
            {"Under_score": "cells.xlsx", '"Line one line two"': "cells.xlsx"},
        ),
        (
            "04-file-names",
            {
                "Kranbau": "Angebot_Kranbau_2031.docx",
                "Angebot_Kranbau_2031": "Angebot_Kranbau_2031.docx",
                "Lindner": "Gespraechsnotiz Lindner.md",
                "Gespraechsnotiz Lindner.md": "Gespraechsnotiz Lindner.md",
                "Nordhafen": "Kaufvertrag_Nordhafen.pdf",
                "Kaufvertrag_Nordhafen.pdf": "Kaufvertrag_Nordhafen.pdf",
                "Rechnung 4711 Meyer": "Rechnung 4711 Meyer.pdf",
                "4711": "Rechnung 4711 Meyer.pdf",
                "Kowalski": "Stundenzettel Kowalski.xlsx",
                "Aufzug": "Wartungsvertrag Aufzug.docx",
                "Finanzamt": "brief_an_finanzamt.html",
                "lease_2031-final": "lease_2031-final.txt",
            },
        ),
        (
            "09-front-matter",
            {
                "Nordwindwerke": "note.md",
                "PX-7719": "note.md",
                "frostschutz": "note.md",
                "Hafenbesuch": "note.md",
                "corroded spindle": "note.md",
                "Ida": "note.md",
                "Lindqvist": "num.md",
                "48151": "num.md",
                "Onlyfrontword": "onlyfront.md",
                "lubricant": "onlyfront.md",
                "Tomlkunde": "toml.md",
            },
        ),
        (
            "13-stop-words",
            {
                '"to be or not to be"': "help.txt",
                "MAN": "fuhrpark.txt",
                "Will": "help.txt",
                "IT": "fuhrpark.txt",
            },
        ),
        (
            "19-short-umlauts",
            {
                "Köln": "umlaut_oe.txt",
                "Mülheim": "umlaut_oe.txt",
                "Größe": "umlaut_oe.txt",
                "Stroessner": "umlaut_o.txt",
                "Duesseldorf": "umlaut_o.txt",
                '"Herr Stroessner"': "umlaut_o.txt",
            },
        ),
    ],
)
def test_the_files_of_others_are_found(
    searching: Callable[[Path], Find],
    shared_data: Path,
    tmp_path: Path,
    fault: str,
    queries: dict[str, str],
) -> None:
    shutil.copytree(shared_data / "faults" / fault / "docs", tmp_path / "documents")
    search = searching(tmp_path / "documents")
    first = {query: search(query).hits[0].path for query in queries if search(query).hits}
    assert {query: path.partition("/")[0] for query, path in first.items()} == queries
    notes = [note for query in queries for note in search(query).notes]
    assert [note for note in notes if "No document contains" in note] == []


@pytest.mark.shared
@pytest.mark.parametrize("name", ["land90.pdf", "land270.pdf"])
def test_the_words_of_a_turned_page_of_others_are_found(
    searching: Callable[[Path], Find], shared_data: Path, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    shutil.copy(shared_data / "faults/06-rotated-page/docs" / name, folder)
    search = searching(folder)
    for query in ("elevator", "freight", "landscape", '"freight elevator"', '"height 500"'):
        assert paths(search(query)) == [name]


@pytest.mark.shared
def test_lock_files_of_others_are_left_out(shared_data: Path, tmp_path: Path) -> None:
    project = ProjectFolder.create(
        tmp_path / "project",
        {"corpus": {"paths": [str(shared_data / "faults/18-owner-files/docs")]}},
    )
    ingest_here(project.path)
    with closing(project.store()) as store:
        assert [(row.path, row.state) for row in store.ledger()] == [("Angebot.docx", "read")]
