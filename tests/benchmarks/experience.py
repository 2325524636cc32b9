"""What adaptation is worth on public sets, by judged questions that decide nothing.

    python tests/benchmarks/experience.py --data ../shared/data --keep FOLDER
        [--out assets/experience.json] [--sets SET …] [--kinds KIND …] [--seeds N …]
        [--weights W …] [--set training.KEY=VALUE …] [--no-runs]

A run is one set, kind of training queries, seed and recipe: the product's default, but for what
`--set` names. FOLDER keeps projects and adapters, and a line of runs.jsonl for each run, with
nDCG@10 of every question. From these lines the output is computed, the prior of the gate in
`assets/experience.json`. A run that is there already is not made again. The last step of a training
counts, without held-out checks, since what these gain is not the recipe's. Without --keep the table
of the output is printed.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from engine.core.disk import json_sha256
from engine.core.events import Event, TrainStep
from engine.core.systems import BM25, candidate_name
from engine.encoders.for_project import model_fingerprint, project_model, training_hardware
from engine.evaluation.candidates import Candidate
from engine.evaluation.choosing.fusion import HybridFusion
from engine.evaluation.comparison import measure
from engine.evaluation.experience import document_digests
from engine.evaluation.query_sets import QuerySet, build_query_sets
from engine.evaluation.rankers import Rankers
from engine.project.stage import StageContext
from engine.settings.load import parse_value, validate
from engine.training.config import TrainingConfig
from engine.training.dataset import training_data
from engine.training.job import Job
from engine.training.recipe import config_of
from engine.training.trainer import train
from tests.benchmarks.experience_results import (
    SEMANTIC,
    SHARES,
    Figures,
    Line,
    format_experience,
    format_run,
    format_table,
)
from tests.benchmarks.experience_sets import KINDS, SETS, PublicSet, open_project

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
ASSET = Path(__file__).resolve().parents[2] / "assets" / "experience.json"
CHECK_SETTINGS = (
    "eval_every",
    "patience",
    "heldout_queries",
    "heldout_pool",
    "checkpoint_every",
)
# By kind of a query set, the name of its figures.
RUNGS = {"judged": "judged", "synthetic": "heldout"}


@dataclass(frozen=True)
class Run:
    """One training, and what it is measured by.

    `kind`: of training queries, one of `KINDS`.
    """

    set: str
    kind: str
    seed: int
    recipe: TrainingConfig

    @property
    def numbers(self) -> dict[str, Any]:
        """The numbers of the recipe that the last step depends on, as JSON has them."""
        numbers: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self.recipe)))
        return {name: value for name, value in numbers.items() if name not in CHECK_SETTINGS}

    @property
    def key(self) -> str:
        """The name of the run's adapter."""
        digest = json_sha256(self.numbers)[:8]
        return f"{self.set}-{self.kind}-{self.seed}-{digest}"

    def find(self, lines: Sequence[Line]) -> Line | None:
        """Return the last of the lines that is of this run, None if there is none.

        It may be of a time when recipes had fewer numbers.
        """
        for line in reversed(lines):
            is_same = (line["set"], line["kind"], line["seed"]) == (self.set, self.kind, self.seed)
            if is_same and line["config"].items() <= self.numbers.items():
                return line
        return None


def main() -> None:
    """Make the runs that are missing, then write the output."""
    options = _options()
    if options.keep is None:
        print(format_table(json.loads(options.out.read_text(encoding="utf-8"))))
        return
    options.keep.mkdir(parents=True, exist_ok=True)
    runs_file = options.keep / "runs.jsonl"
    runs = list(_list_runs(options))
    if not options.no_runs:
        for run in runs:
            _complete_run(run, runs_file, options)
    lines = _read_lines(runs_file)
    results = []
    for run in runs:
        line = run.find(lines)
        if line is not None:
            results.append(line)
    documents = {
        name: _read_digests(PublicSet(name, options.data, options.keep)) for name in options.sets
    }
    recipes = {run.kind: run.recipe for run in runs}
    options.out.write_text(format_experience(results, recipes, documents), encoding="utf-8")


def _complete_run(
    run: Run,
    runs_file: Path,
    options: argparse.Namespace,
) -> None:
    """Make a run, or measure the interpolations that it lacks, and write its line."""
    known = run.find(_read_lines(runs_file))
    weights = list(options.weights)
    if known is not None:
        measured = known["figures"]["judged"]
        weights = [weight for weight in weights if candidate_name(weight) not in measured]
    if weights:
        line = _make_run(
            run,
            weights,
            known,
            options,
        )
        with runs_file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(format_run(line), flush=True)


def _read_digests(public_set: PublicSet) -> list[str]:
    """Return the digests by which a project over the same documents is recognised."""
    kind = "both" if public_set.has_queries("both") else "extractive"
    project = open_project(public_set, kind)
    with closing(project.folder.store()) as store:
        is_ingested = bool(store.documents())
    if not is_ingested:
        project.run(("ingest",))
    with closing(project.folder.store()) as store:
        return document_digests(document.content_hash for document in store.documents())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=SHARED,
        help="folder of the public sets",
    )
    parser.add_argument(
        "--keep",
        type=Path,
        help="folder of projects, adapters and runs.jsonl",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=ASSET,
        help="file to write",
    )
    parser.add_argument(
        "--sets",
        nargs="+",
        choices=SETS,
        default=list(SETS),
    )
    parser.add_argument(
        "--kinds",
        nargs="+",
        choices=KINDS,
        default=["both", "extractive"],
    )
    parser.add_argument(
        "--seeds",
        nargs="+",
        type=int,
        default=[0, 1, 2],
    )
    parser.add_argument(
        "--weights", nargs="+", type=float, default=[0.5, 1.0], help="interpolation weights"
    )
    parser.add_argument(
        "--set", nargs="+", default=[], help="settings of another recipe than the default"
    )
    parser.add_argument(
        "--no-runs", action="store_true", help="only write what the runs so far found"
    )
    options = parser.parse_args()
    options.training = {}
    for text in options.set:
        name, _, value = text.removeprefix("training.").partition("=")
        options.training[name] = parse_value(value)
    return options


def _list_runs(options: argparse.Namespace) -> Iterator[Run]:
    """Return the runs of all seeds, kinds and sets, without kinds that a set has no queries of."""
    for seed in options.seeds:
        for kind in options.kinds:
            backend = "extractive" if kind == "extractive" else "imported"
            training = options.training | {"seed": seed}
            settings = validate({"queries": {"backend": backend}, "training": training})
            recipe = dataclasses.replace(config_of(settings), eval_every=0)
            for name in options.sets:
                if PublicSet(name, options.data, options.keep).has_queries(kind):
                    yield Run(
                        name,
                        kind,
                        seed,
                        recipe,
                    )


def _read_lines(path: Path) -> list[Line]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _make_run(
    run: Run, weights: Sequence[float], known: Line | None, options: argparse.Namespace
) -> Line:
    """Train the adapter, if there is none yet, and measure it; return the run's line.

    `weights`: of the interpolations to measure. `known`: the line so far.
    """
    project = open_project(PublicSet(run.set, options.data, options.keep), run.kind)
    project.folder.change_settings({"training.seed": run.seed})
    project.run(("ingest", "index", "generate", "rank"))
    settings = project.folder.settings()
    adapter = options.keep / "adapters" / (known["key"] if known else run.key)
    with closing(project.folder.store()) as store:
        context = StageContext(
            project.folder, settings, store, "train", "", "", _ignore_event, _never
        )
        seconds = _train(
            context,
            run.recipe,
            adapter,
        )
        figures = known["figures"] if known else {}
        measured = _measure(
            context,
            adapter,
            run.recipe.adapter_scope,
            weights,
        )
        for rung, rung_figures in measured.items():
            figures.setdefault(rung, {}).update(rung_figures)
        hardware = training_hardware(context)
        return {
            "key": adapter.name,
            "set": run.set,
            "kind": run.kind,
            "seed": run.seed,
            "config": run.numbers,
            "encoder": {
                "name": project_model(settings).name,
                "fingerprint": model_fingerprint(context),
            },
            "device": [hardware.device, hardware.dtype],
            "chunks": store.counts()["chunks"],
            "queries": store.query_counts()[1],
            "training_seconds": seconds or (known or {}).get("training_seconds"),
            "date": datetime.date.today().isoformat(),
            "figures": figures,
        }


def _train(
    context: StageContext,
    config: TrainingConfig,
    adapter: Path,
) -> float:
    """Train into the folder `adapter` unless it exists, and return the seconds that it took."""
    if adapter.exists():
        return 0.0
    started = time.monotonic()
    checkpoints = adapter.with_name(adapter.name + ".checkpoints")
    checkpoints.mkdir(parents=True, exist_ok=True)
    data = training_data(context, config)
    hardware = training_hardware(context)
    result = train(
        Job(project_model(context.settings), data, config, hardware, checkpoints, _print_progress)
    )
    shutil.copytree(result.adapter, adapter)
    shutil.rmtree(checkpoints)
    return round(time.monotonic() - started, 1)


def _measure(
    context: StageContext, adapter: Path, scope: str, weights: Sequence[float]
) -> dict[str, Figures]:
    """Return the figures of BM25, base and the interpolations, by rung of the evidence."""
    rankers = Rankers(context, context.store.chunks())
    query_sets = build_query_sets(context, rankers.chunks)
    fuser = HybridFusion(
        context.settings, lambda queries, ids: rankers.lexical.scores_many(queries.texts, ids)
    )
    figures: dict[str, Figures] = {RUNGS[queries.kind]: {} for queries in query_sets}
    for queries in query_sets:
        ranking, scores = rankers.bm25(queries.texts, rankers.find_allowed(queries))
        queries.rankings[BM25] = ranking
        queries.scores[BM25] = scores
        figures[RUNGS[queries.kind]][BM25] = {SEMANTIC: _measure_ndcg(queries, ranking, rankers)}
    for weight in (0.0, *weights):
        candidate = Candidate(
            context,
            adapter,
            scope,
            weight,
        )
        name = candidate.name
        chunk_vectors = candidate.chunk_vectors(rankers.chunks)
        for queries in query_sets:
            vectors = candidate.query_vectors(queries.texts)
            allowed = rankers.find_allowed(queries)
            ranking, scores = rankers.nearest(vectors, chunk_vectors, allowed)
            queries.rankings[name] = ranking
            queries.scores[name] = scores
            queries.cross_scores[name] = rankers.scores_of(
                vectors, chunk_vectors, queries.rankings[BM25]
            )
            values = {SEMANTIC: _measure_ndcg(queries, ranking, rankers)}
            for share in SHARES:
                fused = fuser.fuse(queries, name, share)
                values[f"{share:g}"] = _measure_ndcg(queries, fused, rankers)
            figures[RUNGS[queries.kind]][name] = values
    return figures


def _measure_ndcg(
    queries: QuerySet,
    rankings: Any,
    rankers: Rankers,
) -> list[float]:
    """Return nDCG@10 of each question of a set that can be measured."""
    rows = queries.usable()
    judgments = [queries.judgments[row] for row in rows]
    values = measure(
        rankings[rows],
        judgments,
        rankers.document_of,
        ("ndcg@10",),
    )
    return [round(value, 4) for value in values["ndcg@10"].tolist()]


def _never() -> bool:
    return False


def _ignore_event(_event: Event) -> None:
    return


def _print_progress(event: Event) -> None:
    if isinstance(event, TrainStep) and event.step % 10 == 0:
        print(f"step {event.step}, loss {event.loss:.3f}", file=sys.stderr)


if __name__ == "__main__":
    main()
