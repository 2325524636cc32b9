"""The `engine` command as people and programs use it: exit codes, and what goes where."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from fixtures.errors import error_of
from fixtures.pipeline import (
    SAMPLE,
    copy_documents,
    copy_project,
    engine,
    engine_here,
    environment,
)
from fixtures.user_folders import DATA
from lxml import html

from engine.cli.app import GROUPS
from engine.core.dates import day
from engine.core.systems import label_of
from engine.project.folder import ProjectFolder, projects_root

COMMANDS = (
    "new",
    "run",
    "adapt",
    "ingest",
    "index",
    "generate",
    "rank",
    "train",
    "evaluate",
    "embed",
    "search",
    "serve",
    "status",
    "cancel",
    "pause",
    "resume",
    "finish",
    "report",
    "import-queries",
    "import-judgments",
    "benchmark",
    "doctor",
    "demo",
    "config",
)
HEAVY = (
    "torch",
    "transformers",
    "sentence_transformers",
    "peft",
    "tantivy",
    "usearch",
    "numpy",
    "pydantic",
    "matplotlib",
    "jinja2",
    "semantic_text_splitter",
    "lxml",
    "sqlite3",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    completed = engine_here(command, "--help")
    assert f"engine {command}" in completed.stdout
    assert not completed.stderr


def test_the_help_has_every_command_once_in_a_group() -> None:
    completed = engine_here("-h")
    assert completed.stdout == engine_here("--help").stdout
    listed = re.findall(
        r"^  ([a-z-]+)  ",
        completed.stdout,
        re.M,
    )
    assert sorted(listed) == sorted({*listed})
    assert {*COMMANDS, "list", "find", "adapt"} <= {*listed}
    assert {name for names in GROUPS.values() for name in names} <= {*listed}


def test_no_summary_is_cut_off_on_a_terminal_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fixtures.pipeline.environment", lambda: {**os.environ, "COLUMNS": "80"})
    _, *lines = engine_here("-h").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if line.endswith("...")]


def test_help_loads_no_heavy_library() -> None:
    code = (
        "import sys; sys.argv = ['engine', '--help']\n"
        "from engine.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"print(sorted(set(sys.modules) & {set(HEAVY)!r}), file=sys.stderr)"
    )
    completed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
    )
    assert all(command in completed.stdout for command in COMMANDS)
    assert completed.stderr.strip() == "[]"


def test_without_a_command_the_help_is_shown() -> None:
    completed = engine(check=False)
    assert completed.returncode == 2
    assert completed.stderr.startswith("Usage:")


@pytest.mark.parametrize(
    ("arguments", "status", "code", "value"),
    [
        (["frobnicate"], 2, "wrong-use", "frobnicate"),
        (["search", "PROJECT"], 2, "wrong-use", "engine search --help"),
        (["search", "PROJECT", "x", "--colour"], 2, "wrong-use", "--colour"),
        (["search", "PROJECT", "-drill door"], 2, "wrong-use", "'--'"),
        (["find", "PROJECT", "-drill"], 2, "wrong-use", "'--'"),
        (["search", "PROJECT", "x", "--mode", "foo"], 2, "wrong-use", "keywords"),
        (["search", "PROJECT", "x", "--mode", "bm25", "--top", "0"], 2, "hits-too-few", "1"),
        (
            ["search", "PROJECT", "x", "--mode", "bm25", "--after", "soon"],
            2,
            "date-invalid",
            "YYYY-MM-DD",
        ),
        (["run", "nowhere"], 2, "project-missing", "engine new"),
        (["serve", "PROJECT"], 2, "stdio-required", "--stdio"),
        (["cancel", "PROJECT"], 2, "no-run", "cancel"),
        (["pause", "PROJECT"], 2, "no-run", "pause"),
        (["resume", "PROJECT"], 2, "no-run", "engine run"),
        (["finish", "PROJECT"], 2, "no-run", "finish"),
        (["run", "PROJECT", "--only", "ingest,indx"], 2, "stage-unknown", "'index'"),
        (["run", "PROJECT", "--only", ""], 2, "stage-unknown", "''"),
        (
            ["import-queries", "PROJECT", "/no/file.jsonl"],
            3,
            "dataset-unreadable",
            str(Path("/no/file.jsonl")),
        ),
        (
            ["import-judgments", "PROJECT", "/no/file.jsonl"],
            3,
            "dataset-unreadable",
            str(Path("/no/file.jsonl")),
        ),
        (["benchmark", "/no/folder"], 3, "dataset-incomplete", str(Path("/no/folder"))),
        (["doctor", "nowhere"], 2, "project-missing", "nowhere"),
    ],
)
def test_wrong_use_ends_with_its_code_and_a_reason(
    finished: Path, arguments: list[str], status: int, code: str, value: str
) -> None:
    ended, error = error_of(*[str(finished) if part == "PROJECT" else part for part in arguments])
    assert (ended, error["code"]) == (status, code)
    assert value in "\n".join((error["what"], error["why"], error["to_do"]))


def test_a_misspelt_name_suggests_the_nearest_project(tmp_path: Path) -> None:
    (tmp_path / "documents").mkdir()
    engine_here(
        "new",
        "handbook-of-rules",
        str(tmp_path / "documents"),
    )
    code, error = error_of("status", "handbok-of-rules")
    assert (code, error["code"], "'handbook-of-rules'" in error["to_do"]) == (
        2,
        "project-missing",
        True,
    )
    for command in ("list", "status"):
        assert "handbook-of-rules" in json.loads(engine_here(command, "--json").stdout)
    variables = {
        "_ENGINE_COMPLETE": "complete_bash",
        "COMP_WORDS": "engine status handbook-",
        "COMP_CWORD": "2",
    }
    with mock.patch.dict(os.environ, variables):
        assert engine_here().stdout.split() == ["handbook-of-rules"]
    wrong = engine_here(
        "status",
        "handbok-of-rules",
        "--json",
        check=False,
    )
    assert json.loads(wrong.stderr.splitlines()[-1])["code"] == "project-missing"


def test_new_refuses_what_cannot_work(finished: Path, tmp_path: Path) -> None:
    documents = str(SAMPLE / "documents")
    created = engine_here(
        "new",
        str(tmp_path / "made"),
        documents,
    )
    assert Path(created.stdout.strip()) == tmp_path / "made"
    assert "engine run" in created.stderr
    for arguments, status, code, value in [
        ([str(finished), documents], 2, "project-exists", str(finished)),
        (
            [str(tmp_path / "a"), "/no/such/folder"],
            3,
            "path-missing",
            str(Path("/no/such/folder")),
        ),
        (
            [str(tmp_path / "a"), documents, "--model", str(tmp_path)],
            3,
            "model-unsupported",
            "modules.json",
        ),
        ([str(tmp_path / "a"), documents, "--preset", "quikc"], 2, "settings-invalid", "preset"),
    ]:
        ended, error = error_of("new", *arguments)
        assert (ended, error["code"]) == (status, code)
        assert value in error["what"] + error["why"]
        assert not (tmp_path / "a").exists()


def test_new_refuses_a_model_without_safetensors(tiny_model: Path, tmp_path: Path) -> None:
    model = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    code, error = error_of(
        "new",
        str(tmp_path / "a"),
        str(SAMPLE),
        "--model",
        str(model),
    )
    assert (code, error["code"]) == (3, "model-pickled")


def test_status_and_report_as_json(finished: Path) -> None:
    status = engine_here(
        "status",
        str(finished),
        "--json",
    )
    data = json.loads(status.stdout)
    assert {stage["state"] for stage in data["stages"]} == {"done"}
    assert data["running"] is False
    assert data["latest_run"]["state"] == "done"
    assert data["counts"]["documents"] == 24
    assert status.stderr == ""
    report = json.loads(engine_here("report", str(finished), "--json").stdout)
    assert set(report["tables"]) == {"judged", "document", "synthetic"}
    in_use = report["in_use"]
    assert in_use.keys() == {"semantic", "hybrid"}
    assert (Path(report["folder"]) / "report.html").is_file()
    short = engine_here("report", str(finished)).stdout.splitlines()
    assert len(short) <= 16
    place = 0
    for mode in report["verdict"]["modes"]:
        assert short[place] == mode["sentence"] == in_use[mode["mode"]]["reason"]
        systems = report["tables"][mode["kind"]]["systems"]
        for bar, line in zip(mode["bars"], short[place + 1 :], strict=False):
            assert bar["figure"] == systems[bar["system"]]["ndcg@10"]
            assert line.strip().startswith(bar["label"])
            assert f" {bar['figure']['value']:.1f} " in line
        place += 1 + len(mode["bars"]) + bool(mode["bars"] and mode["difference"])
    steps = report["verdict"]["next_steps"]
    assert [line for line in short if steps and line.startswith(f"  1. {steps[0]['what']}")]
    text = engine_here("report", str(finished), "--full").stdout
    assert text.splitlines()[:place] == short[:place]
    assert "BM25" in text
    assert "nDCG@10" in text
    assert label_of("interpolated-0.5") in text  # which the gate compared
    fusion = report["fusion"]
    assert data["in_use"] == {
        "encoders": in_use,
        "fusion": fusion["method"],
        "weight": fusion["weight"],
    }
    for gate in report["gates"].values():
        assert {row["encoder"] for row in gate["candidates"]} - {"base"} == {
            "interpolated-0.5",
            "adapted",
        }


def test_the_lab_measures_robustness_and_search_hides_weak_hits(project: Path) -> None:
    ProjectFolder(project).change_settings({"search.hide_weak": True})
    lab = json.loads(engine_here("lab", str(project), "--robustness", "--json").stdout)
    after = json.loads(engine_here("report", str(project), "--json").stdout)
    folder = Path(after["folder"])
    assert folder.name == lab["evaluation"]
    page = project / "studies" / "lab.html"
    assert page.is_file()
    (address,) = html.parse(str(folder / "report.html")).xpath("//a/@href")
    assert (folder / address).resolve() == page.resolve()
    robustness = lab["robustness"]
    assert (robustness["kind"], len(robustness["rows"])) == ("judged", 16)
    systems = set(robustness["rows"][0]["systems"]) - {"adapted"}  # where it is not what is served
    assert systems == {"bm25", "base", "in_use", "hybrid base", "hybrid in use"}
    for system in ("bm25", "base", "in_use"):  # a clean query is ranked as in the comparison
        clean = robustness["rows"][0]["systems"][system]["ndcg@10"]["value"]
        assert clean == pytest.approx(
            after["tables"]["judged"]["systems"][system]["ndcg@10"]["value"]
        )
    assert lab["general"]["questions"] == 60
    assert {"alignment", "uniformity", "COE, percent"} <= set(lab["diagnostics"]["adapted"])
    assert "weighted_in_use − weighted_base" in after["tables"]["judged"]["pairs"]
    text = engine_here("report", str(project), "--full").stdout
    if after["in_use"]["hybrid"]["name"] == "base":
        compared = "adapted"
    else:
        compared = "in use"
    assert f"hybrid (weighted), {compared} − hybrid (weighted), base: " in text, "as users search"
    assert "(p " in text
    answer = json.loads(
        engine_here("search", str(project), "cold room door", "--mode", "semantic", "--json").stdout
    )
    assert len(answer["notes"]) == 1
    assert "hidden" in answer["notes"][0]


def test_search_filters(finished: Path) -> None:
    def search(*options: str) -> list[dict[str, Any]]:
        completed = engine_here(
            "search",
            str(finished),
            "cold room door",
            "--mode",
            "bm25",
            "--json",
            "--top",
            "50",
            *options,
        )
        assert completed.stderr == ""
        hits: list[dict[str, Any]] = json.loads(completed.stdout)["hits"]
        return hits

    everything = search()
    assert {hit["format"] for hit in everything} >= {"md", "txt", "html"}
    assert {hit["format"] for hit in search("--type", "md", "--type", ".TXT")} == {"md", "txt"}
    assert {hit["format"] for hit in search("--type", "md", "--format", "txt")} == {"md", "txt"}
    inside = search("--path", "policies/**")
    assert inside
    assert all(hit["path"].startswith("policies/") for hit in inside)
    tomorrow = time.strftime("%Y-%m-%d", time.localtime(time.time() + 86400))
    assert search("--after", tomorrow) == []
    assert search("--before", "2001-01-01") == []
    assert search("--before", tomorrow) == everything
    assert [hit["rank"] for hit in everything] == list(range(1, len(everything) + 1))
    passages = search("--passages", "--top", "100")
    assert {hit["id"] for hit in passages} <= {hit["id"] for hit in everything}
    assert (
        sum(hit["more"] for hit in everything)
        == len(passages) - len({hit["id"] for hit in passages})
        > 0
    )
    few = search("--min-score", str(everything[1]["score"]))
    assert [hit["id"] for hit in few] == [hit["id"] for hit in everything[:2]]
    assert search("--like", everything[0]["id"])[0]["path"] != everything[0]["path"]
    newest = [
        day(hit["changed"] or hit["created"] or hit["modified"]) for hit in search("--sort", "date")
    ]
    assert newest == sorted(newest, reverse=True)


def test_paths_of_what_is_found_in_one_project_and_in_all(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DATA, str(tmp_path / "data"))

    def paths(*arguments: str) -> list[str]:
        return engine_here("search", *arguments, "--mode", "bm25", "--files").stdout.splitlines()

    phrase = paths(str(finished), '"cold room" -title:door')
    assert phrase
    assert all("cold" in Path(path).read_text().lower() for path in phrase)
    assert phrase[0] in paths(str(finished), '"cold room', "--literal")
    (tmp_path / "empty").mkdir()
    engine_here(
        "new",
        "not-read",
        str(tmp_path / "empty"),
    )
    copy = copy_project(finished, projects_root() / "copied")
    completed = engine_here(
        "search", "--all", '"cold room" -title:door', "--mode", "bm25", "--files"
    )
    assert [*map(os.path.basename, completed.stdout.splitlines())] == [
        *map(os.path.basename, phrase)
    ]
    assert "not-read" in completed.stderr
    shutil.rmtree(copy)
    completed = engine_here(
        "search", "--all", "--json", "--also", str(finished), "--mode", "bm25", "--", "cold room"
    )
    of = {row["project"]: row for row in json.loads(completed.stdout)}
    unread = of["not-read"]
    answer = of[finished.name]
    assert (unread["found"], unread["problem"]["code"]) == (None, "not-built")
    assert (answer["path"], answer["problem"]) == (str(finished), None)
    assert answer["found"]["hits"]


def test_the_note_without_hits_goes_to_standard_error(finished: Path) -> None:
    completed = engine_here(
        "search",
        str(finished),
        "qqqqzzzz",
        "--mode",
        "bm25",
    )
    assert completed.stdout == ""
    assert "Nothing" in completed.stderr


def test_doctor_as_json(finished: Path) -> None:
    completed = engine(
        "doctor",
        str(finished),
        "--json",
        check=False,
    )
    findings = json.loads(completed.stdout)
    assert {"python", "device", "memory", "model", "network", "project"} <= {
        item["topic"] for item in findings
    }
    problems = [item for item in findings if item["state"] == "problem"]
    assert completed.returncode == (3 if problems else 0)
    assert all(item["follows"] for item in findings)


@pytest.mark.parametrize(
    ("command", "text", "code", "place"),
    [
        ("import-queries", '{"query": "a"}\n{"quer": "b"}\n', "dataset-invalid", "line 2"),
        ("import-queries", '{"query": "a"}\nnot json\n', "dataset-invalid", "line 2"),
        ("import-queries", "", "dataset-empty", ""),
        (
            "import-judgments",
            '{"query": "a", "evidence": ["b"]}\n{"query": 3}\n',
            "dataset-invalid",
            "line 2",
        ),
        ("import-judgments", "[]\n", "dataset-invalid", "line 1"),
        ("import-judgments", "", "dataset-without-judgments", ""),
    ],
)
def test_a_malformed_import_names_file_and_line(
    finished: Path, tmp_path: Path, command: str, text: str, code: str, place: str
) -> None:
    (tmp_path / "bad.jsonl").write_text(text)
    before = sorted((finished / "imports").iterdir())
    status, error = error_of(
        command,
        str(finished),
        str(tmp_path / "bad.jsonl"),
    )
    assert (status, error["code"], "bad.jsonl" in error["what"]) == (3, code, True)
    assert place in error["what"]
    assert sorted((finished / "imports").iterdir()) == before


def test_stages_alone_in_order_on_imported_queries(
    make_project: Callable[..., Path], tmp_path: Path
) -> None:
    project = make_project(
        tmp_path / "alone",
        queries={"backend": "imported", "consistency_top": 0},
        training={"steps": 2, "eval_every": 2},
    )
    copy_documents(
        project / "documents",
        ("mail",),
        6,
    )
    needs = {
        "index": "ingest",
        "generate": "index",
        "rank": "generate",
        "train": "rank",
        "evaluate": "train",
    }
    for stage, before in {**needs, "embed": "ingest"}.items():
        code, error = error_of(stage, str(project))
        assert (code, error["code"], error["stage"]) == (3, "not-built", before)
    for arguments, before in {
        ("search", "x", "--mode", "bm25"): "index",
        ("report",): "evaluate",
    }.items():
        code, error = error_of(
            arguments[0],
            str(project),
            *arguments[1:],
        )
        assert (code, error["code"], error["stage"]) == (3, "not-built", before)
    lines = [
        line
        for path in sorted(project.rglob("documents/**/*.txt"))
        for line in path.read_text().splitlines()
    ]
    evidence = [line for line in dict.fromkeys(lines) if len(line) > 50][:40]
    assert len(evidence) > 25
    rows = [{"query": f"what about {text[:30]}", "evidence": text} for text in evidence]
    rows.append(
        {
            "query": "what is nowhere",
            "evidence": "this sentence stands in no document of the corpus",
        }
    )
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    imported = engine_here(
        "import-queries",
        str(project),
        str(tmp_path / "queries.jsonl"),
    )
    assert f"{len(rows)} queries" in imported.stderr
    outputs = {
        stage: engine_here(stage, str(project)) for stage in (*needs.values(), "evaluate", "embed")
    }
    assert all(completed.stdout == "" for completed in outputs.values())
    assert f"kept: {len(evidence)}" in outputs["generate"].stderr
    assert "1 of" in outputs["generate"].stderr, "the query whose evidence is nowhere must be told"
    states = json.loads(engine_here("status", str(project), "--json").stdout)["stages"]
    assert {row["state"] for row in states} == {"done"}


def test_force_does_a_stage_again(project: Path) -> None:
    assert "skipped" in engine_here("index", str(project)).stderr
    again = engine_here(
        "index",
        str(project),
        "--force",
        "--json",
    )
    kinds = [json.loads(line)["event"] for line in again.stdout.splitlines()]
    assert kinds == [*kinds[:1], "stage_started", *kinds[2:-2], "stage_finished", "run_finished"]
    assert again.stderr == ""


def test_without_a_terminal_there_are_plain_lines(project: Path) -> None:
    progress = engine_here("index", str(project), "--force").stderr
    assert progress.splitlines()[0].startswith("▸ index ")
    assert "\x1b" not in progress
    assert "\r" not in progress
