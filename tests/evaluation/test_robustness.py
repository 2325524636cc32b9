"""Perturbed queries measured: the same queries under every condition, with losses against the clean ones."""

from __future__ import annotations

import numpy as np

from engine.evaluation import robustness
from engine.evaluation.judgments import Judgment
from engine.evaluation.perturbing import CONDITIONS
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.robustness import make_trial, measure_trial
from engine.lexical.named import Meant
from engine.records import Chunk

WORDS = ["roof", "garden", "window", "kitchen", "cellar", "chimney", "staircase", "balcony", "corridor", "terrace"]


def chunk(number: int, text: str) -> Chunk:
    return Chunk(1, 0, 0, len(text), text, (), 5, text, f"hash {number}", id=number)


CHUNKS = [chunk(number, f"{word} repair costs") for number, word in enumerate(WORDS * 4, 1)]


def terms(text: str) -> list[str]:
    return [word for word in text.lower().split() if word != "the"]


def query_set(count: int = 40) -> QuerySet:
    judgments = [Judgment(f"q{n}", "", "chunk", {n: 1} if n != 3 else {}) for n in range(1, count + 1)]
    meant = [
        Meant(f"the {WORDS[(n - 1) % 10]} number", frozenset({7}) if n == 5 else frozenset())
        for n in range(1, count + 1)
    ]
    return QuerySet("judged queries", "judged", judgments, meant)


def document_of(ids: np.ndarray) -> np.ndarray:
    return ids


def test_every_usable_query_stands_once_under_every_condition():
    trial = make_trial(query_set(), CHUNKS, terms)
    assert trial is not None
    assert trial.queries == 39  # one has no answer in the corpus
    assert len(trial.perturbed.judgments) == len(trial.perturbed.texts) == 39 * len(CONDITIONS)
    assert trial.perturbed.texts[:2] == ["the roof number", "the garden number"]
    keys = [judgment.key for judgment in trial.perturbed.judgments]
    assert keys[39:78] == keys[:39]
    named = [place % 39 for place, meant in enumerate(trial.perturbed.meant) if meant.documents]
    assert named == [3] * len(CONDITIONS)
    assert trial.changed[0] == 0
    masked = trial.perturbed.texts[39 * 4 : 39 * 5]  # mask, one word: the one that the answer has
    assert set(masked) == {"the [MASK] number"}


def test_a_set_of_many_queries_is_sampled_and_one_without_answers_is_none(monkeypatch):
    monkeypatch.setattr(robustness, "MOST_QUERIES", 12)
    trial = make_trial(query_set(), CHUNKS, terms)
    assert trial is not None
    assert trial.queries == 12
    empty = QuerySet("judged queries", "judged", [Judgment("a", "", "chunk", {})], [Meant("roof")])
    assert make_trial(empty, CHUNKS, terms) is None


def test_losses_are_against_the_same_queries_unchanged():
    trial = make_trial(query_set(), CHUNKS, terms)
    assert trial is not None
    answers = np.array([[next(iter(judgment.grades))] for judgment in trial.perturbed.judgments])
    fragile = answers.copy()
    fragile[39 * 4 : 39 * 7] = -1  # finds nothing where words are masked
    found = measure_trial(trial, {"steady": answers, "fragile": fragile}, document_of, samples=500)
    assert (found.name, found.kind, found.queries) == ("judged queries", "judged", 39)
    assert [(row.kind, row.words) for row in found.rows] == [(one.kind, one.words) for one in CONDITIONS]
    clean, masked = found.rows[0], found.rows[4]
    assert clean.losses == {}
    assert clean.systems["fragile"]["hit@10"].value == 100.0
    assert masked.systems["fragile"]["ndcg@10"].value == 0.0
    assert (masked.losses["fragile"].value, masked.losses["fragile"].verdict) == (-100.0, "worse")
    assert masked.losses["steady"].verdict == "no difference shown"
    assert found.as_dict()["rows"][4]["systems"]["steady"]["ndcg@10"] == {"value": 100.0, "low": 100.0, "high": 100.0}


def test_other_metrics_drop_as_well_and_each_has_its_verdict():
    trial = make_trial(query_set(), CHUNKS, terms)
    assert trial is not None
    answers = np.array([[next(iter(judgment.grades))] for judgment in trial.perturbed.judgments])
    second = np.stack([np.full(len(answers), 10_000), answers[:, 0]], axis=1)  # the answer is the second hit
    second[: trial.queries] = second[: trial.queries, ::-1]
    found = measure_trial(trial, {"slipping": second}, document_of, samples=500)
    drops = found.rows[1].drops["slipping"]
    assert set(drops) == {"hit@10", "mrr@10", "map@10"}
    assert (drops["mrr@10"].value, drops["mrr@10"].verdict) == (-50.0, "worse")
    assert drops["hit@10"].verdict == "no difference shown"
    assert found.rows[0].drops == {}


def test_a_language_models_words_come_before_the_documents_own():
    def ask(asked):
        return [{"roof": "top of the house"} if "roof" in words else {} for _, words in asked], "small"

    trial = make_trial(query_set(), CHUNKS, terms, ask=ask)
    assert trial is not None
    exchanged = trial.perturbed.texts[39 * 7 : 39 * 8]
    assert exchanged[0] == "the top of the house number"
    assert not any("top of the house" in text for text in exchanged[1:9])
    assert trial.synonyms.model == "small"
    # Of "roof number", "garden number" …: "roof" alone, four times in 39 queries of two words.
    assert trial.synonyms.share == 100 * 4 / 78
    none = make_trial(query_set(), CHUNKS, terms, ask=lambda asked: ([], ""))
    assert none is not None
    assert (none.synonyms.model, none.synonyms.share) == ("", 0.0)
