"""The sections of project.toml: every key with its type, bounds, default and purpose."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from engine.core.messages.search import MODE_OF_NAME, Mode
from engine.settings.section import MAX_WHOLE_NUMBER, Prompt, Section, key
from engine.settings.training_schema import TrainingSettings

DEFAULT_MODEL = "all-MiniLM-L6-v2"
StemmedLanguage = Literal[
    "auto",
    "ar",
    "da",
    "de",
    "el",
    "en",
    "es",
    "fi",
    "fr",
    "hu",
    "it",
    "nl",
    "no",
    "pt",
    "ro",
    "ru",
    "sv",
    "ta",
    "tr",
    "none",
]
"""Codes of the languages that have a stemmer; auto: of each document."""


class CorpusSettings(Section):
    """What to read, and how it is split into chunks."""

    paths: list[str] = key(
        [], "folders and files to read; relative paths start at the project folder", common=True
    )
    include: list[str] = key(
        ["**/*"],
        "glob patterns of files to read",
        common=True,
        min_length=1,
    )
    exclude: list[str] = key(
        [],
        "glob patterns of files to skip",
        common=True,
    )
    follow_links: bool = key(
        False, "follow symbolic links that lead out of the folders; loops are never followed"
    )
    passwords_file: str = key(
        "",
        "text file of passwords, one per line, for locked PDF, Office and ZIP files; never stored",
        common=True,
    )
    ocr: bool = key(
        False,
        "read scanned PDF pages and images with tesseract, if installed; about a second a page",
        common=True,
    )
    ocr_languages: str = key(
        "", "OCR languages in tesseract's names, such as deu+eng; empty: all installed, if few"
    )
    ocr_seconds: int = key(
        1800, "time limit for OCR per file, in seconds; text read by then is kept", ge=1, le=864_000
    )
    reading_processes: int = key(
        0, "parallel reading processes; 0: one per processor, at most 8", ge=0, le=256
    )
    reading_seconds: int = key(
        60,
        "time limit per file or file inside it, in seconds; whole archives get 20 times as much",
        ge=1,
        le=86_400,
    )
    reading_memory_mb: int = key(
        2048, "memory limit of each reading process, in MB", ge=512, le=1_048_576
    )
    chunk_tokens: int = key(
        256, "maximum length of a chunk, in tokens", common=True, ge=16, le=8192
    )
    tokenizer: str = key(
        "",
        "model folder or tokenizer.json that measures chunks; set it to compare encoders; empty:"
        " the encoder's",
    )
    overlap_sentences: int = key(
        1, "sentences that a chunk repeats from the previous one", ge=0, le=5
    )
    context: Literal["none", "headings", "title"] = key(
        "none", "text put before each chunk for indexing and embedding"
    )
    retrain_threshold: float = key(
        0.1, "share of changed chunks above which the adapter is trained again", ge=0, le=1
    )


class LexicalSettings(Section):
    """Keyword search (BM25)."""

    language: StemmedLanguage = key(
        "auto",
        "language of stemming and stop words: auto (per document), none, or a code such as en"
        " or de",
        common=True,
    )
    titles: bool = key(
        True, "index the document's title and its file's name with each of its chunks"
    )


class EncoderSettings(Section):
    """The embedding model, and where it runs."""

    model: str = key(
        DEFAULT_MODEL,
        "name of the bundled encoder or of one from 'engine models get'; or path of a"
        " sentence-transformers folder or GGUF file",
        common=True,
    )
    folders: list[str] = key([], "more folders where 'engine encoders' and the app look for models")
    small_model: str = key(
        "",
        "second model, adapted instead of an encoder.model that cannot be trained; vectors are"
        " joined (Mafin)",
    )
    device: str = key(
        "auto",
        "device: auto, cpu, cuda or cuda:N",
        common=True,
        pattern=r"^(auto|cpu|cuda(:\d+)?)$",
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = key(
        "auto", "precision of the model's weights"
    )
    max_tokens: int = key(
        256, "maximum length of a text, in tokens; the rest is cut off", ge=16, le=32768
    )
    query_prompt: Prompt | None = key(
        None,
        "text before each query, such as 'query: ' for E5; unset: from"
        " config_sentence_transformers.json",
    )
    document_prompt: Prompt | None = key(
        None, "text before each chunk, such as 'passage: '; unset: the model's own"
    )
    endpoint: str = key(
        "",
        "server used instead of encoder.model, such as http://127.0.0.1:8080/v1; key in"
        " $BMEMBED_ENDPOINT_KEY",
        common=True,
    )
    endpoint_model: str = key(
        "", "name of the embedding model on that server; empty if it has only one", common=True
    )
    endpoint_allow_public: bool = key(
        False,
        "allow a server outside private networks; it gets the text of documents and queries",
        common=True,
    )
    endpoint_seconds: int = key(
        60, "timeout of a request to that server, in seconds", ge=1, le=3600
    )
    endpoint_batch: int = key(
        32, "maximum number of texts per request to that server", ge=1, le=2048
    )
    pooling: Literal["from the model", "mean", "cls", "last"] = key(
        "from the model",
        "pooling of token vectors: as in the model's folder, mean, first (cls) or last",
    )


class QuerySettings(Section):
    """Training queries."""

    backend: Literal["extractive", "gguf", "endpoint", "imported", "both", "auto"] = key(
        "extractive",
        "source of training queries: extractive (sentences of the documents), gguf or endpoint (a"
        " language model in a file or on a server), imported (a file of yours), both (extractive"
        " and imported), auto (the first there is of endpoint, gguf, extractive)",
        common=True,
    )
    kinds: list[Literal["question", "keyword", "title", "claim", "everyday"]] = key(
        ["question", "keyword", "title", "claim", "everyday"],
        "kinds of queries to make; title: worded like a title; everyday, by a language model only:"
        " in the words of somebody who does not know the terms of the document",
        min_length=1,
    )
    per_chunk: int = key(
        3,
        "maximum number of queries per chunk",
        ge=1,
        le=20,
    )
    model: str = key(
        "",
        "GGUF file of the language model: a path, or the name of one from 'engine models get'"
        " or 'add'",
        common=True,
    )
    endpoint: str = key(
        "",
        "OpenAI-compatible server, such as http://127.0.0.1:8080/v1; key in $BMEMBED_ENDPOINT_KEY",
        common=True,
    )
    endpoint_model: str = key(
        "", "name of the language model on that server; empty if it has only one", common=True
    )
    endpoint_allow_public: bool = key(
        False, "allow a server outside private networks; it gets the text of documents", common=True
    )
    endpoint_seconds: int = key(
        300, "timeout of a request to that server, in seconds", ge=1, le=3600
    )
    prompt: Literal["two-step", "one-step"] = key(
        "two-step",
        "two-step: the model lists facts, then asks about them; one-step: for small models",
    )
    context_tokens: int = key(
        4096, "context size of the language model, in tokens", ge=512, le=131_072
    )
    answer_tokens: int = key(
        768,
        "maximum length of an answer, in tokens",
        ge=64,
        le=8192,
    )
    concurrency: int = key(
        0, "parallel requests to the server; 0: one. A GGUF file answers one at a time", ge=0, le=64
    )
    max_queries: int = key(
        8000,
        "maximum number of training queries (of a language model: before filtering)",
        ge=1,
        le=1_000_000,
    )
    max_hours: float = key(
        0.0,
        "time limit for a language model's writing, in hours, over all runs; 0: none",
        ge=0.0,
        le=10_000.0,
    )
    quality_filters: bool = key(
        True,
        "drop a language model's queries that are copied, repeated, too general or in another"
        " language",
    )
    consistency_top: int = key(
        20,
        "keep a query only if BM25 or the base encoder ranks its chunk this high (everyday ones: at"
        " least 100); 0: keep all",
        ge=0,
        le=1000,
    )

    @property
    def prompt_names(self) -> list[str]:
        """The prompts that a model gets, in order."""
        if self.prompt == "two-step":
            return ["events", "questions"]
        if "everyday" in self.kinds:
            return ["one-step", "everyday"]
        return ["one-step"]


class RankingSettings(Section):
    """BM25 rankings to learn from."""

    k: int = key(
        1000,
        "depth of the BM25 rankings",
        ge=3,
        le=100_000,
    )
    m: int = key(
        9,
        "number of rank intervals (BMEmbed)",
        ge=2,
        le=64,
    )
    strategy: Literal["fine-to-coarse", "uniform"] = key(
        "fine-to-coarse", "how the sizes of the intervals grow"
    )
    lists_per_query: int = key(
        1, "lists sampled from each ranking, for the losses listnet and listmle", ge=1, le=64
    )
    keep_evidence: bool = key(
        True,
        "put the chunk that a query was made from into each of its lists, where it was not drawn",
    )


class EvaluationSettings(Section):
    """How encoders are compared."""

    heldout_share: float = key(
        0.3,
        "share of documents held out: a third to stop training early, the rest to compare encoders",
        gt=0,
        lt=0.9,
    )
    max_heldout: int = key(
        600,
        "maximum number of held-out queries",
        ge=20,
        le=MAX_WHOLE_NUMBER,
    )
    bootstrap_samples: int = key(
        10_000, "bootstrap samples per confidence interval", ge=100, le=1_000_000
    )
    interpolation_weights: list[Annotated[float, Field(ge=0.01, le=0.99, multiple_of=0.01)]] = key(
        [0.5],
        "interpolation weights to try (1: adapted, 0: base); each embeds about 100,000 chunks or"
        " fewer once more",
    )
    depth: int = key(
        100,
        "ranking depth at which systems are compared and fused",
        ge=10,
        le=10_000,
    )
    gate: Literal["expected", "strict"] = key(
        "expected",
        "when an adapted encoder comes into use: expected (proved on your documents, or expected to"
        " help by experience with public collections), or strict (only if proved)",
        common=True,
    )
    use_judged: bool = key(True, "let judged questions decide what is used, if there are enough")
    plain_bm25: bool = key(
        False,
        "compare with plain BM25: without the bonus for whole codes, and without titles before the"
        " chunks",
    )


class VectorSettings(Section):
    """The vector index."""

    dtype: Literal["f16", "f32", "i8"] = key("f16", "storage type of the vectors")


class SearchSettings(Section):
    """Search defaults."""

    mode: Literal["hybrid", "semantic", "keywords"] = key(
        "hybrid", "default search mode", common=True
    )
    fusion: Literal["auto", "rrf", "weighted"] = key(
        "auto",
        "fusion of both rankings: by rrf, weighted scores, or auto (equal weights, unless another"
        " proves better)",
    )
    rrf_k: int = key(
        40,
        "constant k of reciprocal rank fusion",
        ge=1,
        le=MAX_WHOLE_NUMBER,
    )
    weight: float = key(
        0.5,
        "weight of the semantic score, if fusion is weighted",
        ge=0,
        le=1,
    )
    top: int = key(
        10,
        "number of hits",
        common=True,
        ge=1,
        le=1000,
    )
    named_documents: bool = key(
        True, "search only the named file if a query contains a file name, such as lease.pdf"
    )
    reranker: str = key(
        "",
        "reranker: a cross-encoder's folder, the name of one from 'engine models get', or a server"
        " such as http://127.0.0.1:8081/v1",
    )
    rerank: Literal["auto", "on", "off"] = key(
        "auto", "rerank hits: on, off, or auto (on once the reranker proves better)"
    )
    reranker_model: str = key(
        "", "name of the reranking model on that server; empty if it has only one"
    )
    reranker_allow_public: bool = key(
        False, "allow a server outside private networks; it gets the queries and the passages found"
    )
    rerank_seconds: float = key(
        1.0, "time for reranking, in seconds a search; as many passages as fit", gt=0, le=600
    )
    hide_weak: bool = key(
        False, "hide semantic hits that are less similar to the query than evaluation found useful"
    )

    @field_validator("mode", mode="before")
    @classmethod
    def _accept_json_name(cls, value: Any) -> Any:
        return "keywords" if value == "bm25" else value

    @property
    def mode_in_json(self) -> Mode:
        """The mode as messages, reports and exports name it."""
        return MODE_OF_NAME[self.mode]


class Settings(Section):
    """All of project.toml."""

    corpus: CorpusSettings = CorpusSettings()
    lexical: LexicalSettings = LexicalSettings()
    encoder: EncoderSettings = EncoderSettings()
    queries: QuerySettings = QuerySettings()
    ranking: RankingSettings = RankingSettings()
    training: TrainingSettings = TrainingSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    vectors: VectorSettings = VectorSettings()
    search: SearchSettings = SearchSettings()


def sections() -> dict[str, type[Section]]:
    """Return the sections of project.toml by name."""
    return {name: field.annotation for name, field in Settings.model_fields.items()}  # type: ignore[misc]
