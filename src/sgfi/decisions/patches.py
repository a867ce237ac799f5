"""The coordinate experiment: every cell of a tensor inverted, and, independently, every cell edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from sgfi.decisions.coordinates import (
    MEASURES,
    CoordGrid,
    Support,
    cell_scores,
    coord_grid,
    intervene_all,
    query_all,
    summarise,
    support,
)
from sgfi.decisions.interventions import PROTOCOLS, replacement_of
from sgfi.decisions.ranking import rank
from sgfi.decisions.readout import Split
from sgfi.decisions.studies import plain
from sgfi.errors import QueryError
from sgfi.evaluation.statistics import Contrast, Correlation, Interval, contrast, correlation
from sgfi.inversion import MapFamily
from sgfi.settings import JsonSettings

ROUNDING = 1e-6


@dataclass(frozen=True)
class CoordinateSettings(JsonSettings):
    """What is asked. JSON-able, so that a file can declare an experiment."""

    depths: tuple[str, ...] = ()
    """Boundaries of the family, shallow to deep; empty: three of them."""
    prefix: int | None = None
    """Tokens before the patches; None: inferred from the picture's size."""
    inversions: bool = True
    interventions: bool = True
    protocol: str = "zero"
    stage: str = "final"
    chunk: int | None = None
    """Queries stacked at a time; None: all of them."""
    output: str | None = None
    seed: int = 0
    resamples: int = 20_000

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS or not (self.inversions or self.interventions):
            raise QueryError(
                f"a protocol among {list(PROTOCOLS)}, and inversions or interventions",
                f"{self.protocol!r}, inversions={self.inversions}, interventions={self.interventions}",
                "Mend the settings.",
            )


@dataclass(frozen=True, eq=False)
class CellOutcome:
    """One tensor over all images."""

    node: str
    grid: CoordGrid
    supports: tuple[Support, ...]
    """One an image; empty without inversions."""
    scores: np.ndarray
    """(images, Q) activation times gradient of every cell."""
    drops: np.ndarray
    """(images, Q) exact margin drop when the cell is replaced; empty without interventions."""
    reference: tuple[int, ...]
    """One cell an image, drawn with the seed: what an arbitrary cell does."""

    @property
    def matrix(self) -> np.ndarray:
        """(Q, R) the support matrix averaged over images."""
        return torch.stack([one.matrix for one in self.supports]).mean(0).numpy()

    def picked(self, which: str, image: int) -> int:
        """The cell with the greatest score (``top``), the least (``counter``), or the reference (``random``)."""
        if which == "random":
            return self.reference[image]
        return int(self.scores[image].argmax() if which == "top" else self.scores[image].argmin())


@dataclass(frozen=True, eq=False)
class CoordinateStudy:
    """Everything measured."""

    settings: CoordinateSettings
    names: tuple[str, ...]
    margin: np.ndarray
    """(images,) margin before any edit."""
    scale: np.ndarray
    """(images,) magnitude of the largest logit: what rounding is measured against."""
    depths: tuple[CellOutcome, ...]

    @property
    def _options(self) -> dict[str, Any]:
        return {"resamples": self.settings.resamples, "seed": self.settings.seed}

    def support(self, one: CellOutcome) -> dict[str, Interval]:
        """Self mass, entropy, radius and local mass with intervals over images."""
        return summarise(one.supports, **self._options) if one.supports else {}

    def effects(self, one: CellOutcome) -> dict[str, Contrast]:
        """Drop of the score-top and of the score-counter cell, each minus the random cell's."""
        rows = np.arange(len(self.names))

        def drop(which: str) -> np.ndarray:
            return one.drops[rows, [one.picked(which, int(i)) for i in rows]]

        return {which: contrast(drop(which), drop("random"), **self._options) for which in ("top", "counter")}

    def ranks(self, one: CellOutcome) -> Correlation:
        """Spearman of scores and exact drops within each image; undefined where every drop is zero.

        A drop below a millionth of the image's largest logit is rounding (a batch of edits is summed in another order
        than the single input) and counts as zero: ranks of rounding noise would be a correlation of nothing.
        """
        drops = np.where(np.abs(one.drops) <= ROUNDING * self.scale[:, None], 0.0, one.drops)
        return correlation(one.scores, drops, **self._options)

    def tables(self) -> str:
        """Markdown: support and interventions."""
        parts = []
        if self.settings.inversions:
            rows = [["tensor", "cells", "self mass", "entropy", "radius", "local 3x3 mass"], ["---"] * 6]
            for one in self.depths:
                found = self.support(one)
                cells = [str(found[name]) if name in found else "none" for name in MEASURES]
                rows.append([one.node, f"{one.grid.shape[0]}x{one.grid.shape[1]}", *cells])
            parts.append(_markdown(rows))
        if self.settings.interventions:
            rows = [["tensor", "top − random", "counter − random", "score/drop Spearman", "largest drop"], ["---"] * 5]
            for one in self.depths:
                effects, said = self.effects(one), self.ranks(one).interval
                rows.append(
                    [
                        one.node,
                        *(str(effects[which].interval) for which in ("top", "counter")),
                        "undefined" if said is None else str(said),
                        f"{np.abs(one.drops).max():.2g}",
                    ]
                )
            parts.append(_markdown(rows))
        return "\n\n".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """JSON-able, numbers to six digits."""
        return {
            "settings": asdict(self.settings),
            "images": list(self.names),
            "margin": plain(self.margin),
            "inversions": sum(len(one.supports) * one.grid.cells for one in self.depths),
            "interventions": sum(one.drops.size for one in self.depths),
            "depths": [self._depth(one) for one in self.depths],
        }

    def _depth(self, one: CellOutcome) -> dict[str, Any]:
        told: dict[str, Any] = {"node": one.node, "grid": list(one.grid.shape), "prefix": one.grid.prefix}
        if one.supports:
            told["support"] = {name: found.as_dict() for name, found in self.support(one).items()}
            told["per_image"] = [{k: plain(v) for k, v in s.measures().items()} for s in one.supports]
            told["matrix"] = plain(one.matrix)
        if one.drops.size:
            ranks = self.ranks(one)
            told["effects"] = {which: found.interval.as_dict() for which, found in self.effects(one).items()}
            told["spearman"] = None if ranks.interval is None else ranks.interval.as_dict()
            told["spearman_undefined"] = ranks.undefined
            told["drops"], told["scores"] = plain(one.drops), plain(one.scores)
        return told


def coordinate_study(
    family: MapFamily,
    x: Tensor,
    settings: CoordinateSettings | None = None,
    means: Mapping[str, Tensor] | None = None,
    names: Sequence[str] = (),
    *,
    progress: bool = False,
) -> CoordinateStudy:
    """Run the experiment on inputs (N, C, H, W)."""
    settings = settings or CoordinateSettings()
    graph, plan = family.plan.graph, family.plan
    depths = [graph.nodes.canonical(name) for name in settings.depths or default_depths(family)]
    for name in depths:
        plan.toward(name)  # an error that names the boundaries when it is none of them
    nodes = {name: plan.boundary[name].node for name in depths}
    grids = {name: coord_grid(nodes[name], x.shape[-2:], settings.prefix) for name in depths}
    supports: dict[str, list[Support]] = {name: [] for name in depths}
    scores: dict[str, list[np.ndarray]] = {name: [] for name in depths}
    drops: dict[str, list[np.ndarray]] = {name: [] for name in depths}
    margins: list[float] = []
    scales: list[float] = []
    for place in tqdm(range(len(x)), unit="image", disable=not progress):
        one = x[place : place + 1]
        ranked = rank(graph, one, list(nodes.values()), settings.output)
        decision = ranked[depths[0]].decision
        margins.append(float(decision.margin))
        scales.append(float(decision.logits.abs().max()))
        for name in depths:
            grid = grids[name]
            scores[name].append(cell_scores(ranked[name], grid)[0].double().cpu().numpy())
            if settings.inversions:
                found = query_all(family, one, grid, stage=settings.stage, chunk=settings.chunk)
                supports[name].append(support(found, grid))
            if settings.interventions:
                value = replacement_of(settings.protocol, means, name)
                effects = intervene_all(Split(graph, one, nodes[name], settings.output), grid, value)
                drops[name].append(effects.drop[:, 0].double().cpu().numpy())
    rng = np.random.default_rng(settings.seed)
    outcomes = tuple(
        CellOutcome(
            name,
            grids[name],
            tuple(supports[name]),
            np.stack(scores[name]),
            np.stack(drops[name]) if drops[name] else np.empty((0, grids[name].cells)),
            tuple(int(q) for q in rng.integers(0, grids[name].cells, len(x))),
        )
        for name in depths
    )
    titles = (*names, *(f"input {i}" for i in range(len(names), len(x))))
    return CoordinateStudy(settings, tuple(titles), np.array(margins), np.array(scales), outcomes)


def default_depths(family: MapFamily, count: int = 3) -> list[str]:
    """``count`` boundaries with coordinates, from the second one to the target."""
    fitting = [n for n in family.plan.boundaries[1:] if len(family.plan.boundary[n].node.coord_axes) in (1, 2)]
    if not fitting:
        raise QueryError("boundaries with coordinate axes", "none", "Coordinate queries need tokens or cells.")
    first = min(1, len(fitting) - 1)
    last = len(fitting) - 1
    return list(dict.fromkeys(fitting[first + round(i * (last - first) / max(count - 1, 1))] for i in range(count)))


def _markdown(rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
