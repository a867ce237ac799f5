"""Tensors kept from one pass over the data to the next: in memory, and beyond a limit spilled to disk."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Hashable
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from sgfi.errors import CalibrationError
from sgfi.settings import readable
from sgfi.storage.scratch import PathLock, own_folder, remove_leftovers

PREFIX = "sgfi-spill-"


class SpillBuffer:
    """A tensor per key and batch. What would exceed ``limit`` bytes is spilled to a temporary folder.

    Folders of processes that were killed are removed when a buffer is made.
    """

    def __init__(self, limit: int) -> None:
        remove_leftovers(Path(tempfile.gettempdir()), PREFIX)
        self._limit, self._used = limit, 0
        self._held: dict[tuple[Hashable, int], Tensor] = {}
        self._spilled: dict[tuple[Hashable, int], tuple[Path, object]] = {}
        self._folder: tuple[Path, PathLock] | None = None
        self._files = 0

    def has(self, key: Hashable, batch_index: int) -> bool:
        return (key, batch_index) in self._held or (key, batch_index) in self._spilled

    def get(self, key: Hashable, batch_index: int) -> Tensor:
        if (key, batch_index) in self._held:
            return self._held[key, batch_index]
        path, device = self._spilled[key, batch_index]
        return load_file(path, device=str(device))["value"]

    def put(self, key: Hashable, batch_index: int, value: Tensor) -> None:
        """In place of what is there."""
        self._discard((key, batch_index))
        size = value.numel() * value.element_size()
        if self._used + size <= self._limit:
            self._held[key, batch_index] = value
            self._used += size
            return
        try:
            path = self._next_file()
            save_file({"value": value.contiguous()}, path)
        except (OSError, SafetensorError) as error:  # the latter is how it reports a full disk
            raise CalibrationError(
                f"room on disk to spill {readable(size)} of states to {tempfile.gettempdir()}",
                str(error),
                "Free space there, point TMPDIR elsewhere, or raise memory=... so that they stay in memory.",
            ) from error
        self._spilled[key, batch_index] = (path, value.device)

    def drop(self, *keys: Hashable) -> None:
        """Forget every batch of these keys."""
        for entry in [entry for entry in (*self._held, *self._spilled) if entry[0] in keys]:
            self._discard(entry)

    def rename(self, key: Hashable, new: Hashable) -> None:
        """Every batch of ``key`` under another key, in place of what is there."""
        self.drop(new)
        self._held = {(new if name == key else name, index): value for (name, index), value in self._held.items()}
        self._spilled = {(new if name == key else name, index): file for (name, index), file in self._spilled.items()}

    def close(self) -> None:
        """Forget everything and remove the folder."""
        self._held.clear()
        self._spilled.clear()
        self._used = 0
        if self._folder is not None:
            folder, lock = self._folder
            shutil.rmtree(folder, ignore_errors=True)
            lock.release()
            self._folder = None

    def _next_file(self) -> Path:
        """In a folder of this process."""
        self._folder = self._folder or own_folder(Path(tempfile.gettempdir()), PREFIX)
        self._files += 1
        return self._folder[0] / f"{self._files}.safetensors"

    def _discard(self, entry: tuple[Hashable, int]) -> None:
        if entry in self._held:
            value = self._held.pop(entry)
            self._used -= value.numel() * value.element_size()
        if entry in self._spilled:
            self._spilled.pop(entry)[0].unlink()
