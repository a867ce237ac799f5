"""Tensors carried from one pass over the data to the next, in memory or, beyond a limit, on disk."""

from __future__ import annotations

import tempfile
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from sgfi.calibration.memory import readable
from sgfi.errors import CalibrationError


class Carry:
    """A tensor per key and batch. What would exceed ``limit`` bytes goes to a temporary folder."""

    def __init__(self, limit: int) -> None:
        self._limit, self._used = limit, 0
        self._held: dict[tuple[str, int], Tensor] = {}
        self._spilled: dict[tuple[str, int], tuple[Path, object]] = {}
        self._folder: tempfile.TemporaryDirectory | None = None
        self._files = 0

    def has(self, key: str, place: int) -> bool:
        return (key, place) in self._held or (key, place) in self._spilled

    def get(self, key: str, place: int) -> Tensor:
        if (key, place) in self._held:
            return self._held[key, place]
        path, device = self._spilled[key, place]
        return load_file(path, device=str(device))["value"]

    def put(self, key: str, place: int, value: Tensor) -> None:
        self._discard((key, place))
        size = value.numel() * value.element_size()
        if self._used + size <= self._limit:
            self._held[key, place] = value
            self._used += size
            return
        path = self._next_file()
        try:
            save_file({"value": value.contiguous()}, path)
        except (OSError, SafetensorError) as error:  # the latter is how it reports a full disk
            raise CalibrationError(
                f"room on disk for {readable(size)} of carried states in {path.parent}",
                str(error),
                "Free space there, point TMPDIR elsewhere, or raise memory=... so that they stay in memory.",
            ) from error
        self._spilled[key, place] = (path, value.device)

    def drop(self, key: str) -> None:
        """Forget every batch of a key."""
        for entry in [entry for entry in (*self._held, *self._spilled) if entry[0] == key]:
            self._discard(entry)

    def rename(self, key: str, new: str) -> None:
        """Every batch of ``key`` under another name, in place of what stood there."""
        self.drop(new)
        self._held = {(new if name == key else name, place): value for (name, place), value in self._held.items()}
        self._spilled = {(new if name == key else name, place): file for (name, place), file in self._spilled.items()}

    def close(self) -> None:
        """Forget everything and remove the folder."""
        self._held.clear()
        self._spilled.clear()
        self._used = 0
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _next_file(self) -> Path:
        self._folder = self._folder or tempfile.TemporaryDirectory(prefix="sgfi-carry-")
        self._files += 1
        return Path(self._folder.name) / f"{self._files}.safetensors"

    def _discard(self, entry: tuple[str, int]) -> None:
        if entry in self._held:
            value = self._held.pop(entry)
            self._used -= value.numel() * value.element_size()
        if entry in self._spilled:
            self._spilled.pop(entry)[0].unlink()
