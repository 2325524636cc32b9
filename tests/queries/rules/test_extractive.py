"""The generator as a whole: what it promises for any corpus."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from fixtures.records import build_chunk
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.records import Chunk
from engine.project.store.chunks import StoredChunk
from engine.queries.rules.extractive import KINDS, generate
from engine.queries.rules.keywords import topic_of
from engine.queries.rules.phrases import find_phrases
from engine.queries.rules.salience import salient_sentences
from engine.queries.rules.statistics import TermStatistics
from engine.queries.rules.tokens import fold, tokenize
from engine.queries.rules.vocabulary import ENGLISH, language_of

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"
TEXTS = (
    (
        "The Orion-7 turbine was inspected by Acme engineers in March 2023. Corrosion on the guide"
        " vanes cut output."
    ),
    (
        "Acme Energy (AE) announced a maintenance contract worth $12 million. It covers 40 turbines"
        " in Norway."
    ),
    (
        "A guide vane is a fixed blade that directs gas onto the rotor. Rotor speed must not exceed"
        " 3,600 revolutions."
    ),
    (
        "The supplier shall return all drawings if the agreement ends. Drawings may be copied only"
        " for maintenance."
    ),
    (
        "Bearing temperature rose because the oil filter was blocked. Operators replaced the filter"
        " and started the unit."
    ),
    (
        "Hydrogen embrittlement caused cracks in the pressure vessel. Inspectors found three cracks"
        " near the weld seam."
    ),
)


CHUNKS = [
    build_chunk(text, place + 1, place // 2 + 1, ordinal=place % 2)
    for place, text in enumerate(TEXTS)
]
TITLES = {
    1: "Orion-7 Inspection Report",
    2: "vane_and_supplier_terms.pdf",
    3: "Failure Log 2023",
}


def test_evidence_stands_in_the_source_chunk_and_texts_are_distinct() -> None:
    by_id = {chunk.id: chunk for chunk in CHUNKS}
    queries = generate(
        CHUNKS,
        TITLES,
        per_chunk=4,
    )
    assert len(queries) >= 2 * len(CHUNKS)
    assert all(query.evidence and query.evidence in by_id[query.chunk_id].text for query in queries)
    assert all(query.document_id == by_id[query.chunk_id].document_id for query in queries)
    assert len({fold(query.text) for query in queries}) == len(queries)
    assert not any(fold(query.text) == fold(by_id[query.chunk_id].text) for query in queries)
    assert max(Counter(query.chunk_id for query in queries).values()) <= 4


def test_only_sampled_or_requested_chunks_are_read() -> None:
    by_id = {chunk.id: chunk for chunk in CHUNKS}
    read = list[int]()

    def noted(key: int) -> Chunk:
        read.append(key)
        return by_id[key]

    stored = [
        StoredChunk.of(chunk.id, chunk.document_id, chunk.content_hash, noted) for chunk in CHUNKS
    ]
    table = TermStatistics.from_chunks(stored, sample=2)
    counted = sorted(CHUNKS, key=lambda chunk: chunk.content_hash)[:2]
    assert set(read) == {chunk.id for chunk in counted}
    assert table == TermStatistics.from_chunks(counted)
    read.clear()
    queries = generate(
        stored,
        TITLES,
        max_queries=2,
        statistics=table,
    )
    assert queries == generate(CHUNKS, TITLES, max_queries=2, statistics=table)
    assert len(set(read)) == len({query.chunk_id for query in queries}) < len(CHUNKS)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_can_be_generated_alone(kind) -> None:
    queries = generate(
        CHUNKS,
        TITLES,
        kinds=(kind,),
        per_chunk=2,
    )
    assert {query.kind for query in queries} == {kind}
    assert all(query.text.endswith("?") == (kind == "question") for query in queries)


def test_same_seed_same_queries_other_seed_others() -> None:
    assert generate(CHUNKS, TITLES, seed=3) == generate(CHUNKS, TITLES, seed=3)
    assert generate(CHUNKS, TITLES, seed=3) != generate(CHUNKS, TITLES, seed=4)


def test_a_new_document_leaves_the_others_queries_alone() -> None:
    table = TermStatistics.from_chunks(CHUNKS)
    before = generate(
        CHUNKS,
        TITLES,
        statistics=table,
    )
    more = [build_chunk("Solar panels on the roof of the depot feed the grid.", 99, 9), *CHUNKS]
    after = generate(
        more,
        {**TITLES, 9: "Depot"},
        statistics=table,
    )
    assert [query for query in after if query.document_id != 9] == before
    assert any(query.document_id == 9 for query in after)


def test_a_limit_is_spread_over_the_documents() -> None:
    many = [
        build_chunk(
            f"The unit U{number} in hall H{number} was inspected by team T{number}.",
            number + 1,
            ordinal=number,
        )
        for number in range(30)
    ]
    one_each = [
        build_chunk(
            f"Site S{number} reported leak L{number} at valve V{number}.", 100 + number, number
        )
        for number in range(2, 12)
    ]
    queries = generate(
        many + one_each,
        {},
        kinds=("keyword",),
        per_chunk=1,
        max_queries=11,
    )
    assert len(queries) == 11
    assert len({query.document_id for query in queries}) == 11


def test_the_limit_holds() -> None:
    assert len(generate(CHUNKS, TITLES, per_chunk=4, max_queries=5)) == 5
    assert generate(CHUNKS, TITLES, max_queries=0) == []
    assert generate([], {}) == []


def test_equal_chunks_are_used_once() -> None:
    twice = [CHUNKS[0], replace(CHUNKS[0], id=77, document_id=8)]
    assert {query.chunk_id for query in generate(twice, TITLES)} == {1}


def test_headings_enter_title_queries() -> None:
    headed = [replace(CHUNKS[2], headings=("Manual", "Rotor limits"))]
    texts = [
        query.text
        for seed in range(8)
        for query in generate(headed, {}, kinds=("title",), seed=seed)
    ]
    assert any("Rotor limits" in text for text in texts)


@pytest.mark.parametrize(
    ("language", "text", "asks"),
    [
        ("de", "Die Turbine Orion wurde in Bergen von Ingenieuren der Firma Acme gewartet.", True),
        (
            "fr",
            "La turbine Orion a été inspectée à Bergen par les ingénieurs de la société Acme.",
            True,
        ),
        (
            "es",
            "La turbina Orion fue inspeccionada en Bergen por los ingenieros de la empresa Acme.",
            True,
        ),
        ("pl", "Turbina Orion została sprawdzona w Bergen przez inżynierów firmy Acme.", False),
        ("zh", "猎户座涡轮机于三月在卑尔根接受了检查。工程师发现叶片腐蚀。", False),
    ],
)
def test_other_languages(language, text, asks) -> None:
    source = [build_chunk(text, 1)]
    kinds = {
        query.kind
        for seed in range(5)
        for query in generate(source, {1: "Orion"}, language=language, per_chunk=4, seed=seed)
    }
    assert "keyword" in kinds
    assert ("question" in kinds) == asks


@given(st.lists(st.text(max_size=200), min_size=1, max_size=5), st.sampled_from(["en", "de", "xx"]))
@settings(max_examples=60)
def test_any_text_is_survived(texts, language) -> None:
    source = [build_chunk(text, place + 1, ordinal=place) for place, text in enumerate(texts)]
    for query in generate(source, {1: texts[0]}, language=language, per_chunk=4):
        assert query.text.strip()
        assert query.evidence in source[query.chunk_id - 1].text


def test_statistics_by_hand() -> None:
    table = TermStatistics.from_chunks(
        [build_chunk("The Orion pump. A pump runs here."), build_chunk("The valve of Orion runs.")]
    )
    assert table.chunks == 2
    assert (table.frequency["pump"], table.frequency["runs"], table.frequency["valve"]) == (1, 2, 1)
    assert table.idf("runs") == pytest.approx(0.1823215568)  # ln(1 + 0.5/2.5)
    assert table.idf("pump") == pytest.approx(0.6931471806)  # ln(1 + 1.5/1.5)
    assert "orion" in table.capitalised
    assert "valve" in table.lower_case


def test_statistics_find_people_long_forms_and_boilerplate() -> None:
    footer = "All rights reserved by the publisher."
    texts = [
        f"Said John Petersen of the Federal Trade Commission (FTC) on day {n}. {footer}"
        for n in range(4)
    ]
    table = TermStatistics.from_chunks([build_chunk(text) for text in texts])
    assert "petersen" in table.people
    assert table.long_forms == {"FTC": "Federal Trade Commission"}
    assert table.is_boilerplate(footer.upper())
    assert not table.is_boilerplate(texts[0].split(". ")[0] + ".")


def test_phrases_keep_terms_whole_and_leave_verbs() -> None:
    text = (
        "The Bank of Norway sees a boundary layer heating of GPT-4 servers to tell Erik ten Hag"
        " about 40 turbines"
    )
    tokens = tokenize(text)
    table = TermStatistics.from_chunks([build_chunk(text)])
    assert [
        (phrase.text, phrase.category) for phrase in find_phrases(text, tokens, table, ENGLISH)
    ] == [
        ("Bank", "name"),
        ("Norway", "name"),
        ("boundary layer heating", "term"),
        ("GPT-4 servers", "term"),
        ("Erik ten Hag", "name"),
        ("40 turbines", "term"),
    ]


def test_boilerplate_and_noise_come_last_or_not_at_all() -> None:
    footer = "Copyright Acme Publishing Group, Oslo, Norway."
    texts = [
        f"{footer} Pump P{n} leaked near hatch H{n} of the upper deck. ____ 1 2 3 ____"
        for n in range(5)
    ]
    table = TermStatistics.from_chunks([build_chunk(text) for text in texts])
    sentences = [sentence.text for sentence in salient_sentences(texts[0], table, ENGLISH)]
    assert sentences == ["Pump P0 leaked near hatch H0 of the upper deck.", footer]


def test_file_names_become_topics() -> None:
    table = TermStatistics.from_chunks(CHUNKS)
    assert (
        topic_of("vane_and%20supplier_terms.pdf", table, ENGLISH).text == "vane and supplier terms"
    )
    assert topic_of("", table, ENGLISH).name == ""


def test_language_codes() -> None:
    assert language_of("de-AT").code == "de"
    assert language_of("English") is ENGLISH
    assert language_of("xx").function_words == frozenset()


def test_the_room_loads_no_heavy_library() -> None:
    heavy = "('torch', 'transformers', 'tantivy', 'usearch', 'numpy')"
    code = f"import sys, engine.queries; print([name for name in {heavy} if name in sys.modules])"
    completed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert completed.stdout.strip() == "[]"


@pytest.mark.shared
def test_real_news_give_mixed_queries_that_are_no_copies() -> None:
    path = SHARED / "multihop-partial" / "corpus.jsonl"
    if not path.exists():
        pytest.skip("shared/data/multihop-partial is not here")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[:1500]]
    documents = {
        title: place
        for place, title in enumerate(dict.fromkeys(row["title"] for row in rows), start=1)
    }
    source = [
        build_chunk(row["text"], place + 1, documents[row["title"]], ordinal=place)
        for place, row in enumerate(rows)
    ]
    queries = generate(
        source,
        {number: title for title, number in documents.items()},
        per_chunk=3,
    )
    kinds = Counter(query.kind for query in queries)
    assert len(queries) > 2 * len(source)
    assert min(kinds[kind] for kind in KINDS) > 0.4 * len(source)
    by_id = {chunk.id: chunk for chunk in source}
    assert all(query.evidence in by_id[query.chunk_id].text for query in queries)
    questions = [query for query in queries if query.kind == "question"]
    copied = [
        query
        for query in questions
        if fold(query.text).rstrip("?") in fold(by_id[query.chunk_id].text)
    ]
    assert len(copied) < 0.01 * len(questions)
    assert all(re.match(r"\W*\w", query.text) for query in queries)


def test_every_chunk_is_a_place_to_stop_at() -> None:
    checks = []
    generate(
        CHUNKS,
        TITLES,
        check=lambda: checks.append(1),
    )
    assert len(checks) == 2 * len(CHUNKS)  # once to count its words, once to write its queries

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        TermStatistics.from_chunks(CHUNKS, check=stop)
