"""`engine models`: what it prints, its JSON, and how few commands lead from a model to hits."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from fixtures.german_office import write_german_office
from fixtures.hub import COMMIT, StandInHub
from fixtures.pipeline import engine_here
from fixtures.tiny_cross_encoder import build_cross_encoder
from models.conftest import NAME

from engine.project.folder import ProjectFolder

KEYS = {
    "path",
    "place",
    "names",
    "size",
    "architecture",
    "quantisation",
    "parameters",
    "context",
    "chat_template",
    "problem",
    "memory",
    "fits",
}

# Runs commands in one process, which loads the libraries once, and prints the exit code of each.
ONE_AFTER_ANOTHER = """
import json, sys
from engine.cli import main
for words in json.loads(sys.argv[1]):
    sys.argv[1:] = words
    try:
        main()
    except SystemExit as ended:
        print(json.dumps([ended.code or 0, *words]))
"""


def rows() -> dict[str, dict[str, object]]:
    listed = json.loads(engine_here("models", "--json").stdout)
    return {row["names"][0]: row for row in listed}


def test_the_list_has_all_kinds_and_keeps_its_keys() -> None:
    found = rows()
    assert all(row.keys() >= KEYS for row in found.values())
    assert {row["kind"] for row in found.values()} == {"encoder", "reranker", "language model"}
    assert (found[NAME]["here"], found[NAME]["path"]) == (False, None)
    assert found["all-MiniLM-L6-v2"]["here"] is True
    assert found["all-MiniLM-L6-v2"]["fits"] is True


def test_get_verify_and_remove(hub: StandInHub, data_folder: Path) -> None:
    done = engine_here(
        "models",
        "get",
        NAME,
        "--json",
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[-1]["path"] == str(data_folder / NAME)
    assert lines[-1]["revision"] == COMMIT
    assert all(line["done"] <= line["total"] for line in lines[:-1])
    assert lines[-2]["done"] == lines[-2]["total"] == lines[-1]["size"]
    assert rows()[NAME]["here"]
    assert engine_here("models", "verify", NAME).stdout == f"{data_folder / NAME}\n"
    assert engine_here("models", "remove", NAME).stdout == f"{data_folder / NAME}\n"
    assert not rows()[NAME]["here"]
    failed = engine_here(
        "models",
        "verify",
        NAME,
        "--json",
        check=False,
    )
    assert failed.returncode == 2
    assert json.loads(failed.stderr.splitlines()[-1])["code"] == "model-missing"


def test_the_next_commands_for_a_model_are_shown(hub: StandInHub, tmp_path: Path) -> None:
    packed = engine_here(
        "models",
        "get",
        NAME,
        "--to",
        str(tmp_path),
    )
    assert packed.stdout == f"{tmp_path / NAME}.modelpack\n"
    assert f"engine models add {NAME}.modelpack" in packed.stderr
    added = engine_here(
        "models",
        "add",
        packed.stdout.strip(),
    )
    assert f"engine new PROJECT FOLDER --model {NAME}" in added.stderr
    assert f"engine config set PROJECT encoder.model {NAME}" in added.stderr


def test_it_says_how_to_turn_a_reranker_on(tmp_path: Path) -> None:
    folder = build_cross_encoder(tmp_path / "tiny-reranker")
    added = engine_here(
        "models",
        "add",
        str(folder),
        "--name",
        "tiny",
    )
    commands = [line.split("PROJECT ")[1] for line in added.stderr.splitlines()[1:]]
    assert commands == ["search.reranker tiny", "search.rerank on"]


@pytest.mark.parametrize(
    "words",
    [("get",), ("list", "x"), ("add", "x", "--to", "."), ("remove",), ("verify",), ("fetch", "x")],
)
def test_wrong_use(words: tuple[str, ...]) -> None:
    assert engine_here("models", *words, check=False).returncode == 2


def test_forbidden_fetching_says_how_to_bring_models(
    hub: StandInHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BMEMBED_OFFLINE", "1")
    failed = engine_here(
        "models",
        "get",
        NAME,
        "--json",
        check=False,
    )
    error = json.loads(failed.stderr.splitlines()[-1])
    assert (failed.returncode, error["code"]) == (2, "fetch-forbidden")
    assert f"engine models get {NAME} --to" in error["to_do"]


def test_four_commands_from_a_model_to_hits_by_meaning(hub: StandInHub, tmp_path: Path) -> None:
    documents = write_german_office(tmp_path / "dokumente")
    project = str(tmp_path / "projekt")
    commands = [
        ("models", "get", NAME),
        ("new", project, str(documents), "--model", NAME),
        ("run", project),
        ("search", project, "Jahresurlaub beantragen", "--json"),
    ]
    assert len(commands) <= 4
    *_, searched = [engine_here(*command) for command in commands]
    hits = json.loads(searched.stdout)
    assert hits["mode"] == "hybrid"
    assert hits["hits"][0]["path"].endswith("Urlaubsordnung.docx")
    assert {"bm25", "semantic"} <= {ranker for hit in hits["hits"] for ranker in hit["rankers"]}


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's refusal of sockets is Linux's")
def test_listing_verifying_and_adding_ask_for_no_socket(hub: StandInHub, tmp_path: Path) -> None:
    from engine.doctor.watched import run_watched

    engine_here("models", "get", NAME)
    engine_here(
        "models",
        "get",
        NAME,
        "--to",
        str(tmp_path),
    )
    engine_here("models", "remove", NAME)
    pack = str(tmp_path / f"{NAME}.modelpack")
    documents = write_german_office(tmp_path / "dokumente")
    project = ProjectFolder.create(tmp_path / "projekt", {"corpus": {"paths": [str(documents)]}})
    commands = [
        ["models", "list"],
        ["models", "add", pack],
        ["models", "verify", NAME],
        ["models", "remove", NAME],
        ["encoders", "list"],
        ["encoders", "propose", str(project.path)],
    ]
    command = [
        sys.executable,
        "-P",
        "-c",
        ONE_AFTER_ANOTHER,
        json.dumps(commands),
    ]
    found = run_watched(command, dict(os.environ))
    assert (found.exit_code, found.sockets) == (0, []), found.output
    assert [json.loads(line) for line in found.output.splitlines() if line[:1] == "["] == [
        [0, *words] for words in commands
    ]
    fetching = [
        sys.executable,
        "-P",
        "-m",
        "engine",
        "models",
        "get",
        NAME,
    ]
    assert run_watched(fetching, dict(os.environ)).sockets, "a fetch that is asked for opens some"
