"""Finds statements that hide what they do: `python tests/lint/statements.py engine tests`.

Two bindings in one assignment, a conditional expression inside another one, and lines that the
formatter is told to leave alone.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path


def paired(node: ast.AST) -> bool:
    """Whether a statement assigns several values that could stand on lines of their own.

    A swap (`a, b = b, a`) cannot.
    """
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return False
    target = node.targets[0]
    if not isinstance(target, ast.Tuple) or not isinstance(node.value, ast.Tuple):
        return False
    starred = [part for part in ast.walk(node) if isinstance(part, ast.Starred)]
    if starred or len(target.elts) != len(node.value.elts):
        return False
    bound = {name.id for name in ast.walk(target) if isinstance(name, ast.Name)}
    read = {name.id for name in ast.walk(node.value) if isinstance(name, ast.Name)}
    return not bound & read


def nested_condition(node: ast.AST) -> bool:
    """Whether a conditional expression holds another one."""
    if not isinstance(node, ast.IfExp):
        return False
    parts = (
        node.test,
        node.body,
        node.orelse,
    )
    return any(isinstance(inner, ast.IfExp) for part in parts for inner in ast.walk(part))


def dense_statements(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the kind of each offence in the source of a module."""
    for number, line in enumerate(source.splitlines(), 1):
        if line.rstrip().endswith("# fmt: " + "skip"):
            yield number, "unformatted line"
    for node in ast.walk(ast.parse(source)):
        if paired(node):
            yield getattr(node, "lineno", 0), "two bindings in one assignment"
        if nested_condition(node):
            yield getattr(node, "lineno", 0), "nested conditional expression"


def offenders(folders: list[Path]) -> list[str]:
    """List `FILE:LINE: KIND` for every Python file below the folders."""
    found = []
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            for line, kind in dense_statements(path.read_text(encoding="utf-8")):
                found.append(f"{path}:{line}: {kind}")
    return found


if __name__ == "__main__":
    listed = offenders([Path(folder) for folder in sys.argv[1:]])
    print(*listed, sep="\n")
    sys.exit(bool(listed))
