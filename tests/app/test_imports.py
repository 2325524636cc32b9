"""Nothing heavy is loaded before a screen needs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from fixtures.pipeline import environment

HEAVY = (
    "torch",
    "transformers",
    "peft",
    "sentence_transformers",
    "llama_cpp",
    "tantivy",
    "usearch",
    "matplotlib",
)
NEVER_BEFORE_PAINT = (
    *HEAVY,
    "numpy",
    "pydantic",
    "sqlite3",
    "textual_plot",
    "psutil",
)
REPORT = (
    "import json, sys; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
)


def loaded(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{REPORT}"],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_every_module_of_the_app_loads_nothing_heavy() -> None:
    code = """
import importlib, pkgutil, bmembed_tui
for module in pkgutil.walk_packages(bmembed_tui.__path__, 'bmembed_tui.'):
    if not module.name.endswith(('__main__', 'train.plot', 'window.qt')):  # imported with the first plot or window
        importlib.import_module(module.name)
"""  # noqa: E501
    assert not loaded(code) & {*HEAVY, "numpy", "textual_plot"}


def test_the_first_screen_is_painted_before_anything_heavy_is_loaded() -> None:
    code = """
import asyncio, json, sys
from bmembed_tui.app import BmembedApp
from bmembed_tui.home.screen import HomeScreen
seen = []
class Watched(BmembedApp):
    def _display(self, screen, renderable):
        super()._display(screen, renderable)
        if not seen and isinstance(screen, HomeScreen) and screen.query('#home-choices'):
            seen.append({name.partition('.')[0] for name in sys.modules})
async def main():
    async with Watched().run_test() as pilot:
        await pilot.pause()
asyncio.run(main())
print(json.dumps(sorted(seen[0])))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not set(json.loads(done.stdout)) & set(NEVER_BEFORE_PAINT)


def test_a_project_on_the_screen_loads_nothing_heavy(new_project: Path) -> None:
    code = f"""
import asyncio
from bmembed_tui.app import BmembedApp
async def main():
    app = BmembedApp({str(new_project)!r})
    async with app.run_test(size=(120, 40)) as pilot:
        while type(app.screen).__name__ != 'ProjectScreen' or not app.screen.status.stages:
            await pilot.pause(0.05)
asyncio.run(main())
"""
    assert not loaded(code) & set(HEAVY)
