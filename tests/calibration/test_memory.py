"""The memory of the machine."""

from __future__ import annotations

from sgfi.calibration.memory import available


def test_the_machine_has_some() -> None:
    assert available() > 2**20
