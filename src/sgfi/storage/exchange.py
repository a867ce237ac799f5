"""Two folders exchanged in one step, so that a kill at any moment leaves both."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

AT_FDCWD = -100
RENAME_EXCHANGE = RENAME_SWAP = 2
"""Flags of Linux' ``renameat2`` and of macOS' ``renamex_np``."""
CANNOT = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM}


def exchange(first: Path, second: Path) -> bool:
    """Give each folder the name of the other; ``False`` where the system or its file system cannot."""
    call = _call()
    if call is None:
        return False
    if call(os.fsencode(first), os.fsencode(second)) == 0:
        return True
    code = ctypes.get_errno()
    if code in CANNOT:
        return False
    raise OSError(code, os.strerror(code), str(second))


@cache
def _call() -> Callable[[bytes, bytes], int] | None:
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "darwin":  # pragma: no cover
            return lambda first, second: library.renamex_np(first, second, RENAME_SWAP)
        renameat2 = library.renameat2
    except (OSError, AttributeError, TypeError):  # pragma: no cover - no such call
        return None
    return lambda first, second: renameat2(AT_FDCWD, first, AT_FDCWD, second, RENAME_EXCHANGE)
