"""Adding the start and end tokens that a model's own configuration asks for.

Since release 5, transformers ignores `add_eos_token` and `add_bos_token` of tokenizer_config.json
if there is a tokenizer.json. Without the end token that gte-Qwen2 and e5-mistral want, last-token
pooling reads the vector of the last word.
"""

from __future__ import annotations

from typing import Any

from engine.encoders.model_folder import ModelFolder, read_object


def wanted_tokens(model: ModelFolder) -> list[str]:
    """Return which of `bos_token` and `eos_token` tokenizer_config.json wants around every text."""
    path = model.transformer_path / "tokenizer_config.json"
    config = read_object(path) if path.is_file() else {}
    return [token for token in ("bos_token", "eos_token") if config.get(f"add_{token}") is True]


def add_missing(tokenizer: Any, model: ModelFolder) -> None:
    """Make the fast `tokenizer` add the wanted tokens that its tokenizer.json omits.

    They are added within any length limit.
    """
    wanted = wanted_tokens(model)
    if not wanted:
        return
    before, after = _find_special_tokens(tokenizer)
    start = tokenizer.bos_token
    end = tokenizer.eos_token
    is_complete = True
    if "bos_token" in wanted and start is not None and start not in before:
        before = [start, *before]
        is_complete = False
    if "eos_token" in wanted and end is not None and end not in after:
        after = [*after, end]
        is_complete = False
    if is_complete:
        return
    from tokenizers.processors import TemplateProcessing

    names = {*before, *after}
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=[*before, "$A", *after],
        pair=[*before, "$A", *after, *before, "$B", *after],
        special_tokens=[(name, tokenizer.convert_tokens_to_ids(name)) for name in names],
    )


def _find_special_tokens(tokenizer: Any) -> tuple[list[str], list[str]]:
    """Return the special tokens that the tokenizer puts before and after a text."""
    bare = tokenizer("a", add_special_tokens=False, verbose=False)["input_ids"]
    whole = tokenizer("a", verbose=False)["input_ids"]
    start = 0  # of the bare tokens within the whole
    while whole[start : start + len(bare)] != bare:
        start += 1
    to_tokens = tokenizer.convert_ids_to_tokens
    return to_tokens(whole[:start]), to_tokens(whole[start + len(bare) :])
