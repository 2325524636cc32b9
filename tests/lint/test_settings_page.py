from __future__ import annotations

from lint.settings_page import PAGE, page


def test_the_page_of_settings_is_up_to_date() -> None:
    """Else run `python tests/lint/settings_page.py`."""
    assert PAGE.read_text(encoding="utf-8") == page()
