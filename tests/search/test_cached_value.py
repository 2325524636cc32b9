"""A value that is kept until its key changes."""

from __future__ import annotations

import weakref

from engine.search.cached_value import CachedValue


class Model:
    """Something large."""


def test_a_value_is_made_again_only_for_another_key() -> None:
    cache = CachedValue[Model]()
    first = cache.get("a", Model)
    assert cache.get("a", Model) is first
    assert cache.get("b", Model) is not first


def test_the_former_value_is_freed_before_the_next_is_made() -> None:
    cache = CachedValue[Model]()
    former = weakref.ref(cache.get("a", Model))

    def make() -> Model:
        assert former() is None
        return Model()

    cache.get("b", make)
