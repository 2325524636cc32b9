"""`engine models get` against a stand-in hub: right files are taken, everything else is refused
or resumed, nothing is half there.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fixtures.hub import COMMIT, StandInHub
from models.conftest import NAME, REPOSITORY

from engine.core.errors import CancelledError, EngineError, ModelError, UsageError
from engine.encoders.choosing.languages import languages_of
from engine.encoders.kinds.chosen import encoder_source
from engine.encoders.model_folder import resolve_model
from engine.models import hub as hub_module
from engine.models.installed import MANIFEST, PARTIAL, list_installed, read_installed
from engine.service.model_list import list_all_models
from engine.service.models import get_model, remove_model, verify_model
from engine.settings.schema import EncoderSettings

TAKEN = {
    "1_Pooling/config.json",
    "README.md",
    "config.json",
    "config_sentence_transformers.json",
    "model.safetensors",
    "modules.json",
    "sentence_bert_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
}
WEIGHTS = f"/{REPOSITORY}/resolve/{COMMIT}/model.safetensors"


def test_right_files_are_fetched_checked_and_named_by_their_commit(
    hub: StandInHub, data_folder: Path, tiny_encoder: Path
) -> None:
    heard: list[tuple[int, int]] = []
    changed = get_model(NAME, progress=lambda done, total: heard.append((done, total)))
    folder = data_folder / NAME
    written = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    manifest = json.loads(written.pop(MANIFEST))
    assert written == {name: hub.files[REPOSITORY][name] for name in TAKEN}
    assert (manifest["revision"], manifest["repository"]) == (COMMIT, REPOSITORY)
    assert {part["path"] for part in manifest["files"]} == TAKEN
    assert (changed.path, changed.revision, changed.files) == (folder, COMMIT, len(TAKEN))
    total = sum(map(len, written.values()))
    assert (heard[-1], changed.size) == ((total, total), total)
    assert resolve_model(NAME).fingerprint == resolve_model(str(tiny_encoder)).fingerprint
    assert sorted(path.name for path in data_folder.iterdir()) == [NAME]
    assert verify_model(NAME).files == len(TAKEN)


def test_a_fetched_encoder_is_listed_and_has_the_prompts_of_the_catalogue(hub: StandInHub) -> None:
    get_model(NAME)
    listed = {model.names[0]: model for model in list_all_models(4096, free=10**12)}
    assert (listed[NAME].here, listed[NAME].licence, listed[NAME].revision) == (True, "MIT", COMMIT)
    source = encoder_source(EncoderSettings(model=NAME))
    assert (source.prompts.query, source.prompts.document) == ("query: ", "passage: ")
    assert languages_of(source) == {"de", "en"}
    own = encoder_source(EncoderSettings(model=NAME, query_prompt="ask: "))
    assert (own.prompts.query, own.prompts.document) == ("ask: ", "")


def test_the_repository_is_a_name_too_and_a_second_get_changes_nothing(hub: StandInHub) -> None:
    assert get_model(REPOSITORY).name == NAME
    asked = len(hub.requests)
    with pytest.raises(UsageError) as error:
        get_model(NAME)
    assert error.value.code == "target-exists"
    assert len(hub.requests) == asked
    assert resolve_model(REPOSITORY).name == NAME


def test_a_model_that_is_not_here_is_named_with_the_command_that_fetches_it() -> None:
    with pytest.raises(ModelError) as error:
        resolve_model(REPOSITORY)
    assert (error.value.code, error.value.command) == ("model-missing", "models")
    assert f"engine models get {NAME}" in error.value.to_do


def test_a_connection_that_broke_off_is_resumed(hub: StandInHub) -> None:
    hub.cut["model.safetensors"] = 1000
    get_model(NAME)
    ranges = [asked for path, asked, _ in hub.requests if path == WEIGHTS]
    assert ranges == ["", "bytes=1000-"]
    assert verify_model(NAME).revision == COMMIT


def test_the_next_call_resumes_an_interrupted_fetch(
    hub: StandInHub, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.stalled.add("model.safetensors")
    monkeypatch.setattr(hub_module, "TIMEOUT", 0.3)
    monkeypatch.setattr(hub_module, "RETRIES", 1)
    with pytest.raises(EngineError) as error:
        get_model(NAME)
    assert error.value.code == "hub-unreachable"
    assert [path.name for path in data_folder.iterdir()] == [PARTIAL]
    assert list_installed() == []
    (incomplete,) = data_folder.rglob("*.incomplete")
    came = incomplete.stat().st_size
    hub.stalled.clear()
    hub.requests.clear()
    get_model(NAME)
    assert (WEIGHTS, f"bytes={came}-", "") in hub.requests
    assert f"/{REPOSITORY}/resolve/{COMMIT}/config.json" not in hub.paths()
    assert [path.name for path in data_folder.iterdir()] == [NAME]


def test_what_came_of_another_commit_is_not_used(
    hub: StandInHub, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "RETRIES", 1)
    former = data_folder / PARTIAL / f"{NAME}@{'f' * 40}"
    former.mkdir(parents=True)
    (former / "config.json").write_text("{}")
    get_model(NAME)
    assert not former.exists()
    assert verify_model(NAME).files == len(TAKEN)


def test_a_resumed_file_whose_beginning_is_of_another_is_refused(
    hub: StandInHub, data_folder: Path
) -> None:
    partial = data_folder / PARTIAL / f"{NAME}@{COMMIT}"
    partial.mkdir(parents=True)
    (partial / "model.safetensors.incomplete").write_bytes(b"x" * 100)
    with pytest.raises(ModelError) as error:
        get_model(NAME)
    assert error.value.code == "model-altered"
    assert list(data_folder.iterdir()) == []


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
@pytest.mark.parametrize("fault", ["flipped", "short", "long"])
def test_altered_and_truncated_files_are_refused(
    hub: StandInHub, data_folder: Path, name: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "RETRIES", 1)
    content = hub.files[REPOSITORY][name]
    faults = {
        "flipped": content[:-1] + bytes([content[-1] ^ 1]),
        "short": content[:-10],
        "long": content + b"x",
    }
    hub.sent[name] = faults[fault]
    with pytest.raises(EngineError) as error:
        get_model(NAME)
    assert error.value.code == ("hub-unreachable" if fault == "short" else "model-altered")
    assert "\n" not in error.value.what
    assert list_installed() == []
    assert not (data_folder / NAME).exists()


def test_a_hub_that_is_not_there(monkeypatch: pytest.MonkeyPatch, data_folder: Path) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(EngineError) as error:
        get_model(NAME)
    assert error.value.code == "hub-unreachable"
    assert not data_folder.exists()


def test_a_proxy_is_used(hub: StandInHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", hub.address)
    monkeypatch.setenv("NO_PROXY", "")
    get_model(NAME)
    assert WEIGHTS in hub.paths()


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "http://127.0.0.1:port"])
def test_a_proxy_that_cannot_be_used_is_said(
    hub: StandInHub, monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(EngineError) as error:
        get_model(NAME)
    assert error.value.code == "hub-unreachable"
    assert "HTTPS_PROXY" in error.value.to_do
    assert hub.requests == []


@pytest.mark.parametrize(
    ("target", "code"),
    [("http://example.org/x", "hub-insecure"), ("ftp://example.org/x", "hub-insecure")],
)
@pytest.mark.parametrize("asked", [f"/api/models/{REPOSITORY}", WEIGHTS])
def test_redirects_away_from_https_are_not_followed(
    hub: StandInHub, data_folder: Path, target: str, code: str, asked: str
) -> None:
    hub.redirects[asked] = target
    with pytest.raises(EngineError) as error:
        get_model(NAME)
    assert error.value.code == code
    assert list_installed() == []


def test_the_token_does_not_follow_a_redirect(
    hub: StandInHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    local = hub.address.replace("127.0.0.1", "localhost")
    hub.redirects[WEIGHTS] = f"{local}/cdn{WEIGHTS}"
    get_model(NAME)
    tokens = {path: token for path, _, token in hub.requests}
    assert tokens[f"/api/models/{REPOSITORY}"] == "Bearer hf_secret"
    assert tokens[WEIGHTS] == "Bearer hf_secret"
    assert tokens[f"/cdn{WEIGHTS}"] == ""


@pytest.mark.parametrize(
    "address", ["http://hub.example.org", "ftp://127.0.0.1", "hub", "https://[hub"]
)
def test_hubs_without_encryption_are_not_asked(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", address)
    with pytest.raises(UsageError) as error:
        get_model(NAME)
    assert error.value.code == "hub-insecure"


def test_weights_that_are_only_pickled_are_refused(hub: StandInHub, data_folder: Path) -> None:
    del hub.files[REPOSITORY]["model.safetensors"]
    with pytest.raises(ModelError) as error:
        get_model(NAME)
    assert error.value.code == "model-pickled"
    assert hub.paths() == [f"/api/models/{REPOSITORY}"]
    assert not data_folder.exists()


@pytest.mark.parametrize(
    "name",
    ["../climbs.json", "a/../../climbs.json", "/etc/x.json", "..\\x.json", "C:/x.json", "./x.json"],
)
def test_names_that_leave_the_folder_are_refused(
    hub: StandInHub, data_folder: Path, name: str
) -> None:
    hub.listed.append(name)
    with pytest.raises(ModelError) as error:
        get_model(NAME)
    assert error.value.code == "model-files-unsafe"
    assert not data_folder.exists()


def test_models_that_need_code_are_refused_and_gone(hub: StandInHub, data_folder: Path) -> None:
    config = json.loads(hub.files[REPOSITORY]["config.json"])
    code = {"AutoModel": "modeling.Model"}
    hub.files[REPOSITORY]["config.json"] = json.dumps(config | {"auto_map": code}).encode()
    with pytest.raises(ModelError) as error:
        get_model(NAME)
    assert error.value.code == "model-needs-code"
    assert list(data_folder.iterdir()) == []


@pytest.mark.parametrize(("status", "path"), [(500, f"/api/models/{REPOSITORY}"), (403, WEIGHTS)])
def test_a_hub_that_refuses(
    hub: StandInHub,
    status: int,
    path: str,
) -> None:
    hub.statuses[path] = status
    with pytest.raises(EngineError) as error:
        get_model(NAME)
    assert error.value.code == "hub-refused"
    assert list_installed() == []


def test_a_repository_that_is_not_there(hub: StandInHub) -> None:
    with pytest.raises(EngineError) as error:
        get_model("bge-small-en-v1.5")
    assert error.value.code == "hub-refused"


def test_a_list_without_a_commit_is_no_answer_of_a_hub(hub: StandInHub) -> None:
    hub.commit = "main"
    with pytest.raises(EngineError) as error:
        get_model(NAME)
    assert error.value.code == "hub-refused"


def test_cancelling_keeps_nothing_that_is_seen(hub: StandInHub, data_folder: Path) -> None:
    with pytest.raises(CancelledError):
        get_model(NAME, should_stop=lambda: WEIGHTS in hub.paths())
    assert list_installed() == []
    assert [path.name for path in data_folder.iterdir()] == [PARTIAL]


def test_names_that_the_catalogue_has_not() -> None:
    with pytest.raises(UsageError) as error:
        get_model("multilingual-e5-smal")
    assert error.value.code == "model-unknown"
    assert NAME in error.value.why


@pytest.mark.parametrize(
    "policy", ["[models]\nfetch = false\n", "not toml", "[models]\nfetch = 0\n"]
)
def test_an_administrator_forbids_it(
    hub: StandInHub,
    tmp_path: Path,
    policy: str,
) -> None:
    (tmp_path / "policy.toml").write_text(policy)
    with pytest.raises(UsageError) as error:
        get_model(NAME)
    assert error.value.code == "fetch-forbidden"
    assert "engine models add" in error.value.to_do
    assert hub.requests == []


@pytest.mark.parametrize("policy", ["", "[models]\nfetch = true\n", "[other]\nkey = 1\n"])
def test_a_policy_that_allows_it(
    hub: StandInHub,
    tmp_path: Path,
    policy: str,
) -> None:
    (tmp_path / "policy.toml").write_text(policy)
    assert get_model(NAME).revision == COMMIT


@pytest.mark.parametrize(("value", "forbidden"), [("1", True), ("0", False), ("", False)])
def test_the_environment_forbids_it(
    hub: StandInHub, monkeypatch: pytest.MonkeyPatch, value: str, forbidden: bool
) -> None:
    monkeypatch.setenv("BMEMBED_OFFLINE", value)
    if not forbidden:
        assert get_model(NAME).revision == COMMIT
        return
    with pytest.raises(UsageError) as error:
        get_model(NAME)
    assert error.value.code == "fetch-forbidden"
    assert hub.requests == []


def test_removed_models_are_gone_and_used_ones_stay(
    hub: StandInHub, data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.project.folder import ProjectFolder, projects_root

    get_model(NAME)
    monkeypatch.setattr("engine.project.folder.projects_root", lambda: tmp_path / "projects")
    assert projects_root is not None
    project = tmp_path / "projects" / "handbuch"
    ProjectFolder.create(project, {"encoder": {"model": NAME}})
    (entry,) = (model for model in list_all_models(4096, free=10**12) if model.name == NAME)
    assert entry.used_by == ("handbuch",)
    with pytest.raises(UsageError) as error:
        remove_model(NAME)
    assert error.value.code == "model-in-use"
    (project / "project.toml").unlink()
    remove_model(NAME)
    assert list(data_folder.iterdir()) == []
    with pytest.raises(UsageError) as error:
        remove_model(NAME)
    assert error.value.code == "model-missing"


LINK = pytest.param("link", marks=pytest.mark.posix(reason="links need a right on Windows"))


@pytest.mark.parametrize("fault", ["altered", "missing", LINK])
def test_verify_finds_what_changed(
    hub: StandInHub,
    data_folder: Path,
    fault: str,
) -> None:
    get_model(NAME)
    weights = data_folder / NAME / "model.safetensors"
    content = weights.read_bytes()
    weights.unlink()
    if fault == "altered":
        weights.write_bytes(content[:-1] + b"\0\0"[:1] if content[-1] else content[:-1] + b"\1")
    elif fault == "link":
        other = data_folder / "other"
        other.write_bytes(content)
        weights.symlink_to(other)
    with pytest.raises(ModelError) as error:
        verify_model(NAME)
    assert error.value.code == "model-altered"
    assert read_installed(NAME) is not None
