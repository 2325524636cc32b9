"""Files → documents → chunks.

In: folders and files that the user names. Out: `ReadDocument`s (text, title, headings), cut into
`engine.records.Chunk`s by the encoder's own tokenizer; and judged or training queries from BEIR folders and JSONL
files. The chunks go to the lexical room; nothing here keeps state. `scan` is a function of the
module of that name: `from engine.corpus.scan import scan`. `import engine.corpus` loads no tokenizer and no
parser.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.corpus.beir import ImportedQuery as ImportedQuery
    from engine.corpus.beir import read_beir_judgments as read_beir_judgments
    from engine.corpus.beir import read_evidence_questions as read_evidence_questions
    from engine.corpus.beir import read_queries_jsonl as read_queries_jsonl
    from engine.corpus.chunking import Chunker as Chunker
    from engine.corpus.readers import Heading as Heading
    from engine.corpus.readers import ReadDocument as ReadDocument
    from engine.corpus.readers import Reader as Reader
    from engine.corpus.readers import UnreadableFileError as UnreadableFileError
    from engine.corpus.readers import reader_for as reader_for
    from engine.corpus.readers import register_reader as register_reader
    from engine.corpus.scan import Scan as Scan
    from engine.corpus.scan import ScannedFile as ScannedFile
    from engine.corpus.scan import Skipped as Skipped

_HOMES = {
    "beir": ("ImportedQuery", "read_beir_judgments", "read_evidence_questions", "read_queries_jsonl"),
    "chunking": ("Chunker",),
    "readers": ("Heading", "ReadDocument", "Reader", "UnreadableFileError", "reader_for", "register_reader"),
    "scan": ("Scan", "ScannedFile", "Skipped"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = [
    "Chunker",
    "Heading",
    "ImportedQuery",
    "ReadDocument",
    "Reader",
    "Scan",
    "ScannedFile",
    "Skipped",
    "UnreadableFileError",
    "read_beir_judgments",
    "read_evidence_questions",
    "read_queries_jsonl",
    "reader_for",
    "register_reader",
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        from importlib import import_module

        return getattr(import_module(f"engine.corpus.{_HOME_OF[name]}"), name)
    raise AttributeError(name)
