"""Counting and cutting text by a Hugging Face tokenizer, without truncation, padding or special
tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.errors import ModelError

if TYPE_CHECKING:
    from semantic_text_splitter import MarkdownSplitter, TextSplitter
    from tokenizers import Tokenizer

_BATCH_FROM = 16
_MOST_WORDS = 250_000
_LONGEST_WORD = 64
WINDOW = (
    2**14
)  # characters: a splitter takes time by the square of what it is given, in the worst case
WINDOW_PER_TOKEN = 16
COUNTED_AT_ONCE = 2**18  # characters
_BREAKS = ("\n\n", "\n", " ")


class TokenCounter:
    """Wraps a tokenizer.json. Raises ModelError when the file is missing or not a tokenizer."""

    def __init__(self, tokenizer_file: Path) -> None:
        from tokenizers import Tokenizer

        try:
            self._tokenizer = Tokenizer.from_str(tokenizer_file.read_text(encoding="utf-8"))
        except Exception as error:  # tokenizers raises bare Exception
            what = f"The tokenizer {tokenizer_file} cannot be used."
            to_do = "Name a complete model folder in encoder.model."
            raise ModelError(what, str(error), to_do, code="tokenizer-invalid") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.splitter = lru_cache(maxsize=64)(self._new_splitter)
        self._counted = lru_cache(maxsize=4096)(self._count)
        self._words = _Words(self._count) if _counts_by_word(self._tokenizer) else None

    def count(self, text: str) -> int:
        """Tokens of a text. Words, or short texts, are remembered: they come again and again."""
        if self._words is not None:
            return sum(map(self._words.__getitem__, text.replace("\n", " ").split(" ")))
        if len(text) < 512:
            return self._counted(text)
        return self._count(text)

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """`count` for many texts, in one call where that pays."""
        if self._words is not None or len(texts) < _BATCH_FROM:
            return [self.count(text) for text in texts]
        return [
            len(found)
            for found in self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        ]

    def count_long(self, text: str, check: Callable[[], None] = lambda: None) -> int:
        """Tokens of a long text, a piece at a time: a word parted by that counts as its parts.

        `check` may raise.
        """
        count = 0
        for start in range(0, len(text), COUNTED_AT_ONCE):
            check()
            count += self.count(text[start : start + COUNTED_AT_ONCE])
        return count

    def split(
        self, text: str, capacity: int, markdown: bool, check: Callable[[], None] = lambda: None
    ) -> list[tuple[int, int]]:
        """Spans of pieces of at most `capacity` tokens, without outer white space, that hold all
        of the text.

        A long text is cut window by window, in time that grows with its length; `check` is called
        before each, and may raise.
        """
        return list(self._split(text, max(capacity, 1), markdown, check))

    def _split(
        self, text: str, capacity: int, markdown: bool, check: Callable[[], None]
    ) -> Iterator[tuple[int, int]]:
        splitter = self.splitter(capacity, markdown)
        window = max(WINDOW, WINDOW_PER_TOKEN * capacity)
        start = 0
        while start < len(text):
            check()
            end = _window_end(text, start, window)
            pieces = [
                (start + at, start + at + len(piece))
                for at, piece in splitter.chunk_indices(text[start:end])
            ]
            if end < len(text) and len(pieces) > 1:
                end = pieces.pop()[0]  # what follows the window may belong to its last piece
            yield from pieces
            start = end

    def shortened(self, text: str, most_tokens: int, most_chars: int) -> str:
        """The longest beginning of a text within both bounds."""
        text = text[:most_chars]
        offsets = self._tokenizer.encode(text, add_special_tokens=False).offsets
        if len(offsets) <= most_tokens:
            return text
        return text[: offsets[most_tokens - 1][1]]

    def _count(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False))

    def _new_splitter(self, capacity: int, markdown: bool) -> TextSplitter | MarkdownSplitter:
        from semantic_text_splitter import MarkdownSplitter, TextSplitter

        kind = MarkdownSplitter if markdown else TextSplitter
        return kind.from_callback(self.count, capacity)


class _Words(dict[str, int]):
    """Word → tokens, which `count` finds when the word is first asked for."""

    def __init__(self, count: Callable[[str], int]) -> None:
        super().__init__()
        self._count = count

    def __missing__(self, word: str) -> int:
        tokens = self._count(word)
        if len(self) < _MOST_WORDS and len(word) <= _LONGEST_WORD:
            self[word] = tokens
        return tokens


def _counts_by_word(tokenizer: Tokenizer) -> bool:
    """Whether the tokens of a text are those of its words between spaces: BERT's pre-tokenizer
    parts it there, and its normalizer changes each character by itself.
    """
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    apart = isinstance(tokenizer.pre_tokenizer, BertPreTokenizer) and isinstance(
        tokenizer.normalizer, BertNormalizer
    )
    return apart and all(
        len(token.content.split()) == 1 for token in tokenizer.get_added_tokens_decoder().values()
    )


def _window_end(text: str, start: int, size: int) -> int:
    """Where a window of about `size` characters ends: at a break in its second half, if there is
    one.
    """
    end = start + size
    if end >= len(text):
        return len(text)
    found = (text.rfind(between, start + size // 2, end) + len(between) for between in _BREAKS)
    return next((place for place in found if place > start + size // 2), end)
