"""The graph of queries gives the encoder's vectors, or none is there; who finds it damaged loads
the encoder.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixtures.pipeline import environment

from engine.encoders.graph.graph_files import FOLDER
from engine.encoders.graph.query_graph import QueryGraph, is_settled, take_over, write_query_graph
from engine.encoders.graph.shared_graphs import copy_shared_graphs
from engine.encoders.kinds.folder import FolderSource
from engine.encoders.model_folder import resolve_model

MAX_TOKENS = 48
pytestmark = pytest.mark.usefixtures("own_data_folder")
TEXTS = [
    "the contract party",
    "the wing, at speed",
    "news report of the court " * 30,
]
QUERIES = [
    *TEXTS,
    "",
    "x",
    "Zürich 東京 \ud800 [SEP] x",
    "agreement notice term court " * 6,
]


@pytest.fixture(scope="module")
def index(source: FolderSource, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the graph of a tiny BERT itself, not a pointer. Tests copy it to damage it."""
    folder = tmp_path_factory.mktemp("project") / "vectors" / "index"
    folder.mkdir(parents=True)
    write_query_graph(
        source,
        MAX_TOKENS,
        None,
        1.0,
        folder,
        TEXTS,
    )
    copy_shared_graphs(folder.parents[1])
    return folder


def opened(index: Path, source: FolderSource) -> QueryGraph | None:
    return QueryGraph.open(index, source.vectors_fingerprint(MAX_TOKENS))


def check_same(index: Path, source: FolderSource) -> None:
    graph = opened(index, source)
    encoder = source.load(MAX_TOKENS)
    assert graph is not None
    assert graph.fingerprint == encoder.fingerprint
    found = graph.encode_queries(QUERIES)
    assert found.dtype == np.float32
    np.testing.assert_allclose(
        found,
        encoder.encode_queries(QUERIES),
        atol=1e-4,
    )


def test_equals_the_encoder(index: Path, source: FolderSource) -> None:
    check_same(index, source)
    assert is_settled(index)
    assert QueryGraph.open(index, "of another encoder") is None


def test_a_prompt_that_pooling_leaves_out(
    model_copy: Path, edit_json: Callable[..., None], tmp_path: Path
) -> None:
    edit_json(
        model_copy / "config_sentence_transformers.json", prompts={"query": "what about the law: "}
    )
    edit_json(model_copy / "1_Pooling" / "config.json", include_prompt=False)
    source = FolderSource.of(
        resolve_model(str(model_copy)),
        "cpu",
        "float32",
    )
    write_query_graph(
        source,
        MAX_TOKENS,
        None,
        1.0,
        tmp_path,
        TEXTS,
    )
    check_same(tmp_path, source)


@pytest.mark.slow
def test_equals_the_bundled_model(tmp_path: Path) -> None:
    source = FolderSource.of(
        resolve_model(),
        "cpu",
        "float32",
    )
    write_query_graph(
        source,
        MAX_TOKENS,
        None,
        1.0,
        tmp_path,
        TEXTS,
    )
    check_same(tmp_path, source)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "encoder.json"])
@pytest.mark.parametrize("way", ["cut", "flipped", "gone", "empty"])
def test_a_damaged_one_is_not_used(
    index: Path, source: FolderSource, tmp_path: Path, name: str, way: str
) -> None:
    copy = Path(shutil.copytree(index, tmp_path / "copy"))
    file = copy / FOLDER / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.unlink()
    if way != "gone":
        file.write_bytes({"cut": data[: len(data) // 2], "flipped": data, "empty": b""}[way])
    assert opened(copy, source) is None
    assert not is_settled(copy)
    assert not take_over(copy, tmp_path / "next")


def test_the_next_index_takes_it_over(
    index: Path,
    source: FolderSource,
    tmp_path: Path,
) -> None:
    copy = Path(shutil.copytree(index, tmp_path / "copy"))
    after = tmp_path / "next"
    after.mkdir()
    assert take_over(copy, after)
    shutil.rmtree(copy)
    assert opened(after, source) is not None


def test_a_graph_whose_vectors_differ_is_not_kept(
    source: FolderSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = QueryGraph.encode_queries

    def a_little_off(self: QueryGraph, texts: Any, progress: Any = None) -> np.ndarray:
        return real(self, texts, progress) + np.float32(2e-4)

    monkeypatch.setattr(QueryGraph, "encode_queries", a_little_off)
    write_query_graph(
        source,
        MAX_TOKENS,
        None,
        1.0,
        tmp_path,
        TEXTS,
    )
    assert list((tmp_path / FOLDER).iterdir()) == []
    assert is_settled(tmp_path), "it is not tried again with every run"


def test_a_large_model_gets_no_graph(source: FolderSource, tmp_path: Path) -> None:
    write_query_graph(
        source,
        MAX_TOKENS,
        None,
        1.0,
        tmp_path,
        TEXTS,
        max_weights=1000,
    )
    assert opened(tmp_path, source) is None
    assert is_settled(tmp_path)


RUN = """
import json, sys
from pathlib import Path
{before}
from engine.encoders.graph.query_graph import QueryGraph
graph = QueryGraph.open(Path(sys.argv[1]), sys.argv[2])
print(json.dumps([graph is not None, sorted({{"torch", "transformers", "sentence_transformers"}} & set(sys.modules))]))
"""  # noqa: E501


@pytest.mark.parametrize(
    ("before", "usable"),
    [
        (
            (
                "from engine.encoders.graph.native_libraries import prepare_for_usearch as p; p();"
                " import usearch.index"
            ),
            True,
        ),
        ("import usearch.index", False),
        ("sys.modules['onnxruntime'] = None", False),
    ],
)
def test_it_needs_no_model_library_and_a_process_where_it_cannot_run_lives(
    index: Path, source: FolderSource, before: str, usable: bool
) -> None:
    command = [
        sys.executable,
        "-c",
        RUN.format(before=before),
        str(index),
        source.vectors_fingerprint(MAX_TOKENS),
    ]
    done = subprocess.run(
        command,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == [usable, []]
