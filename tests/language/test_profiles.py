from __future__ import annotations

import math

import torch

from sgfi.language.profiles import energy_profile, entropy, future_mass, mass, top_overlap


def test_shares_of_energy() -> None:
    value = torch.zeros(1, 4, 3)
    value[0, 1] = torch.tensor([3.0, 0.0, 4.0])  # 25
    value[0, 3] = torch.tensor([5.0, 5.0, 5.0])  # 75
    profile = energy_profile(value)
    torch.testing.assert_close(profile, torch.tensor([[0, 0.25, 0, 0.75]], dtype=torch.float64))
    assert float(mass(profile, [0, 1])) == 0.25 and float(future_mass(profile, 1)) == 0.75
    expected = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75)) / math.log(4)
    assert math.isclose(float(entropy(profile)), expected)


def test_nothing_has_no_profile_and_evenness_is_one() -> None:
    assert not energy_profile(torch.zeros(2, 4, 3)).any()
    assert math.isclose(float(entropy(energy_profile(torch.ones(1, 5, 2)))), 1.0)


def test_agreement_of_profiles() -> None:
    first = torch.tensor([[0.4, 0.3, 0.2, 0.1, 0.0]])
    second = torch.tensor([[0.4, 0.0, 0.1, 0.2, 0.3]])
    assert float(top_overlap(first, second, 2)) == 0.5
