"""docs/METHODS.md §6 against the program: every study, with trainings of two steps, on a small
BEIR folder.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fixtures.pipeline import SAMPLE, engine_here
from fixtures.tiny_model import build_tiny_model

from engine.lab.study.catalogue import STEP, UNTRAINED, Study, catalogue

QUICK = (
    "domain-t1",
    "domain-t8",
    "bmembed-t1",
    "bmembed-t4",
    "bmembed-t2",
    "bmembed-t3",
)
"""Those without a training, and one whose trainings others share; the rest takes minutes."""
SETTINGS = {
    "training.steps": 2,
    "training.eval_every": 1,
    "training.pretrain_steps": 2,
    "training.epochs": 1,
    "training.queries_per_step": 4,
    "training.heldout_queries": 20,
    "training.max_tokens": 48,
    "evaluation.bootstrap_samples": 200,
    "lab.samples": 50,
}
COMPARED_WITH = ("base", "black box", "bm25")
"""Systems that differences are to, or that have none."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BEIR folder, sentence pairs, and two tiny models."""
    root = tmp_path_factory.mktemp("studies")
    (root / "data" / "qrels").mkdir(parents=True)
    texts = [
        path.read_text()[:1500]
        for path in sorted((SAMPLE / "documents" / "incidents").iterdir())[:10]
    ]
    corpus = [
        json.dumps({"_id": f"d{number}", "title": "", "text": text})
        for number, text in enumerate(texts)
    ]
    questions = [
        json.dumps({"_id": f"q{number}", "text": text[40:120]}) for number, text in enumerate(texts)
    ]
    (root / "data" / "corpus.jsonl").write_text("\n".join(corpus))
    judgments = {
        "test": [f"q{number}\td{number}\t1" for number in range(len(texts))],
        "train": [],
        "dev": [],
    }
    for number, text in enumerate(texts):
        words = text.split()
        for start in range(3, 80, 7):
            split = "train" if start % 2 else "dev"
            key = f"{split}{number}-{start}"
            questions.append(json.dumps({"_id": key, "text": " ".join(words[start : start + 6])}))
            judgments[split].append(f"{key}\td{number}\t1")
    (root / "data" / "queries.jsonl").write_text("\n".join(questions))
    for split, lines in judgments.items():
        (root / "data" / "qrels" / f"{split}.tsv").write_text(
            "\n".join(["query-id\tcorpus-id\tscore", *lines])
        )
    pairs = [
        f"the pump number {number} leaks\tpump {number} is not tight\t{number}"
        for number in range(12)
    ]
    (root / "pairs.tsv").write_text("\n".join(pairs))
    build_tiny_model(root / "model")
    build_tiny_model(root / "small", seed=3)
    return root


def make_study(folder: Path, study: Study) -> dict[str, Any]:
    """The study's page. `training.epochs` counts for the presets that have them alone."""
    chosen = dict(SETTINGS)
    if not study.name.startswith(("mafin", "pipelines")):
        del chosen["training.epochs"]
    if "small model" in study.needs:
        chosen["encoder.small_model"] = str(folder / "small")
        chosen["training.label_smoothing"] = 0.1
    if "sentence pairs" in study.needs:
        chosen["lab.sentence_pairs"] = str(folder / "pairs.tsv")
    place = "out"
    queries: tuple[str, ...] = ()
    if study.name.startswith("mafin"):  # supervised and unsupervised rows
        place = "mafin"
        queries = ("--queries", str(folder / "data" / "qrels" / "train.tsv"))
        chosen["queries.backend"] = "both"
    options = [part for name, value in chosen.items() for part in ("--set", f"{name}={value}")]
    arguments = (
        "--model",
        str(folder / "model"),
        "--output",
        str(folder / place),
        *queries,
        *options,
    )
    completed = engine_here(
        "study",
        study.name,
        str(folder / "data"),
        *arguments,
        "--json",
    )
    page: dict[str, Any] = json.loads(completed.stdout)
    return page


def find_system(study: Study, row: dict[str, Any]) -> str:
    """The system of a row; of two with one label, such as RRF, the untrained one has no
    training.
    """
    names = [system for system, label in study.systems.items() if label == row["system"]]
    if len(names) > 1:
        names = [
            name for name in names if (name.partition(",")[0] in UNTRAINED) == (not row["training"])
        ]
    return next(iter(names), "")


def is_explained(
    study: Study,
    system: str,
    column: str,
) -> bool:
    """Whether the page says why a cell of this column is empty for the system."""
    name, _, change = system.partition(", ")
    if column in (STEP, "training seconds"):
        return name in UNTRAINED or name.startswith(("linear map", "concatenation"))
    if column.endswith("ndcg@10"):
        return column.startswith("Δ") and name == "base"
    if column.startswith("Δ to only finetune"):
        return system == "tuned small model" or system in UNTRAINED
    if column.startswith(("Δ", "loss of")):
        return change == "clean" or (not change and name in COMPARED_WITH)
    return column in (
        "accuracy@5 at τ",
        "threshold τ(ψ)",
        "ψ of τ",
    )  # of so few questions none may hold


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "study",
    [
        pytest.param(study, marks=[] if study.name in QUICK else pytest.mark.slow, id=study.name)
        for study in catalogue().values()
    ],
)
def test_no_cell_is_empty_without_a_reason(folder: Path, study: Study) -> None:
    page = make_study(folder, study)
    assert page["finished"] == len(study.trainings) == len(page["cells"])
    assert all(not cell["error"] for cell in page["cells"])
    assert page["rows"]
    untrained = {
        cell["label"] for cell in page["cells"] if cell["reason"]
    }  # such as a quarter of few queries
    for row in page["rows"]:
        if row["training"] and row["training"] in untrained:
            assert row["reason"]
            continue
        system = find_system(study, row)
        empty = []
        for column in study.measures:
            if all(row["values"].get(name) is None for name in column.split("|")):
                empty.append(column)
        if study.facts:
            assert set(empty) <= {"substituted"}, "no language model writes the project's queries"
            continue
        unexplained = [name for name in empty if not is_explained(study, system, name)]
        assert not unexplained, f"{row['label']}: {unexplained}"
    if study.facts:
        return
    systems = {row["system"] for row in page["rows"]}
    masked_only = {label for system, label in study.systems.items() if ", substitute" in system}
    assert systems == set(study.systems.values()) - masked_only
    trained = {row["training"] for row in page["rows"] if row["training"]}
    if any(system.partition(",")[0] not in UNTRAINED for system in study.systems):
        assert trained == {label for label, _ in study.trainings if label}
    assert (Path(page["folder"]) / f"{study.name}.html").is_file()
