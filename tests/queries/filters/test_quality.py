"""What a language model's queries are checked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixtures.errors import error_of
from fixtures.fake_endpoint import Request, good, serving
from fixtures.pipeline import engine_here, generate_here
from fixtures.records import build_chunk, build_document
from fixtures.shown_numbers import numbers

from engine.core.errors import CancelledError
from engine.core.events import Choice, Event
from engine.core.records import Query, QueryKind
from engine.lexical.index import LexicalIndex
from engine.lexical.languages import measure_language_margin
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import QueriesInfo
from engine.queries.filters.quality import Check, build_checks, longest_run
from engine.queries.rejection import Reason, Rejected, words_of

Make = Callable[..., ProjectFolder]
ENGLISH = (
    "The pump of hall four was bought from Castel in 1994 and its oil is changed every six months"
    " by the night shift."
)
GERMAN = (
    "Die Pumpe der Halle vier wurde 1994 bei Castel gekauft und ihr Öl wird alle sechs Monate"
    " gewechselt."
)


def corpus_checks(
    texts: list[str], documents: list[int], tmp_path: Path | None = None, language: str = ""
) -> list[Check]:
    """The checks of chunks 1, 2 … of the documents; with a folder, an index over them."""
    chunks = [
        build_chunk(text, number, document)
        for number, (text, document) in enumerate(zip(texts, documents, strict=True), 1)
    ]
    papers = [
        build_document(f"{key}.txt", title=f"Paper {key}", id=key, language=language)
        for key in sorted(set(documents))
    ]
    index = None
    if tmp_path is not None:
        index = LexicalIndex.build(
            tmp_path / "index", [(chunk.id, chunk.embedded_text) for chunk in chunks], "en"
        )
    return build_checks(chunks, papers, "en", index)


def ask(
    text: str,
    chunk: int = 1,
    document: int = 1,
    kind: QueryKind = "question",
) -> Query:
    return Query(
        text,
        kind,
        chunk,
        document,
        "",
    )


def reason(
    checks: list[Check],
    name: str,
    query: Query,
) -> str:
    check = next(check for check in checks if check.name == name)
    detail = check.find_fault(query)
    if detail:
        return words_of(Rejected(query, check.reason, detail).stored)
    return ""


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("When was the oil of the pump changed?", ""),
        (
            "Wie oft wird das Öl der Pumpe gewechselt?",
            f"{Reason.OTHER_LANGUAGE.words}: de instead of en",
        ),
        (
            "¿Con qué frecuencia se cambia el aceite de la bomba?",
            f"{Reason.OTHER_LANGUAGE.words}: es instead of en",
        ),
        ("泵的油多久更换一次？", f"{Reason.OTHER_LANGUAGE.words}: zh instead of en"),
        ("PHX-121 retrofit", ""),
        ("Castel 1994", ""),
    ],
)
def test_a_query_is_in_its_documents_language(text: str, left_out: str) -> None:
    assert (
        reason(corpus_checks([ENGLISH], [1], language="en"), "language check", ask(text))
        == left_out
    )


def test_a_chunk_in_another_language_than_its_document_or_in_none_refuses_no_query() -> None:
    german = ask("Wie oft wird das Öl der Pumpe gewechselt?")
    english = ask("How often is the oil of the pump changed?")
    assert reason(corpus_checks([GERMAN], [1], language="en"), "language check", german) == ""
    assert reason(corpus_checks([GERMAN], [1], language="de"), "language check", english) != ""
    assert (
        reason(corpus_checks([GERMAN], [1]), "language check", english)
        == f"{Reason.OTHER_LANGUAGE.words}: en instead of de"
    )
    assert reason(corpus_checks(["1994 / 17"], [1]), "language check", german) == ""
    names = corpus_checks(["Steam Deck OLED, Steam Deck LCD"], [1])
    assert reason(names, "language check", ask("What does the Steam Deck OLED cost?")) == ""


def test_the_margin_is_nothing_for_the_best_language_and_for_one_that_is_not_known() -> None:
    assert measure_language_margin("How often is the oil of the pump changed?", "en") == 0
    assert measure_language_margin("How often is the oil of the pump changed?", "none") == 0
    assert measure_language_margin("Wie oft wird das Öl der Pumpe gewechselt?", "en") > 2


@pytest.mark.parametrize(
    ("text", "source", "expected"),
    [
        ("a b c", "x a b y a b c", (3, 3)),
        ("What is the Oil?", "... the oil, is the\noil", (3, 4)),
        ("a a b", "a b a a", (2, 3)),
        ("a", "b", (0, 1)),
        ("", "b", (0, 0)),
    ],
)
def test_the_longest_run_by_hand(
    text: str,
    source: str,
    expected: tuple[int, int],
) -> None:
    assert longest_run(text, source) == expected


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("was bought from Castel in 1994 and its oil", f"{Reason.COPIED.words}: 9 words in a row"),
        ("Is it true that the pump of hall four was bought from Castel in 1994?", ""),  # 11 of 15
        (
            (
                "Who says that the pump of hall four was bought from Castel in 1994 or what else is"
                " there to say about it?"
            ),
            "",
        ),
        (
            (
                "Who says, in a letter of many pages that nobody has read, that the pump of hall"
                " four was bought from Castel in 1994 and why?"
            ),
            f"{Reason.COPIED.words}: 12 words in a row",
        ),
        ("Castel pump oil", ""),
    ],
)
def test_long_runs_of_the_text_are_no_question(text: str, left_out: str) -> None:
    checks = corpus_checks([ENGLISH], [1])
    assert reason(checks, "copy check", ask(text)) == left_out
    assert reason(checks, "copy check", ask(text, kind="title")) == ""


def test_one_word_that_is_rare_or_of_its_own_document_is_enough(tmp_path: Path) -> None:
    """60 chunks: at most five may hold a rare word. *pump* stands in all, *gasket* in one,
    *brine* in eleven of which six are of document 2, *valve* in thirty of which three are.
    """
    texts = []
    documents = []
    for number in range(60):
        words = ["The pump works"]
        words += ["with a gasket"] if number == 3 else []
        words += ["in brine"] if 0 < number < 12 else []
        words += ["and a valve"] if number % 2 else []
        texts.append(f"{' '.join(words)}, line {number}.")
        if 3 <= number < 9:
            documents.append(2)
        elif number < 40:
            documents.append(1)
        else:
            documents.append(3)
    checks = corpus_checks(texts, documents, tmp_path)
    for text, passes in [
        ("Which gasket does the pump have?", True),
        ("Does it work in brine?", True),
        ("How does a pump work?", False),
        ("Has the pump a valve?", False),
        ("What is photosynthesis?", False),
    ]:
        left_out = reason(
            checks,
            "own words check",
            ask(text, chunk=4, document=2),
        )
        assert (left_out == "") == passes, text
        assert passes or left_out.startswith(Reason.NOTHING_OWN.words)
    assert (
        reason(checks, "own words check", ask("Does it work in brine?", chunk=10, document=1)) != ""
    )
    assert reason(checks, "own words check", ask("What is on paper 2?", chunk=4, document=2)) == ""


def test_an_everyday_query_needs_no_word_of_its_document(tmp_path: Path) -> None:
    checks = corpus_checks(
        [ENGLISH, "Another text about something else."],
        [1, 2],
        tmp_path,
    )
    plain = "how frequently does somebody grease that machine"
    assert reason(checks, "own words check", ask(plain)).startswith(Reason.NOTHING_OWN.words)
    assert reason(checks, "own words check", ask(plain, kind="everyday")) == ""


def test_an_everyday_query_does_not_repeat_its_document() -> None:
    """ENGLISH has "the pump of hall four was" six words in a row, and "pump of hall four was"
    five.
    """
    checks = corpus_checks([ENGLISH], [1])
    six = "where is the pump of hall four was it sold"
    five = "where is our pump of hall four was it sold"
    assert (
        reason(checks, "copy check", ask(six, kind="everyday"))
        == f"{Reason.COPIED.words}: 6 words in a row"
    )
    assert reason(checks, "copy check", ask(five, kind="everyday")) == ""
    assert reason(checks, "copy check", ask(six)) == ""


def test_without_an_index_words_are_not_judged() -> None:
    assert [check.name for check in corpus_checks([ENGLISH], [1])] == [
        "language check",
        "copy check",
        "near duplicates",
    ]


def test_nearly_the_same_words_about_one_chunk_are_one_query() -> None:
    (check,) = (
        check
        for check in corpus_checks([ENGLISH, ENGLISH], [1, 1])
        if check.name == "near duplicates"
    )
    assert check.find_fault(ask("What is the price of the pump?")) == ""
    assert check.find_fault(ask("What is the pumps' price?")) == "What is the price of the pump?"
    assert check.find_fault(ask("Who paid the price of the pump?")) == ""
    assert check.find_fault(ask("What is the price of the pump?", chunk=2)) == ""
    assert check.find_fault(ask("pump price", kind="keyword")) == ""


def poor(request: Request, number: int) -> str:
    """Of each chunk a good question, its double, a German one, a copy, one that has nothing to
    do with it.
    """
    evidence = json.loads(good(request, number))["questions"][2]["evidence"]
    thing = evidence.split()[4]
    questions = [
        f"How often is the oil of the {thing} changed?",
        f"How often is the {thing}'s oil changed?",
        "Wie oft wird das Öl der Maschine gewechselt?",
        f"The oil of the {thing} is changed every",
        "What is photosynthesis good for?",
    ]
    pairs = [{"evidence": evidence, "question": question} for question in questions]
    return json.dumps(
        {"questions": [*pairs, {"evidence": "Not in it anywhere.", "question": "Where is it?"}]}
    )


SIX = {
    "backend": "endpoint",
    "prompt": "one-step",
    "per_chunk": 6,
    "kinds": ["question"],
}


def shares(events: list[Event]) -> dict[str, str]:
    return {
        event.setting: event.value
        for event in events
        if isinstance(event, Choice) and "%" in event.value
    }


def test_a_run_reports_each_filters_share_and_lists_what_it_left_out(asked_project: Make) -> None:
    with serving(poor) as server:
        project = asked_project(**SIX, endpoint=server.url)
        events = generate_here(project)
        assert len(server.requests) == 6
        project.change_settings({"queries.quality_filters": False})
        assert len(kept_of(project)) == 6
        assert "language check" not in shares(generate_here(project))
        assert len(server.requests) == 6, "filters ask the model nothing"
        unfiltered = len(kept_of(project))
    assert unfiltered > 6
    assert shares(events) == {
        "evidence check": "83 % kept",
        "language check": "80 % kept",
        "copy check": "75 % kept",
        "own words check": "67 % kept",
        "near duplicates": "50 % kept",
        "duplicates": "100 % kept",
    }


def kept_of(project: ProjectFolder) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(
        engine_here("queries", str(project.path), "--json").stdout
    )
    return rows


def test_the_command_lists_what_was_left_out_also_of_an_answer_from_before(
    asked_project: Make,
) -> None:
    with serving(poor) as server:
        project = asked_project(**SIX, endpoint=server.url)
        generate_here(project)
        generate_here(project)
    rows = json.loads(engine_here("queries", str(project.path), "--rejected", "--json").stdout)
    assert set(rows[0]) == {
        "text",
        "kind",
        "evidence",
        "path",
        "title",
        "reason",
        "code",
        "id",
        "split",
        "chunk_id",
        "document_id",
    }
    assert {(row["id"], row["split"]) for row in rows} == {(0, "")}
    assert {row["code"] for row in rows} == {
        Reason.OTHER_LANGUAGE,
        Reason.COPIED,
        Reason.NOTHING_OWN,
        Reason.REPEATED,
        Reason.NOT_FOUND,
    }
    of_pump = sorted((row["text"], row["reason"]) for row in rows if row["path"] == "pump.txt")
    assert of_pump == [
        (
            "How often is the pump's oil changed?",
            f"{Reason.REPEATED.words}: How often is the oil of the pump changed?",
        ),
        ("The oil of the pump is changed every", f"{Reason.COPIED.words}: 8 words in a row"),
        (
            "What is photosynthesis good for?",
            f"{Reason.NOTHING_OWN.words}: its document holds none of its words",
        ),
        ("Where is it?", Reason.NOT_FOUND.words),
        (
            "Wie oft wird das Öl der Maschine gewechselt?",
            f"{Reason.OTHER_LANGUAGE.words}: de instead of en",
        ),
    ]
    store = project.store()
    counts = store.artifact(QueriesInfo).info.rejected  # type: ignore[union-attr]
    store.close()
    assert counts == dict.fromkeys(
        (
            Reason.OTHER_LANGUAGE,
            Reason.COPIED,
            Reason.NOTHING_OWN,
            Reason.REPEATED,
            Reason.NOT_FOUND,
        ),
        6,
    )
    completed = engine_here(
        "queries",
        str(project.path),
        "--rejected",
    )
    copied = [
        line
        for line in completed.stdout.splitlines()
        if Reason.COPIED.words in line and "pump.txt" in line
    ]
    assert [numbers(line) for line in copied] == [[8]]  # words in a row
    assert f"6 {Reason.OTHER_LANGUAGE.words}" in completed.stderr
    assert {row["text"] for row in kept_of(project)} == {
        f"How often is the oil of the {thing} changed?"
        for thing in ("pump", "crane", "kiln", "lathe", "press", "oven")
    }


def test_queries_of_the_other_backends_are_listed_too(asked_project: Make) -> None:
    project = asked_project(backend="extractive", consistency_top=1)
    (project.path / "imports").mkdir(exist_ok=True)
    generate_here(project)
    rows = json.loads(engine_here("queries", str(project.path), "--rejected", "--json").stdout)
    assert all(row["reason"] for row in rows)
    completed = engine_here("queries", str(project.path))
    assert len(completed.stdout.splitlines()) == 2 * len(kept_of(project)) > 0
    assert "train" in completed.stderr


def test_before_any_are_made_the_command_names_what_to_run(asked_project: Make) -> None:
    code, error = error_of("queries", str(asked_project(backend="extractive").path))
    assert (code, error["code"], error["stage"]) == (3, "not-built", "generate")


def test_a_stop_is_heard_between_two_queries(
    asked_project: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def count(_text: str, _source: str) -> tuple[int, int]:
        nonlocal calls
        calls += 1
        return 0, 1

    monkeypatch.setattr("engine.queries.filters.quality.longest_run", count)
    with serving(poor) as server:
        project = asked_project(**SIX, endpoint=server.url)
        with pytest.raises(CancelledError):
            generate_here(project, lambda: calls == 4)
    assert calls == 4


def test_nearly_the_same_words_with_another_year_are_another_query() -> None:
    (check,) = (check for check in corpus_checks([ENGLISH], [1]) if check.name == "near duplicates")
    assert check.find_fault(ask("What was the yearly price of the northern pump in 2019?")) == ""
    assert check.find_fault(ask("What was the yearly price of the northern pump in 2020?")) == ""
    assert check.find_fault(ask("What was the yearly price of the northern pumps in 2019?"))
