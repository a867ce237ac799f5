"""A readable display of inverses: DISPLAY ONLY, never evidence.

A small linear interface moves inverse embeddings nearer to the vocabulary so that people can read them. It is fitted
on calibration texts, knows nothing of the query, and is applied after everything that is measured has been measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from sgfi.spectral.ridge import reduced_rank


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
    up, down = reduced_rank(square, y.T @ x / len(x), ridge * float(square.diagonal().mean()), rank)
    return Interface(down.to(inverses.dtype), up.to(inverses.dtype))
