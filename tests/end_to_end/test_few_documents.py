"""Corpora that cannot be parted by document: what is learnt is still chosen on queries that it
was not learnt from.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fixtures.pipeline import SAMPLE, engine_here
from fixtures.tiny_model import encoder_settings

from engine.project.folder import ProjectFolder
from engine.queries.heldout import sample_keys

TEXTS = [
    path.read_text()
    for name in ("incidents", "policies")
    for path in sorted((SAMPLE / "documents" / name).iterdir())
]


def corpus(place: Path, kind: str) -> None:
    texts = [*TEXTS[:24], TEXTS[0]]  # the last one is a copy
    if kind == "one file":
        (place / "handbook.txt").write_text("\n\n".join(texts))
        return
    title = "Report" if kind == "one title" else ""
    rows = [{"_id": str(number), "title": title, "text": text} for number, text in enumerate(texts)]
    (place / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("kind", ["untitled", "one title", "one file"])
def test_parts_of_few_documents_are_held_out(
    tmp_path: Path,
    tiny_model: Path,
    kind: str,
) -> None:
    """Before, all untitled entries of a small set, and all entries of one title, were on one
    side: base was always served.
    """
    project = ProjectFolder.create(
        tmp_path / "project",
        {
            "corpus": {"paths": ["documents"], "chunk_tokens": 96},
            "encoder": encoder_settings(tiny_model),
            "queries": {"consistency_top": 0},
        },
    )
    (project.path / "documents").mkdir()
    corpus(project.path / "documents", kind)
    messages = engine_here(
        "run", str(project.path), "--only", "ingest,index,generate", "--verbose"
    ).stderr
    store = project.store()
    queries = store.queries()
    chunks = store.chunks()
    store.close()
    run = max(1, len(chunks) // 20)
    first: dict[str, int] = {}
    part = {
        chunk.id: first.setdefault(chunk.content_hash, place) // run
        for place, chunk in enumerate(chunks)
    }
    sides = {
        side: {part[q.chunk_id] for q in queries if q.split == side}
        for side in ("train", "validation", "heldout")
    }
    assert all(sides.values()), "one side has no queries"
    assert not sides["train"] & sides["validation"]
    assert not sides["train"] & sides["heldout"]
    assert not sides["validation"] & sides["heldout"]
    assert len(sides["train"]) > 2 * len(sides["validation"] | sides["heldout"])
    assert "10 groups" in " ".join(messages.split())


def test_so_many_keys_are_chosen_whatever_their_hashes() -> None:
    keys = [str(number) for number in range(20)]
    chosen = sample_keys(
        keys,
        3,
        seed=1,
    )
    assert len(set(chosen)) == 3
    assert chosen == sample_keys(keys[::-1], 3, seed=1)
    assert sample_keys(keys, 2, seed=1) == chosen[:2]
    assert chosen != sample_keys(keys, 3, seed=2)
