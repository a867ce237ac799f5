"""The coordinate experiment: every cell of a tensor inverted, and, independently, every cell edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from sgfi.decisions.studies import image_names, rounded
from sgfi.errors import QueryError
from sgfi.evaluation.statistics import Contrast, Correlation, Interval, contrast, correlation
from sgfi.evaluation.tables import markdown_table
from sgfi.inversion import Estimator
from sgfi.settings import JsonSettings

ROUNDING = 1e-6


@dataclass(frozen=True)
class CoordinateSettings(JsonSettings):
    """What is measured. JSON-able, so that a file can declare an experiment."""

    depths: tuple[str, ...] = ()
    """Targets of the estimator, shallow to deep; empty: three of them."""
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
                "Correct the settings.",
            )


@dataclass(frozen=True, eq=False)
class CellOutcome:
    """One tensor over all images."""

    node: str
    grid: CoordGrid
    supports: tuple[Support, ...]
    """One per image; empty without inversions."""
    scores: np.ndarray
    """(images, Q) activation times gradient of every cell."""
    drops: np.ndarray
    """(images, Q) exact margin drop when the cell is replaced; empty without interventions."""
    reference: tuple[int, ...]
    """One cell per image, drawn with the seed: what an arbitrary cell does."""

    @property
    def matrix(self) -> np.ndarray:
        """(Q, R) the support matrix averaged over images."""
        return torch.stack([support.matrix for support in self.supports]).mean(0).numpy()

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

    def support(self, depth: CellOutcome) -> dict[str, Interval]:
        """Self mass, entropy, radius and local mass with intervals over images."""
        return summarise(depth.supports, **self._options) if depth.supports else {}

    def effects(self, depth: CellOutcome) -> dict[str, Contrast]:
        """Drop of the score-top and of the score-counter cell, each minus the random cell's."""
        rows = np.arange(len(self.names))

        def drop(which: str) -> np.ndarray:
            return depth.drops[rows, [depth.picked(which, int(i)) for i in rows]]

        return {which: contrast(drop(which), drop("random"), **self._options) for which in ("top", "counter")}

    def ranks(self, depth: CellOutcome) -> Correlation:
        """Spearman of scores and exact drops within each image; undefined where every drop is zero.

        A drop below a millionth of the image's largest logit is rounding (a batch of edits is summed in another order
        than the single input) and counts as zero: ranks of rounding noise would be a correlation of nothing.
        """
        drops = np.where(np.abs(depth.drops) <= ROUNDING * self.scale[:, None], 0.0, depth.drops)
        return correlation(depth.scores, drops, **self._options)

    def tables(self) -> str:
        """Markdown: support and interventions."""
        parts = []
        if self.settings.inversions:
            rows = []
            for depth in self.depths:
                summary = self.support(depth)
                cells = [str(summary.get(name, "none")) for name in MEASURES]
                rows.append([depth.node, f"{depth.grid.shape[0]}x{depth.grid.shape[1]}", *cells])
            parts.append(markdown_table(["tensor", "cells", "self mass", "entropy", "radius", "local 3x3 mass"], rows))
        if self.settings.interventions:
            rows = [
                [
                    depth.node,
                    *(str(effect.interval) for effect in self.effects(depth).values()),
                    str(self.ranks(depth).interval or "undefined"),
                    f"{np.abs(depth.drops).max():.2g}",
                ]
                for depth in self.depths
            ]
            head = ["tensor", "top − random", "counter − random", "score/drop Spearman", "largest drop"]
            parts.append(markdown_table(head, rows))
        return "\n\n".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """JSON-able, numbers to six digits."""
        return {
            "settings": self.settings.as_dict(),
            "images": list(self.names),
            "margin": rounded(self.margin),
            "inversions": sum(len(depth.supports) * depth.grid.cells for depth in self.depths),
            "interventions": sum(depth.drops.size for depth in self.depths),
            "depths": [self._depth(depth) for depth in self.depths],
        }

    def _depth(self, depth: CellOutcome) -> dict[str, Any]:
        record: dict[str, Any] = {"node": depth.node, "grid": list(depth.grid.shape), "prefix": depth.grid.prefix}
        if depth.supports:
            record["support"] = {name: interval.as_dict() for name, interval in self.support(depth).items()}
            record["per_image"] = [{k: rounded(v) for k, v in s.measures().items()} for s in depth.supports]
            record["matrix"] = rounded(depth.matrix)
        if depth.drops.size:
            ranks = self.ranks(depth)
            record["effects"] = {which: effect.interval.as_dict() for which, effect in self.effects(depth).items()}
            record["spearman"] = None if ranks.interval is None else ranks.interval.as_dict()
            record["spearman_undefined"] = ranks.undefined
            record["drops"], record["scores"] = rounded(depth.drops), rounded(depth.scores)
        return record


def coordinate_study(
    estimator: Estimator,
    x: Tensor,
    settings: CoordinateSettings | None = None,
    means: Mapping[str, Tensor] | None = None,
    names: Sequence[str] = (),
    *,
    progress: bool = False,
) -> CoordinateStudy:
    """Run the experiment on inputs (N, C, H, W)."""
    settings = settings or CoordinateSettings()
    graph = estimator.graph
    nodes = {node.name: node for node in map(estimator.node, settings.depths or default_depths(estimator))}
    depths = list(nodes)
    grids = {name: coord_grid(nodes[name], x.shape[-2:], settings.prefix) for name in depths}
    parts: dict[str, list[tuple[list[Support], np.ndarray, np.ndarray]]] = {name: [] for name in depths}
    decisions = []
    for index in tqdm(range(len(x)), unit="image", disable=not progress):
        image = x[index : index + 1]
        ranked = rank(graph, image, list(nodes.values()), settings.output)
        decisions.append(ranked[depths[0]].decision)
        for name, grid in grids.items():
            supports, drops = [], np.empty((0, grid.cells))
            if settings.inversions:
                inverses = query_all(estimator, image, grid, stage=settings.stage, chunk=settings.chunk)
                supports.append(support(inverses, grid))
            if settings.interventions:
                value = replacement_of(settings.protocol, means, name)
                effects = intervene_all(Split(graph, image, nodes[name], settings.output), grid, value)
                drops = effects.drop.T.double().cpu().numpy()
            parts[name].append((supports, cell_scores(ranked[name], grid).double().cpu().numpy(), drops))
    rng = np.random.default_rng(settings.seed)
    outcomes = []
    for name, grid in grids.items():
        every, scores, drops = zip(*parts[name], strict=True)
        reference = tuple(other_cell(row, rng) for row in np.concatenate(scores))
        kept = tuple(own for image in every for own in image)
        outcomes.append(CellOutcome(name, grid, kept, np.concatenate(scores), np.concatenate(drops), reference))
    margins = np.array([float(decision.margin) for decision in decisions])
    scales = np.array([float(decision.logits.abs().max()) for decision in decisions])
    return CoordinateStudy(settings, image_names(names, len(x)), margins, scales, tuple(outcomes))


def other_cell(scores: np.ndarray, rng: np.random.Generator) -> int:
    """A random cell other than those of the highest and the lowest score, where there are others."""
    others = np.setdiff1d(np.arange(len(scores)), [scores.argmax(), scores.argmin()])
    return int(rng.choice(others if len(others) else np.arange(len(scores))))


def default_depths(estimator: Estimator, count: int = 3) -> list[str]:
    """``count`` targets with coordinates, from the second to the deepest."""
    fitting = [name for name in estimator.targets if len(estimator.node(name).coord_axes) in (1, 2)]
    if not fitting:
        raise QueryError("targets with coordinate axes", "none", "Coordinate queries need tokens or cells.")
    first = min(1, len(fitting) - 1)
    last = len(fitting) - 1
    return list(dict.fromkeys(fitting[first + round(i * (last - first) / max(count - 1, 1))] for i in range(count)))
