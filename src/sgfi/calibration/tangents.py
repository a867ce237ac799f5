"""``on="tangents"``: maps fitted to recover ``J dx`` at the operating point, where the paper's recover states ``H``.

``dx`` is the difference of two inputs other than the operating point, so that nothing about it can be read off the
Jacobian. Every batch is read once for each tangent of an input; which two inputs make the difference depends on the
batch and the number of the reading alone, so that maps depend neither on memory nor on processes.
"""

from __future__ import annotations

from itertools import combinations
from math import prod

import torch
from torch import Tensor

from sgfi.calibration.batches import Batches
from sgfi.calibration.processes import ProcessGroup
from sgfi.errors import CalibrationError
from sgfi.graph import Node

FEWEST = 3
"""Inputs of a batch: the operating point and two others."""


def differences(x: Tensor, number: int) -> Tensor:
    """(B, ...) for every sample of a batch the difference of two others, ``x[i + s] - x[i + t]``, counted cyclically.

    Numbers up to ``(B - 1) (B - 2) / 2`` give different pairs, then they come again. All of them together hold every
    two inputs equally often: ``sum dx dx* = B (B - 2) sum (x_i - mean) (x_i - mean)*``.
    """
    size = len(x)
    pairs = sorted(combinations(range(1, size), 2), key=lambda pair: ((2 * pair[0] - pair[1]) % size, pair[0]))
    if not pairs:
        raise CalibrationError(
            f'batches of at least {FEWEST} inputs with on="tangents"',
            f"one of {size}",
            "Choose another batch size, or leave the last batch out.",
        )
    first, second = pairs[number % len(pairs)]
    return x.roll(-first, 0) - x.roll(-second, 0)


def channel_means(data: Batches, node: Node, group: ProcessGroup) -> tuple[float, ...]:
    """The mean of every channel of the inputs over samples and coordinates, as the natural inverse's prior has it."""
    own = torch.zeros(node.channels, dtype=torch.float64)
    for _, x in data:
        own += x.double().movedim(node.channel_axis or 1, -1).flatten(0, -2).sum(0).cpu()
    total = torch.stack(group.all_gather(own)).sum(0)
    return tuple((total / (data.samples * prod(node.coord_shape))).tolist())
