"""What a user types: operators, hits by document, by date and like a document, codes, and
spelling.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from fixtures.found import build_hit
from hypothesis import given
from hypothesis import strategies as st

from engine.core.dates import day
from engine.core.disk import write_text
from engine.core.errors import NotBuiltError
from engine.core.messages.search import MODES, Found, Search
from engine.lexical.index import LexicalIndex
from engine.lexical.vocabulary import Vocabulary
from engine.project.store.artifact_info import LexicalInfo
from engine.project.store.artifacts import Artifact
from engine.search.listing import describe_dates, sort_newest_first
from engine.search.loaded import LoadedProject
from engine.search.searcher import Searcher
from engine.search.syntax import Clause, ParsedQuery, parse, plain_text, respell_query
from engine.search.typed import TypedQueries


@pytest.mark.parametrize(
    ("typed", "text", "clauses"),
    [
        ('lease "exact  phrase" -draft', "lease exact  phrase ", ['"exact  phrase"', "-draft"]),
        ("“force majeure” contr*", "force majeure contr", ['"force majeure"', "contr*"]),
        ('-"old draft" -PHX-122 e-mail*', "  e-mail", ["e-mail*", '-"old draft"', "-PHX-122"]),
        (
            "„höhere Gewalt“ »net profit«",
            "höhere Gewalt net profit",
            ['"höhere Gewalt"', '"net profit"'],
        ),
        (
            "« force majeure » ”net profit”",
            " force majeure  net profit",
            ['" force majeure "', '"net profit"'],
        ),
        ("-「契約書」 title:＂net profit＂ rent", "  rent", ['-"契約書"', 'title:"net profit"']),
        ("Home » Lamps » Desks", "Home » Lamps » Desks", []),
        ("*vertrag (*miete) -*kosten", "vertrag (miete) ", ["*vertrag", "*miete", "-*kosten"]),
        (" *miete* ", " miete ", ["*miete*"]),
        ("it is *really* late", "it is really late", []),
        ("title:*vertrag *report. x", " report. x", ["*report", "title:*vertrag"]),
    ],
)
def test_operators(
    typed: str,
    text: str,
    clauses: list[str],
) -> None:
    query = parse(typed)
    assert (query.text, [*map(str, query.clauses)]) == (text, clauses)


def test_titles_and_likeness() -> None:
    query = parse('Title:"annual report" -title:old rent like:a/b.md')
    assert query.clauses == (
        Clause("annual report", is_phrase=True, in_title=True),
        Clause("old", is_excluded=True, in_title=True),
    )
    assert (query.text.split(), query.like) == (["rent"], "a/b.md")
    assert parse("title:lease").text == "lease"  # there is nothing else to look for
    assert plain_text("-draft") == "-draft"


@pytest.mark.parametrize(
    "plain",
    [
        "",
        "-",
        "*",
        '"',
        '5 "',
        '""',
        "- word",
        "at -18 °C",
        "-2024",
        '24" and 27" screens',
        "a*",
        "*ung",
        "*.docx",
        "*lease.docx",
        "*契約契約契約",
        "*2031",
        "**vertrag",
        "M*vertrag",
        "well-known",
        "title:",
        "title:*",
        "2*3",
        "don't -- stop",
        "PHX-121",
        "like:",
        "file*name",
        '"\u0640"',
        "title:\u0640",
        "-\u0640 rent",
        "\u0640\u0640\u0640*",
        "like:\u0640",
    ],
)
def test_what_is_no_operator_is_plain_text(plain: str) -> None:
    query = parse(plain)
    assert (query.text, query.clauses, query.like) == (plain, (), "")


@pytest.mark.parametrize(
    ("typed", "unclosed"),
    [
        ('the "left op', '"left op"'),
        ('pump -"old dr', '"old dr"'),
        ("title:„annual", '"annual"'),
        ('"left open"', ""),
    ],
)
def test_a_phrase_that_is_not_closed_goes_to_the_end(typed: str, unclosed: str) -> None:
    query = parse(typed)
    assert query.unclosed == unclosed
    assert (query.wildcards, query.like) == ([], "")
    assert parse('like:"a b').like == "a b"


def test_conditions_are_shown_as_they_may_be_typed() -> None:
    typed = '"left open" contr* *tract -drill -"old draft" title:policy -title:old'
    assert parse(f"rent {typed}").conditions == typed
    assert parse(parse(typed).conditions).clauses == parse(typed).clauses


@pytest.mark.parametrize(
    ("typed", "respelled"),
    [
        ("rof Rof rofs refrof", "roof roof rofs refrof"),
        ('"the rof" rof -rof rof* like:rof', '"the rof" roof -rof rof* like:rof'),
        ("title:rof (rof) 'rof' -title:rof", "title:roof (roof) 'roof' -title:rof"),
        ('rof "the rof', 'roof "the rof'),
    ],
)
def test_whole_words_outside_of_phrases_are_respelt(typed: str, respelled: str) -> None:
    assert respell_query(typed, lambda word: "roof" if word.lower() == "rof" else word) == respelled


@given(st.text(alphabet='ab -*":()\\[titleÄ“”\n\ud800\u0640', max_size=30))
def test_any_text_can_be_parsed(typed: str) -> None:
    query = parse(typed)
    assert all(clause.stands_in(f"x {clause.text} y") for clause in query.clauses)


def test_a_clause_stands_where_its_words_do() -> None:
    phrase = Clause("Miete in Köln", is_phrase=True)
    assert phrase.stands_in("Zahlung der miete\nin  KOLN.")
    assert not phrase.stands_in("Miete in Kölns Norden")
    assert Clause("Miete in Köl", is_phrase=True, is_prefix=True).stands_in("Miete in Köln")
    assert not Clause("art", is_phrase=True).stands_in("party")
    for text in ("the surety¹ covers", "the surety⁽ᵇ⁾ covers", "the surety covers²"):
        assert Clause("the surety covers", is_phrase=True).stands_in(text)
    assert Clause("tax law", is_phrase=True).stands_in("Tax¹ law²")
    assert Clause("tax¹", is_phrase=True).stands_in("tax¹ law")
    assert not Clause("the surety covers", is_phrase=True).stands_in("the surety 1 covers")
    assert Clause("天気", is_phrase=True).stands_in("東京都の天気は")


@pytest.fixture(scope="module")
def searcher(coded: Any) -> Iterator[Searcher]:
    opened = Searcher(coded.project)
    yield opened
    opened.close()


def texts(found: Found) -> list[str]:
    return [hit.snippet for hit in found.hits]


def search(
    searcher: Searcher,
    query: str,
    mode: Any = "hybrid",
    **options: Any,
) -> Found:
    return searcher.search(Search(query, mode, **{"top": 50, "syntax": True, **options}))


def not_built(_loaded: LoadedProject) -> None:
    raise NotBuiltError("There is no BM25 index.")


@pytest.mark.parametrize("mode", [*MODES, "semantic alone"])
def test_every_hit_meets_the_conditions_whichever_ranker_found_it(
    searcher: Searcher, mode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode == "semantic alone":
        mode = "semantic"
        monkeypatch.setattr(LoadedProject, "lexical_index", not_built)

    def found(query: str) -> set[str]:
        return set(texts(search(searcher, query, mode)))

    roofs = {"The landlord repairs the roof.", "The roof of the tunnel was heated."}
    assert found('"the roof"') == roofs
    assert found('"the roof" -tunnel') == {"The landlord repairs the roof."}
    assert found("roof title:wing") <= {
        "Pressure on the wing rises with speed.",
        "The roof of the tunnel was heated.",
    }
    assert (
        found("pump -title:codes.md") & set(texts(search(searcher, "title:codes.md", mode)))
        == set()
    )
    assert found("tunn*") == {"The roof of the tunnel was heated."}
    assert found("tunnelling*") == set()
    assert found('"roof the"') == set()
    assert all("roof" not in text for text in found("landlord -roof"))
    assert all("PHX-122" not in text for text in found("pump -PHX-122"))
    assert all("pays" not in text.split() for text in found("rent -pays"))


def test_a_chunk_that_bm25_does_not_know_yet_meets_them_too(indexed: Any) -> None:
    searcher = Searcher(indexed.project)
    indexed.put("new.md", ["The rent of the castle."])
    indexed.index(lexical=False)
    assert "The rent of the castle." not in texts(search(searcher, "rent -castle", "semantic"))
    assert texts(search(searcher, '"rent of the castle"', "semantic")) == [
        "The rent of the castle."
    ]
    searcher.close()


def test_the_last_word_of_an_unclosed_phrase_may_go_on(searcher: Searcher) -> None:
    found = search(searcher, '"the roof of the tun', "bm25")
    assert texts(found) == ["The roof of the tunnel was heated."]
    assert len(found.notes) == 1


@pytest.mark.parametrize(
    "query", ['"the roof of', '"roof o', '"roof of th', '"roof of the', "heated of*"]
)
def test_the_last_word_may_be_one_that_bm25_drops(searcher: Searcher, query: str) -> None:
    assert texts(search(searcher, query, "bm25")) == ["The roof of the tunnel was heated."]


def test_a_word_may_be_begun_after_words_that_bm25_drops(searcher: Searcher) -> None:
    assert texts(search(searcher, '"of th')) == texts(search(searcher, '"of the')) != []


WAREHOUSE = "The warehouses were full."
CALIBRATION = "Calibration of the scales."
ORDINARY = "They tried one more."


@pytest.fixture
def stocked(indexed: Any) -> Iterator[Searcher]:
    """With words whose stems are shorter, others, or have a stem themselves."""
    indexed.put(
        "stock.md",
        [WAREHOUSE, CALIBRATION, ORDINARY, "The calibre."],
        modified=6.0,
    )
    indexed.index()
    with closing(Searcher(indexed.project)) as opened:
        yield opened


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("wareh*", WAREHOUSE),
        ("warehous*", WAREHOUSE),
        ("calibratio*", CALIBRATION),
        ("trie*", ORDINARY),
        ("one*", ORDINARY),
    ],
)
def test_words_are_found_by_any_beginning(
    stocked: Searcher, typed: str, text: str, mode: Any
) -> None:
    (hit,) = search(stocked, typed, mode).hits
    assert hit.snippet == text
    if mode != "semantic":
        assert hit.rankers["bm25"].rank == 1
        assert hit.marks


@pytest.fixture
def rented(indexed: Any) -> Iterator[Searcher]:
    """With German compounds."""
    for path, text in GERMAN.items():
        indexed.put(path, [text])
    indexed.index(language="de")
    with closing(Searcher(indexed.project)) as opened:
        yield opened


GERMAN = {
    "miete.txt": "Der Mietvertrag wird von der Wohnungsverwaltung gekündigt.",
    "arbeit.txt": "Ein Arbeitsvertrag mit Probezeit und die Mietkündigung",
    "vertrag.txt": "Der Vertrag gilt bis morgen, die Kündigung ist da.",
    "strafe.txt": "Vertragsstrafen und Vermietverträge sind etwas anderes.",
    "kauf.txt": "Zum Kaufvertrage und zu Sonderkündigungen",
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("*vertrag", "arbeit miete vertrag"),
        ("*Vertrag*", "arbeit kauf miete strafe vertrag"),
        ("*mietvertrag", "miete"),
        ("*kündigung", "arbeit vertrag"),
        ("*kuendigung*", "arbeit kauf vertrag"),
        ("*tung", "miete"),
        ("*vertrag -*kündigung", "miete"),
    ],
)
def test_words_are_found_by_their_ending(
    rented: Searcher, typed: str, names: str, mode: Any
) -> None:
    found = search(rented, typed, mode)
    paths = sorted(hit.path.removesuffix(".txt") for hit in found.hits)
    assert (" ".join(paths), found.notes) == (names, ())
    if mode == "bm25":
        assert all(hit.marks for hit in found.hits)


def test_no_word_with_an_ending_is_a_condition_that_fails(rented: Searcher) -> None:
    found = search(rented, "*zement", "bm25")
    assert (found.hits, len(found.notes)) == ((), 1)
    assert "*zement" in found.notes[0]


def test_other_words_of_the_same_stem_are_not_found(stocked: Searcher) -> None:
    assert texts(search(stocked, "calibrat* calibre", "bm25")) == [CALIBRATION]


def test_a_slip_is_corrected_whatever_the_stem(stocked: Searcher) -> None:
    assert search(stocked, "warehoues", "bm25").suggestion == "warehouses"


def test_a_document_is_like_those_that_share_its_words(indexed: Any) -> None:
    for path in ("one.md", "other.md"):
        indexed.put(
            path,
            ["Warehouses."],
            modified=6.0,
        )
    indexed.index()
    with closing(Searcher(indexed.project)) as searcher:
        assert [hit.path for hit in search(searcher, "like:one.md", "bm25").hits] == ["other.md"]


@pytest.mark.parametrize("mode", MODES)
def test_a_query_of_a_data_set_is_plain_text(searcher: Searcher, mode: Any) -> None:
    plain = searcher.search(Search("the roof pump repairs", mode, syntax=False))
    for same in (
        '"the roof" -pump repairs',
        'the "roof pump" repairs*',
        'the “roof" -pump repairs',
    ):
        asked = searcher.search(Search(same, mode, syntax=False))
        assert {hit.chunk_id for hit in asked.hits} == {hit.chunk_id for hit in plain.hits}
        if mode == "bm25":
            assert [(hit.chunk_id, hit.score) for hit in asked.hits] == [
                (hit.chunk_id, hit.score) for hit in plain.hits
            ]


@pytest.mark.parametrize(
    "query", ["-", "*", '"', "-roof", '"" -', '"\ud800"', "like:nothing", '-"', "(" * 99 + "*"]
)
@pytest.mark.parametrize("mode", MODES)
def test_hostile_text_is_answered(
    searcher: Searcher,
    query: str,
    mode: Any,
) -> None:
    found = search(searcher, query, mode)
    assert not found.hits
    assert found.notes


def test_hits_by_document_have_the_best_passage_and_how_many_more(searcher: Searcher) -> None:
    for mode in MODES:
        alone, grouped = (
            search(searcher, "pump roof", mode, by_document=grouping) for grouping in (False, True)
        )
        first = {hit.id: hit.snippet for hit in reversed(alone.hits)}
        assert {hit.id: hit.snippet for hit in grouped.hits} == first
        counts = {key: sum(hit.id == key for hit in alone.hits) for key in first}
        assert {hit.id: hit.more + 1 for hit in grouped.hits} == counts
        assert [hit.rank for hit in grouped.hits] == list(range(1, len(first) + 1))
        if mode != "hybrid":
            assert [hit.rankers[mode].document_rank for hit in grouped.hits] == [
                hit.rank for hit in grouped.hits
            ]


def test_one_long_document_leaves_room_for_others(crowded: Any) -> None:
    searcher = Searcher(crowded.project)
    found = search(
        searcher,
        "roof",
        "bm25",
        top=3,
        by_document=True,
    )
    assert found.hits[0].path == "crowd.md"
    assert len({hit.path for hit in found.hits}) == 3
    searcher.close()


def test_newest_first(searcher: Searcher) -> None:
    best = search(
        searcher,
        "roof pays",
        "bm25",
        top=2,
    )
    assert {*texts(search(searcher, "roof pays", "bm25", top=2, by_date=True))} == {*texts(best)}
    dated = search(
        searcher,
        "the pa*",
        "bm25",
        by_date=True,
    )
    days = [day(hit.modified) for hit in dated.hits]
    assert days == sorted(days, reverse=True)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("by_document", [False, True])
def test_the_newest_match_comes_first_however_many_match_better(
    crowded: Any, mode: Any, by_document: bool
) -> None:
    """832 chunks contain the word; those of the newest documents are not among the best 100."""
    with closing(Searcher(crowded.project)) as searcher:
        found = search(
            searcher,
            '"roof"',
            mode,
            top=3,
            by_date=True,
            by_document=by_document,
        )
    assert [hit.path for hit in found.hits[:2]] == ["reports/wing.md", "contracts/lease.md"]
    assert [hit.rank for hit in found.hits] == [1, 2, 3]


@pytest.mark.parametrize("mode", ["bm25", "hybrid"])
def test_the_newest_match_of_a_prefix_comes_first_however_many_words_begin_with_it(
    corpus: Any, fake_encoder: Any, mode: Any
) -> None:
    words = [f"slat{first}{second}" for first in "abcdef" for second in "abcdef"]
    corpus.put("many.md", [f"{word} {word} {number}" for number, word in enumerate(words)])
    corpus.put(
        "newest.md",
        ["A slatwright came."],
        modified=1e9,
    )
    corpus.index()
    with closing(Searcher(corpus.project)) as searcher:
        found = search(
            searcher,
            "slat*",
            mode,
            top=1,
            by_date=True,
        )
    assert [hit.path for hit in found.hits] == ["newest.md"]


def test_no_hit_has_less_than_the_least_score(searcher: Searcher) -> None:
    scores = [hit.score for hit in search(searcher, "roof pays", "bm25").hits]
    assert [
        hit.score for hit in search(searcher, "roof pays", "bm25", min_score=scores[1]).hits
    ] == scores[:2]


@pytest.mark.parametrize("mode", MODES)
def test_more_like_a_document(searcher: Searcher, mode: Any) -> None:
    lease = next(hit for hit in search(searcher, "tenant").hits if hit.path == "contracts/lease.md")
    found = search(
        searcher,
        f"like:{lease.id}",
        mode,
    )
    assert found.hits
    assert {"contracts/lease.md"}.isdisjoint(hit.path for hit in found.hits)
    assert found.hits == search(searcher, 'like:"contracts/lease.md"', mode).hits
    assert found.hits[0].path != "codes.md"


@pytest.mark.parametrize("mode", MODES)
def test_near_empty_passages_are_not_most_like_a_long_document(indexed: Any, mode: Any) -> None:
    heading = "Lease of the roof"
    lease = "The tenant pays the rent of the roof, and the landlord repairs the roof. "
    indexed.put(
        "heading.md",
        [heading],
        modified=6.0,
    )
    indexed.put(
        "sheet.md",
        [f"{lease} {lease}"],
        modified=7.0,
    )
    indexed.put(
        "long.md",
        [f"{heading}. {lease} {heading}. {lease}"],
        modified=8.0,
    )
    indexed.put(
        "short.md",
        [f"{heading}."],
        modified=9.0,
    )
    indexed.index()
    with closing(Searcher(indexed.project)) as searcher:
        paths = [hit.path for hit in search(searcher, 'like:"long.md"', mode, top=20).hits]
        assert paths.index("sheet.md") < paths.index("heading.md")
        paths = [hit.path for hit in search(searcher, 'like:"short.md"', mode, top=20).hits]
        assert paths.index("heading.md") < paths.index("sheet.md")


@pytest.mark.parametrize("weight", ["0.0", "1.0"])
def test_the_passage_with_a_code_is_first_in_hybrid_search(
    searcher: Searcher, coded: Any, weight: str
) -> None:
    write_text(
        coded.project.path / "project.toml", f"[search]\nfusion = 'weighted'\nweight = {weight}\n"
    )
    for syntax in (False, True):
        hits = search(searcher, "the pump leaks in the cold hall phx121", syntax=syntax).hits
        assert "PHX-121" in hits[0].snippet
        assert len(hits) == 9
    write_text(coded.project.path / "project.toml", "")


def test_words_that_no_document_holds_are_corrected(searcher: Searcher) -> None:
    found = search(searcher, "landlrod roof", "bm25")
    assert found.suggestion == "landlord roof"
    assert len(found.notes) == 1
    assert search(searcher, '"landlrod roof" -landlrod').suggestion == ""
    assert search(searcher, "tunnle").suggestion == "tunnel"  # one slip: two letters changed places
    assert (
        search(searcher, "presses").suggestion == ""
    )  # another word than pressure: three letters differ
    for known in ("roof", "landlords", "zzzz", "tun*", "PHX-999", "the"):
        assert search(searcher, known).suggestion == ""


def test_a_second_unknown_word_leaves_the_first_its_correction(searcher: Searcher) -> None:
    found = search(searcher, "landlrod benefits roof", "bm25")
    assert found.suggestion == "landlord benefits roof"
    (note,) = found.notes
    assert "landlrod" in note
    assert "benefits" in note


def test_of_a_pasted_text_a_few_words_are_corrected_each_looked_up_once(
    searcher: Searcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[str] = []
    find_similar_terms = Vocabulary.find_similar_terms

    def record(vocabulary: Vocabulary, word: str) -> list[str]:
        looked_up.append(word)
        return find_similar_terms(vocabulary, word)

    monkeypatch.setattr(Vocabulary, "find_similar_terms", record)
    unknown = [f"qua{letter}ter" for letter in "abcdefghijk"]
    found = search(
        searcher,
        " ".join(["landlrod", *unknown] * 3),
        "bm25",
    )
    assert found.suggestion == " ".join(["landlord", *unknown] * 3)
    assert looked_up == ["landlrod", *unknown[:9]]


@pytest.mark.parametrize("mode", MODES)
def test_codes_that_no_document_holds_are_named(searcher: Searcher, mode: Any) -> None:
    known = search(searcher, "roof PHX-121 phx122", mode)
    found = search(searcher, "roof PHX-121 phx999 PHX-123", mode)
    (note,) = set(found.notes) - set(known.notes)
    assert "phx999" in note
    assert "PHX-123" in note
    assert "PHX-121" not in note
    assert found.suggestion == ""


def test_a_code_that_is_not_indexed_yet_is_not_called_missing(
    indexed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "engine.search.index_lag.time", SimpleNamespace(monotonic=lambda: 0.0)
    )  # looks each time
    with closing(Searcher(indexed.project)) as searcher:
        assert any("PHX-777" in note for note in search(searcher, "roof PHX-777").notes)
        indexed.put("new.md", ["The pump PHX-777."])
        assert not any("PHX-777" in note for note in search(searcher, "roof PHX-777").notes)


def test_the_note_without_hits_says_where_the_words_were_looked_for(searcher: Searcher) -> None:
    def notes(query: str, paths: tuple[str, ...] = ()) -> set[str]:
        return set(search(searcher, query, paths=paths).notes)

    unknown = notes("zzzz")
    filtered = notes("landlord", ("reports/**",))
    excluded = notes("landlord -roof")
    in_file = notes("zzzz lease.md")
    assert (len(unknown), len(filtered)) == (1, 1)
    assert len(unknown | filtered | excluded | in_file) == 5, "no note says the same"
    assert not notes("landlord", ("contracts/**",))


def test_words_of_titles_and_headings_correct_too(indexed: Any) -> None:
    indexed.put("metabolome.md", ["A survey of cells."], modified=6.0)  # which is its title, too
    indexed.index()
    with (
        indexed.project.building("lexical", "titled") as building,
        closing(indexed.project.store()) as store,
    ):
        titles = {document.id: document.title for document in store.documents()}
        rows = [
            (chunk.id, f"{titles[chunk.document_id]} {chunk.embedded_text}")
            for chunk in store.chunks()
        ]
        LexicalIndex.build(
            building.folder,
            rows,
            "en",
        )
        store.put_artifact(Artifact(LexicalInfo("en"), building.name, building.name))
    with closing(Searcher(indexed.project)) as searcher:
        assert search(searcher, "metabolme", "bm25").suggestion == "metabolome"


@pytest.mark.parametrize(
    ("typed", "blamed", "not_blamed"),
    [
        ('roof "zebra crossing"', ['"zebra crossing"'], ["roof"]),
        ("tenant* title:zebra -zebra", ["title:zebra"], ["tenant*", "-zebra"]),
        ("roof -roof", [], []),
    ],
)
def test_the_condition_that_nothing_meets_is_named(
    searcher: Searcher, typed: str, blamed: list[str], not_blamed: list[str]
) -> None:
    found = search(searcher, typed, "bm25")
    assert found.hits == ()
    (note,) = found.notes
    assert all(text in note for text in blamed)
    assert not any(text in note for text in not_blamed)


def test_hits_of_one_day_keep_their_order_and_get_new_ranks() -> None:
    year = 365 * 86_400.0
    dates = (
        year,
        2 * year,
        year + 60,
        2 * year + 60,
    )
    hits = [
        build_hit(rank, f"{rank}.md", score=1.0 / rank, modified=modified)
        for rank, modified in enumerate(dates, 1)
    ]
    found = sort_newest_first(hits)
    assert [hit.path for hit in found] == ["2.md", "4.md", "1.md", "3.md"]
    assert [hit.rank for hit in found] == [1, 2, 3, 4]


def test_a_note_says_when_sorting_by_date_means_little() -> None:
    year = 365 * 86_400.0
    dated = build_hit(modified=year, changed=year)
    later = replace(dated, changed=2 * year)
    undated = replace(
        dated,
        changed=None,
        modified=3 * year,
    )
    undated_same_day = replace(undated, modified=year)
    for hits in ((dated, later), (dated, undated), (dated,), ()):
        assert describe_dates(hits) == ""
    same_day = describe_dates((dated, dated))
    assert same_day
    assert describe_dates((dated, undated_same_day)) == same_day
    assert describe_dates((undated, undated_same_day)) not in ("", same_day)


def test_another_form_of_a_word_is_no_correction(indexed: Any) -> None:
    indexed.put(
        "work.md",
        ["We employ ten people.", "The calender."],
        modified=6.0,
    )
    indexed.index()
    with closing(Searcher(indexed.project)) as searcher:
        assert search(searcher, "employee", "bm25").suggestion == ""
        assert search(searcher, "calendear", "bm25").suggestion == "calender"


def test_the_most_frequent_of_equally_near_corrections_is_suggested(indexed: Any) -> None:
    indexed.put(
        "spelling.md",
        ["One longer pipe.", "A logger in the hall.", "Another logger."],
        modified=6.0,
    )
    indexed.index()
    with closing(Searcher(indexed.project)) as searcher:
        assert search(searcher, "loger", "bm25").suggestion == "logger"


@pytest.mark.parametrize(("right", "suggestion"), [(20, "receive"), (19, "recieve")])
def test_a_slip_of_the_documents_is_no_correction(
    indexed: Any, right: int, suggestion: str
) -> None:
    indexed.put(
        "slip.md",
        ["They recieve it."],
        modified=6.0,
    )
    indexed.put(
        "right.md",
        [f"Number {n}: we receive goods." for n in range(right)],
        modified=7.0,
    )
    indexed.index()
    with closing(Searcher(indexed.project)) as searcher:
        assert search(searcher, "recieeve", "bm25").suggestion == suggestion


def test_a_slip_is_corrected_even_if_the_stems_differ_more_than_the_words(indexed: Any) -> None:
    indexed.put("pump.md", ["The dosing pump of hall three."], modified=6.0)  # stems: dosng, dose
    indexed.index()
    with closing(Searcher(indexed.project)) as searcher:
        assert search(searcher, "dosng", "bm25").suggestion == "dosing"


@pytest.mark.parametrize(
    "query",
    [
        "INV-2031",
        "2031-0042",
        "DE44500105175407324931",
        "DE44 5001 0517",
        "12,750",
        "12 750",
        "2031-05-17",
        "C++",
        "1.750",
    ],
)
def test_a_code_that_stands_inside_another_or_is_spelt_otherwise_is_not_called_missing(
    indexed: Any, query: str
) -> None:
    texts = [
        "Order INV-2031-0042/B of May 17, 2031.",
        "IBAN DE44 5001 0517 5407 3249 31.",
        "It costs 12750 or 1,750.",
    ]
    indexed.put(
        "codes.md",
        [*texts, "Written in C++."],
        modified=6.0,
    )
    indexed.index()
    with closing(Searcher(indexed.project)) as searcher:
        found = search(searcher, query, "bm25")
        assert found.notes == ()
        assert found.hits[0].path == "codes.md"
        assert any("INV-999" in note for note in search(searcher, "INV-999", "bm25").notes)


def test_words_and_compounds_that_no_document_contains_are_found_in_each_other(
    corpus: Any,
) -> None:
    corpus.put("a.txt", ["Die Vertragslaufzeit beträgt drei Jahre."])
    corpus.put("b.txt", ["Der Mieter zahlt die Kaution."])
    corpus.index(vectors=False, language="de")
    with closing(Searcher(corpus.project)) as searcher:
        for query, path in (("Laufzeit", "a.txt"), ("Mietkaution", "b.txt")):
            found = search(searcher, query, "bm25")
            assert found.hits[0].path == path
            assert found.hits[0].marks
            assert found.suggestion == ""
        assert not search(searcher, "Laufzettel", "bm25").hits


def test_the_compounds_of_a_long_text_are_few_and_differ(corpus: Any) -> None:
    animals = [
        "adler",
        "biber",
        "dachs",
        "fuchs",
        "hase",
        "igel",
    ]
    animals += [
        "luchs",
        "marder",
        "otter",
        "reiher",
        "storch",
        "wolf",
    ]
    compounds = [f"{animal}laternen" for animal in animals]
    corpus.put("a.txt", [f"{compound} und {compound}" for compound in compounds])
    endings = ["bauernschaft" + animal for animal in animals]
    corpus.put("b.txt", [f"neben{ending} und mit{ending}" for ending in endings])
    corpus.index(vectors=False, language="de")
    with closing(LoadedProject(corpus.project)) as loaded:
        queries = TypedQueries(loaded)

        def find_added(text: str) -> list[str]:
            keywords = queries.add_wording(ParsedQuery(text, text), None).keywords
            return keywords.removeprefix(text).split()

        assert sorted(find_added("Laternen Laterne Laternen")) == sorted(compounds)
        added = find_added(" ".join(endings))
        looked_up = endings[:10]
        expected = [f"mit{ending}" for ending in looked_up]
        expected += [f"neben{ending}" for ending in looked_up]
        assert sorted(added) == sorted(expected)


@pytest.mark.parametrize("query", ["loan.html", "title:loan.html", "loan.html interest"])
def test_names_of_files_are_not_corrected(indexed: Any, query: str) -> None:
    indexed.put("web.md", ["An htmlx page."])
    indexed.index()
    with closing(Searcher(indexed.project)) as searcher:
        found = search(searcher, query, "bm25")
        assert [hit.path for hit in found.hits] == ["contracts/old/loan.html"]
        assert found.suggestion == ""
        assert search(searcher, "html", "bm25").suggestion == "htmlx"


@pytest.mark.parametrize(
    ("phrase", "text", "is_in"),
    [
        ("75 kW", "a motor of 75kW", True),
        ("75 kW", "a motor of 75 kW", True),
        ("75 kW", "175kW", False),
        ("75 kW", "75kWh", False),
        ("PHX 121", "the phx121", True),
        ("PHX-121", "PHX 121", True),
        ("left open", "leftopen", False),
        ("1 2", "12", False),
    ],
)
def test_numbers_and_units_of_a_phrase_may_touch(
    phrase: str,
    text: str,
    is_in: bool,
) -> None:
    assert Clause(phrase, is_phrase=True).stands_in(text) == is_in


@pytest.mark.parametrize(
    ("query", "paths"),
    [
        ('"M 8"', ["joined.txt", "longer.txt", "spaced.txt"]),
        ('"m 8 screw"', ["joined.txt", "spaced.txt"]),
        ('"DIN A 4"', ["joined.txt", "spaced.txt"]),
        ('"PHX 121"', ["joined.txt", "longer.txt", "spaced.txt"]),
        ('"PHX-121"', ["joined.txt", "longer.txt", "spaced.txt"]),
        ('"75 kW"', ["joined.txt", "spaced.txt"]),
        ('"M 8', ["joined.txt", "longer.txt", "spaced.txt"]),
        ('"DIN A 4 pap', ["joined.txt"]),
        ('"M 9"', []),
        ('plate -"M 8"', ["other.txt"]),
    ],
)
@pytest.mark.parametrize("language", ["de", "en"])
def test_a_phrase_finds_codes_that_texts_write_as_one_word(
    corpus: Any, query: str, paths: list[str], language: str
) -> None:
    corpus.put("joined.txt", ["The plate has an M8 screw, 75kW, PHX121, and is DIN A4 paper."])
    corpus.put("longer.txt", ["The plate M8-20 of PHX-121/B is long."])
    corpus.put("spaced.txt", ["The plate has an M 8 screw, 75 kW, PHX 121, and is DIN A 4."])
    corpus.put("other.txt", ["The plate has an 8, an M, 121 PHXes, a 4 of DIN A and kW 75."])
    corpus.index(vectors=False, language=language)
    with closing(Searcher(corpus.project)) as searcher:
        found = search(searcher, query, "bm25")
        assert sorted(hit.path for hit in found.hits) == paths
