"""Finds code outside `engine/core/platforms` that asks for the system: `platforms.py FOLDER…`.

That is `sys.platform`, `os.name`, the import of a module that only POSIX systems have, and
`shutil.rmtree`, for which `try_remove_tree` and `delete_tree` stand in.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ASKING = {("sys", "platform"), ("os", "name"), ("shutil", "rmtree")}
POSIX_MODULES = {"fcntl", "grp", "pwd", "resource", "termios", "pty"}
ALLOWED = Path("core", "platforms")


def find_questions(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each place that asks for the system in a module's source."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if (node.value.id, node.attr) in ASKING:
                yield node.lineno, f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.Import):
            for name in node.names:
                if name.name in POSIX_MODULES:
                    yield node.lineno, f"import {name.name}"


def find_offenders(folders: list[Path]) -> list[str]:
    """List `FILE:LINE: TEXT` for every Python file below the folders, but not below `ALLOWED`."""
    offenders = []
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            if path.relative_to(folder).is_relative_to(ALLOWED):
                continue
            for line, text in find_questions(path.read_text(encoding="utf-8")):
                offenders.append(f"{path}:{line}: {text}")
    return offenders


if __name__ == "__main__":
    lines = find_offenders([Path(name) for name in sys.argv[1:]])
    print("\n".join(lines))
    sys.exit(bool(lines))
