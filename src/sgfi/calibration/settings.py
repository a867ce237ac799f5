"""What is fitted: the ridge, the child states, the number of maps and the seed."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from sgfi.boundaries import Plan
from sgfi.errors import CalibrationError
from sgfi.inversion.family import FORMER_CHILDREN
from sgfi.inversion.update import Seed, mean_seed

CHILDREN = ("true", "online", "cross-fitted")
LARGEST_RIDGE = 1e12
"""Times the mean energy of the sources: beyond it nothing is left of a map."""
MOST_MAPS = 8
"""Maps per node that ``"auto"`` tries at most."""
TANGENTS, MOST_TANGENTS = 4, 256
"""At every input."""


@dataclass(frozen=True)
class FitSettings:
    """How every node of a plan is fitted; the defaults are the paper's."""

    ridge: float | str = 0.01
    """Relative, or ``"auto"``: chosen by leave-one-out."""
    children: str = "true"
    maps: int | str = 2
    """Per node: ``G_v`` and the corrections, or ``"auto"``: as long as the error of held-out samples falls."""
    on: str = "states"
    """What maps recover: ``"states"`` H, or ``"tangents"`` J dx, ``"tangents<k>"`` k of them at every input."""
    seed: Seed = mean_seed
    """What is pulled back from a child's state; another one than the method's own is an ablation."""
    length: bool = False
    """Whether states are given the lengths that fit held-out samples best."""

    def __post_init__(self) -> None:
        if not isinstance(self.children, str) or self.children not in CHILDREN:
            names = ", ".join(f'"{name}"' for name in CHILDREN)
            raise CalibrationError(f"children among {names}", repr(self.children), "Choose one of these.")
        _check_number_or_auto(self.ridge, self.maps)
        if not isinstance(self.length, bool):
            raise CalibrationError("length=True or False", repr(self.length), "The paper's maps have none.")
        if self.length and self.seed is not mean_seed:
            raise CalibrationError("the method's own seed with length=True", repr(self.seed), "Leave one of them out.")
        if self.tangents:
            self._check_tangents()
        for option, value in (("ridge", self.ridge), ("stages", self.maps)):
            if value == "auto" and self.children == "true":
                raise CalibrationError(
                    f'children="online" or "cross-fitted" with {option}="auto"',
                    "children='true'",
                    "Only these keep the samples to choose on.",
                )

    def _check_tangents(self) -> None:
        """Samples held or left out would come back as other tangents, and as parts of differences."""
        wrong = {"children='cross-fitted'": self.children == "cross-fitted", "stages='auto'": self.maps == "auto"}
        wrong["length=True"] = self.length
        if any(wrong.values()):
            got = next(option for option, given in wrong.items() if given)
            todo = "Use true or online children and a number of stages."
            raise CalibrationError('options that leave no sample out with on="tangents"', got, todo)

    @property
    def tangents(self) -> int:
        """Tangents at every input; zero for states."""
        if self.on == "states":
            return 0
        if self.on == "tangents":
            return TANGENTS
        word, tangents, number = str(self.on).partition("tangents")
        if word or not tangents or not number.isdecimal() or not 1 <= int(number) <= MOST_TANGENTS:
            words = f'"states", "tangents" or "tangents<k>" with k up to {MOST_TANGENTS}'
            raise CalibrationError(words, repr(self.on), f'"tangents" takes {TANGENTS} at every input.')
        return int(number)

    @property
    def most_maps(self) -> int:
        """Maps per node at most."""
        return MOST_MAPS if isinstance(self.maps, str) else self.maps

    @property
    def chooses_maps(self) -> bool:
        """Whether a further map is kept only if it lowers the error of held-out samples."""
        return self.maps == "auto"

    @property
    def holds_out(self) -> bool:
        """Whether samples are held out of all fits."""
        return self.chooses_maps or self.length

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
            "stages": [self.most_maps, self.chooses_maps],
            **({"length": True} if self.length else {}),
            **({"tangents": self.tangents} if self.tangents else {}),
        } | ({} if self.seed is mean_seed else {"seed": repr(self.seed)})


def current_children(word: str | None) -> str | None:
    """The word in use for a deprecated one; for the public call, whose caller is warned."""
    if not isinstance(word, str) or word not in FORMER_CHILDREN:
        return word
    current = FORMER_CHILDREN[word]
    warnings.warn(f"children={word!r} is now called {current!r}", DeprecationWarning, stacklevel=3)
    return current


def _check_number_or_auto(ridge: object, maps: object) -> None:
    number = isinstance(ridge, (int, float)) and not isinstance(ridge, bool)
    if not _is_auto(ridge) and not (number and 0 < ridge <= LARGEST_RIDGE):  # type: ignore[operator]
        raise CalibrationError('a positive, finite relative ridge or "auto"', repr(ridge), "The paper uses 0.01.")
    if not _is_auto(maps) and (not isinstance(maps, int) or isinstance(maps, bool) or maps < 1):
        raise CalibrationError('one stage or more, or "auto"', repr(maps), "The paper uses 2.")


def _is_auto(value: object) -> bool:
    """Asked like this because an array would answer a comparison with an array."""
    return isinstance(value, str) and value == "auto"
