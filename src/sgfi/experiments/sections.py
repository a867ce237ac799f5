"""The sections of an experiment file that say what is calibrated, resolved for one variant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sgfi.errors import DataError
from sgfi.settings import JsonSettings

SECTIONS = ("model", "data", "plan", "calibration")
LAYER = ("layer", "part")
"""In ``plan``, for language models: a layer counted from one and ``attention``, ``mlp`` or ``residual``, instead of
``target`` and ``boundaries``. Every second block before the layer is a boundary (the paper's plan)."""


@dataclass(frozen=True)
class ModelSettings(JsonSettings):
    """Which network, as :func:`sgfi.inputs.load_model` takes it."""

    spec: str = ""
    weights: str | None = None
    size: int | None = None
    partial_weights: bool = False


@dataclass(frozen=True)
class DataSettings(JsonSettings):
    """Which inputs. Calibration and evaluation inputs never share a file's contents."""

    calibration: str | None = None
    """Folder of images, or an .npz, .npy or .safetensors of inputs."""
    evaluation: str | None = None
    """None: drawn from the calibration data, before the calibration inputs are."""
    calibration_count: int = 4096
    evaluation_count: int = 1024
    calibration_seed: int = 123
    evaluation_seed: int = 456
    batch: int = 16
    mirror: bool = False
    """Calibrate on every picture mirrored left to right, too."""

    def __post_init__(self) -> None:
        if min(self.calibration_count, self.evaluation_count, self.batch) < 2:
            raise DataError("counts and batches of two or more", repr(self), "Raise them.")


@dataclass(frozen=True)
class Sections:
    """What one variant calibrates and evaluates on."""

    model: ModelSettings
    data: DataSettings
    plan: Mapping[str, Any]
    calibration: Mapping[str, Any]
