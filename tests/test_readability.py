"""README and the guides can be read with ease."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.readability import prose, reading_ease, sentences

ROOT = Path(__file__).parents[1]
MOST_WORDS = 35


def test_the_score_is_that_of_its_formula() -> None:
    assert reading_ease("The cat sat on the mat.") == pytest.approx(206.835 - 1.015 * 6 - 84.6)
    assert reading_ease("Nobody answered. We asked.") == pytest.approx(
        206.835 - 1.015 * 2 - 84.6 * 7 / 4
    ), "no-bo-dy an-swered we asked"


def test_items_and_cells_are_sentences_and_what_a_colon_parts_is_not() -> None:
    text = (
        "Two ways: as `x.md`\nor so (see 3.1.)\n\n- one item\n- **Bold.** Two of\n  them\n\n| a"
        " cell | one more. Last |"
    )
    words = [" ".join(each) for each in sentences(prose(text, tables=True))]
    assert words == [
        "Two ways as code or so see",
        "one item",
        "Bold",
        "Two of them",
        "a cell",
        "one more",
        "Last",
    ]
    assert len(sentences(prose(text))) == 4


GUIDES = (
    "GUIDE",
    "CLI",
    "ADAPTING",
    "PRIVACY",
    "DOCUMENTS",
    "ASSISTANTS",
    "CLUSTER",
    "LIBRARY",
    "MODELS",
)


@pytest.mark.parametrize("name", ["README.md", *(f"docs/{name}.md" for name in GUIDES)])
def test_what_users_read_is_plain_english(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert reading_ease(prose(text)) >= 60
    assert not [
        " ".join(words) for words in sentences(prose(text, tables=True)) if len(words) > MOST_WORDS
    ]
