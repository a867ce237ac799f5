"""Which cells of a tensor read which places of the input.

Law: ``reads[p, c]`` is the squared length of ``(J d_p)_c``, where ``d_p`` is the input's own deviation from the prior's
mean inside place p: how much of what cell c registered came from there, to first order at the input. Each cell's
shares over places sum to one.
"""

from __future__ import annotations

from itertools import product

import torch
from torch import Tensor

import sgfi
from sgfi.derivatives import Linearisation
from sgfi.explorer.store import Artefact

SIDE, TOGETHER = 8, 16
"""Places along each axis of a picture at most, and places pushed forward at once."""


def places(shape: tuple[int, ...]) -> tuple[int, ...]:
    """How many places each coordinate axis of an input (C, H, W) or (L, D) is cut into."""
    if len(shape) == 3:
        return tuple(min(SIDE, size) for size in shape[1:])
    return shape[:1]


@torch.inference_mode(False)
@torch.no_grad()
def reads(estimator: sgfi.Estimator, x: Tensor, query: sgfi.Query) -> Artefact:
    """(places, cells) ``share``: of what a cell registered, the part from each place."""
    node = estimator.node(query.target)
    grid = places(tuple(x.shape[1:]))
    deviation = x - estimator.origin
    local = Linearisation(estimator.graph, {"input": (node.name,)}, x).at("input")
    windows = [_window(corner, grid, tuple(x.shape)) for corner in product(*map(range, grid))]
    rows = []
    for start in range(0, len(windows), TOGETHER):
        if isinstance(estimator, sgfi.NaturalInverse):
            estimator.prior.apply(torch.zeros_like(estimator.prior.mean))  # a step: the worker may stop here
        some = windows[start : start + TOGETHER]
        parts = x.new_zeros(len(some), *x.shape)
        for part, window in zip(parts, some, strict=True):
            part[window] = deviation[window]
        pushed = local.jvp(parts)[0]  # (places, 1, *target)
        rows.append(pushed.square().sum((node.channel_axis or 1) + 1).flatten(1))
    energy = torch.cat(rows)  # (places, cells)
    share = energy / energy.sum(0, keepdim=True).clamp_min(1e-30)
    return Artefact({"share": share}, {"places": list(grid), "cells": list(node.coord_shape)})


def _window(corner: tuple[int, ...], grid: tuple[int, ...], shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Of an input (1, C, H, W) or (1, L, D)."""
    axes = range(2, 4) if len(shape) == 4 else range(1, 2)
    cuts = [
        slice(at * shape[axis] // count, (at + 1) * shape[axis] // count)
        for at, count, axis in zip(corner, grid, axes, strict=True)
    ]
    return (slice(None), slice(None), *cuts) if len(shape) == 4 else (slice(None), *cuts)
