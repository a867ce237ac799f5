"""Memory sizes: as people write them, and as the machine has them."""

from __future__ import annotations

import contextlib
import os
import re

from sgfi.errors import CalibrationError

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def as_bytes(size: int | str) -> int:
    """``"4GiB"`` or a number of bytes, as a number of bytes."""
    if isinstance(size, int) and not isinstance(size, bool) and size > 0:
        return size
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(size))
    if not match or match[2].upper() not in UNITS or float(match[1]) <= 0:
        todo = "Write it in this form."
        raise CalibrationError('a positive size such as "4GiB" or a number of bytes', repr(size), todo)
    return int(float(match[1]) * UNITS[match[2].upper()])


def readable(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def available() -> int:
    """Bytes of available memory (free plus reclaimable cache), or 4 GiB where the system does not report it."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (ValueError, OSError, AttributeError):
        return 4 * 2**30


def reset_peak() -> None:
    """Reset the process's peak memory counter, where the system allows it (Linux)."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as switch:
        switch.write("5")


def peak() -> int | None:
    """Most bytes of memory resident at once since :func:`reset_peak`; ``None`` where the system does not report it."""
    try:
        with open("/proc/self/status") as lines:
            return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)
    except OSError:
        return None
