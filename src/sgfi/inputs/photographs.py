"""Real photographs that come inside pip packages, so that a first run needs no download.

Calibration pictures and held-out pictures are different photographs, not different crops of the same ones.
"""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageEnhance

from sgfi.errors import DataError
from sgfi.inputs.data import TensorBatches, open_image
from sgfi.inputs.preprocessing import Preprocessing, pixels
from sgfi.optional import install_hint


@dataclass(frozen=True)
class Photograph:
    """A file inside an installed package, and the terms it comes under."""

    name: str
    package: str
    path: str
    licence: str
    weight: float = 1.0
    """Share of the crops: a plain texture teaches less than a scene."""

    @property
    def pip_name(self) -> str:
        return {"skimage": "scikit-image", "sklearn": "scikit-learn"}.get(self.package, self.package)

    @property
    def file(self) -> Path:
        """Where pip put it."""
        spec = importlib.util.find_spec(self.package)
        root = Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None
        if root is None or not (root / self.path).is_file():
            raise DataError(f"the photograph {self.path} inside {self.pip_name}", "no such file", install_hint("demo"))
        return root / self.path


_RECORDS = json.loads(files("sgfi.inputs").joinpath("photographs.json").read_text(encoding="utf-8"))
CALIBRATION, HELD_OUT = (tuple(Photograph(*row) for row in _RECORDS[name]) for name in ("calibration", "held_out"))


def held_out_images(preprocessing: Preprocessing) -> TensorBatches:
    """The held-out photographs, prepared as the model wants them: one batch (N, C, H, W)."""
    inputs = torch.stack([preprocessing(open_image(photo.file)) for photo in HELD_OUT])
    return TensorBatches(inputs, [photo.name for photo in HELD_OUT], len(inputs), kind="photographs")


def random_crops(preprocessing: Preprocessing, count: int, seed: int = 0, batch_size: int = 32) -> TensorBatches:
    """``count`` random crops of the calibration photographs: another position, size, side, brightness, contrast and
    tint each.

    A dozen photographs are few; without the changes of colour the maps learn these photographs' colours.
    """
    rng = np.random.default_rng(seed)
    pictures = [open_image(photo.file) for photo in CALIBRATION]
    shares = np.array([photo.weight for photo in CALIBRATION])
    chosen = rng.choice(len(pictures), size=count, p=shares / shares.sum())
    crops = torch.stack([pixels(_random_crop(pictures[i], preprocessing.size, rng)) for i in chosen])
    names = [CALIBRATION[i].name for i in chosen]
    return TensorBatches(preprocessing.normalise(crops), names, batch_size, kind="crops of packaged photographs")


def _random_crop(image: Image.Image, size: tuple[int, int], rng: np.random.Generator) -> Image.Image:
    """A square of 40 % to 100 % of the shorter side, resized to ``size``."""
    side = int(min(image.size) * rng.uniform(0.4, 1.0))
    left, top = (int(rng.integers(0, length - side + 1)) for length in image.size)
    crop = image.crop((left, top, left + side, top + side))
    crop = crop.resize((size[1], size[0]), Image.Resampling.BICUBIC)
    if rng.random() < 0.5:
        crop = crop.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return _recoloured(crop, rng)


def _recoloured(crop: Image.Image, rng: np.random.Generator) -> Image.Image:
    crop = ImageEnhance.Color(crop).enhance(rng.uniform(0.3, 1.6))
    crop = ImageEnhance.Contrast(crop).enhance(rng.uniform(0.6, 1.4))
    array = np.asarray(crop, dtype=np.float32) * rng.uniform(0.6, 1.5)  # exposure
    array = array * rng.uniform(0.75, 1.25, size=3)  # tint
    array = array[..., rng.permutation(3)] if rng.random() < 0.15 else array
    return Image.fromarray(np.clip(array, 0, 255).astype(np.uint8))
