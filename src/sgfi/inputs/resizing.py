"""Models at another input size: position embeddings are resampled where a model has them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sgfi.errors import DataError

FREED = "interpolate_pos_encoding"
"""The argument by which Hugging Face's vision models are told to resample."""


def resize_model(model: nn.Module, size: tuple[int, int]) -> None:
    """The model, in place, for pictures of ``size`` (height, width). One without a size of its own stays as it is."""
    for name, resize in RESIZERS.items():
        try:
            if resize(model, size):
                return
        except (RuntimeError, ValueError, AssertionError, TypeError) as error:
            first = str(error).strip().splitlines()[:1]
            raise DataError(
                f"a model of {name} that can take pictures of {size[0]} x {size[1]}",
                f"{type(error).__name__}: {first[0] if first else ''}",
                "Choose a multiple of its patch size, or its own size.",
            ) from error


def _timm(model: Any, size: tuple[int, int]) -> bool:
    if callable(getattr(model, "set_input_size", None)):
        model.set_input_size(img_size=size)
        return True
    patches: Any = getattr(model, "patch_embed", None)
    positions = getattr(model, "pos_embed", None)
    if not callable(getattr(patches, "set_input_size", None)) or not isinstance(positions, nn.Parameter):
        return False
    from timm.layers import resample_abs_pos_embed

    before, first = tuple(patches.grid_size), positions.shape[1] - patches.num_patches
    patches.set_input_size(img_size=size)
    resampled = resample_abs_pos_embed(positions.detach(), list(patches.grid_size), list(before), first)
    model.pos_embed = nn.Parameter(resampled, requires_grad=False)
    return True


def _open_clip(model: Any, size: tuple[int, int]) -> bool:
    """One token first, then a grid that is as fine as the picture is large; also in a ResNet's attention pool."""
    holders = [
        module for module in model.modules() if isinstance(getattr(module, "positional_embedding", None), Tensor)
    ]
    before = getattr(model, "image_size", None)
    if len(holders) != 1 or before is None:
        return False
    before = before[0] if isinstance(before, (tuple, list)) else before
    (holder,) = holders
    positions = holder.positional_embedding.detach()
    side = round((len(positions) - 1) ** 0.5)
    if size[0] != size[1] or side * side + 1 != len(positions) or side * size[0] % before:
        raise ValueError(f"a square of {before} pixels with {side} x {side} places, or a whole number of places")
    holder.positional_embedding = nn.Parameter(
        _resampled(positions.unsqueeze(0), side, side * size[0] // before)[0], requires_grad=False
    )
    model.image_size = size
    return True


def _resampled(positions: Tensor, old: int, new: int) -> Tensor:
    """(1, 1 + old old, C) -> (1, 1 + new new, C): the first token's embedding stays, those of the grid change."""
    first, grid = positions[:, :1], positions[:, 1:].reshape(1, old, old, -1).permute(0, 3, 1, 2)
    grid = F.interpolate(grid, (new, new), mode="bicubic", align_corners=False)
    return torch.cat([first, grid.permute(0, 2, 3, 1).flatten(1, 2)], 1)


def _torchvision(model: Any, size: tuple[int, int]) -> bool:
    """A vision transformer."""
    positions = getattr(getattr(model, "encoder", None), "pos_embedding", None)
    if positions is None or not hasattr(model, "patch_size"):
        return False
    side, patch = size[0], model.patch_size
    if size[0] != size[1] or side % patch:
        raise ValueError(f"patches of {patch} pixels, on a square")
    resampled = _resampled(positions.detach(), model.image_size // patch, side // patch)
    model.encoder.pos_embedding = nn.Parameter(resampled, requires_grad=False)
    model.image_size, model.seq_length = side, resampled.shape[1]
    return True


def _hugging_face(model: nn.Module, size: tuple[int, int]) -> bool:
    free = [module for module in model.modules() if FREED in inspect.signature(module.forward).parameters]
    for module in free:
        module.forward = _freed(module.forward)  # type: ignore[method-assign]
    return bool(free)


RESIZERS = {"timm": _timm, "torchvision": _torchvision, "open_clip": _open_clip, "Hugging Face": _hugging_face}
"""By library: whether it resized the model."""


def _freed(forward: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(forward)
    def resampling(*args: Any, **options: Any) -> Any:
        given = inspect.signature(forward).bind_partial(*args, **options)
        given.arguments[FREED] = True
        return forward(*given.args, **given.kwargs)

    return resampling
