"""Operator families: what a channel matrix may look like, and its closed-form fit.

A family fills a few slots: which moments it needs (``full``), what it reads of a spectrum (``reads``), how weights
follow from the moments (``solve``), how they act (``apply``), backwards too (``adjoint``), what becomes of them at
another number of bins (``resampled``), and what they look like (``shapes``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from sgfi.errors import PlanError, did_you_mean
from sgfi.spectral.basis import Basis
from sgfi.spectral.moments import Moments
from sgfi.spectral.partition import Partition
from sgfi.spectral.quantise import Weight, Weights, chunks, product
from sgfi.spectral.ridge import Solution, parts, reduced_rank, solve, solve_leave_one_out
from sgfi.spectral.shrinkage import Samples, leave_one_out

Full = Mapping[str, Tensor]
"""Weights in full, by the operator's own names."""
Family = TypeVar("Family", bound=Callable)
OPERATORS: dict[str, tuple[Callable[..., Operator], str]] = {}
"""By name, in which ``<...>`` stands for a positive number: the family, and its field for that number."""
NUMBER = r"[1-9]\d{0,4}"
"""No more than five digits: a rank or reach is work and memory."""


def operator(*names: str, number: str = "") -> Callable[[Family], Family]:
    """Register a family under its names."""

    def register(family: Family) -> Family:
        for name in names:
            if name in OPERATORS:
                raise ValueError(f"a second operator named {name!r}")
            OPERATORS[name] = family, number
        return family

    return register


def operator_named(name: str) -> Operator:
    """``full``, ``diagonal``, ``gamma``, ``diagonal+rank<r>``, ``causal`` or ``causal+<k>``."""
    for known, (family, field) in OPERATORS.items():
        prefix, numbered, _ = known.partition("<")
        if name == known and not numbered:
            return family(name)
        if numbered and name.startswith(prefix) and re.fullmatch(NUMBER, name.removeprefix(prefix)):
            return family(name, **{field: int(name.removeprefix(prefix))})
    todo = did_you_mean(name, OPERATORS) or "Choose one of these."
    raise PlanError(f"an operator among {', '.join(OPERATORS)}", repr(name), todo)


@operator("full")
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
    conjugate: bool = True
    """Whether opposite frequencies have conjugate weights, of which packing keeps one."""

    def reads(self, spectrum: Tensor) -> Tensor:
        """What the matrices are applied to: ``(F, C, B)`` -> ``(F, W, B)``."""
        return spectrum

    def width(self, channels: int) -> int:
        """W of :meth:`reads`."""
        return channels

    def solve(self, moments: Moments, ridge: float | str, *, whiten: bool = False, samples: Samples = ()) -> Solution:
        """``ridge`` is relative (eq:relative_ridge) or ``"auto"``: chosen per group by leave-one-out on ``samples``."""
        if ridge == "auto":
            return solve_leave_one_out(moments, samples, whiten=whiten)
        return solve(moments, float(ridge), whiten=whiten, per_group=self.causal)

    def unseen(
        self, solution: Solution, spectrum: Tensor, target: Tensor, partition: Partition, samples: int
    ) -> Tensor | None:
        """The leave-one-out prediction of each sample; ``None`` when not known."""
        leverage = self.leverage(solution, spectrum, partition, samples)
        if leverage is None:
            return None
        prediction = self.apply(solution.weights, spectrum, partition)
        if solution.shrunk_to is None:
            return leave_one_out(prediction, target, leverage)
        reads = self.reads(spectrum)
        base = solution.shrunk_to.unseen(reads, target)
        return base + leave_one_out(prediction - solution.shrunk_to(reads), target - base, leverage)

    def leverage(self, solution: Solution, spectrum: Tensor, partition: Partition, samples: int) -> Tensor | None:
        """(F, 1 or C, B): how much of each sample's own target went into its prediction; ``None`` when not known."""
        if solution.whitener is None:
            return None
        energy = self.energy(solution.whitener, spectrum, partition)
        return energy / (samples * partition.sizes[partition.groups].to(energy)).reshape(-1, 1, 1)

    def energy(self, whitener: Tensor, spectrum: Tensor, partition: Partition) -> Tensor:
        """(F, 1, B) of the whitened sources."""
        return _by_group(whitener, self.reads(spectrum), partition).abs().square().sum(1, keepdim=True)

    def apply(self, weights: Weights, spectrum: Tensor, partition: Partition) -> Tensor:
        """``(F, C, B)`` -> ``(F, C, B)``."""
        return _by_group(weights["gain"], self.reads(spectrum), partition)

    def adjoint(self, weights: Full) -> tuple[Operator, dict[str, Tensor]]:
        """The operator and weights of ``W*``: ``<W a, b> = <a, W* b>``."""
        return self, {"gain": _conjugate(weights["gain"].mT)}

    def resampled(self, weights: Full, partition: Partition, old: Basis, new: Basis) -> dict[str, Tensor]:
        """The weights for another number of bins: matrices of single bins are interpolated, shared ones stay.

        Linear in the normalised frequency of one coordinate axis: bin over length, from 0 to 1/2.
        """
        if partition.kind != "singleton" or old.coords == new.coords:
            return dict(weights)
        return {key: _interpolated(weight, old.coords[0], new.coords[0]) for key, weight in weights.items()}

    def repartitioned(self, partition: Partition, bins: int) -> str | list[int]:
        """The choice of a partition that :meth:`resampled` weights need."""
        if partition.kind == "custom":
            raise PlanError(
                "shared or singleton partitions of frequencies", "a custom one", "Calibrate at this length."
            )
        return partition.kind

    def shapes(self, groups: int, channels: int) -> dict[str, tuple[int, ...]]:
        """What the weights of one map must look like."""
        return {"gain": (groups, channels, self.width(channels))}

    def size(self, groups: int, channels: int) -> int:
        """Numbers held by one map."""
        return sum(map(prod, self.shapes(groups, channels).values()))


@operator("causal", "causal+<k>", number="reach")
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

    def adjoint(self, weights: Full) -> tuple[Operator, dict[str, Tensor]]:
        return CausalAdjoint(reach=self.reach), super().adjoint(weights)[1]

    def resampled(self, weights: Full, partition: Partition, old: Basis, new: Basis) -> dict[str, Tensor]:
        """Matrices of single positions are known for these only; groups keep theirs as far as they are reached."""
        if partition.kind == "singleton" and new.bins > old.bins:
            raise PlanError(
                f"a text of at most {old.bins} tokens for one matrix per position",
                str(new.bins),
                "Use a family with one matrix for all positions.",
            )
        groups = partition.groups[: new.bins].unique()
        return {key: weight[groups] for key, weight in weights.items()}

    def repartitioned(self, partition: Partition, bins: int) -> str | list[int]:
        """Further positions join the group of the last one."""
        groups = partition.groups.tolist()
        extended = [*groups, *groups[-1:] * (bins - len(groups))]
        return extended[:bins] if partition.kind == "custom" else partition.kind


@dataclass(frozen=True)
class CausalAdjoint(Operator):
    """The adjoint of :class:`Causal`: a position gives to itself and to the next ``reach``, from which it had read."""

    name: str = "causal adjoint"
    reach: int = 0

    def apply(self, weights: Weights, spectrum: Tensor, partition: Partition) -> Tensor:
        """Law: ``<reads(x), y> = <x, sum of the shifted blocks of y>``."""
        blocks = _by_group(weights["gain"], spectrum, partition).chunk(1 + self.reach, dim=1)
        total = blocks[0].clone()
        for offset, block in enumerate(blocks[1 : len(spectrum)], 1):
            total[offset:] += block[:-offset]
        return total


@operator("diagonal")
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

    def energy(self, whitener: Tensor, spectrum: Tensor, partition: Partition) -> Tensor:
        """(F, C, B): each channel is a regression of its own."""
        return _scaled(whitener, spectrum, partition).abs().square()

    def apply(self, weights: Weights, spectrum: Tensor, partition: Partition) -> Tensor:
        return _scaled(weights["gain"], spectrum, partition)

    def adjoint(self, weights: Full) -> tuple[Operator, dict[str, Tensor]]:
        return self, {"gain": _conjugate(weights["gain"])}

    def shapes(self, groups: int, channels: int) -> dict[str, tuple[int, ...]]:
        return {"gain": (groups, channels)}


@operator("gamma")
@dataclass(frozen=True)
class Gamma(Diagonal):
    """Diagonal gains shared by all frequencies."""

    name: str = "gamma"
    tied: bool = True


@operator("diagonal+rank<r>", number="rank")
@dataclass(frozen=True)
class DiagonalLowRank(Operator):
    """A diagonal, fitted first, plus the best rank-r correction of what it leaves.

    The correction is the reduced-rank ridge regression of ``Y - diag X`` on ``X``.
    """

    name: str = "diagonal+rank8"
    rank: int = 8
    tells_leverage: bool = False
    chooses_ridge: bool = False
    conjugate: bool = False
    """A product determines its factors only up to a rotation, which opposite frequencies need not share."""

    def solve(self, moments: Moments, ridge: float | str, *, whiten: bool = False, samples: Samples = ()) -> Solution:
        shift = moments.ridge(float(ridge))
        fits = [self._fit(*moments.mean(part, dtype), shift) for part, dtype in parts(moments)]
        weights = {key: torch.cat([fit[key] for fit in fits]).to(moments.dtype) for key in fits[0]}
        return Solution(weights, torch.tensor([shift]))

    def _fit(self, xx: Tensor, yx: Tensor, ridge: float) -> dict[str, Tensor]:
        diagonal = torch.diagonal(yx, dim1=1, dim2=2) / (torch.diagonal(xx, dim1=1, dim2=2) + ridge)
        residual = yx - diagonal.unsqueeze(-1) * xx  # E X* of E = Y - diag X
        left, right = reduced_rank(xx, residual, ridge, self.rank)
        return {"diagonal": diagonal, "left": left, "right": right}

    def apply(self, weights: Weights, spectrum: Tensor, partition: Partition) -> Tensor:
        low = _by_group(weights["right"], spectrum, partition)
        mixed = _by_group(weights["left"], low, partition)
        return _scaled(weights["diagonal"], spectrum, partition) + mixed

    def adjoint(self, weights: Full) -> tuple[Operator, dict[str, Tensor]]:
        swapped = {"left": weights["right"].mT, "right": weights["left"].mT, "diagonal": weights["diagonal"]}
        return self, {key: _conjugate(weight) for key, weight in swapped.items()}

    def resampled(self, weights: Full, partition: Partition, old: Basis, new: Basis) -> dict[str, Tensor]:
        """The products are interpolated and factorised again: factors of two bins may differ by any rotation."""
        if partition.kind != "singleton" or old.coords == new.coords:
            return dict(weights)
        whole = {"diagonal": weights["diagonal"], "product": weights["left"] @ weights["right"]}
        low = super().resampled(whole, partition, old, new)
        left, values, right = torch.linalg.svd(low["product"], full_matrices=False)
        rank = weights["left"].shape[-1]
        scaled = left[..., :rank] * values[..., None, :rank].to(left)
        return {"diagonal": low["diagonal"], "left": scaled, "right": right[..., :rank, :].contiguous()}

    def shapes(self, groups: int, channels: int) -> dict[str, tuple[int, ...]]:
        rank = min(self.rank, channels)
        return {"diagonal": (groups, channels), "left": (groups, channels, rank), "right": (groups, rank, channels)}


def _scaled(gain: Weight, spectrum: Tensor, partition: Partition) -> Tensor:
    """Each channel times its group's gain ``(K, C)``, broadcast where one group has all bins."""
    assert isinstance(gain, Tensor), "only matrices are packed"
    gain = gain.to(spectrum.device, non_blocking=True)
    if partition.kind == "custom":
        gain = gain[partition.groups.to(gain.device)]
    return gain.unsqueeze(-1) * spectrum


def _by_group(gain: Weight, spectrum: Tensor, partition: Partition) -> Tensor:
    """Apply each group's matrix to its bins without copying it to every bin."""
    gain = gain.to(spectrum.device, non_blocking=True)
    if partition.kind == "singleton":
        return product(gain, spectrum)
    rows = spectrum.mT  # (F, B, C), as it lies in memory
    out = rows.new_empty(*rows.shape[:2], gain.shape[1])
    for groups, matrices in chunks(gain):
        for part, members in partition.runs(groups):
            members = members.to(out.device)
            mixed = product(matrices[part], rows[members].flatten(1, 2).mT)  # (k, C, |g| B)
            out[members] = mixed.mT.unflatten(1, (-1, len(rows[0])))
    return out.mT


def _conjugate(weight: Tensor) -> Tensor:
    return weight.conj().resolve_conj().contiguous()


def _interpolated(gains: Tensor, old: int, new: int) -> Tensor:
    """(F, ...) gains at bins k / old, read off at bins k / new."""
    position = torch.arange(new // 2 + 1) / new * old
    below = position.floor().long().clamp(max=len(gains) - 1)
    above = (below + 1).clamp(max=len(gains) - 1)
    share = (position - below).to(gains.real.dtype).reshape(-1, *[1] * (gains.dim() - 1))
    return torch.lerp(gains[below], gains[above], share.to(gains.dtype))
