"""Which adapters are exported as peft folders."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from fixtures.errors import fails
from safetensors.numpy import save_file

from engine.core.errors import UsageError
from engine.encoders.loading import WHOLE
from engine.export.kinds import KINDS


def test_an_adapter_with_all_weights_is_no_peft_adapter(tmp_path: Path) -> None:
    settings = SimpleNamespace(encoder=SimpleNamespace(small_model=""))
    source = cast(Any, SimpleNamespace(adapter=lambda: (tmp_path, 1.0), settings=settings))
    layers = {"base_model.model.query.lora_A.weight": np.zeros((1, 2), np.float32)}
    save_file(layers, tmp_path / "adapter_model.safetensors")
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    KINDS["adapter"].check(source)
    whole = {f"{WHOLE}query.weight": np.zeros((2, 2), np.float32)}
    save_file({**layers, **whole}, tmp_path / "adapter_model.safetensors")
    with fails(UsageError, "adapter-of-all-weights"):
        KINDS["adapter"].check(source)
