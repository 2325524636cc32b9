"""Errors as data: codes, and the way of an error to another process and back."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from engine.core.errors import (
    DamagedError,
    EngineError,
    NotBuiltError,
    StageError,
    first_line,
    reason_of,
)

ROOT = Path(__file__).parents[2]
LISTED = re.compile(r"^\| `([^`]+)` \| (.+) \|$", re.MULTILINE)


def error_classes(trees: list[ast.Module]) -> set[str]:
    """Names of EngineError and all classes that derive from it."""
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    names = {"EngineError"}
    before = 0
    while len(names) > before:
        before = len(names)
        names |= {
            definition.name
            for definition in classes
            if {getattr(base, "id", "") for base in definition.bases} & names
        }
    return names


def codes_raised() -> set[str]:
    """Default codes of the classes, and those that calls, `Refused` as its second argument, and
    functions for `code`, give.
    """
    files = [
        path for package in ("engine", "bmembed_tui") for path in (ROOT / package).rglob("*.py")
    ]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in files]
    kinds = error_classes(trees)
    expressions = list[ast.expr]()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Call):
            expressions += [keyword.value for keyword in node.keywords if keyword.arg == "code"]
            expressions += node.args[1:2] if getattr(node.func, "id", "") == "Refused" else []
        if isinstance(node, ast.FunctionDef):
            named = [*zip(reversed(node.args.args), reversed(node.args.defaults), strict=False)]
            expressions += [default for name, default in named if name.arg == "code"]
        if isinstance(node, ast.ClassDef) and node.name in kinds:
            expressions += [
                line.value
                for line in node.body
                if isinstance(line, ast.Assign) and getattr(line.targets[0], "id", "") == "code"
            ]
    texts = (
        constant.value
        for value in expressions
        for constant in ast.walk(value)
        if isinstance(constant, ast.Constant)
    )
    return {text for text in texts if isinstance(text, str) and text}


def test_every_code_is_listed_once_with_its_meaning_and_no_other() -> None:
    listed = LISTED.findall((ROOT / "docs" / "ERRORS.md").read_text(encoding="utf-8"))
    codes = [code for code, _ in listed]
    assert codes == sorted(set(codes))
    assert set(codes) == codes_raised()
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in codes)


def test_an_error_survives_the_way_through_json() -> None:
    error = DamagedError(
        "a",
        "b",
        "c",
        code="index-damaged",
        stage="index",
        command="run",
    )
    back = EngineError.from_dict(json.loads(json.dumps(error.as_dict())), 9)
    assert (type(back), back.as_dict(), back.exit_code) == (DamagedError, error.as_dict(), 9)


@pytest.mark.parametrize(
    ("data", "kind", "code", "command"),
    [
        (
            {"type": "NotBuiltError", "what": "a", "why": "", "to_do": ""},
            NotBuiltError,
            "not-built",
            "run",
        ),
        ({"type": "Gone", "what": "a"}, StageError, "stage-failed", ""),
        ({}, StageError, "stage-failed", ""),
    ],
)
def test_what_older_versions_wrote_has_the_code_of_its_class(
    data: dict[str, str], kind: type[EngineError], code: str, command: str
) -> None:
    error = EngineError.from_dict(data)
    assert (type(error), error.code, error.command) == (kind, code, command)


@pytest.mark.parametrize("kind", [EngineError, *EngineError.__subclasses__()])
def test_an_error_reads_as_its_three_sentences(kind: type[EngineError]) -> None:
    assert str(kind("It broke.", "", "Mend it.")) == "It broke.\nMend it."


def test_the_first_line_of_another_library_s_error_counts() -> None:
    assert first_line(RuntimeError("\n no such file \nat line 3")) == "no such file "
    assert first_line(MemoryError()) == "MemoryError"


def test_refusals_of_the_system_are_said_in_words() -> None:
    missing = OSError(2, "No such file or directory", "a/b")
    assert [
        reason_of(error) for error in (missing, OSError(5, "Input/output error"), ValueError("bad"))
    ] == [
        "No such file or directory: a/b.",
        "Input/output error.",
        "bad.",
    ]
