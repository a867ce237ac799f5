"""One query of an ``answers`` experiment drawn by all of its methods."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from sgfi.errors import QueryError
from sgfi.evaluation.removal import Trial
from sgfi.experiments.cases import Bench
from sgfi.experiments.declaration import Experiment
from sgfi.experiments.measures.contestants import Contestants, prior_of
from sgfi.experiments.measures.registry import evaluation_inputs
from sgfi.graph import Node
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.inversion import Query


@dataclass(frozen=True, eq=False)
class Exhibit:
    """One input, one query, and the picture of every method."""

    x: Tensor
    """(C, H, W)"""
    mean: Tensor
    """(C, H, W)"""
    preprocessing: Preprocessing
    query: Query
    node: Node
    drawn: tuple[tuple[str, Tensor, float], ...]
    """Method, picture (C, H, W), and the share of the feature that the picture removes at equal size."""


def exhibit(experiment: Experiment, work: str | Path, query: Query, index: int = 0) -> Exhibit:
    """The evaluated input ``index``; maps, decoders and the prior are kept in ``work`` as for a run."""
    options = experiment.measures["answers"]
    label = next(iter(experiment.variants))
    case = Bench(Path(work) / "families").case(label, experiment.settings(label))
    if case.loaded.preprocessing is None or query.target is None:
        raise QueryError("a model of pictures and a query that names its target", str(query), "Name both.")
    prior, node = prior_of(case), case.plan.graph.nodes[query.target]
    contestants = Contestants(case, prior, options["methods"], [query.target])
    x = evaluation_inputs(case, index + 2)[index : index + 1]
    trial = Trial.of(case.plan.graph, x, [query], prior)
    drawn = []
    for method in options["methods"]:
        values = contestants.values(method, [query], x)
        drawn.append((method, values[0][0], float(trial.removal(values).own)))
    return Exhibit(x[0], prior.mean_like(x), case.loaded.preprocessing, query, node, tuple(drawn))
