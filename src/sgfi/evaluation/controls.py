"""Controls of an inverse: what it must do whatever the model, and where its content comes from.

Each takes an estimator and a batch (B, ...) and returns rows of scores, one number per image. Pairs (A, B) are
neighbours in the batch. ``H`` is the target's state that the estimator inverts, ``J`` the differentials; (H_A, J_B) is
``invert(estimator, b, terminal=H_A)``. An inverse that is a deviation from the estimator's origin is compared with
the image's deviation from it; the origin of the paper's maps is zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from statistics import fmean

import torch
from torch import Tensor

from sgfi.errors import QueryError
from sgfi.evaluation.metrics import pixel_cosine, relative_error
from sgfi.evaluation.paths import trace
from sgfi.evaluation.representation import target_state
from sgfi.evaluation.rows import Rows, partner
from sgfi.evaluation.stacks import TINY, lengths, noise, scaled
from sgfi.graph import Node
from sgfi.inversion import STAGES, Estimator, MapFamily, Query, along_channels, invert, sweep

INTERPOLATION = tuple(i / 10 for i in range(11))
NOISE = (0.01, 0.03, 0.1)
SCALES = (0.0, 0.25, 0.5, 1.0, 2.0)
CHANNELS = (0, 1, 2)


def _inverse_and_state(estimator: Estimator, x: Tensor) -> tuple[Tensor, Tensor]:
    """The full-target inverse (B, *input), and the state at the target that it inverts (B, ...)."""
    inverse = invert(estimator, x)
    return inverse.value, inverse.states[estimator.node().name]


def _crossed(estimator: Estimator, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(H_A, J_A), (H_A, J_B) and (H_B, J_A)."""
    own, state = _inverse_and_state(estimator, x)
    moved = invert(estimator, partner(x), terminal=state).value
    return own, moved, invert(estimator, x, terminal=partner(state)).value


def _likeness(estimator: Estimator, value: Tensor, x: Tensor) -> Tensor:
    """(B,) pixel cosine of an inverse with an image, both as deviations from the estimator's origin."""
    return pixel_cosine(value, x - estimator.origin)


def zero(estimator: Estimator, x: Tensor) -> Rows:
    """A target of zero: the length of the output over that of the ordinary inverse. Exactly 0 by construction."""
    own, state = _inverse_and_state(estimator, x)
    blank = invert(estimator, x, terminal=torch.zeros_like(state)).value
    return {"zero": {"norm_ratio": lengths(blank, 1) / lengths(own, 1).clamp_min(TINY)}}


def shuffles(estimator: Estimator, x: Tensor) -> Rows:
    """Terminal shuffle (H_B, J_A) and source shuffle (H_A, J_B), each against both images."""
    other, (own, moved, terminal) = partner(x), _crossed(estimator, x)
    return {
        "same": {"own": _likeness(estimator, own, x)},
        "terminal shuffle": {
            "to_input": _likeness(estimator, terminal, x),
            "to_target": _likeness(estimator, terminal, other),
        },
        "source shuffle": {"to_old": _likeness(estimator, moved, x), "to_new": _likeness(estimator, moved, other)},
    }


def swap(estimator: Estimator, x: Tensor) -> Rows:
    """Target-operator swap: H_A, H_B crossed with J_A, J_B, each output against both images."""
    other, (own, moved, terminal) = partner(x), _crossed(estimator, x)
    outputs = {"H_A J_A": own, "H_A J_B": moved, "H_B J_A": terminal, "H_B J_B": partner(own)}
    return {
        name: {"to_A": _likeness(estimator, value, x), "to_B": _likeness(estimator, value, other)}
        for name, value in outputs.items()
    }


def channel_diversity(estimator: Estimator, x: Tensor, channels: Sequence[int] = CHANNELS) -> Rows:
    """Mean pairwise pixel cosine among the inverses of single channels of one image: signed, and its absolute value."""
    if len(channels) < 2:
        raise QueryError("two channels or more", str(list(channels)), "Name the channels to compare.")
    inverses = sweep(estimator, x, [Query(channels=[channel]) for channel in channels])
    pairs = torch.stack([pixel_cosine(a.value, b.value) for a, b in combinations(inverses, 2)])
    return {"channels": {"pairwise_cosine": pairs.mean(0), "pairwise_likeness": pairs.abs().mean(0)}}


def interpolation(estimator: Estimator, x: Tensor, points: Sequence[float] = INTERPOLATION) -> Rows:
    """The operating point moves from A to B while the target stays H_A."""
    other, (_, state) = partner(x), _inverse_and_state(estimator, x)
    rows: Rows = {}
    for weight in points:
        here = (1 - weight) * x + weight * other
        inverse = invert(estimator, here, terminal=state).value
        rows[f"{weight:g}"] = {
            "to_A": _likeness(estimator, inverse, x),
            "to_B": _likeness(estimator, inverse, other),
            "to_here": _likeness(estimator, inverse, here),
        }
    return rows


def crossover(rows: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, dict[str, float]]:
    """Where the mean curves of interpolation meet, on straight lines between the points; NaN where they do not."""
    gaps = [(float(at), fmean(row["to_A"]) - fmean(row["to_B"])) for at, row in rows.items()]
    for (a, left), (b, right) in pairwise(gaps):
        if left > 0 >= right:
            return {"crossover": {"at": a + (b - a) * left / (left - right)}}
    return {"crossover": {"at": float("nan")}}


def source_noise(estimator: Estimator, x: Tensor, levels: Sequence[float] = NOISE, seed: int = 0) -> Rows:
    """Noise on the operating point alone, as a share of the image's length; the target stays the clean image's."""
    own, state = _inverse_and_state(estimator, x)
    clean = _likeness(estimator, own, x)
    rows: Rows = {"0": {"to_clean": clean, "change": torch.zeros_like(clean)}}
    for level in levels:
        moved = invert(estimator, x + _noise(x, level, seed), terminal=state).value
        cosine = _likeness(estimator, moved, x)
        rows[f"{level:g}"] = {"to_clean": cosine, "change": (cosine - clean).abs()}
    return rows


def linearity(estimator: Estimator, x: Tensor, scales: Sequence[float] = SCALES) -> Rows:
    """Scaling and superposition of targets at one operating point, relative to the length of the result."""
    own, state = _inverse_and_state(estimator, x)
    rows: Rows = {}
    for scale in scales:
        rows[f"scale {scale:g}"] = {"error": _share(invert(estimator, x, terminal=scale * state).value, scale * own)}
    other = partner(state)
    both = invert(estimator, x, terminal=state + other).value
    parts = own + invert(estimator, x, terminal=other).value
    rows["superposition"] = {"error": _share(both, parts), "cosine": pixel_cosine(both, parts)}
    return rows


def recomposition(estimator: Estimator, x: Tensor, parts: int = 2) -> Rows:
    """The full target from the parts of a channel partition, weighted by ``|S_i| / C``, at each stage.

    Exact for raw and first. The final stage is affine in ``1/|S|``, so a difference remains there by definition.
    """
    channels = estimator.node().channels
    sets = [list(range(start, channels, parts)) for start in range(min(parts, channels))]
    rows: Rows = {}
    for stage in STAGES:
        whole, *inverses = sweep(estimator, x, [Query(), *(Query(channels=chosen) for chosen in sets)], stage=stage)
        weighted = [len(chosen) / channels * part.value for chosen, part in zip(sets, inverses, strict=True)]
        total = torch.stack(weighted).sum(0)
        rows[stage] = {"cosine": pixel_cosine(total, whole.value), "error": relative_error(total, whole.value)}
    return rows


def composition(estimator: Estimator, x: Tensor, middle: str | None = None) -> Rows:
    """Restart at an intermediate repaired state; and, for contrast, start directly at that shallower target."""
    deep = invert(estimator, x)
    inner = [name for name in estimator.targets if name in deep.states and name != estimator.node().name]
    if not inner:
        raise QueryError(
            "a target with a state between the input and the deepest target", "none", "Plan with more boundaries."
        )
    name = estimator.node(middle).name if middle else inner[len(inner) // 2]
    restarted = invert(estimator, x, target=name, terminal=deep.states[name]).value
    direct = invert(estimator, x, target=name).value
    return {
        label: {"cosine": pixel_cosine(value, deep.value), "error": relative_error(value, deep.value)}
        for label, value in {"restart": restarted, "direct": direct}.items()
    }


def public_path(family: MapFamily, x: Tensor) -> Rows:
    """The public call against the instrumented walk."""
    public = invert(family, x).value
    walked = next(update.state for update, _ in trace(family, x) if update.name == "input")
    largest = (public - walked).abs().flatten(1).amax(1)
    return {"public": {"cosine": pixel_cosine(public, walked), "largest_difference": largest}}


def true_child_oracle(family: MapFamily, x: Tensor) -> Rows:
    """DIAGNOSTIC, never a result: every update is handed the true states of its children."""
    oracle = next(update.state for update, _ in trace(family, x, true_children=True) if update.name == "input")
    state = target_state(family, x)
    return {
        label: {
            "pixel_cosine": pixel_cosine(value, x),
            "reencoding_cosine": pixel_cosine(target_state(family, value), state),
        }
        for label, value in {"deployed": invert(family, x).value, "oracle (diagnostic)": oracle}.items()
    }


def perturbations(estimator: Estimator, x: Tensor, seed: int = 0) -> Rows:
    """Gaussian noise, quantisation and channel dropout on the target; the operating point stays."""
    clean, state = _inverse_and_state(estimator, x)
    node = estimator.node()
    terminals = {"clean": state}
    terminals |= {f"noise {level:g}": state + _noise(state, level, seed) for level in (0.01, 0.05, 0.1)}
    terminals |= {f"{bits} bits": _quantised(state, bits) for bits in (16, 8, 4)}
    terminals |= {f"dropout {share:g}": _dropped(node, state, share, seed) for share in (0.1, 0.25, 0.5)}
    rows: Rows = {}
    for label, terminal in terminals.items():
        inverse = invert(estimator, x, terminal=terminal).value
        rows[label] = {"pixel_cosine": _likeness(estimator, inverse, x), "to_clean": pixel_cosine(inverse, clean)}
    return rows


def _noise(x: Tensor, level: float, seed: int) -> Tensor:
    """Gaussian noise whose length is ``level`` times that of each row."""
    return scaled(noise(x, seed), level * lengths(x, 1))


def _quantised(state: Tensor, bits: int) -> Tensor:
    """Each row rounded to ``2**bits`` levels between its extremes."""
    rows = state.flatten(1).double()
    low, high = rows.amin(1, keepdim=True), rows.amax(1, keepdim=True)
    step = ((high - low) / (2**bits - 1)).clamp_min(torch.finfo(rows.dtype).tiny)
    return (low + step * ((rows - low) / step).round()).reshape(state.shape).to(state.dtype)


def _dropped(node: Node, state: Tensor, share: float, seed: int) -> Tensor:
    """The target with a share of its channels set to zero, the same ones for every image."""
    order = torch.randperm(node.channels, generator=torch.Generator().manual_seed(seed))
    kept = torch.ones(node.channels, dtype=state.dtype, device=state.device)
    kept[order[: round(share * node.channels)]] = 0
    return state * along_channels(kept, node.channel_axis, state.dim())


def _share(estimate: Tensor, truth: Tensor) -> Tensor:
    """Relative error, and plain length where the truth is zero."""
    size = lengths(truth, 1)
    return lengths(estimate - truth, 1) / torch.where(size > 0, size, torch.ones_like(size))
