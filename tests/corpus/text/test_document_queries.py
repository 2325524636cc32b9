"""Queries that documents hold: what is one, of which origin, where it stands, and what answers
it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fixtures.pipeline import ingest_here
from fixtures.project_files import create_project

from engine.core.records import Chunk, DocumentQuery, Heading, ReadDocument
from engine.corpus.formats import find_reader
from engine.corpus.text.document_queries import document_queries, folded_words, queries_in
from engine.project.folder import ProjectFolder

BODY = "Boats that stay longer than a night pay for each further night in advance."
Found = list[tuple[str, str]]


def chunks_of(text: str, size: int) -> list[Chunk]:
    starts = range(
        0,
        max(1, len(text)),
        size,
    )
    pieces = [(start, text[start : start + size]) for start in starts]
    return [
        Chunk(7, n, at, at + len(piece), piece, (), 3, piece, "h", 100 + n)
        for n, (at, piece) in enumerate(pieces)
    ]


def queries(
    read: ReadDocument,
    path: str,
    size: int = 10_000,
) -> list[DocumentQuery]:
    """The queries of a document that is cut into chunks of so many characters, with the ids 100,
    101 and so on.
    """
    found = queries_in(
        read,
        path,
        chunks_of(read.text, size),
    )
    for query in found:
        assert (query.document_id, query.written_in) == (7, 7)
        assert query.start < 0 or folded_words(read.text[query.start : query.end]) == folded_words(
            query.text
        )
    return found


def of_file(
    tmp_path: Path,
    name: str,
    content: str,
    size: int = 10_000,
) -> list[DocumentQuery]:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    (read,) = find_reader({"htm": "html"}.get(path.suffix[1:], path.suffix[1:])).read(path)
    assert isinstance(read, ReadDocument)
    return queries(read, name, size)


def pairs(found: list[DocumentQuery], *origins: str) -> Found:
    return [(query.origin, query.text) for query in found if not origins or query.origin in origins]


@pytest.mark.parametrize(
    ("name", "content", "title", "place"),
    [
        ("a.html", f"<title>Berths for visitors</title><p>{BODY}", "Berths for visitors", (-1, -1)),
        (
            "a.html",
            f"<title>Berths for visitors</title><h1>BERTHS for\nvisitors</h1><p>{BODY}",
            "Berths for visitors",
            (0, 19),
        ),
        ("a.md", f"# Berths for visitors\n\n{BODY}", "Berths for visitors", (2, 21)),
        ("a.txt", f"Berths for visitors\n===\n{BODY}", "Berths for visitors", (0, 19)),
        ("a.txt", f"- Berths for visitors\n\n{BODY}", "Berths for visitors", (2, 21)),
        (
            "a.html",
            f"<title>• – Berths for visitors</title><p>{BODY}",
            "Berths for visitors",
            (-1, -1),
        ),
        ("a.txt", f"Liegeplätze für Gäste\n\n{BODY}", "Liegeplätze für Gäste", (0, 21)),
        (
            "a.html",
            f"<title>港湾の使用料について</title><p>{BODY}",
            "港湾の使用料について",
            (-1, -1),
        ),
    ],
)
def test_titles(
    tmp_path: Path, name: str, content: str, title: str, place: tuple[int, int]
) -> None:
    (query,) = of_file(tmp_path, name, content)
    assert (query.origin, query.text, query.chunk_id, query.start, query.end) == (
        "title",
        title,
        None,
        *place,
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (
            "berths-visitors.txt",
            f"Boats that stay longer\nthan a night pay.\n{BODY}",
        ),  # the beginning of a sentence
        ("berths-visitors.txt", f"Boats pay for nights.\n\n{BODY}"),
        ("berths-visitors.html", f"<title>Berths visitors</title><p>{BODY}"),  # the file's name
        ("berths-visitors.csv", "pier,berth\nnorth,1\nsouth,2\n"),
        *(
            ("a.html", f"<title>{title}</title><p>{BODY}")
            for title in (
                "Untitled document",
                "Microsoft Word - Berths for visitors",
                "Slide 1",
                "Berths",
                "The of for",
                "berths for visitors.docx",
                "=?utf-8?Q?Berths for?=",
                "berths_for_visitors",
            )
        ),
        (
            "a.html",
            "<title>Berths for visitors</title><p>Berths for visitors</p>",
        ),  # nothing is left to be found
    ],
)
def test_what_is_no_title(
    tmp_path: Path,
    name: str,
    content: str,
) -> None:
    assert pairs(of_file(tmp_path, name, content)) == []


@pytest.mark.parametrize(
    ("name", "content", "kept"),
    [
        ("how-to-change-oil.md", f"# How to change oil\n\n{BODY}", ("title", "How to change oil")),
        (
            "how-to-change-oil.html",
            f"<title>How to change oil</title><h1>How to change oil</h1>{BODY}",
            ("title", "How to change oil"),
        ),
        (
            "2024-berths-for-visitors.txt",
            f"Berths for visitors\n\n{BODY}",
            ("title", "Berths for visitors"),
        ),
        (
            "berths-for-visitors.md",
            f"---\ntitle: Harbour\n---\n## Berths for visitors\n{BODY}",
            ("heading", "Berths for visitors"),
        ),
        (
            "how-to-change-oil.html",
            f"<title>How to change oil</title><p>{BODY} How to change oil.",
            None,
        ),
    ],
)
def test_what_an_author_wrote_counts_though_the_file_is_called_so(
    tmp_path: Path, name: str, content: str, kept: tuple[str, str] | None
) -> None:
    found = of_file(tmp_path, name, content)
    assert pairs(found) == ([] if kept is None else [kept])


@pytest.mark.parametrize(
    ("subject", "asked"),
    [
        ("Re: AW: Berths for visitors", "Berths for visitors"),
        ("Fwd: [harbour] RE: [#1234] Berths for visitors", "Berths for visitors"),
        ("[JIRA-12] Berths for visitors", "Berths for visitors"),
        ("HARB-12: Berths for visitors (#99)", "Berths for visitors"),
        ("Re[2]: Ticket #4711: Berths for visitors", "Berths for visitors"),
        ("Antw: Regatta: berths for visitors", "Regatta: berths for visitors"),
        ("Re: Berths", None),
        ("Re: [#1234]", None),
    ],
)
def test_subjects(
    tmp_path: Path,
    subject: str,
    asked: str | None,
) -> None:
    found = of_file(
        tmp_path,
        "a.eml",
        f"Subject: {subject}\nFrom: a@b.example\n\n{BODY}\n\nWho will pay for this?\n\n{BODY}",
    )
    assert pairs(found) == ([] if asked is None else [("subject", asked)])
    assert all(query.chunk_id is None and query.start > 0 for query in found)


HEADINGS = f"""\
# Harbour manual for guests

## 3.2 Berths for visitors
{BODY}

## Berths
{BODY}

## Fees by length

## Lights and signals
{BODY}

## Lights and signals
{BODY}

## Wind *and* weather
{BODY}
"""


def test_headings_lead_to_the_chunk_below_them(tmp_path: Path) -> None:
    title, berths, wind = of_file(
        tmp_path,
        "a.md",
        HEADINGS,
        64,
    )
    assert pairs([title, berths, wind]) == [
        ("title", "Harbour manual for guests"),
        ("heading", "Berths for visitors"),  # not one word, nothing below it, or twice
        ("heading", "Wind and weather"),
    ]
    assert (title.chunk_id, berths.chunk_id) == (None, 100)
    assert HEADINGS[berths.start : berths.end] == berths.text
    assert HEADINGS[wind.start : wind.end] == "## Wind *and* weather"
    assert wind.chunk_id == 100 + HEADINGS.index(BODY, wind.start) // 64


@pytest.mark.parametrize("before", ["- ", "3.2 ", "- 1. "])
def test_a_heading_has_no_marker_of_a_list_and_no_number(before: str) -> None:
    text = f"{before}Berths for visitors: …\n{BODY}"
    read = ReadDocument(
        "",
        text,
        (Heading(0, 1, f"{before}Berths for visitors: …"),),
    )
    assert pairs(queries(read, "a.md"), "heading") == [("heading", "Berths for visitors: …")]


def test_a_heading_has_its_place_where_it_takes_two_lines_or_another_case() -> None:
    text = f"{BODY}\n2 BERTHS FOR VISITORS\nby length of boat\n{BODY}"
    start = text.index("2 BERTHS")
    read = ReadDocument(
        "a", text, headings=(Heading(start, 1, "2 Berths for visitors by length of boat"),)
    )
    (found,) = queries(read, "a.pdf", 40)
    assert (found.text, text[found.start : found.end]) == (
        "Berths for visitors by length of boat",
        "BERTHS FOR VISITORS\nby length of boat",
    )


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        (f"{BODY}\n\nWho pays for the berth?\n\n{BODY}", "Who pays for the berth?"),
        (f"{BODY}\n\n**Who pays for the berth?**\n{BODY}", "Who pays for the berth?"),
        (f"{BODY}\nQ: Who pays for the berth?\nA: {BODY}", "Who pays for the berth?"),
        (f"{BODY}\nFrage 3: Wer zahlt den Liegeplatz?\n{BODY}", "Wer zahlt den Liegeplatz?"),
        (f"{BODY}\n3. Who pays for the berth?\n{BODY}", "Who pays for the berth?"),
        (f"{BODY}\n\n¿Quién paga el amarre?\n\n{BODY}", "¿Quién paga el amarre?"),
        (f"{BODY}\n\n誰が停泊料を払いますか？\n\n{BODY}", "誰が停泊料を払いますか？"),
        (f"{BODY}\nWho pays for the berth?\n{BODY}", None),  # in the midst of a paragraph
        (f"{BODY}\n\nand who pays for the berth?\n\n{BODY}", None),
        (f"{BODY}\n\n“Who pays for the berth?”\n\n{BODY}", None),  # somebody says it
        (f"{BODY}\n\nIt is late. Who pays for the berth?\n\n{BODY}", None),
        (f"{BODY}\n\nWho pays for the berth?\n\nWho pays for the other berth at the pier?", None),
        (f"{BODY}\n\nWho pays for the berth?\n\nYes.", None),
        (f"{BODY}\n\nWho pays for the berth?", None),
        (f"{BODY}\n\nReally?\n\n{BODY}", None),
    ],
)
def test_questions_with_an_answer(text: str, asked: str | None) -> None:
    found = queries(
        ReadDocument("a", text),
        "a.txt",
        30,
    )
    assert pairs(found) == ([] if asked is None else [("faq", asked)])
    assert all(
        query.chunk_id == 100 + text.index(BODY, query.end) // 30
        for query in found
        if "A: " not in text
    )


def test_a_heading_that_asks_is_one_question(tmp_path: Path) -> None:
    found = of_file(
        tmp_path,
        "a.md",
        f"{BODY}\n## 2. Who pays for the berth?\n{BODY}",
    )
    assert pairs(found) == [("faq", "Who pays for the berth?")]


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("Figure 3: Berths at the northern pier. The tide is low.", "Berths at the northern pier"),
        ("Fig. 3.2 Berths at the pier", None),  # may be a sentence
        ("Table 2 – Fees by length of the boat", "Fees by length of the boat"),
        ("**Table A.** Fees by length", None),
        (
            "**Table 2.** Fees by length\nof the boat, for a night",
            "Fees by length of the boat, for a night",
        ),
        ("Abbildung 4: Liegeplätze am Nordkai", "Liegeplätze am Nordkai"),
        ("Tableau 1 - Tarifs par longueur", "Tarifs par longueur"),
        ("図1：港の地図と桟橋", "港の地図と桟橋"),
        ("Figure 3 shows the berths at the pier.", None),
        ("Figure 3: Berths at the pier ........ 12", None),  # a list of figures
        ("Figure 3: Berths", None),
    ],
)
def test_captions(line: str, asked: str | None) -> None:
    found = queries(
        ReadDocument("a", f"{BODY}\n\n{line}\n\n{BODY}"),
        "a.txt",
        40,
    )
    assert pairs(found) == ([] if asked is None else [("caption", asked)])
    assert all(query.chunk_id == 101 for query in found)


def test_what_a_page_marks_as_captions_and_terms(tmp_path: Path) -> None:
    page = f"""<p>{BODY}<figure><img src=a.png alt="Not shown here">
        <figcaption>Berths at the <b>northern</b> pier</figcaption></figure>
        <table><caption>Table 2: Fees by length</caption><tr><td>1<td>2<tr><td>3<td>4</table>
        <dl><dt>Mooring</dt><dd>{BODY}</dd><dt>42</dt><dd>{BODY}</dd></dl>"""
    assert sorted(pairs(of_file(tmp_path, "a.html", page))) == [
        ("caption", "Berths at the northern pier"),
        ("caption", "Fees by length"),
        ("glossary", "Mooring"),
    ]


def test_what_markdown_marks_as_captions_and_terms(tmp_path: Path) -> None:
    text = f"{BODY}\n\n![Berths at the pier](pier.png) ![pier](a.png)\n\nMooring line\n: {BODY}\n"
    found = [("caption", "Berths at the pier"), ("glossary", "Mooring line")]
    assert pairs(of_file(tmp_path, "a.md", text)) == found


GLOSSARY = f"""\
## Rules
Mooring: {BODY}

## 7 Definitions
- **Mooring** – a rope by which a boat is tied.
Berth: the place where a boat lies at a pier.
“Visitor” means who has no berth of his own.
Sea: salt.
http://harbour.example/manual: see there
A boat that lies here for more than seven nights: it pays more.

### M to Z
Pier: what boats lie at, made of stone.

## Fees
Night: {BODY}
"""


def test_the_terms_of_a_glossary(tmp_path: Path) -> None:
    terms = [("glossary", term) for term in ("Mooring", "Berth", "Visitor", "Pier")]
    assert pairs(of_file(tmp_path, "a.md", GLOSSARY), "glossary") == terms
    whole = "Mooring: a rope by which a boat is tied.\nBerth: the place where a boat lies.\n"
    assert pairs(of_file(tmp_path, "harbour-glossary.txt", whole), "glossary") == terms[:2]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return create_project(tmp_path).path


def held(project: Path) -> list[tuple[str, str, str, str]]:
    """Ingest, and all queries: origin, text, the document that answers, the document that holds
    the text.
    """
    ingest_here(project)
    store = ProjectFolder.open(project).store()
    paths = {document.id: document.path for document in store.documents()}
    live = {chunk.id: chunk.document_id for chunk in store.chunks()}
    found = document_queries(store)
    store.close()
    assert all(
        query.id and live.get(query.chunk_id or 0, query.document_id) == query.document_id
        for query in found
    )
    return [
        (query.origin, query.text, paths[query.document_id], paths[query.written_in])
        for query in found
    ]


def test_links_lead_to_documents_of_the_project(project: Path) -> None:
    documents = project.parent / "documents"
    (documents / "sub").mkdir()
    (documents / "index.html").write_text(
        f"""<p>{BODY} <a href="sub/fees.html#top">What a <i>night</i> costs</a> <a href="sub/fees.html">click here</a>
        <a href="https://harbour.example/a.md">The harbour's own page</a> <a href="gone.md">A page that is gone</a>
        <a href="index.html">All about this page</a> <a href="mailto:a@b.example">Write to us</a> <a name=x>No link at all</a>
        <nav><a href="/sub/fees">Fees for guests</a></nav>"""  # noqa: E501
    )
    (documents / "sub" / "fees.html").write_text(
        f'<p>{BODY} <a href="../a%20b.md">Lights of the harbour</a>'
    )
    (documents / "a b.md").write_text(
        f"{BODY} See [what a night costs](sub/fees.html 'Fees') and [it](index.html)."
    )
    fees = "sub/fees.html"
    lights = "a b.md"
    assert held(project) == [
        ("link", "what a night costs", fees, lights),  # the other says the same
        ("link", "Fees for guests", fees, "index.html"),
        ("link", "Lights of the harbour", lights, fees),
    ]
    (documents / "sub" / "fees.html").rename(documents / "sub" / "fees for a single night.html")
    assert held(project) == [
        ("link", "Lights of the harbour", lights, "sub/fees for a single night.html"),
    ]


def test_what_many_passages_would_answer_is_no_query(project: Path) -> None:
    documents = project.parent / "documents"
    for number in range(4):
        text = f"## Fees by length\n{BODY} {number}\n"
        (documents / f"{number}.md").write_text(
            text + (f"## Lights and signals\n{BODY}" if number else "")
        )
    found = held(project)
    assert [query[:3] for query in found] == [
        ("heading", "Lights and signals", f"{number}.md") for number in (1, 2, 3)
    ]
    (documents / "0.md").unlink()
    assert len(held(project)) == 6
    (documents / "1.md").write_text(f"## Wind and weather\n{BODY}")
    assert [query[1:3] for query in held(project)][:1] == [("Wind and weather", "1.md")]


def test_the_titles_of_a_beir_data_set(project: Path) -> None:
    rows = [
        ("a", "Berths for visitors", BODY),
        ("b", "", BODY),
        ("c", "Fees by length", f"fees by length . {BODY}"),
        ("d", "Only a title", ""),
    ]
    lines = (json.dumps({"_id": key, "title": title, "text": text}) for key, title, text in rows)
    (project.parent / "documents" / "corpus.jsonl").write_text("\n".join(lines))
    assert [query[:3] for query in held(project)] == [
        ("title", "Berths for visitors", "corpus.jsonl#a"),
        ("title", "Fees by length", "corpus.jsonl#c"),
    ]


def test_the_title_that_the_entries_of_an_article_share_has_one_answer_however_many_they_are(
    project: Path,
) -> None:
    lines = (
        json.dumps({"_id": str(n), "title": "Berths for visitors", "text": f"{BODY} {n}"})
        for n in range(6)
    )
    (project.parent / "documents" / "corpus.jsonl").write_text("\n".join(lines))
    assert [query[1:3] for query in held(project)] == [
        ("Berths for visitors", f"corpus.jsonl#{n}") for n in range(6)
    ]
