"""Theory: the projected local oracle, and how local defects travel through the graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torch import Tensor

from sgfi.evaluation import paths
from sgfi.evaluation import theory as bridge
from sgfi.evaluation.stability import node_means
from sgfi.evaluation.stability import stability as travelling
from sgfi.evaluation.statistics import spearman
from sgfi.experiments.cases import Case
from sgfi.experiments.measures.registry import Table, measure, over_batches


@measure("all nodes", "input", "Spearman")
def stability(case: Case, *, iterations: int = 20, images: int | None = 16) -> Table:
    """Error, defect, exactness of the recursion, gains and path bound at every node, and what the gains rank."""
    table = over_batches(case, images, lambda x: travelling(case.family, x, iterations))
    opened = over_batches(case, images, lambda x: paths.mechanism(case.family, x))
    del opened["all nodes"]
    means = {score: node_means(table, score) for score in next(iter(table.values()))}
    residual, first, final = (  # nodes in the same order as in the table, deepest first
        node_means(opened, score) for score in ("child_nmse_first", "state_error_first", "state_error_final")
    )
    gained = [(before - after) / before for before, after in zip(first, final, strict=True)]
    table["all nodes"] = {score: values for score, values in means.items() if score != "depth"}
    if len(residual) > 2:
        table["Spearman"] = {
            "residual_and_state_gain": spearman(residual, gained),
            "bound_and_error": spearman(means["bound"], means["error"]),
        }
    return table


@measure()
def theory(
    case: Case, *, node: str | None = None, directions: int = 32, draws: int = 256, images: int = 16, fit: int = 256
) -> Table:
    """Projected local LMMSE, natural adjoint, raw and rescaled adjoint and the deployed G on held-out perturbations."""
    name = case.plan.graph.nodes.canonical(node) if node else case.plan.fitted[len(case.plan.fitted) // 2]
    basis = bridge.directions(case.family, _first(case.calibration.batches, fit), name, directions)
    return over_batches(case, images, lambda x: bridge.local_oracle(case.family, x, name, basis, draws))


def _first(batches: Iterable[Tensor], count: int) -> Iterator[Tensor]:
    for x in batches:
        yield x[:count]
        count -= len(x)
        if count <= 0:
            return
