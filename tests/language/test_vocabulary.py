from __future__ import annotations

import torch

from sgfi.language.display import fit_interface
from sgfi.language.vocabulary import exact_tokens, nearest, token_cosine


def test_nearest_is_the_plain_distance() -> None:
    torch.manual_seed(0)
    table, value = torch.randn(40, 6), torch.randn(3, 5, 6)
    expected = torch.cdist(value.flatten(0, 1), table).argsort(1)[:, :4].reshape(3, 5, 4)
    assert torch.equal(nearest(value, table, 4), expected)
    ids = torch.randint(0, 40, (3, 5))
    assert exact_tokens(table[ids] + 1e-3, table, ids).all()
    assert not exact_tokens(table[ids], table, (ids + 1) % 40).any()
    torch.testing.assert_close(token_cosine(2 * value, value), torch.ones(3, 5, dtype=torch.float64))


def test_the_interface_undoes_a_low_rank_distortion_and_maps_zero_to_zero() -> None:
    torch.manual_seed(0)
    source = torch.randn(500, 12, dtype=torch.float64)
    turn = torch.linalg.qr(torch.randn(12, 12, dtype=torch.float64)).Q
    scale = torch.ones(12, dtype=torch.float64)
    scale[:3] = 0.2  # three directions are shrunk
    distorted = source @ (turn * scale) @ turn.T
    enough, less = (fit_interface(distorted, source, rank, ridge=1e-9) for rank in (3, 2))
    torch.testing.assert_close(enough(distorted), source, atol=1e-6, rtol=0)
    assert (less(distorted) - source).norm() > 1
    assert enough.size == 2 * 3 * 12 and not enough(torch.zeros(1, 12, dtype=torch.float64)).any()
