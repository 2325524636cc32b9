"""Code is one statement a line, as a reader expects."""

from __future__ import annotations

from pathlib import Path

import pytest
from lint.statements import dense_statements, offenders

ROOT = Path(__file__).parents[2]


@pytest.mark.filterwarnings("ignore::SyntaxWarning")  # of texts that are no code
def test_every_module_is_plain() -> None:
    assert offenders([ROOT / "engine", ROOT / "bmembed_tui", ROOT / "tests"]) == []


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        ("a, b = 1, 2", ["two bindings in one assignment"]),
        ("self.a, b = f(), g()", ["two bindings in one assignment"]),
        ("a, b = b, a", []),
        ("a, b = f()", []),
        ("a, *b = 1, 2", []),
        ("x = 1 if a else 2 if b else 3", ["nested conditional expression"]),
        ("x = f(1 if a else 2) if b else 3", ["nested conditional expression"]),
        ("x = (1 if a else 2) + (3 if b else 4)", []),
        ("x = [1,2]  # fmt: " + "skip", ["unformatted line"]),
    ],
)
def test_problems_are_found(source: str, kinds: list[str]) -> None:
    assert [kind for _, kind in dense_statements(source)] == kinds
