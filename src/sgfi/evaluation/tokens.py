"""Studies of token-resolved inverses: routing in controlled contexts, controls, quality of whole-sequence inverses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sgfi.evaluation.metrics import pixel_cosine
from sgfi.evaluation.representation import roc_auc, target_state
from sgfi.inversion import Estimator, Query, invert, sweep
from sgfi.language.contexts import Context
from sgfi.language.profiles import energy_profile, entropy, future_mass, mass, top_overlap
from sgfi.language.vocabulary import exact_tokens, token_cosine

GRAMMAR = ("grammatical", "ungrammatical")
ROWS = 64
"""Inputs inverted at a time."""


def inverses(estimator: Estimator, x: Tensor, coords: Sequence[int] | None = None, stage: str = "final") -> Tensor:
    """(B, L, D) inverses of many inputs, a few at a time."""
    return torch.cat([invert(estimator, part, coords=coords, stage=stage).value for part in x.split(ROWS)])


def profiles(estimator: Estimator, x: Tensor, coords: Sequence[int] | None = None, stage: str = "final") -> Tensor:
    """(B, L) evidence profiles."""
    return energy_profile(inverses(estimator, x, coords, stage))


def semantic(profile: Tensor, contexts: Sequence[Context], subsets: Sequence[Sequence[Sequence[int]]]) -> dict:
    """Per context: mass on the cues, on position-matched random subsets, on the queried token (``target``)."""
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
    rows = list(range(len(contexts)))
    masses = {
        role: profile[rows, [context.roles[role] for context in contexts]].tolist()
        for role in ("auxiliary", "attractor", "head")
    }
    pairs = zip(masses["auxiliary"], masses["attractor"], strict=True)
    return masses | {"agreement_minus_attractor": [a - b for a, b in pairs]}


def by_grammar(contexts: Sequence[Context]) -> dict[str, list[int]]:
    """Which contexts are grammatical and which are not."""
    return {
        kind: [row for row, context in enumerate(contexts) if context.variant.split()[-1] == kind] for kind in GRAMMAR
    }


def geometry_swap(estimator: Estimator, a: Tensor, b: Tensor, coords: Sequence[int]) -> dict[str, list[float]]:
    """Terminal state of A at the operating point of B: is the inverse nearer to A's own or to B's?"""
    state = invert(estimator, a).states[estimator.node().name]
    swapped = invert(estimator, b, coords=coords, terminal=state).value
    cosines = {}
    for name, x in (("target", a), ("geometry", b)):
        own = invert(estimator, x, coords=coords).value
        cosines[f"to_{name}"] = pixel_cosine(swapped, own).tolist()
        cosines[f"profile_to_{name}"] = pixel_cosine(energy_profile(swapped), energy_profile(own)).tolist()
    return cosines


def agreement_of(first: Tensor, second: Tensor) -> dict[str, list[float]]:
    """Two calibrations on the same inputs: cosine of the inverses, of their profiles, and top-five overlap."""
    left, right = energy_profile(first), energy_profile(second)
    return {
        "cosine": pixel_cosine(first, second).tolist(),
        "profile_cosine": pixel_cosine(left, right).tolist(),
        "top5_overlap": top_overlap(left, right).tolist(),
    }


def position_matrix(estimator: Estimator, x: Tensor, stage: str = "final") -> Tensor:
    """(B, L, L): the profile of every queried position in turn."""
    queries = [Query(coords=[position]) for position in range(x.shape[1])]
    parts = [sweep(estimator, part, queries, stage=stage) for part in x.split(ROWS)]
    return torch.cat([energy_profile(torch.stack([inverse.value for inverse in part], dim=1)) for part in parts])


def future_energy(matrix: Tensor) -> Tensor:
    """(B,) mean share after the queried position, over the positions that have a future."""
    length = matrix.shape[-1]
    return torch.stack([future_mass(matrix[:, p], p) for p in range(length - 1)]).mean(0)


def sequence_quality(
    estimator: Estimator, ids: Tensor, x: Tensor, table: Tensor, stage: str = "final"
) -> dict[str, list[float]]:
    """Whole-target inverses: embedding cosine and exact tokens, per window."""
    values = inverses(estimator, x, stage=stage) + estimator.origin
    return {
        "embedding_cosine": token_cosine(values, x).mean(1).tolist(),
        "exact_token": exact_tokens(values, table, ids).double().mean(1).tolist(),
    }


def reencoding_auc(estimator: Estimator, values: Tensor, x: Tensor, centre: Tensor) -> float:
    """How well re-encoded inverses identify their inputs: matched against cross cosines of target features.

    ``centre`` is the feature's calibration mean, taken away first: without it everything looks alike.
    """
    encoded, truth = (
        torch.nn.functional.normalize((features(estimator, part) - centre).double().flatten(1)) for part in (values, x)
    )
    cosines = encoded @ truth.T
    cross = cosines[~torch.eye(len(cosines), dtype=torch.bool)].numpy()
    return float(np.mean([roc_auc([own], cross) for own in cosines.diagonal().tolist()]))  # one at a time: memory


def features(estimator: Estimator, x: Tensor) -> Tensor:
    """(B, ...) the target's forward values of many inputs, a few at a time."""
    return torch.cat([target_state(estimator, part) for part in x.split(ROWS)])
