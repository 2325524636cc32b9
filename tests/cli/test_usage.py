"""Wrong use of the commands: what an option takes, and options that exclude each other."""

from __future__ import annotations

import pytest
from fixtures.errors import error_of


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("search", "p", "door", "--sort", "foo"), ("--sort", "score", "date", "foo")),
        (("search", "p", "door", "--min-score", "abc"), ("--min-score", "abc")),
        (("judge", "p", "--depth", "0"), ("--depth", "1", "0")),
        (("judge", "p", "--depth", "101"), ("--depth", "100", "101")),
        (("mcp", "p", "--install", "gpt"), ("--install", "claude", "lmstudio", "gpt")),
        (("search", "p", "door", "--nothing"), ("--nothing",)),
        (("search", "p", "two", "words"), ("words",)),
    ],
)
def test_a_wrong_argument_is_named_with_what_may_stand_there(
    arguments: tuple[str, ...], named: tuple[str, ...]
) -> None:
    code, error = error_of(*arguments)
    assert code == 2
    assert all(word in error["what"] for word in named)


def test_a_search_of_all_projects_takes_no_project() -> None:
    code, error = error_of("search", "--all", "handbook", "door")
    assert (code, error["code"]) == (2, "options-conflict")
