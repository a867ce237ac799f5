"""Leave-one-out states on disk beside a checkpoint: what a resumed calibration cannot compute again."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from safetensors import safe_open
from torch import Tensor

from sgfi.calibration.schedule import Run
from sgfi.errors import StoreError
from sgfi.storage.files import write_tensors


class RestartFiles:
    """A file per node and process with the states of its batches. Without a folder nothing is written."""

    def __init__(self, run: Run, checkpoint: Path | None) -> None:
        self._run, self._folder = run, checkpoint / "states" if checkpoint is not None else None

    def complete(self, names: Collection[str]) -> bool:
        """Whether the states of every batch are there, however many processes wrote them."""
        every = {str(index) for index in range(len(self._run.data.sizes))}
        return self._folder is not None and all(every <= self._keys(name) for name in names)

    def read(self, name: str) -> Iterator[tuple[int, Tensor]]:
        """The states of this process's batches."""
        for file in self._files(name):
            with safe_open(file, "pt") as states:
                for key in set(states.keys()) & set(map(str, self._run.data.own)):
                    yield int(key), states.get_tensor(key).to(self._run.plan.graph.device)

    def write(self, name: str, states: Iterator[tuple[int, Tensor]]) -> None:
        if self._folder is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            file = self._folder / f"{self._stem(name)}.{self._run.group.rank}.safetensors"
            write_tensors(file, {str(index): state for index, state in states}, {"node": name})
        except OSError as error:
            raise StoreError(
                "room and permission to keep the states of a finished node", str(error), "Free space and run again."
            ) from error
        self._run.group.all_gather(None)  # a barrier: no node counts as finished before all its states are written

    def drop(self, names: Collection[str]) -> None:
        for file in (file for name in names for file in self._files(name)):
            file.unlink(missing_ok=True)

    def discard(self) -> None:
        """The calibration is complete: nothing needs to be resumed."""
        if self._folder is not None and not self._run.group.rank:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _stem(self, name: str) -> str:
        return f"{self._run.plan.boundaries.index(name):03d}"

    def _files(self, name: str) -> list[Path]:
        """One from every process."""
        return sorted(self._folder.glob(f"{self._stem(name)}.*.safetensors")) if self._folder is not None else []

    def _keys(self, name: str) -> set[str]:
        keys: set[str] = set()
        for file in self._files(name):
            with safe_open(file, "pt") as states:
                keys.update(states.keys())
        return keys
