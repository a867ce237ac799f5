"""The calibration inputs: checked, counted, and the same on every pass."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from torch import Tensor

from sgfi.boundaries import Plan
from sgfi.calibration.processes import ProcessGroup
from sgfi.errors import CalibrationError, QueryError
from sgfi.graph import check_input
from sgfi.graph.raw import raw_bytes


@dataclass(frozen=True)
class _First:
    """The first batches of many; re-iterable."""

    batches: Iterable
    count: int

    def __iter__(self) -> Iterator[Any]:
        return islice(iter(self.batches), self.count)


class Batches:
    """Re-readable batches of inputs; a pass that differs from the first one is an error.

    Of several processes each reads its own batches, by index where the batches allow it. With ``repeats`` every batch
    comes so many times in a row, each time with an index of its own.
    """

    def __init__(self, plan: Plan, batches: Iterable, group: ProcessGroup | None = None, repeats: int = 1) -> None:
        readable_again = isinstance(batches, Iterable) or hasattr(batches, "__getitem__")
        if isinstance(batches, (Tensor, Iterator, str, Mapping)) or not readable_again:
            raise CalibrationError(
                "batches that can be read several times",
                "one-shot " * isinstance(batches, Iterator) + type(batches).__name__,
                "Pass a list of tensors (B, ...), or a DataLoader without shuffling.",
            )
        self._plan, self._batches, self._group = plan, batches, group or ProcessGroup()
        self._repeats = repeats
        self.graph = plan.graph
        """With the side inputs of the batch that was read last."""
        self.digests = self._all_digests()
        """Size and digest of every batch: a later pass, or a resumed calibration, must give the same."""
        self.sizes = [size for size, _ in self.digests]
        self.own = self._group.own_batches(len(self.digests))
        """Indices of the batches that this process reads."""
        self.samples = sum(self.sizes)
        if self.samples < 2:
            raise CalibrationError(
                "at least two calibration samples", str(self.samples), "Give more data; hundreds are usual."
            )

    def first(self, count: int) -> Batches:
        """The first ``count`` of them."""
        return Batches(self._plan, _First(self._batches, count), self._group, self._repeats)

    def _all_digests(self) -> list[tuple[int, str]]:
        shares = self._group.all_gather({index: self._digest_of(x) for index, x in self._read()})
        digests = {index: digest for share in shares for index, digest in share.items()}
        if sorted(digests) != list(range(len(digests))):
            raise CalibrationError(
                "the same batches in every process", "fewer in some of them", "Give every process all of the data."
            )
        return [digests[index] for index in range(len(digests))]

    def _own_batches(self) -> Iterable[tuple[int, Any]]:
        batches: Any = self._batches
        group, repeats = self._group, self._repeats
        if group.size > 1 and hasattr(batches, "__getitem__") and hasattr(batches, "__len__"):
            return ((index, batches[index // repeats]) for index in group.own_batches(len(batches) * repeats))
        repeated = (batch for batch in batches for _ in range(repeats))
        return (entry for entry in enumerate(repeated) if entry[0] % group.size == group.rank)

    def _read(self) -> Iterator[tuple[int, Tensor]]:
        for index, batch in self._own_batches():
            first = batch[0] if isinstance(batch, (tuple, list)) and batch else batch
            try:
                x, sides = self._plan.graph.split(first)
                self.graph = self._plan.graph.bind(sides)
                check_input(self.graph, x)
            except QueryError as error:
                raise CalibrationError(
                    error.expected, f"{error.got} in batch {index // self._repeats}", error.todo
                ) from error
            yield index, x.detach()

    def _digest_of(self, x: Tensor) -> tuple[int, str]:
        """Sums would not do: a mirrored image, or samples in another order, can have the same."""
        digest = hashlib.sha256()
        for tensor in (x, *self.graph.side_values.values()):
            digest.update(raw_bytes(tensor))
        return len(x), digest.hexdigest()

    def __iter__(self) -> Iterator[tuple[int, Tensor]]:
        """Index and contents of this process's batches."""
        count = 0
        for index, x in self._read():
            if index >= len(self.digests) or self._digest_of(x) != self.digests[index]:
                raise self._changed(f"a different batch {index}")
            yield index, x
            count += 1
        if count < len(self.own):
            raise self._changed(f"{count} batches after {len(self.own)} on the first pass")

    @staticmethod
    def _changed(got: str) -> CalibrationError:
        return CalibrationError(
            "the same batches in the same order on every pass",
            got,
            "Turn shuffling and random augmentation off, or put the batches into a list first.",
        )
