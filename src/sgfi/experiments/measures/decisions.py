"""Decisions and coordinates as measures: what a feature group or a cell shows, and what it does to the prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sgfi.decisions import (
    CoordinateSettings,
    CoordinateStudy,
    DecisionSettings,
    Gate,
    Study,
    activation_means,
    coordinate_study,
    gate,
    group_inverses,
    study,
)
from sgfi.decisions.groups import KINDS
from sgfi.decisions.studies import DepthOutcome
from sgfi.evaluation.metrics import pixel_cosine
from sgfi.experiments.cases import Case
from sgfi.experiments.measures.estimators import MAPS_ALONE, by_estimator, estimator_named
from sgfi.experiments.measures.registry import (
    Depths,
    Table,
    boundaries_at,
    correct_inputs,
    evaluation_inputs,
    measure,
    merged,
    quotient,
)
from sgfi.inversion import Estimator


@measure()
def decisions(
    case: Case,
    *,
    images: int = 16,
    correct: bool = False,
    depths: Depths = (),
    settings: Mapping[str, Any] | None = None,
    estimators: Sequence[str] = MAPS_ALONE,
) -> Table:
    """Margin drops of decision-ranked channel groups minus those of random groups of the same image; their inverses.

    Beside them deletion curves in shares of the mean margin, and how many settings have intervals of the right sign.
    ``correct``: the first ``images`` that the model gets right, by the folders they are in. ``depths``: boundaries by
    number or name. The drops are of the model, whatever estimator draws the groups: each has rows for what it draws.
    """
    declared = DecisionSettings.from_dict({**(settings or {}), **_depths(case, depths)})
    means = activation_means(case.plan, case.calibration.batches)
    x = correct_inputs(case, images, declared.output) if correct else evaluation_inputs(case, images)
    first = estimator_named(case, estimators[0])
    outcome = study(first, x, means, replace(declared, inversions=False))
    rows: Table = {}
    for depth in outcome.depths:
        for column, size in enumerate(outcome.settings.sizes):
            row = rows[f"{depth.node}, k={size}"] = {}
            for protocol, kinds in depth.drop.items():
                drop = {kind: array[:, column].mean(axis=1) for kind, array in kinds.items()}  # random repeats averaged
                row[f"positive_minus_random_{protocol}"] = (drop["positive"] - drop["random"]).tolist()
                row[f"negative_minus_random_{protocol}"] = (drop["negative"] - drop["random"]).tolist()
            row["normalised_effect"] = quotient(
                row[f"positive_minus_random_{declared.protocols[0]}"], outcome.margin.tolist()
            )
            flips = depth.flipped[declared.protocols[0]]["positive"][:, column]
            row["flips"] = np.asarray(flips, dtype=float).mean(axis=1).tolist()
        rows |= _deletion(depth, outcome.margin)
    rows["signed gate"] = _signed_gate(gate(outcome))
    if not declared.inversions:
        return rows
    return merged(rows, by_estimator(case, estimators, lambda estimator: _drawn(estimator, outcome, x)))


def _deletion(depth: DepthOutcome, margin: np.ndarray) -> Table:
    """Of the mean margin, what is left when a share of the channels is replaced in three orders, and the areas."""
    rows: Table = {}
    for kind, curves in depth.curves.items():
        left = np.array([curve.left for curve in curves]) * margin[:, None]  # (images, points)
        areas = np.array([curve.area for curve in curves]) * margin
        rows.setdefault(f"{depth.node}, deletion", {})[f"area_{kind}"] = quotient(areas.tolist(), margin.tolist())
        for share, column in zip(curves[0].deleted, left.T, strict=True):
            row = rows.setdefault(f"{depth.node}, {share:.3g} deleted", {})
            row[f"left_{kind}"] = quotient(column.tolist(), margin.tolist())
    return rows


def _signed_gate(signed: Gate) -> dict[str, float]:
    """Settings (depth and size) whose interval has the required sign, of how many; ranges over the settings."""
    counts, normalised = signed.counts(), [line.normalised.mean for line in signed.lines]
    row: dict[str, float] = {"settings": len(signed.lines), "terminal_settings": len(signed.terminal)}
    for protocol in signed.lines[0].positive:
        row[f"above_zero_{protocol}"] = counts[f"{protocol} > 0"][0]
    row["terminal_below_zero"] = counts["terminal negative < 0"][0]
    row |= {"least_normalised_effect": min(normalised), "most_normalised_effect": max(normalised)}
    (flips,) = (value for name, value in counts.items() if name.startswith("flip range"))
    return row | {"least_flips_of_the_largest": flips[0], "most_flips_of_the_largest": flips[1]}


def _drawn(estimator: Estimator, outcome: Study, x: Tensor) -> Table:
    """Pixel cosine of every group's inverse with its input, and of positive with negative groups' inverses."""
    rows: Table = {}
    sizes = outcome.settings.sizes
    for depth in outcome.depths:
        by_image = []
        for index, groups in enumerate(depth.groups):
            image = x[index : index + 1]
            inverses = group_inverses(estimator, image, depth.node, groups, sizes)
            seen = (image - estimator.origin).expand(len(sizes), *image.shape[1:])
            scores = {f"pixel_cosine_{kind}": pixel_cosine(inverses[kind], seen) for kind in KINDS}
            scores["positive_and_negative"] = pixel_cosine(inverses["positive"], inverses["negative"])
            by_image.append(scores)
        for column, size in enumerate(sizes):
            rows[f"{depth.node}, k={size}"] = {
                score: torch.stack([image[score][column] for image in by_image]).tolist() for score in by_image[0]
            }
    return rows


@measure()
def coordinates(
    case: Case,
    *,
    images: int = 8,
    correct: bool = False,
    depths: Depths = (),
    settings: Mapping[str, Any] | None = None,
    estimators: Sequence[str] = MAPS_ALONE,
) -> Table:
    """Every cell's inverse: where its support is; and every cell replaced: what that does to the margin.

    ``correct`` and ``depths`` as for ``decisions``. The drops are of the model; each estimator has rows of supports.
    """
    declared = CoordinateSettings.from_dict({**(settings or {}), **_depths(case, depths)})
    means = activation_means(case.plan, case.calibration.batches) if declared.protocol == "mean" else None
    x = correct_inputs(case, images, declared.output) if correct else evaluation_inputs(case, images)
    rows: Table = {}
    if declared.interventions:
        first = estimator_named(case, estimators[0])
        rows = _edited(coordinate_study(first, x, replace(declared, inversions=False), means))
    if not declared.inversions:
        return rows
    seen = replace(declared, interventions=False)
    return merged(
        rows, by_estimator(case, estimators, lambda estimator: _supports(coordinate_study(estimator, x, seen)))
    )


def _supports(outcome: CoordinateStudy) -> Table:
    rows: Table = {}
    for depth in outcome.depths:
        supports = [support.measures() for support in depth.supports]
        rows[depth.node] = {name: [float(s[name]) for s in supports] for name in supports[0]}
    return rows


def _edited(outcome: CoordinateStudy) -> Table:
    rows: Table = {}
    every = range(len(outcome.names))
    for depth in outcome.depths:
        picked = {which: [depth.picked(which, i) for i in every] for which in ("top", "counter", "random")}
        drop = {which: depth.drops[every, cells] for which, cells in picked.items()}
        rows[depth.node] = {
            "top_minus_random": (drop["top"] - drop["random"]).tolist(),
            "counter_minus_random": (drop["counter"] - drop["random"]).tolist(),
            "score_and_drop_spearman": list(outcome.ranks(depth).values),
        }
    return rows


def _depths(case: Case, depths: Depths) -> dict[str, Any]:
    names = boundaries_at(case, depths)
    return {"depths": names} if names else {}
