"""What to see beside every picture: a random target, another input's target, the neighbours' answers.

A picture that answers its query changes with the target. Three controls are made by the same solve at the same
operating point, and compared with the answer by cosine:

random
    the target is Gaussian noise: the mean absolute cosine over many targets, or over a few with its standard error
    (:mod:`sgfi.evaluation.random_targets`). Small for an answer (about one over the root of the numbers asked for);
    near one where any target gives this picture, which then shows the operating point and not the feature.
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
from functools import cached_property
from itertools import product
from typing import Literal

import torch
from torch import Tensor

from sgfi.errors import QueryError
from sgfi.evaluation.metrics import pixel_cosine
from sgfi.evaluation.random_targets import along_answer, laid_out, random_targets
from sgfi.graph import Node
from sgfi.graph.tensor_graph import check_input
from sgfi.inversion import Estimator, Inverse, Query, Selection, checked_query, sweep

OPERATING_POINT = 0.5
"""Mean absolute cosine with random targets' pictures from which on the operating point is said to speak."""
CERTAIN = 0.9
"""The same for a query of very few numbers, where random targets are alike by chance: see :attr:`Trust.threshold`."""
ERRORS = 2
"""Standard errors around the mean that must lie on one side of that threshold; else nothing is said."""
ALIKE = 0.7
"""Likeness to the neighbours' answers from which on a picture is said not to be the query's own, and to another
input's target's picture from which on it is not said to follow its target."""
SHOWN = 2
"""Neighbours whose pictures are kept, of a query of one number."""
Verdict = Literal["silent", "single", "operating point", "unclear", "swapped", "alike", "untried", "follows"]


@dataclass(frozen=True, eq=False, repr=False)
class Trust:
    """An answer with its controls, one number an input."""

    inverse: Inverse
    random: Tensor | None
    """(B,) mean absolute cosine of random targets' pictures with the answer; ``None`` for a query of one number, whose
    picture any target can only scale."""
    numbers: int
    """How many numbers the query selects."""
    swapped: Tensor | None
    """(B,) cosine of the picture of another input's target; ``None`` where there is no other input, or one number."""
    neighbours: Tensor | None
    """(B,) mean absolute cosine with the neighbours' answers; ``None`` where the query has none."""
    controls: dict[str, Tensor]
    """Label -> (B, *input): the controls' pictures."""

    targets: Tensor | None = None
    """(B,) cosine of another input's target itself with this one, over the numbers the query selects."""
    draws: int = 0
    """Of random targets."""
    error: Tensor | None = None
    """(B,) standard error of ``random``."""

    def __repr__(self) -> str:
        verdicts = ", ".join(self.verdict(index) for index in range(len(self.inverse.value)))
        return f"<Trust in {self.inverse!r}: {verdicts}>"

    @cached_property
    def cosines(self) -> dict[str, Tensor]:
        """Label -> (B,): of each picture in ``controls``, its own cosine with the answer."""
        return {label: pixel_cosine(picture, self.inverse.value) for label, picture in self.controls.items()}

    @property
    def threshold(self) -> float:
        """Of ``random``: 0.5; of n < 16 numbers ``2 / sqrt(n)``, twice what chance gives, and at most 0.9."""
        return min(CERTAIN, max(OPERATING_POINT, 2 * self.numbers**-0.5))

    def verdict(self, index: int = 0) -> Verdict:
        """What the controls say about one input's picture, in a word.

        ``follows`` needs two controls: neither random targets nor another input's give nearly the same picture.
        """
        if not self.inverse.value[index].any():
            return "silent"
        if self.random is None:
            return "single"
        spread = ERRORS * (0.0 if self.error is None else float(self.error[index]))
        if float(self.random[index]) - spread > self.threshold:
            return "operating point"
        if float(self.random[index]) + spread > self.threshold:
            return "unclear"
        if self.swapped is not None and abs(float(self.swapped[index])) > ALIKE:
            return "swapped"
        if self.neighbours is not None and float(self.neighbours[index]) > ALIKE:
            return "alike"
        return "untried" if self.swapped is None else "follows"

    def sentence(self, index: int = 0) -> str:
        """What the controls say about one input's picture, in plain words."""
        verdict, chance = self.verdict(index), self._chance(index)
        near, beside = self._near(index), self._beside(index)
        if verdict == "silent":
            return "The feature registered nothing here: its answer is zero, and there is nothing to compare."
        if verdict == "single":
            return f"One number: a target can only scale its picture.{near and f' Its neighbours: {near}.'}"
        if verdict == "operating point":
            assert self.random is not None
            what = (
                "not of the feature: random targets give nearly the same"
                if float(self.random[index]) > ALIKE
                else "more than of the feature: random targets give similar ones"
            )
            return f"This is a picture of the operating point, {what} ({chance})."
        if verdict == "unclear":
            return (
                "Cannot tell whether this picture shows the feature or the operating point: random targets come too "
                f"near the threshold ({chance}{beside})."
            )
        if verdict == "swapped":
            assert self.swapped is not None
            cosine = float(self.swapped[index])
            return (
                f"Random targets give other pictures ({chance}), but another input's target gives nearly this "
                f"one{', reversed' if cosine < 0 else ''} (cosine {cosine:.2f}){self._why(index)}."
            )
        if verdict == "alike":
            return (
                f"The picture changes with the target ({chance}) but is hardly this query's own: its neighbours' "
                f"answers look alike ({near})."
            )
        if verdict == "untried":
            return f"Random targets give other pictures ({chance}{beside}); no other input's target was tried."
        return f"The picture follows its target ({chance}{beside})."

    def _beside(self, index: int) -> str:
        """The controls other than random targets."""
        swapped = "" if self.swapped is None else f"; another input's target: cosine {float(self.swapped[index]):.2f}"
        near = self._near(index)
        return f"{swapped}{near and f'; neighbours: {near}'}"

    def _near(self, index: int) -> str:
        return "" if self.neighbours is None else f"mean absolute cosine {float(self.neighbours[index]):.2f}"

    def _chance(self, index: int) -> str:
        """The random control in numbers."""
        if self.random is None:
            return ""
        error = 0.0 if self.error is None else float(self.error[index])
        spread = f" ± {error:.2f}" if error >= 0.005 else ""
        mean = f"mean absolute cosine {float(self.random[index]):.2f}{spread} of {self.draws} random targets"
        return f"{mean}, threshold {self.threshold:.2f}"

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
    estimator: Estimator,
    x: Tensor,
    query: str | Query,
    *,
    others: Tensor | None = None,
    count: int = 4,
    seed: int = 0,
) -> Trust:
    """The answer to a query with its three controls.

    ``others`` are inputs whose targets are handed to ``x``, ``(B, *input)`` or one for all; by default each input's
    neighbour in the batch, where there is one. ``count`` is how many neighbouring queries are compared. ``seed`` is
    that of random targets: of few numbers it decides which of them is drawn, and no score.
    """
    for inputs in (x,) if others is None else (x, others):
        check_input(estimator.graph, inputs)
    if others is not None and len(others) not in (1, len(x)):
        raise QueryError(f"one other input, or {len(x)}", str(len(others)), "Give one for all, or one for each.")
    query = checked_query(query, estimator.graph)
    query = query if query.target else query.toward(estimator.target)  # otherwise in the caller's own words
    nodes = [estimator.node(part.target) for part in query.parts]
    selections = [part.selection(node, x.device) for part, node in zip(query.parts, nodes, strict=True)]
    states = [estimator.state(x, node.name) for node in nodes]
    random = random_targets(estimator, query, states, selections, seed)
    elsewhere, targets = [], None
    if random is not None and (others is not None or len(x) > 1):
        swapped_states = [
            own.roll(1, 0) if others is None else estimator.state(others, node.name).expand_as(own)
            for own, node in zip(states, nodes, strict=True)
        ]
        elsewhere, targets = [laid_out(swapped_states)], _target_cosine(states, swapped_states, selections)
    state, near = laid_out(states), [] if query.also else neighbours(query, nodes[0], count)
    asked = [state, *elsewhere, *([] if random is None else random.states)]
    answers = sweep(estimator, x, [query] * len(asked) + near, terminal=torch.stack([*asked, *[state] * len(near)]))
    values = [answer.value for answer in answers]
    first, last = 1 + len(elsewhere), len(asked)
    control = None
    if random is not None:
        along = along_answer(estimator, x, query, values[0], random)
        control = random.control(torch.stack(values[first:last]), values[0], along)
    pictures = {} if control is None else {"random target": control.picture}
    pictures |= {"another input's target": values[1]} if elsewhere else {}
    pictures |= {} if random is not None else _labelled(near[:SHOWN], values[last:])
    alike = [pixel_cosine(value, values[0]).abs() for value in values[last:]]
    return Trust(
        answers[0],
        None if control is None else control.cosine,
        sum(selection.count for selection in selections),
        pixel_cosine(values[1], values[0]) if elsewhere else None,
        torch.stack(alike).mean(0) if alike else None,
        pictures,
        targets,
        0 if control is None else control.draws,
        None if control is None else control.error,
    )


def _labelled(near: Sequence[Query], values: Sequence[Tensor]) -> dict[str, Tensor]:
    """Neighbours' answers by what was asked."""
    names = [
        f"random direction {number}" if query.directions is not None else f"neighbour {query.at(None, query.coords)}"
        for number, query in enumerate(near, 1)
    ]
    return dict(zip(names, values, strict=False))


def _target_cosine(states: Sequence[Tensor], others: Sequence[Tensor], chosen: Sequence[Selection]) -> Tensor:
    """(B,) over the selected numbers of all tensors."""
    own, other = [
        torch.cat([selection.project(state).flatten(1) for state, selection in zip(side, chosen, strict=True)], 1)
        for side in (states, others)
    ]
    return torch.cosine_similarity(own, other)


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
