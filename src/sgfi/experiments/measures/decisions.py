"""Decisions and coordinates as measures: what a feature group or a cell shows, and what it does to the prediction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from sgfi.decisions import CoordinateSettings, DecisionSettings, activation_means, coordinate_study, study
from sgfi.experiments.cases import Case
from sgfi.experiments.measures.registry import Table, batches, measure


@measure()
def decisions(case: Case, *, images: int = 16, settings: Mapping[str, Any] | None = None) -> Table:
    """Margin drops of decision-ranked channel groups minus those of random groups of the same image."""
    declared = DecisionSettings.from_dict(settings or {})
    means = activation_means(case.plan, case.calibration.batches)
    found = study(case.family, torch.cat(list(batches(case, images))), means, declared)
    rows: Table = {}
    for one in found.depths:
        for place, size in enumerate(declared.sizes):
            row = rows[f"{one.node}, k={size}"] = {}
            for protocol, kinds in one.drop.items():
                drop = {kind: array[:, place].mean(axis=1) for kind, array in kinds.items()}  # random repeats averaged
                row[f"positive_minus_random_{protocol}"] = (drop["positive"] - drop["random"]).tolist()
                row[f"negative_minus_random_{protocol}"] = (drop["negative"] - drop["random"]).tolist()
            flips = one.flipped[declared.protocols[0]]["positive"][:, place]
            row["flips"] = np.asarray(flips, dtype=float).mean(axis=1).tolist()
    return rows


@measure()
def coordinates(case: Case, *, images: int = 8, settings: Mapping[str, Any] | None = None) -> Table:
    """Every cell's inverse: where it stands in the picture; and every cell replaced: what that does to the margin."""
    declared = CoordinateSettings.from_dict(settings or {})
    means = activation_means(case.plan, case.calibration.batches) if declared.protocol == "mean" else None
    found = coordinate_study(case.family, torch.cat(list(batches(case, images))), declared, means)
    rows: Table = {}
    for one in found.depths:
        row = rows[one.node] = {}
        told = [support.measures() for support in one.supports]
        row.update({name: [float(values[name]) for values in told] for name in (told[0] if told else {})})
        if declared.interventions:
            places = np.arange(len(found.names))
            drop = {w: one.drops[places, [one.picked(w, int(i)) for i in places]] for w in ("top", "counter", "random")}
            row["top_minus_random"] = (drop["top"] - drop["random"]).tolist()
            row["counter_minus_random"] = (drop["counter"] - drop["random"]).tolist()
            row["score_and_drop_spearman"] = list(found.ranks(one).values)
    return rows
