"""The sections of project.toml: every key with its type, its bounds, its default and what it is for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from engine.settings.section import MAX_WHOLE_NUMBER, Prompt, Section
from engine.settings.training_schema import TrainingSettings

DEFAULT_MODEL = "all-MiniLM-L6-v2"


class CorpusSettings(Section):
    """Which documents, and how they are cut."""

    paths: list[str] = Field(
        default=[], description="folders or files to read; relative ones are taken from the project folder"
    )
    include: list[str] = Field(default=["**/*"], min_length=1, description="glob patterns of files to read")
    exclude: list[str] = Field(default=[], description="glob patterns of files to leave out")
    follow_links: bool = Field(
        default=False, description="whether links that lead out of the folders are followed; loops never are"
    )
    passwords_file: str = Field(
        default="",
        description=(
            "text file with a password a line, tried on locked PDF, Word, Excel, PowerPoint, OpenDocument and ZIP files; "
            "it is read anew at every run, and nothing of it is kept in the project"
        ),
    )
    ocr: bool = Field(
        default=False,
        description=(
            "whether scanned PDF pages and pictures are read by the program tesseract, where it is installed: about a second a page"
        ),
    )
    ocr_languages: str = Field(
        default="",
        description="languages for OCR as tesseract names them, such as deu+eng; empty takes those installed where they are few",
    )
    ocr_seconds: int = Field(
        default=1800,
        ge=1,
        le=864_000,
        description="longest time that OCR takes for one file; what it has read by then is kept",
    )
    reading_processes: int = Field(
        default=0,
        ge=0,
        le=256,
        description="processes that read files side by side; 0 takes one per processor, up to 8",
    )
    reading_seconds: int = Field(
        default=60,
        ge=1,
        le=86_400,
        description="longest time for one file, or one thing inside a file; a file as a whole has 20 times as much",
    )
    reading_memory_mb: int = Field(
        default=2048, ge=512, le=1_048_576, description="memory that each reading process may use"
    )
    chunk_tokens: int = Field(
        default=256, ge=16, le=8192, description="longest chunk, in tokens of the encoder's tokenizer"
    )
    overlap_sentences: int = Field(
        default=1, ge=0, le=5, description="sentences that a chunk repeats from the one before"
    )
    context: Literal["none", "headings", "title"] = Field(
        default="none", description="what is put before a chunk's text when it is indexed and embedded"
    )
    retrain_threshold: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="share of changed chunks up to which the adapter is kept; above it, it is trained anew",
    )


class LexicalSettings(Section):
    """BM25."""

    language: str = Field(
        default="auto",
        description=(
            "language of stemming and stop words: auto (each document's own), or for all of them none or a code such as en, de, fr"
        ),
    )
    titles: bool = Field(default=True, description="whether a document's title counts as part of each of its chunks")


class EncoderSettings(Section):
    """The embedding model and where it runs."""

    model: str = Field(
        default=DEFAULT_MODEL, description="the bundled model's name, or a folder with a sentence-transformers model"
    )
    device: str = Field(
        default="auto",
        pattern=r"^(auto|cpu|cuda(:\d+)?)$",
        description="where the model runs: auto, cpu, cuda or cuda:N",
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        default="auto", description="precision of the model's weights"
    )
    max_tokens: int = Field(default=256, ge=16, le=32768, description="longer texts are cut here")
    query_prompt: Prompt | None = Field(
        default=None,
        description=(
            "what the model wants before every query, such as 'query: ' for models of the E5 kind; left out: what its own "
            "config_sentence_transformers.json says"
        ),
    )
    document_prompt: Prompt | None = Field(
        default=None, description="the same before every chunk, such as 'passage: '; left out: what the model says"
    )


class QuerySettings(Section):
    """Training queries."""

    backend: Literal["extractive", "gguf", "endpoint", "imported", "both", "auto"] = Field(
        default="extractive",
        description=(
            "where training queries come from: built from the documents (extractive), written by a language model in a "
            "file (gguf) or on a server (endpoint), imported, or extractive and imported (both); auto: the server or the "
            "file that is named here, else a model that 'engine models add' has added, else extractive"
        ),
    )
    kinds: list[Literal["question", "keyword", "title", "claim"]] = Field(
        default=["question", "keyword", "title", "claim"],
        min_length=1,
        description="kinds of queries, unless they are imported",
    )
    per_chunk: int = Field(default=3, ge=1, le=20, description="queries per chunk, at most")
    model: str = Field(
        default="",
        description=(
            "GGUF file of the language model for gguf; a relative one lies in the project folder, or, by its name alone, "
            "where 'engine models add' puts it"
        ),
    )
    endpoint: str = Field(
        default="",
        description=(
            "address of an OpenAI-compatible server for endpoint, such as http://127.0.0.1:8080/v1; a key that it wants "
            "is read from the environment variable BMEMBED_ENDPOINT_KEY"
        ),
    )
    endpoint_model: str = Field(default="", description="the model's name on that server; empty where it has one only")
    endpoint_allow_public: bool = Field(
        default=False,
        description="whether that server may lie outside this machine and private networks: it gets the documents' text",
    )
    endpoint_seconds: int = Field(default=300, ge=1, le=3600, description="longest wait for one answer of that server")
    prompt: Literal["two-step", "one-step"] = Field(
        default="two-step",
        description="how a language model is asked: first for facts, then for questions; or at once, for small models",
    )
    context_tokens: int = Field(
        default=4096, ge=512, le=131_072, description="tokens that a language model reads and writes at once"
    )
    answer_tokens: int = Field(default=768, ge=64, le=8192, description="longest answer of a language model, in tokens")
    concurrency: int = Field(
        default=0,
        ge=0,
        le=64,
        description=(
            "messages that a server of a language model gets at once; 0: one, for only you know how many it can answer side by "
            "side; a GGUF model is asked one after the other"
        ),
    )
    max_queries: int = Field(
        default=8000,
        ge=1,
        le=1_000_000,
        description=(
            "training queries in all, at most; a language model is asked for no more than these, of which filters leave out some"
        ),
    )
    max_hours: float = Field(
        default=0.0,
        ge=0.0,
        le=10_000.0,
        description=(
            "hours that a language model may write queries, over all runs with the same settings; 0: until there are "
            "max_queries. What is left out is chosen such that the rest covers the corpus"
        ),
    )
    quality_filters: bool = Field(
        default=True,
        description=(
            "whether a language model's queries are left out that are in another language than their document, copied from "
            "it, without a word that is particular to it, or repeat one another"
        ),
    )
    consistency_top: int = Field(
        default=20,
        ge=0,
        le=1000,
        description="a query is kept when its chunk is this high in BM25 or the base encoder; 0 keeps all",
    )


class RankingSettings(Section):
    """BM25 rankings to learn from."""

    k: int = Field(default=1000, ge=3, le=100_000, description="depth of the BM25 rankings")
    m: int = Field(default=9, ge=2, le=64, description="intervals that a ranking is parted into (BMEmbed)")
    strategy: Literal["fine-to-coarse", "uniform"] = Field(
        default="fine-to-coarse", description="how the intervals grow"
    )
    lists_per_query: int = Field(
        default=1, ge=1, le=64, description="lists that are drawn from a ranking, for the losses listnet and listmle"
    )


class EvaluationSettings(Section):
    """How candidates are compared."""

    heldout_share: float = Field(
        default=0.15,
        gt=0,
        lt=0.9,
        description="share of the documents whose queries are never trained on: half stop the training, half choose",
    )
    max_heldout: int = Field(default=600, ge=20, le=MAX_WHOLE_NUMBER, description="held-out queries used, at most")
    bootstrap_samples: int = Field(
        default=10_000, ge=100, le=1_000_000, description="samples of every confidence interval"
    )
    interpolation_weights: list[Annotated[float, Field(ge=0.01, le=0.99, multiple_of=0.01)]] = Field(
        default=[0.25, 0.5, 0.75],
        description="interpolation weights of the adapter (1: whole, 0: base) that compete with both",
    )
    max_interpolation_chunks: int = Field(
        default=4000,
        ge=0,
        le=MAX_WHOLE_NUMBER,
        description=(
            "up to so many chunks, merges of an adapter that acts on chunks, too, are measured over all of them and in hybrid "
            "search; that embeds every chunk once more for each. In larger corpora they compete among the chunks next to "
            "held-out queries"
        ),
    )
    depth: int = Field(
        default=100, ge=10, le=10_000, description="ranking depth that the systems are compared and fused at"
    )
    veto: bool = Field(
        default=True, description="judged queries may forbid an adapter that is clearly worse than base on them"
    )
    robustness: bool = Field(
        default=False,
        description=(
            "whether queries with typos, with masked words and with words exchanged are measured as well; takes "
            "several times as long; a server that writes the queries is sent judged questions, too"
        ),
    )
    sentence_pairs: str = Field(
        default="",
        description=(
            "file of sentence pairs with people's scores of how similar they are, which the encoders are compared on, too: .jsonl, "
            ".csv or .tsv with sentence1, sentence2 and score; a relative one lies in the project folder"
        ),
    )
    cl_baseline: bool = Field(
        default=False,
        description=(
            "whether an adapter trained by plain contrastive learning on the same queries is compared, too; costs one more "
            "training, of queries and chunks"
        ),
    )


class VectorSettings(Section):
    """The vector index."""

    dtype: Literal["f16", "f32", "i8"] = Field(default="f16", description="storage type of the vectors")
    expansion_search: int = Field(
        default=128, ge=16, le=4096, description="HNSW search width; larger finds more, slower"
    )


class SearchSettings(Section):
    """Defaults of a search."""

    mode: Literal["hybrid", "semantic", "bm25"] = Field(default="hybrid", description="ranker used when none is named")
    fusion: Literal["auto", "rrf", "weighted"] = Field(
        default="auto",
        description=(
            "how hybrid search joins both rankings: by reciprocal rank fusion (rrf), by a weighted sum of scores (weighted), "
            "or by the even sum, unless held-out queries show another way to be better (auto)"
        ),
    )
    rrf_k: int = Field(default=40, ge=1, le=MAX_WHOLE_NUMBER, description="constant of reciprocal rank fusion")
    weight: float = Field(default=0.5, ge=0, le=1, description="weight of the semantic score where fusion is weighted")
    top: int = Field(default=10, ge=1, le=1000, description="hits shown")
    named_documents: bool = Field(
        default=True,
        description="whether a query with a file's name in it, such as lease.pdf, is meant for that document",
    )
    csls: bool = Field(
        default=True,
        description=(
            "whether semantic search takes off what makes some chunks near to every query (CSLS), unless judged queries, or "
            "held-out ones that are worded as questions, show that it harms"
        ),
    )
    hide_weak: bool = Field(
        default=False,
        description="whether semantic search hides hits that are less similar to the query than evaluation found useful",
    )


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
