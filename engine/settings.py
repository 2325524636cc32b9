"""project.toml as typed, validated settings. Every key has a default; a typo is an error that names the nearest key."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.errors import SettingsError, nearest

DEFAULT_MODEL = "all-MiniLM-L6-v2"


class Section(BaseModel):
    """One table of project.toml: immutable, no unknown keys, no value of another type, no infinity."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True, strict=True, allow_inf_nan=False)


class CorpusSettings(Section):
    """Which documents, and how they are cut."""

    paths: list[str] = Field(
        default=[], description="folders or files to read; relative ones are taken from the project folder"
    )
    include: list[str] = Field(default=["**/*"], min_length=1, description="glob patterns of files to read")
    exclude: list[str] = Field(default=[], description="glob patterns of files to leave out")
    chunk_tokens: int = Field(
        default=256, ge=16, le=8192, description="longest chunk, in tokens of the encoder's tokenizer"
    )
    overlap_sentences: int = Field(
        default=1, ge=0, le=5, description="sentences that a chunk repeats from the one before"
    )
    context: Literal["none", "headings", "title"] = Field(
        default="none", description="what is put before a chunk's text when it is indexed and embedded"
    )
    drift: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="share of changed chunks up to which the adapter is kept; above it, it is trained anew",
    )


class LexicalSettings(Section):
    """BM25."""

    language: str = Field(
        default="auto", description="language of stemming and stop words: auto, none, or a code such as en, de, fr"
    )


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


class QuerySettings(Section):
    """Training queries."""

    backend: Literal["extractive", "imported", "both"] = Field(
        default="extractive",
        description="where training queries come from: built from the documents, imported, or both",
    )
    kinds: list[Literal["question", "keyword", "title", "claim"]] = Field(
        default=["question", "keyword", "title", "claim"], min_length=1, description="kinds of extractive queries"
    )
    per_chunk: int = Field(default=3, ge=1, le=20, description="extractive queries per chunk, at most")
    max_queries: int = Field(default=8000, ge=1, le=1_000_000, description="training queries in all, at most")
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


class TrainingSettings(Section):
    """Values that are left out come from the preset."""

    preset: Literal["quick", "standard", "paper"] = Field(
        default="standard", description="quick, standard, or paper (BMEmbed as published)"
    )
    objective: Literal["mixed", "listnet", "infonce"] | None = Field(default=None, description="loss")
    steps: int | None = Field(default=None, ge=1, description="training steps, at most")
    queries_per_step: int | None = Field(default=None, ge=1, le=4096, description="queries per step")
    negatives_per_query: int | None = Field(default=None, ge=0, le=64, description="BM25 negatives added per query")
    learning_rate: float | None = Field(default=None, gt=0, le=0.1, description="peak learning rate of AdamW")
    teacher_temperature: float | None = Field(
        default=None, gt=0, description="alpha: smaller makes BM25's distribution sharper"
    )
    target: Literal["fixed", "entropy"] | None = Field(
        default=None, description="fixed alpha, or alpha per query for a set entropy"
    )
    target_entropy: float | None = Field(
        default=None, gt=0, description="entropy of the target in nats, where target is entropy"
    )
    student_temperature: float | None = Field(default=None, gt=0, description="tau of the student's softmax")
    infonce_weight: float | None = Field(default=None, ge=0, le=1, description="share of InfoNCE in the mixed loss")
    teacher_bm25_weight: float | None = Field(
        default=None, ge=0, le=1, description="share of BM25 in the mixed teacher"
    )
    lora_rank: int | None = Field(default=None, ge=1, le=512, description="rank of the LoRA adapter")
    lora_alpha: float | None = Field(default=None, gt=0, description="scale of the LoRA adapter")
    lora_dropout: float | None = Field(default=None, ge=0, lt=1, description="dropout on the LoRA branch")
    eval_every: int | None = Field(default=None, ge=1, description="steps between held-out checks")
    patience: int | None = Field(default=None, ge=1, description="held-out checks without gain before training stops")
    checkpoint_every: int | None = Field(default=None, ge=1, description="steps between checkpoints")
    warmup: float | None = Field(default=None, ge=0, le=1, description="share of the steps with a rising learning rate")
    weight_decay: float | None = Field(default=None, ge=0, le=1, description="weight decay of AdamW")
    clip_norm: float | None = Field(default=None, gt=0, description="longest gradient")
    model_dropout: bool | None = Field(default=None, description="whether the model's own dropout is on; slow on a CPU")
    mask_false_negatives: bool | None = Field(
        default=None, description="InfoNCE leaves out chunks that the teacher puts above the positive"
    )
    heldout_queries: int | None = Field(default=None, ge=1, description="validation queries of a check, at most")
    heldout_pool: int | None = Field(default=None, ge=10, description="chunks that a check ranks, at most")
    micro_batch_tokens: int | None = Field(default=None, ge=1, description="tokens, padding included, of a micro-batch")
    graph_memory_mb: float | None = Field(
        default=None, ge=0, description="memory for graphs above which texts run twice"
    )
    seed: int = Field(default=0, ge=0, lt=2**32, description="seed of every random choice in training")

    def overrides(self) -> dict[str, Any]:
        """The values that the user set, without the preset's name."""
        return {key: value for key, value in self.model_dump().items() if key != "preset" and value is not None}


class EvaluationSettings(Section):
    """How candidates are compared."""

    heldout_share: float = Field(
        default=0.15,
        gt=0,
        lt=0.9,
        description="share of the documents whose queries are never trained on: half stop the training, half choose",
    )
    max_heldout: int = Field(default=600, ge=20, description="held-out queries used, at most")
    bootstrap_samples: int = Field(
        default=10_000, ge=100, le=1_000_000, description="samples of every confidence interval"
    )
    lambdas: list[Annotated[float, Field(ge=0.01, le=0.99, multiple_of=0.01)]] = Field(
        default=[0.25, 0.5, 0.75], description="merges of base and adapted that compete with both"
    )
    depth: int = Field(
        default=100, ge=10, le=10_000, description="ranking depth that the systems are compared and fused at"
    )
    veto: bool = Field(
        default=True, description="judged queries may forbid an adapter that is clearly worse than base on them"
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
    fusion: Literal["rrf", "weighted"] = Field(default="rrf", description="how hybrid search joins both rankings")
    rrf_u: int = Field(default=40, ge=1, description="constant of reciprocal rank fusion")
    weight: float = Field(default=0.5, ge=0, le=1, description="weight of the semantic score in weighted fusion")
    top: int = Field(default=10, ge=1, le=1000, description="hits shown")


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


def load(path: Path) -> Settings:
    """Read and check a project.toml. Raises SettingsError that names the key, and the nearest valid one for a typo."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise SettingsError(
            f"{path} is missing.", "A project folder holds its settings there.", "Create the project with 'engine new'."
        ) from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not UTF-8 text.", str(error), "Save the file as UTF-8.") from None
    except (ValueError, RecursionError) as error:  # ValueError: also of a number with thousands of digits
        raise SettingsError(f"{path} is not valid TOML.", str(error), "Correct that line and run again.") from None
    except OSError as error:
        raise SettingsError(
            f"{path} cannot be read.", str(error), "Check that it is a file that you may read."
        ) from None
    return validate(data, str(path))


def validate(data: dict[str, Any], origin: str = "project.toml") -> Settings:
    """Settings from a parsed table. Raises SettingsError."""
    try:
        return Settings.model_validate(data)
    except ValidationError as error:
        raise _explain(error, origin) from None


def _explain(error: ValidationError, origin: str) -> SettingsError:
    problems, advice = [], []
    for item in error.errors():
        key = ".".join(str(part) for part in item["loc"])
        if item["type"] != "extra_forbidden":
            problems.append(f"{key}: {item['msg']} (found {_shortened(item['input'])})")
            continue
        problems.append(f"unknown key '{key}'")
        near = _nearest_keys(tuple(str(part) for part in item["loc"]))
        advice.append(f"Did you mean {near}?" if near else "Remove it; a new project's project.toml shows every key.")
    return SettingsError(
        f"{origin} has {len(problems)} problem{'s' if len(problems) > 1 else ''}.",
        "; ".join(problems) + ".",
        " ".join(advice) or "Correct the value and run again.",
    )


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _nearest_keys(location: tuple[str, ...]) -> str | None:
    """The valid dotted keys meant by an unknown one, quoted: right but in the wrong section, or closest by spelling.

    Its own section counts before the others; a section's own name is meant where the unknown key is one.
    """
    sections = {name: list(field.annotation.model_fields) for name, field in Settings.model_fields.items()}  # type: ignore[union-attr]
    key = location[-1]
    if owners := [f"'{name}.{key}'" for name, keys in sections.items() if key in keys]:
        return " or ".join(owners)
    if len(location) > 1 and (near := nearest(key, sections.get(location[0], []))):
        return f"'{location[0]}.{near}'"
    if len(location) == 1 and (section := nearest(key, sections)):
        return f"'{section}'"
    everywhere = {known: f"'{name}.{known}'" for name, keys in sections.items() for known in keys}
    near = nearest(key, everywhere)
    return everywhere[near] if near else None


def _toml_value(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def template(chosen: dict[str, dict[str, Any]]) -> str:
    """Text of a new project.toml: the chosen values set, every other key as a comment with its default and meaning.

    A chosen None means the default. Raises SettingsError for text that UTF-8 cannot hold (a path of undecodable bytes).
    """
    lines = ["# Settings of this project. Lines that begin with '# ' show the defaults.", ""]
    for name, section in Settings.model_fields.items():
        lines.append(f"[{name}]")
        for key, field in section.annotation.model_fields.items():  # type: ignore[union-attr]
            default = field.get_default()
            shown = _toml_value(default) if default is not None else '"from the preset"'
            if (value := chosen.get(name, {}).get(key)) is not None:
                lines += [f"# {field.description}", f"{key} = {_toml_value(value)}"]
            else:
                lines.append(f"# {key} = {shown}   # {field.description}")
        lines.append("")
    text = "\n".join(lines)
    if not text.isascii():
        _refuse_undecodable(text)
    return text


def _refuse_undecodable(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        line = next(line for line in text.splitlines() if error.object[error.start] in line)
        raise SettingsError(
            "A setting holds bytes that are not text.",
            line.encode("utf-8", "backslashreplace").decode(),
            "Rename the file or folder so that its name is valid UTF-8.",
        ) from None
