"""Settings as one line of text, and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.messages.project import SettingKey
from engine.settings.values import Setting, from_text, to_text


def setting(kind: str, **parts: Any) -> Setting:
    facts: dict[str, Any] = {
        "choices": (),
        "default": None,
        "optional": False,
        **parts,
    }
    return Setting("section.key", SettingKey("key", "", kind, **facts))


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, "integer", ""),
        (256, "integer", "256"),
        (0.5, "number", "0.5"),
        (True, "flag", "true"),
        ("auto", "choice", "auto"),
        (["a", "b/**"], "texts", "a, b/**"),
        (["a, b"], "texts", '["a, b"]'),
        ([""], "texts", '[""]'),
        ([], "texts", "[]"),
        ([0.25, 0.5], "numbers", "0.25, 0.5"),
        ("[bold]x", "text", "[bold]x"),
    ],
)
def test_values_as_text(
    value: Any,
    kind: str,
    text: str,
) -> None:
    assert to_text(value, kind) == text
    assert from_text(text, setting(kind)) == value


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("  ", "integer", None),
        ("2.0", "integer", 2),
        ("2.5", "integer", 2.5),
        ("many", "integer", "many"),
        ("1e-4", "number", 0.0001),
        ("yes", "flag", "yes"),
        ("TRUE", "flag", True),
        ("a,, b ,", "texts", ["a", "b"]),
        ("[broken", "texts", "[broken"),
        ("0.5, x", "numbers", [0.5, "x"]),
        ("", "text", None),
        ("", "texts", None),
    ],
)
def test_a_typed_line_becomes_a_value(
    text: str,
    kind: str,
    value: Any,
) -> None:
    assert from_text(text, setting(kind)) == value


def test_an_empty_line_is_the_default_of_an_optional_setting() -> None:
    assert from_text("", setting("text", optional=True)) is None


@given(st.lists(st.text(), max_size=5))
def test_any_list_of_texts_survives(items: list[str]) -> None:
    assert from_text(to_text(items, "texts"), setting("texts")) == items


@given(st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False)))
def test_any_number_survives(number: float) -> None:
    assert from_text(to_text(number, "number"), setting("number")) == number


@given(
    st.text(),
    st.sampled_from(["text", "integer", "number", "flag", "choice", "choices", "texts", "numbers"]),
)
def test_no_line_raises(text: str, kind: str) -> None:
    from_text(text, setting(kind))


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"least": 1, "most": 20}, "1 to 20"),
        ({"least": 1}, "from 1"),
        ({"most": 0.5}, "up to 0.5"),
        ({}, ""),
    ],
)
def test_ranges_in_words(parts: dict[str, Any], told: str) -> None:
    assert setting("number", **parts).range_text == told
