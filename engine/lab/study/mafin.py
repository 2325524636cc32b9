"""Mafin's tables (METHODS.md §2), measured on the judged queries of a project.

They compare a black box, a small model, and combinations of both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from engine.core.arrays import Doubles
from engine.core.disk import disk_errors, write_text
from engine.core.errors import UsageError
from engine.core.platforms.files import try_remove_tree
from engine.core.records import Chunk
from engine.encoders.for_project import add_cache, chunk_vectors, training_hardware
from engine.encoders.kinds.augmented import AugmentedEncoder, AugmentedSource
from engine.encoders.kinds.chosen import encoder_source
from engine.evaluation.comparison import compare_values, measure
from engine.evaluation.judgments import clusters_of
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.rankers import Rankers
from engine.lab.study.measures import Values, measured_sets
from engine.metrics.retrieval import MAFIN
from engine.project.stage import StageContext
from engine.settings.training_schema import Augmentation
from engine.training.recipe import graded_texts_if_selected, limit_epochs, resolve_config

if TYPE_CHECKING:
    from engine.core.events import Event
    from engine.encoders.encoder import Encoder, EncoderSource
    from engine.project.folder import ProjectFolder
    from engine.settings.schema import Settings
    from engine.training.job import Job
    from engine.training.trainer import TrainResult

LINEAR_RATE = 1e-4
"""Learning rate of linear maps."""
RANK = 64
"""Rank of the linear map that has a rank."""
BLACK_BOX = "black box"
SMALL = "small model"
CONCATENATION = "concatenation"
UNTRAINED = (BLACK_BOX, SMALL, CONCATENATION)
TUNED = "tuned small model"
TRAINED = {
    TUNED: "small",
    "concatenation after tuning": "small",
    "Mafin": "mafin",
    "λ-Mafin": "lambda-mafin",
}
"""System → the training of its small model."""
SMOOTHING = (
    0.0,
    0.1,
    0.2,
    0.3,
    0.4,
    0.5,
)
"""Values of ε that the paper tries (section 4.3)."""


class Checked(Protocol):
    """The result of a training whose checkpoints were measured on validation queries."""

    @property
    def best_ndcg_at_10(self) -> float | None:
        """nDCG@10 of the best checkpoint in percent, None if none was measured."""


Result = TypeVar("Result", bound=Checked)


@dataclass(slots=True)
class SmallTrainings:
    """Steps and time of the trainings of the small model."""

    steps: dict[str, int] = field(default_factory=dict)
    """Kind of training, as in `TRAINED` → the step that was kept."""
    seconds: float = 0.0
    """Time of all trainings, with those of earlier runs and of each label smoothing tried."""


def count_trainings(settings: Settings) -> int:
    """Return how often the small model is trained at most: for each loss, with each smoothing."""
    losses = len(set(TRAINED.values()))
    if settings.training.label_smoothing is not None:
        return losses
    return losses * len(SMOOTHING)


def train_systems(
    context: StageContext,
    folder: Path,
    rank: int = RANK,
    trainings: SmallTrainings | None = None,
    *,
    untrained: bool = False,
) -> Iterator[tuple[str, Encoder]]:
    """Yield (name, encoder) for the rows of tables 1 to 4, each trained when it is requested.

    METHODS.md §2, "Comparison methods". Trainings use the project's recipe (`training.preset =
    "mafin"` is the paper's) and the rankings of the stage `rank`; they differ in which weights are
    trained and which vectors the loss sees. Checkpoints and adapters are kept in `folder`, so a
    second call trains nothing again. `rank`: the rank of the linear map that has one. `trainings`:
    an object to fill with steps and time. `untrained`: yield only the rows that need no training.
    Raises UsageError without encoder.small_model, and what training raises.
    """
    from engine.training.dataset import training_data
    from engine.training.job import Job
    from engine.training.model.linear_map import LinearMap, MappedEncoder, train_linear_map

    chosen = context.settings.encoder
    source = _require_small_model(encoder_source(chosen))
    black_box = add_cache(
        context, source.black_box.load(chosen.max_tokens, report=context.report_choice)
    )

    def load_small(adapter: Path | None = None) -> Encoder:
        return add_cache(context, source.small.load(chosen.max_tokens, adapter))

    yield BLACK_BOX, black_box
    yield SMALL, load_small()
    yield CONCATENATION, AugmentedEncoder(black_box, load_small())
    if untrained:
        return
    trainings = trainings or SmallTrainings()
    config = resolve_config(context)
    data = training_data(context, config)
    hardware = training_hardware(context)
    config = limit_epochs(
        config,
        data,
        context.settings,
    )
    smoothing_is_set = context.settings.training.label_smoothing is not None
    searches_smoothing = config.objective == "plackett_luce" and not smoothing_is_set

    def choose_smoothing(train: Callable[[float], Result]) -> Result:
        """Return the result of `train` with the best label smoothing, or with the one set."""
        if not searches_smoothing:
            return train(config.label_smoothing)
        smoothing, result = best_smoothing(train, config.label_smoothing)
        why = "the best nDCG@10 of the validation queries"
        context.report_choice(
            "label smoothing",
            f"{smoothing:g}",
            why,
        )
        return result

    def train_small(augmentation: Augmentation | None) -> Encoder:
        """Return the trained small model.

        The loss sees the concatenation with the black box's vectors as `augmentation` says; None:
        the small model's vectors alone.
        """
        kind = augmentation or "small"

        def train(smoothing: float) -> TrainResult:
            job = Job(
                model=source.folder,
                data=data,
                config=replace(config, augmentation=augmentation, label_smoothing=smoothing),
                hardware=hardware,
                folder=folder / kind / f"{smoothing:g}",
                emit=context.emit,
                should_stop=context.should_stop,
                should_finish=context.should_finish,
            )
            result = train_once(job)
            trainings.seconds += result.seconds
            return result

        result = choose_smoothing(train)
        trainings.steps[kind] = result.best_step
        return load_small(result.adapter)

    def map_black_box(map_rank: int | None) -> Encoder:
        """Return the black box with vectors W e, normalised, for a trained matrix W.

        W is I + A, or with a rank I + U Vᵀ.
        """

        def train(smoothing: float) -> LinearMap:
            map_config = replace(
                config,
                learning_rate=LINEAR_RATE,
                label_smoothing=smoothing,
            )
            return train_linear_map(data, map_config, map_rank)

        return MappedEncoder(black_box, choose_smoothing(train).matrix)

    tuned = train_small(None)
    yield TUNED, tuned
    yield "concatenation after tuning", AugmentedEncoder(black_box, tuned)
    yield "linear map", map_black_box(None)
    yield f"linear map of rank {rank}", map_black_box(rank)
    yield "Mafin", AugmentedEncoder(black_box, train_small("mafin"))
    yield "λ-Mafin", AugmentedEncoder(black_box, train_small("lambda-mafin"))


def train_once(job: Job) -> TrainResult:
    """Train by `train_together`, or return the result that an earlier run left in the job's folder.

    Checkpoints are removed at the end. If all weights are trained, they take eight times the space
    of the adapter, and a comparison has up to 18 trainings.
    """
    from engine.training.distributed import train_together
    from engine.training.trainer import TrainResult

    record = job.folder / "result.json"
    with suppress(OSError, ValueError, TypeError):
        result = TrainResult(job.folder / "adapter", **json.loads(record.read_text("utf-8")))
        if result.adapter.is_dir():
            return result
    result = train_together(job)
    figures = asdict(result)
    del figures["adapter"]
    with disk_errors("A trained small model could not be kept."):
        write_text(record, json.dumps(figures))
    for checkpoint in job.folder.glob("step-*"):
        try_remove_tree(checkpoint)
    return result


def _require_small_model(source: EncoderSource) -> AugmentedSource:
    """Return `source`, typed. Raises UsageError if it has no small model."""
    if isinstance(source, AugmentedSource):
        return source
    raise UsageError(
        "There is no small model.",
        "encoder.small_model is empty.",
        "Name a model there.",
        code="small-model-missing",
    )


def best_smoothing(train: Callable[[float], Result], usual: float) -> tuple[float, Result]:
    """Return the label smoothing that does best on validation queries, and the result of `train`.

    The values of `SMOOTHING` are tried; if several are best, the smallest is returned. Without
    validation queries, it is the `usual` one.
    """
    first = train(usual)
    if first.best_ndcg_at_10 is None:
        return usual, first
    results = {}
    for smoothing in SMOOTHING:
        results[smoothing] = first if smoothing == usual else train(smoothing)
    best = max(results, key=lambda smoothing: results[smoothing].best_ndcg_at_10 or 0.0)
    return best, results[best]


def measure_encoder(
    context: StageContext, encoder: Encoder, chunks: Sequence[Chunk], judged: QuerySet
) -> dict[str, Doubles]:
    """Return Recall@K and nDCG@K of each usable query of a set, in [0, 1].

    The gain is 2^rel − 1 (`MAFIN`).
    """
    rankers = Rankers(context, list(chunks))
    vectors = chunk_vectors(context, encoder, chunks)
    queries = encoder.encode_queries(judged.texts, lambda _done: context.check_stop())
    allowed = rankers.find_allowed(judged)
    ids, _ = rankers.nearest(
        queries,
        vectors,
        allowed,
        encoder.similarity,
    )
    return measure(
        ids[judged.usable()],
        judged.usable_judgments(),
        rankers.document_of,
        MAFIN,
    )


def compare_with_black_box(
    copy: ProjectFolder,
    folder: Path,
    emit: Callable[[Event], None],
    should_stop: Callable[[], bool],
) -> tuple[dict[str, Values], str, float]:
    """Return figures by system, the reason if nothing was trained, and the seconds of trainings.

    `copy` is the study's copy of the project. Figures are in percent and include paired differences
    to the black box; trained systems also have those to the small model that was tuned alone.
    Nothing is trained if there are too few training queries of the kind that the settings select.
    Trainings are kept in `folder`, so that a killed comparison resumes. Raises CancelledError, and
    what training raises.
    """
    from engine.training.dataset import why_untrained

    with closing(copy.store()) as store:
        settings = copy.settings()
        context = StageContext(
            project=copy,
            settings=settings,
            store=store,
            stage="train",
            fingerprint=folder.name,
            emit=emit,
            should_stop=should_stop,
        )
        chunks = store.chunks()
        judged = measured_sets(context, chunks)[0]
        graded = graded_texts_if_selected(context)
        reason = why_untrained(
            settings,
            store.queries(),
            chunks,
            graded,
        )
        trainings = SmallTrainings()
        systems = train_systems(
            context,
            folder,
            trainings=trainings,
            untrained=bool(reason),
        )
        values = {}
        for name, encoder in systems:
            values[name] = measure_encoder(
                context,
                encoder,
                chunks,
                judged,
            )
    trained = [name for name in values if name not in UNTRAINED]
    pairs = {(name, BLACK_BOX): MAFIN for name in values if name != BLACK_BOX}
    pairs |= {(name, TUNED): MAFIN for name in trained if name != TUNED}
    figures, gaps = compare_values(
        values,
        pairs,
        settings.evaluation.bootstrap_samples,
        settings.training.seed,
        clusters_of(judged.usable_judgments()),
    )
    rows: dict[str, Values] = {}
    for name, by_metric in figures.items():
        rows[name] = {metric: asdict(figure) for metric, figure in by_metric.items()}
        if name in TRAINED:
            rows[name]["step"] = trainings.steps[TRAINED[name]]
    for (name, other), differences in gaps.items():
        prefix = "Δ " if other == BLACK_BOX else "Δ to only finetune, "
        for metric, difference in differences.items():
            rows[name][f"{prefix}{metric}"] = asdict(difference)
    return rows, reason, trainings.seconds
