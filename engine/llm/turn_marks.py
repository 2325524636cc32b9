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
from typing import NamedTuple

# A bracket of a control token, which a space will separate from the rest.
_CONTROL = re.compile(
    r"""
    <(?=[|/a-zA-Z_｜])  # <|im_start|>, </s>, <start_of_turn>
    | (?<=[|｜])[>\]]  # the end of <|im_start|> or [|user|]
    | \[(?=
        /?[gs]?[A-Z_][A-Z_0-9]{2,}\]  # [INST], [/INST], [gMASK]
        | unused\d+\]  # [unused9]: openPangu
        | [|｜]  # [|user|]
        | e~\[  # [e~[: MiniMax
    )
    | \](?=~!?b)  # ]~b]: MiniMax
    """,
    re.VERBOSE,
)
# Any word in brackets, such as [/INST] or <|user|>.
_SIGN = re.compile(r"<[^<>\s]{1,60}>|\[[^\[\]\s]{1,60}\]")
# A word before a colon that ends a line, such as `ASSISTANT:` or `**User**:`.
_SPEAKER = re.compile(r"([^\W\d_]\w*)[ \t*]*[:：][ \t*]*$", re.MULTILINE)
# A line such as `### Response:` or `== User Input`.
_HEADING = re.compile(
    r"^[ \t]*[#@*=]{2,}[ \t]*([^\W\d_][\w ]{0,40}?)[ \t*]*[:：]?[ \t]*$", re.MULTILINE
)
_SPEAKERS = (
    "system user human assistant gpt bot ai model prompter prompt instruction instructions instruct"
    " input response output question answer"
)


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of a template. Case is ignored for words."""

    signs: frozenset[str] = frozenset()
    """Words in brackets, such as `[INST]`."""
    speakers: frozenset[str] = frozenset()
    """Words before a colon that ends a line, such as `ASSISTANT` in `ASSISTANT:`."""
    headings: frozenset[str] = frozenset()
    """Words after two or more signs that begin a line, such as `Response` in `## Response`."""

    def break_up(self, text: str) -> str:
        """Return `text` with a space in each of these marks.

        Such as `[ /INST]`, `# # # Response:` and `ASSISTANT :`.
        """
        patterns = _compile_patterns(self)
        text = patterns.signs.sub(lambda sign: f"{sign[0][0]} {sign[0][1:]}", text)
        text = patterns.headings.sub(lambda signs: " ".join(signs[0]), text)
        return patterns.speakers.sub(lambda speaker: f"{speaker[0]} ", text)


class _Patterns(NamedTuple):
    """What finds marks in a text: whole signs, words before a colon, and signs before headings."""

    signs: re.Pattern[str]
    speakers: re.Pattern[str]
    headings: re.Pattern[str]


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
    """Return a bracket of a control token with a space on the side of the rest of the token."""
    before = match.string[: match.start()][-1:]
    if before and before in "|｜":
        return f" {match[0]}"
    return f"{match[0]} "


@lru_cache(maxsize=64)
def _compile_patterns(marks: Marks) -> _Patterns:
    """Return the patterns that find these marks in a document."""
    signs = _join_alternatives(marks.signs)
    speakers = _join_alternatives(marks.speakers)
    headings = _join_alternatives(marks.headings)
    # Words such as `The Response`, to the end of the line or a colon.
    heading = rf"(?:\w[\w ]{{0,30}} )?(?:{headings})(?:[ \t]*$|[ \t*]*[:：])"
    return _Patterns(
        re.compile(signs),
        re.compile(rf"(?<![A-Za-z0-9_])(?:{speakers})(?=\**[:：])", re.IGNORECASE),
        re.compile(rf"[#@*=]{{2,}}(?=[ \t]*{heading})", re.IGNORECASE | re.MULTILINE),
    )


def _join_alternatives(words: Collection[str]) -> str:
    """Return a pattern that matches one of the words, the longest first, or nothing without any."""
    escaped = [re.escape(word) for word in sorted(words, key=len, reverse=True)]
    return "|".join(escaped) or r"(?!)"
