"""The signed gate: do the groups that the ranking chose do to the decision what their sign says?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sgfi.decisions.studies import DepthOutcome, Study
from sgfi.evaluation.statistics import Contrast, Interval, bootstrap, contrast


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
    """Primary protocol: positive minus random, in units of the mean margin. Not of each image's own: one image whose
    margin is next to nothing would be the whole mean."""
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
        told: dict[str, Any] = {
            f"{protocol} > 0": [
                sum(line.positive[protocol].interval.above_zero for line in self.lines),
                len(self.lines),
            ]
            for protocol in self.lines[0].positive
        }
        told["terminal negative < 0"] = [
            sum(line.negative[self.primary].interval.below_zero for line in self.terminal),
            len(self.terminal),
        ]
        told[f"flip range at k={largest}"] = [min(flips), max(flips)]
        return told

    def table(self) -> str:
        """Markdown: one row a depth and size."""
        protocols = list(self.lines[0].positive)
        head = ["tensor", "k", *(f"positive − random, {p}" for p in protocols), "÷ mean margin"]
        head += [f"negative − random, {self.primary}", f"random, {self.primary}", "flips pos / rand"]
        rows = [head, ["---"] * len(head)]
        for line in self.lines:
            rows.append(
                [
                    line.node,
                    str(line.size),
                    *(str(line.positive[p].interval) for p in protocols),
                    str(line.normalised),
                    str(line.negative[self.primary].interval),
                    str(line.random),
                    f"{line.flips['positive']:.2f} / {line.flips['random']:.2f}",
                ]
            )
        return "\n".join("| " + " | ".join(row) + " |" for row in rows)

    def summary(self) -> str:
        """Markdown: the paper's one-row table."""
        counts = self.counts()
        cells = [f"{a}/{b}" if "flip" not in name else f"{a:.3f}–{b:.3f}" for name, (a, b) in counts.items()]
        rows = [["images", *counts], ["---"] * (len(counts) + 1), [str(self.images), *cells]]
        return "\n".join("| " + " | ".join(row) + " |" for row in rows)

    def as_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {"counts": self.counts(), "primary": self.primary, "lines": [_line_dict(line) for line in self.lines]}


def gate(study: Study) -> Gate:
    """The gate of a study."""
    options: dict[str, Any] = {"resamples": study.settings.resamples, "seed": study.settings.seed}
    lines = [_line(study, one, place, options) for one in study.depths for place in range(len(study.settings.sizes))]
    return Gate(tuple(lines), study.settings.protocols[0], len(study.names))


def _line(study: Study, one: DepthOutcome, place: int, options: dict[str, Any]) -> Line:
    primary = study.settings.protocols[0]

    def against(kind: str, control: str) -> dict[str, Contrast]:
        return {
            protocol: contrast(kinds[kind][:, place], kinds[control][:, place], **options)
            for protocol, kinds in one.drop.items()
        }

    drops = {kind: array[:, place].mean(axis=1) for kind, array in one.drop[primary].items()}
    return Line(
        one.node,
        study.settings.sizes[place],
        against("positive", "random"),
        against("negative", "random"),
        against("positive", "matched"),
        bootstrap((drops["positive"] - drops["random"]) / study.margin.mean(), **options),
        bootstrap(drops["random"], **options),
        {kind: float(np.mean(array[:, place])) for kind, array in one.flipped[primary].items()},
    )


def curve_summary(study: Study) -> dict[str, dict[str, dict[str, Any]]]:
    """tensor -> kind -> mean deletion curve with intervals, and the area with its interval.

    Means are of the margin itself, over the mean margin before any edit: a ratio of means, not a mean of ratios.
    """
    weight = study.margin / study.margin.mean()  # (images,)
    options: dict[str, Any] = {"resamples": study.settings.resamples, "seed": study.settings.seed}
    told: dict[str, dict[str, dict[str, Any]]] = {}
    for one in study.depths:
        told[one.node] = {}
        for kind, curves in one.curves.items():
            left = np.array([curve.left for curve in curves]) * weight[:, None]  # (images, points)
            told[one.node][kind] = {
                "deleted": list(curves[0].deleted),
                "left": [bootstrap(left[:, point], **options).as_dict() for point in range(left.shape[1])],
                "area": bootstrap([curve.area for curve in curves] * weight, **options).as_dict(),
            }
    return told


def _line_dict(line: Line) -> dict[str, Any]:
    def told(contrasts: dict[str, Contrast]) -> dict[str, Any]:
        return {p: {**c.interval.as_dict(), "share_positive": c.positive} for p, c in contrasts.items()}

    return {
        "node": line.node,
        "size": line.size,
        "positive_minus_random": told(line.positive),
        "negative_minus_random": told(line.negative),
        "positive_minus_matched": told(line.matched),
        "normalised": line.normalised.as_dict(),
        "random": line.random.as_dict(),
        "flips": line.flips,
    }
