"""The vision edge: models by name, preprocessing, images in, pictures out."""

from __future__ import annotations

from sgfi.vision.data import ImageBatches, Mirrored, TensorBatches, open_data, read_image
from sgfi.vision.display import Scale, natural_view, signed_view
from sgfi.vision.models import LoadedModel, load_model
from sgfi.vision.preprocessing import Preprocessing

__all__ = [
    "ImageBatches",
    "LoadedModel",
    "Mirrored",
    "Preprocessing",
    "Scale",
    "TensorBatches",
    "load_model",
    "natural_view",
    "open_data",
    "read_image",
    "signed_view",
]
