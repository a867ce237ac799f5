"""What to see beside every picture: a random target, another input's target, the neighbours' answers.

A picture that answers its query changes with the target. Three controls are made by the same solve at the same
operating point, and compared with the answer by cosine:

random
    the target is Gaussian noise of the same length, a few times. Small for an answer (about one over the root of the
    numbers asked for); near one, with either sign, where any target gives this picture, which then shows the operating
    point and not the feature.
swapped
    the target is another input's. High, with either sign, where the operating point decides more than the target; or
    where the two targets are alike, which their own cosine tells.
neighbours
    the mean absolute cosine with the answers of neighbouring queries (other channels, adjacent cells, random
    directions). High where the picture is not the query's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import torch
from torch import Tensor

from sgfi.errors import QueryError
from sgfi.evaluation.metrics import pixel_cosine
from sgfi.evaluation.stacks import lengths, noise, scaled
from sgfi.graph import Node
from sgfi.graph.tensor_graph import check_input
from sgfi.inversion import Estimator, Inverse, Query, Selection, checked_query, sweep

DRAWS = 3
OPERATING_POINT = 0.5
"""Absolute cosine with a random target's picture from which on the operating point is said to speak."""
CERTAIN = 0.9
"""The same for a query of few numbers, where random targets are alike by chance."""
ALIKE = 0.7
"""Likeness to the neighbours' answers from which on a picture is said not to be the query's own, and to another
input's target's picture from which on it is not said to follow its target."""
Verdict = Literal["silent", "single", "operating point", "swapped", "alike", "untried", "follows"]


@dataclass(frozen=True, eq=False)
class Trust:
    """An answer with its controls, one number an input."""

    inverse: Inverse
    random: Tensor | None
    """(B,) mean absolute cosine of random targets' pictures with the answer; ``None`` for a query of one number, whose
    picture any target can only scale."""
    numbers: int
    """How many numbers the query selects."""
    swapped: Tensor | None
    """(B,) the same for another input's target; ``None`` where there is no other input."""
    neighbours: Tensor | None
    """(B,) mean absolute cosine with the neighbours' answers; ``None`` where the query has none."""
    controls: dict[str, Tensor]
    """Label -> (B, *input): the controls' pictures."""

    targets: Tensor | None = None
    """(B,) cosine of another input's target itself with this one, over the numbers the query selects."""

    def verdict(self, index: int = 0) -> Verdict:
        """What the controls say about one input's picture, in a word.

        ``follows`` needs two controls: neither random targets nor another input's give nearly the same picture.
        """
        if not self.inverse.value[index].any():
            return "silent"
        if self.random is None:
            return "single"
        if float(self.random[index]) > min(CERTAIN, max(OPERATING_POINT, 2 * self.numbers**-0.5)):
            return "operating point"
        if self.swapped is not None and abs(float(self.swapped[index])) > ALIKE:
            return "swapped"
        if self.neighbours is not None and float(self.neighbours[index]) > ALIKE:
            return "alike"
        return "untried" if self.swapped is None else "follows"

    def sentence(self, index: int = 0) -> str:
        """What the controls say about one input's picture, in plain words."""
        verdict = self.verdict(index)
        random, swapped, alike = (
            None if score is None else f"{float(score[index]):.2f}"
            for score in (self.random, self.swapped, self.neighbours)
        )
        near = "" if alike is None else f", neighbours {alike}"
        if verdict == "silent":
            return "The feature registered nothing here: its answer is zero, and there is nothing to compare."
        if verdict == "single":
            beside = "" if alike is None else f" Cosine with its neighbours' answers: {alike}."
            return f"One number: a target can only scale its picture.{beside}"
        if verdict == "operating point":
            return (
                "This is a picture of the operating point, not of the feature: random targets give nearly the same "
                f"(absolute cosine {random})."
            )
        if verdict == "swapped":
            return (
                f"Random targets give other pictures (absolute cosine {random}), but another input's target gives "
                f"nearly this one{self._reversed(index)} (cosine {swapped}){self._why(index)}."
            )
        if verdict == "alike":
            return (
                f"The picture changes with the target (random targets: absolute cosine {random}) but is hardly this "
                f"query's own: its neighbours' answers look alike (cosine {alike})."
            )
        if verdict == "untried":
            return (
                f"Random targets give other pictures (absolute cosine {random}{near}); no other input's target was "
                "tried."
            )
        return (
            f"The picture follows its target (absolute cosine with random targets {random}, another input's target "
            f"{swapped}{near})."
        )

    def _reversed(self, index: int) -> str:
        assert self.swapped is not None
        return ", reversed" if float(self.swapped[index]) < 0 else ""

    def _why(self, index: int) -> str:
        """Whether the two pictures are alike because the two targets are."""
        if self.targets is None:
            return ""
        between = float(self.targets[index])
        if abs(between) > ALIKE:
            return f": the two targets are alike themselves (cosine {between:.2f}), so this pair cannot tell"
        return (
            f", though the two targets differ (cosine {between:.2f}): it shows more of the operating point than of them"
        )


@torch.no_grad()
def trust(
    estimator: Estimator, x: Tensor, query: Query, *, others: Tensor | None = None, count: int = 4, seed: int = 0
) -> Trust:
    """The answer to a query with its three controls, in one sweep.

    ``others`` are inputs whose targets are handed to ``x``, ``(B, *input)`` or one for all; by default each input's
    neighbour in the batch, where there is one. ``count`` is how many neighbouring queries are compared.
    """
    for inputs in (x,) if others is None else (x, others):
        check_input(estimator.graph, inputs)
    if others is not None and len(others) not in (1, len(x)):
        raise QueryError(f"one other input, or {len(x)}", str(len(others)), "Give one for all, or one for each.")
    query = (
        query if checked_query(query).target else query.toward(estimator.target)
    )  # otherwise in the caller's own words
    nodes = [estimator.node(part.target) for part in query.parts]
    selections = [part.selection(node, x.device) for part, node in zip(query.parts, nodes, strict=True)]
    states = [estimator.state(x, node.name) for node in nodes]
    state, numbers = _laid_out(states), sum(selection.count for selection in selections)
    parts = list(zip(states, selections, strict=True))
    random_targets = [
        _laid_out([noise_like(*own, seed + draw + DRAWS * part) for part, own in enumerate(parts)])
        for draw in range(DRAWS if numbers > 1 else 0)
    ]
    elsewhere, targets = [], None
    if others is not None or len(x) > 1:
        swapped_states = [
            own.roll(1, 0) if others is None else estimator.state(others, node.name).expand_as(own)
            for own, node in zip(states, nodes, strict=True)
        ]
        elsewhere, targets = [_laid_out(swapped_states)], _target_cosine(states, swapped_states, selections)
    near = [] if query.also else neighbours(query, nodes[0], count)
    queries = [query] * (1 + len(random_targets) + len(elsewhere)) + near
    inverse, *rest = sweep(
        estimator, x, queries, terminal=torch.stack([state, *random_targets, *elsewhere, *[state] * len(near)])
    )
    cosines = [pixel_cosine(answer.value, inverse.value) for answer in rest]
    random, swapped, alike = (
        cosines[: len(random_targets)],
        cosines[len(random_targets) : len(cosines) - len(near)],
        cosines[len(cosines) - len(near) :],
    )
    pictures = {"random target": rest[0].value} if random_targets else {}
    pictures |= {"another input's target": rest[len(random_targets)].value} if elsewhere else {}
    pictures |= {"a neighbour's answer": rest[-len(near)].value} if near and not random_targets else {}
    return Trust(
        inverse,
        torch.stack(random).abs().mean(0) if random else None,
        numbers,
        swapped[0] if swapped else None,
        torch.stack(alike).abs().mean(0) if alike else None,
        pictures,
        targets,
    )


def _target_cosine(states: Sequence[Tensor], others: Sequence[Tensor], chosen: Sequence[Selection]) -> Tensor:
    """(B,) over the selected numbers of all tensors."""
    own, other = [
        torch.cat([selection.project(state).flatten(1) for state, selection in zip(side, chosen, strict=True)], 1)
        for side in (states, others)
    ]
    return torch.cosine_similarity(own, other)


def _laid_out(states: Sequence[Tensor]) -> Tensor:
    """(B, *target), or for a group (B, numbers of all its tensors)."""
    return states[0] if len(states) == 1 else torch.cat([state.flatten(1) for state in states], 1)


def neighbours(query: Query, node: Node, count: int = 4) -> list[Query]:
    """Queries like this one beside it: shifted cells, other groups of as many channels; none for a whole tensor.

    Of directions, as many random ones at the same coordinates.
    """
    if count < 1:
        return []
    if query.directions is not None:
        rows = torch.Generator().manual_seed(len(query.directions))
        random = torch.randn(count, len(query.directions), node.channels, generator=rows, dtype=torch.float64)
        apart = 2 * len(query.directions) <= node.channels  # more would span much of the query's own space
        return [Query(query.target, None, query.coords, own) for own in random] if apart else []
    if query.coords is not None:
        shifted = [_shifted(query, node, step) for step in product((-1, 0, 1), repeat=len(node.coord_shape))]
        here = set(query.checked_coords(node) or ())  # "*" written out
        near = [other for other in shifted if other is not None and set(other.coords or ()) != here]
        return near[:: max(1, len(near) // count)][:count]
    if query.channels is not None and 2 * len(query.channels) <= node.channels:
        width, own = len(query.channels), set(query.channels)
        rest = [channel for channel in range(node.channels) if channel not in own]
        starts = [index * (len(rest) - width) // max(1, count - 1) for index in range(count)]
        groups = dict.fromkeys(tuple(rest[start : start + width]) for start in starts)
        return [Query(query.target, group) for group in groups]
    return []


def _shifted(query: Query, node: Node, step: Sequence[int]) -> Query | None:
    """The query moved by a step; ``None`` where it would leave the tensor."""
    moved = [tuple(at + by for at, by in zip(coord, step, strict=True)) for coord in query.checked_coords(node) or ()]
    inside = all(0 <= at < size for coord in moved for at, size in zip(coord, node.coord_shape, strict=True))
    return query.at(query.target, moved) if inside else None


def noise_like(state: Tensor, selection: Selection, seed: int) -> Tensor:
    """Gaussian noise where the query looks, as long as the state."""
    if not torch.isfinite(state).all():
        raise QueryError("a finite target", "NaN or infinity", "Look for overflow in the model.")
    return scaled(selection.project(noise(state, seed)), lengths(selection.project(state), 1))
