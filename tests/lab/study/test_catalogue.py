"""assets/studies.toml: every table and figure of the papers, as cells that can be trained and
columns that can be measured.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fixtures.errors import fails

from engine.core.errors import UsageError
from engine.lab.checks.perturbation import CONDITIONS
from engine.lab.study.catalogue import Study, catalogue, study_of
from engine.lab.study.facts import FACTS
from engine.lab.study.grid import changed_settings
from engine.settings.load import validate
from engine.settings.schema import Settings
from engine.training.recipe import config_of

CONDITION_NAMES = {f"{one.kind} {one.words or ''}".strip() for one in CONDITIONS}
ROOT = Path(__file__).resolve().parents[3]
STUDIES = list(catalogue().values())
PRETRAINING = (
    "max_tokens",
    "pretrain_steps",
    "pretrain_chunks_per_step",
    "pretrain_learning_rate",
    "pretrain_weights",
    "mask_share",
    "seed",
)


def settings_of(name: str) -> list[Settings]:
    return [changed_settings(Settings(), changes) for _, changes in study_of(name).trainings]


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_every_study_is_made_of_settings_and_measures_that_there_are(study: Study) -> None:
    assert study.source
    assert study.shows
    assert study.differs
    assert bool(study.facts) != bool(study.trainings)
    assert not study.facts or study.facts in FACTS
    labels = [label for label, _ in study.trainings]
    assert len(labels) == len(set(labels)), "rows of two trainings could not be told apart"
    for _, changes in study.trainings:
        changed_settings(Settings(), changes)
    columns = set(study.columns)
    for correlation in study.correlations:
        assert set(correlation.of) <= columns
        assert set(correlation.over) <= set(study.systems)
    for chart in study.charts:
        assert (
            chart.kind in ("similarities", "general similarities", "distances")
            or chart.y in columns
        )
        if chart.kind == "line":
            assert all(chart.x.removeprefix("1/") in changes for _, changes in study.trainings)


def test_the_methods_name_every_study_and_no_other() -> None:
    text = (ROOT / "docs" / "METHODS.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`((?:bmembed|mafin|domain|pipelines)-\w+)`", text)) == set(catalogue())
    rows = re.findall(
        r"^\| .+ \| `(\S+)` \| (.+) \| (.+) \|$",
        text,
        re.MULTILINE,
    )
    assert rows == [(study.name, study.shows, study.differs) for study in catalogue().values()]


def test_tables_9_and_10_of_bmembed() -> None:
    nine = settings_of("bmembed-t9")
    assert [(one.training.query_share, one.ranking.lists_per_query) for one in nine] == [
        (1, 1),
        (0.5, 2),
        (0.25, 4),
    ]
    ten = settings_of("bmembed-t10")
    assert len(ten) == 10 + 6 + 5
    assert {config_of(one).objective for one in (*nine, *ten)} == {"listnet"}
    assert {(one.training.preset, config_of(one).steps) for one in (*nine, *ten)} == {
        ("paper", 500)
    }
    assert {config_of(one).teacher_temperature for one in nine} == {1.0}
    assert {round(1 / config_of(one).teacher_temperature, 3) for one in ten} == {
        0.1,
        0.2,
        0.5,
        0.7,
        1.0,
    }
    tens = {(one.ranking.k, one.ranking.m, one.ranking.strategy) for one in ten}
    assert tens >= {(k, 10, way) for k in (200, 500, 1000) for way in ("uniform", "fine-to-coarse")}
    assert tens >= {(1000, m, way) for m in range(6, 11) for way in ("uniform", "fine-to-coarse")}


def test_the_ways_of_adaptation() -> None:
    ways = [config_of(one) for one in settings_of("domain-t2")]
    assert [one.method for one in ways] == ["PT", "FT", "PT-FT"]
    assert [one.objective for one in ways[1:]] == ["triplet", "triplet"]
    assert [one.evaluation.interpolation_weights for one in settings_of("domain-t2")] == [[0.5]] * 3


@pytest.mark.parametrize("backend", ["extractive", "imported", "endpoint"])
def test_pre_training_is_the_same_alone_and_before_fine_tuning(backend: str) -> None:
    given = validate({"queries": {"backend": backend}})
    pre_trained = []
    for _, changes in study_of("domain-t2").trainings:
        config = config_of(changed_settings(given, changes))
        if config.method != "FT":
            pre_trained.append({name: getattr(config, name) for name in PRETRAINING})
    assert pre_trained[0] == pre_trained[1]
    assert pre_trained[0]["max_tokens"] == given.encoder.max_tokens


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_changed_and_unchanged_queries_of_a_table_are_the_same_ones(study: Study) -> None:
    changed = [
        system.partition(", ")[2]
        for system in study.systems
        if system.partition(", ")[2] in CONDITION_NAMES
    ]
    unchanged = [system for system in study.systems if "," not in system]
    assert not (changed and unchanged), (
        "conditions are measured on at most 500 queries, systems on all"
    )


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_a_step_is_chosen_only_where_the_paper_chooses_one(study: Study) -> None:
    keep = {config_of(changed_settings(Settings(), changes)).keep for _, changes in study.trainings}
    assert keep <= ({"best"} if study.name.startswith("mafin") else {"last"})


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with fails(UsageError, "study-unknown") as caught:
        study_of("bmembed-table2")
    assert "'bmembed-t2'" in caught.value.to_do
