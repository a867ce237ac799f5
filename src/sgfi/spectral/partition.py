"""Which stored bins share one matrix (eq:frequency_partition)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import torch
from torch import Tensor

from sgfi.errors import PlanError


@dataclass(frozen=True, eq=False)
class Partition:
    """K groups over F stored bins. ``groups`` is ``(F,)``, group ids from 0 to K-1."""

    kind: str
    """``singleton``, ``shared`` or ``custom``."""
    groups: Tensor

    @classmethod
    def of(
        cls,
        choice: object,
        bins: int,
        name: str = "node",
        blocks: Callable[[int], Tensor] | None = None,
        rings: Callable[[], Tensor] | None = None,
    ) -> Partition:
        """From ``"singleton"``, ``"shared"``, ``"first-apart"`` (two groups), ``"blocks<k>"``, ``"rings"`` or integers.

        ``blocks`` gives the ids of blocks of k neighbours along every axis (:meth:`~sgfi.spectral.Basis.blocks`),
        ``rings`` those of rings (:meth:`~sgfi.spectral.Basis.rings`); integers are group ids, one per bin.
        """
        word = choice if isinstance(choice, str) else ""
        if word == "singleton":
            return cls("singleton", torch.arange(bins))
        if word == "shared":
            return cls("shared", torch.zeros(bins, dtype=torch.int64))
        if word == "first-apart":
            return cls("custom", (torch.arange(bins) > 0).to(torch.int64))
        tied = re.fullmatch(r"blocks([1-9]\d*)", word)
        if tied and blocks:
            return cls("custom", _by_size(blocks(int(tied[1]))))
        if word == "rings" and rings:
            return cls("custom", _by_size(rings()))
        try:
            ids = torch.as_tensor(choice)
        except (TypeError, ValueError, RuntimeError):
            ids = torch.empty(0)
        if isinstance(choice, str) or ids.is_floating_point() or ids.is_complex() or ids.numel() != bins:
            got = repr(choice) if isinstance(choice, str) else f"{ids.dtype} of shape {tuple(ids.shape)}"
            raise PlanError(
                f'partition "singleton", "shared", "blocks<k>", "rings", "first-apart" or {bins} integer group ids for '
                f"{name!r}",
                got,
                "Give one group id per stored rFFT bin.",
            )
        groups = torch.unique(ids.reshape(-1).to(torch.int64), return_inverse=True)[1]
        return cls("custom", groups)

    @property
    def bins(self) -> int:
        return len(self.groups)

    @cached_property
    def count(self) -> int:
        """K, the number of groups."""
        return int(self.groups.max()) + 1

    @cached_property
    def sizes(self) -> Tensor:
        """(K,) bins in each group."""
        return torch.bincount(self.groups, minlength=self.count)

    @cached_property
    def members(self) -> tuple[Tensor, ...]:
        """The bins of each group."""
        order = torch.argsort(self.groups, stable=True)
        return torch.split(order, self.sizes.tolist())

    def runs(self, groups: range) -> list[tuple[slice, Tensor]]:
        """Neighbouring groups of one size: their slice of ``groups``, and their bins ``(k, size)``."""
        whole = groups == range(self.count)
        return self._runs if whole else list(self._runs_of(groups))

    @cached_property
    def _runs(self) -> list[tuple[slice, Tensor]]:
        """Of all groups: every product with whole maps asks for them."""
        return list(self._runs_of(range(self.count)))

    def _runs_of(self, groups: range) -> Iterator[tuple[slice, Tensor]]:
        for _, run in groupby(groups, key=self.sizes.tolist().__getitem__):
            indices = list(run)
            first, after = indices[0], indices[-1] + 1
            yield slice(first - groups.start, after - groups.start), torch.stack(self.members[first:after])

    @property
    def description(self) -> dict:
        """JSON-able; a custom partition is identified by its count and the hash of its ids."""
        facts: dict = {"kind": self.kind, "bins": self.bins, "groups": self.count}
        if self.kind == "custom":
            facts["sha256"] = hashlib.sha256(self.groups.numpy().tobytes()).hexdigest()
        return facts


def _by_size(ids: Tensor) -> Tensor:
    """The same groups, numbered so that those of one size stand side by side."""
    sizes = torch.bincount(ids)
    return torch.argsort(torch.argsort(sizes, stable=True))[ids]
