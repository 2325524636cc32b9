"""What `engine doctor` finds out by looking harder: what a GPU would change, what the next run
needs, whether search by meaning finds in a large project what comparing all of its vectors
would.
"""

from __future__ import annotations

import shutil
import stat
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.disk import is_shared
from engine.core.errors import EngineError
from engine.core.messages.project import Finding
from engine.core.text import size_text
from engine.encoders.fingerprint import encoder_fingerprint
from engine.encoders.graph.shared_graphs import is_graph_shared
from engine.encoders.model_size import ModelSize, model_size
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import SemanticVectorsInfo, VectorsInfo
from engine.project.store.artifacts import Artifact
from engine.settings.schema import Settings
from engine.training.compute.memory import state_bytes
from engine.training.config import CPU_SLACK, TrainingConfig

if TYPE_CHECKING:
    from engine.encoders.hardware import Hardware
    from engine.encoders.model_folder import ModelFolder
    from engine.vectors.index import VectorIndex

WITH_A_GPU = (
    "the program works without; with one, training and embedding are faster, and large encoders"
    " practical"
)
NOT_KNOWN = "not known yet"
ENOUGH = "that is enough"
QUERIES = 50
DEPTH = 10
MIN_RECALL = 0.99
BYTES_PER_TOKEN = 4  # of English text; markup has more
# measured: database and BM25 index together up to 9 times small documents, and a copy is made of
# both
TEXT_COPIES = 18
PROGRAM_BYTES = (
    500_000_000  # measured: Python with torch, transformers and peft, before a model is loaded
)
# an id, and, measured, what usearch's graph of a large index adds to its copy of a vector in int8
LINK_BYTES = 160
WEIGHT_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
INDEX_BYTES = {"f32": 4, "f16": 2, "i8": 1}
ADAPTED_GRAPHS = (
    2  # in float32: that of the adapted encoder in use, and of the one that takes its place
)
# the adapter, its copy, and three checkpoints of four: weights, the best ones, AdamW's two moments
ADAPTERS_AT_ONCE = 14


def gpu() -> list[Finding]:
    """What is there; without a GPU, what one would change: facts of this program's own settings
    and plain arithmetic.
    """
    from engine.encoders.hardware import find_gpus

    gpus = find_gpus()
    if gpus.usable:
        return [
            Finding(
                "gpu",
                "good",
                f"{gpu.name}, {gpu.free / 1e9:.1f} GB of {gpu.memory / 1e9:.1f} GB free",
                (
                    "it has bfloat16 units: training and encoding use them"
                    if gpu.bfloat16
                    else "it has no bfloat16 units: it trains in float32 and encodes in float16"
                ),
            )
            for gpu in gpus.usable
        ]
    if gpus.built_for_cuda:
        why = "torch finds no card or no driver"
    else:
        why = "this torch is built for CPUs only"
    found = f"no CUDA GPU can be used ({why})"
    if gpus.cards:
        if gpus.built_for_cuda:
            advice = "its driver is needed"
        else:
            advice = "a CUDA build of torch is needed"
        found += (
            f", though the system lists {gpus.cards} NVIDIA card{'s' if gpus.cards > 1 else ''}"
            f" ({advice})"
        )
    return [Finding("gpu", "absent", found, WITH_A_GPU)]


def reranker(project: ProjectFolder, settings: Settings) -> list[Finding]:
    """How many passages it orders in a second, measured on the project's; nothing where there is
    none. Raises EngineError.
    """
    from engine.reranking.budget import MAX_PASSAGES, WARM_UP, BudgetedReranker
    from engine.reranking.chosen import reranker_of

    seconds = settings.search.rerank_seconds
    if (found := reranker_of(project, settings)) is None:
        return []
    timed = BudgetedReranker(found, seconds)
    timed.load()
    with closing(project.store()) as store:
        chunks = store.chunks_by_id(row for row, *_ in store.chunk_keys()[:MAX_PASSAGES])
    passages = [chunk.embedded_text for chunk in chunks.values()] or [WARM_UP] * MAX_PASSAGES
    scored = timed.scores("How long does this take?", passages)
    if scored.problem:
        raise scored.problem
    rate = len(scored.scores) / scored.seconds
    fit = (
        f"{min(MAX_PASSAGES, int(rate * seconds))} passages fit into {seconds:g} s"
        " (search.rerank_seconds)"
    )
    return [
        Finding(
            "reranker",
            "good",
            f"{found.name}, {rate:,.0f} pairs of query and passage a second",
            fit,
        )
    ]


def needs(project: ProjectFolder | None, settings: Settings, model: str) -> list[Finding]:
    """What the next run needs of memory and disk, against what is free.

    Nothing where model or device cannot be used.
    """
    from engine.encoders.hardware import choose_hardware
    from engine.encoders.model_folder import resolve_model
    from engine.training.recipe import config_of

    try:
        hardware = choose_hardware(settings.encoder.device, settings.encoder.dtype, purpose="train")
        folder = resolve_model(model)
        chunks, copied = corpus_extent(project) if project else (0, 0)
        config = config_of(settings)
        return [
            _memory_need(folder, config, hardware, chunks),
            *([_disk_need(project, folder, settings, config, chunks, copied)] if project else []),
        ]
    except EngineError:
        return []


def corpus_extent(project: ProjectFolder) -> tuple[int, int]:
    """(chunks, bytes of the database and the BM25 index)"""
    with closing(project.store()) as store:
        chunks = store.counts()["chunks"]
    files = [project.path / "project.db", *(project.path / "lexical").rglob("*")]
    return chunks, sum(map(file_size, files))


def file_size(path: Path) -> int:
    """Bytes of a file; 0 for anything else, also for a file that a run has just removed."""
    try:
        found = path.stat()
    except OSError:
        return 0
    if stat.S_ISREG(found.st_mode):
        return found.st_size
    return 0


def _memory_need(
    model: ModelFolder, config: TrainingConfig, hardware: Hardware, chunks: int
) -> Finding:
    free, where = free_memory(hardware)
    least, most = (
        training_need(model_size(model), config, hardware, chunks, room) for room in (0, free)
    )
    found = (
        f"at least {size_text(least)} for training with {model.name}, of {size_text(free)}"
        f" free{where}"
    )
    if least > free:
        todo = "choose a smaller encoder, lower encoder.max_tokens, or close programs"
        return Finding("memory need", "problem", found, todo)
    return Finding("memory need", "good", found, f"{ENOUGH}; it uses up to {size_text(most)} of it")


def free_memory(hardware: Hardware) -> tuple[int, str]:
    """Bytes free for a model, and the device they are on."""
    if hardware.device == "cpu":
        import psutil

        return int(psutil.virtual_memory().available), ""
    from engine.encoders.hardware import find_gpus

    number = int(hardware.device.partition(":")[2] or 0)
    return find_gpus().usable[number].free, " on the GPU"


def _disk_need(
    project: ProjectFolder,
    model: ModelFolder,
    settings: Settings,
    config: TrainingConfig,
    chunks: int,
    copied: int,
) -> Finding:
    free = shutil.disk_usage(project.path).free
    guess = ""
    known = chunks
    if not known:
        size = _documents_size(project, settings)
        if not size:
            return Finding("disk need", "good", NOT_KNOWN, "there are no documents to read yet")
        chunks = max(1, size // (BYTES_PER_TOKEN * settings.corpus.chunk_tokens))
        copied = TEXT_COPIES * size
        guess = f"nothing is read yet: estimated from {size_text(size)} of documents; "
    encoder = encoder_fingerprint(model, max_tokens=settings.encoder.max_tokens)
    base_graph = not is_graph_shared(encoder) or is_shared(project.path)
    need = disk_need(model_size(model), config, settings, chunks, copied, base_graph=base_graph)
    found = (
        f"{'at most' if known else 'about'} {size_text(need)} for a whole run, of {size_text(free)}"
        " free"
    )
    if need <= free:
        return Finding("disk need", "good", found, f"{guess}{ENOUGH}")
    return Finding("disk need", "problem", found, f"{guess}free some space before a run")


def training_need(
    size: ModelSize, config: TrainingConfig, hardware: Hardware, chunks: int, free: int
) -> int:
    """Memory of the stage that takes most, on the device that it runs on.

    `free`: bytes that are free there; with 0 it is the least that the stage needs.

    A step's graphs are kept as far as `graph_memory_mb` allows; beyond it, those of the
    micro-batches that run side by side. On a GPU both have what the weights leave free.
    """
    on_gpu = hardware.device != "cpu"
    weight = WEIGHT_BYTES[hardware.dtype]
    weights = size.parameters * weight
    if config.trains_all_weights:
        weights += state_bytes(size.parameters, hardware.device)
    graphs = _graphs(size, config, hardware, max(0, free - weights) if on_gpu else free)
    if on_gpu:
        return weights + graphs
    vectors = chunks * size.width * 4
    return weights + CPU_SLACK * graphs + vectors + PROGRAM_BYTES


@dataclass(slots=True)
class _Unloaded:
    """A model as the plan of a training sees it."""

    size: ModelSize
    weight: int
    has_dropout: bool

    def bytes_per_token(self, longest: int, *, checkpointing: bool | None = None) -> float:
        return self.size.graph_bytes_per_token(longest, self.weight, bool(checkpointing))


def _graphs(size: ModelSize, config: TrainingConfig, hardware: Hardware, free: int) -> int:
    """Bytes of what a step holds at once, as a training with so many bytes `free` would plan it."""
    from engine.training.compute.plan import make_plan
    from engine.training.compute.workers import choose_workers

    model = _Unloaded(size, WEIGHT_BYTES[hardware.dtype], config.has_dropout)
    plan = make_plan(model, config, hardware, free)
    per_token = model.bytes_per_token(config.max_tokens, checkpointing=plan.checkpointing)
    step = (
        config.queries_per_step * (2 + config.negatives_per_query) * config.max_tokens * per_token
    )
    micro_batch = max(config.max_tokens, plan.micro_batch_tokens) * per_token
    side_by_side = choose_workers(model, config, hardware, free)[0] * micro_batch
    return int(min(step, max(plan.graph_bytes, side_by_side)))


def disk_need(
    size: ModelSize,
    config: TrainingConfig,
    settings: Settings,
    chunks: int,
    copied: int,
    *,
    base_graph: bool,
) -> int:
    """Disk space that a whole run from the beginning takes up at most, beside what is there.

    `copied`: bytes of the database and the BM25 index, of which a second copy is made.
        `base_graph`: whether the run writes the
    graph of the encoder without an adapter, which lies once in the data folder.
    """
    encoders = 2 + len(settings.evaluation.interpolation_weights)
    cached = encoders * chunks * (2 * size.width + 32)
    index = chunks * ((INDEX_BYTES[settings.vectors.dtype] + 1) * size.width + LINK_BYTES)
    queries = min(settings.queries.max_queries, chunks * settings.queries.per_chunk)
    rankings = queries * min(settings.ranking.k, chunks) * 12
    if config.trains_all_weights:
        trained = size.parameters
    else:
        trained = size.adapter_parameters(config.lora_rank)
    adapter = 4 * trained
    adapters = ADAPTERS_AT_ONCE * (2 if config.method == "PT-FT" else 1)
    graphs = (ADAPTED_GRAPHS + base_graph) * 4 * size.parameters
    return cached + index + graphs + rankings + adapters * adapter + copied


def _documents_size(project: ProjectFolder, settings: Settings) -> int:
    """Bytes of the files that 'ingest' would read; 0 where a source is missing, which 'ingest'
    reports.
    """
    from engine.corpus.scan.scan import scan

    corpus = settings.corpus
    try:
        found = scan(project.sources(settings), corpus.include, corpus.exclude, pictures=corpus.ocr)
    except EngineError:
        return 0
    return sum(file.size for file in found.files)


def vector_index(project: ProjectFolder) -> list[Finding]:
    """The size of each vector index and how it is searched, with its recall; nothing where there
    is none yet.

    Raises EngineError.
    """
    with closing(project.store()) as store:
        artifact = store.artifact(VectorsInfo)
        semantic = store.artifact(SemanticVectorsInfo)
    if artifact is None or not artifact.folder:
        return []
    if semantic is None:
        return [_index_finding(project, artifact)]
    findings = [_index_finding(project, artifact, "hybrid search: ")]
    if semantic.info.shared:
        return [
            *findings,
            Finding(
                "vectors",
                "good",
                "semantic search: the same vectors",
                "queries have another encoder",
            ),
        ]
    return [*findings, _index_finding(project, semantic, "semantic search: ")]


def _index_finding(
    project: ProjectFolder, artifact: Artifact[VectorsInfo], used_by: str = ""
) -> Finding:
    from engine.vectors.index import EXACT_UP_TO, VectorIndex

    folder = project.folder_of(artifact)
    index = VectorIndex.open(folder)
    size = size_text(sum(file.stat().st_size for file in folder.iterdir() if file.is_file()))
    found = f"{used_by}{index.count:,} vectors, {size}"
    if index.count <= EXACT_UP_TO:
        return Finding("vectors", "good", found, "all are compared with a query")
    recall = recall_of(index)
    found = f"{found}, recall@{DEPTH} {recall:.3f} on {QUERIES} passages"
    if recall >= MIN_RECALL:
        return Finding("vectors", "good", found, "a graph names candidates, which are compared")
    to_do = (
        "'engine embed --force' builds the index anew; where that does not help, another encoder"
        " may tell texts apart better"
    )
    return Finding("vectors", "problem", found, to_do)


def recall_of(index: VectorIndex, seed: int = 0) -> float:
    """Share of the `DEPTH` chunks nearest to a chunk, itself aside, that search finds: mean over
    `QUERIES` chunks at random.
    """
    import numpy as np

    keys, rows = index.stored()
    shares = []
    for place in np.random.default_rng(seed).choice(len(keys), QUERIES):
        vector = index.form.vectors(rows[place : place + 1])[0]
        found, exact = (
            search(vector, DEPTH + 1)[0] for search in (index.search, index.search_exactly)
        )
        wanted = exact[exact != keys[place]][:DEPTH]
        shares.append(float(np.isin(wanted, found).mean()))
    return float(np.mean(shares))
