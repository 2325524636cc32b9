"""A shortcut of Windows, byte by byte as [MS-SHLLINK] version 8.0 has it.

The system's own component for them is reached through PowerShell alone, which policies of companies keep from it.
"""

from __future__ import annotations

import struct
import sys
from pathlib import PureWindowsPath
from uuid import UUID

_CLASS = UUID("00021401-0000-0000-c000-000000000046")  # 2.1
_HAS_LINK_INFO, _HAS_NAME, _HAS_ARGUMENTS, _HAS_ICON, _IS_UNICODE, _HAS_ENVIRONMENT = 0x2, 0x4, 0x20, 0x40, 0x80, 0x200
_NORMAL_FILE, _NORMAL_WINDOW, _FIXED_DISK = 0x80, 1, 3
_ON_A_DISK = 1  # LinkInfoFlags, 2.3: VolumeIDAndLocalBasePath
_ENVIRONMENT_SIZE, _ENVIRONMENT = 0x314, 0xA0000001  # 2.5.4
_MAX_PATH = 260  # characters of a path there, its end included


def shell_link(target: str, arguments: str, icon: str, description: str) -> bytes:
    """The content of a .lnk file that starts `target`, a full path, with a line of `arguments`, and shows the icon of a file."""
    on_a_disk = PureWindowsPath(target).drive.endswith(":")
    plain = len(target.encode("utf-16-le")) // 2 < _MAX_PATH and "%" not in target
    flags = _HAS_NAME | _HAS_ARGUMENTS | _HAS_ICON | _IS_UNICODE
    flags |= (_HAS_LINK_INFO if on_a_disk else 0) | (_HAS_ENVIRONMENT if plain else 0)
    header = struct.pack("<I16sII", 0x4C, _CLASS.bytes_le, flags, _NORMAL_FILE)
    header += bytes(3 * 8 + 2 * 4) + struct.pack("<I", _NORMAL_WINDOW) + bytes(2 + 2 + 4 + 4)
    parts = [header, *([_link_info(target)] if on_a_disk else []), *map(_string, (description, arguments, icon))]
    return b"".join([*parts, *([_environment(target)] if plain else []), bytes(4)])


def _link_info(target: str) -> bytes:
    """2.3: the target on a disk of this machine."""
    volume = struct.pack("<IIII", 0x11, _FIXED_DISK, 0, 0x10) + b"\0"
    narrow, wide, nothing = _narrow(target) + b"\0", _wide(target) + b"\0\0", b"\0\0"
    suffix = bytes(2 - (len(volume) + len(narrow)) % 2)  # nothing, but wide letters begin at an even place after it
    sizes = (0x24, len(volume), len(narrow), len(suffix), len(wide))
    at_volume, at_narrow, at_suffix, at_wide, at_wide_suffix = (sum(sizes[: place + 1]) for place in range(5))
    total = at_wide_suffix + len(nothing)
    head = (total, 0x24, _ON_A_DISK, at_volume, at_narrow, 0, at_suffix, at_wide, at_wide_suffix)
    return struct.pack("<9I", *head) + volume + narrow + suffix + wide + nothing


def _environment(target: str) -> bytes:
    """2.5.4: the target once more, for readers that want no disk's name with it."""
    narrow, wide = _narrow(target).ljust(_MAX_PATH, b"\0"), _wide(target).ljust(2 * _MAX_PATH, b"\0")
    return struct.pack("<II", _ENVIRONMENT_SIZE, _ENVIRONMENT) + narrow + wide


def _string(text: str) -> bytes:
    """2.4: counted, without an end."""
    data = _wide(text)
    return struct.pack("<H", len(data) // 2) + data


def _narrow(text: str) -> bytes:
    """In the system's code page, for readers that know no Unicode; others take the wide one."""
    return text.encode("mbcs" if sys.platform == "win32" else "ascii", "replace")


def _wide(text: str) -> bytes:
    return text.encode("utf-16-le")
