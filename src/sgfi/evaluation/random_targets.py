"""How alike the pictures of random targets are to an answer: the same for every seed, or with the error that is left.

Answers are linear in the target, ``M t``. Of few numbers, M of every number gives the picture of any target: thousands
of random ones are compared. Of many, a few are solved for. Where the estimator offers ``adjoint``, ``M* u`` for the
answer's direction u says exactly how far random pictures go along it, and draws only how far they go elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sgfi.errors import QueryError
from sgfi.evaluation.metrics import pixel_cosine
from sgfi.evaluation.stacks import lengths, noise, scaled
from sgfi.inversion import Estimator, Query, Selection

FEW = 20
"""Numbers up to which M is asked for whole, of an estimator that does not say when that costs nothing."""
SEVERAL = 64
"""The same where that costs nothing; of a longer query as many draws."""
MIXED = 4096
"""Random targets whose pictures are mixed from those of single numbers."""
DRAWS, FREE_DRAWS = 3, 12
"""Random targets that are solved for; where each costs a reverse pass and no solve."""


@dataclass(frozen=True, eq=False)
class RandomTargets:
    """Targets to ask an estimator about, from whose pictures the control is made."""

    states: Tensor
    """(n, B, *target) one for each selected number, or draws."""
    mix: Tensor | None
    """(B, k) of the numbers of one draw, where ``states`` has each of them once."""

    def control(self, pictures: Tensor, answer: Tensor, along: Tensor | None = None) -> RandomControl:
        """From the pictures of ``states``, (n, B, *input), and the answer, (B, *input).

        ``along`` (B,) is the length of ``M* u`` per unit of length that the draws have, where it is known.
        """
        if self.mix is not None:
            cosines = _mixed(pictures, answer)
            drawn = torch.einsum("bk,kb...->b...", self.mix.to(pictures), pictures)
        else:
            cosines = torch.stack([pixel_cosine(picture, answer) for picture in pictures]).abs()
            cosines = cosines if along is None else _expected(pictures, cosines, along)
            drawn = pictures[0]
        error = cosines.std(0) / len(cosines) ** 0.5
        return RandomControl(cosines.mean(0), error, len(cosines), drawn)


@dataclass(frozen=True, eq=False)
class RandomControl:
    """What random targets say about an answer."""

    cosine: Tensor
    """(B,) mean absolute cosine of their pictures with the answer."""
    error: Tensor
    """(B,) its standard error."""
    draws: int
    picture: Tensor
    """(B, *input) of the first draw."""


def random_targets(
    estimator: Estimator, query: Query, states: Sequence[Tensor], chosen: Sequence[Selection], seed: int
) -> RandomTargets | None:
    """As many as can be afforded; ``states`` and ``chosen`` are of the tensors that the query asks about.

    ``None`` for a query of one number, whose picture any target can only scale.
    """
    numbers = sum(selection.count for selection in chosen)
    if numbers < 2:
        return None
    free = getattr(estimator, "factorised", None)  # whether more targets cost nothing
    costless = free is not None and free(query)
    if not query.also and (costless or free is None) and numbers <= (SEVERAL if costless else FEW):
        rows = chosen[0].rows(torch.arange(numbers, device=states[0].device), states[0])
        mix = chosen[0].select(noise_like(states[0], chosen[0], seed))
        return RandomTargets(rows.unsqueeze(1).expand(-1, *states[0].shape), mix)
    draws = SEVERAL if costless else DRAWS if free is not None else FREE_DRAWS
    parts = list(enumerate(zip(states, chosen, strict=True)))
    return RandomTargets(
        torch.stack(
            [laid_out([noise_like(*own, seed + draw + draws * part) for part, own in parts]) for draw in range(draws)]
        ),
        None,
    )


def along_answer(
    estimator: Estimator, x: Tensor, query: Query, answer: Tensor, targets: RandomTargets
) -> Tensor | None:
    """(B,) root mean square of how far the pictures of ``targets``, were there very many, go along the answer."""
    adjoint = getattr(estimator, "adjoint", None)
    if adjoint is None or targets.mix is not None:
        return None
    directions = adjoint(x, query, scaled(answer, torch.ones_like(lengths(answer, 1))))
    parts = [part.selection(estimator.node(part.target), x.device) for part in query.parts]
    sizes = [part.mask.numel() for part in parts]
    pieces = zip(directions.flatten(1).split(sizes, 1), targets.states[0].flatten(1).split(sizes, 1), strict=True)
    far = [own.norm(dim=1).double() * drawn.norm(dim=1).double() for own, drawn in pieces]  # each as long as its state
    return torch.stack([each / part.count**0.5 for each, part in zip(far, parts, strict=True)]).norm(dim=0)


def laid_out(states: Sequence[Tensor]) -> Tensor:
    """(B, *target), or for a group (B, numbers of all its tensors)."""
    return states[0] if len(states) == 1 else torch.cat([state.flatten(1) for state in states], 1)


def noise_like(state: Tensor, selection: Selection, seed: int) -> Tensor:
    """Gaussian noise where the query looks, as long as the state."""
    if not torch.isfinite(state).all():
        raise QueryError("a finite target", "NaN or infinity", "Look for overflow in the model.")
    return scaled(selection.project(noise(state, seed)), lengths(selection.project(state), 1))


def _mixed(pictures: Tensor, answer: Tensor) -> Tensor:
    """(draws, B) absolute cosines of random mixtures of the pictures of k numbers, (k, B, *input)."""
    draws = torch.randn(MIXED, len(pictures), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    cosines = []
    for own, picture in zip(pictures.transpose(0, 1).flatten(2).cpu(), answer.flatten(1).cpu(), strict=True):
        numbers = own.double()  # (k, N)
        inside = ((draws @ (numbers @ numbers.mT)) * draws).sum(1).clamp_min(0).sqrt()
        both = inside * picture.double().norm()
        along = (draws @ (numbers @ picture.double())).abs()
        cosines.append(torch.where(both > 0, along / both.clamp_min(torch.finfo(along.dtype).tiny), 0.0))
    return torch.stack(cosines, 1).clamp_max(1).to(answer)


def _expected(pictures: Tensor, cosines: Tensor, along: Tensor) -> Tensor:
    """(n, B) expected absolute cosine of a picture that goes ``along`` times a normal number along the answer, and as
    far elsewhere as each of the draws."""
    across = pictures.double().flatten(2).norm(dim=2) * (1 - cosines.double().square()).clamp_min(0).sqrt()  # (n, B)
    levels = (torch.arange(500, dtype=torch.float64, device=along.device) + 0.5) / 500
    far = torch.special.ndtri(levels).reshape(-1, 1, 1) * along
    return (far.abs() / (far.square() + across.square()).sqrt().clamp_min(1e-300)).mean(0).to(cosines)
