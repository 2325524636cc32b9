"""A search from a cold process needs no model library; where its graph is damaged, the encoder
itself gives the same hits.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fixtures.pipeline import engine_here, environment

from engine.encoders.graph.graph_files import FOLDER, MODEL
from engine.encoders.graph.query_graph import is_settled
from engine.encoders.graph.shared_graphs import find_graph

QUERY = "leave of absence"
COLD = """
import json, sys
from engine.cli import main
try:
    main()
except SystemExit:
    pass
heavy = {"torch", "transformers", "sentence_transformers", "peft", "matplotlib", "pandas", "scipy", "sklearn"}
print(json.dumps(sorted(heavy & set(sys.modules))), file=sys.stderr)
"""  # noqa: E501


def scores(output: str) -> dict[int, float]:
    """Of the chunks that were found by meaning."""
    hits = json.loads(output)["hits"]
    return {
        hit["chunk_id"]: hit["rankers"]["semantic"]["score"]
        for hit in hits
        if "semantic" in hit["rankers"]
    }


@pytest.mark.usefixtures("own_data_folder")
def test_it_loads_no_model_library_and_a_damaged_graph_is_rebuilt(project: Path) -> None:
    engine_here("embed", str(project))
    command = [
        sys.executable,
        "-c",
        COLD,
        "search",
        str(project),
        QUERY,
        "--json",
    ]
    completed = subprocess.run(
        command, env=environment(), capture_output=True, text=True, check=True
    )
    # ONNX Runtime may write a line of its own, as on machines without graphics.
    assert json.loads(completed.stderr.splitlines()[-1]) == []
    (index,) = project.glob("vectors/*")
    graph = find_graph(index) / MODEL
    os.truncate(graph, graph.stat().st_size // 2)
    cold = scores(completed.stdout)
    assert cold
    assert scores(engine_here("search", str(project), QUERY, "--json").stdout) == pytest.approx(
        cold, abs=1e-4
    )
    assert not is_settled(index)
    assert "✓ embed" in engine_here("embed", str(project)).stderr
    (index,) = project.glob("vectors/*")
    assert is_settled(index)
    assert any((index / FOLDER).iterdir())
    assert "embed up to date" in engine_here("embed", str(project)).stderr
