"""What goes in: models by name, weights, images, text, preprocessing."""

from __future__ import annotations

from sgfi.inputs.data import ImageBatches, Mirrored, TensorBatches, open_data, read_image
from sgfi.inputs.models import LoadedModel, load_model
from sgfi.inputs.preprocessing import Preprocessing

__all__ = [
    "ImageBatches",
    "LoadedModel",
    "Mirrored",
    "Preprocessing",
    "TensorBatches",
    "load_model",
    "open_data",
    "read_image",
]
