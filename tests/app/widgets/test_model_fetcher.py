"""Models that can be fetched: how they are listed, and that only the second choice fetches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from textual.content import Content
from textual.widget import Widget

from bmembed_tui.steps.model.text import format_offer
from bmembed_tui.steps.queries.models import format_model, format_models_note
from bmembed_tui.widgets.model_fetcher import ModelFetcher
from engine.core.messages.encoders import EncoderOffer
from engine.core.messages.models import ListedModel

OFFER = ListedModel(
    path=None,
    place="catalogue",
    names=("qwen3-4b",),
    size=2_497_280_256,
    architecture="qwen3",
    quantisation=None,
    parameters=4_020_000_000,
    context=32768,
    chat_template=None,
    problem="",
    memory=2_797_280_256,
    fits=True,
    name="qwen3-4b",
    here=False,
    licence="Apache-2.0",
)
HERE = replace(
    OFFER,
    path=Path("/models/tiny.gguf"),
    names=("tiny.gguf",),
    here=True,
)


def test_only_the_second_choice_of_the_same_model_fetches() -> None:
    shown: list[Content | str] = []
    fetcher = ModelFetcher(Widget(), shown.append)
    choices = [
        fetcher.confirm("a", 1),
        fetcher.confirm("b", 1),
        fetcher.confirm("b", 1),
    ]
    assert choices == [False, False, True]
    assert fetcher.confirm("b", 1) is False
    fetcher.forget()
    assert fetcher.confirm("b", 1) is False
    assert "1 B" in str(shown[0])
    assert len(shown) == 4


def test_language_models_that_can_be_fetched_are_marked() -> None:
    assert str(format_model(OFFER)) == "⇣ qwen3-4b  2.5 GB to fetch, Apache-2.0"
    large = replace(OFFER, fits=False)
    assert "2.8 GB" in str(format_model(large))
    assert str(format_model(replace(large, room=False))).count("GB") == 1
    assert str(format_model(HERE))[0] == "✓"
    assert format_models_note([HERE, HERE]).startswith("2 GGUF files")
    assert "⇣" not in format_models_note([HERE])
    assert "⇣" in format_models_note([HERE, OFFER])
    assert not format_models_note([OFFER])[0].isdigit()


def test_encoders_say_how_well_they_suit() -> None:
    offer = EncoderOffer(
        "e5",
        488_000_000,
        "many languages",
        384,
        512,
        True,
        0.97,
    )
    suits = str(format_offer(offer, "97% German"))
    assert suits.startswith("⇣ e5  488.0 MB to fetch, many languages")
    assert "97% German" in suits
    assert "16%" in str(format_offer(replace(offer, known=0.16), "84% German"))
    assert "German" not in str(format_offer(replace(offer, fits=False), "97% German"))
    assert str(format_offer(offer, "")).endswith("many languages")
