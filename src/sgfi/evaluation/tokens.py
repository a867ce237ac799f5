"""Studies of token-resolved inverses: routing in controlled contexts, controls, quality of whole-sequence inverses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sgfi.evaluation.controls import target_state
from sgfi.evaluation.representation import roc_auc
from sgfi.evaluation.statistics import Interval, bootstrap, contrast
from sgfi.inversion import MapFamily, Query, invert, sweep
from sgfi.language.contexts import Context
from sgfi.language.profiles import cosine, energy_profile, entropy, future_mass, mass, top_overlap
from sgfi.language.vocabulary import exact_tokens, token_cosine

RESAMPLES = 10_000
GRAMMAR = ("grammatical", "ungrammatical")
ROWS = 64
"""Inputs inverted at a time."""


def inverses(family: MapFamily, x: Tensor, coords: Sequence[int] | None = None, stage: str = "final") -> Tensor:
    """(B, L, D) inverses of many inputs, a few at a time."""
    return torch.cat([invert(family, part, coords=coords, stage=stage).value for part in x.split(ROWS)])


def profiles(family: MapFamily, x: Tensor, coords: Sequence[int] | None = None, stage: str = "final") -> Tensor:
    """(B, L) evidence profiles."""
    return energy_profile(inverses(family, x, coords, stage))


# ------------------------------------------------------------------- routing


def semantic(profile: Tensor, contexts: Sequence[Context], subsets: Sequence[Sequence[Sequence[int]]]) -> dict:
    """Per context: mass on the cues, on position-matched random subsets, on the target. Values are lists."""
    cues = [float(mass(row, context.cues)) for row, context in zip(profile, contexts, strict=True)]
    chance = [
        float(np.mean([float(mass(row, subset)) for subset in drawn]))
        for row, drawn in zip(profile, subsets, strict=True)
    ]
    return {
        "cue": cues,
        "random": chance,
        "cue_minus_random": [a - b for a, b in zip(cues, chance, strict=True)],
        "target": [float(row[context.terminal]) for row, context in zip(profile, contexts, strict=True)],
        "entropy": entropy(profile).tolist(),
    }


def syntactic(profile: Tensor, contexts: Sequence[Context]) -> dict[str, list[float]]:
    """Per context: mass at the agreement site (the auxiliary), the attractor and the head."""
    at = {role: [context.roles[role] for context in contexts] for role in ("auxiliary", "attractor", "head")}
    rows = range(len(contexts))
    found = {role: profile[list(rows), places].tolist() for role, places in at.items()}
    found["agreement_minus_attractor"] = [a - b for a, b in zip(found["auxiliary"], found["attractor"], strict=True)]
    return found


def semantic_summary(found: Mapping[str, Sequence[float]], contexts: Sequence[Context]) -> dict[str, Any]:
    """Means with intervals over words."""
    words = [context.cluster for context in contexts]
    return {name: _interval(values, words) for name, values in found.items()}


def syntactic_summary(found: Mapping[str, Sequence[float]], contexts: Sequence[Context]) -> dict[str, Any]:
    """Differences with intervals over templates, and the descriptive ratio of mean masses, by grammaticality."""
    told: dict[str, Any] = {}
    for kind in GRAMMAR:
        rows = [place for place, context in enumerate(contexts) if context.variant.split()[-1] == kind]
        part = {name: [values[row] for row in rows] for name, values in found.items()}
        templates = [contexts[row].cluster for row in rows]
        told[kind] = {
            "difference": _interval(part["agreement_minus_attractor"], templates),
            "ratio": float(np.mean(part["auxiliary"]) / np.mean(part["attractor"])),
        }
    every = [context.cluster for context in contexts]
    told["pooled"] = _interval(found["agreement_minus_attractor"], every)
    return told


def paired(first: Sequence[float], second: Sequence[float], contexts: Sequence[Context]) -> dict[str, Any]:
    """``first - second`` with an interval over clusters."""
    clusters = [context.cluster for context in contexts]
    found = contrast(first, second, clusters, resamples=RESAMPLES)
    return {**_told(found.interval), "positive": found.positive}


# ------------------------------------------------------------------- controls


def geometry_swap(family: MapFamily, a: Tensor, b: Tensor, coords: Sequence[int]) -> dict[str, list[float]]:
    """Terminal state of A at the operating point of B: is the inverse nearer to A's own or to B's?"""
    state = target_state(family, a)
    swapped = invert(family, b, coords=coords, terminal=state).value
    found = {}
    for name, own in (("target", invert(family, a, coords=coords)), ("geometry", invert(family, b, coords=coords))):
        found[f"to_{name}"] = cosine(swapped, own.value).tolist()
        found[f"profile_to_{name}"] = cosine(energy_profile(swapped), energy_profile(own.value)).tolist()
    return found


def agreement_of(first: Tensor, second: Tensor) -> dict[str, list[float]]:
    """Two calibrations on the same inputs: cosine of the inverses, of their profiles, and top-five overlap."""
    one, other = energy_profile(first), energy_profile(second)
    return {
        "cosine": cosine(first, second).tolist(),
        "profile_cosine": cosine(one, other).tolist(),
        "top5_overlap": top_overlap(one, other).tolist(),
    }


def position_matrix(family: MapFamily, x: Tensor, stage: str = "final") -> Tensor:
    """(B, L, L): the profile of every queried position in turn."""
    length = x.shape[1]
    rows = [sweep(family, part, [Query(coords=[p]) for p in range(length)], stage=stage) for part in x.split(ROWS)]
    return torch.cat([energy_profile(torch.stack([one.value for one in found], dim=1)) for found in rows])


def future_energy(matrix: Tensor) -> Tensor:
    """(B,) mean share after the queried position, over the positions that have a future."""
    length = matrix.shape[-1]
    return torch.stack([future_mass(matrix[:, p], p) for p in range(length - 1)]).mean(0)


# ------------------------------------------------------------------- whole sequences


def sequence_quality(family: MapFamily, ids: Tensor, x: Tensor, table: Tensor, stage: str) -> dict[str, Any]:
    """Whole-target inverses: embedding cosine and exact tokens, per window."""
    found = inverses(family, x, stage=stage)
    return {
        "embedding_cosine": token_cosine(found, x).mean(1).tolist(),
        "exact_token": exact_tokens(found, table, ids).double().mean(1).tolist(),
    }


def reencoding_auc(family: MapFamily, found: Tensor, x: Tensor, centre: Tensor) -> float:
    """How well re-encoded inverses are told apart: matched against cross cosines of target features.

    ``centre`` is the feature's calibration mean, taken away first: without it everything looks alike.
    """
    again, own = (
        torch.nn.functional.normalize((features(family, part) - centre).double().flatten(1)) for part in (found, x)
    )
    cosines = again @ own.T
    cross = cosines[~torch.eye(len(cosines), dtype=torch.bool)].numpy()
    return float(np.mean([roc_auc([own], cross) for own in cosines.diagonal().tolist()]))  # one at a time: memory


def features(family: MapFamily, x: Tensor) -> Tensor:
    """(B, ...) the target's forward values of many inputs, a few at a time."""
    return torch.cat([target_state(family, part) for part in x.split(ROWS)])


def _interval(values: Sequence[float], clusters: Sequence[str]) -> dict[str, Any]:
    return _told(bootstrap(values, clusters, resamples=RESAMPLES))


def _told(found: Interval) -> dict[str, Any]:
    return {"mean": found.mean, "low": found.low, "high": found.high, "clusters": found.clusters}
