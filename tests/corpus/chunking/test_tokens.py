"""Tokens counted word by word are those of the whole text, and a text is cut as by the tokenizer
itself.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from semantic_text_splitter import MarkdownSplitter, TextSplitter
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from engine.corpus.chunking.tokens import TokenCounter

WORDS = (
    "[UNK] [MASK] pump pumps ##s ##ing valve seal a b e i n r t u ##a ##b ##e ##i ##n ##r ##t ##u"
    " 検 索 . , - 4 ##0"
)
PIECES = [
    "pump",
    "Pumps",
    "sealing",
    " ",
    "  ",
    "\n",
    "\t",
    "\r\n",
    "\x1c",
    "\x85",
    "\u00a0",
    "\u2028",
    "\u200b",
    "\x00",
    "\ufffd",
    "e\u0301",
    "\u0301",
    "é",
    "検索",
    "İ",
    "ß",
    "[MASK]",
    "[mask]",
    "40.",
    "x" * 150,
    "-",
    "\ufeff",
    "a b",
]
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=6)), max_size=30).map("".join)


def bert(
    folder: Path, name: str, normalizer: normalizers.Normalizer, *added: AddedToken
) -> tuple[TokenCounter, Tokenizer]:
    """A tokenizer of BERT's kind, and what counts by it."""
    vocabulary = {word: number for number, word in enumerate(WORDS.split())}
    tokenizer = Tokenizer(models.WordPiece(vocab=vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens([AddedToken("[MASK]", lstrip=True), *added])
    tokenizer.save(str(folder / name))
    return TokenCounter(folder / name), tokenizer


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[TokenCounter, Tokenizer]]:
    """With and without lower case; one with a token of two words; one whose normalizer takes
    away the spaces.
    """
    folder = tmp_path_factory.mktemp("tokenizers")
    none = normalizers.Replace(" ", "")
    return [
        bert(folder, "uncased.json", normalizers.BertNormalizer()),
        bert(folder, "cased.json", normalizers.BertNormalizer(lowercase=False, clean_text=False)),
        bert(folder, "two-words.json", normalizers.BertNormalizer(), AddedToken("a b")),
        bert(folder, "joined.json", normalizers.Sequence([none, normalizers.BertNormalizer()])),
    ]


@settings(max_examples=400, deadline=None)
@given(TEXTS)
def test_words_add_up_to_the_tokens_of_a_text(
    pairs: list[tuple[TokenCounter, Tokenizer]], text: str
) -> None:
    for counter, tokenizer in pairs:
        whole = len(tokenizer.encode(text, add_special_tokens=False).ids)
        assert counter.count(text) == counter.count_long(text) == whole
        assert counter.count_many([text] * 20) == [whole] * 20


def test_what_is_no_sum_of_words_is_not_counted_by_them(
    pairs: list[tuple[TokenCounter, Tokenizer]],
) -> None:
    assert [counter.count("a b pump s") for counter, _ in pairs] == [4, 4, 3, 1]


@pytest.mark.parametrize("capacity", [3, 17, 60])
def test_a_text_is_cut_as_by_the_tokenizer_itself(
    pairs: list[tuple[TokenCounter, Tokenizer]], capacity: int
) -> None:
    text = "\n\n".join(
        f"# Pump {n}\n\nThe pump {n} seals. " + "valve, " * (n % 23) + "- a\n- b\n検索 " * (n % 3)
        for n in range(40)
    )
    for counter, tokenizer in pairs:
        for kind, markdown in ((TextSplitter, False), (MarkdownSplitter, True)):
            by_tokenizer = kind.from_huggingface_tokenizer(tokenizer, capacity).chunk_indices(text)
            cut = counter.split(text, capacity, markdown)
            assert [text[start:end] for start, end in cut] == [piece for _, piece in by_tokenizer]
            assert len(cut) > 20
