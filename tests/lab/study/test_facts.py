"""Tables of a project as it is, on documents made for them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from fixtures.pipeline import stage_here
from fixtures.stored import document, put_file

from engine.core.records import JudgedQuery
from engine.lab.study.facts import FACTS
from engine.project.folder import ProjectFolder

DOCUMENTS = {
    "pump.txt": "The pump PHX-121 leaks at the valve.",
    "lease.txt": "The lease ends in March, says the tenant.",
}
ORIGINALS = [
    "Who repairs the pump PHX-121 today?",
    "Does the lease end soon?",
    "Which colour is it?",
    "Where is it?",
]


@pytest.mark.parametrize(
    ("answers", "rows"),
    [
        (
            [("PHX-121 leaks",), ("lease ends",), ("lease ends",), ("lease ends",)],
            [
                ("Who repairs the [MASK] [MASK] today?",),
                ("Does the [MASK] [MASK] soon?",),
                (ORIGINALS[2],),
            ],
        ),
        ([("lease ends",)] * 2, [("Does the [MASK] [MASK] soon?",), (ORIGINALS[0],)]),
        # pump.txt as a whole is the answer of all
        ([()] * 4, [("Who repairs the [MASK] [MASK] today?",), (ORIGINALS[1],), (ORIGINALS[2],)]),
    ],
)
def test_queries_and_what_the_conditions_make_of_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answers: list[tuple[str, ...]],
    rows: list[tuple[str, ...]],
) -> None:
    project = ProjectFolder.create(tmp_path / "project", {"corpus": {"paths": ["documents"]}})
    (project.path / "documents").mkdir()
    for name, text in DOCUMENTS.items():
        (project.path / "documents" / name).write_text(text)
    for stage in ("ingest", "index"):
        stage_here(project.path, stage)
    judged = [
        JudgedQuery(str(number), text, evidence, () if evidence else (("pump.txt", 1),))
        for number, (text, evidence) in enumerate(zip(ORIGINALS, answers, strict=False))
    ]
    with closing(project.store()) as store:
        store.put_judged(judged)
    table = dict(FACTS["perturbed"](project))
    assert list(table) == [str(number) for number, _ in enumerate(rows, 1)]
    assert [
        tuple(row[name] for name in ("masked", "substituted") if name in row)
        for row in table.values()
    ] == rows
    assert {row["original"] for row in table.values()} <= set(ORIGINALS)
    assert not any("substituted" in row for row in table.values()), (
        "no language model writes the project's queries"
    )
    monkeypatch.setattr(
        "engine.lab.checks.substitutes.fingerprint_language_model", lambda _: "a model"
    )
    monkeypatch.setattr(
        "engine.lab.study.facts.ask_for_substitutes",
        lambda _, questions: ([{"pump": "lifter"} for _ in questions], "a model"),
    )
    monkeypatch.setattr(
        "engine.lab.study.facts.choose_keywords",
        lambda _, questions: [frozenset(q.words[:1]) for q in questions],
    )
    others = [row["substituted"] for row in FACTS["perturbed"](project) for row in [row[1]]]
    assert len(others) == len(rows)
    if answers[0] != ("lease ends",):
        assert others[0] == "Who repairs the lifter PHX-121 today?", "the first shared word alone"
        masked = next(iter(dict(FACTS["perturbed"](project)).values()))["masked"]
        assert masked == "Who repairs the [MASK] PHX-121 today?"


def test_answers_are_evidence_or_the_beginnings_of_documents(project: ProjectFolder) -> None:
    text = "The pump\nPHX-121 leaks. " + 300 * "x"
    with closing(project.store()) as store:
        stored = replace(
            document("b.jsonl#d7"),
            text=text,
            external_id="d7",
        )
        store.put_document(put_file(store, "b.jsonl"), stored)
        store.put_judged(
            [
                JudgedQuery("1", "What leaks?", ("the valve", "the pump")),
                JudgedQuery("2", "Which pump?", grades=(("d6", 0), ("d7", 1), ("gone", 2))),
            ]
        )
    rows = [row for _, row in FACTS["questions"](project)]
    beginning = "The pump PHX-121 leaks. " + 176 * "x"
    assert rows == [
        {"question": "What leaks?", "answer": "the valve … the pump"},
        {"question": "Which pump?", "answer": f"{beginning} … gone"},
    ]
