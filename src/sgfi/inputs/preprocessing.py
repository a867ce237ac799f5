"""From a picture file to the tensor the model was trained on, and back for display.

One small record describes what every supported library does to an image before a classifier sees it: resize, crop,
divide by 255, subtract a mean, divide by a deviation. The record is written into the manifest of the maps, so that
inversion uses exactly the preparation that calibration used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sgfi.errors import DataError
from sgfi.settings import JsonSettings

if TYPE_CHECKING:
    from PIL import Image

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
MOST_SCALED = 1 << 25
"""Pixels of a resized picture before the crop."""
LARGEST_SIDE = 1 << 16
"""Pixels along one side of a model's input."""
FILTERS = ("nearest", "bilinear", "bicubic", "lanczos", "box", "hamming")


@dataclass(frozen=True)
class Preprocessing(JsonSettings):
    """Resize the shorter side to ``resize`` (or squash when ``squash``), centre-crop to ``size``, normalise."""

    size: tuple[int, int] = (224, 224)
    """Height and width the model sees."""
    resize: int | None = None
    """Length of the shorter side before the crop; None: just long enough for the crop."""
    squash: bool = False
    """Resize straight to ``size`` and let the aspect ratio go."""
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD
    interpolation: str = "bilinear"
    source: str = "assumed"
    """Where the numbers come from: a library's own transform, or a guess the user should know about."""

    def __post_init__(self) -> None:
        sides = self.size if isinstance(self.size, tuple) else ()
        if len(sides) != 2 or not all(_is_side(side) for side in (*sides, *([self.resize] if self.resize else []))):
            raise DataError(
                f"a height, a width and a resize length from 1 to {LARGEST_SIDE}",
                f"size {self.size!r}, resize {self.resize!r}",
                "Give whole numbers of pixels.",
            )
        numbers = [*self.mean, *self.std] if isinstance(self.mean, tuple) and isinstance(self.std, tuple) else ["?"]
        if not all(isinstance(v, (int, float)) and isfinite(v) for v in numbers) or 0 in self.std:
            raise DataError(
                "finite means and deviations other than zero", f"mean {self.mean!r}, std {self.std!r}", "Correct them."
            )
        if len(self.mean) != len(self.std) or len(self.mean) not in (1, 3):
            raise DataError(
                "a mean and a deviation for each of 1 or 3 colour channels",
                f"mean {self.mean}, std {self.std}",
                "Give both with the same length.",
            )
        if self.interpolation not in FILTERS:
            raise DataError(
                f"an interpolation among {', '.join(FILTERS)}", repr(self.interpolation), "Choose one of these."
            )

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """(C, H, W) of one prepared image."""
        return (len(self.mean), *self.size)

    def at(self, size: int) -> Preprocessing:
        """The same preparation for another square input size; the margin of the crop stays in proportion."""
        if not _is_side(size):
            raise DataError(f"an input size from 1 to {LARGEST_SIDE} pixels", repr(size), "Choose one in this range.")
        ratio = size / min(self.size)
        resize = None if self.resize is None else max(size, round(self.resize * ratio))
        return replace(self, size=(size, size), resize=resize)

    def crop(self, image: Image.Image, name: str = "the picture") -> Image.Image:
        """Colour mode, size and crop; still a picture. ``name`` is for the error about one that is too narrow."""
        from PIL import Image

        image = image.convert("RGB" if len(self.mean) == 3 else "L")
        height, width = self.size
        resampling = getattr(Image.Resampling, self.interpolation.upper())
        if self.squash:
            return image.resize((width, height), resampling)
        scaled = _scaled_size(image.size, self.resize, self.size)
        if scaled[0] * scaled[1] > max(MOST_SCALED, 4 * height * width):
            raise DataError(
                "a picture whose sides are in proportion",
                f"{name} of {image.width} x {image.height} pixels, {scaled[0]} x {scaled[1]} when resized",
                "Crop it or leave it out.",
            )
        image = image.resize(scaled, resampling)
        # Half-way crops round to even here, as in torchvision: the same pixels for the same file.
        left, top = round((image.width - width) / 2), round((image.height - height) / 2)
        return image.crop((left, top, left + width, top + height))

    def __call__(self, image: Image.Image) -> torch.Tensor:
        """Picture -> float32 (C, H, W) in the model's own coordinates."""
        return self.normalise(pixels(self.crop(image))[None])[0]

    def normalise(self, bytes_: torch.Tensor) -> torch.Tensor:
        """uint8 (B, C, H, W) -> float32 (B, C, H, W) in the model's coordinates."""
        mean, std = self._moments()
        return (bytes_.to(torch.float32) / 255 - mean) / std

    def denormalise(self, x: torch.Tensor) -> torch.Tensor:
        """(B, C, H, W) in the model's coordinates -> the same shape with 0 black and 1 white."""
        mean, std = self._moments()
        return x.detach().cpu().to(torch.float32) * std + mean

    def _moments(self) -> tuple[torch.Tensor, torch.Tensor]:
        return tuple(torch.tensor(v).view(1, -1, 1, 1) for v in (self.mean, self.std))  # type: ignore[return-value]


def _is_side(side: Any) -> bool:
    return isinstance(side, int) and 1 <= side <= LARGEST_SIDE


def pixels(image: Image.Image) -> torch.Tensor:
    """Picture -> uint8 (C, H, W)."""
    array = np.array(image, dtype=np.uint8, copy=True)
    return torch.from_numpy(array[None] if array.ndim == 2 else array.transpose(2, 0, 1).copy())


def _scaled_size(original: tuple[int, int], resize: int | None, size: tuple[int, int]) -> tuple[int, int]:
    """(width, height) after resizing the shorter side; never smaller than the crop."""
    width, height = original
    if resize is None:  # cover the crop exactly
        ratio = max(size[1] / width, size[0] / height)
        return max(size[1], round(width * ratio)), max(size[0], round(height * ratio))
    long = int(resize * max(original) / min(original))
    scaled = (resize, long) if width <= height else (long, resize)
    return max(scaled[0], size[1]), max(scaled[1], size[0])


def from_torchvision(preset: Any) -> Preprocessing:
    """From ``weights.transforms()`` of torchvision's classification and segmentation models (which do not crop)."""
    crop = getattr(preset, "crop_size", preset.resize_size)[0]
    return Preprocessing(
        size=(crop, crop),
        resize=preset.resize_size[0],
        mean=tuple(preset.mean),
        std=tuple(preset.std),
        interpolation=preset.interpolation.value,
        source="torchvision weights transform",
    )


def from_detector(transform: Any) -> Preprocessing:
    """From the transform inside torchvision's detectors; a picture is cropped to a square of their shorter side."""
    fixed = getattr(transform, "fixed_size", None)
    side = fixed[0] if fixed else min(transform.min_size)
    return Preprocessing(
        size=(side, side),
        resize=side,
        mean=tuple(transform.image_mean),
        std=tuple(transform.image_std),
        source="torchvision detector's transform",
    )


def from_timm(config: Mapping[str, Any]) -> Preprocessing:
    """From ``timm.data.resolve_model_data_config``."""
    _, height, width = config["input_size"]
    return Preprocessing(
        size=(height, width),
        resize=int(np.floor(min(height, width) / config.get("crop_pct", 1.0))),
        squash=config.get("crop_mode") == "squash",
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
        interpolation=config.get("interpolation", "bicubic"),
        source="timm data config",
    )


def from_transformers(processor: Any) -> Preprocessing:
    """From a Hugging Face image processor (resize, centre crop, rescale, normalise)."""
    sizes = dict(processor.size or {})
    crop = dict(getattr(processor, "crop_size", None) or {}) if getattr(processor, "do_center_crop", False) else {}
    edge = sizes.get("shortest_edge")
    height = crop.get("height", sizes.get("height", edge)) or 224
    width = crop.get("width", sizes.get("width", edge)) or 224
    filters = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}
    return Preprocessing(
        size=(int(height), int(width)),
        resize=edge,
        squash=edge is None,
        mean=tuple(processor.image_mean) if processor.do_normalize else (0.0, 0.0, 0.0),
        std=tuple(processor.image_std) if processor.do_normalize else (1.0, 1.0, 1.0),
        interpolation=filters[int(getattr(processor, "resample", 2) or 2)],
        source="transformers image processor",
    )
