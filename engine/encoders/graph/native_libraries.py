"""The order in which native libraries are loaded.

usearch contains its own C++ library. If it is loaded first, importing onnxruntime crashes and
torch's tracer never ends (usearch 2.26.6, onnxruntime 1.31.1, torch 2.13.0: streams of the C++
library fail in them); in the other order all work.
"""

from __future__ import annotations

import sys
from contextlib import suppress


def prepare_for_usearch() -> None:
    """Import onnxruntime, if installed; call this before usearch is imported."""
    with suppress(ImportError):
        import onnxruntime  # noqa: F401


def can_run_graphs() -> bool:
    """Return whether onnxruntime and torch's tracer work in this process.

    Another program may have imported usearch first.
    """
    names = list(sys.modules)
    if "usearch" not in names:
        return True
    earlier = names[: names.index("usearch")]
    return "torch" in earlier or "onnxruntime" in earlier
