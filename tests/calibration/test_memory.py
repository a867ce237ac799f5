"""Sizes as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from sgfi.calibration.memory import as_bytes, available, readable
from sgfi.errors import CalibrationError


@pytest.mark.parametrize(
    ("written", "size"),
    [
        (4096, 4096),
        ("4096", 4096),
        ("4GiB", 4 * 2**30),
        (" 1.5 mib ", 3 * 2**19),
        ("2kB", 2000),
        ("3 GB", 3 * 10**9),
        ("7B", 7),
    ],
)
def test_sizes_are_read(written: Any, size: int) -> None:
    assert as_bytes(written) == size


@pytest.mark.parametrize("wrong", [0, -1, "0", "-3GiB", "4 gigs", "GiB", "", "1e9", None, [4], True, "4GiB please"])
def test_anything_else_is_refused(wrong: Any) -> None:
    with pytest.raises(CalibrationError, match="4GiB"):
        as_bytes(wrong)


def test_sizes_are_told() -> None:
    told = {0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 5 * 2**20: "5.0 MiB", 2**41: "2.0 TiB"}
    assert {size: readable(size) for size in told} == told


def test_the_machine_has_some() -> None:
    assert available() > 2**20
