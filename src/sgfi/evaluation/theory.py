"""The theory bridge: a projected local problem in which Wiener inverse and natural adjoint can both be written down.

At one operating point the parent's deviations are projected onto the leading directions of its calibration states and
the child's onto the image of these under J. There ``Sigma_v J* Sigma_u^-1`` (the LMMSE estimator) and
``M_v^-1 J* M_u`` with precision metrics (the natural adjoint) are the same matrix; the Euclidean adjoint is not, a
rescaled one is not, and the deployed ``G J* (. / C)`` is a surrogate (eq:wiener_natural_equivalence).
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from sgfi.derivatives import Linearisation
from sgfi.errors import QueryError
from sgfi.evaluation.metrics import nmse, pixel_cosine, relative_error
from sgfi.evaluation.representation import forward_states
from sgfi.evaluation.rows import Rows
from sgfi.inversion import MapFamily

NOISE = 0.01
"""Variance of the child's noise as a share of the mean variance that reaches it."""


@torch.no_grad()
def directions(family: MapFamily, batches: Iterable[Tensor], node: str, count: int) -> tuple[Tensor, Tensor]:
    """Leading directions (d, k) of a node's deviations over calibration inputs, and their variances (k,)."""
    states = torch.cat([forward_states(family.graph, x, [node])[node].flatten(1).double() for x in batches])
    if len(states) <= count:
        raise QueryError(f"more than {count} inputs for as many directions", str(len(states)), "Ask for fewer.")
    _, sizes, rows = torch.linalg.svd(states - states.mean(0), full_matrices=False)
    return rows[:count].T, sizes[:count].square() / len(states)


@torch.no_grad()
def local_oracle(
    family: MapFamily, x: Tensor, node: str, basis: tuple[Tensor, Tensor], draws: int = 256, seed: int = 0
) -> Rows:
    """Held-out perturbations at every operating point of ``x`` (B, ...): method -> one score per operating point."""
    per_point = [_at_point(family, image, node, basis, draws, seed + i) for i, image in enumerate(x.split(1))]
    return {
        method: {score: torch.tensor([scores[method][score] for scores in per_point]) for score in row}
        for method, row in per_point[0].items()
    }


def _at_point(
    family: MapFamily, x: Tensor, node: str, basis: tuple[Tensor, Tensor], draws: int, seed: int
) -> dict[str, dict[str, float]]:
    plan = family.plan
    parent, variances = basis
    children = plan.children(node)
    point = Linearisation(plan.graph, {node: children}, x)
    local = point.at(node)
    like = local.source.detach()
    pushed = local.jvp(parent.T.reshape(-1, *like.shape).to(like))  # (k, 1, ...) per child
    images = torch.cat([output.reshape(len(output), -1).double() for output in pushed], 1).T  # (d_u, k)
    child, _ = torch.linalg.qr(images)  # (d_u, k)
    jacobian = child.T @ images  # (k, k)
    cov_v = torch.diag(variances)
    reached = jacobian @ cov_v @ jacobian.T
    noise = NOISE * reached.diagonal().mean()
    cov_u = reached + noise * torch.eye(len(reached), dtype=torch.float64)

    generator = torch.Generator().manual_seed(seed)
    train, held = (
        torch.randn(draws, len(variances), generator=generator, dtype=torch.float64) * variances.sqrt() for _ in "ab"
    )
    seen, observed = (
        z @ jacobian.T + noise.sqrt() * torch.randn(z.shape, generator=generator, dtype=torch.float64)
        for z in (train, held)
    )
    lmmse = cov_v @ jacobian.T @ torch.linalg.inv(cov_u)
    metric_v, metric_u = torch.linalg.inv(cov_v), torch.linalg.inv(cov_u)
    natural = torch.linalg.solve(metric_v, jacobian.T @ metric_u)
    raw = seen @ jacobian
    scale = (raw * train).sum() / raw.square().sum()

    def deployed(rows: Tensor) -> Tensor:
        """G of the pulled-back mean seed, in the parent's directions."""
        sizes = [output[0].numel() for output in local.outputs]
        seeds = [
            part.reshape(len(rows), *output.shape).to(like) / plan.boundary[u].channels
            for part, output, u in zip((rows @ child.T).split(sizes, 1), local.outputs, children, strict=True)
        ]
        return family.maps[node][0](local.vjp(seeds)).reshape(len(rows), -1).double() @ parent

    estimates = {
        "local LMMSE": observed @ lmmse.T,
        "natural adjoint": observed @ natural.T,
        "raw adjoint": observed @ jacobian,
        "rescaled adjoint": scale * (observed @ jacobian),
        "deployed G": deployed(observed),
    }
    rows = {
        method: {
            "nmse": float((estimate - held).square().sum() / held.square().sum()),
            "cosine": float(pixel_cosine(estimate, held).mean()),
            "relative_error": float(relative_error(estimate, held).mean()),
        }
        for method, estimate in estimates.items()
    }
    rows["natural adjoint"]["difference_from_lmmse"] = float(nmse(natural[None], lmmse[None]).sqrt())
    return rows
