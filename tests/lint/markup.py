"""Lint rule: no variable of the app is rendered as markup. `python tests/lint/markup.py FOLDER…` prints what breaks it.

A document, a file name or a query that reached a widget as markup could crash the app or run its actions. So Textual's
widgets that read strings as markup are made and subclassed in `widgets/safe.py` only, where they are disarmed.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

WIDGETS = {
    "Button", "Checkbox", "Collapsible", "DataTable", "DirectoryTree", "Digits", "Header", "Label", "Link", "Log",
    "Markdown", "MarkdownViewer", "OptionList", "Option", "Placeholder", "Pretty", "RadioButton", "RadioSet", "RichLog",
    "Select", "SelectionList", "Selection", "Static", "Tab", "TabPane", "TabbedContent", "Tabs", "Tree",
}  # fmt: skip
TITLES = {"border_title", "border_subtitle", "tooltip", "placeholder_content"}
SAFE_CALLS = {"plain", "marked"}
DISARMED = {"safe.py"}  # where the widgets are disarmed; `plain.py` makes content without markup


def problems(source: str, name: str) -> Iterator[tuple[int, str]]:
    """(line, what is wrong) in one module. `name`: its file name."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if name not in DISARMED:
            yield from _of_widgets(node)
        yield from _of_markup(node)
        yield from _of_titles(node)
        yield from _of_render(node)


def _of_widgets(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.Call) and _name(node.func) in WIDGETS:
        yield node.lineno, f"{_name(node.func)}(…) reads strings as markup: use its Safe… version"
    if isinstance(node, ast.ClassDef):
        for base in node.bases:
            bare = base.value if isinstance(base, ast.Subscript) else base
            if _name(bare) in WIDGETS:
                yield node.lineno, f"{node.name} is made from {_name(bare)}, which reads strings as markup"
    if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("textual"):
        for alias in node.names:
            if alias.name in WIDGETS and alias.asname:
                yield node.lineno, f"{alias.name} under another name escapes this rule"


def _of_markup(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.Attribute) and node.attr in ("from_markup", "from_text"):
        yield node.lineno, f"{node.attr} reads markup: use plain()"
    if isinstance(node, ast.ImportFrom) and node.module in ("rich.markup", "textual.markup"):
        yield node.lineno, f"{node.module} is for markup: use plain()"
    if not isinstance(node, ast.Call):
        return
    keywords = {keyword.arg: keyword.value for keyword in node.keywords}
    if "markup" in keywords and not _is_false(keywords["markup"]):
        yield node.lineno, "markup is switched on"
    if _name(node.func) == "notify" and not _is_false(keywords.get("markup")):
        yield node.lineno, "notify needs markup=False"
    for title in TITLES & keywords.keys():
        if not _is_safe(keywords[title]):
            yield node.lineno, f"{title} reads strings as markup: use plain()"


def _of_titles(node: ast.AST) -> Iterator[tuple[int, str]]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    for target in targets:
        if isinstance(target, ast.Attribute) and target.attr in TITLES and not _is_safe(node.value):  # type: ignore[attr-defined]
            yield node.lineno, f"{target.attr} reads strings as markup: use plain()"  # type: ignore[attr-defined]


def _of_render(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.FunctionDef) and node.name == "render" and node.args.args[:1]:
        told = ast.unparse(node.returns) if node.returns else "nothing"
        if told not in ("Content", "Text", "Strip"):
            yield node.lineno, f"render() says that it returns {told}: a str would be read as markup; return Content"


def _is_safe(value: ast.AST | None) -> bool:
    """A call of plain or marked, None, or an empty text."""
    if isinstance(value, ast.Constant):
        return not value.value
    return isinstance(value, ast.Call) and _name(value.func) in SAFE_CALLS


def _is_false(value: ast.AST | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is False


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def main(folders: list[str]) -> int:
    """Print every problem; returns how many there are."""
    count = 0
    for folder in folders:
        for path in sorted(Path(folder).rglob("*.py")):
            for line, text in problems(path.read_text(encoding="utf-8"), path.name):
                print(f"{path}:{line}: {text}")
                count += 1
    return count


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
