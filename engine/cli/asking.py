"""`engine ask`: the user's own language model answers a question from what search finds."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.app import AsJson, ProjectName, app, handling, opened, print_json, print_text
from engine.core.errors import CancelledError
from engine.core.text import harmless

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.core.messages.answers import Answer
    from engine.core.messages.search import Hit


@app.command()
def ask(
    name: ProjectName,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="as for 'engine search'")],
    as_json: AsJson = False,
) -> None:
    """Answer a question with your own language model. Each sentence names its sources.

    The model is that of queries.model or queries.endpoint; a server gets the passages found. Ctrl-C
    stops it. A sentence is marked if it cites no source or one that does not exist, or if its quote
    is missing or not in the source. Check for yourself that the source says what the sentence says.
    """
    from engine.answers.answering import answer, choose_model
    from engine.cli.console import show_notes
    from engine.core.messages.wire import to_json

    with opened(name) as project:
        choose_model(project.folder)  # raises an error without a model, before the search
        found = project.search(question)
        if found.problem:
            raise found.problem
        if not as_json:
            show_notes(found)
        chunks = [hit.chunk_id for hit in found.hits]
        printer = _Printer()
        show = _ignore if as_json else printer.show
        stop = threading.Event()
        with handling(lambda *_: stop.set(), signal.SIGINT, signal.SIGTERM):
            written = answer(
                project.folder,
                question,
                chunks,
                show,
                stop.is_set,
            )
    # The model got as many of the hits, from the first on.
    read_hits = found.hits[: written.passages]
    if as_json:
        print_json(
            {"question": question, **to_json(written), "sources": read_hits, "notes": found.notes}
        )
    else:
        printer.show(written)
        if written.state == "done" and not written.sentences:
            if read_hits:
                print("The passages that were found do not answer this.")
            else:
                print("Nothing was found.")
        if written.state == "cut":
            print("… (queries.answer_tokens allows no more)")
        _show_sources(written, read_hits)
    if written.problem:
        raise written.problem
    if written.state == "stopped":
        raise CancelledError("The answer was stopped.")


def _ignore(_answer: Answer) -> None:
    pass


def _show_sources(written: Answer, hits: Sequence[Hit]) -> None:
    """Print the hits that the answer cites; its citations are numbers of hits, from 1."""
    cited: set[int] = set()
    for sentence in written.sentences:
        cited.update(sentence.sources)
    lines = []
    for number, hit in enumerate(hits, 1):
        if number in cited:
            place = ", ".join(filter(None, (hit.path, hit.page_name)))
            lines.append(f"[{number}] {hit.title or hit.path}: {place}")
    if lines:
        print()
    for line in lines:
        print_text(line)


class _Printer:
    """Prints an answer as it grows; what a terminal shows cannot be taken back.

    A sentence's marks (of a missing source or quote) are known, and printed, when it ends.
    """

    def __init__(self) -> None:
        self._is_announced = False
        self._finished_sentences = 0
        self._printed_letters = 0  # of the sentence after the finished ones

    def show(self, written: Answer) -> None:
        """Print what is new of the whole answer so far."""
        from engine.cli.console import progress_console

        if written.passages and not self._is_announced:
            self._is_announced = True
            text = f"{written.model} reads {written.passages} of the passages …"
            progress_console().print(harmless(text), markup=False)
        for sentence in written.sentences[self._finished_sentences :]:
            text = harmless(sentence.text)
            print(
                text[self._printed_letters :],
                end="",
                flush=True,
            )
            self._printed_letters = len(text)
            is_last = sentence is written.sentences[-1]
            if not is_last or written.state != "writing":
                print(sentence.marks, flush=True)
                self._finished_sentences += 1
                self._printed_letters = 0
