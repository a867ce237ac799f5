"""Tensors kept between passes: the same whether they stay in memory or are spilled to disk."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from torch import Tensor

import sgfi.calibration.spill
from sgfi.calibration.spill import SpillBuffer
from sgfi.errors import CalibrationError

SIZE = 4 * 6
"""Bytes of one value below."""


@pytest.fixture(autouse=True)
def spills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders go."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def files(folder: Path) -> int:
    return len(list(folder.rglob("*.safetensors")))


def value(seed: int) -> Tensor:
    return torch.randn(2, 3, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("limit", "spilled"), [(10 * SIZE, 0), (2 * SIZE, 2), (SIZE - 1, 4), (0, 4)])
def test_what_goes_in_comes_out(limit: int, spilled: int, spills: Path) -> None:
    buffer = SpillBuffer(limit)
    for index in range(4):
        buffer.put("a", index, value(index))
    assert files(spills) == spilled
    for index in range(4):
        assert torch.equal(buffer.get("a", index), value(index)) and buffer.has("a", index)
    assert not buffer.has("a", 4) and not buffer.has("b", 0)
    buffer.close()
    assert not list(spills.iterdir())


@pytest.mark.parametrize("limit", [10 * SIZE, 0])
def test_a_new_value_takes_the_place_of_the_old(limit: int, spills: Path) -> None:
    buffer = SpillBuffer(limit)
    for turn in range(5):
        buffer.put("a", 0, value(turn))
        assert torch.equal(buffer.get("a", 0), value(turn))
    assert files(spills) == (1 if limit == 0 else 0)
    buffer.close()


def test_a_value_read_from_disk_outlives_its_file(spills: Path) -> None:
    buffer = SpillBuffer(0)
    buffer.put("a", 0, value(1))
    kept = buffer.get("a", 0)
    buffer.put("a", 0, value(2))
    buffer.close()
    gc.collect()
    assert torch.equal(kept, value(1))


def test_dropping_a_key_makes_room(spills: Path) -> None:
    buffer = SpillBuffer(2 * SIZE)
    for index in range(3):
        buffer.put("a", index, value(index))
    buffer.put("b", 0, value(9))
    assert files(spills) == 2
    buffer.drop("a")
    assert files(spills) == 1 and not any(buffer.has("a", index) for index in range(3))
    buffer.put("c", 0, value(3))
    buffer.put("c", 1, value(4))
    assert files(spills) == 1, "both fit into memory again"
    assert torch.equal(buffer.get("b", 0), value(9))
    buffer.close()


def test_strided_and_double_values() -> None:
    buffer = SpillBuffer(0)
    odd = torch.arange(12, dtype=torch.float64).reshape(3, 4).T
    buffer.put("a", 0, odd)
    assert torch.equal(buffer.get("a", 0), odd)
    buffer.close()


def test_closing_twice_and_an_empty_buffer() -> None:
    buffer = SpillBuffer(0)
    buffer.close()
    buffer.put("a", 0, value(0))
    buffer.close()
    buffer.close()
    assert not buffer.has("a", 0)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), SafetensorError("No space left on device")])
def test_a_full_disk_is_an_error(error: Exception, monkeypatch: pytest.MonkeyPatch, spills: Path) -> None:
    def full(*_: object, **__: object) -> None:
        raise error

    buffer = SpillBuffer(0)
    monkeypatch.setattr(sgfi.calibration.spill, "save_file", full)
    with pytest.raises(CalibrationError, match="No space left"):
        buffer.put("a", 0, value(0))
    assert not buffer.has("a", 0)
    buffer.close()
    assert not list(spills.iterdir())
