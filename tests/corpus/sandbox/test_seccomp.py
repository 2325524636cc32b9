"""The table of system calls that the filter of reading processes knows."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest

from engine.corpus.sandbox.seccomp import read_calls

HEADERS = {
    "x86_64": ("x86_64-linux-gnu/asm/unistd_64.h", r"#define __NR_(\w+)\s+(\d+)"),
    "aarch64": ("asm-generic/unistd.h", r"#define __NR(?:3264)?_(\w+)\s+(\d+)"),
}
# Calls that the newer architecture has never had.
OLD = {
    "chmod",
    "chown",
    "creat",
    "fork",
    "futimesat",
    "lchown",
    "link",
    "mkdir",
    "mknod",
    "open",
    "rename",
    "rmdir",
    "symlink",
    "unlink",
    "utime",
    "utimes",
    "vfork",
}


def read_numbers(architecture: str) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for section in read_calls(architecture):
        assert not numbers.keys() & section.keys()
        numbers |= section
    return numbers


def test_both_architectures_refuse_the_same() -> None:
    x86_64 = read_calls("x86_64")
    aarch64 = read_calls("aarch64")
    for section, other in zip(x86_64, aarch64, strict=True):
        assert set(section) - set(other) == set(section) & OLD
        assert set(other) <= set(section)
    assert set(chain(*x86_64)) - set(chain(*aarch64)) == OLD


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
def test_the_numbers_are_those_of_the_kernel(architecture: str) -> None:
    name, pattern = HEADERS[architecture]
    header = Path("/usr/include") / name
    if not header.exists():
        pytest.skip("the headers of Linux are not installed")
    known = dict(re.findall(pattern, header.read_text()))
    numbers = {name: str(number) for name, number in read_numbers(architecture).items()}
    # Headers may be older than the newest calls.
    assert {name: known.get(name, number) for name, number in numbers.items()} == numbers
    assert len(known.keys() & numbers.keys()) > 60
