"""Forged bundles whose seals are right: each is refused with a code, and nothing is left
anywhere.
"""

from __future__ import annotations

import json
import random
import sqlite3
import stat
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_LZMA, ZIP_STORED, ZipFile, ZipInfo

import pytest
from fixtures.errors import fails
from fixtures.quick_password import quick_passwords

from engine.core.errors import DamagedError, EngineError
from engine.core.messages.project import Bundled
from engine.export.bundle.archive import MANIFEST, new_archive, seal
from engine.export.bundle.password import encrypt
from engine.export.bundle.unpack import unbundle, verify

Forge = Callable[[Path], None]
UNSAFE = "bundle-unsafe"
DAMAGED = "bundle-damaged"
VERSION = "bundle-version"
ZEROS = b"\0" * 12_345
FILES = {
    "project.toml": b"",
    "project.db": b"",
    "lexical/a/meta.json": b"{}",
}


def manifest_of(files: Mapping[str, bytes]) -> dict[str, Any]:
    listed = {
        name: {"bytes": len(content), "sha256": sha256(content).hexdigest()}
        for name, content in files.items()
    }
    return {
        "format": 1,
        "program": "forger",
        "created": "",
        "search_only": True,
        "files": listed,
        "folders": [],
        "models": {},
    }


def forged(
    target: Path,
    files: Mapping[str, bytes] = FILES,
    *,
    also: tuple[tuple[ZipInfo, bytes], ...] = (),
    manifest: Any = None,
    patch: Callable[[bytes], bytes] = bytes,
) -> None:
    """A sealed archive of `files`, which the manifest lists unless it is given, and of further
    entries.
    """
    with new_archive(target) as archive:
        for name, content in files.items():
            archive.writestr(named(name), content)
        for info, content in also:
            archive.writestr(info, content)
        if manifest is None:
            data = manifest_of({**files, **{info.filename: content for info, content in also}})
        else:
            data = manifest
        archive.writestr(MANIFEST, data if isinstance(data, bytes) else json.dumps(data))
    target.write_bytes(patch(target.read_bytes()))
    seal(target)


def named(
    name: str,
    mode: int = 0,
    method: int = ZIP_STORED,
) -> ZipInfo:
    info = ZipInfo("x")
    info.filename = name
    info.external_attr = mode << 16
    info.compress_type = method
    return info


def with_name(name: str) -> Forge:
    return lambda target: forged(target, {**FILES, name: b"x"})


def with_entry(
    name: str,
    mode: int = 0,
    content: bytes = b"x",
    method: int = ZIP_STORED,
) -> Forge:
    return lambda target: forged(target, also=((named(name, mode, method), content),))


def with_manifest(change: Mapping[str, Any] | bytes, *, without: str = "") -> Forge:
    def make(target: Path) -> None:
        if isinstance(change, bytes):
            data = change
        else:
            data = {**manifest_of(FILES), **change}
        if isinstance(data, dict):
            data.pop(without, None)
        forged(target, manifest=data)

    return make


def patched(old: bytes, new: bytes) -> Forge:
    """Of `ZEROS`, in the lists of contents."""
    files = {**FILES, "lexical/zeros": ZEROS}
    return lambda target: forged(target, files, patch=lambda content: content.replace(old, new))


def flagged(content: bytes) -> bytes:
    """The last entry says that it is encrypted."""
    place = content.rfind(b"PK\x01\x02") + 8
    return content[:place] + b"\x01" + content[place + 1 :]


def overlapping(content: bytes) -> bytes:
    """All entries of the list begin at the same place."""
    first = content.find(b"PK\x01\x02")
    place = -1
    changed = bytearray(content)
    while (place := content.find(b"PK\x01\x02", place + 1)) >= 0:
        changed[place + 42 : place + 46] = content[first + 42 : first + 46]
    return bytes(changed)


def names() -> Iterator[str]:
    yield from (
        "../x",
        "../../../../tmp/x",
        "/etc/passwd",
        "//x",
        "lexical/../../x",
        "lexical/../x",
        "lexical/./x",
        "lexical//x",
        "./lexical/x",
        "..",
        ".",
        "/",
        "lexical/..",
        "C:/x",
        "C:\\x",
        "..\\x",
        "lexical\\..\\..\\x",
        "\\\\server\\x",
        "lexical/x:stream",
        "lexical/a\0b",
        "lexical/a\nb",
        "lexical/\x1b[2J",
        "lexical/\x7f",
        "lexical/a ",
        "lexical/a.",
        "lexical/...",
        "lexical/con",
        "lexical/NUL.txt",
        "lexical/Lpt1",
        "lexical/aux/x",
        "lexical/a*",
        "lexical/a?",
        "lexical/<a>",
        'lexical/"a"',
        "lexical/a|b",
        "~/x",
        "$HOME/x",
        ".ssh/x",
        "etc/x",
        "runs/x/run.json",
        "project.db-wal",
        "project.toml.bak",
        "run.lock",
        "exports.json",
        "Lexical/x",
        "PROJECT.TOML/x",
        "lexical/" + "a" * 256,
        "lexical/" + "ä" * 128,
        "lexical/" + "a/" * 500 + "a",
        "",
    )
    rng = random.Random(34)
    for _ in range(60):
        parts = rng.choices(["lexical", "a", "b"], k=rng.randint(1, 5))
        parts.insert(rng.randint(0, len(parts)), rng.choice(["..", ".", "", "..\\", "\0", "a:b"]))
        yield "/".join(parts) if parts[-1] else "/".join([*parts, ".."])


def manifests() -> Iterator[tuple[Mapping[str, Any] | bytes, str, str]]:
    """(change, key to leave out, code)"""
    yield from (
        (text, "", DAMAGED)
        for text in (
            b"",
            b"{",
            b"[]",
            b"null",
            b"\xff\xfe",
            b"[" * 100_000,
            b'"x"',
            b"1e999",
            b"NaN",
        )
    )
    yield from (({}, key, DAMAGED) for key in manifest_of(FILES))
    yield from (({"format": value}, "", DAMAGED) for value in (None, "1", 1.5, [1], {}, True))
    yield from (({"format": value}, "", VERSION) for value in (0, 2, -1, 10**30))
    for key in ("program", "created", "search_only", "files", "folders", "models"):
        yield from (({key: value}, "", DAMAGED) for value in (7, None, 1.5, [[]]))
    whole = manifest_of(FILES)["files"]
    first = whole["project.toml"]
    wrong = [{"bytes": value} for value in ("0", -1, 1, 2**70, None)] + [
        {"sha256": value} for value in (0, "", "0" * 64)
    ]
    for entry in (None, [], {"bytes": 0}, {"sha256": ""}, *({**first, **one} for one in wrong)):
        yield (
            {
                "files": {**whole, "project.toml": entry},
            },
            "",
            DAMAGED,
        )
    yield (
        {
            "files": {**whole, "lexical/b": first},
        },
        "",
        DAMAGED,
    )
    yield (
        {
            "files": {name: whole[name] for name in ("project.toml", "project.db")},
        },
        "",
        DAMAGED,
    )
    yield (
        {
            "unknown": 1,
        },
        "",
        DAMAGED,
    )
    for place in ("../x", "lexical/a/meta.json", "/etc", "models", "models/../x"):
        yield (
            {
                "models": {"named": place},
            },
            "",
            UNSAFE,
        )
    yield (
        {
            "folders": [f"imports/{number}" for number in range(1_001)],
        },
        "",
        UNSAFE,
    )
    yield from (
        ({"folders": [place]}, "", UNSAFE)
        for place in (
            "../x",
            "/x",
            "runs",
            "lexical/a/meta.json/x",
            "lexical/a/meta.json",
            "LEXICAL",
            "imports" + "/a" * 20,
        )
    )


def cases() -> Iterator[tuple[Forge, str]]:
    yield from ((with_name(name), UNSAFE) for name in names())
    for kind in (
        stat.S_IFLNK,
        stat.S_IFCHR,
        stat.S_IFBLK,
        stat.S_IFIFO,
        stat.S_IFSOCK,
        stat.S_IFDIR,
    ):
        for name, content in (
            ("lexical/x", b"/etc/passwd"),
            ("project.db-x", b"../.."),
            ("models/x", b""),
        ):
            yield with_entry(name, kind | 0o777, content), UNSAFE
    yield from (
        (with_entry(name), UNSAFE) for name in ("project.toml", "project.db", "lexical/a/meta.json")
    )  # twice
    for one, other in (
        ("lexical/b", "lexical/B"),
        ("lexical/é", "lexical/e\u0301"),
        ("lexical/ß", "lexical/SS"),
        ("lexical/ﬁ", "lexical/FI"),
        ("lexical/b/x", "lexical/B/y"),
        ("lexical/b", "lexical/b/x"),
        ("lexical/K", "lexical/\u212a"),
        ("project.toml/x", "lexical/b"),
    ):
        yield (
            lambda target, one=one, other=other: forged(target, {**FILES, one: b"1", other: b"2"}),
            UNSAFE,
        )
    yield from (
        (with_entry("lexical/x", 0, b"x", method), UNSAFE) for method in (ZIP_BZIP2, ZIP_LZMA)
    )
    yield lambda target: forged(target, patch=flagged), UNSAFE
    for size in (5_000_000, 50_000_000):
        yield with_entry("lexical/bomb", 0, b"\0" * size, ZIP_DEFLATED), UNSAFE
    yield lambda target: forged(target, patch=overlapping), DAMAGED
    size = struct.pack("<L", len(ZEROS))
    yield from (
        (patched(size, struct.pack("<L", other)), code)
        for other, code in ((1, DAMAGED), (12_346, DAMAGED), (2**31, UNSAFE))
    )
    yield from (
        (with_manifest(change, without=without), code) for change, without, code in manifests()
    )
    for name in ("project.toml", "project.db"):
        yield (
            lambda target, name=name: forged(
                target, {key: value for key, value in FILES.items() if key != name}
            ),
            DAMAGED,
        )
    yield lambda target: forged(target, {"key.age": b"", "project.zip.age": b"", "x": b""}), UNSAFE
    yield lambda target: forged(target, {"key.age": b"x" * 5000, "project.zip.age": b""}), UNSAFE


CASES = list(cases())


@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_hostile_bundle_is_refused_and_writes_nothing(tmp_path: Path, number: int) -> None:
    forge, code = CASES[number]
    file = tmp_path / "hostile.bundle"
    place = tmp_path / "a" / "b"
    place.mkdir(parents=True)
    forge(file)
    with pytest.raises(EngineError) as caught:
        unbundle(file, str(place / "made"))
    assert caught.value.code == code, str(caught.value)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b", "hostile.bundle"]


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("project.toml", b"[encoder", "settings-not-toml"),
        ("project.toml", b"[encoder]\nmodle = 1\n", "settings-unknown-key"),
        ("project.toml", b"\xff", "settings-unreadable"),
        ("project.db", b"", "database-damaged"),
        ("project.db", b"SQLite format 3\0" + b"\xff" * 5000, "database-damaged"),
    ],
)
def test_settings_and_database_that_cannot_be_used_are_refused(
    halves: dict[str, Bundled], tmp_path: Path, name: str, content: bytes, code: str
) -> None:
    file = tmp_path / "hostile.bundle"
    forged(file, {**contents(halves), name: content})
    with pytest.raises(EngineError) as caught:
        unbundle(file, str(tmp_path / "made"))
    assert caught.value.code == code
    assert [path.name for path in tmp_path.iterdir()] == ["hostile.bundle"]


@pytest.mark.parametrize(
    ("found", "put"), [(b"PK\x03\x04", b"PK\x03\x05"), (b"project.zip.age", b"project.zip.agf")]
)
def test_a_password_opens_no_archive_that_is_malformed(
    tmp_path: Path, found: bytes, put: bytes
) -> None:
    plain = tmp_path / "plain.bundle"
    forged(plain)
    file = tmp_path / "hostile.bundle"
    with quick_passwords():
        encrypt(plain, file, "correct horse")
    plain.unlink()
    content = file.read_bytes()
    second = content.index(found, 4)
    file.write_bytes(content[:second] + put + content[second + len(put) :])
    seal(file)
    with fails(DamagedError, DAMAGED):
        verify(file, lambda: "correct horse")
    with fails(DamagedError, DAMAGED):
        unbundle(
            file,
            str(tmp_path / "made"),
            password=lambda: "correct horse",
        )
    assert [path.name for path in tmp_path.iterdir()] == ["hostile.bundle"]


@pytest.mark.parametrize("column", ["folder", "info"])
def test_a_database_that_names_folders_elsewhere_is_refused(
    halves: dict[str, Bundled], tmp_path: Path, column: str
) -> None:
    files = contents(halves)
    database = tmp_path / "project.db"
    database.write_bytes(files["project.db"])
    with closing(sqlite3.connect(database)) as connection:
        if column == "folder":
            value = "../../etc"
        else:
            value = json.dumps({"adapter": "/etc"})
        connection.execute(f"UPDATE artifacts SET {column} = ? WHERE kind = 'vectors'", (value,))
        connection.commit()
    forged(tmp_path / "hostile.bundle", {**files, "project.db": database.read_bytes()})
    with pytest.raises(EngineError) as caught:
        unbundle(tmp_path / "hostile.bundle", str(tmp_path / "made"))
    assert caught.value.code == UNSAFE
    assert not (tmp_path / "made").exists()


ENDLESS = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r)"


@pytest.mark.parametrize(
    "statement",
    [
        (
            f"ALTER TABLE artifacts RENAME TO a; CREATE VIEW artifacts AS {ENDLESS} SELECT a.* FROM"
            " a, r;"
        ),
        "DROP TABLE queries; CREATE VIEW queries AS SELECT 1;",
        "CREATE TRIGGER t AFTER UPDATE ON artifacts BEGIN DELETE FROM documents; END;",
        "CREATE TABLE more (x);",
        "DROP TABLE queries; CREATE VIRTUAL TABLE queries USING fts5(text);",
        "ALTER TABLE queries ADD COLUMN more TEXT AS (upper(text));",
        "CREATE INDEX more ON queries (text);",
    ],
)
def test_a_database_with_what_no_project_has_is_refused_before_it_is_read(
    halves: dict[str, Bundled], tmp_path: Path, statement: str
) -> None:
    files = contents(halves)
    database = tmp_path / "project.db"
    database.write_bytes(files["project.db"])
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript(statement)
    forged(tmp_path / "hostile.bundle", {**files, "project.db": database.read_bytes()})
    for read in (verify, lambda file: unbundle(file, str(tmp_path / "made"))):
        with pytest.raises(EngineError) as caught:
            read(tmp_path / "hostile.bundle")
        assert caught.value.code == UNSAFE
    assert not (tmp_path / "made").exists()


def contents(halves: dict[str, Bundled]) -> dict[str, bytes]:
    with ZipFile(halves["half"].file) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name != MANIFEST}
