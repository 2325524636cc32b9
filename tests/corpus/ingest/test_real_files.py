"""Real office files, some encrypted, broken or fake on purpose: nothing is lost, and every
failure says why.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from engine.corpus.sandbox.outcome import Limits
from engine.corpus.sandbox.pool import Pool
from engine.corpus.scan.scan import scan

OFFICE = Path(__file__).resolve().parents[4] / "shared" / "data" / "office"
READ = 492  # of 495 that hold text (docs/log/reading.md)


@pytest.mark.shared
@pytest.mark.skipif(not OFFICE.is_dir(), reason="the shared data sets are missing")
def test_real_files_give_text_or_a_true_reason() -> None:
    files = scan([OFFICE]).files
    pool = Pool(2, Limits())
    outcomes = list(pool.map(lambda file: pool.read(file.absolute, file.format), files))
    pool.close()
    assert len(outcomes) == len(files) >= 600
    kinds = Counter(outcome.kind for outcome in outcomes)
    assert kinds.keys() <= {"", "empty", "encrypted", "needs OCR", "damaged", "unsupported"}
    assert all(
        bool(outcome.documents) != bool(outcome.reason) or outcome.left_out for outcome in outcomes
    )
    assert not any("crashed" in outcome.reason for outcome in outcomes)
    assert kinds[""] >= 0.99 * READ
    for file, outcome in zip(files, outcomes, strict=True):
        if "protected_passtika" in file.path or "_password" in file.path:
            assert outcome.kind == "encrypted", file.path
