"""The prepared tensor is the one the library itself would have made."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from sgfi.errors import DataError
from sgfi.inputs import preprocessing
from sgfi.inputs.preprocessing import Preprocessing


@pytest.fixture(params=[(90, 61), (61, 90), (33, 33), (500, 100)])
def picture(request: pytest.FixtureRequest) -> Image.Image:
    width, height = request.param
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def test_same_tensor_as_torchvisions_own_transform(picture: Image.Image) -> None:
    from torchvision.transforms._presets import ImageClassification

    preset = ImageClassification(crop_size=32, resize_size=37)
    ours = preprocessing.from_torchvision(preset)(picture)
    assert ours.shape == (3, 32, 32)
    assert torch.allclose(ours, preset(picture), atol=1e-6)


def test_same_tensor_as_timms_own_transform(picture: Image.Image) -> None:
    import timm

    config = {"input_size": (3, 32, 32), "crop_pct": 0.9, "mean": (0.4,) * 3, "std": (0.2,) * 3}
    config |= {"interpolation": "bicubic", "crop_mode": "center"}
    theirs = timm.data.create_transform(**config)(picture)
    assert torch.allclose(preprocessing.from_timm(config)(picture), theirs, atol=1e-6)


def test_same_tensor_as_transformers_own_processor(picture: Image.Image) -> None:
    from transformers import ViTImageProcessorPil

    processor = ViTImageProcessorPil(size={"height": 32, "width": 32})
    theirs = torch.as_tensor(np.asarray(processor(picture)["pixel_values"][0]))
    assert torch.allclose(preprocessing.from_transformers(processor)(picture), theirs, atol=1e-5)


def test_denormalise_undoes_normalise() -> None:
    record = Preprocessing(size=(4, 6))
    pixels = torch.randint(0, 256, (2, 3, 4, 6), dtype=torch.uint8)
    back = record.denormalise(record.normalise(pixels))
    assert torch.allclose(back, pixels / 255, atol=1e-6)


def test_survives_json() -> None:
    import json

    record = Preprocessing(size=(8, 8), resize=9, mean=(0.5,), std=(0.25,), source="here")
    assert Preprocessing.from_dict(json.loads(json.dumps(record.as_dict()))) == record


def test_another_size_keeps_the_margin() -> None:
    assert Preprocessing(size=(224, 224), resize=256).at(112) == Preprocessing(size=(112, 112), resize=128)


def test_grey_models_get_one_channel(picture: Image.Image) -> None:
    assert Preprocessing(size=(8, 8), mean=(0.0,), std=(1.0,))(picture).shape == (1, 8, 8)


@pytest.mark.parametrize("wrong", [{"mean": (0.5,)}, {"interpolation": "psychic"}])
def test_nonsense_is_refused(wrong: dict) -> None:
    with pytest.raises(DataError):
        Preprocessing(**wrong)
