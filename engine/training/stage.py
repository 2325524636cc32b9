"""Stage `train`: ranked lists → a LoRA adapter, checkpointed under `checkpoints/FINGERPRINT`."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.errors import DamagedError, ModelError, NotBuiltError
from engine.core.records import Chunk, Query
from engine.encoders.for_project import CHUNKS, check_device, project_model, served_fingerprint
from engine.project.stage import ProjectSnapshot, Stage, StageContext
from engine.project.store.artifacts import Artifact
from engine.queries.choosing import with_backend
from engine.queries.heldout import cap_queries, too_few_to_choose
from engine.settings.load import Settings
from engine.training.config import TrainingConfig
from engine.training.recipe import found_first, resolve_config, told_objective, told_side

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.ranking.rankings_file import RankedLists
    from engine.training.cross_encoder import CrossEncoderFolder
    from engine.training.data import SampledLists, TrainingData
    from engine.training.trainer import TrainResult

VERSION = 1
ARTIFACT = "adapter"
MIN_QUERIES = 20
HARD_PER_QUERY = 10


class TrainStage(Stage):
    """Ranked lists → a LoRA adapter, checkpointed under `checkpoints/FINGERPRINT`."""

    version, artifact = VERSION, ARTIFACT

    def inputs(self, snapshot: ProjectSnapshot) -> dict[str, Any]:
        """The rankings and every number of the recipe."""
        rankings, queries = snapshot.need("rankings", "rank"), snapshot.need("queries", "generate")
        if rankings.info["queries"] != queries.info["content"]:
            raise NotBuiltError(
                "The rankings belong to former queries.",
                "'generate' has run since.",
                "Run 'engine rank' first, or 'engine run' for all.",
                code="rankings-outdated",
                stage="rank",
                command="rank",
            )
        config = resolve_config(snapshot)
        return {
            "rankings": rankings.fingerprint,
            "config": asdict(config) | _teacher_inputs(snapshot, config) | added_inputs(snapshot.settings),
            "base": served_fingerprint(snapshot, None, 1.0) if config.needs_vectors else "",
            "lists": snapshot.settings.ranking.model_dump(include={"m", "strategy"}),
            "model": project_model(snapshot.settings).fingerprint,
        }

    def preflight(self, snapshot: ProjectSnapshot) -> None:
        """Raises SettingsError for a recipe whose values do not go together, ModelError for a teacher that cannot be used,
        UsageError for what this machine does not have."""
        config = resolve_config(snapshot)
        _cross_encoder(snapshot, config)
        check_device(snapshot.settings, "train")
        if config.quantisation == "4-bit":
            from engine.encoders.hardware import foreseen
            from engine.encoders.quantisation import check_four_bit

            check_four_bit(foreseen(snapshot.settings.encoder.device, snapshot.settings.encoder.dtype, "train"))

    def verify(self, snapshot: ProjectSnapshot) -> None:
        """Raises DamagedError or ModelError when the adapter on disk is not the one that was trained."""
        info = snapshot.need(ARTIFACT, "train").info
        if info.get("adapter") and digest_of(
            snapshot.project.path / info["adapter"], info.get("side", "both")
        ) != info.get("digest"):
            raise DamagedError(
                f"The adapter {info['adapter']} is damaged.", "Its contents changed.", "Run 'engine train'.",
                code="adapter-changed", stage="train", command="train",
            )  # fmt: skip

    def run(self, context: StageContext) -> dict[str, Any]:
        """Train and keep the best adapter; with too few queries, say so and go on with the base encoder.

        A training that the user asked to finish early is done like one that ended by itself: it is up to date until an input
        or setting changes, and a forced one starts from the untouched encoder.
        """
        queries, chunks = context.store.queries(), context.store.chunks()
        reason = too_little(context.settings, queries, chunks)
        if reason:
            return _without_adapter(context, reason)
        present = {chunk.id for chunk in chunks}
        if in_vain := too_few_to_choose(sum(one.split == "heldout" and one.chunk_id in present for one in queries)):
            context.warn(in_vain)
        from engine.encoders.for_project import told_hardware
        from engine.encoders.quantisation import check_four_bit
        from engine.training.methods import learn

        config = resolve_config(context)
        if config.max_tokens < min(context.settings.corpus.chunk_tokens, context.settings.encoder.max_tokens):
            why = (
                "it is set in project.toml"
                if context.settings.training.max_tokens
                else "preset 'quick' takes less time so"
            )
            context.choose("tokens of a text", str(config.max_tokens), f"longer ones are cut in training: {why}")
        if config.method != "PT":
            settings, first = with_backend(context), found_first(context.store)
            context.choose("objective", config.objective, told_objective(settings, first))
            context.choose("side", config.side, told_side(settings, config, first))
            context.choose("teacher", *_told_teacher(config, context.settings.ranking.m))
            if context.settings.training.false_negatives not in (None, config.false_negatives):
                why = f"the loss '{config.objective}' follows the teacher in every chunk: it has no negatives"
                context.choose("false negatives", config.false_negatives, why)
        if config.never_refreshes:
            every, steps = config.refresh_every, config.steps
            context.warn(
                f"No hard negatives will be mined: training.refresh_every is {every}, and there are {steps} steps."
            )
        hardware = told_hardware(context, "train")
        if config.quantisation == "4-bit":
            check_four_bit(hardware.device)  # before the work that comes first
        data = training_data(context, config)
        checkpoints = context.project.path / "checkpoints" / context.fingerprint
        checkpoints.mkdir(mode=0o700, parents=True, exist_ok=True)
        model = project_model(context.settings)
        result, reason = learn(context, model, data, config, hardware, checkpoints)
        if result is None:
            summary = _without_adapter(context, reason)
            _drop_checkpoints(context.project.path / "checkpoints")
            return summary
        with context.project.building("adapters", context.fingerprint) as building:
            shutil.copytree(result.adapter, building.folder, dirs_exist_ok=True)
            if result.chunk_adapter is not None:
                shutil.copytree(result.chunk_adapter, building.folder / CHUNKS)
        side = trained_side(config, result)
        info = {
            "adapter": building.name, "reason": "", "steps": result.steps, "best_step": result.best_step,
            "ended": result.ended, "side": side,
            "digest": digest_of(context.project.path / building.name, side), "model": model.fingerprint,
            "history": {
                "losses": [[entry["step"], entry["loss"]] for entry in result.history if entry["step"]],
                "held_out": [[entry["step"], entry["ndcg_at_10"]] for entry in result.history],
            },
        }  # fmt: skip
        summary = _finish(context, building.name, info)
        _drop_checkpoints(context.project.path / "checkpoints")
        return summary


STAGE = TrainStage()


def _teacher_inputs(snapshot: ProjectSnapshot, config: TrainingConfig) -> dict[str, Any]:
    """A cross-encoder counts by its content, not by where it lies, and only where it teaches."""
    found = _cross_encoder(snapshot, config)
    return {"cross_encoder": found.fingerprint if found else ""}


def added_inputs(settings: Settings) -> dict[str, Any]:
    """Settings that came later count where they are set only: adapters of before are not trained anew."""
    added = {"query_share": settings.training.query_share, "lists_per_query": settings.ranking.lists_per_query}
    return {name: value for name, value in added.items() if value != 1}


def digest_of(folder: Path, side: str) -> str:
    """Of an adapter folder; of both adapters in it where chunks have one of their own."""
    from engine.encoders.fingerprint import adapter_digest

    parts = [adapter_digest(folder)]
    if side == "both-then-query":
        parts.append(adapter_digest(folder / CHUNKS))
    return "+".join(parts)


def trained_side(config: TrainingConfig, result: TrainResult) -> str:
    """What the adapters act on. A part for queries alone that found nothing better has left none."""
    if config.side == "both-then-query":
        return config.side if result.chunk_adapter else "both"
    return config.side


def _without_adapter(context: StageContext, reason: str) -> dict[str, Any]:
    context.warn(f"No adapter was trained: {reason}. Search uses the base encoder.")
    return _finish(context, "", {"adapter": None, "reason": reason, "history": {}})


def _finish(context: StageContext, folder: str, info: dict[str, Any]) -> dict[str, Any]:
    context.store.put_artifact(Artifact(ARTIFACT, context.fingerprint, folder, time.time(), info))
    return {key: value for key, value in info.items() if key not in ("history", "digest", "model")}


def train_rows(settings: Settings, queries: Sequence[Query], chunks: Sequence[Chunk]) -> list[int]:
    """The training queries whose chunks exist, of these the share that is wanted; a larger share holds the smaller ones."""
    present = {chunk.id for chunk in chunks}
    rows = [row for row, query in enumerate(queries) if query.split == "train" and query.chunk_id in present]
    if settings.training.query_share == 1 or not rows:
        return rows
    wanted = max(1, round(settings.training.query_share * len(rows)))
    return [rows[place] for place in cap_queries([queries[row].text for row in rows], wanted, settings.training.seed)]


def too_little(settings: Settings, queries: Sequence[Query], chunks: Sequence[Chunk]) -> str:
    """Why there is too little to learn from; empty when there is enough."""
    count = len(train_rows(settings, queries, chunks))
    if len(chunks) < 2:
        return "the documents make a single chunk"
    return (
        ""
        if count >= MIN_QUERIES
        else f"{count} training queries are too few to learn from (at least {MIN_QUERIES} are needed)"
    )


def _drop_checkpoints(root: Path) -> None:
    """All of them: what is finished needs none, and those of other settings are of no use any more."""
    shutil.rmtree(root, ignore_errors=True)


def training_data(context: StageContext, config: TrainingConfig) -> TrainingData:
    """The project's queries, their rankings and the chunks, with all that `config` learns from.

    Raises DamagedError where the rankings are not those of the queries.
    """
    import numpy as np

    from engine.ranking.rankings_file import RankedLists
    from engine.training.data import TrainingData

    queries, chunks = context.store.queries(), context.store.chunks()
    ranked = RankedLists.load(context.project.folder_of(context.need("rankings", "rank")))
    if ranked.query_ids.tolist() != [query.id for query in queries]:
        raise DamagedError(
            "The rankings do not fit the queries.", "Another set was ranked.", "Run 'engine rank --force'.",
            code="rankings-outdated", stage="rank", command="rank --force",
        )  # fmt: skip
    rows = train_rows(context.settings, queries, chunks)
    position = {chunk.id: place for place, chunk in enumerate(chunks)}
    heldout_rows = [
        row for row, query in enumerate(queries) if query.split == "validation" and query.chunk_id in position
    ]
    places = _positions(ranked.ids, position)
    base_queries, base_chunks = _base_vectors(context, config, [queries[row].text for row in rows], chunks)
    return TrainingData(
        queries=[queries[row].text for row in rows],
        positives=np.array([position[queries[row].chunk_id] for row in rows], dtype=np.int64),
        ranked_ids=places[rows],
        ranked_scores=ranked.scores[rows],
        chunks=[chunk.embedded_text for chunk in chunks],
        base_queries=base_queries,
        base_chunks=base_chunks,
        heldout_queries=[queries[row].text for row in heldout_rows],
        heldout_positives=np.array([position[queries[row].chunk_id] for row in heldout_rows], dtype=np.int64),
        heldout_hard=places[heldout_rows][:, :HARD_PER_QUERY] if heldout_rows else None,
        lists=_lists(context, ranked, rows, position) if config.uses_lists else None,
        cross_encoder=_cross_encoder(context, config),
    )


def _told_teacher(config: TrainingConfig, m: int) -> tuple[str, str]:
    """The teacher's name, and the reason. `m`: chunks in a ready-made list."""
    if not config.needs_teacher:
        return "none", f"the loss '{config.objective}' learns from the evidence chunk alone"
    if config.teacher == "auto":
        return config.used_teacher, f"goes with the loss '{config.objective}'"
    if config.used_teacher != "cross-encoder":
        return config.used_teacher, "chosen in project.toml"
    queries, own = config.queries_per_step, 1 + config.negatives_per_query
    width = m if config.uses_lists else own if config.uses_own_negatives else queries * own + config.shared_chunks
    return config.used_teacher, f"chosen in project.toml; it scores up to {queries * width:,} pairs in a step"


def _cross_encoder(snapshot: ProjectSnapshot, config: TrainingConfig) -> CrossEncoderFolder | None:
    """The checked folder of the teacher; a relative path lies in the project folder. Raises ModelError."""
    if config.used_teacher != "cross-encoder":
        return None
    from engine.training.cross_encoder import resolve_cross_encoder

    try:
        path = (snapshot.project.path / Path(config.cross_encoder).expanduser()).absolute()
        return resolve_cross_encoder(path, snapshot.project.path / "cache")
    except (OSError, ValueError, RuntimeError) as error:  # a path that no folder can have, or a home that is not known
        raise ModelError(
            f"The cross-encoder {config.cross_encoder!r} cannot be used.",
            f"{error}.",
            "Set training.cross_encoder to the path of its folder.",
            code="cross-encoder-invalid",
        ) from None


def _positions(ids: NDArray[np.int64], position: dict[int, int]) -> NDArray[np.int64]:
    """Chunk ids → positions; −1 for padding and for chunks that are gone since."""
    import numpy as np

    known = np.array(sorted(position), dtype=np.int64)
    place = np.array([position[key] for key in known.tolist()], dtype=np.int64)
    slot = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    return np.where(known[slot] == ids, place[slot], -1)


def _base_vectors(
    context: StageContext, config: TrainingConfig, texts: list[str], chunks: Sequence[Chunk]
) -> tuple[NDArray[np.float32] | None, NDArray[np.float32] | None]:
    """The untouched encoder's vectors, where the teacher looks at them."""
    if not config.needs_vectors:
        return None, None
    from engine.encoders.for_project import chunk_vectors, load_encoder, told_hardware

    encoder = load_encoder(context, told_hardware(context, "encode"))
    return encoder.encode_queries(texts, lambda _: context.check_stop()), chunk_vectors(context, encoder, chunks)


def _lists(context: StageContext, ranked: RankedLists, rows: list[int], position: dict[int, int]) -> SampledLists:
    """BMEmbed's lists: one chunk per rank interval (METHODS.md §1)."""
    import numpy as np

    from engine.ranking.rankings_file import RankedLists
    from engine.ranking.sampling import sample_lists
    from engine.training.data import SampledLists

    chosen = RankedLists(ranked.query_ids[rows], ranked.ids[rows], ranked.scores[rows])
    settings = context.settings.ranking
    seed = context.settings.training.seed
    sampled = sample_lists(chosen, settings.m, settings.lists_per_query, seed, settings.strategy)
    row_of = {int(query): row for row, query in enumerate(chosen.query_ids)}
    owners = np.array([row_of[int(query)] for query in sampled.query_ids], dtype=np.int64)
    return SampledLists(owners, _positions(sampled.chunk_ids, position), sampled.scores)
