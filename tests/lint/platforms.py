"""Finds code outside `engine/core/platforms` that asks for the system: `platforms.py FOLDER…`.

That is `sys.platform`, `os.name`, the import of a module that only POSIX systems have, and
`shutil.rmtree`, for which `try_remove_tree` and `delete_tree` stand in. `SYSTEM` is for the modules
of `SYSTEM_MODULES`: what they choose by it is one of a kind, such as the place of another program's
files or the words of a message.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ASKING = {
    ("sys", "platform"),
    ("os", "name"),
    ("shutil", "rmtree"),
}
POSIX_MODULES = {
    "fcntl",
    "grp",
    "pwd",
    "resource",
    "termios",
    "pty",
}
PLATFORMS = "engine.core.platforms"
ALLOWED = Path("core", "platforms")
# A word of these is in every module that asks. Parsing the others would take most of the time.
WORDS_OF_ASKING = re.compile(
    "|".join([*POSIX_MODULES, *(rf"{module}\.{name}" for module, name in ASKING), "SYSTEM"])
)
SYSTEM_MODULES = {
    "engine/assistants/install.py",
    "engine/cli/documents.py",
    "bmembed_tui/open_file.py",
    "bmembed_tui/shortcut.py",
    "bmembed_tui/window/desktop.py",
    "bmembed_tui/window/system.py",
}


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


def imports_system(source: str) -> bool:
    """Return whether a module imports the name of the system."""
    for node in ast.walk(ast.parse(source)):
        is_from_platforms = isinstance(node, ast.ImportFrom) and node.module == PLATFORMS
        if is_from_platforms and any(name.name == "SYSTEM" for name in node.names):
            return True
    return False


def find_offenders(folders: list[Path]) -> list[str]:
    """List `FILE:LINE: TEXT` for every Python file below the folders, but not below `ALLOWED`."""
    offenders = []
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            if path.relative_to(folder).is_relative_to(ALLOWED):
                continue
            source = path.read_text(encoding="utf-8")
            if not WORDS_OF_ASKING.search(source):
                continue
            for line, text in find_questions(source):
                offenders.append(f"{path}:{line}: {text}")
            module = path.relative_to(folder.parent).as_posix()
            if imports_system(source) and module not in SYSTEM_MODULES:
                offenders.append(f"{path}: SYSTEM")
    return offenders


if __name__ == "__main__":
    lines = find_offenders([Path(name) for name in sys.argv[1:]])
    print("\n".join(lines))
    sys.exit(bool(lines))
