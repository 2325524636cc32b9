"""Finds where tests touch a name that begins with `_` of another module: `python
tests/lint/private_names.py tests`.
"""

import ast
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

DOCUMENTED = {
    "_getframe",
    "_exit",
    "_replace",
    "_asdict",
    "_fields",
    "_make",
}  # of sys, os and namedtuples
FOREIGN = {  # of libraries that offer nothing public for it: exempt where the library is imported
    "_driver": "textual",
    "_display": "textual",
    "_batch_count": "textual",
    "_compositor": "textual",
    "_dirty_regions": "textual",
    "_parse_rules": "textual",
    "_variables": "textual",
    "_fork_exec": "subprocess",
    "_run_exitfuncs": "atexit",
    "_shutdown": "threading",
    "_dynamo": "torch",
    "_python_dispatch": "torch",
    "_pytree": "torch",
    "_make_wrapper_subclass": "torch",
    "_apply": "torch",
    "_parameters": "torch",
    "_setup_privateuseone_for_python_backend": "torch",
    "_get_prompt_length": "sentence_transformers",
}
PATCHING = {
    "object",
    "setattr",
    "delattr",
    "getattr",
    "hasattr",
}
DOTTED = re.compile(r"(?:engine|bmembed_tui)(?:\.\w+)*\._[a-zA-Z]\w*(?:\.\w+)*")


def is_private(name: str) -> bool:
    return (
        name.startswith("_") and name != "_" and not name.endswith("__") and name not in DOCUMENTED
    )


def private_uses(source: str) -> Iterator[tuple[int, str]]:
    """The line and the name of each use of another module's private name, in code and in code
    that is run from a string.
    """
    nodes = list(ast.walk(ast.parse(source)))
    libraries = _libraries(nodes)
    own = _defined(nodes) | {name for name, library in FOREIGN.items() if library in libraries}
    for node in nodes:
        for name in _named(node):
            if is_private(name.rpartition(".")[2]) and name.rpartition(".")[2] not in own:
                yield getattr(node, "lineno", 1), name
        text = _text_of(node)
        if "\n" in text or "import " in text:
            yield from ((getattr(node, "lineno", 1), name) for name in _names_in_code(text))


def _text_of(node: ast.AST) -> str:
    """A string's text; a formatted one's with `0` for each value."""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            _text_of(part) if isinstance(part, ast.Constant) else "0" for part in node.values
        )
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return ""


def _names_in_code(text: str) -> list[str]:
    try:
        return [
            name for _, name in private_uses(re.sub(r"\{\w+(?:!r)?\}", "0", textwrap.dedent(text)))
        ]
    except (SyntaxError, ValueError):
        return []  # a text that is no code


def _named(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.ImportFrom):
        return [alias.name for alias in node.names] + (node.module or "").split(".")
    if (
        isinstance(node, ast.Call)
        and getattr(node.func, "attr", getattr(node.func, "id", "")) in PATCHING
    ):
        return [str(one.value) for one in node.args[1:2] if isinstance(one, ast.Constant)]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        if DOTTED.fullmatch(node.value):
            return [node.value]
        return []
    return []


def _defined(nodes: list[ast.AST]) -> set[str]:
    """The attributes that the module's own classes define."""
    own = set()
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            for inner in ast.walk(node):
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    own.add(inner.name)
                elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                    own.add(inner.id)
                elif (
                    isinstance(inner, ast.Attribute)
                    and isinstance(inner.ctx, ast.Store)
                    and _is_self(inner.value)
                ):
                    own.add(inner.attr)
    return own


def _libraries(nodes: list[ast.AST]) -> set[str]:
    """The packages that are imported."""
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return {name.partition(".")[0] for name in names}


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def offenders(root: Path) -> list[str]:
    """One line for each use, with its file. The rules' own tests are examples."""
    files = [path.relative_to(root) for path in sorted(root.rglob("*.py"))]
    return [
        f"{file}:{line}: {name}"
        for file in files
        if file.parts[0] != "lint"
        for line, name in private_uses((root / file).read_text(encoding="utf-8"))
    ]


if __name__ == "__main__":
    found = offenders(Path(sys.argv[1]))
    print(*found, sep="\n")
    sys.exit(bool(found))
