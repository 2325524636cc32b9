"""The sections of project.toml: every key with its type, its bounds, its default and what it is for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from engine.settings.section import MAX_WHOLE_NUMBER, Prompt, Section, key
from engine.settings.training_schema import TrainingSettings

DEFAULT_MODEL = "all-MiniLM-L6-v2"


class CorpusSettings(Section):
    """Which documents, and how they are cut."""

    paths: list[str] = key([], "folders or files to read; relative ones are taken from the project folder")
    include: list[str] = key(["**/*"], "glob patterns of files to read", min_length=1)
    exclude: list[str] = key([], "glob patterns of files to leave out")
    follow_links: bool = key(False, "whether links that lead out of the folders are followed; loops never are")
    passwords_file: str = key(
        "",
        "text file with one password a line, tried on locked PDF, Word, Excel, PowerPoint and ZIP files; it is read again at "
        "every run and never stored in the project",
    )
    ocr: bool = key(
        False,
        "whether scanned PDF pages and pictures are read by the program tesseract, if it is installed: about a second a page",
    )
    ocr_languages: str = key(
        "", "languages for OCR as tesseract names them, such as deu+eng; empty: all that are installed, if they are few"
    )
    ocr_seconds: int = key(1800, "time limit of OCR for one file; what it has read by then is kept", ge=1, le=864_000)
    reading_processes: int = key(
        0, "processes that read files in parallel; 0: one per processor, up to 8", ge=0, le=256
    )
    reading_seconds: int = key(
        60,
        "time limit for one file, or one thing inside a file; a file as a whole has 20 times as much",
        ge=1,
        le=86_400,
    )
    reading_memory_mb: int = key(2048, "memory that each reading process may use", ge=512, le=1_048_576)
    chunk_tokens: int = key(256, "longest chunk, in tokens of corpus.tokenizer", ge=16, le=8192)
    tokenizer: str = key(
        "",
        "folder of a model, or a tokenizer.json, whose tokens measure the chunks, so that several encoders can be compared on the "
        "same chunks; empty: the encoder's own",
    )
    overlap_sentences: int = key(1, "sentences that a chunk repeats from the one before", ge=0, le=5)
    context: Literal["none", "headings", "title"] = key(
        "none", "text added before each chunk when it is indexed and embedded"
    )
    retrain_threshold: float = key(
        0.1, "share of changed chunks up to which the adapter is kept; above it, it is trained again", ge=0, le=1
    )


class LexicalSettings(Section):
    """BM25."""

    language: str = key(
        "auto",
        "language of stemming and stop words: auto (each document's own), none, or one for all documents, such as en, de, fr",
    )
    titles: bool = key(True, "whether a document's title counts as part of each of its chunks")


class EncoderSettings(Section):
    """The embedding model and where it runs."""

    model: str = key(
        DEFAULT_MODEL,
        "the bundled model's name, or a folder with a sentence-transformers model, or a GGUF file of an embedding model",
    )
    folders: list[str] = key(
        [],
        "folders in which 'engine encoders' and the app look for models, besides the Hugging Face cache, LM Studio and Ollama",
    )
    small_model: str = key(
        "",
        "a second model, named as in encoder.model, for a first one that cannot be trained, such as a GGUF file or a server: an "
        "adapter is trained for it, and its vectors are joined to those of the first (Mafin)",
    )
    vectors: str = key(
        "",
        "vectors of the chunks from a model elsewhere: a .npy file with their ids beside it, or a .safetensors file; "
        "encoder.model encodes the queries, and instead of an adapter a map between both is fitted",
    )
    device: str = key("auto", "where the model runs: auto, cpu, cuda or cuda:N", pattern=r"^(auto|cpu|cuda(:\d+)?)$")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = key("auto", "precision of the model's weights")
    max_tokens: int = key(256, "longer texts are cut here", ge=16, le=32768)
    query_prompt: Prompt | None = key(
        None,
        "prompt that the model expects before every query, such as 'query: ' for E5 models; left out: the one in its "
        "config_sentence_transformers.json",
    )
    document_prompt: Prompt | None = key(
        None, "the same before every chunk, such as 'passage: '; left out: the model's own"
    )
    endpoint: str = key(
        "",
        "address of an OpenAI-compatible server that makes the vectors instead of encoder.model, such as "
        "http://127.0.0.1:8080/v1; its key, if it needs one, is read from the environment variable BMEMBED_ENDPOINT_KEY; no "
        "adapter is trained for it",
    )
    endpoint_model: str = key("", "the embedding model's name on that server; empty if it has only one")
    endpoint_allow_public: bool = key(
        False,
        "whether that server may be outside this machine and private networks: it gets the text of documents and queries",
    )
    endpoint_seconds: int = key(60, "longest wait for one answer of that server", ge=1, le=3600)
    endpoint_batch: int = key(32, "most texts sent to the server in one request", ge=1, le=2048)
    pooling: Literal["from the model", "mean", "cls", "last"] = key(
        "from the model",
        "how the vectors of a text's tokens become one: as the model's folder says, their mean, the first (cls) or the last",
    )


class QuerySettings(Section):
    """Training queries."""

    backend: Literal["extractive", "gguf", "endpoint", "imported", "both", "auto"] = key(
        "extractive",
        "where training queries come from: sentences of the documents (extractive), written by a language model in a "
        "file (gguf) or on a server (endpoint), imported, or extractive and imported (both); auto: the server or the "
        "file that is named here, otherwise a model added by 'engine models add', otherwise extractive",
    )
    kinds: list[Literal["question", "keyword", "title", "claim"]] = key(
        ["question", "keyword", "title", "claim"],
        "kinds of queries, unless they are imported; title: worded like a title, shown as title-like in lists",
        min_length=1,
    )
    per_chunk: int = key(3, "most queries per chunk", ge=1, le=20)
    model: str = key(
        "",
        "GGUF file of the language model for gguf; a relative one is in the project folder, or, by its name alone, "
        "where 'engine models add' puts it",
    )
    endpoint: str = key(
        "",
        "address of an OpenAI-compatible server for endpoint, such as http://127.0.0.1:8080/v1; its key, if it needs one, "
        "is read from the environment variable BMEMBED_ENDPOINT_KEY",
    )
    endpoint_model: str = key("", "the model's name on that server; empty if it has only one")
    endpoint_allow_public: bool = key(
        False, "whether that server may be outside this machine and private networks: it gets the documents' text"
    )
    endpoint_seconds: int = key(300, "longest wait for one answer of that server", ge=1, le=3600)
    prompt: Literal["two-step", "one-step"] = key(
        "two-step",
        "how a language model is prompted: first for facts, then for questions; or in one step, for small models",
    )
    context_tokens: int = key(
        4096, "context of a language model: tokens that it reads and writes in one exchange", ge=512, le=131_072
    )
    answer_tokens: int = key(768, "longest answer of a language model, in tokens", ge=64, le=8192)
    concurrency: int = key(
        0,
        "requests sent to a language model's server in parallel; 0: one, because only you know how many it can answer; a GGUF "
        "model gets one at a time",
        ge=0,
        le=64,
    )
    max_queries: int = key(
        8000,
        "most training queries in all; a language model writes no more than these, and filters leave out some",
        ge=1,
        le=1_000_000,
    )
    max_hours: float = key(
        0.0,
        "hours that a language model may write queries, over all runs with the same settings; 0: until there are "
        "max_queries. Wherever it ends, the queries cover the corpus evenly",
        ge=0.0,
        le=10_000.0,
    )
    quality_filters: bool = key(
        True,
        "whether to leave out a language model's queries that are in another language than their document, copied from it, "
        "without any distinctive word of it, or repetitions",
    )
    consistency_top: int = key(
        20, "a query is kept when its chunk is this high in BM25 or the base encoder; 0 keeps all", ge=0, le=1000
    )


class RankingSettings(Section):
    """BM25 rankings to learn from."""

    k: int = key(1000, "depth of the BM25 rankings", ge=3, le=100_000)
    m: int = key(9, "intervals that a ranking is divided into (BMEmbed)", ge=2, le=64)
    strategy: Literal["fine-to-coarse", "uniform"] = key("fine-to-coarse", "how the intervals grow")
    lists_per_query: int = key(1, "lists drawn from each ranking, for the losses listnet and listmle", ge=1, le=64)


class EvaluationSettings(Section):
    """How candidates are compared."""

    heldout_share: float = key(
        0.3,
        "share of the documents whose queries are never trained on: a third decide when training stops, the others what is used",
        gt=0,
        lt=0.9,
    )
    max_heldout: int = key(600, "most held-out queries used", ge=20, le=MAX_WHOLE_NUMBER)
    bootstrap_samples: int = key(10_000, "samples of every confidence interval", ge=100, le=1_000_000)
    interpolation_weights: list[Annotated[float, Field(ge=0.01, le=0.99, multiple_of=0.01)]] = key(
        [0.5],
        "interpolation weights (1: adapted, 0: base) that are compared with both; each embeds every chunk once more",
    )
    depth: int = key(100, "ranking depth at which systems are compared and fused", ge=10, le=10_000)
    use_judged: bool = key(True, "whether judged queries decide what comes into use, if there are enough")
    robustness: bool = key(
        False,
        "whether to measure queries with typos, masked words and replaced words as well; takes several times as long; "
        "judged questions are sent to the server that writes the queries, if there is one",
    )
    top_k: int = key(5, "K of the diagnostics: how many best chunks of each query", ge=1, le=10)
    samples: int = key(500, "m of the diagnostics: bootstrap samples of the queries", ge=10, le=100_000)
    sample_size: int = key(100, "l of the diagnostics: queries of a bootstrap sample", ge=1, le=100_000)
    psi: float = key(5.0, "ψ of COE and ROE: percentile of the similarities of the best K chunks", ge=0, le=100)
    sentence_pairs: str = key(
        "",
        "file of sentence pairs with people's similarity scores, on which the encoders are compared as well: .jsonl, .csv or "
        ".tsv with sentence1, sentence2 and score; a relative path starts at the project folder",
    )
    transformations: bool = key(
        False, "whether to compute the diagnostics for transformed (more isotropic) vectors as well"
    )
    general_set: str = key("", "BEIR folder whose test questions show what was forgotten, instead of the bundled ones")
    cl_baseline: bool = key(
        False,
        "whether to compare an adapter trained by plain contrastive learning on the same queries as well; costs one more "
        "training, of queries and chunks",
    )


class VectorSettings(Section):
    """The vector index."""

    dtype: Literal["f16", "f32", "i8"] = key("f16", "storage type of the vectors")
    expansion_search: int = key(128, "HNSW search width; larger finds more, slower", ge=16, le=4096)


class SearchSettings(Section):
    """Defaults of a search."""

    mode: Literal["hybrid", "semantic", "bm25"] = key("hybrid", "ranker used when none is named")
    fusion: Literal["auto", "rrf", "weighted"] = key(
        "auto",
        "how hybrid search combines both rankings: by reciprocal rank fusion (rrf), by a weighted sum of scores (weighted), "
        "or by the equal-weight sum, unless another way is shown to be better (auto)",
    )
    rrf_k: int = key(40, "constant of reciprocal rank fusion", ge=1, le=MAX_WHOLE_NUMBER)
    weight: float = key(0.5, "weight of the semantic score if fusion is weighted", ge=0, le=1)
    top: int = key(10, "hits shown", ge=1, le=1000)
    named_documents: bool = key(
        True, "whether a query that contains a file name, such as lease.pdf, searches that document alone"
    )
    hide_weak: bool = key(
        False, "whether semantic search hides hits that are less similar to the query than evaluation found useful"
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
