"""The rows of Mafin's tables, on a small real project with tiny models."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fixtures.errors import fails
from fixtures.tiny_model import build_tiny_model

from engine.core.errors import UsageError
from engine.core.events import Event, TrainStep
from engine.encoders.kinds.augmented import joined_arrays
from engine.evaluation.judgments import Judgment
from engine.evaluation.query_sets import QuerySet, build_query_sets
from engine.lab.study import mafin
from engine.lab.study.mafin import (
    SMOOTHING,
    SmallTrainings,
    best_smoothing,
    count_trainings,
    measure_encoder,
    train_systems,
)
from engine.lexical.filenames import FilenameMatch
from engine.metrics.retrieval import MAFIN
from engine.project.folder import ProjectFolder
from engine.project.stage import StageContext
from engine.settings.load import validate
from engine.training.config import TrainingConfig
from engine.training.job import Job, never
from engine.training.model import linear_map
from engine.training.model.linear_map import LinearMap
from engine.training.recipe import config_of
from engine.training.trainer import TrainResult

QUERY = "Who signs off a freezer repair?"


@pytest.fixture(scope="module")
def project(finished_built: Path, tmp_path_factory: pytest.TempPathFactory) -> ProjectFolder:
    copy = Path(shutil.copytree(finished_built, tmp_path_factory.mktemp("mafin") / "project"))
    small = build_tiny_model(copy.parent / "small", seed=3)
    folder = ProjectFolder.open(copy)
    folder.change_settings(
        {
            "encoder.small_model": str(small),
            "training.steps": 6,
            "training.eval_every": 1,
            "training.learning_rate": 0.05,
        }
    )
    return folder


def test_every_row_is_an_encoder_that_can_be_measured(
    project: ProjectFolder, tmp_path: Path
) -> None:
    seen: list[Event] = []
    with closing(project.store()) as store:
        context = StageContext(
            project, project.settings(), store, "study", "", "", seen.append, never
        )
        chunks = store.chunks()
        judged = build_query_sets(context, chunks)[0]
        table = {}
        widths = {}
        vectors = {}
        for name, encoder in train_systems(context, tmp_path / "study", rank=4):
            table[name] = measure_encoder(
                context,
                encoder,
                chunks,
                judged,
            )
            widths[name] = encoder.dimension
            vectors[name] = encoder.encode_queries([QUERY])
        trained = sum(isinstance(event, TrainStep) for event in seen)
        again = {
            name: encoder.encode_queries([QUERY])
            for name, encoder in train_systems(context, tmp_path / "study", 4)
        }
    assert widths == {
        "black box": 32,
        "small model": 32,
        "concatenation": 64,
        "tuned small model": 32,
        "concatenation after tuning": 64,
        "linear map": 32,
        "linear map of rank 4": 32,
        "Mafin": 64,
        "λ-Mafin": 64,
    }
    for name, row in table.items():
        assert tuple(row) == MAFIN
        assert len({len(values) for values in row.values()}) == 1
        for metric, values in row.items():
            assert 0 <= values.min() <= values.max() <= 1, f"{name} {metric}"
        np.testing.assert_allclose(
            again[name],
            vectors[name],
            atol=1e-6,
            err_msg=name,
        )
    black_box, small, tuned = (
        vectors[name] for name in ("black box", "small model", "tuned small model")
    )
    np.testing.assert_allclose(
        vectors["concatenation"],
        joined_arrays(black_box, small),
        atol=1e-6,
    )
    np.testing.assert_allclose(
        vectors["concatenation after tuning"], joined_arrays(black_box, tuned), atol=1e-6
    )
    own = {
        name: found[:, 32:] for name, found in vectors.items() if name.endswith("Mafin")
    }  # with a loss of their own
    lengths = {name: np.linalg.norm(found) for name, found in own.items()}
    assert not np.allclose(tuned, small, atol=1e-4), "3 steps change something"
    assert not np.allclose(own["Mafin"] * np.sqrt(2), tuned, atol=1e-5)
    assert lengths["Mafin"] == pytest.approx(np.sqrt(0.5), abs=1e-4)
    assert abs(lengths["λ-Mafin"] - np.sqrt(0.5)) > 1e-4, "it keeps its length"
    for name, found in vectors.items():
        if name.endswith("Mafin"):
            scale = np.linalg.norm(found[:, :32])
            np.testing.assert_allclose(
                found[:, :32],
                scale * black_box,
                atol=1e-5,
            )
    assert trained > 0
    assert (
        sum(isinstance(event, TrainStep) for event in seen) == trained
    )  # the second time nothing is trained again


@pytest.mark.parametrize(
    ("ndcg", "best"),
    [
        ({0.0: 30.0, 0.1: 31.0, 0.2: 33.0, 0.3: 33.0, 0.4: 32.0, 0.5: 1.0}, 0.2),
        ({0.1: None}, 0.1),  # no validation queries: nothing else is trained
    ],
)
def test_the_label_smoothing_is_the_one_that_validation_queries_choose(
    ndcg: dict[float, float | None], best: float
) -> None:
    trained = []

    def train(smoothing: float) -> TrainResult:
        trained.append(smoothing)
        return TrainResult(
            Path(str(smoothing)),
            1,
            1,
            ndcg[smoothing],
            [],
        )

    assert best_smoothing(train, 0.1) == (best, TrainResult(Path(str(best)), 1, 1, ndcg[best], []))
    assert sorted(trained) == sorted(ndcg), "each once"


@pytest.mark.parametrize(("chosen", "tried"), [(None, SMOOTHING), (0.3, (0.3,))])
def test_the_smoothing_of_each_training_is_searched_for_unless_it_is_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, chosen: float | None, tried: tuple[float, ...]
) -> None:
    training = {"preset": "mafin", "label_smoothing": chosen}
    settings = validate({"training": training, "encoder": {"small_model": "small"}})
    trained: dict[object, list[float]] = {}

    def train_small(job: Job) -> TrainResult:
        smoothing = job.config.label_smoothing
        trained.setdefault(job.config.augmentation, []).append(smoothing)
        return TrainResult(
            tmp_path,
            1,
            1,
            50 - smoothing,
            [],
            seconds=2.0,
        )

    def train_map(
        _data: object,
        config: TrainingConfig,
        rank: int | None,
    ) -> LinearMap:
        trained.setdefault(rank or "full", []).append(config.label_smoothing)
        return LinearMap(np.full((1, 1), config.label_smoothing), 50 + config.label_smoothing)

    encoder = SimpleNamespace(load=lambda *_, **__: None)
    source = SimpleNamespace(
        black_box=encoder,
        small=encoder,
        folder=None,
    )
    monkeypatch.setattr(mafin, "AugmentedSource", SimpleNamespace)
    for name, value in (
        ("encoder_source", lambda _: source),
        ("add_cache", lambda _, loaded: loaded),
        ("AugmentedEncoder", lambda *_: None),
        ("resolve_config", lambda _: config_of(settings)),
        ("limit_epochs", lambda config, *_: config),
        ("training_hardware", lambda _: None),
    ):
        monkeypatch.setattr(mafin, name, value)
    monkeypatch.setattr("engine.training.dataset.training_data", lambda *_: None)
    monkeypatch.setattr(mafin, "train_once", train_small)
    monkeypatch.setattr(linear_map, "train_linear_map", train_map)
    monkeypatch.setattr(
        linear_map,
        "MappedEncoder",
        lambda _, matrix: float(matrix[0, 0]),
    )
    context: Any = SimpleNamespace(
        settings=settings,
        report=None,
        emit=None,
        should_stop=never,
        should_finish=never,
        report_choice=lambda *_: None,
    )
    trainings = SmallTrainings()
    encoders = dict(train_systems(context, tmp_path, trainings=trainings))
    assert trainings.seconds == 2 * 3 * len(tried) == 2 * count_trainings(settings)
    assert trainings.steps == {"small": 1, "mafin": 1, "lambda-mafin": 1}
    assert set(trained) == {None, "mafin", "lambda-mafin", "full", 64}
    assert all(sorted(values) == list(tried) for values in trained.values())
    assert encoders["linear map"] == encoders["linear map of rank 64"] == max(tried)


def test_a_finished_training_is_kept_without_its_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = []

    def train(job: Job) -> TrainResult:
        trained.append(job)
        for name in ("adapter", "step-00000010", "step-00000020"):
            (job.folder / name).mkdir(parents=True, exist_ok=True)
        return TrainResult(
            job.folder / "adapter",
            20,
            10,
            41.5,
            [{"step": 10}],
            "no gain",
            7.5,
        )

    monkeypatch.setattr("engine.training.distributed.train_together", train)
    job: Any = SimpleNamespace(folder=tmp_path / "small" / "0.1")
    first = mafin.train_once(job)
    assert mafin.train_once(job) == first == train(job)
    assert len(trained) == 2, "once, and once for the comparison"
    (job.folder / "result.json").write_text("torn")
    assert mafin.train_once(job) == first
    assert sorted(path.name for path in job.folder.iterdir()) == ["adapter", "result.json"]
    shutil.rmtree(job.folder / "adapter")
    assert mafin.train_once(job) == first
    assert len(trained) == 4


def test_questions_of_one_text_are_resampled_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judgments = [
        Judgment("first", "first", "chunk", {1: 1}, source=7),
        Judgment("unanswered", "unanswered", "chunk", {}, source=8),
        Judgment("second", "second", "chunk", {2: 1}, source=7),
        Judgment("third", "third", "chunk", {3: 1}, source=9),
    ]
    matches = [FilenameMatch(judgment.text) for judgment in judgments]
    asked = QuerySet(
        "judged questions",
        "judged",
        judgments,
        matches,
    )
    clusters: list[int] = []

    def compare(*arguments: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        clusters.extend(arguments[-1].tolist())
        return {}, {}

    monkeypatch.setattr(
        mafin,
        "measured_sets",
        lambda *_: [asked],
    )
    monkeypatch.setattr(
        mafin,
        "train_systems",
        lambda *_, **__: [("black box", None)],
    )
    monkeypatch.setattr(
        mafin,
        "measure_encoder",
        lambda *_: {},
    )
    monkeypatch.setattr(mafin, "compare_values", compare)
    empty = ProjectFolder.create(tmp_path / "empty", {})
    _, _, seconds = mafin.compare_with_black_box(
        empty,
        tmp_path / "key",
        lambda _: None,
        never,
    )
    assert seconds == 0
    assert clusters == [7, 7, 9]


def test_without_a_small_model_there_is_nothing_to_compare(
    project: ProjectFolder, tmp_path: Path
) -> None:
    settings = project.settings()
    alone = settings.model_copy(
        update={"encoder": settings.encoder.model_copy(update={"small_model": ""})}
    )
    with closing(project.store()) as store, fails(UsageError, "small-model-missing"):
        next(
            train_systems(
                StageContext(project, alone, store, "study", "", "", [].append, never), tmp_path
            )
        )
