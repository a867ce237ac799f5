"""Directions in the channel space of a tensor: probes, SAE latents, steering vectors, PCA axes, class weights.

A query with directions W asks about the *span* of its rows. Law: the answer does not change when rows are scaled,
reversed, reordered or mixed with each other; one-hot rows ask the same as a query for these channels. So W is brought
to orthonormal rows here, and rows that depend on each other are refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sgfi.errors import QueryError
from sgfi.graph import Node

DEPENDENT = 1e-6
"""Smallest singular value, over the largest, of unit rows that still count as independent."""


@dataclass(frozen=True, eq=False, init=False)
class Directions:
    """Rows ``(K, C)`` for all coordinates, or ``(n, K, C)``: for each of the query's n coordinates its own."""

    rows: Tensor
    """float64, on the CPU."""
    source: str
    """The file, and the tensor in it where it was named; empty for rows made in memory."""
    numbers: tuple[int, ...] | None
    """Which rows of the file; ``None`` for all."""

    def __init__(self, rows: Any, source: str = "", numbers: tuple[int, ...] | None = None) -> None:
        object.__setattr__(self, "rows", _checked(rows))
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "numbers", numbers)

    def basis(self, node: Node, positions: int) -> Tensor:
        """(1 or positions, K, C) orthonormal rows with the same span."""
        *many, count, width = self.rows.shape
        if width != node.channels or count > width or (many and many[0] != positions):
            raise QueryError(
                f"directions (K, {node.channels}) for {node.name!r}, or one set for each of {positions} coordinate(s), "
                f"with at most {node.channels} of them",
                str(tuple(self.rows.shape)),
                "One row per direction, one column per channel.",
            )
        return orthonormal(self.rows if many else self.rows.unsqueeze(0))

    def single(self) -> list[Directions]:
        """Each of them on its own."""
        numbers = self.numbers or range(len(self))
        return [Directions(self.rows[..., at : at + 1, :], self.source, (row,)) for at, row in enumerate(numbers)]

    def __len__(self) -> int:
        return self.rows.shape[-2]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Directions) and torch.equal(self.rows, other.rows)

    def __hash__(self) -> int:
        return hash((tuple(self.rows.shape), self.rows.flatten()[:16].numpy().tobytes()))

    def __str__(self) -> str:
        rows = "" if self.numbers is None else f":{format_channels(self.numbers)}"
        what = "direction" if len(self) == 1 else "directions"
        return f"{self.source or f'<{len(self)} {what} in {self.rows.shape[-1]} channels>'}{rows}"


@dataclass(frozen=True)
class Margin:
    """One direction: a channel minus another. At a classifier's output, what speaks for one class against the other."""

    above: int
    below: int

    def __post_init__(self) -> None:
        if self.above == self.below:
            raise QueryError("two different channels", f"{self.above} twice", "A margin is between two of them.")

    def basis(self, node: Node, positions: int) -> Tensor:
        """(1, 1, C)"""
        for channel in (self.above, self.below):
            if not 0 <= channel < node.channels:
                expected = f"two channels of {node.name!r} between 0 and {node.channels - 1}"
                raise QueryError(expected, f"{self.above},{self.below}", "Choose among these.")
        row = torch.zeros(1, 1, node.channels, dtype=torch.float64)
        row[..., self.above], row[..., self.below] = 2**-0.5, -(2**-0.5)
        return row

    def single(self) -> list[Margin]:
        return [self]

    def __len__(self) -> int:
        return 1

    def __str__(self) -> str:
        return f"margin:{self.above},{self.below}"


def format_channels(channels: Iterable[int]) -> str:
    """``0-7,12``: runs of three and more are written as ranges."""
    runs: list[list[int]] = []
    for channel in channels:
        if runs and channel == runs[-1][-1] + 1:
            runs[-1].append(channel)
        else:
            runs.append([channel])
    return ",".join(f"{r[0]}-{r[-1]}" if len(r) > 2 else ",".join(map(str, r)) for r in runs)


def orthonormal(rows: Tensor) -> Tensor:
    """(n, K, C) -> (n, K, C) orthonormal rows of the same span; rows that are one-hot stay exactly as they are."""
    rows = rows / rows.norm(dim=2, keepdim=True)
    spectrum = torch.linalg.svdvals(rows)
    if bool((spectrum[:, -1] <= DEPENDENT * spectrum[:, 0]).any()):
        raise QueryError(
            "linearly independent directions",
            f"{rows.shape[1]} rows of rank {int(torch.linalg.matrix_rank(rows, rtol=DEPENDENT).min())}",
            "A query asks about their span: leave out those that others already give.",
        )
    mutual = rows @ rows.mT
    apart = (mutual - torch.eye(rows.shape[1], dtype=rows.dtype)).abs().amax() < 1e-14
    return rows if apart else torch.linalg.qr(rows.mT)[0].mT.contiguous()


def one_hot(basis: Tensor) -> list[int] | None:
    """The channels of orthonormal rows ``(1, K, C)`` that are one-hot, or ``None``."""
    if len(basis) != 1 or not bool(((basis != 0).sum(2) == 1).all()):
        return None
    return basis[0].abs().argmax(1).tolist()


def _checked(rows: Any) -> Tensor:
    expected = "directions as numbers (K, C), or (n, K, C) with one set for each coordinate"
    try:
        made = torch.as_tensor(rows, dtype=torch.float64 if isinstance(rows, (list, tuple)) else None).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise QueryError(expected, type(rows).__name__, "Give a tensor or an array.") from error
    if (
        made.layout != torch.strided
        or made.dtype == torch.bool
        or made.is_complex()
        or made.dim() not in (1, 2, 3)
        or not made.numel()
    ):
        raise QueryError(expected, f"{made.dtype} {tuple(made.shape)}", "One row per direction.")
    made = made.to(torch.float64, copy=True)
    made = made.unsqueeze(0) if made.dim() == 1 else made
    if not torch.isfinite(made).all() or bool((made.abs().amax(-1) == 0).any()):
        raise QueryError("finite directions, none of them zero", "NaN, infinity or a row of zeros", "Clean them first.")
    return made / made.abs().amax(-1, keepdim=True)  # the span is what counts; huge rows stay finite
