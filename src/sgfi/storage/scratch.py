"""Folders and files that one process owns while it writes them, and what is left when that process is killed.

Each is locked by an advisory lock on itself (``flock``), which the system gives back when the process
ends, however it ends. Where the system has no such lock, nothing is locked and nothing is cleaned up.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

PART = ".part"
"""In the name of a file that is being written."""
LONGEST_STEM = 120
"""Characters of a file's name: file systems take 255 bytes."""


class Busy(Exception):
    """Another process, or another call in this one, is at work there."""


class PathLock:
    """An exclusive lock on a folder or file, held until :meth:`release` or the end of the process.

    It stays with it through a rename.
    """

    def __init__(self, path: Path) -> None:
        """Raises :class:`Busy` where the lock is taken, and ``OSError`` where nothing is there."""
        self._handle: int | None = None
        if fcntl is None:  # pragma: no cover - Windows
            return
        handle = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            current = os.stat(path)  # somebody may have removed or replaced it between the two steps
            if (current.st_dev, current.st_ino) != (os.fstat(handle).st_dev, os.fstat(handle).st_ino):
                raise Busy(str(path))
        except BlockingIOError as error:
            os.close(handle)
            raise Busy(str(path)) from error
        except Busy:
            os.close(handle)
            raise
        except OSError:
            os.close(handle)
            if not path.exists():
                raise
            return  # a file system without locks
        self._handle = handle

    @property
    def held(self) -> bool:
        """False where the system has no locks."""
        return self._handle is not None

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __del__(self) -> None:
        self.release()


def own_folder(parent: Path, prefix: str) -> tuple[Path, PathLock]:
    """A new folder ``<prefix><random>`` in ``parent``, locked, with the permissions that the umask leaves.

    Folders of the same prefix whose process is gone are removed.
    """
    remove_leftovers(parent, prefix)
    while True:
        folder = parent / f"{prefix}{secrets.token_hex(8)}"
        folder.mkdir()
        with contextlib.suppress(Busy, FileNotFoundError):  # another process has just cleaned it up
            return folder, PathLock(folder)


def leftovers(parent: Path, prefix: str, suffix: str = "") -> Iterator[Path]:
    """Folders and files ``<prefix><random><suffix>`` whose process is gone, each locked while it is looked at."""
    for path in _candidates(parent, prefix, suffix):
        with contextlib.suppress(Busy, OSError):
            lock = PathLock(path)
            try:
                if lock.held:
                    yield path
            finally:
                lock.release()


def remove_leftovers(parent: Path, prefix: str, suffix: str = "") -> None:
    for path in leftovers(parent, prefix, suffix):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def draft_of(file: Path) -> Iterator[Path]:
    """A path to write to, on disk and moved to ``file`` at the end; gone after an error.

    Its suffix is the file's. Drafts of the same file whose process is gone are removed.
    """
    prefix, suffix = f".{file.stem[:LONGEST_STEM]}-", f"{PART}{file.suffix}"
    remove_leftovers(file.parent, prefix, suffix)
    draft = file.with_name(f"{prefix}{secrets.token_hex(8)}{suffix}")
    lock: PathLock | None = None
    try:
        draft.touch()
        mode = draft.stat().st_mode & 0o777
        lock = PathLock(draft)
        yield draft
        os.chmod(draft, mode)  # the umask's: some writers put a private file in the place of this one
        sync(draft)
        os.replace(draft, file)
        sync(file.parent)
    finally:
        draft.unlink(missing_ok=True)
        if lock is not None:
            lock.release()


def write_text(file: Path, text: str) -> None:
    """A whole file or none: what was there stays until the new one is on disk."""
    with draft_of(file) as draft:
        draft.write_text(text, encoding="utf-8", errors="surrogateescape")


def is_draft(file: Path) -> bool:
    """A file that was being written when its process was killed."""
    return file.name.startswith(".") and PART in file.suffixes


def remove_drafts(folder: Path) -> None:
    """What was being written when a process was killed. Only the holder of the folder's lock may ask."""
    for file in [file for file in folder.rglob(".*") if is_draft(file)]:
        file.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Have the system write a file or a folder to disk, so that a rename cannot come before the contents."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:
        if not path.is_dir():  # some file systems do not sync folders
            raise
    finally:
        os.close(handle)


def _candidates(parent: Path, prefix: str, suffix: str) -> list[Path]:
    """Ours: another user's, links and other names are left alone."""
    owner = getattr(os, "getuid", lambda: 0)()
    pattern = re.compile(re.escape(prefix) + "[0-9a-f]{16}" + re.escape(suffix))
    try:
        with os.scandir(parent) as entries:
            named = [entry for entry in entries if pattern.fullmatch(entry.name) and not entry.is_symlink()]
            return [Path(entry.path) for entry in named if entry.stat(follow_symlinks=False).st_uid == owner]
    except OSError:
        return []
