from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fixtures.errors import fails
from fixtures.tiny_model import build_tiny_model

from engine.core.errors import TooLittleTextError
from engine.encoders.hardware import Hardware
from engine.encoders.model_folder import ModelFolder
from engine.training.config import TrainingConfig
from engine.training.model.student import Student
from engine.training.pretraining.masked_batches import (
    MAX_WORD_LENGTH,
    MaskedBatches,
    MaskRule,
    find_whole_words,
)

MASK = 4
CPU = Hardware(
    "cpu",
    "float32",
    1,
    (),
)
ORDINARY = np.arange(5, 1000)


def rule(share: float = 0.15) -> MaskRule:
    return MaskRule(MASK, ORDINARY, share)


def words_of(lengths: list[int]) -> np.ndarray:
    """Words of these lengths between two special tokens."""
    return np.array([-1, *np.repeat(np.arange(len(lengths)), lengths), -1])


def test_words_by_hand() -> None:
    words = np.array([-1, 0, 0, 1, -1, 2, 2, 2, -1])
    assert [unit.tolist() for unit in find_whole_words(words)] == [[1, 2], [3], [5, 6, 7]]
    # Equal numbers on both sides of a token that is never hidden are not one word.
    assert [unit.tolist() for unit in find_whole_words(np.array([7, -1, 7]))] == [[0], [2]]
    assert [len(unit) for unit in find_whole_words(np.zeros(MAX_WORD_LENGTH, int))] == [
        MAX_WORD_LENGTH
    ]
    assert [len(unit) for unit in find_whole_words(np.zeros(MAX_WORD_LENGTH + 1, int))] == [1] * (
        MAX_WORD_LENGTH + 1
    )
    assert find_whole_words(np.array([-1, -1])) == []


def test_shares_of_masked_random_and_kept_tokens() -> None:
    rng = np.random.default_rng(0)
    ids = np.full(20_002, 3000)  # no random token is 3000
    words = words_of([1] * 20_000)
    text = rule().apply(ids, words, rng)
    assert len(text.places) == 3000  # 15 % of 20,000
    assert (text.targets == 3000).all()
    seen = text.ids[text.places]
    masked = (seen == MASK).mean()
    kept = (seen == 3000).mean()
    # Three standard deviations of a share p of 3,000: 3·√(p(1 − p)/3000) = 2.2 % and 1.6 %.
    assert masked == pytest.approx(0.8, abs=0.022)
    assert kept == pytest.approx(0.1, abs=0.017)
    random = seen[(seen != MASK) & (seen != 3000)]
    assert set(random.tolist()) <= set(ORDINARY.tolist())
    assert len(set(random.tolist())) > 100
    elsewhere = np.delete(np.arange(len(ids)), text.places)
    assert (text.ids[elsewhere] == 3000).all()


def test_whole_words_are_chosen_and_others_are_left() -> None:
    lengths = [1, 2, 3, 1, 4, 2, 1, 3, 2, 1] * 10
    words = words_of(lengths)
    ids = np.arange(len(words)) + 2000
    for seed in range(50):
        text = rule().apply(
            ids,
            words,
            np.random.default_rng(seed),
        )
        assert len(text.places) in (29, 30)  # 15 % of 200; the last word may not fit
        assert words[text.places].min() >= 0
        for word in set(words[text.places].tolist()):
            assert np.count_nonzero(words[text.places] == word) == lengths[word]
        assert text.targets.tolist() == ids[text.places].tolist()


def test_every_word_has_its_turn() -> None:
    words = words_of([1] * 20)
    ids = np.arange(22)
    chosen = np.concatenate(
        [rule().apply(ids, words, np.random.default_rng(seed)).places for seed in range(400)]
    )
    counts = np.bincount(chosen, minlength=22)
    assert counts[0] == counts[21] == 0
    assert counts[1:21].sum() == 1200
    assert counts[1:21].min() > 30  # 60 each; √(400 · 0.15 · 0.85) = 7


def test_short_texts_give_up_one_token_and_texts_without_words_none() -> None:
    text = rule().apply(
        np.array([2, 50, 51, 52, 3]),
        words_of([3]),
        np.random.default_rng(0),
    )
    assert len(text.places) == 1
    assert 1 <= text.places[0] <= 3
    nothing = rule().apply(
        np.array([2, 3]),
        np.array([-1, -1]),
        np.random.default_rng(0),
    )
    assert len(nothing.places) == 0
    assert nothing.ids.tolist() == [2, 3]


def test_the_same_seed_hides_the_same_and_the_input_is_left_alone() -> None:
    words = words_of([1, 2, 1] * 20)
    ids = np.arange(len(words)) + 2000
    first, second, other = (
        rule().apply(ids, words, np.random.default_rng(seed)) for seed in (5, 5, 6)
    )
    assert first.places.tolist() == second.places.tolist()
    assert first.ids.tolist() == second.ids.tolist()
    assert first.places.tolist() != other.places.tolist()
    assert ids.tolist() == (np.arange(len(words)) + 2000).tolist()


TEXTS = [
    "contract party law 9z7k flow",
    "",
    "pressure boundary layer [MASK] heat [SEP] market",
    "heat \ud800 ü news",
    "☃",
    *(f"court judge agreement {n} notice term" for n in range(20)),
]


@pytest.fixture(scope="module")
def student(tiny: ModelFolder) -> Student:
    return Student(
        tiny,
        TrainingConfig(lora_rank=2),
        CPU,
    )


def batches(
    student: Student,
    recipe: TrainingConfig,
    texts: list[str] = TEXTS,
) -> MaskedBatches:
    return MaskedBatches(
        student,
        texts,
        recipe,
        lambda: None,
    )


def test_special_and_unknown_tokens_are_never_hidden(
    student: Student, recipe: TrainingConfig
) -> None:
    special = set(student.tokenizer.all_special_ids)
    found = batches(student, replace(recipe, mask_share=0.9, pretrain_chunks_per_step=25))
    targets = np.concatenate([text.targets for step in range(20) for text in found.batch(step)])
    assert not special & set(targets.tolist())
    assert found.token_counts[sorted(special)].sum() == 0
    assert found.token_counts.sum() > 100
    assert set(targets.tolist()) == set(np.flatnonzero(found.token_counts).tolist())
    # Two texts have nothing to hide: the empty one, and a single unknown character.
    assert len(found.batch(0)) == len(TEXTS) - 2


def test_a_corpus_without_a_known_word_is_refused(student: Student, recipe: TrainingConfig) -> None:
    with fails(TooLittleTextError, "too-little-to-train"):
        batches(
            student,
            recipe,
            ["☃", ""],
        )


def test_random_tokens_are_no_special_ones(student: Student, recipe: TrainingConfig) -> None:
    found = batches(student, replace(recipe, mask_share=0.9, pretrain_chunks_per_step=25))
    special = set(student.tokenizer.all_special_ids) - {student.tokenizer.mask_token_id}
    for step in range(20):
        for text in found.batch(step):
            assert not special & set(text.ids[text.places].tolist())


def test_batches_depend_on_seed_and_step_alone(student: Student, recipe: TrainingConfig) -> None:
    config = replace(recipe, pretrain_chunks_per_step=8)
    one = batches(student, config)
    two = batches(student, config)
    other = batches(student, replace(config, seed=9))

    def shown(texts: list) -> list:
        return [(text.ids.tolist(), text.places.tolist()) for text in texts]

    for step in (7, 0, 3):
        assert shown(one.batch(step)) == shown(two.batch(step))
        assert shown(one.batch(step)) != shown(other.batch(step))
    assert shown(one.batch(0)) != shown(one.batch(1))


def test_a_chunk_is_tokenised_once(
    student: Student, recipe: TrainingConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = batches(student, replace(recipe, pretrain_chunks_per_step=8))
    monkeypatch.setattr(Student, "chunk_words", None)
    assert sum(len(found.batch(step)) for step in range(9)) == 72


def test_every_chunk_is_seen_once_in_an_epoch(student: Student, recipe: TrainingConfig) -> None:
    texts = [f"court {n}" for n in range(12)]
    found = batches(
        student,
        replace(recipe, pretrain_chunks_per_step=4),
        texts,
    )
    rows = []
    for step in range(3):
        for text in found.batch(step):
            ids = text.ids.copy()
            ids[text.places] = text.targets
            rows.append(tuple(ids.tolist()))
    assert sorted(rows) == sorted(tuple(row) for row in student.chunk_rows(texts))


def test_a_prompt_is_never_hidden(recipe: TrainingConfig, tmp_path) -> None:
    import json

    from engine.encoders.model_folder import resolve_model

    folder = build_tiny_model(tmp_path / "prompted")
    prompts = {"prompts": {"document": "law court: "}, "default_prompt_name": None}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    student = Student(
        resolve_model(str(folder)),
        recipe,
        CPU,
    )
    found = batches(
        student,
        replace(recipe, mask_share=0.9),
        ["heat speed sound market"],
    )
    assert student.chunk_prompt_length == 4  # [CLS] law court :
    for step in range(20):
        (text,) = found.batch(step)
        assert text.places.min() >= 4
        assert len(text.ids) == 9
