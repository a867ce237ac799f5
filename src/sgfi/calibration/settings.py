"""What is fitted: the ridge, the child states, the number of maps and the seed."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from math import isfinite
from typing import Any

from sgfi.boundaries import Plan
from sgfi.errors import CalibrationError
from sgfi.inversion.family import FORMER_CHILDREN
from sgfi.inversion.update import Seed, mean_seed

CHILDREN = ("true", "online", "cross-fitted")
MOST_MAPS = 8
"""Maps per node that ``"auto"`` tries at most."""


@dataclass(frozen=True)
class FitSettings:
    """How every node of a plan is fitted; the defaults are the paper's."""

    ridge: float | str = 0.01
    """Relative, or ``"auto"``: chosen by leave-one-out."""
    children: str = "true"
    maps: int | str = 2
    """Per node: ``G_v`` and the corrections, or ``"auto"``: as long as the error of held-out samples falls."""
    seed: Seed = mean_seed
    """What is pulled back from a child's state; another one than the method's own is an ablation."""

    def __post_init__(self) -> None:
        if self.children not in CHILDREN:
            names = ", ".join(f'"{name}"' for name in CHILDREN)
            raise CalibrationError(f"children among {names}", repr(self.children), "Choose one of these.")
        _check_number_or_auto(self.ridge, self.maps)
        for option, value in (("ridge", self.ridge), ("stages", self.maps)):
            if value == "auto" and self.children == "true":
                raise CalibrationError(
                    f'children="online" or "cross-fitted" with {option}="auto"',
                    "children='true'",
                    "Only these keep the samples to choose on.",
                )

    @property
    def most_maps(self) -> int:
        """Maps per node at most."""
        return MOST_MAPS if isinstance(self.maps, str) else self.maps

    @property
    def holds_out(self) -> bool:
        """Whether samples are held out of all fits, and a further map is kept only if it lowers their error."""
        return self.maps == "auto"

    @property
    def leave_one_out(self) -> bool:
        """Whether solves keep what tells a sample's leverage."""
        return self.ridge == "auto" or self.children == "cross-fitted"

    def check_plan(self, plan: Plan) -> None:
        """The operators of the plan must offer what the settings need."""
        for name in plan.fitted:
            operator = plan.boundary[name].operator
            if self.ridge == "auto" and not operator.chooses_ridge:
                raise CalibrationError(
                    'the full or a causal operator with ridge="auto"',
                    f"{operator.name!r} at {name!r}",
                    "Give this plan a number.",
                )
            if self.children == "cross-fitted" and not operator.tells_leverage:
                raise CalibrationError(
                    'an operator whose leverage is known with children="cross-fitted"',
                    f"{operator.name!r} at {name!r}",
                    'Use children="online", or the full or diagonal operator.',
                )

    @property
    def facts(self) -> dict[str, Any]:
        """What a checkpoint must agree on, JSON-able, with the words that earlier releases wrote."""
        former = {new: old for old, new in FORMER_CHILDREN.items()}
        return {
            "ridge": self.ridge,
            "children": former.get(self.children, self.children),
            "stages": [self.most_maps, self.holds_out],
        } | ({} if self.seed is mean_seed else {"seed": repr(self.seed)})


def current_children(word: str | None) -> str | None:
    """The word in use for a deprecated one; for the public call, whose caller is warned."""
    if word not in FORMER_CHILDREN:
        return word
    current = FORMER_CHILDREN[word]
    warnings.warn(f"children={word!r} is now called {current!r}", DeprecationWarning, stacklevel=3)
    return current


def _check_number_or_auto(ridge: object, maps: object) -> None:
    number = isinstance(ridge, (int, float)) and not isinstance(ridge, bool)
    if ridge != "auto" and not (number and ridge > 0 and isfinite(ridge)):  # type: ignore[operator,arg-type]
        raise CalibrationError('a positive, finite relative ridge or "auto"', repr(ridge), "The paper uses 0.01.")
    if maps != "auto" and (not isinstance(maps, int) or isinstance(maps, bool) or maps < 1):
        raise CalibrationError('one stage or more, or "auto"', repr(maps), "The paper uses 2.")
