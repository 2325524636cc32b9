"""Settings as they were before 0.2, renamed or removed since: read for this version, and
reported once in each run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KEYS = {
    "corpus.drift": "corpus.retrain_threshold",
    "queries.at_once": "queries.concurrency",
    "training.side": "training.adapter_scope",
    "evaluation.lambdas": "evaluation.interpolation_weights",
    "evaluation.merges_up_to": "",
    "evaluation.max_interpolation_chunks": "",
    "evaluation.veto": "evaluation.use_judged",
    "evaluation.cl_baseline": "",
    "evaluation.transformations": "",
    "search.rrf_u": "search.rrf_k",
    "search.hubs": "",
    "search.csls": "",
    "search.term_weights": "",
    "vectors.expansion_search": "",
    "training.quantisation": "",
    "training.compile": "",
    "training.query_steps": "",
    "training.query_learning_rate": "",
    "training.refresh_every": "",
    "training.mined_per_query": "",
}
"""Old key → current one; empty where the setting was removed and has no effect."""
SCOPES = {"query": "queries", "both-then-query": "both-then-queries"}
"""Values of training.adapter_scope, also in artifacts."""
VALUES: dict[tuple[str, str], dict[str, Any]] = {
    ("objective", "shared_listnet"): {"objective": "mixed", "infonce_weight": 0.0},
    ("teacher", "rrf"): {"teacher": "auto"},
}
"""Values in [training] that were removed, and what is set in their place."""
BOTH_THEN_QUERIES = "both-then-queries"
"""Adapters of before may have this scope: one for queries, with that of chunks in it.

The setting means `both` now.
"""


def current_scope(scope: str) -> str:
    """An adapter scope under its current name."""
    return SCOPES.get(scope, scope)


def former_scope(scope: str) -> str:
    """An adapter scope under its old name."""
    return {new: old for old, new in SCOPES.items()}.get(scope, scope)


_SINCE = {
    "augmentation": None,
    "epochs": 0,
    "in_batch": False,
    "similarity": "cosine",
    "curvature": 1.0,
    "entailment_weight": 0.1,
    "pretrain_weights": "adapter",
    "weights": "adapter",
    "everyday_share": None,
    "keep": "best",
}
"""Numbers of the recipe that came after 0.2's first ones, as they were without them."""


def recipe_identity(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """A training recipe under its old names, with what has gone since, as fingerprints have it:
    adapters trained before by preset standard stay up to date.
    """
    identity = {key: value for key, value in recipe.items() if (key, value) not in _SINCE.items()}
    scope = former_scope(identity.pop("adapter_scope"))
    gone = {
        "graph_memory_mb": 512,
        "compile": "auto",  # how it is computed, not what
        "quantisation": "none",
        "query_steps": 100,
        "query_learning_rate": 5e-4,
        "refresh_every": 0,
        "mined_per_query": 20,
    }
    return {**identity, "side": scope, **gone}


def old_names(tables: Mapping[str, Any]) -> dict[str, str]:
    """The old keys in parsed tables, each with its current name (empty: removed)."""
    found = {}
    for old, new in KEYS.items():
        section, key = old.split(".")
        table = tables.get(section)
        if isinstance(table, Mapping) and key in table:
            found[old] = new
    return found


def with_current_names(tables: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of parsed tables under the current names.

    Where a key is there under both, the current one counts.
    """
    result = {
        name: dict(table) if isinstance(table, Mapping) else table for name, table in tables.items()
    }
    for old, new in old_names(tables).items():
        section, key = old.split(".")
        value = result[section].pop(key)
        if new:
            result[section].setdefault(new.split(".")[1], value)
    training = result.get("training")
    if isinstance(training, dict) and isinstance(scope := training.get("adapter_scope"), str):
        training["adapter_scope"] = (
            "both" if current_scope(scope) == BOTH_THEN_QUERIES else current_scope(scope)
        )
    for (key, value), current in VALUES.items():
        if isinstance(training, dict) and training.get(key) == value:
            training.update(current)
    search = result.get("search")
    if isinstance(search, dict) and search.get("mode") == "bm25":
        search["mode"] = "keywords"
    return result


def current_changes(tables: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changes ("section.key" → value, None to remove) under the current names; what they replace
    under an old one is removed.
    """
    current = {KEYS.get(key, key): value for key, value in changes.items() if KEYS.get(key) != ""}
    replaced = {
        old: None
        for old, new in old_names(tables).items()
        if new in current or (not new and old in changes)
    }
    return {**replaced, **current}
