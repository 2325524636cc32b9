"""Whether time and memory grow with the corpus as they should: `python tests/benchmarks/scale.py
FOLDER [--cut] [--adapt] CHUNKS [CHUNKS …]`.

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
SETS = ("multihop-partial", "contractnli", "cranfield", "cisi", "med")
CHUNKS_PER_FILE = 20
CHUNK_TOKENS = 64
CHUNK_CHARACTERS = 180  # measured
CHANGED_FILES = 100
QUERIES = 300
STAGES = ("ingest", "index", "embed")
ADAPT_STAGES = ("generate", "rank", "train", "evaluate")
TITLE_WORDS = 6
TRAINING_STEPS = 20
BAR = 12.0


def sentences() -> list[str]:
    """Sentences of 40 to 400 characters out of the data sets."""
    found: dict[str, None] = {}
    for name in SETS:
        for line in (DATA / name / "corpus.jsonl").open(encoding="utf-8"):
            for part in re.split(r"(?<=[.!?])\s+", json.loads(line)["text"]):
                if 40 <= len(part) <= 400:
                    found[" ".join(part.split())] = None
    return list(found)


def documents(count: int, seed: int) -> Iterator[str]:
    """Texts of about `CHUNKS_PER_FILE` chunks: sentences in random order, every number another,
    every third with a new name. Each `CHUNK_CHARACTERS` or more are a paragraph.
    """
    rng = random.Random(seed)
    parts = sentences()
    names = vocabulary(400_000, seed=1)
    for _ in range(count):
        paragraphs = [""]
        while len(paragraphs) <= CHUNKS_PER_FILE:
            part = re.sub(
                r"\d+", lambda digits: str(rng.randrange(10 ** len(digits[0]))), rng.choice(parts)
            )
            if rng.random() < 0.33:
                part = f"{names[int(len(names) ** rng.random()) - 1].capitalize()}: {part}"
            paragraphs[-1] = f"{paragraphs[-1]} {part}".strip()
            if len(paragraphs[-1]) >= CHUNK_CHARACTERS:
                paragraphs.append("")
        yield "\n\n".join(paragraphs[:-1])


def write_corpus(folder: Path, chunks: int) -> None:
    """Files of text, 200 a folder."""
    for number, text in enumerate(documents(chunks // CHUNKS_PER_FILE, seed=0)):
        place = folder / f"part-{number // 200:04d}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"document-{number:06d}.txt").write_text(text, "utf-8")


def title_of(text: str) -> str:
    """Return the longest words of a text's first paragraph, in their order."""
    words = re.findall(r"[^\W\d_]+", text.partition("\n\n")[0])
    longest = sorted(dict.fromkeys(words), key=len, reverse=True)[:TITLE_WORDS]
    return " ".join(word for word in dict.fromkeys(words) if word in longest)


def cut(project: ProjectFolder, *, has_titles: bool) -> None:
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
            for ordinal, part in enumerate(text.split("\n\n")):
                digest = hashlib.sha256(part.encode()).hexdigest()
                chunks.append(
                    Chunk(
                        0, ordinal, start, start + len(part), part, (), CHUNK_TOKENS, part, digest
                    )
                )
                start += len(part) + 2
            file_hash = hash_file(file.absolute)
            row = store.put_file(build_record(file, file_hash, chunking))
            title = title_of(text) if has_titles else file.absolute.stem
            document = store.put_document(
                row, build_stored_document(file, file_hash, ReadDocument(title, text))
            )
            store.replace_chunks(document, chunks)
            if has_titles:
                store.replace_document_queries(
                    document, [DocumentQuery(title, "title", None, document)]
                )


def change_files(folder: Path, round_: int) -> None:
    """Give `CHANGED_FILES` files, spread over the corpus, another text, as an editor does."""
    files = sorted(folder.rglob("*.txt"))
    files = files[round_ :: max(1, len(files) // CHANGED_FILES)][:CHANGED_FILES]
    for path, text in zip(files, documents(len(files), round_), strict=True):
        path.write_text(text, "utf-8")


def build_encoder(folder: Path, layers: int) -> Path:
    """A BERT with the bundled model's tokenizer, and with layers that add nothing to its words."""
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


def run_stage(project: ProjectFolder, stages: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """Run stages; seconds and peak memory (MB) of each that had something to do, and of all with
    what lies around them; of all also the processor's seconds, which other work on the machine
    does not lengthen as much.
    """
    found: dict[str, dict[str, float]] = {}

    def note(event: Any) -> None:
        if isinstance(event, StageFinished):
            found[event.stage] = {"seconds": event.seconds, "memory": event.peak_memory_mb}

    started = time.monotonic()
    busy = processor_seconds()
    run(project, stages=stages, on_event=note)
    found["all"] = {"seconds": time.monotonic() - started, "processor": processor_seconds() - busy}
    return found


def processor_seconds() -> float:
    """Of this process and of those that it has started and waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def measure_search(folder: Path) -> dict[str, Any]:
    """Opening, and the median and 95th percentile of hybrid searches of three to eight words of
    the texts, in milliseconds, with query vectors at hand.
    """
    import numpy as np

    from engine.search.loaded import LoadedProject
    from engine.search.searcher import Searcher

    project = ProjectFolder(folder)
    rng = random.Random(7)
    parts = sentences()
    texts = []
    while len(texts) < QUERIES:
        words = rng.choice(parts).split()
        start = rng.randrange(len(words))
        texts.append(" ".join(words[start : start + rng.randint(3, 8)]))
    loaded = LoadedProject(project)
    artifact, _ = loaded.vector_index()
    encoder = loaded.query_encoder(artifact)
    vectors = dict(zip(texts, encoder.encode_queries(texts), strict=True))
    fingerprint = encoder.fingerprint
    loaded.close()

    class Kept:
        def encode_queries(self, queries: list[str]) -> Any:
            return np.stack([vectors[query] for query in queries])

    kept: Any = Kept()
    kept.fingerprint = fingerprint
    LoadedProject.query_encoder = lambda self, _artifact: kept  # type: ignore[method-assign]
    started = time.monotonic()
    searcher = Searcher(project)
    searcher.search(Search(texts[0], "hybrid"))
    first = time.monotonic() - started
    found = {}
    for mode in ("bm25", "semantic", "hybrid"):
        took = []
        for text in texts[1:]:
            begun = time.perf_counter()
            searcher.search(Search(text, mode))  # type: ignore[arg-type]
            took.append(1000 * (time.perf_counter() - begun))
        found[mode] = [round(float(np.quantile(took, share)), 1) for share in (0.5, 0.95)]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {"first": first, "memory": memory, **found}


def prepared(
    place: Path, chunks: int, encoder: Path, *, is_cut: bool, adapts: bool
) -> ProjectFolder:
    """The corpus, and the project over it."""
    if not (place / "documents").exists():
        shutil.rmtree(place, ignore_errors=True)
        write_corpus(place / "writing", chunks)
        (place / "writing").rename(place / "documents")
    project = ProjectFolder(place / "project")
    if not project.path.exists():
        chosen: dict[str, dict[str, Any]] = {
            "corpus": {"paths": [str(place / "documents")], "chunk_tokens": CHUNK_TOKENS},
            "encoder": {"model": str(encoder)},
        }
        if adapts:
            chosen["training"] = {"preset": "quick", "steps": TRAINING_STEPS}
        ProjectFolder.create(project.path, chosen)
        if is_cut:
            cut(project, has_titles=adapts)
    return project


def measure(
    folder: Path, chunks: int, encoder: Path, *, is_cut: bool, adapts: bool
) -> dict[str, Any]:
    """All of one size, what is measured already as it is in results.json."""
    place = folder / str(chunks)
    results = place / "results.json"
    found: dict[str, Any] = json.loads(results.read_text("utf-8")) if results.exists() else {}

    def keep(name: str, value: Any) -> None:
        found[name] = value
        results.write_text(json.dumps(found, indent=1), "utf-8")
        print(f"{chunks:>9,} {name:<8} {json.dumps(value)}", flush=True)

    project = prepared(place, chunks, encoder, is_cut=is_cut, adapts=adapts)
    for stage in (*STAGES, *ADAPT_STAGES) if adapts else STAGES:
        if stage not in found:
            took = run_stage(project, (stage,))
            with closing(project.store()) as store:
                found["chunks"] = store.counts()["chunks"]
            around = took["all"]["seconds"] - took[stage]["seconds"]
            processor = took["all"]["processor"]
            keep(stage, {**took[stage], "around": around, "processor": processor})
    if adapts:
        return found
    if "search" not in found:
        keep("search", json.loads(_in_child("search", project.path)))
    if "update" not in found:
        for round_ in (3, 7):  # the first one makes the links
            change_files(place / "documents", round_)
            took = run_stage(project, ("ingest", "index"))
            meaning = run_stage(project, ("embed",))
        keep("update", {"words": took, "meaning": meaning})
    if "searched" not in found:
        keep("searched", json.loads(_in_child("search", project.path)))
    return found


def _in_child(what: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, __file__, what, str(folder)], check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.splitlines()[-1]


def total(found: dict[str, Any]) -> float:
    """Seconds of all stages, with what lies around them."""
    return float(sum(found[stage]["seconds"] + found[stage]["around"] for stage in STAGES))


def main() -> None:
    if sys.argv[1] == "search":
        print(json.dumps(measure_search(Path(sys.argv[2]))))
        return
    adapts = "--adapt" in sys.argv
    is_cut = adapts or "--cut" in sys.argv
    folder = Path(sys.argv[1]).absolute()
    sizes = sorted(int(one) for one in sys.argv[2:] if not one.startswith("--"))
    folder.mkdir(parents=True, exist_ok=True)
    encoder = build_encoder(folder / "encoder", layers=1 if adapts else 0)
    measured = {}
    for size in sizes:
        measured[size] = measure(folder, size, encoder, is_cut=is_cut, adapts=adapts)
    for small, large in pairwise(sizes):
        grown = math.log(measured[large]["chunks"] / measured[small]["chunks"])
        for stage in (*STAGES, *ADAPT_STAGES) if adapts else STAGES:
            times = [measured[size][stage]["seconds"] for size in (small, large)]
            print(
                f"{small:,} → {large:,} {stage}: × {times[1] / times[0]:.1f}, exponent"
                f" {math.log(times[1] / times[0]) / grown:.2f}"
            )
        ratio = total(measured[large]) / total(measured[small])
        bar = f" (bar: {BAR:g})" if large == 10 * small else ""
        print(
            f"{small:,} → {large:,} together: × {ratio:.1f}{bar}, exponent"
            f" {math.log(ratio) / grown:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
