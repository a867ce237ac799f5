"""Decisions and coordinates as measures: what a feature group or a cell shows, and what it does to the prediction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sgfi.decisions import CoordinateSettings, DecisionSettings, activation_means, coordinate_study, study
from sgfi.experiments.cases import Case
from sgfi.experiments.measures.registry import Table, evaluation_inputs, measure


@measure()
def decisions(case: Case, *, images: int = 16, settings: Mapping[str, Any] | None = None) -> Table:
    """Margin drops of decision-ranked channel groups minus those of random groups of the same image."""
    declared = DecisionSettings.from_dict(settings or {})
    means = activation_means(case.plan, case.calibration.batches)
    outcome = study(case.family, evaluation_inputs(case, images), means, declared)
    rows: Table = {}
    for depth in outcome.depths:
        for column, size in enumerate(outcome.settings.sizes):
            row = rows[f"{depth.node}, k={size}"] = {}
            for protocol, kinds in depth.drop.items():
                drop = {kind: array[:, column].mean(axis=1) for kind, array in kinds.items()}  # random repeats averaged
                row[f"positive_minus_random_{protocol}"] = (drop["positive"] - drop["random"]).tolist()
                row[f"negative_minus_random_{protocol}"] = (drop["negative"] - drop["random"]).tolist()
            flips = depth.flipped[declared.protocols[0]]["positive"][:, column]
            row["flips"] = np.asarray(flips, dtype=float).mean(axis=1).tolist()
    return rows


@measure()
def coordinates(case: Case, *, images: int = 8, settings: Mapping[str, Any] | None = None) -> Table:
    """Every cell's inverse: where its support is; and every cell replaced: what that does to the margin."""
    declared = CoordinateSettings.from_dict(settings or {})
    means = activation_means(case.plan, case.calibration.batches) if declared.protocol == "mean" else None
    outcome = coordinate_study(case.family, evaluation_inputs(case, images), declared, means)
    rows: Table = {}
    for depth in outcome.depths:
        row = rows[depth.node] = {}
        supports = [support.measures() for support in depth.supports]
        row.update({name: [float(s[name]) for s in supports] for name in (supports[0] if supports else {})})
        if declared.interventions:
            every = range(len(outcome.names))
            picked = {which: [depth.picked(which, i) for i in every] for which in ("top", "counter", "random")}
            drop = {which: depth.drops[every, cells] for which, cells in picked.items()}
            row["top_minus_random"] = (drop["top"] - drop["random"]).tolist()
            row["counter_minus_random"] = (drop["counter"] - drop["random"]).tolist()
            row["score_and_drop_spearman"] = list(outcome.ranks(depth).values)
    return rows
