"""A progress bar for calibration: batches over all passes, nodes done, time left."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor
from tqdm import tqdm

from sgfi.calibration.batches import Batches


class Progress:
    """Counts batches over all passes, so that the time left is right. Silent when switched off."""

    def __init__(self, shown: bool, passes: int, batches: int, nodes: int, done: int = 0) -> None:
        self._passes, self._pass, self._nodes, self._done = passes, 0, nodes, done
        self._batches = batches
        self._bar = tqdm(total=passes * batches, disable=not shown, unit="batch", desc="calibrating", mininterval=0.5)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def batches(self, data: Batches, label: str) -> Iterator[tuple[int, Tensor]]:
        """One pass over the data."""
        self._pass += 1
        text = f"node {self._done}/{self._nodes}, pass {self._pass}/{self._passes}, {label}"
        self._bar.set_postfix_str(text, refresh=False)
        for entry in data:
            yield entry
            self._bar.update()

    @property
    def passes(self) -> int:
        """Over the data so far, a last one that was cut short included."""
        return self._pass

    def expect(self, passes: int, nodes_done: int) -> None:
        """How many passes are needed in all, and how many nodes are finished, now that it is known."""
        self.skip(self._passes - passes)
        self._done = nodes_done

    def skip(self, passes: int) -> None:
        """Passes that are not needed."""
        self._passes -= passes
        self._bar.total = max(self._bar.n, (self._bar.total or 0) - passes * self._batches)

    def finished(self, nodes: int) -> None:
        self._done += nodes
