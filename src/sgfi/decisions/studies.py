"""The prediction-conditioned experiment: rank, group, invert, and, independently, intervene.

Two branches leave the ranking and never meet. One inverts each group with an estimator. The other edits the same
channels in the original representation and runs the original model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from sgfi.decisions.groups import KINDS, Groups, choose
from sgfi.decisions.interventions import PROTOCOLS, Curve, Edit, deletion, deletion_counts, intervene, replacement_of
from sgfi.decisions.ranking import rank
from sgfi.decisions.readout import Split, decide
from sgfi.errors import DataError, QueryError
from sgfi.evaluation.metrics import pixel_cosine
from sgfi.graph import Node
from sgfi.inversion import Estimator, Query, sweep
from sgfi.settings import JsonSettings

SIZES = (1, 4, 8, 16)


@dataclass(frozen=True)
class DecisionSettings(JsonSettings):
    """What is compared. JSON-able, so that a file can declare an experiment."""

    depths: tuple[str, ...] = ()
    """Tensors to study, shallow to deep; empty: four of the estimator's targets."""
    sizes: tuple[int, ...] = ()
    """Of the groups; empty: those of 1, 4, 8, 16 that leave as many other channels in every tensor."""
    repeats: int = 20
    """Random groups per image."""
    protocols: tuple[str, ...] = PROTOCOLS
    """The first is the primary one."""
    curve_repeats: int = 5
    """Random orders behind the random deletion curve; 0: no curves."""
    inversions: bool = True
    """Also invert every group (the first random one) and record how it aligns with the input."""
    output: str | None = None
    """Name of the logits; None: the model's own output."""
    seed: int = 0
    resamples: int = 20_000

    def __post_init__(self) -> None:
        whole = all(isinstance(size, int) and size >= 1 for size in self.sizes)
        if not whole or sorted(set(self.sizes)) != list(self.sizes):
            raise QueryError("group sizes in rising order", str(list(self.sizes)), "For example 1, 4, 8, 16.")
        if self.repeats < 1 or not set(self.protocols) <= set(PROTOCOLS) or not self.protocols:
            raise QueryError(
                f"at least one repeat and protocols among {list(PROTOCOLS)}",
                f"{self.repeats} and {list(self.protocols)}",
                "Correct the settings.",
            )

    @property
    def bootstrap_options(self) -> dict[str, Any]:
        return {"resamples": self.resamples, "seed": self.seed}


@dataclass(frozen=True, eq=False)
class DepthOutcome:
    """One tensor. Arrays are (images, sizes, repeats); only ``random`` has more than one repeat."""

    node: str
    channels: int
    drop: Mapping[str, Mapping[str, np.ndarray]]
    """protocol -> kind -> margin drops."""
    flipped: Mapping[str, Mapping[str, np.ndarray]]
    groups: tuple[Groups, ...]
    """One per image."""
    curves: Mapping[str, Sequence[Curve]] = field(default_factory=dict)
    """kind -> one curve per image, primary protocol; ``random`` averages its orders."""
    alignment: Mapping[str, np.ndarray] = field(default_factory=dict)
    """kind -> (images, sizes) pixel cosine of the group's inverse with the input: descriptive."""


@dataclass(frozen=True, eq=False)
class Study:
    """Everything measured, image by image."""

    settings: DecisionSettings
    names: tuple[str, ...]
    top: tuple[int, ...]
    second: tuple[int, ...]
    margin: np.ndarray
    """(images,) margin before any edit."""
    depths: tuple[DepthOutcome, ...]

    def as_dict(self) -> dict[str, Any]:
        """JSON-able, numbers to six digits."""
        return {
            "settings": self.settings.as_dict(),
            "images": [
                {"name": n, "top": t, "second": s, "margin": rounded(m)}
                for n, t, s, m in zip(self.names, self.top, self.second, self.margin, strict=True)
            ],
            "interventions": sum(
                array.size for depth in self.depths for kinds in depth.drop.values() for array in kinds.values()
            ),
            "inversions": sum(array.size for depth in self.depths for array in depth.alignment.values()),
            "curves": sum(len(curves) for depth in self.depths for curves in depth.curves.values()),
            "depths": [_depth_dict(depth) for depth in self.depths],
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Study:
        """What :meth:`as_dict` gave, to its six digits: summaries can be made of it again. Which channels the random
        groups had is not in it."""
        try:
            columns = zip(*((i["name"], i["top"], i["second"], i["margin"]) for i in record["images"]), strict=True)
            names, top, second, margin = columns
            depths = tuple(map(_depth_of, record["depths"]))
            return cls(DecisionSettings.from_dict(record["settings"]), names, top, second, np.array(margin), depths)
        except (KeyError, TypeError, ValueError) as error:
            got = f"{type(error).__name__}: {error}"
            raise DataError("the study of a file that sgfi decide wrote", got, "Name its folder.") from error


def study(
    estimator: Estimator,
    x: Tensor,
    means: Mapping[str, Tensor] | None = None,
    settings: DecisionSettings | None = None,
    names: Sequence[str] = (),
    *,
    progress: bool = False,
) -> Study:
    """Run the experiment on inputs (N, ...); ``means`` are the calibration means the primary protocol needs."""
    settings = settings or DecisionSettings()
    graph = estimator.graph
    depths = [graph.nodes.canonical(name) for name in settings.depths or default_depths(estimator)]
    nodes = [estimator.node(name) if name in estimator.targets else graph.nodes[name] for name in depths]
    settings = replace(settings, sizes=settings.sizes or _default_sizes(nodes))
    decision = decide(graph, x, settings.output)
    outcomes: dict[str, list[DepthOutcome]] = {name: [] for name in depths}
    for index in tqdm(range(len(x)), unit="image", disable=not progress):
        image = x[index : index + 1]
        ranked = rank(graph, image, nodes, settings.output)
        for node in nodes:
            score = ranked[node.name]
            seed = int(np.random.SeedSequence([settings.seed, index, depths.index(node.name)]).generate_state(1)[0])
            groups = choose(score.channels[0], score.activation[0], settings.sizes[-1], settings.repeats, seed)
            split = Split(graph, image, node, settings.output)
            order = [int(channel) for channel in score.channels[0].argsort(descending=True, stable=True)]
            outcomes[node.name].append(_image_outcome(estimator, split, groups, order, means, settings, seed))
    return Study(
        settings,
        image_names(names, len(x)),
        tuple(decision.top.tolist()),
        tuple(decision.second.tolist()),
        decision.margin.double().cpu().numpy(),
        tuple(_gathered(outcomes[node.name]) for node in nodes),
    )


def _default_sizes(nodes: Sequence[Node]) -> tuple[int, ...]:
    """Those of :data:`SIZES` for which the narrowest tensor has controls."""
    most = min(node.channels for node in nodes) // 2
    return tuple(size for size in SIZES if size <= most) or SIZES[:1]


def image_names(names: Sequence[str], count: int) -> tuple[str, ...]:
    """A name for each of ``count`` images; those beyond the given names are numbered."""
    return (*names, *(f"input {index}" for index in range(len(names), count)))


def default_depths(estimator: Estimator, count: int = 4) -> list[str]:
    """``count`` targets spread from shallow to deep, those with at least 32 channels (2 where none has as many)."""
    channels = {name: estimator.node(name).channels for name in estimator.targets}
    wide = [name for name in channels if channels[name] >= 2 * SIZES[-1]] or [n for n in channels if channels[n] > 1]
    if not wide:
        raise QueryError("targets with two channels or more", "none", "Groups need others to be compared with.")
    last = len(wide) - 1
    return list(dict.fromkeys(wide[round((i + 1) * last / count)] for i in range(count)))


def _image_outcome(
    estimator: Estimator,
    split: Split,
    groups: Groups,
    order: list[int],
    means: Mapping[str, Tensor] | None,
    settings: DecisionSettings,
    seed: int,
) -> DepthOutcome:
    """Of the one image of a split."""
    edited = [(kind, size, group) for kind in KINDS for size in settings.sizes for group in groups.of(kind, size)]
    drop: dict[str, dict[str, np.ndarray]] = {}
    flipped: dict[str, dict[str, np.ndarray]] = {}
    for protocol in settings.protocols:
        value = replacement_of(protocol, means, split.node.name)
        effects = intervene(split, [Edit(group) for _, _, group in edited], value)
        for kept, numbers in ((drop, effects.drop[:, 0].double()), (flipped, effects.flipped[:, 0])):
            rows = numbers.cpu().numpy()
            kept[protocol] = {
                kind: rows[[k == kind for k, _, _ in edited]].reshape(1, len(settings.sizes), -1) for kind in KINDS
            }
    curves = _curves(split, order, means, settings, seed) if settings.curve_repeats else {}
    alignment = _alignment(estimator, split, groups, settings) if settings.inversions else {}
    return DepthOutcome(split.node.name, split.node.channels, drop, flipped, (groups,), curves, alignment)


def _curves(
    split: Split, order: list[int], means: Mapping[str, Tensor] | None, settings: DecisionSettings, seed: int
) -> dict[str, list[Curve]]:
    """Deletion of the whole tensor, channel by channel, in three orders."""
    rng = np.random.default_rng(seed + 1)
    shuffled = [[int(c) for c in rng.permutation(len(order))] for _ in range(settings.curve_repeats)]
    value = replacement_of(settings.protocols[0], means, split.node.name)
    orders = [order, order[::-1], *shuffled]
    positive, negative, *random = deletion(split, orders, value, deletion_counts(len(order)))
    left = tuple(float(v) for v in np.mean([curve.left for curve in random], axis=0))
    return {"positive": [positive], "negative": [negative], "random": [Curve(positive.deleted, left)]}


def group_inverses(
    estimator: Estimator, x: Tensor, node: str, groups: Groups, sizes: Sequence[int]
) -> dict[str, Tensor]:
    """The inversion branch: every group of one input (1, ...) inverted in one sweep: kind -> (sizes, *input).

    Of the random groups the first. Values as the estimator gives them: deviations from its origin.
    """
    queries = [Query(node, groups.of(kind, size)[0]) for kind in KINDS for size in sizes]
    inverses = torch.cat([inverse.value for inverse in sweep(estimator, x, queries)])
    return dict(zip(KINDS, inverses.split(len(sizes)), strict=True))


def _alignment(estimator: Estimator, split: Split, groups: Groups, settings: DecisionSettings) -> dict[str, np.ndarray]:
    inverses = group_inverses(estimator, split.x, split.node.name, groups, settings.sizes)
    deviation = split.x - estimator.origin
    return {kind: pixel_cosine(own, deviation.expand_as(own)).cpu().numpy()[None] for kind, own in inverses.items()}


def _gathered(images: list[DepthOutcome]) -> DepthOutcome:
    """The outcomes of single images as one."""

    def joined(tables: list[Mapping[str, Mapping[str, np.ndarray]]]) -> dict[str, dict[str, np.ndarray]]:
        return {p: {k: np.concatenate([table[p][k] for table in tables]) for k in KINDS} for p in tables[0]}

    return replace(
        images[0],
        drop=joined([image.drop for image in images]),
        flipped=joined([image.flipped for image in images]),
        groups=tuple(groups for image in images for groups in image.groups),
        curves={kind: [curve for image in images for curve in image.curves[kind]] for kind in images[0].curves},
        alignment={k: np.concatenate([image.alignment[k] for image in images]) for k in images[0].alignment},
    )


def _depth_dict(depth: DepthOutcome) -> dict[str, Any]:
    return {
        "node": depth.node,
        "channels": depth.channels,
        "drop": {p: {k: rounded(a) for k, a in kinds.items()} for p, kinds in depth.drop.items()},
        "flipped": {p: {k: a.astype(int).tolist() for k, a in kinds.items()} for p, kinds in depth.flipped.items()},
        "groups": [{k: list(getattr(g, k)) for k in ("positive", "negative", "matched")} for g in depth.groups],
        "deleted": rounded(next(iter(depth.curves.values()))[0].deleted) if depth.curves else [],
        "curves": {kind: [rounded(curve.left) for curve in curves] for kind, curves in depth.curves.items()},
        "alignment": {kind: rounded(array) for kind, array in depth.alignment.items()},
    }


def _depth_of(record: Mapping[str, Any]) -> DepthOutcome:
    deleted = tuple(record["deleted"])
    return DepthOutcome(
        record["node"],
        record["channels"],
        {p: {k: np.array(kinds[k], dtype=float) for k in KINDS} for p, kinds in record["drop"].items()},
        {p: {k: np.array(kinds[k], dtype=bool) for k in KINDS} for p, kinds in record["flipped"].items()},
        tuple(Groups(tuple(g["positive"]), tuple(g["negative"]), tuple(g["matched"]), ()) for g in record["groups"]),
        {kind: [Curve(deleted, tuple(left)) for left in curves] for kind, curves in record["curves"].items()},
        {kind: np.array(cosines, dtype=float) for kind, cosines in record["alignment"].items()},
    )


def rounded(numbers: Any) -> Any:
    """Floats to six digits, nested lists kept."""
    if isinstance(numbers, (float, np.floating)):
        return float(f"{numbers:.6g}")
    return [rounded(number) for number in numbers]
