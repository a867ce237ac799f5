"""Does an inverse answer its query? Likeness between the inverses of different queries, and who excites whom.

Likeness alone misleads both ways: noise is unlike noise, and a part that all inverses of one image share (what the
operating point alone contributes) hides their differences. So a second question is put to the model itself: fed forward
through its differential at the image, does the inverse of a query excite that query more than the inverses of the other
queries do?
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor

from sgfi.derivatives import Linearisation
from sgfi.errors import QueryError
from sgfi.evaluation.removal import best_at_own
from sgfi.evaluation.rows import Rows
from sgfi.inversion import Estimator, Query, common_target, sweep


def selectivity(estimator: Estimator, x: Tensor, channels: int = 16, cells: int = 16) -> Rows:
    """Likeness and self-excitation among single channels, and among single cells, spread over the target."""
    node = estimator.node()
    kinds = {"channels": [Query(channels=[channel]) for channel in _spread(node.channels, channels)]}
    coords = list(product(*map(range, node.coord_shape)))
    if len(coords) > 1:
        kinds["cells"] = [Query(coords=[coords[cell]]) for cell in _spread(len(coords), cells)]
    return {kind: compare(estimator, x, queries) for kind, queries in kinds.items()}


@torch.no_grad()
def compare(estimator: Estimator, x: Tensor, queries: Sequence[Query]) -> dict[str, Tensor]:
    """For each image: mean absolute cosine of two queries' inverses, and the share of queries that excite themselves.

    An inverse of unit length is pushed forward at x and projected on every query's own state. The inverse that reaches
    a query furthest should be its own; by chance it is for one in ``len(queries)``.
    """
    if len(queries) < 2:
        raise QueryError("two queries or more", str(len(queries)), "Name what to compare.")
    target = common_target(estimator.graph, [query.toward(estimator.node(query.target).name) for query in queries])
    answers = sweep(estimator, x, queries)
    inverses = torch.stack([F.normalize(inverse.value.flatten(1), dim=1) for inverse in answers], 1)  # (B, Q, P)
    states = torch.stack([F.normalize(inverse.states[target].flatten(1), dim=1) for inverse in answers], 1)
    local = Linearisation(estimator.graph, {"input": (target,)}, x).at("input")
    pushed = torch.stack([local.jvp(row.reshape(x.shape))[0].flatten(1) for row in inverses.unbind(1)], 1)
    reached = states @ pushed.mT  # (B, query, whose inverse)
    return {
        "likeness": likeness(inverses),
        "excites_itself": best_at_own(reached.mT).mean(1),
    }


def likeness(pictures: Tensor) -> Tensor:
    """(..., Q, P) pictures of unit length, or zero -> (...): the mean absolute cosine of two of them."""
    alike, count = (pictures @ pictures.mT).abs(), pictures.shape[-2]
    return (alike.sum((-1, -2)) - alike.diagonal(dim1=-2, dim2=-1).sum(-1)) / (count**2 - count)


def _spread(size: int, count: int) -> list[int]:
    """Up to ``count`` indices, evenly over ``size``."""
    count = min(size, count)
    return [index * size // count for index in range(count)]
