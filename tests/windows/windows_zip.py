"""Builds a folder for Windows that needs no installation.

`windows_zip.py PYTHON_ZIP WHEEL TARGET [WHEELS]`: PYTHON_ZIP is the embeddable Python of python.org
(x64), WHEEL that of this product. TARGET is a folder, which is packed as TARGET.zip, too. Packages
come from the package index, at the versions of constraints.txt. WHEELS is the folder of what `make
windows-llm-wheel` builds; without it, the folder cannot use GGUF models.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
PLATFORM = "x86_64-pc-windows-msvc"
LIBRARY = re.compile(r"python3(\d\d)\.dll")
SEARCHED = ("python3{minor}.zip", "Lib", "DLLs", ".")
"""Where Python finds its own modules, in an embeddable archive or in a whole one."""
SOURCES = ("proxy_tools",)
"""Packages without a wheel, of Python alone: pywebview needs one."""
COMMAND = '@"%~dp0python\\python.exe" -X utf8 -m {module} %*\r\n'
COMMANDS = {"bmembed.cmd": "bmembed_tui", "engine.cmd": "engine"}
README = """bmembed-tui: search for documents that must not leave your machine.

Unpack this folder where you may write, with a short path, such as C:\\Users\\you\\bmembed.
Nothing is installed, and nothing is fetched.

bmembed.cmd   the app: open it with a double click, or type its name in a terminal
engine.cmd    the same on the command line: engine demo, engine --help

bmembed.cmd --window opens the app in a window of its own, and bmembed.cmd --install-shortcut puts
that into the Start menu. The window needs Microsoft's WebView2, which Windows 11 has.

To remove it, delete the folder and the entry of the Start menu. Projects and settings are in your
own folders (engine doctor).
"""


def unpack_python(archive_path: Path, folder: Path) -> str:
    """Unpack Python into `folder`; return its version, such as `3.13`.

    The archive may hold it in a folder of its own. Raises ValueError if there is no Python in it.
    """
    with zipfile.ZipFile(archive_path) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        libraries = [name for name in names if LIBRARY.fullmatch(PurePosixPath(name).name)]
        if not libraries:
            raise ValueError(f"{archive_path} holds no Python for Windows")
        library = PurePosixPath(min(libraries, key=len))
        prefix = str(library.parent / "x")[:-1]
        for name in names:
            if not name.startswith(prefix):
                continue
            target = folder / name.removeprefix(prefix)
            if ".." in target.parts:
                raise ValueError(f"{archive_path} holds {name}")
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(name) as source, target.open("wb") as file:
                shutil.copyfileobj(source, file)
    minor = LIBRARY.fullmatch(library.name)[1]  # type: ignore[index]
    write_search_path(folder, minor)
    return f"3.{minor}"


def write_search_path(folder: Path, minor: str) -> None:
    """Let Python find its modules and the packages here alone, whatever the machine has set."""
    places = [place.format(minor=minor) for place in SEARCHED]
    lines = [place for place in places if (folder / place).exists()]
    lines += ["..\\packages", "import site"]
    (folder / f"python3{minor}._pth").write_text("\n".join(lines) + "\n", encoding="utf-8")


def install_packages(
    wheel: Path, folder: Path, version: str, tools: Path, wheels: Path | None
) -> None:
    """Install the wheel and what it needs for Windows; `tools` gets the installer.

    `wheels`: a folder with llama-cpp-python, whose extra is installed then.
    """
    pip = (
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
    )
    subprocess.run([*pip, "install", "-q", "--upgrade", "--target", tools, "uv"], check=True)
    # pip would choose packages by the markers of this system.
    command = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "install",
        "--only-binary",
        ":all:",
    ]
    for name in SOURCES:
        command += ["--no-binary", name]
    options = (
        "--python-platform",
        PLATFORM,
        "--python-version",
        version,
        "--target",
        folder,
    )
    pins = ("--constraint", ROOT / "constraints.txt")
    environment = {**os.environ, "PYTHONPATH": str(tools)}
    wanted = [f"{wheel}[desktop]"]
    if wheels is not None:
        # uv keeps the first wheel of a version that it has seen.
        refreshed = ("--refresh-package", "llama-cpp-python")
        wanted = [
            *refreshed,
            "--find-links",
            str(wheels),
            f"{wheel}[desktop,llm]",
        ]
    subprocess.run(
        [*command, *options, *pins, *wanted],
        env=environment,
        check=True,
    )
    for programs in ("bin", "Scripts"):
        shutil.rmtree(folder / programs, ignore_errors=True)


def remove_headers(folder: Path) -> None:
    """Remove what only compilers of C++ need: a tenth of the packages' size."""
    for headers in folder.glob("*/include"):
        shutil.rmtree(headers)
    for library in folder.glob("*/lib/*.lib"):
        library.unlink()


def write_starters(folder: Path) -> None:
    """Write the commands and a README, with the line ends of Windows."""
    for name, module in COMMANDS.items():
        (folder / name).write_bytes(COMMAND.format(module=module).encode())
    (folder / "README.txt").write_bytes(README.replace("\n", "\r\n").encode())


def move_runtime(folder: Path) -> None:
    """Put Microsoft's C++ runtime, the package msvc-runtime, next to Python, where it is found."""
    for library in (folder / "packages").glob("*140*.dll"):
        library.replace(folder / "python" / library.name)


def pack(folder: Path) -> Path:
    """Pack the folder as one ZIP archive next to it, and return that."""
    return Path(shutil.make_archive(str(folder), "zip", folder.parent, folder.name))


def main(
    python: Path,
    wheel: Path,
    target: Path,
    wheels: Path | None = None,
) -> None:
    """Build the folder from scratch."""
    shutil.rmtree(target, ignore_errors=True)
    version = unpack_python(python, target / "python")
    tools = target.with_name("tools")
    install_packages(
        wheel,
        target / "packages",
        version,
        tools,
        wheels,
    )
    remove_headers(target / "packages")
    move_runtime(target)
    write_starters(target)
    print(f"{pack(target)}: Python {version}, bmembed.cmd and engine.cmd")


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:]))
