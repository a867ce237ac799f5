"""Two answers side by side: one scale for both, and their difference.

Natural inverses share the input's unit, so they are compared as they are. Anything else (a gradient, calibrated
maps) has a unit of its own: both are brought to length one first, and that is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from sgfi.errors import QueryError
from sgfi.evaluation.metrics import pixel_cosine
from sgfi.explorer.answers import INVERSES
from sgfi.explorer.store import Artefact
from sgfi.explorer.workspace import Question, Workspace

SAME_UNIT = ("final", "share")


@dataclass(frozen=True, eq=False)
class Pair:
    """Two values in one unit."""

    first: Tensor
    """(C, H, W) or (L, D)"""
    second: Tensor
    scaled: bool
    """Whether both were brought to length one."""

    def facts(self) -> dict[str, Any]:
        lengths = [float(value.double().norm()) for value in (self.first, self.second)]
        return {
            "cosine_between": float(pixel_cosine(self.first[None], self.second[None])[0]),
            "lengths": None if self.scaled else lengths,
            "scaled": self.scaled,
        }


def pair(workspace: Workspace, question: Question, made: Artefact, text: str) -> Pair:
    """An answer and the one that ``lens~input~stage~query`` names, which must have been asked for before."""
    parts = text.split("~", 3)
    if len(parts) != 4 or parts[2] not in INVERSES:
        raise QueryError("lens~input~stage~query", repr(text[:120]), "Name the other answer in this form.")
    lens, sha, stage, query = parts
    other = workspace.question(lens, sha, query, stage)
    known = workspace.store.get(other.key)
    if known is None:
        raise QueryError("an answer that is known", f"{query} at stage {stage}, which is not", "Ask for it first.")
    first, second = made.tensors["value"][0], known.tensors["value"][0]
    if first.shape != second.shape:
        raise QueryError(
            f"two inputs of one shape, here {tuple(first.shape)}",
            str(tuple(second.shape)),
            "Choose models of one size.",
        )
    kinds = {workspace.lens(name).kind for name in (question.lens, lens)}
    if kinds == {"natural"} and {question.stage, stage} <= set(SAME_UNIT):
        return Pair(first, second, False)
    return Pair(_unit(first), _unit(second), True)


def _unit(value: Tensor) -> Tensor:
    return value / value.double().norm().clamp_min(1e-30).to(value)
