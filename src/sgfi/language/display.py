"""A readable display of inverses: DISPLAY ONLY, never evidence.

A small linear interface moves inverse embeddings nearer to the vocabulary so that people can read them. It is fitted
on calibration texts, knows nothing of the query, and is applied after everything that is measured has been measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Interface:
    """``e + up (down e)``: zero in, zero out; ``2 rank D`` numbers."""

    down: Tensor
    """(rank, D)."""
    up: Tensor
    """(D, rank)."""

    @property
    def size(self) -> int:
        return self.down.numel() + self.up.numel()

    def __call__(self, value: Tensor) -> Tensor:
        """(..., D) -> (..., D)."""
        return value + value @ self.down.T @ self.up.T


def fit_interface(inverses: Tensor, embeddings: Tensor, rank: int = 64, ridge: float = 0.01) -> Interface:
    """From inverses (N, D) toward the embeddings they came from (N, D), in closed form.

    The paper trains its interface by gradient; this is the best residual map of the same rank in the least-squares
    sense (reduced-rank ridge regression of ``embeddings - inverses`` on ``inverses``), with as many numbers.
    """
    x, y = inverses.double(), (embeddings - inverses).double()
    square = x.T @ x / len(x)
    square.diagonal().add_(ridge * float(square.diagonal().mean()))
    factor = torch.linalg.cholesky(square)
    cross = y.T @ x / len(x)  # (D, D)
    whitened = torch.linalg.solve_triangular(factor, cross.T, upper=False).T
    left = torch.linalg.svd(whitened, full_matrices=False).U[:, : min(rank, x.shape[1])]
    down = torch.cholesky_solve((left.T @ cross).T, factor).T
    return Interface(down.to(inverses.dtype), left.to(inverses.dtype))
