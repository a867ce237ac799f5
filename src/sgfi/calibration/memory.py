"""The memory of the machine and of this process."""

from __future__ import annotations

import contextlib
import os


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
