"""Which samples fit and which judge."""

from __future__ import annotations

import pytest
import torch

from sgfi.calibration.splits import SampleSplit
from sgfi.errors import CalibrationError

CPU = torch.device("cpu")


@pytest.mark.parametrize("sizes", [(24,), (3, 1, 9, 11), (8, 8, 8), (7, 17)])
def test_every_eighth_sample_over_all_batches_judges(sizes: tuple[int, ...]) -> None:
    split = SampleSplit(sizes, True, CPU)
    judges = torch.cat([split.judges(index) for index in range(len(sizes))])
    fits = torch.cat([split.fits(index) for index in range(len(sizes))])
    assert judges.nonzero().flatten().tolist() == [7, 15, 23]
    assert torch.equal(fits, ~judges) and split.fitted == int(fits.sum())


def test_without_holding_out_all_samples_do_both() -> None:
    split = SampleSplit((3, 2), False, CPU)
    assert split.fits(0) == split.judges(1) == slice(None) and split.fitted == 5


def test_too_few_samples_to_hold_one_out() -> None:
    with pytest.raises(CalibrationError, match="at least 8 samples"):
        SampleSplit((3, 4), True, CPU)
