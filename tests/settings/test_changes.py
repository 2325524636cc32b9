from __future__ import annotations

import threading
import tomllib
from pathlib import Path
from typing import Any

import pytest
from fixtures.errors import fails
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.assets import asset_path
from engine.core.errors import SettingsError
from engine.core.platforms.users import is_private
from engine.project.folder import ProjectFolder
from engine.settings import edit as settings_file
from engine.settings.edit import change
from engine.settings.load import template, validate
from engine.settings.schema import sections

KEYS = [(name, key) for name, section in sections().items() for key in section.model_fields]
VALUES = st.one_of(
    st.text(),
    st.integers(-(2**40), 2**40),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.lists(st.text(), max_size=4),
    st.lists(st.floats(0, 1), max_size=4),
    st.sampled_from(["bm25", "quick", "auto"]),
)
BY_HAND = """\
# my project
training = { steps = 50, preset = "quick" }   # all in one line
corpus.retrain_threshold = 0.25
corpus.paths = [
    "a",  # the first
    "b",
]

  [search]  # how I search
  top = 7   # as many as fit
  # mode = "hybrid"   # ranker used when none is named

[encoder]
model = '''
C:\\models\\mine'''
"""


@st.composite
def valid_changes(draw: Any) -> dict[str, Any]:
    """Up to four keys with values that project.toml may hold, of whatever kind, but none of a
    former version's.
    """
    found: dict[str, Any] = {}
    for section, key in draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=4, unique=True)):
        field = sections()[section].model_fields[key]
        value = draw(st.one_of(VALUES, st.just(field.default)))
        try:
            validate({section: {key: value}})
        except SettingsError:
            continue
        if value is not None:
            found[f"{section}.{key}"] = value
    return found or {"search.top": 7}


def nested(changes: dict[str, Any]) -> dict[str, dict[str, Any]]:
    result: dict[str, dict[str, Any]] = {}
    for dotted, value in changes.items():
        section, key = dotted.split(".")
        result.setdefault(section, {})[key] = value
    return result


@given(valid_changes())
@settings(max_examples=50)
def test_a_new_project_changed_is_a_project_created_so(changes: dict[str, Any]) -> None:
    """Uncommon keys come last in their sections, and leave no line when they are taken out."""
    _, text = change(template({}), changes)
    assert sorted(text.split()) == sorted(template(nested(changes)).split())
    assert tomllib.loads(text) == {**tomllib.loads(template({})), **nested(changes)}
    _, back = change(text, dict.fromkeys(changes))
    assert back == template({})


@given(valid_changes(), st.booleans())
@settings(max_examples=50)
def test_every_other_line_of_a_file_written_by_hand_stays(
    changes: dict[str, Any], windows: bool
) -> None:
    if windows:
        former = BY_HAND.replace("\n", "\r\n")
    else:
        former = BY_HAND
    settings, text = change(former, changes)
    wanted = tomllib.loads(BY_HAND)
    for section, values in nested(changes).items():
        wanted.setdefault(section, {}).update(values)
    assert tomllib.loads(text) == wanted
    assert settings == validate(wanted)
    for dotted, comment in {
        "": "# my project",
        "training.": "# all in one line",
        "corpus.paths": "# the first",
        "search.": "[search]  # how I search",
        "search.top": "# as many as fit",
    }.items():
        assert comment in text or dotted in changes, comment
    assert ("\r\n" in text) == windows


@given(st.text(), st.text())
def test_any_text_survives(name: str, path: str) -> None:
    _, text = change(BY_HAND, {"encoder.model": name, "corpus.paths": [path, name]})
    data = tomllib.loads(text)
    assert (data["encoder"]["model"], data["corpus"]["paths"]) == (name, [path, name])


def test_a_commented_default_gives_its_place_and_takes_it_back() -> None:
    former = '[search]\n# how many\n# top = 10   # hits\n\n[vectors]\n# dtype = "f16"\n'
    _, text = change(former, {"search.top": 3, "vectors.dtype": "i8"})
    assert (
        text == "[search]\n# how many\n# hits\ntop = 3\n\n[vectors]\n# storage type of the"
        ' vectors\ndtype = "i8"\n'
    )
    _, text = change("[search]\ntop = 3   # mine\n\n[vectors]\n", {"search.top": None})
    assert text == "[search]\n# mine\n# top = 10   # number of hits\n\n[vectors]\n"


def test_a_key_without_a_line_of_its_own_comes_last_in_its_section() -> None:
    former = '[search]\nmode = "bm25"\n\n\n[vectors]\n# mine'
    _, text = change(former, {"search.top": 3, "training.steps": 9})
    assert (
        text == '[search]\nmode = "bm25"\n# number of hits\ntop = 3\n\n\n[vectors]\n# mine\n\n'
        "[training]\n# maximum number of training steps\nsteps = 9\n"
    )


def test_the_last_key_of_a_dotted_section_can_be_taken_out() -> None:
    _, text = change(
        "corpus.retrain_threshold = 0.5\nsearch = { top = 3 }\n",
        {"corpus.retrain_threshold": None, "search.top": None},
    )
    assert {name: table for name, table in tomllib.loads(text).items() if table} == {}


@pytest.mark.parametrize(
    ("changes", "code", "value"),
    [
        ({"search.top": 0}, "settings-invalid", "search.top"),
        ({"search.top": "3"}, "settings-invalid", "search.top"),
        ({"search.tops": 3}, "settings-unknown-key", "'search.top'"),
        ({"search.tops": None}, "settings-unknown-key", "'search.top'"),
        ({"serch.top": None}, "settings-unknown-key", "'search'"),
        ({"top": 3}, "settings-unknown-key", "'search.top'"),
        ({"search": None}, "settings-invalid", "search"),
        ({"search": 3}, "settings-invalid", "search"),
        ({"search.": 3}, "settings-unknown-key", "search."),
        ({"": 3}, "settings-unknown-key", "''"),
        ({"search.top.x": 3}, "settings-unknown-key", "'search.top'"),
        ({"search.top": {"a": 1}}, "settings-invalid", "search.top"),
        ({"search.top": 3, "search.mode": "telepathy"}, "settings-invalid", "search.mode"),
        ({"encoder.model": "half a pair \ud800"}, "text-not-storable", "encoder.model"),
    ],
)
def test_a_wrong_change_is_reported_and_nothing_is_written(
    project: ProjectFolder, changes: dict[str, Any], code: str, value: str
) -> None:
    before = (project.path / "project.toml").read_bytes()
    with fails(SettingsError, code, value):
        project.change_settings(changes)
    assert (project.path / "project.toml").read_bytes() == before


def test_what_was_written_by_hand_meanwhile_stays(project: ProjectFolder) -> None:
    file = project.path / "project.toml"
    assert project.change_settings({"search.top": 3}).search.top == 3
    file.write_text(file.read_text().replace("[search]", "[search]\nweight = 0.25   # by hand"))
    settings = project.change_settings({"search.mode": "bm25"})
    assert (settings.search.top, settings.search.weight, settings.search.mode) == (
        3,
        0.25,
        "keywords",
    )
    assert project.settings() == settings
    assert "weight = 0.25   # by hand\n" in file.read_text()
    assert is_private(file.stat())


def test_what_an_editor_saves_while_a_change_is_made_stays(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = project.path / "project.toml"
    real = settings_file.change
    edits = ["weight = 0.25   # by hand", "rrf_k = 7   # by hand"]

    def change(*arguments: Any) -> Any:
        result = real(*arguments)
        if edits:
            file.write_text(file.read_text().replace("[search]", f"[search]\n{edits.pop()}"))
        return result

    monkeypatch.setattr(settings_file, "change", change)
    found = project.change_settings({"search.top": 3}).search
    assert (found.top, found.weight, found.rrf_k) == (3, 0.25, 7)
    assert project.settings().search == found
    assert file.read_text().count("# by hand") == 2


def test_a_typo_in_the_file_can_be_mended_by_a_change(project: ProjectFolder) -> None:
    file = project.path / "project.toml"
    file.write_text("[search]\ntopp = 3\n")
    with fails(SettingsError, "settings-unknown-key", "topp"):
        project.change_settings({"search.mode": "bm25"})
    assert project.change_settings({"search.topp": None, "search.top": 3}).search.top == 3
    assert "topp" not in file.read_text()
    file.write_text("[serch]\ntop = 3\n\n[search]\n# mine\n")
    assert project.change_settings({"serch": None}).search.top == 10
    assert file.read_text() == "[search]\n# mine\n"


def test_a_file_that_is_no_toml_is_left_alone(project: ProjectFolder) -> None:
    file = project.path / "project.toml"
    file.write_text("[search\n")
    with fails(SettingsError, "settings-not-toml"):
        project.change_settings({"search.top": 3})
    assert file.read_text() == "[search\n"


def test_changes_at_once_are_all_kept(project: ProjectFolder) -> None:
    changes: list[dict[str, Any]] = [
        {"search.top": 3},
        {"search.rrf_k": 4},
        {"training.steps": 5},
        {"ranking.k": 6},
    ]
    threads = [threading.Thread(target=project.change_settings, args=(one,)) for one in changes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    settings = project.settings()
    assert (
        settings.search.top,
        settings.search.rrf_k,
        settings.training.steps,
        settings.ranking.k,
    ) == (3, 4, 5, 6)


@pytest.mark.posix(reason="links need a right on Windows")
def test_a_linked_settings_file_stays_a_link(project: ProjectFolder, tmp_path: Path) -> None:
    file = project.path / "project.toml"
    real = tmp_path / "kept-elsewhere.toml"
    file.rename(real)
    file.symlink_to(real)
    project.change_settings({"search.top": 3})
    assert file.is_symlink()
    assert tomllib.loads(real.read_text())["search"] == {"top": 3}


def test_the_sample_documents_are_there() -> None:
    assert sorted(path.name for path in asset_path("sample/documents").iterdir() if path.is_dir())[
        :2
    ] == [
        "contracts",
        "incidents",
    ]
