"""The answer of a natural inverse to one query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from torch import Tensor

from sgfi.inversion import Inverse


@dataclass(frozen=True, eq=False, repr=False)
class NaturalAnswer(Inverse):
    """What the input most probably is, given what the queried feature registered, and how far to trust it.

    ``value`` is the posterior mean as a deviation from the prior's mean; ``states`` hold the value at the input and
    ``P t`` at the target; ``ridge`` is the lambda that was used (one for a group of tensors, whose rows are in units of
    their own lambdas).
    """

    residual: Tensor | None = None
    """(B,) float64: of the linear system, relative to ``P t``."""
    steps: Tensor | None = None
    """(B,) conjugate-gradient steps; zero for an exact solve."""
    share_is_exact: bool = False
    """Whether ``share`` is exact, or estimated from draws when it is first read."""
    measure_detail: Callable[[], Tensor] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        missed = "" if self.residual is None else f", residual {float(self.residual.max()):.2g}"
        return f"{super().__repr__()[:-1]}{missed}>"

    @cached_property
    def detail_share(self) -> Tensor | None:
        """(B, *coordinates) ``share`` of what varies inside one input, for display: its mean colour, which nearly any
        feature knows, is taken as given."""
        return None if self.measure_detail is None else self.measure_detail()
