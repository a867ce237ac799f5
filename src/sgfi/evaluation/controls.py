"""Controls of an inverse: what it must do whatever the model, and where its content comes from.

Each takes a family and a batch (B, ...) and returns rows of scores, one number an image. Pairs (A, B) are neighbours
in the batch. ``H`` is the target state, ``J`` the differentials; (H_A, J_B) is ``invert(family, b, terminal=H_A)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from sgfi.errors import QueryError
from sgfi.evaluation.metrics import pixel_cosine, relative_error
from sgfi.evaluation.paths import trace
from sgfi.evaluation.representation import forward_states
from sgfi.evaluation.rows import Rows, partner
from sgfi.inversion import MapFamily, Query, invert, sweep

INTERPOLATION = tuple(i / 10 for i in range(11))
NOISE = (0.01, 0.03, 0.1)
SCALES = (0.0, 0.25, 0.5, 1.0, 2.0)
CHANNELS = (0, 1, 2)


def target_state(family: MapFamily, x: Tensor) -> Tensor:
    """(B, ...) H_T of each image."""
    return forward_states(family.plan, x, [family.target])[family.target]


def zero(family: MapFamily, x: Tensor) -> Rows:
    """A target of zero: the length of the output over that of the ordinary inverse. Exactly 0 by construction."""
    blank = invert(family, x, terminal=torch.zeros_like(target_state(family, x))).value
    size = invert(family, x).value.flatten(1).norm(dim=1)
    ratio = blank.flatten(1).norm(dim=1) / size.clamp_min(torch.finfo(size.dtype).tiny)
    return {"zero": {"norm_ratio": ratio}}


def shuffles(family: MapFamily, x: Tensor) -> Rows:
    """Terminal shuffle (H_B, J_A) and source shuffle (H_A, J_B), each against both images."""
    state = target_state(family, x)
    other = partner(x)
    same = invert(family, x).value
    terminal = invert(family, x, terminal=partner(state)).value
    moved = invert(family, other, terminal=state).value
    return {
        "same": {"own": pixel_cosine(same, x)},
        "terminal shuffle": {"to_input": pixel_cosine(terminal, x), "to_target": pixel_cosine(terminal, other)},
        "source shuffle": {"to_old": pixel_cosine(moved, x), "to_new": pixel_cosine(moved, other)},
    }


def swap(family: MapFamily, x: Tensor) -> Rows:
    """Target-operator swap: H_A, H_B crossed with J_A, J_B, each output against both images."""
    state, other = target_state(family, x), partner(x)
    outputs = {
        "H_A J_A": invert(family, x, terminal=state).value,
        "H_A J_B": invert(family, other, terminal=state).value,
        "H_B J_A": invert(family, x, terminal=partner(state)).value,
        "H_B J_B": invert(family, other, terminal=partner(state)).value,
    }
    return {
        name: {"to_A": pixel_cosine(value, x), "to_B": pixel_cosine(value, other)} for name, value in outputs.items()
    }


def channel_diversity(family: MapFamily, x: Tensor, channels: Sequence[int] = CHANNELS) -> Rows:
    """Mean pairwise pixel cosine among the inverses of single channels of one image."""
    if len(channels) < 2:
        raise QueryError("two channels or more", str(list(channels)), "Name the channels to compare.")
    found = [one.value for one in sweep(family, x, [Query(channels=[channel]) for channel in channels])]
    pairs = [pixel_cosine(a, b) for place, a in enumerate(found) for b in found[:place]]
    return {"channels": {"pairwise_cosine": torch.stack(pairs).mean(0)}}


def interpolation(family: MapFamily, x: Tensor, points: Sequence[float] = INTERPOLATION) -> Rows:
    """The operating point walks from A to B while the target stays H_A."""
    state, other = target_state(family, x), partner(x)
    rows: Rows = {}
    for at in points:
        here = (1 - at) * x + at * other
        found = invert(family, here, terminal=state).value
        rows[f"{at:g}"] = {
            "to_A": pixel_cosine(found, x),
            "to_B": pixel_cosine(found, other),
            "to_here": pixel_cosine(found, here),
        }
    return rows


def crossover(rows: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, dict[str, float]]:
    """Where the mean curves of interpolation meet, on straight lines between the points; NaN where they do not."""
    gaps = [(float(at), _mean(row["to_A"]) - _mean(row["to_B"])) for at, row in rows.items()]
    for (a, left), (b, right) in pairwise(gaps):
        if left > 0 >= right:
            return {"crossover": {"at": a + (b - a) * left / (left - right)}}
    return {"crossover": {"at": float("nan")}}


def source_noise(family: MapFamily, x: Tensor, levels: Sequence[float] = NOISE, seed: int = 0) -> Rows:
    """Noise on the operating point alone, as a share of the image's length; the target stays the clean image's."""
    state = target_state(family, x)
    clean = pixel_cosine(invert(family, x).value, x)
    rows: Rows = {"0": {"to_clean": clean, "change": torch.zeros_like(clean)}}
    for level in levels:
        noisy = x + _noise(x, level, seed)
        found = pixel_cosine(invert(family, noisy, terminal=state).value, x)
        rows[f"{level:g}"] = {"to_clean": found, "change": (found - clean).abs()}
    return rows


def linearity(family: MapFamily, x: Tensor, scales: Sequence[float] = SCALES) -> Rows:
    """Scaling and superposition of targets at one operating point, relative to the length of the result."""
    state = target_state(family, x)
    base = invert(family, x).value
    rows: Rows = {}
    for scale in scales:
        found = invert(family, x, terminal=scale * state).value
        rows[f"scale {scale:g}"] = {"error": _share(found, scale * base)}
    other = partner(state)
    both = invert(family, x, terminal=state + other).value
    parts = base + invert(family, x, terminal=other).value
    rows["superposition"] = {"error": _share(both, parts), "cosine": pixel_cosine(both, parts)}
    return rows


def recomposition(family: MapFamily, x: Tensor, parts: int = 2) -> Rows:
    """The full target from the parts of a channel partition, weighted by ``|S_i| / C``, at each stage.

    Exact for raw and first. The final stage is affine in ``1/|S|``, so a difference remains there by definition.
    """
    channels = family.plan.boundary[family.target].channels
    sets = [list(range(start, channels, parts)) for start in range(min(parts, channels))]
    rows: Rows = {}
    for stage in ("raw", "first", "final"):
        whole = invert(family, x, stage=stage).value
        found = sweep(family, x, [Query(channels=chosen) for chosen in sets], stage=stage)
        total = torch.stack([len(s) / channels * one.value for s, one in zip(sets, found, strict=True)]).sum(0)
        rows[stage] = {"cosine": pixel_cosine(total, whole), "error": relative_error(total, whole)}
    return rows


def composition(family: MapFamily, x: Tensor, middle: str | None = None) -> Rows:
    """Restart at an intermediate repaired state; and, for contrast, start directly at that shallower target."""
    plan = family.plan
    inner = [name for name in plan.fitted if name != "input"]
    if not inner:
        raise QueryError("a boundary between the input and the target", "none", "Plan with more boundaries.")
    name = plan.graph.nodes.canonical(middle) if middle else inner[len(inner) // 2]
    deep = invert(family, x)
    again = invert(family, x, target=name, terminal=deep.states[name]).value
    direct = invert(family, x, target=name).value
    return {
        "restart": {"cosine": pixel_cosine(again, deep.value), "error": relative_error(again, deep.value)},
        "direct": {"cosine": pixel_cosine(direct, deep.value), "error": relative_error(direct, deep.value)},
    }


def public_path(family: MapFamily, x: Tensor) -> Rows:
    """The public call against the instrumented walk."""
    shown = invert(family, x).value
    walked = next(update.state for update, _ in trace(family, x) if update.name == "input")
    largest = (shown - walked).abs().flatten(1).amax(1)
    return {"public": {"cosine": pixel_cosine(shown, walked), "largest_difference": largest}}


def true_child_oracle(family: MapFamily, x: Tensor) -> Rows:
    """DIAGNOSTIC, never a result: every update is handed the true states of its children."""
    known = next(update.state for update, _ in trace(family, x, true_children=True) if update.name == "input")
    state = target_state(family, x)
    online = invert(family, x).value
    return {
        label: {
            "pixel_cosine": pixel_cosine(value, x),
            "reencoding_cosine": pixel_cosine(target_state(family, value), state),
        }
        for label, value in {"deployed": online, "oracle (diagnostic)": known}.items()
    }


def perturbations(family: MapFamily, x: Tensor, seed: int = 0) -> Rows:
    """Gaussian noise, quantisation and channel dropout on the target; the operating point stays."""
    state = target_state(family, x)
    clean = invert(family, x).value
    changed = {"clean": state}
    changed |= {f"noise {level:g}": state + _noise(state, level, seed) for level in (0.01, 0.05, 0.1)}
    changed |= {f"{bits} bits": _quantised(state, bits) for bits in (16, 8, 4)}
    changed |= {f"dropout {share:g}": _dropped(family, state, share, seed) for share in (0.1, 0.25, 0.5)}
    rows: Rows = {}
    for label, terminal in changed.items():
        found = invert(family, x, terminal=terminal).value
        rows[label] = {"pixel_cosine": pixel_cosine(found, x), "to_clean": pixel_cosine(found, clean)}
    return rows


def _noise(x: Tensor, level: float, seed: int) -> Tensor:
    """Gaussian noise whose length is ``level`` times that of each row."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x)
    sizes = [side.flatten(1).norm(dim=1).reshape(-1, *[1] * (x.dim() - 1)) for side in (x, drawn)]
    return level * drawn * sizes[0] / sizes[1]


def _quantised(state: Tensor, bits: int) -> Tensor:
    """Each row rounded to ``2**bits`` levels between its extremes."""
    rows = state.flatten(1).double()
    low, high = rows.amin(1, keepdim=True), rows.amax(1, keepdim=True)
    step = ((high - low) / (2**bits - 1)).clamp_min(torch.finfo(rows.dtype).tiny)
    return (low + step * ((rows - low) / step).round()).reshape(state.shape).to(state.dtype)


def _dropped(family: MapFamily, state: Tensor, share: float, seed: int) -> Tensor:
    """The target with a share of its channels set to zero, the same ones for every image."""
    boundary = family.plan.boundary[family.target]
    order = torch.randperm(boundary.channels, generator=torch.Generator().manual_seed(seed))
    kept = torch.ones(boundary.channels, dtype=state.dtype, device=state.device)
    kept[order[: round(share * boundary.channels)]] = 0
    axis = boundary.basis.channel_axis
    return state * kept.reshape([-1 if place == axis else 1 for place in range(state.dim())])


def _share(found: Tensor, truth: Tensor) -> Tensor:
    """Relative error, and plain length where the truth is zero."""
    size = truth.flatten(1).norm(dim=1)
    return (found - truth).flatten(1).norm(dim=1) / torch.where(size > 0, size, torch.ones_like(size))


def _mean(values: Sequence[float]) -> float:
    return sum(map(float, values)) / len(values)
