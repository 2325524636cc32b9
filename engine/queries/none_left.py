"""What is told where no training query is left: what took them, what that means, and what to do."""

from __future__ import annotations

from collections.abc import Mapping

from engine.queries.choosing import MODELS
from engine.queries.conversation import CUT, NOT_FOUND, SHORT
from engine.queries.writing import NO_ANSWER

MEANS = "nothing can be trained, and search uses the base encoder"
_MENDS = (  # beginning of a reason → what to do about it, for a project on the command line
    (CUT, "raise queries.answer_tokens"),
    (NO_ANSWER, "'engine sample {0}' shows what the model or its server answers"),
    (NOT_FOUND, "take another model, which quotes its document: 'engine sample {0}' shows what this one answers"),
    (SHORT, "take another model, which quotes its document: 'engine sample {0}' shows what this one answers"),
    ("source chunk", "raise queries.consistency_top, or set it to 0: then such queries are kept"),
)
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
    order = sorted(rejected, key=lambda reason: -rejected[reason])
    told = ", ".join(f"{rejected[reason]} × {reason}" for reason in order if rejected[reason])
    other = _ASKED if backend in MODELS else _LISTED
    mend = next((mend for start, mend in _MENDS if order[0].startswith(start)), other)
    head = f"Of {made} queries none is left" if made else "No query was made"
    return f"{head} ({told}): {MEANS}. {_sentence(mend.format(project))}"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."
