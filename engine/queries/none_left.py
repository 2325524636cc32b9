"""What is told where no training query is left: what took them, what that means, and what to do."""

from __future__ import annotations

from collections.abc import Mapping

from engine.core.errors import StageError
from engine.queries.choosing import MODELS
from engine.queries.rejection import Reason

MEANS = "nothing can be trained, and search uses the base encoder"
_QUOTES = "take another model, which quotes its document: 'engine sample {0}' shows what this one answers"
_REMEDIES: dict[str, str] = {  # for a project on the command line
    Reason.CUT: "raise queries.answer_tokens",
    Reason.NO_ANSWER: "'engine sample {0}' shows what the model or its server answers",
    Reason.NOT_FOUND: _QUOTES,
    Reason.SHORT: _QUOTES,
    Reason.CHUNK_NOT_FOUND: "raise queries.consistency_top, or set it to 0: then such queries are kept",
}
_ASKED, _LISTED = "'engine sample {0}' shows what the model answers", "'engine queries {0} --rejected' lists them"
_SILENT = {
    "imported": "none was imported, or none belongs to a document here: 'engine queries {0} --rejected' lists those",
    "extractive": "the documents hold too little text: add some, or set queries.backend to what else can write queries",
}


def none_left(made: int, rejected: Mapping[str, int], backend: str, project: str) -> str:
    """In words. `made`: queries before any filter; `rejected`: their number by reason; `project`: on the command line."""
    if not any(rejected.values()):
        why = _SILENT.get("imported" if backend == "both" else backend, "the model wrote none: " + _ASKED)
        return f"There is no training query: {MEANS}. {_sentence(why.format(project))}"
    remedy = _remedy(rejected, _ASKED if backend in MODELS else _LISTED)
    head = f"Of {made} queries none is left" if made else "No query was made"
    return f"{head} ({format_reasons(rejected)}): {MEANS}. {_sentence(remedy.format(project))}"


def format_reasons(rejected: Mapping[str, int]) -> str:
    """`12 × evidence not in the chunk, 3 × …`, the most frequent first; empty where there is none."""
    return ", ".join(f"{rejected[reason]} × {reason}" for reason in _by_count(rejected) if rejected[reason])


def no_usable_queries(asked: int, left: int, more: int, rejected: Mapping[str, int], project: str) -> StageError:
    """A language model has written nothing usable about `asked` chunks, and `left` others would be asked about. By force, `more`
    of them are."""
    why = format_reasons(rejected) or "it wrote no question"
    return StageError(
        f"The language model wrote no usable question about {asked} chunks.",
        f"{_sentence(why)} The other {left} were not asked about, since they would hardly give any.",
        f"{_sentence(_remedy(rejected, _ASKED).format(project))} Or set queries.backend to extractive, which needs no model. "
        f"'engine generate {project} --force' asks this one about {more} more. The answers so far are kept.",
        code="no-usable-queries",
        stage="generate",
        command="sample",
    )


def _by_count(rejected: Mapping[str, int]) -> list[str]:
    return sorted(rejected, key=lambda reason: -rejected[reason])


def _remedy(rejected: Mapping[str, int], other: str) -> str:
    """What to do about the most frequent reason."""
    first = next(iter(_by_count(rejected)), "")
    return _REMEDIES.get(first, other) if rejected.get(first) else other


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."
