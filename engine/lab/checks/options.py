"""What the checks of the lab measure with: options of `engine lab`, and `lab.…` keys of a study."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.core.disk import expand_home
from engine.core.errors import SettingsError, unknown_name
from engine.metrics.bootstrap import Sampling
from engine.settings.load import format_toml_value
from engine.settings.section import Section, key

PREFIX = "lab."
"""Prefix of the options' keys among the settings of a study's training."""


class LabOptions(Section):
    """How the checks sample queries, and the files that some of them need."""

    robustness: bool = key(False, "also measure queries with typos, masked and replaced words")
    top_k: int = key(
        5,
        "K of the diagnostics: best chunks per query",
        ge=1,
        le=10,
    )
    samples: int = key(
        500,
        "m of the diagnostics: bootstrap samples",
        ge=10,
        le=100_000,
    )
    sample_size: int = key(
        100, "l of the diagnostics: queries per bootstrap sample", ge=1, le=100_000
    )
    psi: float = key(
        5.0, "ψ of COE and ROE: percentile of the similarities of the best K chunks", ge=0, le=100
    )
    sentence_pairs: str = key(
        "", "sentence pairs with human scores: .jsonl, .csv, .tsv (sentence1, sentence2, score)"
    )
    general_set: str = key(
        "", "BEIR folder for the forgetting check, instead of the bundled questions"
    )

    @property
    def pairs_file(self) -> Path | None:
        """The file of sentence pairs, None if no one was named."""
        return expand_home(self.sentence_pairs) if self.sentence_pairs else None

    @property
    def general_folder(self) -> Path | None:
        """The BEIR folder of general text, None for the bundled questions."""
        return expand_home(self.general_set) if self.general_set else None

    def sampling(self, seed: int) -> Sampling:
        """Return how diagnostics are sampled."""
        return Sampling(
            top=self.top_k, samples=self.samples, size=self.sample_size, psi=self.psi, seed=seed
        )


def parse_options(values: Mapping[str, Any]) -> LabOptions:
    """Return the options with these values. Raises UsageError for an unknown one, SettingsError."""
    from pydantic import ValidationError

    try:
        return LabOptions.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            raise unknown_name(
                "option of the lab", name, LabOptions.model_fields, code="lab-option-invalid"
            ) from None
        raise SettingsError(
            f"{PREFIX}{name} cannot be {format_toml_value(first['input'])}.",
            f"{first['msg']}.",
            "Correct the value.",
            code="lab-option-invalid",
        ) from None


def split_options(changes: Mapping[str, Any]) -> tuple[dict[str, Any], LabOptions]:
    """Return the settings among a training's changes, and the options of the lab among them."""
    settings = {}
    options = {}
    for name, value in changes.items():
        if name.startswith(PREFIX):
            options[name.removeprefix(PREFIX)] = value
        else:
            settings[name] = value
    return settings, parse_options(options)
