"""The marks that chat templates write around turns, and how they are broken up in documents.

The tokenizer keeps a document's text apart from control tokens (`served_model.py`), but many
templates mark turns in plain characters: by words (`### Response:`, `ASSISTANT:`) or by signs that
are not single tokens (`[/INST]`). These get a space; evidence is compared without white space, so
the passage is still found.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

_CONTROL = re.compile(  # ]~b] and [e~[: MiniMax; [unused9]: openPangu
    r"<(?=[|/a-zA-Z_｜])|(?<=[|｜])[>\]]|\[(?=/?[gs]?[A-Z_][A-Z_0-9]{2,}\]|unused\d+\]|[|｜]|e~\[)|\](?=~!?b)"
)
_SIGN = re.compile(r"<[^<>\s]{1,60}>|\[[^\[\]\s]{1,60}\]")
_SPEAKER = re.compile(r"([^\W\d_]\w*)[ \t*]*[:：][ \t*]*$", re.MULTILINE)
_HEADING = re.compile(
    r"^[ \t]*[#@*=]{2,}[ \t]*([^\W\d_][\w ]{0,40}?)[ \t*]*[:：]?[ \t]*$", re.MULTILINE
)
_SPEAKERS = (
    "system user human assistant gpt bot ai model prompter prompt instruction instructions instruct"
    " input response output question answer"
)


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of a template.

    `signs` are marks such as [INST]; `speakers` are words before a colon; `headings` are words that
    end a line which begins with two or more signs such as ##. Case is ignored for words.
    """

    signs: frozenset[str] = frozenset()
    speakers: frozenset[str] = frozenset()
    headings: frozenset[str] = frozenset()

    def break_up(self, text: str) -> str:
        """Return `text` with a space in each of these marks."""
        signs, speakers, headings = _compile_patterns(self)
        text = signs.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)
        text = headings.sub(lambda found: " ".join(found[0]), text)
        return speakers.sub(lambda found: f"{found[0]} ", text)


KNOWN = Marks(speakers=frozenset(_SPEAKERS.split()), headings=frozenset(_SPEAKERS.split()))


def find_marks(texts: Sequence[str]) -> Marks:
    """Return the marks in the texts that a template writes around turns.

    A word is a mark if its colon ends a line or the text.
    """
    text = "\n".join(texts)
    return Marks(
        frozenset(_SIGN.findall(text)),
        frozenset(_SPEAKER.findall(text)),
        frozenset(_HEADING.findall(text)),
    )


def neutralize(text: str) -> str:
    """Return a document's text with a space in everything that a chat template may take for a mark.

    Examples are <|im_end|> and `### Response:`.
    """
    return KNOWN.break_up(_CONTROL.sub(_space_control_mark, text))


def _space_control_mark(match: re.Match[str]) -> str:
    """Return half of a control mark with a space where the other half adjoins it."""
    before = match.string[: match.start()][-1:]
    if before and before in "|｜":
        return f" {match[0]}"
    return f"{match[0]} "


@lru_cache(maxsize=64)
def _compile_patterns(marks: Marks) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    signs = _join_alternatives(marks.signs)
    speakers = _join_alternatives(marks.speakers)
    headings = _join_alternatives(marks.headings)
    ended = rf"(?:\w[\w ]{{0,30}} )?(?:{headings})(?:[ \t]*$|[ \t*]*[:：])"
    return (
        re.compile(signs),
        re.compile(rf"(?<![A-Za-z0-9_])(?:{speakers})(?=\**[:：])", re.IGNORECASE),
        re.compile(rf"[#@*=]{{2,}}(?=[ \t]*{ended})", re.IGNORECASE | re.MULTILINE),
    )


def _join_alternatives(words: Collection[str]) -> str:
    """Return a pattern that matches one of the words, the longest first, or nothing without any."""
    escaped = [re.escape(word) for word in sorted(words, key=len, reverse=True)]
    return "|".join(escaped) or r"(?!)"
