"""The prior of natural photographs that comes with the package, in a model's own coordinates and at its own size."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeGuard

import torch
from torch import Tensor

from sgfi.errors import QueryError, whole
from sgfi.graph import TensorGraph
from sgfi.natural.grid import GridPrior

FILE = Path(__file__).with_name("photographs.json")
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
LUMINANCE = (0.299, 0.587, 0.114)
"""How a picture library turns colour into grey."""


@cache
@torch.inference_mode(False)  # kept for callers in any mode
def pixels() -> GridPrior:
    """Of photographs in [0, 1], red, green and blue, at the size they were measured at."""
    record = json.loads(FILE.read_text())
    colour, level, rings, spectrum = (
        torch.tensor(record[name], dtype=torch.float64) for name in ("colour", "level", "rings", "spectrum")
    )
    return GridPrior(colour.float(), _symmetric(level), rings, _symmetric(spectrum), tuple(record["shape"]))


def as_record(prior: GridPrior, digits: int = 5) -> dict[str, Any]:
    """What :func:`pixels` reads, JSON-able: symmetric matrices as their upper triangles."""

    def rounded(numbers: Tensor) -> Any:
        nested = numbers.tolist()
        return _map_numbers(nested, lambda number: float(f"{number:.{digits}g}"))

    rows, columns = torch.triu_indices(*prior.level.shape)
    return {
        "shape": list(prior.shape),
        "colour": rounded(prior.colour),
        "level": rounded(prior.level[rows, columns]),
        "rings": rounded(prior.rings),
        "spectrum": rounded(prior.spectrum[:, rows, columns]),
    }


def photograph_prior(
    sizes: tuple[int, int],
    mean: Sequence[float] = IMAGENET_MEAN,
    std: Sequence[float] = IMAGENET_STD,
    dtype: torch.dtype = torch.float32,
) -> GridPrior:
    """Of photographs ``(C, *sizes)`` prepared as ``(pixel - mean) / std`` with pixels in [0, 1]; C is 3, or 1 for grey.

    A model that takes ``(255 pixel - 127) / 128`` has mean ``127 / 255`` and std ``128 / 255``.
    """
    if not isinstance(sizes, Sequence) or isinstance(sizes, str) or not all(whole(size, 1) for size in sizes):
        raise QueryError("sizes of a picture", repr(sizes), "As in (224, 224).")
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise QueryError("a floating dtype", repr(dtype), "As in torch.float32.")
    try:
        centre, spread = (torch.as_tensor(tuple(numbers), dtype=torch.float64) for numbers in (mean, std))
        normalised = len(centre) == len(spread) and len(centre) in (1, 3) and bool((spread > 0).all())
        normalised = normalised and bool(torch.cat([centre, spread]).isfinite().all())
    except (TypeError, ValueError, RuntimeError):
        normalised = False
    if not normalised:
        raise QueryError(
            "a mean and a positive std for each of 1 or 3 colour channels",
            f"mean {mean!r}, std {std!r}",
            "Fit a prior on inputs of this model with sgfi.prior(batches).",
        )
    colours = torch.eye(3, dtype=torch.float64) if len(centre) == 3 else torch.tensor([LUMINANCE], dtype=torch.float64)
    measured = pixels()
    matched = measured.resized((3, *sizes)).mapped(colours / spread.unsqueeze(1), -centre / spread)
    return GridPrior(
        matched.colour.to(dtype), matched.level, matched.rings, matched.spectrum, matched.shape, matched.channel_axis
    )


def default_prior(graph: TensorGraph, preprocessing: Any | None = None) -> GridPrior:
    """For a model of pictures: photographs, prepared as ``preprocessing`` (its ``mean`` and ``std``) says.

    Without one the picture must have three channels, and ImageNet's usual mean and deviation are assumed.
    """
    node = graph.input
    picture = node.channel_axis == 1 and len(node.coord_axes) == 2 and min(node.coord_shape) > 1
    if not picture or node.channels not in ((3,) if preprocessing is None else (1, 3)):
        raise QueryError(
            "a prior, for inputs that are not colour pictures (3, H, W)",
            f"none, for inputs of shape {node.shape[1:]}",
            "Fit one with sgfi.prior(batches).",
        )
    mean, std = (getattr(preprocessing, name, None) for name in ("mean", "std"))
    if preprocessing is None:
        mean, std = IMAGENET_MEAN, IMAGENET_STD
    if not (_by_channel(mean, node.channels) and _by_channel(std, node.channels)):
        raise QueryError(
            "a prior from sgfi.prior(batches), or a preprocessing with mean and std for every channel",
            type(preprocessing).__name__,
            "Fit a prior on inputs of this model.",
        )
    height, width = node.coord_shape
    return photograph_prior((height, width), mean, std, node.dtype)


def _by_channel(numbers: Any, channels: int) -> TypeGuard[Sequence[float]]:
    try:
        return torch.as_tensor(numbers, dtype=torch.float64).shape == (channels,)
    except (TypeError, ValueError, RuntimeError):
        return False


def _symmetric(triangles: Tensor) -> Tensor:
    """(..., 6) upper triangles -> (..., 3, 3)."""
    rows, columns = torch.triu_indices(3, 3)
    matrices = triangles.new_zeros(*triangles.shape[:-1], 3, 3)
    matrices[..., rows, columns] = triangles
    matrices[..., columns, rows] = triangles
    return matrices


def _map_numbers(nested: Any, function: Any) -> Any:
    return [_map_numbers(item, function) for item in nested] if isinstance(nested, list) else function(nested)
