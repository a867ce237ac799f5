"""Operator families: what a channel matrix may look like, and its closed-form fit.

A family fills a few slots: which moments it needs (``full``), what it reads of a spectrum (``reads``), how weights
follow from the moments (``solve``), how they act (``apply``), and how many numbers they hold (``size``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from sgfi.errors import PlanError
from sgfi.spectral.moments import Moments, gathered
from sgfi.spectral.partition import Partition
from sgfi.spectral.prior import Prior, Samples, leave_one_out
from sgfi.spectral.quantise import Packed
from sgfi.spectral.ridge import chosen, fixed, parts

Weights = dict[str, Tensor]
Kept = Tensor | Packed
"""Weights as they are kept: in full, or packed."""


@dataclass(frozen=True)
class Solution:
    """A solved map: its weights, the ridge of each group and, where asked for, what tells a sample's leverage."""

    weights: Weights
    ridge: Tensor
    """(K,) the shift added to each group's diagonal."""
    whitener: Tensor | None = None
    """(K, r, W), see :class:`~sgfi.spectral.ridge.Fit`."""
    strong: Tensor | None = None
    """See :func:`~sgfi.spectral.quantise.strongest`."""
    prior: Prior | None = None
    """What the weights were held toward, if not toward zero."""


@dataclass(frozen=True)
class Operator:
    """Full channel matrices: ``G_g = S_HR (S_RR + lambda I)^-1`` (eq:matrix_wiener)."""

    name: str = "full"
    tied: bool = False
    """One group over all bins, whatever the plan's partition."""
    full: bool = True
    """Whether the fit needs full channel moments."""
    tells_leverage: bool = True
    """Whether a sample's share in its own prediction is known."""
    chooses_ridge: bool = True
    """Whether ``ridge="auto"`` can be solved for."""
    causal: bool = False
    """Acts on positions, not frequencies, and never carries anything to a position after the last one queried."""

    def reads(self, spectrum: Tensor) -> Tensor:
        """What the matrices are applied to: ``(F, C, B)`` -> ``(F, W, B)``."""
        return spectrum

    def width(self, channels: int) -> int:
        """W of :meth:`reads`."""
        return channels

    def solve(self, moments: Moments, ridge: float | str, *, whiten: bool = False, samples: Samples = ()) -> Solution:
        """``ridge`` is relative (eq:relative_ridge) or ``"auto"``: chosen per group by leave-one-out on ``samples``."""
        if ridge == "auto":
            fit = chosen(moments, samples, whiten=whiten)
        else:
            fit = fixed(moments, float(ridge), whiten=whiten, apart=self.causal)
        return Solution({"gain": fit.gain}, fit.ridge, fit.whitener, fit.strong, fit.prior)

    def unseen(
        self, solution: Solution, spectrum: Tensor, target: Tensor, partition: Partition, samples: int
    ) -> Tensor | None:
        """What the map would have made of each sample had it not seen that sample; ``None`` when not known."""
        leverage = self.leverage(solution, spectrum, partition, samples)
        if leverage is None:
            return None
        prediction = self.apply(solution.weights, spectrum, partition)
        if solution.prior is None:
            return leave_one_out(prediction, target, leverage)
        reads = self.reads(spectrum)
        base = solution.prior.unseen(reads, target)
        return base + leave_one_out(prediction - solution.prior(reads), target - base, leverage)

    def leverage(self, solution: Solution, spectrum: Tensor, partition: Partition, samples: int) -> Tensor | None:
        """(F, 1, B): how much of each sample's own target went into its prediction; ``None`` when not known."""
        if solution.whitener is None:
            return None
        energy = _by_group(solution.whitener, self.reads(spectrum), partition).abs().square().sum(1, keepdim=True)
        columns = samples * partition.sizes[partition.groups].to(energy)
        return energy / columns.reshape(-1, 1, 1)

    def apply(self, weights: Mapping[str, Kept], spectrum: Tensor, partition: Partition) -> Tensor:
        """``(F, C, B)`` -> ``(F, C, B)``."""
        return _by_group(weights["gain"], self.reads(spectrum), partition)

    def size(self, groups: int, channels: int) -> int:
        """Numbers held by one map."""
        return groups * channels * self.width(channels)


@dataclass(frozen=True)
class Causal(Operator):
    """Real matrices over positions: the state at a position from the source there and ``reach`` positions further on.

    In a causal model position p is read by positions p and later, so its cotangent gathers what they know of it, and
    pulling back never moves anything to a later position. Neither does a map that reads from p onwards: after a query
    that ends at position q every source is zero beyond q, and so is every state. A gain on frequencies has no such
    order and fills all positions. One matrix for all positions, one each, or any grouping: the plan's partition, whose
    bins are here the positions.
    """

    name: str = "causal"
    causal: bool = True
    reach: int = 0

    def reads(self, spectrum: Tensor) -> Tensor:
        """The source at each position and the next ``reach``, zero after the end: ``(F, C, B)`` -> ``(F, W, B)``."""
        shifts = [min(offset, len(spectrum)) for offset in range(1, self.reach + 1)]
        later = [F.pad(spectrum[shift:], (0, 0, 0, 0, 0, shift)) for shift in shifts]
        return torch.cat([spectrum, *later], dim=1) if later else spectrum

    def width(self, channels: int) -> int:
        return (1 + self.reach) * channels


@dataclass(frozen=True)
class Diagonal(Operator):
    """One gain per channel: the matrices are forced to be diagonal."""

    name: str = "diagonal"
    full: bool = False
    chooses_ridge: bool = False

    def solve(self, moments: Moments, ridge: float | str, *, whiten: bool = False, samples: Samples = ()) -> Solution:
        shift = moments.ridge(float(ridge))
        xx, yx = moments.mean()
        shifted = xx.real + shift
        whitener = shifted.rsqrt() if whiten else None
        return Solution({"gain": (yx / shifted).to(moments.dtype)}, torch.tensor([shift]), whitener)

    def leverage(self, solution: Solution, spectrum: Tensor, partition: Partition, samples: int) -> Tensor | None:
        """(F, C, B): each channel is a regression of its own."""
        if solution.whitener is None:
            return None
        energy = (_spread(solution.whitener, partition).unsqueeze(-1) * spectrum).abs().square()
        return energy / (samples * partition.sizes[partition.groups].to(energy)).reshape(-1, 1, 1)

    def apply(self, weights: Mapping[str, Kept], spectrum: Tensor, partition: Partition) -> Tensor:
        return _spread(weights["gain"], partition).unsqueeze(-1) * spectrum

    def size(self, groups: int, channels: int) -> int:
        return groups * channels


@dataclass(frozen=True)
class Gamma(Diagonal):
    """Diagonal gains shared by all frequencies."""

    name: str = "gamma"
    tied: bool = True


@dataclass(frozen=True)
class DiagonalLowRank(Operator):
    """A diagonal, fitted first, plus the best rank-r correction of what it leaves.

    The correction is the ridge-regularised reduced-rank regression of ``Y - diag X`` on ``X``: with
    ``A = S_EX (S_XX + lambda I)^{-1/2}`` and U its leading left singular vectors, ``U U* S_EX (S_XX + lambda I)^-1``.
    """

    name: str = "diagonal+rank8"
    rank: int = 8
    tells_leverage: bool = False
    chooses_ridge: bool = False

    def solve(self, moments: Moments, ridge: float | str, *, whiten: bool = False, samples: Samples = ()) -> Solution:
        shift = moments.ridge(float(ridge))
        fits = [self._fit(*moments.mean(part, dtype), shift) for part, dtype in parts(moments)]
        weights = {key: torch.cat([fit[key] for fit in fits]).to(moments.dtype) for key in fits[0]}
        return Solution(weights, torch.tensor([shift]))

    def _fit(self, xx: Tensor, yx: Tensor, ridge: float) -> Weights:
        diagonal = torch.diagonal(yx, dim1=1, dim2=2) / (torch.diagonal(xx, dim1=1, dim2=2) + ridge)
        left_over = yx - diagonal.unsqueeze(-1) * xx  # E X* of E = Y - diag X
        shifted = xx.clone()
        torch.diagonal(shifted, dim1=1, dim2=2).add_(ridge)
        factor = torch.linalg.cholesky(shifted)
        whitened = torch.linalg.solve_triangular(factor, left_over.mH, upper=False).mH
        rank = min(self.rank, xx.shape[-1])
        left = torch.linalg.svd(whitened, full_matrices=False).U[..., :rank]
        right = torch.cholesky_solve((left.mH @ left_over).mH, factor).mH
        return {"diagonal": diagonal, "left": left, "right": right}

    def apply(self, weights: Mapping[str, Kept], spectrum: Tensor, partition: Partition) -> Tensor:
        low = _by_group(weights["right"], spectrum, partition)
        mixed = _by_group(weights["left"], low, partition)
        return _spread(weights["diagonal"], partition).unsqueeze(-1) * spectrum + mixed

    def size(self, groups: int, channels: int) -> int:
        return groups * channels * (1 + 2 * min(self.rank, channels))


def operator_named(name: str) -> Operator:
    """``full``, ``diagonal``, ``gamma``, ``diagonal+rank<r>``, ``causal`` or ``causal+<k>``."""
    plain = {"full": Operator(), "diagonal": Diagonal(), "gamma": Gamma(), "causal": Causal()}
    if name in plain:
        return plain[name]
    numbered = re.fullmatch(r"(diagonal\+rank|causal\+)([1-9]\d*)", name)
    if not numbered:
        raise PlanError(
            'operator "full", "diagonal", "gamma", "diagonal+rank<r>", "causal" or "causal+<k>"',
            repr(name),
            "Choose one of these.",
        )
    number = int(numbered[2])
    return Causal(name, reach=number) if numbered[1] == "causal+" else DiagonalLowRank(name, rank=number)


def _spread(gain: Kept, partition: Partition) -> Tensor:
    """A group's gain at every bin: ``(K, ...)`` -> ``(F, ...)``, broadcast where one serves all."""
    assert isinstance(gain, Tensor), "only matrices are packed"
    if partition.kind == "custom":
        return gain[partition.groups.to(gain.device)]
    return gain


def _by_group(gain: Kept, spectrum: Tensor, partition: Partition) -> Tensor:
    """Apply each group's matrix to its bins without copying it to every bin; packed ones are unpacked a few at once."""
    if partition.kind == "singleton":
        return gain.times(spectrum) if isinstance(gain, Packed) else torch.bmm(spectrum.mT, gain.mT).mT
    bins, _, batch = spectrum.shape
    out = spectrum.new_empty(bins, gain.shape[1], batch)
    for part in gain.parts() if isinstance(gain, Packed) else (slice(0, partition.count),):
        matrices = gain[part]
        for place, members in partition.runs(range(part.start, part.stop)):
            mixed = torch.bmm(matrices[place], gathered(spectrum, members))  # (k, C, |g| B)
            out[members.to(out.device)] = mixed.unflatten(2, (-1, batch)).transpose(1, 2)
    return out
