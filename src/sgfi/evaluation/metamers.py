"""Does the network tell metamers from the input? Posterior samples, run through it.

``lens.samples`` draws inputs that agree with ``x`` in what the queried feature registered, to first order. Of such a
sample ``x'`` the *change* of the queried feature is ``|P (H(x') - H(x))| / |P (H(x) - H(mu))|``, and that of the rest
of the tensor the same with ``I - P``. A metamer changes the rest and leaves the feature. Beside every sample stands a
control: a draw of the prior, added to ``x``, of the same length as ``x' - x``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sgfi.errors import QueryError
from sgfi.evaluation.stacks import TINY, checked_queries, lengths, scaled, state
from sgfi.inversion import Query, Selection
from sgfi.natural import NaturalInverse, reference_state

CONTROL_SEED = 5000
"""Added to a sample's seed: controls are other draws than the samples'."""


@dataclass(frozen=True, eq=False)
class Metamers:
    """Changes of a tensor under samples and under controls of the same length, all (count, B)."""

    own: Tensor
    """Of the queried feature, relative to its deviation ``H(x) - H(mu)``."""
    others: Tensor
    """Of the rest of the tensor, relative to its own deviation; NaN where the whole tensor is asked for."""
    control_own: Tensor
    control_others: Tensor
    length: Tensor
    """Of the change of the input, relative to ``x - mu``."""

    @property
    def spared(self) -> Tensor:
        """(count, B) how much less the feature changes than the rest, over the same of the control: 1 by chance,
        NaN where there is no rest."""
        sample = self.own / self.others.clamp_min(TINY)
        return sample / (self.control_own / self.control_others.clamp_min(TINY)).clamp_min(TINY)


@torch.no_grad()
def metamers(
    lens: NaturalInverse,
    x: Tensor,
    query: Query,
    count: int = 8,
    size: float | None = None,
    corrections: int = 0,
    seed: int = 0,
) -> Metamers:
    """Samples of one query on inputs ``(B, ...)``, run through the network.

    ``size``: the change ``x' - x`` is scaled to this share of the length of ``x - mu``; ``None`` leaves it whole.
    Samples hold to first order, and a whole change is as large as the difference of two inputs. ``corrections``: as
    in ``lens.samples``.
    """
    (query,) = checked_queries(lens.graph, x, [query], lens.prior)
    if size is not None and not (isinstance(size, (int, float)) and 0 < size < 10):
        raise QueryError("a positive size", repr(size), "Give a share of the length of x - mu, or None.")
    node = lens.node(query.target)
    mu = lens.prior.mean_like(x)
    changes = lens.samples(x, query, count, seed, corrections) - x  # (count, B, *input)
    whole = lengths((x - mu).unsqueeze(0)).clamp_min(TINY)
    if size is not None:
        changes = scaled(changes, size * whole)
    draws = lens.prior.draw(count, x, seed + CONTROL_SEED).unsqueeze(1).expand_as(changes)
    controls = scaled(draws, lengths(changes))
    inputs = torch.cat([x, (x + changes).flatten(0, 1), (x + controls).flatten(0, 1)])
    states = state(lens.graph, node.name, inputs)
    at_x, rest = states[: len(x)], states[len(x) :].unflatten(0, (2, count, len(x)))
    usual = reference_state(lens.graph, node.name, x, lens.prior)
    selection = query.selection(node, x.device)
    (own, others), (control_own, control_others) = (_changes(part - at_x, at_x - usual, selection) for part in rest)
    return Metamers(own, others, control_own, control_others, lengths(changes) / whole)


def _changes(difference: Tensor, deviation: Tensor, selection: Selection) -> tuple[Tensor, Tensor]:
    """(count, B) inside and outside of the query."""
    inside, base = selection.project(difference), selection.project(deviation)
    pairs = (inside, base), (difference - inside, deviation - base)
    own, others = (lengths(top) / lengths(bottom.unsqueeze(0)).clamp_min(TINY) for top, bottom in pairs)
    everything = selection.count == deviation[0].numel()
    return own, torch.full_like(others, torch.nan) if everything else others
