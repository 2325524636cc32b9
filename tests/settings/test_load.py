"""Loading and validating a project's settings, and editing its file."""

from __future__ import annotations

import contextlib
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from fixtures.errors import fails
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import SettingsError, nearest
from engine.settings.edit import change
from engine.settings.load import load, parse_tables, template, validate
from engine.settings.schema import Settings, sections
from engine.settings.section import FROM_MODEL, FROM_PRESET, is_common

SECTIONS = {name: field.annotation for name, field in Settings.model_fields.items()}
KEYS = [(name, key) for name, section in SECTIONS.items() for key in section.model_fields]
COMMON = [(name, key) for name, key in KEYS if is_common(SECTIONS[name].model_fields[key])]


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "project.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize(
    ("text", "wrong", "meant"),
    [
        ("[trainng]\nsteps = 5", "'trainng'", "'training'"),
        ("[Training]\nsteps = 5", "'Training'", "'training'"),
        ("[training]\nlearning_rat = 0.1", "'training.learning_rat'", "'training.learning_rate'"),
        ("[training]\nLEARNING_RATE = 0.1", "'training.LEARNING_RATE'", "'training.learning_rate'"),
        ("[training]\nchunk_tokens = 64", "'training.chunk_tokens'", "'corpus.chunk_tokens'"),
        (
            "[corpus]\nmax_tokens = 64",
            "'corpus.max_tokens'",
            "'encoder.max_tokens' or 'training.max_tokens'",
        ),
        ("[search]\ndtype = 'f16'", "'search.dtype'", "'encoder.dtype' or 'vectors.dtype'"),
        ("chunk_tokens = 64", "'chunk_tokens'", "'corpus.chunk_tokens'"),
        ("[encoder]\nchunk_token = 64", "'encoder.chunk_token'", "'encoder.max_tokens'"),
    ],
)
def test_a_typo_names_the_key_and_what_was_meant(
    tmp_path: Path, text: str, wrong: str, meant: str
) -> None:
    with fails(SettingsError, "settings-unknown-key") as caught:
        load(write(tmp_path, text))
    assert wrong in caught.value.what
    assert meant in caught.value.to_do


def test_a_key_like_no_other_is_to_be_removed(tmp_path: Path) -> None:
    with fails(SettingsError, "settings-unknown-key", "qqqqqq") as caught:
        load(write(tmp_path, "[corpus]\nqqqqqq = 1"))
    assert not re.search(r"'[a-z]+\.[a-z_]+'", caught.value.to_do), "no other key is named"


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("corpus", "chunk_tokens", 15),
        ("corpus", "chunk_tokens", 8193),
        ("corpus", "chunk_tokens", "256"),
        ("corpus", "chunk_tokens", 256.0),
        ("corpus", "chunk_tokens", True),
        ("corpus", "paths", "documents"),
        ("corpus", "paths", [1]),
        ("corpus", "context", "everything"),
        ("corpus", "retrain_threshold", 1.1),
        ("encoder", "device", "tpu"),
        ("training", "steps", 0),
        ("training", "steps", True),
        ("training", "learning_rate", 0),
        ("training", "learning_rate", float("nan")),
        ("training", "teacher_temperature", float("inf")),
        ("training", "lora_dropout", 1.0),
        ("training", "seed", 2**32),
        ("training", "seed", -1),
        ("evaluation", "interpolation_weights", [0.5, 1.5]),
        ("evaluation", "heldout_share", 0.9),
        ("evaluation", "use_judged", "yes"),
        ("search", "top", 0),
        ("search", "weight", -0.1),
    ],
)
def test_a_wrong_value_is_named_with_its_key(
    section: str,
    key: str,
    value: Any,
) -> None:
    with fails(SettingsError, "settings-invalid", f"{section}.{key}") as caught:
        validate({section: {key: value}})
    assert f"{section}.{key}" in caught.value.what, "what is wrong is said first, and once"
    assert caught.value.why == ""


@pytest.mark.parametrize(
    ("key", "value"), [("seed", 2**32 - 1), ("learning_rate", 0.1), ("teacher_temperature", 1)]
)
def test_values_at_the_edge_are_taken(key: str, value: float) -> None:
    assert getattr(validate({"training": {key: value}}).training, key) == value


def test_every_problem_is_reported_at_once() -> None:
    with fails(SettingsError, "settings-unknown-key", "3 problems") as caught:
        validate({"search": {"top": 0, "tops": 3}, "vector": {}})
    assert all(part in caught.value.why for part in ("search.top", "search.tops", "vector"))


def test_a_section_that_is_a_number_is_named() -> None:
    with fails(SettingsError, "settings-invalid", "training"):
        validate({"training": 5})


def test_long_values_are_not_repeated_in_full() -> None:
    with pytest.raises(SettingsError) as caught:
        validate({"search": {"top": "x" * 10_000}})
    assert len(caught.value.what) < 400


def test_a_line_that_is_not_toml_is_shown(tmp_path: Path) -> None:
    (tmp_path / "project.toml").write_bytes(b"[search]\r\n# \xe2\x80\xa8 one line\r\ntop = ten\r\n")
    with fails(SettingsError, "settings-not-toml", "top = ten") as caught:
        load(tmp_path / "project.toml")
    assert caught.value.line == 3


@pytest.mark.parametrize(
    ("text", "line"),
    [("[search]\nfoo = [\n\n", 2), ("[a]\nb = [1,\n2", 3)],
)
def test_an_error_at_the_end_of_the_file_names_the_last_line_with_text(
    text: str, line: int
) -> None:
    with fails(SettingsError, "settings-not-toml") as caught:
        parse_tables(text)
    assert caught.value.line == line


def test_a_number_with_too_many_digits_is_an_error_without_a_line() -> None:
    with fails(SettingsError, "settings-not-toml") as caught:
        parse_tables("a = " + "9" * 5000)
    assert caught.value.line == 0


@pytest.mark.parametrize(
    "content",
    [
        b"[corpus",
        b"top = = 3",
        b"[search]\ntop = 1\ntop = 2",
        b"a = " + b"[" * 20_000,
        b"a = " + b"9" * 10_000,
        b"a = 2031-13-45",
        b"\x00",
    ],
)
def test_not_toml(tmp_path: Path, content: bytes) -> None:
    with fails(SettingsError, "settings-not-toml"):
        load(write(tmp_path, content))


@pytest.mark.parametrize("content", [b"[corpus]\npaths = ['caf\xe9']", b"\xff\xfe[\x00"])
def test_not_utf8(tmp_path: Path, content: bytes) -> None:
    with fails(SettingsError, "settings-unreadable", "UTF-8"):
        load(write(tmp_path, content))


@given(content=st.binary(max_size=200))
def test_whatever_the_file_holds_the_error_is_typed(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = write(tmp_path_factory.getbasetemp(), content)
    with contextlib.suppress(SettingsError):
        assert isinstance(load(path), Settings)


def test_a_byte_order_mark_is_no_harm(tmp_path: Path) -> None:
    assert load(write(tmp_path, b"\xef\xbb\xbf[search]\r\ntop = 7\r\n")).search.top == 7


def test_missing_file_and_folder_in_its_place(tmp_path: Path) -> None:
    with fails(SettingsError, "settings-missing"):
        load(tmp_path / "project.toml")
    (tmp_path / "project.toml").mkdir()
    with fails(SettingsError, "settings-unreadable"):
        load(tmp_path / "project.toml")


def test_an_empty_file_gives_the_defaults(tmp_path: Path) -> None:
    assert load(write(tmp_path, "")) == Settings()


def test_about_twenty_settings_are_common() -> None:
    assert 18 <= len(COMMON) <= 24
    assert {
        ("corpus", "paths"),
        ("encoder", "model"),
        ("queries", "backend"),
        ("search", "mode"),
    } <= set(COMMON)


def test_template_shows_the_common_keys_alone_and_loads_as_the_defaults(tmp_path: Path) -> None:
    text = template({})
    shown = [
        (part.partition("]")[0], key)
        for part in text.split("\n[")[1:]
        for key in re.findall(r"^# (\w+) = ", part, re.M)
    ]
    assert shown == COMMON
    assert all(SECTIONS[name].model_fields[key].description in text for name, key in COMMON)
    assert load(write(tmp_path, text)) == Settings()


def test_template_lines_hold_the_defaults_when_their_comment_sign_is_removed(
    tmp_path: Path,
) -> None:
    head, _, rest = template({}).partition("[corpus]")
    bare = "\n".join(line.removeprefix("# ") for line in ("[corpus]" + rest).splitlines())
    assert [
        (section, key) for section, keys in tomllib.loads(bare).items() for key in keys
    ] == COMMON
    assert load(write(tmp_path, bare)) == Settings()
    assert all(line.startswith("# ") for line in head.strip().splitlines())


@pytest.mark.parametrize(("section", "key"), KEYS)
def test_every_default_may_be_written(section: str, key: str) -> None:
    """Also where a file made before shows what stands for no value."""
    field = SECTIONS[section].model_fields[key]
    default = field.get_default()
    for unset in [FROM_PRESET, FROM_MODEL] if default is None else [default]:
        assert validate({section: {key: unset}}) == Settings()


def test_from_the_preset_is_no_value_for_a_setting_with_a_default() -> None:
    """A search mode of that name is a slip, like any other."""
    with fails(SettingsError, "settings-invalid", "project.toml", "search.mode"):
        validate({"search": {"mode": "from the preset"}})


def test_an_uncommon_key_leaves_no_line_when_it_is_taken_out() -> None:
    changed = change(template({}), {"encoder.query_prompt": "query: "})[1]
    assert 'query_prompt = "query: "' in changed.splitlines()
    assert change(changed, {"encoder.query_prompt": None})[1] == template({})


CHOSEN: dict[str, dict[str, Any]] = {
    "corpus": {
        "paths": ["/a b/c", 'q"uote', "back\\slash", "café", "tab\t", "del\x7f", "line\nend"],
        "retrain_threshold": 0.5,
    },
    "encoder": {"model": "/models/mini", "dtype": "float32"},
    "queries": {"kinds": ["title"]},
    "training": {"preset": "quick", "learning_rate": 1e-5, "steps": 12, "seed": 3},
    "evaluation": {"use_judged": False, "interpolation_weights": []},
    "search": {"mode": "keywords", "top": 3},
}


def test_template_round_trips_the_chosen_values(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, template(CHOSEN)))
    assert loaded.model_dump(exclude_unset=True) == {name: {} for name, _ in COMMON} | CHOSEN | {
        "corpus": {
            **CHOSEN["corpus"],
            "paths": [*CHOSEN["corpus"]["paths"][:4], "tab", "del\x7f", "line\nend"],
        }
    }
    assert set(loaded.training.overrides()) == {"learning_rate", "steps", "seed"}


@given(paths=st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"]))))
def test_template_round_trips_any_text(paths: list[str]) -> None:
    assert tomllib.loads(template({"corpus": {"paths": paths}}))["corpus"]["paths"] == paths


def test_a_setting_without_a_value_means_the_default(tmp_path: Path) -> None:
    assert load(write(tmp_path, template({"training": {"steps": None}}))) == Settings()


def test_template_refuses_a_path_of_undecodable_bytes() -> None:
    with fails(SettingsError, "text-not-storable") as caught:
        template({"corpus": {"paths": ["caf\udce9"]}})
    assert "udce9" in caught.value.why
    str(caught.value).encode()


def test_a_path_of_undecodable_bytes_is_no_wrong_kind_of_value() -> None:
    with fails(SettingsError, "text-not-storable") as caught:
        validate({"corpus": {"paths": ["docs", "caf\udce9"]}})
    assert "corpus.paths.1" in caught.value.why
    assert "udce9" in caught.value.why


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().search.top = 3  # type: ignore[misc]


def test_nearest_ignores_case_and_gives_up_on_the_far() -> None:
    assert nearest("ALPHA", ["alpha", "beta"]) == "alpha"
    assert nearest("Alpah", ["Alpha", "beta"]) == "Alpha"
    assert nearest("xyz", ["alpha", "beta"]) is None
    assert nearest("alpha", []) is None


def test_every_whole_number_has_a_limit() -> None:
    for name, section in sections().items():
        for key, field in section.model_fields.items():
            if "int" in str(field.annotation):
                with fails(SettingsError, "settings-invalid", f"{name}.{key}"):
                    validate({name: {key: 10**400}})
    with fails(SettingsError, "settings-invalid", "graph_memory_mb"):  # counted in whole bytes
        validate({"training": {"graph_memory_mb": 1e308}})


def test_a_wrong_choice_names_the_nearest() -> None:
    for value, meant in (("keyword", 1), ("qqq", 0)):
        with fails(SettingsError, "settings-invalid", "search.mode") as caught:
            validate({"search": {"mode": value}})
        assert caught.value.what.count("'keywords'") == meant
