"""Tests reach the product through its public names only."""

from __future__ import annotations

from pathlib import Path

import pytest
from lint.private_names import offenders, private_uses


@pytest.mark.filterwarnings("ignore::SyntaxWarning")  # of texts that are no code
def test_no_test_touches_a_private_name_of_another_module() -> None:
    assert offenders(Path(__file__).parents[1]) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from engine.core.text import _hidden", ["_hidden"]),
        ("from engine.core._text import shown", ["_text"]),
        ("store._rows('x')", ["_rows"]),
        ("monkeypatch.setattr(module, '_LIMIT', 3)", ["_LIMIT"]),
        ("monkeypatch.setattr('engine.core.text._LIMIT', 3)", ["engine.core.text._LIMIT"]),
        ("CODE = '''\nimport engine.core.text as text\ntext._hidden()\n'''", ["_hidden"]),
        ("class Own:\n    def __init__(self):\n        self._own = 1\nOwn()._own", []),
        ("def _own(): ...\n_own()", []),
        ("from textual.app import App\nApp()._driver", []),
        ("import torch\napp._driver", ["_driver"]),
        ("import os, sys\nos._exit(sys._getframe(1).f_lineno)\nx.__class__", []),
    ],
)
def test_problems_are_found(source: str, found: list[str]) -> None:
    assert [name for _, name in private_uses(source)] == found
