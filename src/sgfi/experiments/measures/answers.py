"""Does a picture answer its query? Removal, likeness and controls of many methods on the same tensors and inputs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import sgfi
from sgfi.errors import QueryError
from sgfi.evaluation.metrics import pixel_cosine
from sgfi.evaluation.pictures import METHODS, Scene, pictures
from sgfi.evaluation.removal import SCALES, removal
from sgfi.evaluation.trust import noise_like
from sgfi.experiments.cases import Case
from sgfi.experiments.measures.registry import Table, evaluation_batches, measure
from sgfi.inversion import Estimator, Query

NATURAL: Mapping[str, Mapping[str, Any]] = {"natural, path": {}, "natural, point": {"jacobian": "point"}}
MAPS = "maps"
COSTLY = ("accentuation",)
"""Methods that search: measured on fewer images."""


@measure()
def answers(
    case: Case,
    *,
    targets: Sequence[str] = (),
    methods: Sequence[str] = ("natural, path", "natural, point", MAPS, "raw VJP", "gradient"),
    channels: int = 16,
    cells: int = 16,
    images: int | None = None,
    costly_images: int = 4,
) -> Table:
    """Removal (own, others, best at own at three scales), likeness, random and swapped targets, seconds a query."""
    prior = sgfi.prior(case.calibration.batches)
    estimators = _estimators(case, methods, prior)
    table: Table = {}
    for number, (x, other) in enumerate(_pairs(case, images)):
        for target in targets or (case.plan.target,):
            for kind, queries in _queries(case, target, x, channels, cells).items():
                for method in methods:
                    if method in COSTLY and number >= costly_images:
                        continue
                    start = time.perf_counter()
                    values = _values(case, method, estimators, prior, queries, x)
                    seconds = (time.perf_counter() - start) / len(queries)
                    row = table.setdefault(f"{method}, {target}, {kind}", {})
                    scores = {**_removal(case, queries, values, prior, x), "seconds_per_query": seconds}
                    if method in estimators:
                        scores |= _controls(estimators[method], queries, values, x, other)
                    for score, value in scores.items():
                        row.setdefault(score, []).append(value)
    return table


def _estimators(case: Case, methods: Sequence[str], prior: Any) -> dict[str, Estimator]:
    unknown = [name for name in methods if name not in {*NATURAL, MAPS, *METHODS}]
    if unknown:
        raise QueryError(f"methods among {[*NATURAL, MAPS, *METHODS]}", repr(unknown[0]), "Choose some of these.")
    graph = case.plan.graph
    chosen: dict[str, Estimator] = {
        name: sgfi.natural(graph, prior, **settings) for name, settings in NATURAL.items() if name in methods
    }
    return chosen | ({MAPS: case.family} if MAPS in methods else {})


def _pairs(case: Case, images: int | None) -> Iterator[tuple[Tensor, Tensor]]:
    """Every evaluated input (1, ...) with the next one."""
    for batch in evaluation_batches(case, images):
        for index in range(len(batch)):
            yield batch[index : index + 1], batch.roll(-1, 0)[index : index + 1]


def _queries(case: Case, target: str, x: Tensor, channels: int, cells: int) -> dict[str, list[Query]]:
    """The input's strongest channels and cells spread over the target, of which there are at least two."""
    node = case.plan.graph.nodes[target]
    with torch.no_grad():
        (state,) = case.plan.graph.program(("input",), (node.name,))(x)
    axis = node.channel_axis or 1
    energy = state[0].movedim(axis - 1, 0).flatten(1).square().sum(1)
    strongest = energy.topk(min(channels, len(energy))).indices.tolist()
    coords = list(product(*map(range, node.coord_shape)))
    step = max(1, len(coords) // cells)
    spread = coords[step // 2 :: step][:cells]
    kinds = {
        "channels": [Query(node.name, channel) for channel in strongest],
        "cells": [Query(node.name, None, [coord]) for coord in spread],
    }
    return {kind: queries for kind, queries in kinds.items() if len(queries) > 1}


def _values(
    case: Case, method: str, estimators: Mapping[str, Estimator], prior: Any, queries: list[Query], x: Tensor
) -> list[Tensor]:
    """(1, *input) a query."""
    if method in estimators:
        return [inverse.value for inverse in sgfi.sweep(estimators[method], x, queries)]
    scene = Scene.of(case.plan.graph, x, prior.mean_like(x), queries, case.loaded.model)
    return list(pictures(method, scene))


def _removal(case: Case, queries: list[Query], values: list[Tensor], prior: Any, x: Tensor) -> dict[str, float]:
    """Means over the queries of one input."""
    scores: dict[str, float] = {}
    for scale in SCALES:
        measured = removal(case.plan.graph, x, queries, values, prior, scale)
        scores[f"best_at_own_{scale}"] = float(measured.best_at_own.mean())
        scores[f"own_{scale}"] = float(measured.own.mean())
        scores[f"others_{scale}"] = float(measured.others.mean())
    stack = torch.cat(values)
    whole = prior.energy(x - prior.mean_like(x)) / (x - prior.mean_like(x)).square().sum()
    energy = prior.energy(stack) / stack.flatten(1).square().sum(1).clamp_min(1e-30)
    scores["roughness"] = float((energy / whole).mean())  # prior energy at equal length; 1: like the input itself
    unit = F.normalize(stack.flatten(1), dim=1)
    alike = (unit @ unit.mT).abs()
    scores["likeness"] = float((alike.sum() - len(unit)) / (len(unit) ** 2 - len(unit)))
    return scores


def _controls(
    estimator: Estimator, queries: list[Query], values: list[Tensor], x: Tensor, other: Tensor
) -> dict[str, float]:
    """Cosines of the answers with what random and another input's targets give, and with the other input's answers."""
    node = estimator.node(queries[0].target)
    state, elsewhere = estimator.state(x, node.name), estimator.state(other, node.name)
    noise = [noise_like(state, query.mask(node, x.device), seed) for seed, query in enumerate(queries)]
    controls = {
        "random": sgfi.sweep(estimator, x, queries, terminal=torch.stack(noise)),
        "swapped": sgfi.sweep(estimator, x, queries, terminal=elsewhere),
        "unrelated": sgfi.sweep(estimator, other, queries),
    }
    scores: dict[str, float] = {}
    for label, inverses in controls.items():
        cosines = torch.cat([pixel_cosine(i.value, value) for i, value in zip(inverses, values, strict=True)])
        scores |= {f"{label}_cosine": float(cosines.mean()), f"{label}_cosine_size": float(cosines.abs().mean())}
    return scores
