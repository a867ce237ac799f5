"""Linearised problems that are asked again: many queries on one tensor of one input share its derivatives."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from torch import Tensor

from sgfi.graph.raw import raw_bytes

BYTES = 2**30
"""Of activations that are kept."""


class Recent:
    """The most recently used, within a number of bytes of activations; the last one stays whatever its size.

    For one thread.

    Law: answers are the same with and without. What is kept is named by everything that it depends on.
    """

    def __init__(self, most: int = BYTES) -> None:
        self.most, self.held = most, 0
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Any], size: Callable[[Any], int]) -> Any:
        """What ``key`` names, made where it is not kept; ``size`` in bytes."""
        if key not in self._kept:
            made = make()
            self._kept[key] = made, size(made)
            self.held += self._kept[key][1]
            while self.held > self.most and len(self._kept) > 1:
                _, (_, gone) = self._kept.popitem(last=False)
                self.held -= gone
        self._kept.move_to_end(key)
        return self._kept[key][0]


def contents(x: Tensor) -> Hashable:
    """A name for a tensor's numbers."""
    return tuple(x.shape), x.dtype, str(x.device), hashlib.sha256(raw_bytes(x)).digest()
