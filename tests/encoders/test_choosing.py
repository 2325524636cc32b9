"""`engine encoders`: the embedding models on this machine, and the languages that each knows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fixtures.pipeline import engine_here, stages_in_this_process
from fixtures.shown_numbers import numbers
from fixtures.tiny_gguf import build_tiny_gguf
from fixtures.user_folders import DATA, HOME

from engine.core.errors import UsageError
from engine.core.events import Choice, Event, Warned
from engine.encoders.choosing.languages import card_languages, foreign_shares, language_finding
from engine.encoders.choosing.library import list_encoders, resolve_name
from engine.encoders.fingerprint import Prompts
from engine.encoders.kinds.chosen import encoder_source
from engine.encoders.model_folder import DEFAULT_MODEL, resolve_model
from engine.project.folder import ProjectFolder
from engine.runs import pipeline
from engine.settings.schema import EncoderSettings

VARIABLES = (
    "HF_HOME",
    "HF_HUB_CACHE",
    "HUGGINGFACE_HUB_CACHE",
    "OLLAMA_MODELS",
    "XDG_CACHE_HOME",
)
SHA256 = "ab" * 32


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(HOME, str(tmp_path / "home"))
    monkeypatch.setenv(DATA, str(tmp_path / "home" / "data"))
    return tmp_path / "home"


@pytest.fixture
def cached(home: Path, tiny_model: Path) -> Path:
    """A model in the Hugging Face cache, with a card."""
    folder = home / ".cache/huggingface/hub/models--intfloat--e5-small-v2/snapshots/0123abcd"
    shutil.copytree(tiny_model, folder)
    (folder / "README.md").write_text(
        "---\nlicense: mit\nlanguage:\n- de\n- en\ntags:\n- mteb\n---\n# A model\n"
    )
    return folder


def pooled(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return build_tiny_gguf(
        path,
        template=None,
        context=512,
        llama__pooling_type=1,
    )


def test_models_are_found_where_other_programs_keep_them(
    home: Path, cached: Path, tiny_model: Path, tmp_path: Path
) -> None:
    studio = pooled(home / ".lmstudio/models/nomic/nomic-embed-text-v1.5.Q8_0.gguf")
    build_tiny_gguf(home / ".lmstudio/models/nomic/writes.gguf")
    blob = pooled(home / f".ollama/models/blobs/sha256-{SHA256}")
    manifest = home / ".ollama/models/manifests/registry.ollama.ai/library/embedding/latest"
    manifest.parent.mkdir(parents=True)
    layer = {
        "mediaType": "application/vnd.ollama.image.model",
        "digest": f"sha256:{SHA256}",
        "size": blob.stat().st_size + 1,
    }
    manifest.write_text(json.dumps({"layers": [layer]}))
    broken = Path(shutil.copytree(tiny_model, tmp_path / "named" / "deep" / "broken"))
    (broken / "model.safetensors").unlink()

    found = {one.names: one for one in list_encoders([str(tmp_path / "named")])}
    assert list(found) == [
        ("intfloat/e5-small-v2",),
        ("broken",),
        (DEFAULT_MODEL,),
        ("nomic-embed-text-v1.5.Q8_0.gguf",),
        ("embedding:latest",),
    ]
    one = found["intfloat/e5-small-v2",]
    assert (one.model, one.place, one.kind, one.dimension, one.languages) == (
        str(cached),
        "Hugging Face",
        "folder",
        32,
        ("de", "en"),
    )
    assert one.size == (cached / "model.safetensors").stat().st_size
    file = found["nomic-embed-text-v1.5.Q8_0.gguf",]
    assert (
        file.model,
        file.place,
        file.kind,
        file.size,
        file.dimension,
        file.max_tokens,
        file.languages,
        file.problem,
    ) == (
        str(studio),
        "LM Studio",
        "gguf",
        studio.stat().st_size,
        64,
        512,
        (),
        "",
    )
    assert found[DEFAULT_MODEL,].languages == ("en",)
    assert [bool(one.problem) for one in found.values()] == [False, True, False, False, True]


def test_an_encoder_is_named_as_it_is_listed(cached: Path, tmp_path: Path) -> None:
    found = list_encoders()
    for named in ("intfloat/e5-small-v2", "e5-small-v2", str(cached)):
        assert resolve_name(named, found) == str(cached)
    assert resolve_name(DEFAULT_MODEL, found) == DEFAULT_MODEL
    with pytest.raises(UsageError) as error:
        resolve_name("e5-large-v2", found)
    assert error.value.code == "encoder-unknown"
    model = resolve_model(str(cached))
    assert model.name == "e5-small-v2"
    assert (
        model.fingerprint
        == resolve_model(str(shutil.copytree(cached, tmp_path / "copy"))).fingerprint
    )


def test_a_file_that_is_named_by_its_content_goes_by_the_name_in_its_header(tmp_path: Path) -> None:
    source = encoder_source(EncoderSettings(model=str(pooled(tmp_path / f"sha256-{SHA256}"))))
    assert (source.name, source.prompts) == ("tiny", Prompts("", ""))


def test_the_command_lists_what_a_projects_settings_name(
    home: Path, tiny_model: Path, tmp_path: Path
) -> None:
    shutil.copytree(tiny_model, tmp_path / "models" / "own")
    project = ProjectFolder.create(
        tmp_path / "project", {"encoder": {"folders": [str(tmp_path / "models")]}}
    )
    found = json.loads(engine_here("encoders", "list", str(project.path), "--json").stdout)
    assert [one["model"] for one in found] == [str(tmp_path / "models" / "own"), DEFAULT_MODEL]
    assert len(json.loads(engine_here("encoders", "--json").stdout)) == 1
    assert engine_here("encoders", "compare", str(project.path), check=False).returncode == 2


@pytest.mark.parametrize(
    ("card", "name", "known"),
    [
        ("---\nlanguage: en\n---\n", "x", {"en"}),
        ("---\nlanguage: [de, 'fr']\nlicense: mit\n---\n", "x", {"de", "fr"}),
        (
            "---\nlanguage:\n  - multilingual\n  - af\n  - zh\nlicense: mit\n---\n",
            "x",
            {"af", "zh"},
        ),
        ("---\nlanguage: multilingual\n---\n", "multilingual-e5-small", set()),
        ("---\nlicense: mit\n---\nlanguage: en\n", "x", set()),
        (None, "e5-small-v2", {"en"}),
        (None, "bge-small-en-v1.5", {"en"}),
        (None, "multilingual-e5-small", set()),
        (None, "paraphrase-multilingual-MiniLM-L12-v2", set()),
        (None, "bge-m3", set()),
        (None, "my-encoder", set()),
    ],
)
def test_languages_are_those_of_the_card_else_of_a_name_that_is_known(
    tmp_path: Path, card: str | None, name: str, known: set[str]
) -> None:
    if card is not None:
        (tmp_path / "README.md").write_text(card)
    assert card_languages(tmp_path, name) == known


def test_languages_are_named_and_those_of_a_few_words_left_out() -> None:
    store: Any = SimpleNamespace(
        languages_but=lambda _: [(1, "de", 500), (2, "en", 496), (3, "la", 4)]
    )
    source: Any = SimpleNamespace(folder=None, name="all-MiniLM-L6-v2")
    found = language_finding(store, source)
    assert found is not None
    assert "German 50%" in found.found
    assert "English" not in found.found
    assert "la " not in found.found


def test_the_shares_of_languages_add_up_to_the_whole() -> None:
    few = [
        (n, code, 6) for n, code in enumerate(("fr", "it", "nl", "da"), 3)
    ]  # 0.6 % each, not worth a name
    store: Any = SimpleNamespace(languages_but=lambda _: [(1, "es", 400), (2, "en", 576), *few])
    found = language_finding(store, SimpleNamespace(folder=None, name="all-MiniLM-L6-v2"))  # type: ignore[arg-type]
    assert found is not None
    assert (numbers(found.found)[0], sum(numbers(found.found)[-2:])) == (42, 42)


@pytest.mark.parametrize(("english", "said"), [(10, False), (9, True)])
def test_one_long_document_in_another_language_is_no_news_among_many(
    english: int, said: bool
) -> None:
    rows = [(0, "de", 900), *((row, "en", 10) for row in range(1, english + 1))]
    store: Any = SimpleNamespace(languages_but=lambda _: rows)
    source: Any = SimpleNamespace(folder=None, name="all-MiniLM-L6-v2")
    assert (language_finding(store, source) is not None) is said


def test_languages_that_an_encoder_does_not_know_are_told_from_a_fifth_of_the_text_on() -> None:
    known = frozenset({"en"})
    assert foreign_shares(known, {"en": 60, "de": 30, "fr": 10}) == {"de": 0.3, "fr": 0.1}
    assert foreign_shares(known, {"en": 81, "de": 19}) == {}
    assert foreign_shares(frozenset(), {"de": 100}) == {}
    assert foreign_shares(known, {}) == {}


def test_documents_in_a_language_unknown_to_the_encoder_are_reported_by_run_and_doctor(
    tiny_model: Path, tmp_path: Path
) -> None:
    model = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    (model / "README.md").write_text("---\nlanguage: en\n---\n")
    text = (
        "Die Versicherung haftet nicht für Schäden, die vor dem Abschluss des Vertrages entstanden"
        " sind. "
    )
    (tmp_path / "police.txt").write_text(text * 5)
    settings = {
        "corpus": {"paths": [str(tmp_path / "police.txt")]},
        "encoder": {"model": str(model)},
    }
    project = ProjectFolder.create(tmp_path / "project", settings)

    def codes(*command: str) -> list[str]:
        printed = engine_here(*command, str(project.path), "--json", check=False).stdout
        if command[0] == "doctor":
            rows = json.loads(printed)
        else:
            rows = [json.loads(line) for line in printed.splitlines()]
        return [row["code"] for row in rows if row.get("code")]

    assert "languages-unknown" not in codes("doctor"), "nothing is read yet"
    run = ("run", "--only", "ingest,index")
    assert codes(*run) == codes(*run) == ["languages-unknown"]
    assert "languages-unknown" in codes("doctor")
    printed = engine_here("doctor", str(project.path), "--json", check=False).stdout
    assert [row["state"] for row in json.loads(printed) if row["code"] == "languages-unknown"] == [
        "note"
    ]
    (model / "README.md").write_text("---\nlanguage: [en, de]\n---\n")
    assert "languages-unknown" not in codes("doctor")
    assert codes(*run) == []


def test_the_index_and_the_warning_count_a_language_in_one_way(
    tiny_model: Path, tmp_path: Path
) -> None:
    model = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    (model / "README.md").write_text("---\nlanguage: en\n---\n")
    german = "Die Versicherung haftet nicht für den Schaden. "
    english = "The insurer is not liable for the damage at all."
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "de.txt").write_text(german * 32)  # 1,504 characters
    for row in range(3):
        (tmp_path / "documents" / f"{row}.txt").write_text(
            f"{row} {english} " * 16
        )  # 816 characters each
    settings = {
        "corpus": {"paths": [str(tmp_path / "documents")]},
        "encoder": {"model": str(model)},
    }
    project = ProjectFolder.create(tmp_path / "project", settings)
    found: list[Event] = []
    with stages_in_this_process():
        pipeline.run(
            project,
            stages=("ingest", "index"),
            on_event=found.append,
        )
    chosen = next(one for one in found if isinstance(one, Choice) and one.setting == "language")
    warned = next(
        one for one in found if isinstance(one, Warned) and one.code == "languages-unknown"
    )
    assert (chosen.value, numbers(chosen.reason), numbers(warned.text)[0]) == ("en", [62], 38)
