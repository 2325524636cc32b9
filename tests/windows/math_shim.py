"""A library with the complex functions that Wine 8's C runtime lacks, for numpy and scipy.

Extension modules that import them are changed to import the shim, which passes every other function
on to the C runtime. Needs pefile and MinGW.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pefile

COMPILER = "x86_64-w64-mingw32-gcc"
RUNTIME = b"api-ms-win-crt-math-l1-1-0.dll"
SHIM = b"wine-shim-crt-math-l1-1.dll"  # no longer than the name that it replaces
REAL = ("creal", "cimag", "cabs", "carg")
COMPLEX = (
    *("cacos", "cacosh", "casin", "casinh", "catan", "catanh", "ccos", "ccosh", "cexp", "clog"),
    *("conj", "cpow", "csin", "csinh", "csqrt", "ctan", "ctanh"),
)
TYPES = {
    "f": "float",
    "": "double",
    "l": "double",
}
FUNCTIONS = {f"{name}{kind}": (name, kind) for name in REAL + COMPLEX for kind in TYPES}
HEADER = """
#include <complex.h>
#include <math.h>
typedef struct { float r, i; } float_pair;
typedef struct { double r, i; } double_pair;
static float _Complex join_float(float_pair z) {
    float _Complex w; __real__ w = z.r; __imag__ w = z.i; return w; }
static double _Complex join_double(double_pair z) {
    double _Complex w; __real__ w = z.r; __imag__ w = z.i; return w; }
static float_pair split_float(float _Complex w) {
    float_pair z = { crealf(w), cimagf(w) }; return z; }
static double_pair split_double(double _Complex w) {
    double_pair z = { creal(w), cimag(w) }; return z; }
"""


def redirect_modules(site: Path) -> set[str]:
    """Let extension modules below `site` import the shim; return the functions that they need."""
    pattern = re.compile(rb"\0(" + b"|".join(name.encode() for name in FUNCTIONS) + rb")\0")
    needed: set[str] = set()
    for path in site.rglob("*.pyd"):
        content = path.read_bytes()
        if not pattern.search(content):
            continue
        names = _list_imports(content)
        if names & FUNCTIONS.keys():
            needed |= names
            padded = SHIM + b"\0" * (len(RUNTIME) - len(SHIM))
            path.write_bytes(re.sub(re.escape(RUNTIME), padded, content, flags=re.IGNORECASE))
    return needed


def _list_imports(content: bytes) -> set[str]:
    """Return what a module imports of the C runtime's mathematics."""
    module = pefile.PE(data=content, fast_load=True)
    module.parse_data_directories([pefile.DIRECTORY_ENTRY["IMAGE_DIRECTORY_ENTRY_IMPORT"]])
    names = set()
    for entry in getattr(module, "DIRECTORY_ENTRY_IMPORT", []):
        if entry.dll.lower() in (RUNTIME, SHIM):
            names |= {found.name.decode() for found in entry.imports if found.name}
    return names


def _define(function: str) -> str:
    """Return the C source of one function, which is exported under another name."""
    name, kind = FUNCTIONS[function]
    number = TYPES[kind]
    called = f"{name}f" if kind == "f" else name
    first = f"join_{number}(a)"
    start = f"__declspec(dllexport) {number}"
    if name in REAL:
        return f"{start} w_{function}({number}_pair a) {{ return {called}({first}); }}"
    parameters = f"{number}_pair a"
    arguments = first
    if name == "cpow":
        parameters += f", {number}_pair b"
        arguments += f", join_{number}(b)"
    call = f"split_{number}({called}({arguments}))"
    return f"{start}_pair w_{function}({parameters}) {{ return {call}; }}"


def build_shim(
    needed: set[str],
    folder: Path,
    libraries: Path,
) -> None:
    """Compile the shim in `folder` and put it among Windows' `libraries`."""
    complex_names = sorted(needed & FUNCTIONS.keys())
    source = HEADER + "\n".join(_define(name) for name in complex_names)
    exports = [f"  {name} = w_{name}" for name in complex_names]
    exports += [f"  {name} = ucrtbase.{name}" for name in sorted(needed - FUNCTIONS.keys())]
    (folder / "shim.c").write_text(source)
    (folder / "shim.def").write_text("\n".join([f"LIBRARY {SHIM.decode()}", "EXPORTS", *exports]))
    target = libraries / SHIM.decode()
    files = [str(folder / "shim.c"), str(folder / "shim.def")]
    command = [
        COMPILER,
        "-O1",
        "-shared",
        "-static",
        "-o",
        str(target),
        *files,
    ]
    subprocess.run(command, check=True)
