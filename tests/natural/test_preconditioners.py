"""Preconditioners against matrices written out."""

from __future__ import annotations

import torch

from sgfi.inversion import Selection, Selections
from sgfi.natural.preconditioners import Diagonal, Ensemble


def test_an_ensemble_is_the_inverse_of_its_low_rank_matrix_on_the_query() -> None:
    members = torch.randn(3, 2, 4, 5, dtype=torch.float64)  # r B (*target)
    masks = torch.rand(2, 4, 5) < 0.5
    chosen = Selections.of([Selection(mask, 1) for mask in masks])
    ridge = torch.rand(2, 2, dtype=torch.float64) + 0.1
    stack = chosen.project(torch.randn(2, 2, 4, 5, dtype=torch.float64))
    made = Ensemble.of(members, chosen, ridge)
    applied = made(stack)
    for query in range(2):
        for number in range(2):
            rows = members[:, number].flatten(1) * masks[query].flatten()
            matrix = rows.mT @ rows + ridge[query, number] * torch.eye(20, dtype=torch.float64)
            expected = torch.linalg.solve(matrix, stack[query, number].flatten()).reshape(4, 5)
            torch.testing.assert_close(applied[query, number], expected, rtol=0, atol=1e-12)
    last = torch.tensor([1])
    torch.testing.assert_close(made[last](stack[last]), applied[last], rtol=0, atol=1e-12)
    assert not applied[~masks.unsqueeze(1).expand_as(applied)].any()


def test_a_diagonal_divides_by_the_mean_response_of_a_channel() -> None:
    response, ridge = torch.rand(2, 3, 4, dtype=torch.float64), torch.ones(1, 2, dtype=torch.float64)
    stack = torch.randn(1, 2, 3, 4, dtype=torch.float64)
    expected = stack[0] / (response.mean(2, keepdim=True) + 1)
    torch.testing.assert_close(Diagonal.of(response, ridge, 1, torch.float64)(stack)[0], expected)
