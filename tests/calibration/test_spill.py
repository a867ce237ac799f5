"""Tensors carried between passes: the same whether they stay in memory or go to disk."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from torch import Tensor

import sgfi.calibration.spill
from sgfi.calibration.spill import Carry
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
    carry = Carry(limit)
    for place in range(4):
        carry.put("a", place, value(place))
    assert files(spills) == spilled
    for place in range(4):
        assert torch.equal(carry.get("a", place), value(place)) and carry.has("a", place)
    assert not carry.has("a", 4) and not carry.has("b", 0)
    carry.close()
    assert not list(spills.iterdir())


@pytest.mark.parametrize("limit", [10 * SIZE, 0])
def test_a_new_value_takes_the_place_of_the_old(limit: int, spills: Path) -> None:
    carry = Carry(limit)
    for turn in range(5):
        carry.put("a", 0, value(turn))
        assert torch.equal(carry.get("a", 0), value(turn))
    assert files(spills) == (1 if limit == 0 else 0)
    carry.close()


def test_a_value_read_from_disk_outlives_its_file(spills: Path) -> None:
    carry = Carry(0)
    carry.put("a", 0, value(1))
    kept = carry.get("a", 0)
    carry.put("a", 0, value(2))
    carry.close()
    gc.collect()
    assert torch.equal(kept, value(1))


def test_dropping_a_key_makes_room(spills: Path) -> None:
    carry = Carry(2 * SIZE)
    for place in range(3):
        carry.put("a", place, value(place))
    carry.put("b", 0, value(9))
    assert files(spills) == 2
    carry.drop("a")
    assert files(spills) == 1 and not any(carry.has("a", place) for place in range(3))
    carry.put("c", 0, value(3))
    carry.put("c", 1, value(4))
    assert files(spills) == 1, "both fit into memory again"
    assert torch.equal(carry.get("b", 0), value(9))
    carry.close()


def test_strided_and_double_values() -> None:
    carry = Carry(0)
    odd = torch.arange(12, dtype=torch.float64).reshape(3, 4).T
    carry.put("a", 0, odd)
    assert torch.equal(carry.get("a", 0), odd)
    carry.close()


def test_closing_twice_and_an_empty_carry() -> None:
    carry = Carry(0)
    carry.close()
    carry.put("a", 0, value(0))
    carry.close()
    carry.close()
    assert not carry.has("a", 0)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), SafetensorError("No space left on device")])
def test_a_full_disk_is_told(error: Exception, monkeypatch: pytest.MonkeyPatch, spills: Path) -> None:
    def full(*_: object, **__: object) -> None:
        raise error

    carry = Carry(0)
    monkeypatch.setattr(sgfi.carry, "save_file", full)
    with pytest.raises(CalibrationError, match="No space left"):
        carry.put("a", 0, value(0))
    assert not carry.has("a", 0)
    carry.close()
    assert not list(spills.iterdir())
