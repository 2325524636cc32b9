"""Counting and cutting text by a Hugging Face tokenizer.

Texts are tokenized without truncation, padding and special tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.errors import ModelError

if TYPE_CHECKING:
    from semantic_text_splitter import MarkdownSplitter, TextSplitter
    from tokenizers import Tokenizer

# Fewer texts than this are counted one by one.
_MIN_BATCH = 16
# Counts of texts and words with more characters are not remembered, since such texts hardly recur.
_MAX_REMEMBERED_TEXT = 512
_MAX_REMEMBERED_WORD = 64
_MAX_REMEMBERED_WORDS = 250_000
# Characters that a splitter gets at once, at least; in the worst case its time grows with their
# square. For large chunks it gets so many characters for each token of the chunk.
WINDOW = 2**14
WINDOW_PER_TOKEN = 16
COUNTED_AT_ONCE = 2**18  # characters
# Where a window may end, best first: between paragraphs, between lines, between words.
_BREAKS = ("\n\n", "\n", " ")


class TokenCounter:
    """A tokenizer.json that counts and cuts text.

    Raises ModelError if the file is missing or not a tokenizer.
    """

    def __init__(self, tokenizer_file: Path) -> None:
        from tokenizers import Tokenizer

        try:
            self._tokenizer = Tokenizer.from_str(tokenizer_file.read_text(encoding="utf-8"))
        # tokenizers raises bare Exception.
        except Exception as error:
            what = f"The tokenizer {tokenizer_file} cannot be used."
            to_do = "Name a complete model folder in encoder.model."
            raise ModelError(
                what,
                str(error),
                to_do,
                code="tokenizer-invalid",
            ) from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.splitter = lru_cache(maxsize=64)(self._build_splitter)
        self._count_cached = lru_cache(maxsize=4096)(self._count)
        self._word_counts: _WordCounts | None = None
        if _counts_by_word(self._tokenizer):
            self._word_counts = _WordCounts(self._count)

    def count(self, text: str) -> int:
        """Count the tokens of a text.

        Words and short texts recur, so their counts are remembered.
        """
        if self._word_counts is not None:
            words = text.replace("\n", " ").split(" ")
            # A lookup that is called from Python for each word takes much longer.
            return sum(map(self._word_counts.__getitem__, words))
        if len(text) < _MAX_REMEMBERED_TEXT:
            return self._count_cached(text)
        return self._count(text)

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text; many texts are counted in one call."""
        if self._word_counts is not None or len(texts) < _MIN_BATCH:
            return [self.count(text) for text in texts]
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [len(encoding) for encoding in encodings]

    def count_long(
        self, text: str, check: Callable[[], None] = lambda: None, piece: int = COUNTED_AT_ONCE
    ) -> int:
        """Count the tokens of a long text, `piece` characters at a time.

        A word that is cut between two pieces counts as two words. `check` is called before each
        piece, and may raise.
        """
        count = 0
        for start in range(0, len(text), piece):
            check()
            count += self.count(text[start : start + piece])
        return count

    def split(
        self, text: str, capacity: int, markdown: bool, check: Callable[[], None] = lambda: None
    ) -> list[tuple[int, int]]:
        """Cut a text into spans of at most `capacity` tokens, without outer white space.

        The spans hold all of the text. A long text is cut window by window, in time that grows
        with its length. `check` is called before each window, and may raise.
        """
        capacity = max(capacity, 1)
        splitter = self.splitter(capacity, markdown)
        window = max(WINDOW, WINDOW_PER_TOKEN * capacity)
        pieces: list[tuple[int, int]] = []
        start = 0
        while start < len(text):
            check()
            end = _find_window_end(text, start, window)
            pieces_before = len(pieces)
            for offset, piece in splitter.chunk_indices(text[start:end]):
                pieces.append((start + offset, start + offset + len(piece)))
            if end < len(text) and len(pieces) > pieces_before + 1:
                # The text after the window may belong to its last piece, so that is cut again.
                end = pieces.pop()[0]
            start = end
        return pieces

    def shorten(
        self,
        text: str,
        max_tokens: int,
        max_chars: int,
    ) -> str:
        """Return the longest beginning of a text within both bounds."""
        text = text[:max_chars]
        # The start and the end of each token in the text.
        offsets = self._tokenizer.encode(text, add_special_tokens=False).offsets
        if len(offsets) <= max_tokens:
            return text
        _, end = offsets[max_tokens - 1]
        return text[:end]

    def _count(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False))

    def _build_splitter(self, capacity: int, markdown: bool) -> TextSplitter | MarkdownSplitter:
        """Return a splitter into pieces of at most `capacity` tokens."""
        from semantic_text_splitter import MarkdownSplitter, TextSplitter

        splitter_class = MarkdownSplitter if markdown else TextSplitter
        return splitter_class.from_callback(self.count, capacity)


class _WordCounts(dict[str, int]):
    """Word → number of its tokens, counted when the word is first looked up."""

    def __init__(self, count: Callable[[str], int]) -> None:
        super().__init__()
        self._count = count

    def __missing__(self, word: str) -> int:
        tokens = self._count(word)
        if len(self) < _MAX_REMEMBERED_WORDS and len(word) <= _MAX_REMEMBERED_WORD:
            self[word] = tokens
        return tokens


def _counts_by_word(tokenizer: Tokenizer) -> bool:
    """Return whether the tokens of a text are those of its words between spaces.

    BERT's pre-tokenizer splits it there, and its normalizer changes each character by itself.
    """
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    if not isinstance(tokenizer.pre_tokenizer, BertPreTokenizer):
        return False
    if not isinstance(tokenizer.normalizer, BertNormalizer):
        return False
    added_tokens = tokenizer.get_added_tokens_decoder().values()
    return all(len(token.content.split()) == 1 for token in added_tokens)


def _find_window_end(
    text: str,
    start: int,
    size: int,
) -> int:
    """Return where a window of at most `size` characters ends.

    That is the last break in its second half, if there is any: between paragraphs, else between
    lines, else between words.
    """
    end = start + size
    if end >= len(text):
        return len(text)
    middle = start + size // 2
    for separator in _BREAKS:
        position = text.rfind(separator, middle, end) + len(separator)
        if position > middle:
            return position
    return end
