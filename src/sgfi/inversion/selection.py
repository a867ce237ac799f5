"""The projector P of a query at its target: a mask where channels are asked for, orthonormal rows where directions are.

For ``n`` selected numbers: ``select`` reads them off a state, ``spread`` is its adjoint, ``project`` is both.
Laws: ``select(spread(c)) == c``, ``<select(s), c> == <s, spread(c)>``, and P is symmetric with ``P P = P``. A number
outside the mask is exactly zero in ``project(s)``, even where it was huge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


def along_channels(numbers: Tensor, channel_axis: int | None, rank: int) -> Tensor:
    """(C,) shaped to be broadcast over tensors of so many axes."""
    return numbers.reshape([-1 if axis == channel_axis else 1 for axis in range(rank)])


@dataclass(frozen=True, eq=False)
class Selection:
    """P of one query."""

    mask: Tensor
    """(*target) bool: the numbers of the target that are read."""
    channel_axis: int
    """Of the target, counted with the batch."""
    basis: Tensor | None = None
    """(1 or q, K, C) orthonormal rows, at all or at each of the q selected positions; ``None``: the mask itself."""
    positions: Tensor | None = None
    """(q,) with a basis: places in the flattened coordinates."""

    @cached_property
    def places(self) -> Tensor:
        """(n,) without a basis: places in the flattened target, ascending."""
        return torch.nonzero(self.mask.flatten()).flatten()

    @cached_property
    def count(self) -> int:
        """n, how many numbers are selected."""
        if self.basis is None or self.positions is None:
            return len(self.places)
        return len(self.positions) * self.basis.shape[1]

    def select(self, states: Tensor) -> Tensor:
        """(..., *target) -> (..., n)"""
        if self.basis is None:
            return states.flatten(-self.mask.dim())[..., self.places]
        columns = self._columns(states)[..., self.positions, :]  # (..., q, C)
        return torch.einsum("...qc,qkc->...qk", columns, self._rows(states)).flatten(-2)

    def spread(self, numbers: Tensor) -> Tensor:
        """(..., n) -> (..., *target)"""
        leading = numbers.shape[:-1]
        if self.basis is None:
            flat = numbers.new_zeros(*leading, self.mask.numel())
            flat[..., self.places] = numbers
            return flat.reshape(*leading, *self.mask.shape)
        rows = self._rows(numbers)
        columns = torch.einsum("...qk,qkc->...qc", numbers.unflatten(-1, rows.shape[:2]), rows)
        whole = self._columns(numbers.new_zeros(*leading, *self.mask.shape))
        whole[..., self.positions, :] = columns
        axis = self.channel_axis - 1
        sizes = [size for at, size in enumerate(self.mask.shape) if at != axis]
        return whole.reshape(*leading, *sizes, whole.shape[-1]).movedim(-1, len(leading) + axis).contiguous()

    def project(self, states: Tensor) -> Tensor:
        """P: (..., *target) of the same shape."""
        if self.basis is None:
            return torch.where(self.mask, states, torch.zeros((), dtype=states.dtype, device=states.device))
        return self.spread(self.select(states))

    def rows(self, chosen: Tensor, like: Tensor) -> Tensor:
        """(m, *target) the rows of some of the n numbers, which ``select`` takes products with."""
        unit = like.new_zeros(len(chosen), self.count)
        unit[torch.arange(len(chosen)), chosen] = 1
        return self.spread(unit)

    def _columns(self, states: Tensor) -> Tensor:
        """(..., *target) -> (..., positions, C)"""
        dims = self.mask.dim()
        moved = states.movedim(states.dim() - dims + self.channel_axis - 1, -1)
        return moved.flatten(-dims, -2) if dims > 1 else moved.unsqueeze(-2)

    def _rows(self, like: Tensor) -> Tensor:
        """(q, K, C)"""
        assert self.basis is not None and self.positions is not None
        return self.basis.to(like).expand(len(self.positions), -1, -1)


@dataclass(frozen=True, eq=False)
class JointSelection(Selection):
    """P of a group: the selections of several tensors, on their numbers laid out one after another."""

    parts: tuple[Selection, ...] = ()

    @classmethod
    def of(cls, parts: Sequence[Selection]) -> Selection:
        """A mask where all parts are masks."""
        mask = torch.cat([part.mask.flatten() for part in parts])
        bases = [part.basis for part in parts if part.basis is not None]
        return cls(mask, 1, bases[0], None, tuple(parts)) if bases else Selection(mask, 1)

    @cached_property
    def count(self) -> int:
        return sum(part.count for part in self.parts)

    def select(self, states: Tensor) -> Tensor:
        pieces = states.split([part.mask.numel() for part in self.parts], -1)
        return torch.cat(
            [part.select(own.unflatten(-1, part.mask.shape)) for part, own in zip(self.parts, pieces, strict=True)], -1
        )

    def spread(self, numbers: Tensor) -> Tensor:
        pieces = numbers.split([part.count for part in self.parts], -1)
        spread = [part.spread(own) for part, own in zip(self.parts, pieces, strict=True)]
        return torch.cat([own.flatten(-part.mask.dim()) for part, own in zip(self.parts, spread, strict=True)], -1)


@dataclass(frozen=True, eq=False)
class Selections(Sequence[Selection]):
    """The projectors of Q queries on one target, side by side."""

    each: tuple[Selection, ...]
    masks: Tensor
    """(Q, *target) bool"""

    @classmethod
    def of(cls, each: Iterable[Selection]) -> Selections:
        selections = tuple(each)
        return cls(selections, torch.stack([selection.mask for selection in selections]))

    def __len__(self) -> int:
        return len(self.each)

    def __getitem__(self, number):  # type: ignore[no-untyped-def]
        return self.each[number]

    def some(self, numbers: Sequence[int]) -> Selections:
        """Those of some queries."""
        chosen = list(numbers)
        return Selections(tuple(self.each[number] for number in chosen), self.masks[chosen])

    def project(self, stack: Tensor) -> Tensor:
        """P: (Q, B, *target), or (B, *target) the same for all, -> (Q, B, *target)."""
        whole = stack if stack.dim() == self.masks.dim() + 1 else stack.unsqueeze(0)
        whole = whole.expand(len(self), *whole.shape[1:])
        masks = self.masks.unsqueeze(1)
        chosen = torch.where(masks, whole, torch.zeros((), dtype=whole.dtype, device=whole.device))
        for number, selection in enumerate(self.each):
            if selection.basis is not None:
                chosen[number] = selection.project(whole[number])
        return chosen
