"""Queries with typos, with masked words and with other words: what changes, and what stays."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.lab.checks.perturbation import (
    CONDITIONS,
    NEIGHBOURING_KEYS,
    Condition,
    Perturber,
    content_terms,
    typo,
    without_masks,
    words_of,
)
from engine.lab.checks.synonyms import corpus_synonyms

STOP = {"the", "who", "for", "what"}
QUERY = "Who repairs the leaking roof for tenants?"


def terms(text: str) -> list[str]:
    return [word.rstrip("s") for word in words_of(text) if word not in STOP]


def changed(
    condition: Condition, query: str = QUERY, seed: int = 0, answer: tuple[str, ...] = ()
) -> str:
    return (
        Perturber(terms, {"roof": "ceiling", "repairs": "mends"}, seed)
        .perturb(query, condition, answer)
        .text
    )


def test_keys_have_the_neighbours_that_fingers_know() -> None:
    assert set(NEIGHBOURING_KEYS["q"]) == set("wa")
    assert set(NEIGHBOURING_KEYS["g"]) == set("fhtyvb")
    assert all(
        one in NEIGHBOURING_KEYS[other]
        for one, others in NEIGHBOURING_KEYS.items()
        for other in others
    )


def distance(one: str, other: str) -> int:
    """Edits from one word to another, where swapping two neighbours is one (Damerau)."""
    table = (
        {(-1, -1): 0}
        | {(i, -1): i + 1 for i in range(len(one))}
        | {(-1, j): j + 1 for j in range(len(other))}
    )
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            table[i, j] = min(
                table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (a != b)
            )
            if i and j and a == other[j - 1] and one[i - 1] == b:
                table[i, j] = min(table[i, j], table[i - 2, j - 2] + 1)
    return table[len(one) - 1, len(other) - 1]


@given(st.text("abcdefghijklmnopqrstuvwxyzäß", min_size=3, max_size=12), st.integers(0, 1_000))
def test_a_typo_is_one_slip_that_spares_the_first_letter(word: str, seed: int) -> None:
    slipped = typo(word, random.Random(seed))
    assert distance(word, slipped) == 1
    assert slipped[0] == word[0]


def test_all_four_kinds_of_typo_occur() -> None:
    found = {typo("winter", random.Random(seed)) for seed in range(300)}
    assert {"winetr", "winnter", "wnter", "wimter"} <= found


@pytest.mark.parametrize("kind", ["typo", "mask"])
def test_so_many_words_are_changed_and_stop_words_never(kind) -> None:
    for words in (1, 2, 3):
        text = changed(Condition(kind, words))
        before = QUERY.split()
        after = text.split()
        assert len(before) == len(after)
        differing = [old for old, new in zip(before, after, strict=True) if old != new]
        assert len(differing) == words
        assert not STOP & {word.lower() for word in differing}


def test_a_query_with_one_word_more_changed_keeps_the_former_changes() -> None:
    one, two = (changed(Condition("mask", words)).split() for words in (1, 2))
    assert {place for place, word in enumerate(one) if word == "[MASK]"} < {
        place for place, word in enumerate(two) if word == "[MASK]"
    }


def test_words_that_the_answer_has_are_changed_first() -> None:
    for seed in range(10):
        assert "[MASK] roof" in changed(Condition("mask", 1), seed=seed, answer=("leaking",))
        assert "the leaking [MASK] for [MASK]" in changed(
            Condition("mask", 2), seed=seed, answer=("roof", "tenant")
        )


def test_words_are_exchanged_where_another_is_known() -> None:
    assert changed(Condition("substitute", 3)) == "Who mends the leaking ceiling for tenants?"
    found = Perturber(terms, {"roof": "ceiling"}).perturb(
        "Roof or floor", Condition("substitute", 2)
    )
    assert (found.text, found.changed) == ("Ceiling or floor", 1)


def test_all_words_that_the_answer_has_are_changed_and_no_others() -> None:
    masked = Condition("mask shared")
    assert (
        changed(masked, answer=("roof", "tenant", "cellar"))
        == "Who repairs the leaking [MASK] for [MASK]?"
    )
    assert changed(masked) == QUERY
    exchanged = Condition("substitute shared")
    assert (
        changed(exchanged, answer=("roof", "tenant"))
        == "Who repairs the leaking ceiling for tenants?"
    )
    assert changed(exchanged, answer=("tenant",)) == QUERY  # no other word is known for it


CODED = "When was PHX-121, not PHX122, sold on 2024-03-01 or in 2023?"


def analysed(text: str) -> list[str]:
    if text.lower() in (*STOP, "when", "was", "not", "sold"):
        return []
    return content_terms("en")(text)


def test_codes_and_dates_are_masked_and_written_otherwise_and_never_mistyped() -> None:
    perturber = Perturber(analysed, {})
    everything = [
        perturber.perturb(CODED, Condition(kind, 9)) for kind in ("mask", "substitute", "typo")
    ]
    assert everything[0].text == "When was [MASK], not [MASK], sold on [MASK] or in [MASK]?"
    assert everything[1].text == "When was PHX121, not PHX-122, sold on 1.3.2024 or in 2023?"
    assert [one.changed for one in everything] == [4, 3, 0]
    assert perturber.words(CODED) == ["PHX-121", "PHX122", "2024-03-01", "2023"]
    assert (
        perturber.perturb("on 2024-13-01", Condition("substitute", 1)).changed == 0
    )  # no such month


@pytest.mark.parametrize("number", ["27,500", "1,234,567", "27,500.50", "3,5"])
def test_a_number_with_separators_is_masked_whole(number: str) -> None:
    found = Perturber(analysed, {}).perturb(
        f"Who owes {number}, and why?", Condition("mask shared"), analysed(number)
    )
    assert found.text == "Who owes [MASK], and why?"


def test_an_answer_shares_a_code_where_it_has_all_of_it_and_a_models_words_come_first() -> None:
    answer = analysed("PHX-121 costs more since 1 March 2024")
    found = Perturber(analysed, {}).perturb(
        CODED,
        Condition("mask shared"),
        answer,
    )
    assert found.text == "When was [MASK], not PHX122, sold on 2024-03-01 or in 2023?"
    own = {"2024-03-01": "March's first day"}
    found = Perturber(analysed, {}).perturb(
        "on 2024-03-01", Condition("substitute", 1), preferred=own
    )
    assert found.text == "on March's first day"


def test_half_of_the_words_are_changed_by_typo_or_exchange() -> None:
    long = " ".join(["leaking", "roof", "tenants", "windows"] * 500)
    found = Perturber(terms, {"roof": "ceiling"}).perturb(long, Condition("half"))
    assert found.changed == pytest.approx(1_000, abs=80)
    assert found.text.split().count("ceiling") == pytest.approx(125, abs=40)


def test_the_seed_decides_and_a_clean_query_stays() -> None:
    condition = Condition("typo", 2)
    assert changed(condition) == changed(condition)
    assert len({changed(condition, seed=seed) for seed in range(20)}) > 5
    assert changed(CONDITIONS[0]) == QUERY


@pytest.mark.parametrize(
    "query", ["", "?!", "42", "9.5 42 v2", "the who", "ab [", "\ud800\0 {{x}}"]
)
@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda one: f"{one.kind}{one.words}")
def test_a_query_without_words_to_change_is_left_alone(query, condition) -> None:
    found = Perturber(terms, {}).perturb(query, condition)
    assert (found.text, found.changed) == (query, 0)


def test_any_words_are_mistyped_or_exchanged_whatever_the_answer_holds() -> None:
    texts = [f"leaking roof tenants number{chr(97 + n)} windows" for n in range(26)]
    perturber = Perturber(terms, {"roof": "ceiling", "windows": "panes"})
    found = [
        [perturber.perturb(text, Condition("corrupt", words), terms("roof")) for words in (1, 2, 3)]
        for text in texts
    ]
    assert {tuple(one.changed for one in row) for row in found} == {(1, 2, 3)}
    for text, row in zip(texts, found, strict=True):
        pairs = [list(enumerate(zip(text.split(), one.text.split(), strict=True))) for one in row]
        one, two, three = (
            {place for place, (before, after) in some if before != after} for some in pairs
        )
        assert one < two < three
    first = [one.text for one, _, _ in found]
    assert 0 < sum("roof" not in text for text in first) < 20  # the answer's word is not sought out
    words = {word for _, _, one in found for word in one.text.split()}
    assert {"ceiling", "panes"} <= words  # by synonym if there is one,
    assert (
        len(words - {"ceiling", "panes"} - {word for text in texts for word in text.split()}) > 20
    )  # else by typo


def test_bm25_does_not_see_masks() -> None:
    assert without_masks("Who [MASK] the roof [MASK]?") == "Who the roof ?"
    assert without_masks("[MASK]") == ""


def test_words_used_alike_are_found_and_the_same_stem_is_not() -> None:
    things = ["apples", "apple", "pears", "plums"]
    tools = ["hammer", "chisel", "pliers", "wrench"]
    texts = []
    for number in range(200):
        thing = things[number % 4]
        tool = tools[number // 4 % 4]
        texts.append(f"she peeled ripe juicy {thing} into the fruit bowl for dessert")
        texts.append(f"he gripped the heavy steel {tool} from the workshop drawer to repair")
    found = corpus_synonyms(
        texts,
        ["Pears", "hammer", "apples", "ignore_choice", "the"],
        terms,
    )
    assert found["pears"] in things
    assert found["hammer"] in tools[1:]
    assert found["apples"] in ("pears", "plums")
    assert set(found) == {"pears", "hammer", "apples"}


def test_a_corpus_without_text_has_no_synonyms() -> None:
    assert corpus_synonyms([], ["roof"], terms) == {}
    assert corpus_synonyms(["roof"] * 9, ["roof"], terms) == {}
    assert corpus_synonyms(["roof house"] * 3, ["roof"], terms) == {}


def test_no_context_reaches_from_one_text_into_the_next() -> None:
    from engine.lab.checks.synonyms import count_cooccurrences

    counts = count_cooccurrences(
        [["roof", "house"], ["garden"]], {"roof": 0, "house": 1, "garden": 2}, 3, 3
    )
    assert counts.tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]


def test_words_that_only_join_others_have_no_terms() -> None:
    english = content_terms("en")
    unknown = content_terms("none")
    assert (english("Over"), english("the"), english("didn't")) == ([], [], [])
    assert english("tenants over the roof") == ["tenant", "over", "roof"]
    assert unknown("over") == ["over"]
