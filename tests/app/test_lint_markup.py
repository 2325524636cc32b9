"""The lint rule against markup: it finds what it must, and the app is clean."""

from __future__ import annotations

import pytest
from fixtures.pipeline import ROOT
from lint.markup import main, problems


@pytest.mark.parametrize(
    "source",
    [
        "Static(text)",
        "widgets.Label(f'{name}')",
        "class Mine(Static): ...",
        "class Mine(DataTable[str]): ...",
        "from textual.widgets import Static as Plain",
        "Content.from_markup(text)",
        "Text.from_markup(text)",
        "from rich.markup import escape",
        "SafeStatic(text, markup=True)",
        "SafeStatic(text, markup=switch)",
        "self.notify(text)",
        "self.notify(text, markup=True)",
        "self.border_title = name",
        "self.border_subtitle = f'{name}'",
        "self.tooltip = path.name",
        "SafeButton('go', tooltip=name)",
        "class Mine(Widget):\n    def render(self) -> str: return self.name",
        "class Mine(Widget):\n    def render(self): return self.name",
    ],
)
def test_it_finds(source: str) -> None:
    assert list(problems(source, "some.py"))


@pytest.mark.parametrize(
    "source",
    [
        "SafeStatic(text)",
        "plain(text)",
        "self.notify(text, markup=False)",
        "self.border_title = plain(name)",
        "self.tooltip = None",
        "Button.Pressed(button)",
        "class Mine(Widget):\n    def render(self) -> Content: return plain(self.name)",
    ],
)
def test_it_lets_pass(source: str) -> None:
    assert not list(problems(source, "some.py"))


def test_only_the_disarmed_module_may_use_the_widgets() -> None:
    assert not list(problems("class SafeStatic(Static): ...", "safe.py"))
    assert list(problems("Content.from_markup(text)", "safe.py"))


def test_the_app_is_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(ROOT / "bmembed_tui")]) == 0, capsys.readouterr().out
