"""Lint rule: no variable of the app is rendered as markup.

`python tests/lint/markup.py FOLDER…` prints what breaks it.

A document, a file name or a query that reached a widget as markup could crash the app or run its
actions. So Textual's widgets that read strings as markup are named in `widgets/safe.py` only, where
they are disarmed; elsewhere they may stand in annotations, in `isinstance` and queries, and before
the name of a message (`Button.Pressed`).
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

WIDGETS = {
    "Button",
    "Checkbox",
    "Collapsible",
    "CollapsibleTitle",
    "DataTable",
    "DirectoryTree",
    "Digits",
    "Header",
    "HelpPanel",
    "KeyPanel",
    "Label",
    "Link",
    "Log",
    "Markdown",
    "MarkdownViewer",
    "OptionList",
    "Option",
    "Placeholder",
    "Pretty",
    "RadioButton",
    "RadioSet",
    "RichLog",
    "Select",
    "SelectionList",
    "Selection",
    "Static",
    "Switch",
    "Tab",
    "TabPane",
    "TabbedContent",
    "Tabs",
    "Toast",
    "ToggleButton",
    "Tooltip",
    "Tree",
    "Welcome",
}
TITLES = {"border_title", "border_subtitle", "tooltip", "placeholder_content"}
PROMPTS = {"add_option", "add_options", "replace_option_prompt", "replace_option_prompt_at_index"}
SAFE_CALLS = {"plain", "mark_spans"}
CLEAN_CALLS = {
    *SAFE_CALLS,
    "visible",
    "fit_text",
    "rich_text",
}
ASKING = {
    "isinstance",
    "issubclass",
    "cast",
    "query",
    "query_one",
    "query_exactly_one",
    "results",
    "filter",
    "exclude",
    "on",
}
RICH = {
    "rich.text": {"Text"},
    "rich.segment": {"Segment"},
    "rich.style": {"Style"},
    "rich.cells": None,
}
DISARMED = "widgets/safe.py"  # where the widgets are disarmed
MAKING = "widgets/plain.py"  # where content is made without markup


def problems(source: str, name: str) -> Iterator[tuple[int, str]]:
    """(line, what is wrong) in one module. `name`: its path within the app."""
    tree = ast.parse(source)
    harmless = _harmless(tree)
    made = _contents(tree)
    for node in ast.walk(tree):
        if name != DISARMED:
            yield from _of_widgets(node, harmless)
        if name != MAKING:
            yield from _of_raw_text(node)
            yield from _of_joined_text(node, made)
        yield from _of_markup(node)
        yield from _of_calls(node)
        yield from _of_palette(node)
        yield from _of_shown_options(node)
        yield from _of_titles(node)
        yield from _of_render(node)


def _harmless(tree: ast.AST) -> set[int]:
    """Nodes in which a widget's name makes no widget: annotations, questions about types, names
    of messages.
    """
    found: set[int] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.AnnAssign | ast.arg):
            parts = [node.annotation]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            parts = [node.returns]
        elif isinstance(node, ast.Attribute) and node.attr[:1].isupper():
            parts = [node.value]
        elif isinstance(node, ast.Call) and _name(node.func) in ASKING:
            parts = [*node.args]
        found |= {id(inner) for part in parts if part is not None for inner in ast.walk(part)}
    return found


def _of_widgets(node: ast.AST, harmless: set[int]) -> Iterator[tuple[int, str]]:
    if (
        isinstance(node, ast.Name | ast.Attribute)
        and _name(node) in WIDGETS
        and id(node) not in harmless
    ):
        yield node.lineno, f"{_name(node)} reads strings as markup: use its Safe… version"
    if isinstance(node, ast.Call) and _name(node.func) in WIDGETS:
        yield node.lineno, f"{_name(node.func)}(…) reads strings as markup: use its Safe… version"
    if isinstance(node, ast.Call) and _name(node.func) in (
        "getattr",
        "import_module",
        "__import__",
    ):
        told = {part.value for part in node.args if isinstance(part, ast.Constant)}
        if told & WIDGETS or any(str(part).startswith("textual.widgets") for part in told):
            yield node.lineno, "a widget that is fetched by its name escapes this rule"
    if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("textual"):
        for alias in node.names:
            if alias.name == "*" or (alias.name in WIDGETS and alias.asname):
                yield node.lineno, f"{alias.name} under another name escapes this rule"


def _of_markup(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.Attribute) and node.attr in (
        "from_markup",
        "from_text",
        "render_str",
        "render_markup",
    ):
        yield node.lineno, f"{node.attr} reads markup: use plain()"
    if isinstance(node, ast.Import | ast.ImportFrom):
        named = {alias.name for alias in node.names}
    else:
        named = set()
    if isinstance(node, ast.ImportFrom) and (
        node.module == "textual.markup" or "visualize" in named
    ):
        yield node.lineno, f"{node.module} is for markup: use plain()"
    if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "rich":
        allowed = RICH.get(str(node.module), set())
        if allowed is not None and not named <= allowed:
            yield node.lineno, f"{node.module} renders strings as markup: use plain()"
    if isinstance(node, ast.Import) and any(module.partition(".")[0] == "rich" for module in named):
        yield node.lineno, "rich renders strings as markup: use plain()"


def _of_calls(node: ast.AST) -> Iterator[tuple[int, str]]:
    if not isinstance(node, ast.Call):
        return
    keywords = {keyword.arg: keyword.value for keyword in node.keywords}
    if "markup" in keywords and not _is_false(keywords["markup"]):
        yield node.lineno, "markup is switched on"
    called = _name(node.func)
    if called == "notify" and not _is_false(keywords.get("markup")):
        yield node.lineno, "notify needs markup=False"
    if called in PROMPTS:
        yield node.lineno, f"{called} keeps control characters: use SafeOptions.show"
    if called == "panic" or (called == "exit" and "message" in keywords):
        yield node.lineno, f"{called} prints strings as markup"
    if called == "with_tooltip" and not all(
        _is_safe(value) for value in [*node.args, *keywords.values()]
    ):
        yield node.lineno, "with_tooltip reads strings as markup: use plain()"
    if (
        called == "setattr"
        and len(node.args) > 1
        and isinstance(node.args[1], ast.Constant)
        and node.args[1].value in TITLES
    ):
        yield node.lineno, f"{node.args[1].value} reads strings as markup: assign plain()"
    for title in TITLES & keywords.keys():
        if not _is_safe(keywords[title]):
            yield node.lineno, f"{title} reads strings as markup: use plain()"


def _of_shown_options(node: ast.AST) -> Iterator[tuple[int, str]]:
    """What widgets show besides their content."""
    if isinstance(node, ast.Call):
        for keyword in node.keywords:
            shown = keyword.arg == "placeholder" or (
                keyword.arg == "title" and _name(node.func) == "notify"
            )
            if shown and not _is_own(keyword.value):
                yield node.lineno, f"{keyword.arg} keeps control characters: use visible()"


def _of_palette(node: ast.AST) -> Iterator[tuple[int, str]]:
    """The palette reads what it shows as markup where that is a str."""
    if isinstance(node, ast.Call):
        called = _name(node.func)
    else:
        called = ""
    if not isinstance(node, ast.Call) or called not in ("Hit", "DiscoveryHit"):
        return
    keywords = {keyword.arg: keyword.value for keyword in node.keywords}
    place, name = (1, "match_display") if called == "Hit" else (0, "display")
    shown = [
        *node.args[place : place + 1],
        *(keywords[key] for key in (name, "help") if key in keywords),
    ]
    if any(isinstance(arg, ast.Starred) for arg in node.args) or not all(
        _is_safe(value) for value in shown
    ):
        yield node.lineno, f"{called} reads strings as markup: use plain()"


def _contents(tree: ast.AST) -> set[str]:
    """Names that are given a content somewhere in the module."""
    found = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            found |= {
                name for target in node.targets for name in _given_content(target, node.value)
            }
        elif isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
            if isinstance(node, ast.arg):
                target = node.arg
            else:
                target = _name(node.target)
            found |= (
                {target} if ast.unparse(node.annotation) in ("Content", "Content | None") else set()
            )
    return found


def _given_content(target: ast.AST, value: ast.AST) -> Iterator[str]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, its in zip(target.elts, value.elts, strict=False):
            yield from _given_content(one, its)
    elif isinstance(target, ast.Name) and _makes_content(value):
        yield target.id


def _makes_content(value: ast.AST) -> bool:
    if isinstance(value, ast.IfExp):
        return _makes_content(value.body) and _makes_content(value.orelse)
    return isinstance(value, ast.Call) and (
        _name(value.func) in {*SAFE_CALLS, "Content"} or _joins_content(value)
    )


def _of_joined_text(node: ast.AST, made: set[str]) -> Iterator[tuple[int, str]]:
    """A variable that is joined to content keeps its control characters."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = (node.left, node.right)
        if any(_makes_content(side) for side in sides) and not all(
            _makes_content(side) for side in sides
        ):
            yield node.lineno, "content + text keeps control characters: use plain()"
    if not isinstance(node, ast.Call):
        return
    called = _name(node.func)
    bare = {_name(part) for part in node.args if isinstance(part, ast.Name | ast.Attribute)} - made
    if called == "Segment" and isinstance(node.args[0], ast.Name | ast.Attribute | ast.JoinedStr):
        yield node.lineno, "Segment(…) keeps control characters: use visible()"
    if called == "styled" and not _is_clean(node.args[0]):
        yield node.lineno, "styled keeps control characters: use plain()"
    if called == "assemble" and bare:
        yield (
            node.lineno,
            f"assemble({min(bare)}) keeps control characters where it is a str: use plain()",
        )
    if called in ("append", "append_text") and _is_content(node.func, made) and bare:
        yield node.lineno, f"{called} keeps control characters: use plain()"


def _is_content(method: ast.AST, made: set[str]) -> bool:
    """Whether a method's owner is a content, as far as can be told here."""
    return isinstance(method, ast.Attribute) and (
        _makes_content(method.value) or _name(method.value) in made
    )


def _of_raw_text(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Content and Text made of a variable keep its control characters, which steer the terminal."""
    if isinstance(node, ast.FunctionDef) and node.name in CLEAN_CALLS - {"fit_text"}:
        yield node.lineno, f"another {node.name}() would pass for the one that is safe"
    if not isinstance(node, ast.Call):
        return
    if _name(node.func) in ("Content", "Text") and node.args and not _is_clean(node.args[0]):
        yield node.lineno, f"{_name(node.func)}(…) keeps control characters: use plain()"
    if isinstance(node.func, ast.Attribute):
        owner = node.func.value
    else:
        owner = None
    made = (
        owner is not None
        and _name(owner) == "Content"
        and _name(node.func) in ("styled", "assemble")
    )
    if made and any(_is_made_text(part) for part in node.args):
        yield node.lineno, f"Content.{_name(node.func)} keeps control characters: use plain()"


def _of_titles(node: ast.AST) -> Iterator[tuple[int, str]]:
    if (
        isinstance(node, ast.AugAssign)
        and isinstance(node.target, ast.Attribute)
        and node.target.attr in TITLES
    ):
        yield node.lineno, f"{node.target.attr} reads strings as markup: assign plain()"
    if not isinstance(node, ast.Assign | ast.AnnAssign):
        return
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        for inner in ast.walk(target):
            if (
                isinstance(inner, ast.Attribute)
                and inner.attr in TITLES
                and not (inner is target and _is_safe(node.value))
            ):
                yield node.lineno, f"{inner.attr} reads strings as markup: use plain()"
            if isinstance(inner, ast.Name | ast.Attribute) and _name(inner) == "render":
                yield node.lineno, "render is to be a method that says that it returns Content"


def _of_render(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.FunctionDef) and node.name == "render" and node.args.args[:1]:
        if node.returns:
            told = ast.unparse(node.returns)
        else:
            told = "nothing"
        if told not in ("Content", "Text", "Strip"):
            yield (
                node.lineno,
                (
                    f"render() says that it returns {told}: a str would be read as markup; return"
                    " Content"
                ),
            )


def _is_safe(value: ast.AST | None) -> bool:
    """A call of plain or mark_spans, None, or an empty text."""
    if isinstance(value, ast.Constant):
        return not value.value
    if isinstance(value, ast.Call) and _name(value.func) == "cast" and len(value.args) == 2:
        return _is_safe(value.args[1])
    return isinstance(value, ast.Call) and _name(value.func) in SAFE_CALLS


def _is_clean(value: ast.AST) -> bool:
    """A text of our own, or one whose control characters are shown."""
    return isinstance(value, ast.Constant) or (
        isinstance(value, ast.Call) and _name(value.func) in CLEAN_CALLS
    )


def _is_own(value: ast.AST) -> bool:
    """As `_is_clean`, also one of two."""
    return _is_clean(value) or (
        isinstance(value, ast.IfExp) and _is_clean(value.body) and _is_clean(value.orelse)
    )


def _is_made_text(value: ast.AST) -> bool:
    """A text that is put together here: a formatted one, a sum, a pair of text and style, or
    what a function of str gives.
    """
    if isinstance(value, ast.Call):
        return _name(value.func) in (
            "str",
            "format",
            "join",
            "strip",
            "replace",
        ) and not _joins_content(value)
    return isinstance(value, ast.JoinedStr | ast.BinOp | ast.Tuple)


def _joins_content(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Attribute):
        owner = call.func.value
    else:
        owner = None
    return isinstance(owner, ast.Call) and _name(owner.func) == "Content"


def _is_false(value: ast.AST | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is False


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return ""


def main(folders: list[str]) -> int:
    """Print every problem; returns how many there are."""
    count = 0
    for folder in folders:
        for path in sorted(Path(folder).rglob("*.py")):
            for line, text in problems(
                path.read_text(encoding="utf-8"), path.relative_to(folder).as_posix()
            ):
                print(f"{path}:{line}: {text}")
                count += 1
    return count


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
