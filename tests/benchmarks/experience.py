"""What adaptation is worth on public sets, by judged questions that decide nothing.

    python tests/benchmarks/experience.py --data ../shared/data --keep FOLDER
        [--out assets/experience.json] [--sets SET …] [--kinds KIND …] [--seeds N …]
        [--weights W …] [--set training.KEY=VALUE …] [--no-runs]

A run is one set, kind of training queries, seed and recipe: the product's default, but for what
`--set` names. FOLDER keeps projects and adapters, and of each run a line of runs.jsonl with nDCG@10
of every question, from which the output is computed: the prior of the gate,
`assets/experience.json`. A run that is there is not made again. The last step of a training counts,
without held-out checks, since what these gain is not the recipe's. Without --keep the table of the
output is printed.
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
OF_CHECKS = ("eval_every", "patience", "heldout_queries", "heldout_pool", "checkpoint_every")
RUNGS = {"judged": "judged", "synthetic": "heldout"}


@dataclass(frozen=True)
class Run:
    """One training and what it is measured by. `recipe`: every number of it."""

    set: str
    kind: str
    seed: int
    recipe: TrainingConfig

    @property
    def numbers(self) -> dict[str, Any]:
        """The numbers of the recipe that the last step depends on, as JSON has them."""
        numbers: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self.recipe)))
        return {name: value for name, value in numbers.items() if name not in OF_CHECKS}

    @property
    def key(self) -> str:
        """Names the run's adapter."""
        digest = json_sha256(self.numbers)[:8]
        return f"{self.set}-{self.kind}-{self.seed}-{digest}"

    def find(self, lines: Sequence[Line]) -> Line | None:
        """The last of the lines that is of this run, also where recipes had fewer numbers then."""
        for line in reversed(lines):
            same = (line["set"], line["kind"], line["seed"]) == (self.set, self.kind, self.seed)
            if same and line["config"].items() <= self.numbers.items():
                return line
        return None


def main() -> None:
    """Make the runs that are missing, then write what they found."""
    options = _options()
    if options.keep is None:
        print(format_table(json.loads(options.out.read_text(encoding="utf-8"))))
        return
    options.keep.mkdir(parents=True, exist_ok=True)
    runs_file = options.keep / "runs.jsonl"
    wanted = list(_wanted_runs(options))
    for run in wanted if not options.no_runs else []:
        known = run.find(_read_lines(runs_file))
        weights = _missing_weights(options.weights, known)
        if weights:
            made = _make_run(run, weights, known, options)
            with runs_file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(made) + "\n")
            print(format_run(made), flush=True)
    runs = [run.find(_read_lines(runs_file)) for run in wanted]
    found = [line for line in runs if line is not None]
    documents = {
        name: _digests(PublicSet(name, options.data, options.keep)) for name in options.sets
    }
    recipes = {run.kind: run.recipe for run in wanted}
    options.out.write_text(format_experience(found, recipes, documents), encoding="utf-8")


def _digests(one: PublicSet) -> list[str]:
    """What a project over the same documents is known by."""
    kind = "both" if one.has_queries("both") else "extractive"
    project = open_project(one, kind)
    with closing(project.folder.store()) as store:
        known = store.documents()
    if not known:
        project.run(("ingest",))
    with closing(project.folder.store()) as store:
        return document_digests(document.content_hash for document in store.documents())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=SHARED, help="folder of the public sets")
    parser.add_argument("--keep", type=Path, help="folder of projects, adapters and runs.jsonl")
    parser.add_argument("--out", type=Path, default=ASSET, help="file to write")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=["both", "extractive"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
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


def _wanted_runs(options: argparse.Namespace) -> Iterator[Run]:
    for seed in options.seeds:
        for kind in options.kinds:
            if kind == "extractive":
                backend = "extractive"
            else:
                backend = "imported"
            training = options.training | {"seed": seed}
            settings = validate({"queries": {"backend": backend}, "training": training})
            recipe = dataclasses.replace(config_of(settings), eval_every=0)
            for name in options.sets:
                if PublicSet(name, options.data, options.keep).has_queries(kind):
                    yield Run(name, kind, seed, recipe)


def _missing_weights(weights: Sequence[float], known: Line | None) -> list[float]:
    """Of the interpolation weights, those that a run has not measured yet."""
    if known is None:
        return list(weights)
    return [
        weight for weight in weights if candidate_name(weight) not in known["figures"]["judged"]
    ]


def _read_lines(path: Path) -> list[Line]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _make_run(
    run: Run, weights: Sequence[float], known: Line | None, options: argparse.Namespace
) -> Line:
    """Train where that is not done yet; measure base and interpolations, except what is `known`."""
    project = open_project(PublicSet(run.set, options.data, options.keep), run.kind)
    project.folder.change_settings({"training.seed": run.seed})
    project.run(("ingest", "index", "generate", "rank"))
    settings = project.folder.settings()
    adapter = options.keep / "adapters" / (known["key"] if known else run.key)
    with closing(project.folder.store()) as store:
        context = StageContext(
            project.folder, settings, store, "train", "", "", _ignore_event, _never
        )
        seconds = _train(context, run.recipe, adapter)
        figures = known["figures"] if known else {}
        for rung, found in _measure(context, adapter, run.recipe.adapter_scope, weights).items():
            figures.setdefault(rung, {}).update(found)
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


def _train(context: StageContext, config: TrainingConfig, adapter: Path) -> float:
    """Train into the folder `adapter` unless it is there; returns the seconds that it took, 0
    where it was there.
    """
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
    """By rung of the evidence, the figures of BM25, base and the interpolations."""
    rankers = Rankers(context, context.store.chunks())
    sets = build_query_sets(context, rankers.chunks)
    fuser = HybridFusion(
        context.settings, lambda one, ids: rankers.lexical.scores_many(one.texts, ids)
    )
    figures: dict[str, Figures] = {RUNGS[one.kind]: {} for one in sets}
    for one in sets:
        one.rankings[BM25], one.scores[BM25] = rankers.bm25(one.texts, rankers.find_allowed(one))
        figures[RUNGS[one.kind]][BM25] = {SEMANTIC: _gains(one, one.rankings[BM25], rankers)}
    for weight in (0.0, *weights):
        candidate = Candidate(context, adapter, scope, weight)
        vectors = candidate.chunk_vectors(rankers.chunks)
        for one in sets:
            queries = candidate.query_vectors(one.texts)
            name = candidate.name
            one.rankings[name], one.scores[name] = rankers.nearest(
                queries, vectors, rankers.find_allowed(one)
            )
            one.cross_scores[name] = rankers.scores_of(queries, vectors, one.rankings[BM25])
            found = {SEMANTIC: _gains(one, one.rankings[name], rankers)}
            for share in SHARES:
                found[f"{share:g}"] = _gains(one, fuser.fuse(one, name, share), rankers)
            figures[RUNGS[one.kind]][name] = found
    return figures


def _gains(one: QuerySet, rankings: Any, rankers: Rankers) -> list[float]:
    """NDCG@10 of the questions of a set that can be measured."""
    rows = one.usable()
    values = measure(
        rankings[rows], [one.judgments[row] for row in rows], rankers.document_of, ("ndcg@10",)
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
