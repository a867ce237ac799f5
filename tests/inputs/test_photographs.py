"""Photographs from pip packages: all there, disjoint, crops repeatable."""

from __future__ import annotations

import pytest
import torch

from sgfi.errors import DataError
from sgfi.inputs.photographs import CALIBRATION, HELD_OUT, Photograph, held_out_images, random_crops
from sgfi.inputs.preprocessing import Preprocessing

PREPARED = Preprocessing(size=(16, 16))


def test_calibration_and_held_out_are_different_files() -> None:
    files = [photo.file.resolve() for photo in (*CALIBRATION, *HELD_OUT)]
    assert len(set(files)) == len(files) == len(CALIBRATION) + len(HELD_OUT)
    assert not {p.file.read_bytes() for p in CALIBRATION} & {p.file.read_bytes() for p in HELD_OUT}
    assert all(photo.licence for photo in (*CALIBRATION, *HELD_OUT))


def test_crops_repeat_with_the_seed_and_differ_from_each_other() -> None:
    crops, again, other = (random_crops(PREPARED, 8, seed=s).inputs for s in (0, 0, 1))
    assert crops.shape == (8, 3, 16, 16) and torch.isfinite(crops).all()
    assert torch.equal(crops, again) and not torch.equal(crops, other)
    assert len({crop.numpy().tobytes() for crop in crops}) == 8


def test_held_out_pictures_are_prepared_for_the_model() -> None:
    batches = held_out_images(PREPARED)
    assert batches.inputs.shape == (len(HELD_OUT), 3, 16, 16)
    assert batches.names == [photo.name for photo in HELD_OUT]


def test_a_missing_package_is_named() -> None:
    with pytest.raises(DataError, match=r'pip install -e "\.\[demo\]"'):
        _ = Photograph("x", "no_such_package", "x.png", "none").file
