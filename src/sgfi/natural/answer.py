"""The answer of a natural inverse to one query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from torch import Tensor

from sgfi.inversion import Query


@dataclass(frozen=True, eq=False)
class NaturalAnswer:
    """What the input most probably is, given what the queried feature registered, and how far to trust it."""

    value: Tensor
    """(B, ...) of the input's shape: the posterior mean, as a deviation from the prior's mean."""
    states: Mapping[str, Tensor]
    """(B, ...) at the input the value, at the target ``P t``."""
    query: Query
    stage: str
    ridge: Tensor
    """(B,) float64: the lambda that was used."""
    residual: Tensor
    """(B,) float64: of the linear system, relative to ``P t``."""
    steps: Tensor
    """(B,) conjugate-gradient steps; zero for an exact solve."""
    share_is_exact: bool
    """Whether :attr:`share` is exact or estimated from draws; for large queries it is computed when first read."""
    _share: Callable[[], Tensor] = field(repr=False)

    @cached_property
    def share(self) -> Tensor:
        """(B, *coordinates) in [0, 1]: explained over prior variance, each summed over input channels."""
        return self._share()
