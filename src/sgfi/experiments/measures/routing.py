"""Where the pictures of a terminal token have their energy: every method of ``answers`` in the controlled contexts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from sgfi.experiments.cases import Case
from sgfi.experiments.measures.contestants import NATURAL, Contestants, prior_of
from sgfi.experiments.measures.registry import Table, measure
from sgfi.experiments.measures.tokens import routed
from sgfi.inversion import Query
from sgfi.language import energy_profile

ROWS = 8
"""Contexts drawn at a time."""


@measure()
def answer_routing(
    case: Case, *, targets: Sequence[str] = (), methods: Sequence[str] = (*NATURAL, "gradient")
) -> Table:
    """Cue and agreement routing of the terminal token by any method of ``answers``, one number per word or template."""
    targets = tuple(targets) or (case.plan.target,)
    contestants = Contestants(case, prior_of(case), methods, targets)
    last = case.loaded.input_shape[0] - 1
    rows = {
        f"{method}, {target}": partial(_profiles, contestants, method, Query(target, None, [last]))
        for target in targets
        for method in methods
    }
    return routed(case, rows)


def _profiles(contestants: Contestants, method: str, query: Query, x: Tensor) -> Tensor:
    """(B, L) shares of the positions."""
    parts = [contestants.values(method, [query], part)[0] for part in x.split(ROWS)]
    return energy_profile(torch.cat(parts))
