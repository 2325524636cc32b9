"""Locked office files, with the passwords of the user's own file. Works in the sandboxed child process.

[MS-OFFCRYPTO] through msoffcrypto-tool: agile and standard encryption of the formats since 2007; RC4 and XOR of those before.
"""

from __future__ import annotations

import time
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any

from engine.corpus.passwords import known, patience
from engine.corpus.readers import UnreadableFileError

_OPEN_TO_ALL = "VelvetSweatshop"  # what Excel locks with where it must lock and was given no password


def unlocked(path: Path, data: bytes) -> bytes:
    """A locked office file's content without its lock. Raises UnreadableFileError where no known password opens it."""
    from msoffcrypto.exceptions import InvalidKeyError

    end, tried = time.monotonic() + patience(), 0
    passwords = [*known(), _OPEN_TO_ALL] if path.suffix.lower().startswith(".xl") else [*known()]
    for password in passwords:
        if tried and time.monotonic() > end:
            raise _locked(
                path, f"the first {tried:,} of {len(passwords):,} passwords do not open it; the others take too long"
            )
        tried += 1
        try:
            return _opened(data, password)
        except InvalidKeyError:
            continue
        except (MemoryError, OSError):
            raise
        except Exception as error:  # its parsers raise whatever a damaged file leads them to
            raise _locked(path, f"its lock is of a kind that cannot be opened ({type(error).__name__})") from error
    raise _locked(path, "it opens with a password only")


def _opened(data: bytes, password: str) -> bytes:
    import msoffcrypto
    from msoffcrypto.format import doc97, ppt97, xls97
    from msoffcrypto.method.ecma376_agile import ECMA376Agile

    for module in (doc97, ppt97, xls97):
        module.tempfile = _InMemory  # this process may write no file
    derived = ECMA376Agile._derive_iterated_hash_from_password
    if not hasattr(derived, "cache_info"):  # it is asked for twice with each password, and takes a tenth of a second
        ECMA376Agile._derive_iterated_hash_from_password = staticmethod(lru_cache(maxsize=1)(derived))
    file: Any = msoffcrypto.OfficeFile(BytesIO(data))
    if file.format == "ooxml":
        file.load_key(password=password, verify_password=True)
    else:
        file.load_key(password=password)
    content = BytesIO()
    file.decrypt(content)
    return content.getvalue()


class _InMemory:
    """In place of the module `tempfile`."""

    TemporaryFile = BytesIO


def _locked(path: Path, reason: str) -> UnreadableFileError:
    return UnreadableFileError(path, f"encrypted: {reason}", "encrypted")
