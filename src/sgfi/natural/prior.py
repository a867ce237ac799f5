"""How inputs vary, fitted on a stream of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from sgfi.errors import DataError, whole
from sgfi.natural.channels import ChannelPrior
from sgfi.natural.covariance import Prior
from sgfi.natural.grid import GridMoments, GridPrior
from sgfi.natural.moments import Moments

KINDS = {2: "vector", 3: "tokens"}
"""What inputs are taken for by their number of axes, batch included; more axes: a grid."""


@torch.inference_mode(False)  # kept for callers in any mode
@torch.no_grad()
def prior(batches: Iterable, kind: str | None = None, channel_axis: int | None = None) -> Prior:
    """Mean and covariance of inputs, from batches of tensors ``(B, ...)`` or of tuples that begin with one.

    ``kind``: ``"grid"`` (images, signals: stationary over the coordinates), ``"tokens"`` (one covariance for every
    position, none between positions) or ``"vector"``. By default (B, D) is a vector, (B, L, D) are tokens and anything
    larger is a grid. ``channel_axis`` counts with the batch: 1 by default, for tokens the last. Read once.
    """
    if isinstance(batches, (Tensor, str, Mapping)) or not isinstance(batches, Iterable):
        raise DataError("an iterable of batches", type(batches).__name__, "Put the tensors (B, ...) into a list.")
    shape: tuple[int, ...] | None = None
    sums: Any = None
    samples, dtype = 0, torch.float32
    for x in _inputs(batches):
        if shape is None:
            shape, dtype = tuple(x.shape[1:]), x.dtype
            kind, channel_axis = _layout(x, kind, channel_axis)
            shift = torch.movedim(x, channel_axis, -1).flatten(0, -2).to(torch.float64).mean(0)
        elif tuple(x.shape[1:]) != shape:
            raise DataError(f"inputs of one shape {shape}", str(tuple(x.shape[1:])), "Crop or pad them alike.")
        assert channel_axis is not None
        part = GridMoments.of(x, channel_axis, shift) if kind == "grid" else _channel_moments(x, channel_axis, shift)
        sums, samples = part if sums is None else sums.merge(part), samples + len(x)
    if shape is None or samples < 2:
        raise DataError("at least two inputs", str(samples), "Give more; a few hundred are usual.")
    assert channel_axis is not None
    if kind == "grid":
        return sums.prior(shape, channel_axis, dtype)
    return ChannelPrior.fitted(sums, shift, shape, channel_axis, dtype)


def from_tensors(tensors: Mapping[str, Tensor]) -> Prior:
    """The prior whose ``tensors()`` these are."""
    for known in (GridPrior, ChannelPrior):
        needed = {"shape", "channel_axis"} | (
            {"colour", "spectrum"} if known is GridPrior else {"centre", "covariance"}
        )
        if needed <= set(tensors):
            return known.from_tensors(tensors)
    raise DataError("the tensors of a prior", f"{sorted(tensors)}", "Store what prior.tensors() returns.")


def _inputs(batches: Iterable) -> Iterator[Tensor]:
    """The tensors of a stream, checked, on the CPU."""
    if not isinstance(batches, Iterable) or isinstance(batches, (str, bytes, Mapping)):
        raise DataError("batches of floating tensors (B, ...)", type(batches).__name__, "Put the tensors into a list.")
    for number, batch in enumerate(batches):
        x = batch[0] if isinstance(batch, (tuple, list)) and batch else batch
        dense = isinstance(x, Tensor) and x.layout == torch.strided and not x.is_meta
        if not dense or x.dim() < 2 or 0 in x.shape[1:] or not x.is_floating_point():
            got = f"{x.dtype} {tuple(x.shape)}, {x.layout} on {x.device}" if isinstance(x, Tensor) else type(x).__name__
            raise DataError(
                "batches of dense floating tensors (B, ...)", f"{got} in batch {number}", "Convert them first."
            )
        if not torch.isfinite(x).all():
            raise DataError("finite inputs", f"NaN or infinity in batch {number}", "Drop the affected samples.")
        if len(x):
            x = x.detach().cpu()
            yield x.float() if x.dtype in (torch.float16, torch.bfloat16) else x  # sums of half precision are none


def _layout(x: Tensor, kind: str | None, channel_axis: int | None) -> tuple[str, int]:
    """Kind and channel axis, settled."""
    kind = kind or KINDS.get(x.dim(), "grid")
    if kind not in ("grid", "tokens", "vector"):
        raise DataError('a kind among "grid", "tokens" and "vector"', repr(kind), "Choose one of these.")
    axis = (x.dim() - 1 if kind == "tokens" else 1) if channel_axis is None else channel_axis
    if not whole(axis, -x.dim()):
        raise DataError("a channel axis by its number", repr(axis), "1 is the first after the batch.")
    axis = axis + x.dim() if axis < 0 else axis
    fits = x.dim() == 2 if kind == "vector" else x.dim() > 2
    if not fits or not 1 <= axis < x.dim():
        raise DataError(
            f"inputs that are a {kind} with a channel axis from 1 to {x.dim() - 1}",
            f"shape (B, {', '.join(map(str, x.shape[1:]))}) and axis {axis}",
            "A vector has no coordinates; tokens and grids have at least one coordinate axis.",
        )
    return kind, axis


def _channel_moments(x: Tensor, channel_axis: int, shift: Tensor) -> Moments:
    rows = torch.movedim(x, channel_axis, -1).flatten(0, -2).to(torch.float64) - shift  # (B positions, D)
    return Moments.of(rows.unsqueeze(0))
