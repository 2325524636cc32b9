"""Whether time and memory grow with the corpus as they should.

`python tests/benchmarks/scale.py FOLDER [--cut] [--adapt] CHUNKS [CHUNKS …]`

For each size a project in FOLDER (kept, so that what is done is not done again): the corpus, then
`ingest`, `index` and `embed` as the product runs them, searches, and an update of 100 files. Prints
seconds and peak memory of each, growth exponents log(t₂/t₁)/log(n₂/n₁) between sizes, and the bar:
time at ten times the chunks over time, at most 12. With `--cut`, the files are as if they had been
read already, cut into their passages: then `ingest` only finds that nothing has changed. With
`--adapt`, which implies `--cut`, the stages of `engine adapt` follow `embed`, in place of searches
and updates; documents have titles, and the encoder one layer, which changes nothing.

The texts are sentences of real documents in new order, with numbers and names of their own, so that
the vocabulary grows with the corpus. The encoder has BERT's vocabulary, 384 dimensions and no
layers: a random direction for each word, and their mean.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tests")]

from fixtures.big_project import vocabulary  # noqa: E402
from fixtures.tiny_model import save_layout  # noqa: E402

from engine.core.events import StageFinished  # noqa: E402
from engine.core.messages.search import Search  # noqa: E402
from engine.core.records import Chunk, DocumentQuery, ReadDocument  # noqa: E402
from engine.corpus.ingest.previous import (  # noqa: E402
    build_record,
    build_stored_document,
    hash_file,
)
from engine.corpus.ingest.stage import VERSION  # noqa: E402
from engine.corpus.scan.scan import scan  # noqa: E402
from engine.encoders.tokenizer import chunk_tokenizer, tokenizer_fingerprint  # noqa: E402
from engine.project.folder import ProjectFolder  # noqa: E402
from engine.project.stage import fingerprint  # noqa: E402
from engine.runs.pipeline import run  # noqa: E402

DATA = REPOSITORY.parent / "shared" / "data"
SETS = (
    "multihop-partial",
    "contractnli",
    "cranfield",
    "cisi",
    "med",
)
CHUNKS_PER_FILE = 20
CHUNK_TOKENS = 64
CHUNK_CHARACTERS = 180  # as measured, those of `CHUNK_TOKENS`
CHANGED_FILES = 100
QUERIES = 300
STAGES = ("ingest", "index", "embed")
ADAPT_STAGES = ("generate", "rank", "train", "evaluate")
TITLE_WORDS = 6
TRAINING_STEPS = 20
BAR = 12.0  # times as long for ten times the chunks


def read_sentences() -> list[str]:
    """Return the sentences of 40 to 400 characters of the data sets, each once."""
    sentences: dict[str, None] = {}
    for name in SETS:
        for line in (DATA / name / "corpus.jsonl").open(encoding="utf-8"):
            for sentence in re.split(r"(?<=[.!?])\s+", json.loads(line)["text"]):
                if 40 <= len(sentence) <= 400:
                    sentences[" ".join(sentence.split())] = None
    return list(sentences)


def draw_texts(count: int, seed: int) -> Iterator[str]:
    """Yield texts of about `CHUNKS_PER_FILE` chunks.

    They are sentences in random order, every number another, every third sentence with a new name.
    Each `CHUNK_CHARACTERS` or more are a paragraph.
    """
    rng = random.Random(seed)
    sentences = read_sentences()

    def draw_number(digits: re.Match[str]) -> str:
        return str(rng.randrange(10 ** len(digits[0])))

    names = vocabulary(400_000, seed=1)
    for _ in range(count):
        paragraphs = [""]
        while len(paragraphs) <= CHUNKS_PER_FILE:
            sentence = re.sub(
                r"\d+",
                draw_number,
                rng.choice(sentences),
            )
            if rng.random() < 0.33:
                name = names[int(len(names) ** rng.random()) - 1].capitalize()
                sentence = f"{name}: {sentence}"
            paragraphs[-1] = f"{paragraphs[-1]} {sentence}".strip()
            if len(paragraphs[-1]) >= CHUNK_CHARACTERS:
                paragraphs.append("")
        yield "\n\n".join(paragraphs[:-1])


def write_corpus(folder: Path, chunks: int) -> None:
    """Write files of text, 200 into a folder."""
    for number, text in enumerate(draw_texts(chunks // CHUNKS_PER_FILE, seed=0)):
        part_folder = folder / f"part-{number // 200:04d}"
        part_folder.mkdir(parents=True, exist_ok=True)
        (part_folder / f"document-{number:06d}.txt").write_text(text, "utf-8")


def make_title(text: str) -> str:
    """Return the longest words of a text's first paragraph, in their order."""
    words = re.findall(r"[^\W\d_]+", text.partition("\n\n")[0])
    longest = sorted(dict.fromkeys(words), key=len, reverse=True)[:TITLE_WORDS]
    return " ".join(word for word in dict.fromkeys(words) if word in longest)


def store_cut_files(project: ProjectFolder, *, has_titles: bool) -> None:
    """Put the files into the database, each paragraph a chunk, as an ingest that has read them."""
    settings = project.settings()
    (source,) = project.sources(settings)
    corpus = settings.corpus
    recipe = {
        "version": VERSION,
        **corpus.model_dump(include={"chunk_tokens", "overlap_sentences", "context"}),
    }
    chunking = fingerprint(tokenizer=tokenizer_fingerprint(chunk_tokenizer(settings)), **recipe)
    with closing(project.store()) as store, store.transaction():
        for file in scan([source], corpus.include, corpus.exclude).files:
            text = file.absolute.read_text("utf-8")
            start = 0
            chunks = []
            for ordinal, paragraph in enumerate(text.split("\n\n")):
                digest = hashlib.sha256(paragraph.encode()).hexdigest()
                end = start + len(paragraph)
                chunks.append(
                    Chunk(0, ordinal, start, end, paragraph, (), CHUNK_TOKENS, paragraph, digest)
                )
                start = end + 2
            file_hash = hash_file(file.absolute)
            row = store.put_file(build_record(file, file_hash, chunking))
            title = make_title(text) if has_titles else file.absolute.stem
            document = store.put_document(
                row, build_stored_document(file, file_hash, ReadDocument(title, text))
            )
            store.replace_chunks(document, chunks)
            if has_titles:
                store.replace_document_queries(
                    document, [DocumentQuery(title, "title", None, document)]
                )


def change_files(folder: Path, seed: int) -> None:
    """Give `CHANGED_FILES` files, spread over the corpus, another text, as an editor does."""
    files = sorted(folder.rglob("*.txt"))
    files = files[seed :: max(1, len(files) // CHANGED_FILES)][:CHANGED_FILES]
    for path, text in zip(files, draw_texts(len(files), seed), strict=True):
        path.write_text(text, "utf-8")


def build_encoder(folder: Path, layers: int) -> Path:
    """Build a BERT with the bundled model's tokenizer, and layers that add nothing to its words."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertModel

    from engine.encoders.model_folder import DEFAULT_MODEL, resolve_model

    if folder.exists():
        return folder
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(resolve_model(DEFAULT_MODEL).path)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=384,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=2,
        initializer_range=0.2,
    )
    model = BertModel(config).eval()
    for layer in model.encoder.layer:
        for part in (layer.attention.output.dense, layer.output.dense):
            torch.nn.init.zeros_(part.weight)
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)
    save_layout(
        folder,
        {"word_embedding_dimension": 384, "pooling_mode_mean_tokens": True},
        {"prompts": {}},
        256,
    )
    return folder


def run_stages(project: ProjectFolder, stages: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """Run stages; return seconds and peak memory (MB) of each that had something to do.

    Under "all" are the seconds of all stages with what lies around them, and the processor's, which
    other work on the machine does not lengthen as much.
    """
    measured: dict[str, dict[str, float]] = {}

    def note(event: Any) -> None:
        if isinstance(event, StageFinished):
            measured[event.stage] = {"seconds": event.seconds, "memory": event.peak_memory_mb}

    started = time.monotonic()
    processor_before = processor_seconds()
    run(
        project,
        stages=stages,
        on_event=note,
    )
    measured["all"] = {
        "seconds": time.monotonic() - started,
        "processor": processor_seconds() - processor_before,
    }
    return measured


def processor_seconds() -> float:
    """Return the processor time of this process and of those that it has waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def measure_search(folder: Path) -> dict[str, Any]:
    """Measure the opening and, by mode, searches with query vectors at hand.

    "first": seconds until the first search is answered. By mode: median and 95th percentile in
    milliseconds. Queries are of three to eight words of the texts.
    """
    import numpy as np

    from engine.search.loaded import LoadedProject
    from engine.search.searcher import Searcher

    project = ProjectFolder(folder)
    rng = random.Random(7)
    sentences = read_sentences()
    queries: list[str] = []
    while len(queries) < QUERIES:
        # Without signs: some mean something in a query, and the engine would encode another text.
        words = re.findall(r"\w+", rng.choice(sentences))
        start = rng.randrange(len(words))
        queries.append(" ".join(words[start : start + rng.randint(3, 8)]))
    loaded = LoadedProject(project)
    artifact, _ = loaded.vector_index("hybrid")
    encoder = loaded.query_encoder(artifact)
    vectors = dict(zip(queries, encoder.encode_queries(queries), strict=True))
    fingerprint = encoder.fingerprint
    loaded.close()

    class VectorsAtHand:
        def encode_queries(self, texts: list[str]) -> Any:
            return np.stack([vectors[text] for text in texts])

    vectors_at_hand: Any = VectorsAtHand()
    vectors_at_hand.fingerprint = fingerprint
    LoadedProject.query_encoder = lambda self, _artifact: vectors_at_hand  # type: ignore[method-assign]
    started = time.monotonic()
    searcher = Searcher(project)
    searcher.search(Search(queries[0], "hybrid"))
    first = time.monotonic() - started
    quantiles = {}
    for mode in ("bm25", "semantic", "hybrid"):
        milliseconds = []
        for query in queries[1:]:
            begun = time.perf_counter()
            searcher.search(Search(query, mode))  # type: ignore[arg-type]
            milliseconds.append(1000 * (time.perf_counter() - begun))
        quantiles[mode] = [
            round(float(np.quantile(milliseconds, share)), 1) for share in (0.5, 0.95)
        ]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {"first": first, "memory": memory, **quantiles}


def prepare_project(
    folder: Path, chunks: int, encoder: Path, *, is_cut: bool, adapts: bool
) -> ProjectFolder:
    """Write the corpus, and make the project over it, unless they are there."""
    if not (folder / "documents").exists():
        shutil.rmtree(folder, ignore_errors=True)
        write_corpus(folder / "writing", chunks)
        (folder / "writing").rename(folder / "documents")
    project = ProjectFolder(folder / "project")
    if not project.path.exists():
        settings: dict[str, dict[str, Any]] = {
            "corpus": {"paths": [str(folder / "documents")], "chunk_tokens": CHUNK_TOKENS},
            "encoder": {"model": str(encoder)},
        }
        if adapts:
            settings["training"] = {"preset": "quick", "steps": TRAINING_STEPS}
        ProjectFolder.create(project.path, settings)
        if is_cut:
            store_cut_files(project, has_titles=adapts)
    return project


def measure(
    folder: Path, chunks: int, encoder: Path, *, is_cut: bool, adapts: bool
) -> dict[str, Any]:
    """Measure all of one size that is not in its results.json yet, and return what is there."""
    size_folder = folder / str(chunks)
    file = size_folder / "results.json"
    results: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.exists() else {}

    def keep(name: str, value: Any) -> None:
        results[name] = value
        file.write_text(json.dumps(results, indent=1), "utf-8")
        print(f"{chunks:>9,} {name:<8} {json.dumps(value)}", flush=True)

    project = prepare_project(
        size_folder,
        chunks,
        encoder,
        is_cut=is_cut,
        adapts=adapts,
    )
    for stage in _list_stages(adapts=adapts):
        if stage not in results:
            measured = run_stages(project, (stage,))
            with closing(project.store()) as store:
                results["chunks"] = store.counts()["chunks"]
            around = measured["all"]["seconds"] - measured[stage]["seconds"]
            processor = measured["all"]["processor"]
            keep(stage, {**measured[stage], "around": around, "processor": processor})
    if adapts:
        return results
    if "search" not in results:
        keep("search", _measure_search_in_child(project.path))
    if "update" not in results:
        for seed in (3, 7):  # the first update makes the links, the second one counts
            change_files(size_folder / "documents", seed)
            words = run_stages(project, ("ingest", "index"))
            meaning = run_stages(project, ("embed",))
        keep("update", {"words": words, "meaning": meaning})
    if "searched" not in results:
        keep("searched", _measure_search_in_child(project.path))
    return results


def _list_stages(*, adapts: bool) -> tuple[str, ...]:
    return STAGES + ADAPT_STAGES if adapts else STAGES


def _measure_search_in_child(folder: Path) -> Any:
    child = subprocess.run(
        [sys.executable, __file__, "search", str(folder)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return json.loads(child.stdout.splitlines()[-1])


def sum_seconds(results: dict[str, Any]) -> float:
    """Return the seconds of all stages, with what lies around them."""
    return float(sum(results[stage]["seconds"] + results[stage]["around"] for stage in STAGES))


def main() -> None:
    """Measure each size, then print how time has grown."""
    if sys.argv[1] == "search":
        print(json.dumps(measure_search(Path(sys.argv[2]))))
        return
    adapts = "--adapt" in sys.argv
    is_cut = adapts or "--cut" in sys.argv
    folder = Path(sys.argv[1]).absolute()
    sizes = sorted(int(word) for word in sys.argv[2:] if not word.startswith("--"))
    folder.mkdir(parents=True, exist_ok=True)
    encoder = build_encoder(folder / "encoder", layers=1 if adapts else 0)
    measured = {}
    for size in sizes:
        measured[size] = measure(
            folder,
            size,
            encoder,
            is_cut=is_cut,
            adapts=adapts,
        )
    for small, large in pairwise(sizes):
        log_growth = math.log(measured[large]["chunks"] / measured[small]["chunks"])
        for stage in _list_stages(adapts=adapts):
            ratio = measured[large][stage]["seconds"] / measured[small][stage]["seconds"]
            print(
                f"{small:,} → {large:,} {stage}: × {ratio:.1f}, exponent"
                f" {math.log(ratio) / log_growth:.2f}"
            )
        ratio = sum_seconds(measured[large]) / sum_seconds(measured[small])
        bar = f" (bar: {BAR:g})" if large == 10 * small else ""
        print(
            f"{small:,} → {large:,} together: × {ratio:.1f}{bar}, exponent"
            f" {math.log(ratio) / log_growth:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
