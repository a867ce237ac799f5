"""Baselines and ablations: what the method is compared with, and what is left when a part is taken away."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

import sgfi
from sgfi.calibration.calibrate import fit
from sgfi.calibration.settings import FitSettings
from sgfi.evaluation import baselines
from sgfi.evaluation.metrics import nmse, pixel_cosine
from sgfi.evaluation.representation import forward_states
from sgfi.evaluation.rows import Rows
from sgfi.experiments.cases import Case
from sgfi.experiments.measures.registry import Table, alignment_of, evaluation_inputs, measure, over_batches, scores
from sgfi.settings import check_keys

KINDS = (*baselines.SEEDS, *baselines.SPREAD_SEEDS)


@measure()
def iterative(
    case: Case, *, images: int = 16, seeds: Sequence[int] = (0, 1, 2), search: Mapping[str, Any] | None = None
) -> Table:
    """Iterative preimage search against the closed form, on the same images and targets."""
    declared = baselines.Search.from_dict(search or {})
    x, family = evaluation_inputs(case, images), case.family  # fitted now where it is not yet: no answer's seconds
    (state,) = forward_states(case.plan.graph, x, [case.plan.target]).values()
    start = time.perf_counter()
    outputs = [baselines.preimage(case.plan, state, declared, seed) for seed in seeds]
    searching = (time.perf_counter() - start) / (len(seeds) * len(x))
    start = time.perf_counter()
    direct = sgfi.invert(family, x).value
    inverting = (time.perf_counter() - start) / len(x)
    searched = [_judged(case, output, x, state) for output in outputs]
    rows: Table = {
        "iterative": {score: torch.stack([s[score] for s in searched]).mean(0).tolist() for score in searched[0]},
        "closed form": {score: value.tolist() for score, value in _judged(case, direct, x, state).items()},
        "raw": {"pixel_cosine": pixel_cosine(sgfi.invert(family, x, stage="raw").value, x).tolist()},
    }
    if len(outputs) > 1:
        pairwise = [pixel_cosine(a, b) for a, b in combinations(outputs, 2)]
        rows["iterative"]["pairwise_cosine"] = torch.stack(pairwise).mean(0).tolist()
    rows["iterative"]["seconds_an_image"], rows["closed form"]["seconds_an_image"] = searching, inverting
    return rows


@measure()
def search_steps(
    case: Case,
    *,
    steps: Sequence[int] = (1000, 1500, 2000, 2500, 3000),
    images: int = 16,
    seeds: Sequence[int] = (0, 1, 2),
    search: Mapping[str, Any] | None = None,
) -> Table:
    """Iterative preimage search after several numbers of steps: one search for each seed, looked at on the way."""
    declared, x = baselines.Search.from_dict(search or {}), evaluation_inputs(case, images)
    (state,) = forward_states(case.plan.graph, x, [case.plan.target]).values()
    searched = [baselines.preimages(case.plan, state, declared, seed, tuple(steps)) for seed in seeds]
    rows: Table = {}
    for step in steps:
        judged = [_judged(case, states[step], x, state) for states in searched]
        rows[f"{step} steps"] = {s: torch.stack([own[s] for own in judged]).mean(0).tolist() for s in judged[0]}
    return rows


def _judged(case: Case, value: Tensor, x: Tensor, state: Tensor) -> dict[str, Tensor]:
    (encoded,) = forward_states(case.plan.graph, value, [case.plan.target]).values()
    return {
        "pixel_cosine": pixel_cosine(value, x),
        "reencoding_cosine": pixel_cosine(encoded, state),
        "feature_nmse": nmse(encoded, state),
    }


@measure()
def permuted_frequencies(case: Case, *, seed: int = 0, images: int | None = None) -> Table:
    """The fitted maps against the same maps at permuted frequencies."""
    moved = baselines.permuted(case.family, seed)
    return over_batches(
        case, images, lambda x: {"fitted": alignment_of(case, case.family, x), "permuted": alignment_of(case, moved, x)}
    )


@measure()
def seeds(case: Case, *, kinds: Sequence[str] = KINDS, images: int | None = None) -> Table:
    """Mean, constant, unit-energy, uniform, scaled and whitened seeds, each with maps of its own."""
    check_keys(dict.fromkeys(kinds), dict.fromkeys(KINDS), "seeds")
    ridge, data = float(case.options.get("ridge", 0.01)), case.calibration.batches
    named = {kind: baselines.seed_named(kind, case.plan, data) for kind in kinds}
    fitted = {
        kind: fit(FitSettings(ridge, seed=seed), case.plan, data, progress=False).maps for kind, seed in named.items()
    }

    def each(x: Tensor) -> Rows:
        values = {k: baselines.seeded_inverse(case.plan, maps, x, named[k]) for k, maps in fitted.items()}
        size = x.flatten(1).norm(dim=1)
        return {k: {**scores(case, y, x), "norm_ratio": y.flatten(1).norm(dim=1) / size} for k, y in values.items()}

    return over_batches(case, images, each)
