"""Alignment, representation, controls, path diagnostics, theory: what needs only a family and its evaluation set."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from torch import Tensor

import sgfi
from sgfi.evaluation import controls, paths
from sgfi.evaluation import theory as bridge
from sgfi.evaluation.representation import reencoding, separation
from sgfi.evaluation.rows import Rows
from sgfi.evaluation.selectivity import selectivity
from sgfi.evaluation.stability import node_means
from sgfi.evaluation.stability import stability as travelling
from sgfi.evaluation.statistics import spearman
from sgfi.experiments.cases import Case
from sgfi.experiments.measures.estimators import MAPS_ALONE, by_estimator
from sgfi.experiments.measures.registry import (
    Depths,
    Table,
    alignment_of,
    boundaries_at,
    measure,
    merged,
    over_batches,
)
from sgfi.inversion import STAGES, Estimator


@measure()
def alignment(
    case: Case,
    *,
    stages: Sequence[str] = STAGES,
    target: str | None = None,
    images: int | None = None,
    estimators: Sequence[str] = MAPS_ALONE,
) -> Table:
    """Every alignment metric of the full-target inverse, for raw, first and final."""

    def take(estimator: Estimator) -> Table:
        def each(x: Tensor) -> Rows:
            return {stage: alignment_of(case, estimator, x, target=target, stage=stage) for stage in stages}

        return over_batches(case, images, each)

    return by_estimator(case, estimators, take)


@measure()
def representation(case: Case, *, images: int | None = None, estimators: Sequence[str] = MAPS_ALONE) -> Table:
    """Re-encoding cosine, its random-pair null and the ROC AUC between them."""

    def take(estimator: Estimator) -> Table:
        table = over_batches(case, images, lambda x: reencoding(estimator, sgfi.invert(estimator, x), x))
        return merged(table, separation(table))

    return by_estimator(case, estimators, take)


# Controls and diagnostics that need nothing but an estimator and a batch.


def _of_estimator(control: Callable[..., Rows], *shown: str, then: Callable[[Any], Table] | None = None) -> None:
    """Register a function of (estimator or family, x, options...) under its name."""
    first, _, *options = inspect.signature(control).parameters.values()

    def take(case: Case, *, images: int | None = None, estimators: Sequence[str] = MAPS_ALONE, **chosen: Any) -> Table:
        def of(estimator: Estimator) -> Table:
            table = over_batches(case, images, lambda x: control(estimator, x, **chosen))
            return merged(table, then(table)) if then else table

        return by_estimator(case, estimators, of)

    keyword = [option.replace(kind=option.KEYWORD_ONLY) for option in options]
    own = [p for p in inspect.signature(take).parameters.values() if p.kind is not p.VAR_KEYWORD]
    own = own if first.annotation == "Estimator" else [p for p in own if p.name != "estimators"]
    take.__signature__ = inspect.Signature([*own, *keyword])  # type: ignore[attr-defined]
    take.__doc__ = control.__doc__
    take.__name__ = control.__name__
    measure(*shown)(take)


for _control in (
    *(controls.zero, controls.shuffles, controls.swap, controls.channel_diversity, selectivity, controls.source_noise),
    *(controls.linearity, controls.recomposition, controls.composition, controls.public_path),
    *(controls.true_child_oracle, controls.perturbations),
):
    _of_estimator(_control)
_of_estimator(controls.interpolation, then=controls.crossover)
_of_estimator(paths.mechanism, "all nodes")


@measure("path", "lowest quartile", "Spearman")
def faithfulness(
    case: Case,
    *,
    probes: int = 7,
    nodes: Depths = (),
    images: int | None = None,
    estimators: Sequence[str] = MAPS_ALONE,
) -> Table:
    """Path NMSE on matched and shuffled geometry, node win, state margin and branch cosine; the lowest quartile.

    ``nodes``: which boundaries are probed, by number or name; without any ``probes`` of them, evenly spread, the input
    left out.
    """
    probed = boundaries_at(case, nodes) or paths.probes(case.plan, probes)

    def take(estimator: Estimator) -> Table:
        table = over_batches(case, images, lambda x: paths.faithfulness(estimator, x, probed, case.plan))
        return table | paths.summary(table["path"])

    return by_estimator(case, estimators, take)


@measure()
def failures(case: Case, *, below: float = 0.5, images: int | None = None) -> Table:
    """Share of images whose low-frequency, high-frequency or colour alignment is weak, and their pixel cosine."""
    final = over_batches(case, images, lambda x: {"final": alignment_of(case, case.family, x)})["final"]
    parts = {"low": "low_cosine", "high": "high_cosine", "colour": "chroma_cosine"}
    weak = {kind: [value < below for value in final[score]] for kind, score in parts.items() if score in final}
    weak["none of these"] = [not any(flags) for flags in zip(*weak.values(), strict=True)]
    return {
        kind: {
            "share": [float(flag) for flag in flags],
            "pixel_cosine": [c for c, flag in zip(final["pixel_cosine"], flags, strict=True) if flag],
        }
        for kind, flags in weak.items()
    }


@measure("all nodes", "input", "Spearman")
def stability(case: Case, *, iterations: int = 20, images: int | None = 16) -> Table:
    """Error, defect, exactness of the recursion, gains and path bound at every node, and what the gains rank.

    *All nodes* has one number a node, not one an input: its interval is over nodes.
    """
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
