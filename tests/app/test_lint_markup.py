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
        # ways round it
        "shown = Static\nshown(text)",
        "kinds = {'a': Static}",
        "getattr(widgets, 'Static')(text)",
        "import_module('textual.widgets').Static",
        "Static.update(safe, text)",
        "from textual.widgets import *",
        "self.border_title += name",
        "self.border_title, other = name, 1",
        "setattr(self, 'border_title', name)",
        "SafeButton('go').with_tooltip(name)",
        "from textual.visual import visualize",
        "from rich.panel import Panel",
        "from rich.console import Console",
        "import rich",
        "self.console.render_str(text)",
        "self.exit(message=text)",
        "self.panic(text)",
        "class Mine(Widget):\n    render = made",
        "Content(text)",
        "Text(f'{name}')",
        "Content.assemble('a', f'{name}')",
        "Content.assemble((name, 'bold'))",
        "Content.styled(str(path), 'bold')",
        "def plain(text): return text",
        "self.query_one(SafeOptions).add_option(text)",
        "options.replace_option_prompt('a', text)",
        "DiscoveryHit(name, call, text=name)",
        "DiscoveryHit(plain(name), call, help=name)",
        "Hit(1, name, call)",
        "Hit(1, match_display=name, command=call)",
        "Hit(1, plain(name), call, help=cast(str, name))",
        "Hit(*parts)",
        "Segment(text)",
        "Segment(f'{name}', style)",
        "Content.assemble(text)",
        "Text.assemble('a', row.text)",
        "Content.styled(name, 'bold')",
        "plain('a') + text",
        "text + plain('a')",
        "plain('a').append(text)",
        "line = plain('a')\nline.append(text)",
        "SafeInput(placeholder=name)",
        "self.notify('done', title=name, markup=False)",
    ],
)
def test_markup_in_untrusted_text_is_found(source: str) -> None:
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
        "def go(self, event: Button.Pressed) -> Static | None: ...",
        "self.query_one('#a', Button).disabled = isinstance(a, OptionList)",
        "made = mark_spans(text, [])\nContent.assemble('a', plain(text), made)",
        "Content('\\n').join(lines)",
        "Text(visible(text))",
        "Hit(1, plain(name), call, text=name, help=cast(str, plain(text)))",
        "head, tail = plain(a), plain(b)\nContent.assemble(head, ' ', tail)",
        "def line(head: Content) -> Content: return Content.assemble(head, plain(a))",
        "plain('a') + plain(b)",
        "Segment(' ' * 3, style)",
        "Field(placeholder='nothing' if none else 'everything')",
        "from rich.text import Text",
        "class Mine(Widget):\n    def render(self) -> Content: return plain(self.name)",
    ],
)
def test_safe_widgets_are_not_reported(source: str) -> None:
    assert not list(problems(source, "some.py"))


def test_only_the_disarmed_module_may_use_the_widgets() -> None:
    assert not list(problems("class SafeStatic(Static): ...", "widgets/safe.py"))
    assert list(problems("Content.from_markup(text)", "widgets/safe.py"))
    assert list(problems("class SafeStatic(Static): ...", "steps/safe.py"))


def test_the_app_is_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(ROOT / "bmembed_tui")]) == 0, capsys.readouterr().out
