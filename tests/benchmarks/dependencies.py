"""What each library that the program needs takes on the disk, and takes to be imported: `python
tests/benchmarks/dependencies.py [ROUNDS]`.

Printed, largest first: MB (10^6 bytes) of the library's own files, and the median seconds of
ROUNDS (3) processes that import it, less those of a bare Python. Modules are compiled before. What
a library imports counts for it, so that seconds do not add up.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution, packages_distributions, requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROGRAM = "bmembed-tui"
NO_LIBRARY = {"msvc-runtime"}  # holds files for the system's loader


def find_dependencies() -> Iterator[str]:
    """Yield the names of what the program needs on this system, without extras."""
    for line in requires(PROGRAM) or ():
        requirement = Requirement(line)
        is_needed = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if is_needed and requirement.name not in NO_LIBRARY:
            yield requirement.name


def measure_size(library: Distribution) -> float:
    """Return the MB of a library's files."""
    sizes = []
    for file in library.files or ():
        path = file.locate()
        if path.is_file():
            sizes.append(path.stat().st_size)
    return sum(sizes) / 1e6


def find_module(name: str) -> str:
    """Return the first module that a library installs."""
    modules = []
    for module, libraries in packages_distributions().items():
        is_public = not module.startswith("_") and module.isidentifier()
        if canonicalize_name(name) in map(canonicalize_name, libraries) and is_public:
            modules.append(module)
    alike = canonicalize_name(name).replace("-", "_")
    return min(
        modules,
        key=lambda module: (module.casefold() != alike, len(module)),
        default="",
    )


def measure_seconds(statement: str, rounds: int) -> float:
    """Return the median seconds of a new process that runs a statement."""
    command = [sys.executable, "-c", statement]
    subprocess.run(
        command,
        check=True,
        capture_output=True,
    )
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        subprocess.run(
            command,
            check=True,
            capture_output=True,
        )
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def main(rounds: int = 3) -> None:
    """Print a line for each library."""
    bare = measure_seconds("pass", rounds)
    libraries = [(measure_size(distribution(name)), name) for name in find_dependencies()]
    print(f"{sum(size for size, _ in libraries):7.1f} MB together")
    for size, name in sorted(libraries, reverse=True):
        module = find_module(name)
        seconds = measure_seconds(f"import {module}", rounds) - bare if module else 0.0
        print(f"{size:7.1f} MB {seconds:6.2f} s  {name} ({module or 'no module'})", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
