"""The calibration inputs: checked, counted, and the same on every pass."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from sgfi.boundaries import Plan
from sgfi.calibration.processes import Team
from sgfi.errors import CalibrationError, QueryError
from sgfi.graph import check_input


class Batches:
    """Re-readable batches of inputs; a pass that differs from the first one is an error.

    Of several processes each reads its own places, by index where the batches allow it.
    """

    def __init__(self, plan: Plan, batches: Iterable, team: Team | None = None) -> None:
        readable_again = isinstance(batches, Iterable) or hasattr(batches, "__getitem__")
        if isinstance(batches, (Tensor, Iterator, str, Mapping)) or not readable_again:
            raise CalibrationError(
                "batches that can be read several times",
                "one-shot " * isinstance(batches, Iterator) + type(batches).__name__,
                "Pass a list of tensors (B, ...), or a DataLoader without shuffling.",
            )
        self._plan, self._batches, self._team = plan, batches, team or Team()
        self.marks = self._all_marks()
        """Size and digest of every batch: how a later pass, or a resumed calibration, knows it again."""
        self.sizes = [size for size, _ in self.marks]
        self.places = self._team.places(len(self.marks))
        """The batches that this process reads."""
        self.samples = sum(self.sizes)
        if self.samples < 2:
            raise CalibrationError(
                "at least two calibration samples", str(self.samples), "Give more data; hundreds are usual."
            )

    def _all_marks(self) -> list[tuple[int, str]]:
        read = self._team.gather({place: self._mark(x) for place, x in self._read()})
        marks = {place: mark for found in read for place, mark in found.items()}
        if sorted(marks) != list(range(len(marks))):
            raise CalibrationError(
                "the same batches in every process", "fewer in some of them", "Give every process all of the data."
            )
        return [marks[place] for place in range(len(marks))]

    def _ours(self) -> Iterable[tuple[int, Any]]:
        batches: Any = self._batches
        team = self._team
        if team.size > 1 and hasattr(batches, "__getitem__") and hasattr(batches, "__len__"):
            return ((place, batches[place]) for place in team.places(len(batches)))
        return (entry for entry in enumerate(batches) if entry[0] % team.size == team.rank)

    def _read(self) -> Iterator[tuple[int, Tensor]]:
        for place, batch in self._ours():
            x = batch[0] if isinstance(batch, (tuple, list)) and batch else batch
            try:
                check_input(self._plan.graph, x)
            except QueryError as error:
                raise CalibrationError(error.expected, f"{error.got} in batch {place}", error.todo) from error
            yield place, x.detach()

    @staticmethod
    def _mark(x: Tensor) -> tuple[int, str]:
        """Sums would not do: a mirrored image, or samples in another order, can have the same."""
        contents = x.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        return len(x), hashlib.sha256(contents.data).hexdigest()

    def __iter__(self) -> Iterator[tuple[int, Tensor]]:
        count = 0
        for place, x in self._read():
            if place >= len(self.marks) or self._mark(x) != self.marks[place]:
                raise self._changed(f"a different batch at place {place}")
            yield place, x
            count += 1
        if count < len(self.places):
            raise self._changed(f"{count} batches after {len(self.places)} on the first pass")

    @staticmethod
    def _changed(got: str) -> CalibrationError:
        return CalibrationError(
            "the same batches in the same order on every pass",
            got,
            "Turn shuffling and random augmentation off, or put the batches into a list first.",
        )
