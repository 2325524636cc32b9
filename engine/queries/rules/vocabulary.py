"""Closed word classes, written as text with white space between two words; the longer lists lie in assets/words/."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache

from engine.core.assets import asset_path


def word_set(text: str) -> frozenset[str]:
    """The words of `text`."""
    return frozenset(text.split())


def phrases(text: str) -> tuple[str, ...]:
    """The phrases of `text`, which | parts."""
    return tuple(part.strip() for part in text.split("|"))


@cache
def word_lists(name: str) -> Mapping[str, str]:
    """Of assets/words/NAME.toml, each with one space between two words."""
    lists = tomllib.loads(asset_path(f"words/{name}.toml").read_text("utf-8"))
    return {key: " ".join(text.split()) for key, text in lists.items()}


def english_words(name: str) -> frozenset[str]:
    """A list of assets/words/english.toml."""
    return word_set(word_lists("english")[name])


GIVEN_NAMES = english_words("given_names")
"""A capitalised word after one is a person's."""
