"""Writing queries on the nodes of a cluster.

The GGUF file is sent to each node once, then chunks, one per node at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.cluster.nodes import Nodes
from engine.core.disk import read_tree, write_tree
from engine.llm.chat import FileChatModel
from engine.llm.requests import NullReporter
from engine.queries.llm.answer import Answer, Passage
from engine.queries.llm.prompted import Prompted
from engine.settings.schema import QuerySettings

_Numbered = tuple[int, Answer]
_Given = tuple[dict[str, bytes], QuerySettings, int]


class NodesWriter:
    """The interface of `Prompted`, on all nodes."""

    name = "gguf"

    def __init__(
        self, path: Path, settings: QuerySettings, seed: int, check: Callable[[], None]
    ) -> None:
        """Send the model to all nodes.

        Raises what `Nodes` and `FileChatModel` raise.
        """
        self.model = path.name
        self.nodes = Nodes[Passage, _Numbered](
            open_writing, (read_tree(path), settings, seed), check
        )

    def answers(self, passages: Iterable[Passage]) -> Iterator[_Numbered]:
        """Yield the answers as `Prompted.answers` does, but in order.

        The seconds of an answer are divided by the number of nodes, since all of them work at once.
        """
        for number, answer in self.nodes.in_order(passages):
            yield number, replace(answer, seconds=answer.seconds / self.nodes.count)

    def close(self) -> None:
        """Release the nodes."""
        self.nodes.close()


def open_writing(given: _Given) -> Callable[[Passage], _Numbered]:
    """Load the model on a node, and return the function that answers a passage.

    The file is deleted as soon as the model is loaded.
    """
    files, chosen, seed = given
    # Windows removes no file that the loaded model has mapped.
    with TemporaryDirectory(prefix="bmembed-", ignore_cleanup_errors=True) as folder:
        write_tree(files, Path(folder))
        file = Path(folder) / next(iter(files))
        model = FileChatModel(file, chosen.context_tokens, NullReporter(), lambda: None)
    backend = Prompted(
        model, chosen.prompt, chosen.per_chunk, chosen.answer_tokens, seed, kinds=chosen.kinds
    )
    return lambda passage: next(iter(backend.answers([passage])))
