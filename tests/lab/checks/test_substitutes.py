"""Other words for those of a query, by the language model that writes the project's queries."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fixtures.errors import fails
from fixtures.fake_endpoint import Raw, completion, serving, user
from fixtures.project_files import mode

from engine.core.errors import CancelledError, EngineError
from engine.lab.checks.substitutes import (
    KEYWORDS,
    Question,
    ask_for_substitutes,
    choose_keywords,
    fingerprint_language_model,
    forget_substitutes,
)
from engine.settings.schema import QuerySettings, Settings

ASKED = [
    Question("roof repair costs", ["roof", "Repair", "costs"]),
    Question("garden", ["garden"]),
    Question("42", []),
]
EMPTY = SimpleNamespace(artifact=lambda _kind: None)  # a database without any artifact
OTHERS = {
    "roof": "top of the house",
    "repair": "mending",
    "costs": "costs more",
    "garden": "\n",
}
pytestmark = pytest.mark.usefixtures("no_endpoint_key")


def context(
    project: Path,
    url: str,
    stop: bool = False,
    seen: list[int] | None = None,
) -> Any:
    seen = [] if seen is None else seen
    settings = Settings(
        queries=QuerySettings(backend="endpoint", endpoint=url, endpoint_model="small")
    )
    return SimpleNamespace(
        project=SimpleNamespace(path=project),
        settings=settings,
        should_stop=lambda: stop,
        report_choice=lambda *_: None,
        warn=lambda *_: None,
        progress=lambda done, _total, _unit: seen.append(done),
        store=EMPTY,
    )


def script(request: dict[str, Any], _number: int) -> str:
    words = user(request).split("Words: ")[1].split("\n")[0].split(", ")
    assert "roof repair costs" in user(request) or words == ["garden"]
    told = [{"word": word, "other": OTHERS[word]} for word in words] + [
        {"word": "unasked", "other": "word"}
    ]
    return json.dumps({"words": told})


def test_the_model_gets_each_query_and_its_words_once(tmp_path: Path) -> None:
    with serving(script) as server:
        seen: list[int] = []
        some = context(
            tmp_path,
            server.url,
            seen=seen,
        )
        found, name = ask_for_substitutes(some, ASKED)
        # What repeats the word, is empty, or was not asked for is left out.
        assert found == [{"roof": "top of the house", "repair": "mending"}, {}, {}]
        assert (name, seen, len(server.requests)) == ("small", [1, 2, 3], 2)
        assert ask_for_substitutes(some, ASKED)[0] == found
        assert len(server.requests) == 2
    (kept,) = (tmp_path / "cache").glob("substitutes-*.jsonl")
    assert mode(kept) == 0o600
    assert "roof repair" not in kept.read_text()


def test_a_word_cut_by_the_token_limit_is_dropped(tmp_path: Path) -> None:
    begun = (
        '{"words": [{"word": "roof", "other": "top of the house"}, {"word": "costs", "other": "pri'
    )
    with serving(lambda *_: completion(begun, "length")) as server:
        found, _ = ask_for_substitutes(context(tmp_path, server.url), ASKED[:1])
    assert found == [{"roof": "top of the house"}]


def test_a_bad_answer_gives_nothing_and_a_torn_line_is_requested_again(tmp_path: Path) -> None:
    with serving(lambda *_: "no JSON") as server:
        assert ask_for_substitutes(context(tmp_path, server.url), ASKED[:1])[0] == [{}]
    with serving(script) as server:
        some = context(tmp_path, server.url)
        ask_for_substitutes(some, ASKED[:1])
        kept = tmp_path / "cache" / f"substitutes-{fingerprint_language_model(some)}.jsonl"
        kept.write_text(kept.read_text()[:-9])
        assert ask_for_substitutes(some, ASKED[:2])[0][0]["roof"] == "top of the house"
        assert len(server.requests) == 3
        assert all(json.loads(line) for line in kept.read_text().splitlines()[1:])


def test_words_of_queries_that_are_gone_do_not_stay(tmp_path: Path) -> None:
    with serving(script) as server:
        some = context(tmp_path, server.url)
        other = tmp_path / "cache" / "substitutes-former.jsonl"
        other.parent.mkdir()
        other.write_text('{"key": "k", "words": {"secret": "word"}}\n')
        ask_for_substitutes(some, ASKED[:2])
        assert [path.name for path in other.parent.iterdir()] == [
            f"substitutes-{fingerprint_language_model(some)}.jsonl"
        ]
        kept = next(other.parent.iterdir())
        assert "roof" in kept.read_text()
        stopped = context(
            tmp_path,
            server.url,
            stop=True,
        )
        with pytest.raises(CancelledError):
            ask_for_substitutes(stopped, ASKED[1:2])
        assert "roof" in kept.read_text()  # what is not yet asked for again may still be
        ask_for_substitutes(some, ASKED[1:2])
        assert "roof" not in kept.read_text()
        assert (len(kept.read_text().splitlines()), mode(kept)) == (1, 0o600)
        assert len(server.requests) == 2


def test_a_query_that_a_busy_server_left_unanswered_is_sent_again(tmp_path: Path) -> None:
    with serving(lambda request, number: script(request, number) if number else Raw(503)) as server:
        some = context(tmp_path, server.url)
        assert ask_for_substitutes(some, ASKED[:2])[0] == [{}, {}]
        assert ask_for_substitutes(some, ASKED[:2])[0] == [
            {"roof": "top of the house", "repair": "mending"},
            {},
        ]
        assert len(server.requests) == 3


def test_without_a_language_model_no_substitutes_are_made_and_a_missing_one_is_an_error(
    tmp_path: Path,
) -> None:
    plain = SimpleNamespace(
        store=EMPTY,
        settings=Settings(queries=QuerySettings(backend="extractive")),
    )
    assert fingerprint_language_model(plain) == ""  # type: ignore[arg-type]
    with fails(EngineError, "endpoint-not-chosen"):
        fingerprint_language_model(context(tmp_path, ""))
    with pytest.raises(CancelledError):
        ask_for_substitutes(context(tmp_path, "http://127.0.0.1:1/v1", stop=True), ASKED)


def test_keywords_are_chosen_from_the_words_by_the_passage(tmp_path: Path) -> None:
    def answer(request: dict[str, Any], _number: int) -> str:
        assert "The roof was repaired." in user(request)
        return json.dumps({"words": [{"word": "Roof"}, {"word": "unasked"}]})

    questions = [Question("roof repair costs", ["roof", "repair"], "The roof was repaired.")]
    questions.append(Question("42", [], "The roof was repaired."))
    with serving(answer) as server:
        some = context(tmp_path, server.url)
        assert choose_keywords(some, questions) == [frozenset({"roof"}), frozenset()]
        assert choose_keywords(some, questions)[0] == {"roof"}
        assert len(server.requests) == 1, "what was answered is kept"
    assert fingerprint_language_model(some) != fingerprint_language_model(some, KEYWORDS)
    forget_substitutes(tmp_path)
    assert not list((tmp_path / "cache").iterdir())
