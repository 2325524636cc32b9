"""README and the guides can be read with ease."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.readability import prose, reading_ease

ROOT = Path(__file__).parents[1]


def test_the_score_is_that_of_its_formula() -> None:
    assert reading_ease("The cat sat on the mat.") == pytest.approx(206.835 - 1.015 * 6 - 84.6)
    assert reading_ease("Nobody answered. We asked.") == pytest.approx(206.835 - 1.015 * 2 - 84.6 * 7 / 4), (
        "no-bo-dy an-swered we asked"
    )


@pytest.mark.parametrize("name", ["README.md", "docs/GUIDE.md", "docs/CLI.md", "docs/ADAPTING.md", "docs/PRIVACY.md"])
def test_what_users_read_is_plain_english(name: str) -> None:
    assert reading_ease(prose((ROOT / name).read_text(encoding="utf-8"))) >= 60
