"""Writing queries on the nodes of a cluster.

The GGUF file is sent to each node once, then chunks, one per node at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from engine.cluster.nodes import Nodes
from engine.core.disk import read_tree, write_tree
from engine.llm.chat import FileChatModel
from engine.llm.requests import NullReporter
from engine.queries.llm.answer import Answer, Passage
from engine.queries.llm.prompted import PromptedWriter
from engine.settings.schema import QuerySettings

_NumberedAnswer = tuple[int, Answer]


class _ModelAndSettings(NamedTuple):
    """What a node needs to write queries: the model's file by its name, settings and seed."""

    files: dict[str, bytes]
    settings: QuerySettings
    seed: int


class NodesWriter:
    """Writes queries on all nodes of a cluster, and is used like `PromptedWriter`."""

    name = "gguf"

    def __init__(
        self, path: Path, settings: QuerySettings, seed: int, check: Callable[[], None]
    ) -> None:
        """Send the model to all nodes.

        Raises what `Nodes` and `FileChatModel` raise.
        """
        self.model = path.name
        self.nodes = Nodes[Passage, _NumberedAnswer](
            _open_on_node, _ModelAndSettings(read_tree(path), settings, seed), check
        )

    def answers(self, passages: Iterable[Passage]) -> Iterator[_NumberedAnswer]:
        """Yield the answers as `PromptedWriter.answers` does, but in order.

        The seconds of an answer are divided by the number of nodes, since all of them work at once.
        """
        for number, answer in self.nodes.in_order(passages):
            yield number, replace(answer, seconds=answer.seconds / self.nodes.count)

    def close(self) -> None:
        """Release the nodes."""
        self.nodes.close()


def _open_on_node(model_and_settings: _ModelAndSettings) -> Callable[[Passage], _NumberedAnswer]:
    """Load the model on a node, and return the function that answers a passage.

    The file is deleted as soon as the model is loaded.
    """
    settings = model_and_settings.settings
    # Windows removes no file that the loaded model has mapped.
    with TemporaryDirectory(prefix="bmembed-", ignore_cleanup_errors=True) as folder:
        write_tree(model_and_settings.files, Path(folder))
        file = Path(folder) / next(iter(model_and_settings.files))
        model = FileChatModel(
            file,
            settings.context_tokens,
            NullReporter(),
            lambda: None,
        )
    backend = PromptedWriter(
        model,
        settings.prompt,
        settings.per_chunk,
        settings.answer_tokens,
        model_and_settings.seed,
        kinds=settings.kinds,
    )
    return lambda passage: next(iter(backend.answers([passage])))
