"""Which encoder is proposed: by languages, length of chunks, machine and what is here."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from fixtures.german_office import DOCUMENTS, write_german_office
from fixtures.hub import StandInHub, stand_in_hub
from fixtures.pipeline import engine_here
from fixtures.tiny_model import build_tiny_model
from fixtures.user_folders import DATA

from engine.corpus.ingest.sampling import sample_texts
from engine.encoders.choosing.languages import card_languages
from engine.encoders.choosing.proposal import Machine, propose_encoder
from engine.project.folder import ProjectFolder
from engine.service.proposing import count_languages, propose_for_files, propose_for_project
from engine.settings.schema import DEFAULT_MODEL, EncoderSettings

NAME = "multilingual-e5-small"
REPOSITORY = f"intfloat/{NAME}"
GB = 1_000_000_000
LAPTOP = Machine(
    8 * GB,
    100 * GB,
    has_gpu=False,
)
WORKSTATION = Machine(
    64 * GB,
    100 * GB,
    has_gpu=True,
)
AMPLE = 600.0  # seconds: the machine may be busy with much else


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(DATA, str(tmp_path / "data"))
    monkeypatch.setattr("engine.models.policy.policy_files", lambda: ())
    return tmp_path / "data"


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_german_office(tmp_path_factory.mktemp("office") / "dokumente")


@pytest.mark.parametrize(
    ("shares", "machine", "chunk_tokens", "here", "proposed"),
    [
        ({"de": 1.0}, LAPTOP, 256, (), NAME),
        ({"de": 0.5, "en": 0.5}, LAPTOP, 256, (), NAME),
        ({"en": 1.0}, LAPTOP, 256, (), "bge-small-en-v1.5"),
        ({"en": 0.96, "de": 0.04}, LAPTOP, 256, (), "bge-small-en-v1.5"),
        ({"en": 1.0}, LAPTOP, 2000, (), "granite-embedding-small-english-r2"),
        ({"de": 1.0}, LAPTOP, 2000, (), "snowflake-arctic-embed-l-v2.0"),
        ({"de": 1.0}, LAPTOP, 256, ("embeddinggemma-300m",), "embeddinggemma-300m"),
        ({"de": 1.0}, LAPTOP, 256, ("bge-small-en-v1.5",), NAME),
        ({"de": 1.0}, WORKSTATION, 256, (), "qwen3-embedding-0.6b"),
        ({"de": 1.0}, WORKSTATION, 256, (NAME,), NAME),
        ({"de": 1.0}, Machine(GB, 100 * GB, has_gpu=True), 256, (), NAME),
        ({"de": 1.0}, Machine(8 * GB, GB // 10, has_gpu=False), 256, (), None),
        ({"de": 1.0}, Machine(8 * GB, GB // 10, has_gpu=False), 256, (NAME,), NAME),
        ({}, LAPTOP, 256, (), "bge-small-en-v1.5"),
    ],
)
def test_the_encoder_that_suits(
    shares: dict[str, float],
    machine: Machine,
    chunk_tokens: int,
    here: tuple[str, ...],
    proposed: str | None,
) -> None:
    model = propose_encoder(
        shares,
        machine,
        chunk_tokens,
        here,
    )
    assert (model.name if model else None) == proposed


def test_twenty_german_documents_are_recognised(office: Path) -> None:
    texts = sample_texts([office], seconds=AMPLE)
    assert len(texts) == len(DOCUMENTS) == 20
    lengths = count_languages(texts)
    assert lengths["de"] / sum(lengths.values()) >= 0.95
    assert len(sample_texts([office], count=5, seconds=AMPLE)) == 5
    assert sample_texts([office / "Garantie.txt"]) == [DOCUMENTS["Garantie.txt"]]


def test_a_sample_leaves_out_what_is_no_document(tmp_path: Path) -> None:
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "a.txt").write_text("hidden text")
    (tmp_path / "empty.txt").touch()
    (tmp_path / "binary.bin").write_bytes(b"\0" * 100)
    (tmp_path / "broken.docx").write_bytes(b"PK\x03\x04 no archive")
    (tmp_path / "large.txt").write_bytes(b"a" * 5_000_001)
    assert sample_texts([tmp_path, tmp_path / "missing"]) == []


def test_the_bundled_encoder_does_not_suit_them(office: Path) -> None:
    proposal = propose_for_files(
        [office],
        EncoderSettings(),
        256,
    )
    assert (proposal.sampled, proposal.model, proposal.here) == (True, NAME, False)
    assert proposal.languages[0][0] == "de"
    assert proposal.unknown >= 0.95
    assert proposal.size == 488_000_000


def test_languages_of_models_of_the_catalogue() -> None:
    assert card_languages(None, NAME) == frozenset()
    assert card_languages(None, "snowflake-arctic-embed-l-v2.0") == frozenset()
    assert card_languages(None, "granite-embedding-english-r2") == {"en"}


def propose(project: str) -> dict[str, object]:
    return json.loads(engine_here("encoders", "propose", project, "--json").stdout)


def test_a_new_project_names_what_to_get_and_takes_what_is_here(
    office: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = engine_here(
        "new",
        str(tmp_path / "one"),
        str(office),
    )
    assert f"engine models get {NAME}" in named.stderr
    assert model_of(tmp_path / "one") == DEFAULT_MODEL
    before = propose(str(tmp_path / "one"))
    assert (before["sampled"], before["model"], before["here"]) == (True, NAME, False)
    with stand_in_hub() as hub:
        fetch(hub, tmp_path, monkeypatch)
    assert propose(str(tmp_path / "one"))["here"]
    completed = engine_here(
        "new",
        str(tmp_path / "two"),
        str(office),
    )
    assert model_of(tmp_path / "two") == NAME
    assert "engine models get" not in completed.stderr
    events = engine_here("run", str(tmp_path / "one"), "--only", "ingest,index", "--json").stdout
    (warned,) = (
        event
        for event in map(json.loads, events.splitlines())
        if event.get("code") == "languages-unknown"
    )
    assert NAME in warned["text"]
    after = propose(str(tmp_path / "one"))
    assert (after["sampled"], after["model"]) == (False, NAME)
    ready = propose(str(tmp_path / "two"))
    assert (ready["unknown"], ready["model"], ready["encoder"]) == (0.0, "", NAME)


def model_of(project: Path) -> str:
    return ProjectFolder.open(project).settings().encoder.model


def fetch(
    hub: StandInHub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hub.add_folder(REPOSITORY, build_tiny_model(tmp_path / "tiny"))
    monkeypatch.setenv("HF_ENDPOINT", hub.address)
    engine_here("models", "get", NAME)


def write_english(folder: Path) -> Path:
    folder.mkdir()
    (folder / "policy.txt").write_text(
        "Employees take thirty days of leave a year and ask for it four weeks in advance. " * 3
    )
    return folder


def test_for_english_documents_a_better_encoder_than_the_bundled_one_is_named(
    tmp_path: Path,
) -> None:
    documents = write_english(tmp_path / "documents")
    proposal = propose_for_files(
        [documents],
        EncoderSettings(),
        256,
    )
    assert (proposal.unknown, proposal.model, proposal.here) == (0.0, "bge-small-en-v1.5", False)
    chosen = propose_for_files(
        [documents],
        EncoderSettings(endpoint="http://127.0.0.1:9/v1"),
        256,
    )
    assert chosen.model == ""
    completed = engine_here(
        "new",
        str(tmp_path / "project"),
        str(documents),
    )
    assert "engine models get bge-small-en-v1.5" in completed.stderr
    assert model_of(tmp_path / "project") == DEFAULT_MODEL
    assert propose(str(tmp_path / "project"))["model"] == "bge-small-en-v1.5"


def test_an_english_encoder_that_is_here_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = write_english(tmp_path / "documents")
    with stand_in_hub() as hub:
        hub.add_folder("BAAI/bge-small-en-v1.5", build_tiny_model(tmp_path / "tiny"))
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        engine_here("models", "get", "bge-small-en-v1.5")
    engine_here(
        "new",
        str(tmp_path / "project"),
        str(documents),
    )
    assert model_of(tmp_path / "project") == "bge-small-en-v1.5"
    ready = propose(str(tmp_path / "project"))
    assert (ready["encoder"], ready["model"]) == ("bge-small-en-v1.5", "")


def test_without_a_text_nothing_is_proposed(tmp_path: Path) -> None:
    assert propose_for_files([tmp_path], EncoderSettings(), 256).model == ""
    assert engine_here("encoders", "propose", check=False).returncode == 2


def test_documents_of_a_relative_path_lie_in_the_project(
    office: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    project = ProjectFolder.create(tmp_path / "project", {"corpus": {"paths": ["documents"]}})
    shutil.copytree(office, project.path / "documents")
    proposal = propose_for_project(project)
    assert proposal.languages[0][0] == "de"
