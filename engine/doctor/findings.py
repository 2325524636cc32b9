"""The doctor's longer examinations: GPU, needs of the next run, reranker, vector index."""

from __future__ import annotations

import shutil
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.core.disk import get_file_size, is_shared
from engine.core.errors import EngineError
from engine.core.messages.offer import TeacherCost
from engine.core.messages.project import Finding
from engine.core.text import size_text
from engine.encoders.fingerprint import encoder_fingerprint
from engine.encoders.graph.shared_graphs import is_graph_shared
from engine.encoders.model_size import ModelSize, model_size
from engine.endpoint.address import is_server
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import SemanticVectorsInfo, VectorsInfo
from engine.project.store.artifacts import Artifact
from engine.runs.teaching import count_passages
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
RECALL_QUERIES = 50
"""Number of random chunks with which the recall of a vector index is measured."""
DEPTH = 10
"""Number of nearest chunks whose recall is measured."""
MIN_RECALL = 0.99
BYTES_PER_TOKEN = 4
"""Bytes of English text per token; markup has more."""
TEXT_COPIES = 18
"""Bytes of database and BM25 index (9, measured) and their copies, per byte of small documents."""
PROGRAM_BYTES = 500_000_000
"""Memory of Python with torch, transformers and peft, before a model is loaded (measured)."""
LINK_BYTES = 160
"""Bytes per vector of its id and of what usearch's graph adds to its int8 copy (measured)."""
WEIGHT_BYTES = {
    "float32": 4,
    "bfloat16": 2,
    "float16": 2,
}
INDEX_BYTES = {
    "f32": 4,
    "f16": 2,
    "i8": 1,
}
ADAPTED_GRAPHS = 2
"""Float32 graphs of adapted encoders on disk: of the one in use, and of the one to replace it."""
ADAPTERS_AT_ONCE = 14
"""The adapter, its copy, and three checkpoints with four parts each.

The parts are the weights, the best weights and AdamW's two moments.
"""


def examine_gpu() -> list[Finding]:
    """Return the usable GPUs; without one, why none can be used, and what one would change."""
    from engine.encoders.hardware import find_gpus

    gpus = find_gpus()
    findings = []
    for gpu in gpus.usable:
        found = f"{gpu.name}, {gpu.free / 1e9:.1f} GB of {gpu.memory / 1e9:.1f} GB free"
        if gpu.bfloat16:
            follows = "it has bfloat16 units: training and encoding use them"
        else:
            follows = "it has no bfloat16 units: it trains in float32 and encodes in float16"
        findings.append(Finding("gpu", "good", found, follows))
    if findings:
        return findings
    if gpus.built_for_cuda:
        why = "torch finds no card or no driver"
        advice = "its driver is needed"
    else:
        why = "this torch is built for CPUs only"
        advice = "a CUDA build of torch is needed"
    found = f"no CUDA GPU can be used ({why})"
    if gpus.cards:
        cards = f"{gpus.cards} NVIDIA card{'s' if gpus.cards > 1 else ''}"
        found += f", though the system lists {cards} ({advice})"
    return [Finding("gpu", "absent", found, WITH_A_GPU)]


def examine_reranker(project: ProjectFolder, settings: Settings) -> list[Finding]:
    """Return how many passages the reranker scores in a second, measured on the project's.

    Empty without a reranker. Raises EngineError.
    """
    from engine.reranking.budget import MAX_PASSAGES, measure_speed
    from engine.reranking.chosen import reranker_of

    seconds = settings.search.rerank_seconds
    reranker = reranker_of(project, settings)
    if reranker is None:
        return []
    reranker.load()
    with closing(project.store()) as store:
        passages = store.sample_chunk_texts(MAX_PASSAGES)
        taught_passages = 0
        with suppress(EngineError):  # such as invalid training settings, which the run reports
            taught_passages = count_passages(
                ProjectSnapshot(project, settings, store), reranker.name
            )
    speed = measure_speed(reranker, passages, seconds)
    follows = f"{speed.passages} fit into {seconds:g} s of a search (search.rerank_seconds)"
    if taught_passages and not is_server(settings.search.reranker):
        cost = TeacherCost(
            speed.name,
            taught_passages,
            speed.passages_per_second,
        )
        follows += f"; as a teacher of the encoder it takes {cost.format_cost} (training.teacher)"
    state = "good" if speed.passages else "note"
    return [Finding("reranker", state, f"{speed.name} scores {speed.format_rate}", follows)]


def estimate_needs(
    project: ProjectFolder | None,
    settings: Settings,
    model: str,
) -> list[Finding]:
    """Return what the next run needs of memory and disk, against what is free.

    Empty where the model or the device cannot be used.
    """
    from engine.encoders.hardware import choose_hardware
    from engine.encoders.model_folder import resolve_model
    from engine.training.recipe import config_of

    try:
        hardware = choose_hardware(
            settings.encoder.device,
            settings.encoder.dtype,
            purpose="train",
        )
        folder = resolve_model(model)
        config = config_of(settings)
        if project is None:
            return [_compare_memory(folder, config, hardware, chunks=0)]
        chunks, text_bytes = measure_corpus(project)
        return [
            _compare_memory(folder, config, hardware, chunks),
            _compare_disk(project, folder, settings, config, chunks, text_bytes),
        ]
    except EngineError:
        return []


def measure_corpus(project: ProjectFolder) -> tuple[int, int]:
    """Return the number of chunks, and the bytes of database and BM25 index together."""
    with closing(project.store()) as store:
        chunks = store.count("chunks")
    files = [project.path / "project.db", *(project.path / "lexical").rglob("*")]
    return chunks, sum(map(get_file_size, files))


def _compare_memory(
    model: ModelFolder, config: TrainingConfig, hardware: Hardware, chunks: int
) -> Finding:
    """Compare the memory that a training needs with what is free."""
    free, where = measure_free_memory(hardware)
    size = model_size(model)
    least = estimate_training_memory(
        size,
        config,
        hardware,
        chunks,
        0,
    )
    most = estimate_training_memory(
        size,
        config,
        hardware,
        chunks,
        free,
    )
    found = (
        f"at least {size_text(least)} for training with {model.name}, of {size_text(free)}"
        f" free{where}"
    )
    if least > free:
        to_do = "choose a smaller encoder, lower encoder.max_tokens, or close programs"
        return Finding("memory need", "problem", found, to_do)
    return Finding(
        "memory need",
        "good",
        found,
        f"{ENOUGH}; it uses up to {size_text(most)} of it",
    )


def measure_free_memory(hardware: Hardware) -> tuple[int, str]:
    """Return the bytes that are free for a model, and a suffix: ` on the GPU`, or nothing."""
    if hardware.device == "cpu":
        import psutil

        return int(psutil.virtual_memory().available), ""
    from engine.encoders.hardware import find_gpus

    number = int(hardware.device.partition(":")[2] or 0)
    return find_gpus().usable[number].free, " on the GPU"


def _compare_disk(
    project: ProjectFolder,
    model: ModelFolder,
    settings: Settings,
    config: TrainingConfig,
    chunks: int,
    text_bytes: int,
) -> Finding:
    """Compare the disk space that a whole run needs with what is free.

    `chunks`, `text_bytes`: the result of `measure_corpus`. Before anything is read, both are
    estimated from the size of the documents.
    """
    free = shutil.disk_usage(project.path).free
    precision = "at most"
    basis = ""
    if not chunks:
        size = _measure_documents(project, settings)
        if not size:
            return Finding("disk need", "good", NOT_KNOWN, "there are no documents to read yet")
        chunks = max(1, size // (BYTES_PER_TOKEN * settings.corpus.chunk_tokens))
        text_bytes = TEXT_COPIES * size
        precision = "about"
        basis = f"nothing is read yet: estimated from {size_text(size)} of documents; "
    fingerprint = encoder_fingerprint(model, max_tokens=settings.encoder.max_tokens)
    base_graph = not is_graph_shared(fingerprint) or is_shared(project.path)
    need = estimate_disk_space(
        model_size(model), config, settings, chunks, text_bytes, base_graph=base_graph
    )
    found = f"{precision} {size_text(need)} for a whole run, of {size_text(free)} free"
    if need <= free:
        return Finding(
            "disk need",
            "good",
            found,
            f"{basis}{ENOUGH}",
        )
    return Finding(
        "disk need",
        "problem",
        found,
        f"{basis}free some space before a run",
    )


def estimate_training_memory(
    size: ModelSize, config: TrainingConfig, hardware: Hardware, chunks: int, free: int
) -> int:
    """Return the bytes that the largest stage takes on its device.

    `free`: the bytes that are free there; 0 gives the least that the stage needs. A step's
    graphs take what all its texts need, but at most `graph_memory_mb` or, if that is more, what
    the micro-batches need that run in parallel. On a GPU they are planned for the memory that
    the weights leave free.
    """
    is_on_gpu = hardware.device != "cpu"
    weights = size.parameters * WEIGHT_BYTES[hardware.dtype]
    if config.trains_all_weights:
        weights += state_bytes(size.parameters, hardware.device)
    if is_on_gpu:
        room = max(0, free - weights)
        return weights + _estimate_graphs(size, config, hardware, room)
    graphs = _estimate_graphs(
        size,
        config,
        hardware,
        free,
    )
    vectors = chunks * size.width * 4  # float32
    return weights + CPU_SLACK * graphs + vectors + PROGRAM_BYTES


@dataclass(slots=True)
class _UnloadedModel:
    """A model that is not loaded, as the planning of a training sees it (`GraphModel`)."""

    size: ModelSize
    weight_bytes: int
    has_dropout: bool

    def bytes_per_token(self, longest: int, *, checkpointing: bool | None = None) -> float:
        """Return the bytes of a graph per token. `longest`: tokens of the longest text."""
        return self.size.graph_bytes_per_token(
            longest,
            self.weight_bytes,
            bool(checkpointing),
        )


def _estimate_graphs(
    size: ModelSize,
    config: TrainingConfig,
    hardware: Hardware,
    free: int,
) -> int:
    """Return the bytes of the gradient graphs that a step holds at once, by a training's plan.

    `free`: the bytes that are free for them.
    """
    from engine.training.compute.plan import make_plan
    from engine.training.compute.workers import choose_workers

    model = _UnloadedModel(
        size,
        WEIGHT_BYTES[hardware.dtype],
        config.has_dropout,
    )
    plan = make_plan(
        model,
        config,
        hardware,
        free,
    )
    bytes_per_token = model.bytes_per_token(config.max_tokens, checkpointing=plan.checkpointing)
    # A step's texts: each query with its evidence chunk and its negatives.
    texts = config.queries_per_step * (2 + config.negatives_per_query)
    step = texts * config.max_tokens * bytes_per_token
    micro_batch = max(config.max_tokens, plan.micro_batch_tokens) * bytes_per_token
    workers = choose_workers(model, config, hardware, free).workers
    return int(min(step, max(plan.graph_bytes, workers * micro_batch)))


def estimate_disk_space(
    size: ModelSize,
    config: TrainingConfig,
    settings: Settings,
    chunks: int,
    text_bytes: int,
    *,
    base_graph: bool,
) -> int:
    """Return the bytes that a whole run adds at most to what is on the disk.

    `text_bytes`: those of the database and the BM25 index, which are copied. `base_graph`: whether
    the run writes the graph of the encoder without an adapter, which is otherwise shared in the
    data folder.
    """
    encoders = 2 + len(settings.evaluation.interpolation_weights)
    cached = encoders * chunks * (2 * size.width + 32)  # float16 vectors and their keys
    # A vector as the index stores it, and its copy in int8.
    index = chunks * ((INDEX_BYTES[settings.vectors.dtype] + 1) * size.width + LINK_BYTES)
    queries = min(settings.queries.max_queries, chunks * settings.queries.per_chunk)
    rankings = queries * min(settings.ranking.k, chunks) * 12  # an id and a float32 score
    if config.trains_all_weights:
        trained = size.parameters
    else:
        trained = size.adapter_parameters(config.lora_rank)
    adapters = ADAPTERS_AT_ONCE
    if config.method == "PT-FT":
        adapters *= 2
    graphs = (ADAPTED_GRAPHS + base_graph) * 4 * size.parameters
    return cached + index + graphs + rankings + adapters * 4 * trained + text_bytes


def _measure_documents(project: ProjectFolder, settings: Settings) -> int:
    """Return the bytes of the files that 'ingest' would read.

    0 where a source is missing, which 'ingest' reports.
    """
    from engine.corpus.scan.scan import scan

    corpus = settings.corpus
    try:
        result = scan(
            project.sources(settings), corpus.include, corpus.exclude, pictures=corpus.ocr
        )
    except EngineError:
        return 0
    return sum(file.size for file in result.files)


def examine_vector_index(project: ProjectFolder) -> list[Finding]:
    """Return the size of each vector index, how it is searched, and its recall.

    Empty before there is an index. Raises EngineError.
    """
    with closing(project.store()) as store:
        artifact = store.artifact(VectorsInfo)
        semantic = store.artifact(SemanticVectorsInfo)
    if artifact is None or not artifact.folder:
        return []
    if semantic is None:
        return [_examine_index(project, artifact)]
    findings = [_examine_index(project, artifact, "hybrid search: ")]
    if semantic.info.shared:
        found = "semantic search: the same vectors"
        findings.append(Finding("vectors", "good", found, "queries have another encoder"))
    else:
        findings.append(_examine_index(project, semantic, "semantic search: "))
    return findings


def _examine_index(
    project: ProjectFolder, artifact: Artifact[VectorsInfo], used_by: str = ""
) -> Finding:
    """Return the size of an index, and its recall if it has a graph.

    `used_by`: begins the finding, such as `hybrid search: `.
    """
    from engine.vectors.index import VectorIndex

    folder = project.folder_of(artifact)
    index = VectorIndex.open(folder)
    size = size_text(sum(file.stat().st_size for file in folder.iterdir() if file.is_file()))
    found = f"{used_by}{index.count:,} vectors, {size}"
    if index.count <= index.sizes.exact_up_to:
        return Finding("vectors", "good", found, "all are compared with a query")
    recall = measure_recall(index)
    found = f"{found}, recall@{DEPTH} {recall:.3f} on {RECALL_QUERIES} passages"
    if recall >= MIN_RECALL:
        return Finding("vectors", "good", found, "a graph names candidates, which are compared")
    to_do = (
        "'engine embed --force' rebuilds the index; if that does not help, another encoder"
        " may tell texts apart better"
    )
    return Finding("vectors", "problem", found, to_do)


def measure_recall(index: VectorIndex) -> float:
    """Return the mean recall@`DEPTH` of the index against exact search.

    The queries are `RECALL_QUERIES` random chunks; a chunk itself does not count.
    """
    import numpy as np

    keys, rows = index.stored()
    recalls = []
    for row in np.random.default_rng(0).choice(len(keys), RECALL_QUERIES):
        vector = index.form.vectors(rows[row : row + 1])[0]
        found_keys = index.search(vector, DEPTH + 1)[0]
        exact_keys = index.search_exactly(vector, DEPTH + 1)[0]
        nearest = exact_keys[exact_keys != keys[row]][:DEPTH]
        recalls.append(float(np.isin(nearest, found_keys).mean()))
    return float(np.mean(recalls))
