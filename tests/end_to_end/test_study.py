"""`engine study` as a user runs it: cells that are finished count, and a cell is what the same
settings come to by hand.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from fixtures.errors import error_of
from fixtures.fake_endpoint import Raw, serving
from fixtures.pipeline import SAMPLE, engine_here
from fixtures.shown_numbers import numbers
from fixtures.tiny_model import build_tiny_model
from lxml import html

from engine.core.errors import DatasetError
from engine.project.folder import ProjectFolder

SMALL = (
    "--set",
    "training.steps=4",
    "--set",
    "training.eval_every=2",
    "--set",
    "training.learning_rate=0.01",
)


def study(*arguments: str) -> tuple[dict[str, Any], str]:
    completed = engine_here(
        "study",
        *arguments,
        *SMALL,
        "--json",
    )
    return json.loads(completed.stdout), completed.stderr


def test_a_study_trains_what_is_missing_and_leaves_the_project_as_it_is(
    project: Path, tmp_path: Path
) -> None:
    before = (project / "project.toml").read_bytes()
    by_hand = ProjectFolder(Path(shutil.copytree(project, tmp_path / "by-hand")))
    first, _ = study("bmembed-t6", str(project))
    (cell,) = project.glob("sweep/*/cells/*.json")
    finished = cell.read_bytes(), cell.stat().st_mtime_ns
    figures = json.loads(finished[0])["rows"]
    for system in ("base", "adapted"):
        assert figures[f"{system}, whitened"]["isotropy I_A"] > figures[system]["isotropy I_A"]
        assert set(figures[f"{system}, PCA"]["accuracy@5"]) == {"value", "low", "high"}
    page, messages = study("bmembed-t7", str(project))
    assert numbers(messages.splitlines()[0])[:3] == [
        2,
        1,
        1,
    ], "cells, those to train, those finished before"
    assert (cell.read_bytes(), cell.stat().st_mtime_ns) == finished
    assert [row["label"] for row in page["rows"]] == ["ListNet · BMEmbed", "ListMLE · BMEmbed"]
    assert first["rows"][1]["values"]["hit@4"] == page["rows"][0]["values"]["hit@4"]
    assert (project / "project.toml").read_bytes() == before
    assert html.parse(project / "studies" / "bmembed-t7.html").xpath("//td[@class='n']")
    assert json.loads((project / "studies" / "bmembed-t7.json").read_text())["finished"] == 2
    by_hand.change_settings({**page["cells"][0]["changes"], "evaluation.interpolation_weights": []})
    engine_here(
        "run",
        str(by_hand.path),
        "--only",
        "rank,train,evaluate",
    )
    adapted = json.loads(engine_here("report", str(by_hand.path), "--json").stdout)["tables"][
        "judged"
    ]["systems"]["adapted"]
    for name in ("hit@1", "hit@4", "hit@10"):
        assert page["rows"][0]["values"][name] == adapted[name]


def test_mafin_is_measured_next_to_the_project_s_encoder(project: Path, tmp_path: Path) -> None:
    small = build_tiny_model(tmp_path / "small", seed=3)
    beside = (
        "--set",
        f"encoder.small_model={small}",
        "--set",
        "training.epochs=1",
    )
    code = engine_here("study", "mafin-t1", str(project), check=False).returncode
    assert code == DatasetError.exit_code, "there is no small model"
    page, _ = study(
        "mafin-t1",
        str(project),
        *beside,
    )
    rows = {row["system"]: row["values"] for row in page["rows"]}
    assert list(rows) == [
        "Black-box model",
        "Augmenting model",
        "Only finetune",
        "Direct concat.",
        "Finetune & concat.",
        "Linear transform.",
        "Linear transform., rank 64",
        "Mafin",
    ]
    assert rows["Black-box model"]["recall@5"]["value"] <= 100
    assert rows["Mafin"]["Δ recall@5"]["value"] == pytest.approx(
        rows["Mafin"]["recall@5"]["value"] - rows["Black-box model"]["recall@5"]["value"]
    )
    other, messages = study(
        "mafin-t3",
        str(project),
        *beside,
    )
    assert "0 to train" in messages.splitlines()[0]
    assert [row["system"] for row in other["rows"]] == ["λ-Mafin", "Mafin"]
    assert other["rows"][1]["values"]["recall@3"] == rows["Mafin"]["recall@3"]


def test_all_studies_in_one_go(project: Path) -> None:
    options = ("--set", "training.epochs=1", "--dry-run")
    completed = engine_here(
        "study",
        "all",
        str(project),
        *SMALL,
        *options,
    )
    listed = [row["name"] for row in json.loads(engine_here("study", "--list", "--json").stdout)]
    left_out = {
        line.split()[0] for line in completed.stderr.splitlines() if " is left out: " in line
    }
    assert left_out == {"bmembed-t8", *(name for name in listed if name.startswith("mafin"))}
    plans = json.loads(engine_here("study", "all", str(project), *SMALL, *options, "--json").stdout)
    assert {plan["name"] for plan in plans} == {*listed} - left_out
    announced = re.findall(
        r"^(\d+) cells?: ",
        completed.stderr,
        re.MULTILINE,
    )
    cell_counts = [len(plan["cells"]) for plan in plans]
    assert [int(count) for count in announced] == [count for count in cell_counts if count]


def test_a_study_of_a_beir_folder(tiny_model: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    output = tmp_path / "out"
    (data / "qrels").mkdir(parents=True)
    texts = [
        path.read_text() for path in sorted((SAMPLE / "documents" / "incidents").iterdir())[:3]
    ]
    corpus = [{"_id": f"d{number}", "title": "", "text": text} for number, text in enumerate(texts)]
    queries = [{"_id": f"q{number}", "text": text[:60]} for number, text in enumerate(texts)]
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (data / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (data / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td0\t1\nq1\td1\t1\n")
    listed = json.loads(engine_here("study", "--list", str(data), "--json").stdout)
    assert {row["to_do"] for row in listed} == {None}, "there is no project of it yet"
    page, _ = study(
        "domain-t1",
        str(data),
        "--output",
        str(output),
    )
    (row,) = page["rows"]
    assert (row["values"]["evaluation queries"], row["values"]["documents"]) == (2, 3)
    assert row["values"]["training queries"] > row["values"]["held-out queries"] > 0
    assert (output / "domain-t1.html").is_file()
    questions, _ = study(
        "domain-t8", str(data), "--model", str(tiny_model), "--output", str(output)
    )
    answers = [row["values"]["answer"] for row in questions["rows"]]
    assert answers == [" ".join(text[:200].split()) for text in texts[:2]]
    second = shutil.copytree(data, tmp_path / "second" / "data")
    both, _ = study(
        "domain-t1",
        str(data),
        str(second),
    )
    folders = {query_set["folder"] for query_set in both["sets"]}
    both, _ = study(
        "domain-t1",
        str(data),
        str(second),
        "--output",
        str(output),
    )
    assert both["mean"]["rows"][0]["values"]["documents"] == 3
    assert json.loads((output / "domain-t1.json").read_text())["project"] == "mean of 2"
    folders |= {query_set["folder"] for query_set in both["sets"]}
    assert len(folders) == 4, "each has a page of its own"


def test_queries_of_a_beir_folder_and_how_they_are_made_may_be_given(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "qrels").mkdir(parents=True)
    texts = [
        path.read_text() for path in sorted((SAMPLE / "documents" / "incidents").iterdir())[:3]
    ]
    rows = [
        json.dumps({"_id": f"d{number}", "title": "", "text": text})
        for number, text in enumerate(texts)
    ]
    (data / "corpus.jsonl").write_text("\n".join(rows))
    queries = [
        json.dumps({"_id": f"q{number}", "text": text[:60]}) for number, text in enumerate(texts)
    ]
    (data / "queries.jsonl").write_text("\n".join(queries))
    (data / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td0\t1\n")
    (data / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t1\n")

    def queries_of(*options: str) -> int:
        page, notes = study(
            "bmembed-t1",
            str(data),
            *options,
        )
        assert "cell" not in notes, "it has no trainings"
        return int(page["rows"][0]["values"]["synthesized queries"])

    usual = queries_of()
    assert queries_of("--queries", str(data / "qrels" / "train.tsv")) == 2
    assert 0 < queries_of("--set", "queries.max_queries=5") <= 5 < usual
    dev = data / "qrels" / "dev.tsv"
    dev.write_text("query-id\tcorpus-id\tscore\nv0\td0\t1\n")
    with (data / "queries.jsonl").open("a") as file:
        file.write("\n" + json.dumps({"_id": "v0", "text": texts[0][70:130]}))
    sizes, _ = study(
        "domain-t1",
        str(data),
        "--queries",
        str(dev.with_name("train.tsv")),
    )
    values = sizes["rows"][0]["values"]
    parts = ("training queries", "validation queries", "held-out queries")
    assert [values[part] for part in parts] == [2, 1, 0], "all of train is trained, dev stops it"
    train = str(data / "qrels" / "train.tsv")
    none = str(tmp_path / "none")
    for arguments, expected in (
        ((none, "--queries", train), "queries-of-a-project"),
        ((none, "--queries", train, "--validation", str(dev)), "queries-of-a-project"),
        ((str(data), "--validation", str(dev)), "validation-without-queries"),
    ):
        code, error = error_of(
            "study",
            "bmembed-t1",
            *arguments,
        )
        assert (code, error["code"]) == (2, expected)


def test_a_server_as_base_model_has_rows_of_its_own_and_no_key(
    project: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def embed(_path: str, request: Any) -> Raw:
        rows = [{"embedding": [float(len(text) % 7), 1.0]} for text in request["input"]]
        return Raw(body=json.dumps({"data": rows}).encode())

    monkeypatch.setenv("BMEMBED_ENDPOINT_KEY", "secret")
    with serving(lambda *_: "", embed) as server:
        named = (
            "--model",
            f"{server.url}#small-3",
            "--model",
            str(tiny_model),
        )
        page, _ = study(
            "bmembed-t6",
            str(project),
            *named,
        )
    rows = {(row["model"], row["system"]): row for row in page["rows"]}
    assert list(rows)[:2] == [("small-3", "Base"), ("small-3", "BMEmbed")]
    assert rows["small-3", "Base"]["values"]["hit@10"]["value"] >= 0
    assert rows["small-3", "BMEmbed"]["values"]["hit@10"] is None
    assert "cannot be trained" in rows["small-3", "BMEmbed"]["reason"]
    trained = next(
        row for (model, system), row in rows.items() if model != "small-3" and system == "BMEmbed"
    )
    assert trained["values"]["hit@10"]["value"] >= 0
    assert set(server.aside_keys) == {None}, "project.toml names another encoder"
