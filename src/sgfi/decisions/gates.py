"""The signed gate: do the ranked groups change the decision in the direction of their sign?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sgfi.decisions.studies import DepthOutcome, Study
from sgfi.evaluation.statistics import Contrast, Interval, bootstrap, contrast, ratio
from sgfi.evaluation.tables import markdown_table


@dataclass(frozen=True)
class Line:
    """One depth and group size. Contrasts are paired within image, random repeats averaged there first."""

    node: str
    size: int
    positive: dict[str, Contrast]
    """protocol -> top-positive drop minus random drop."""
    negative: dict[str, Contrast]
    """protocol -> top-negative drop minus random drop."""
    matched: dict[str, Contrast]
    """protocol -> top-positive drop minus activation-matched drop."""
    normalised: Interval
    """Primary protocol: mean of positive minus random over the mean margin, a ratio of means: in a mean of ratios an
    image with almost no margin would outweigh all others."""
    random: Interval
    """Primary protocol: the random groups' own drop."""
    flips: dict[str, float]
    """kind -> share of the images whose prediction changes, primary protocol (random: mean over repeats)."""


@dataclass(frozen=True)
class Gate:
    """Every line, and the counts the paper's table reports."""

    lines: tuple[Line, ...]
    primary: str
    images: int

    @property
    def terminal(self) -> list[Line]:
        """The lines of the deepest tensor."""
        return [line for line in self.lines if line.node == self.lines[-1].node]

    def counts(self) -> dict[str, Any]:
        """Settings whose interval has the required sign, of how many; flip range at the largest group size."""
        largest = max(line.size for line in self.lines)
        flips = [line.flips["positive"] for line in self.lines if line.size == largest]
        above = {
            protocol: sum(line.positive[protocol].interval.above_zero for line in self.lines)
            for protocol in self.lines[0].positive
        }
        below = sum(line.negative[self.primary].interval.below_zero for line in self.terminal)
        return {
            **{f"{protocol} > 0": [count, len(self.lines)] for protocol, count in above.items()},
            "terminal negative < 0": [below, len(self.terminal)],
            f"flip range at k={largest}": [min(flips), max(flips)],
        }

    def table(self) -> str:
        """Markdown: one row per depth and size."""
        protocols = list(self.lines[0].positive)
        head = ["tensor", "k", *(f"positive − random, {p}" for p in protocols), "÷ mean margin"]
        head += [f"negative − random, {self.primary}", f"random, {self.primary}", "flips pos / rand"]
        rows = [
            [
                line.node,
                str(line.size),
                *(str(line.positive[p].interval) for p in protocols),
                str(line.normalised),
                str(line.negative[self.primary].interval),
                str(line.random),
                f"{line.flips['positive']:.2f} / {line.flips['random']:.2f}",
            ]
            for line in self.lines
        ]
        return markdown_table(head, rows)

    def summary(self) -> str:
        """Markdown: the paper's one-row table."""
        counts = self.counts()
        cells = [f"{a}/{b}" if "flip" not in name else f"{a:.3f}–{b:.3f}" for name, (a, b) in counts.items()]
        return markdown_table(["images", *counts], [[str(self.images), *cells]])

    def as_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {"counts": self.counts(), "primary": self.primary, "lines": [_line_dict(line) for line in self.lines]}


def gate(study: Study) -> Gate:
    """The gate of a study."""
    lines = [_line(study, depth, column) for depth in study.depths for column in range(len(study.settings.sizes))]
    return Gate(tuple(lines), study.settings.protocols[0], len(study.names))


def _line(study: Study, depth: DepthOutcome, column: int) -> Line:
    """``column`` is the index of the group size."""
    primary, options = study.settings.protocols[0], study.settings.bootstrap_options

    def against(kind: str, control: str) -> dict[str, Contrast]:
        return {
            protocol: contrast(kinds[kind][:, column], kinds[control][:, column], **options)
            for protocol, kinds in depth.drop.items()
        }

    drops = {kind: array[:, column].mean(axis=1) for kind, array in depth.drop[primary].items()}
    return Line(
        depth.node,
        study.settings.sizes[column],
        against("positive", "random"),
        against("negative", "random"),
        against("positive", "matched"),
        ratio(drops["positive"] - drops["random"], study.margin, **options),
        bootstrap(drops["random"], **options),
        {kind: float(np.mean(array[:, column])) for kind, array in depth.flipped[primary].items()},
    )


def curve_summary(study: Study) -> dict[str, dict[str, dict[str, Any]]]:
    """tensor -> kind -> mean deletion curve with intervals, and the area with its interval.

    Each is the mean margin left over the mean margin before any edit: a ratio of means, formed inside every resample.
    """

    def share(left: Any) -> dict[str, Any]:
        """Of the margin: (images,) fractions of each image's own -> the fraction of the mean margin."""
        return ratio(np.asarray(left) * study.margin, study.margin, **study.settings.bootstrap_options).as_dict()

    return {
        depth.node: {
            kind: {
                "deleted": list(curves[0].deleted),
                "left": [share(left) for left in zip(*(curve.left for curve in curves), strict=True)],
                "area": share([curve.area for curve in curves]),
            }
            for kind, curves in depth.curves.items()
        }
        for depth in study.depths
    }


def _line_dict(line: Line) -> dict[str, Any]:
    def record(contrasts: dict[str, Contrast]) -> dict[str, Any]:
        return {p: {**c.interval.as_dict(), "share_positive": c.positive} for p, c in contrasts.items()}

    return {
        "node": line.node,
        "size": line.size,
        "positive_minus_random": record(line.positive),
        "negative_minus_random": record(line.negative),
        "positive_minus_matched": record(line.matched),
        "normalised": line.normalised.as_dict(),
        "random": line.random.as_dict(),
        "flips": line.flips,
    }
