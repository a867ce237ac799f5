"""The prediction-conditioned experiment: rank, group, invert, and, independently, intervene.

Two branches leave the ranking and never meet. One inverts each group with the family's maps. The other edits the
same channels in the original representation and runs the original model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from sgfi.decisions.groups import KINDS, Groups, choose
from sgfi.decisions.interventions import PROTOCOLS, Curve, Edit, deletion, intervene, replacement_of, steps
from sgfi.decisions.ranking import rank
from sgfi.decisions.readout import Split, decide
from sgfi.errors import QueryError
from sgfi.evaluation.metrics import pixel_cosine
from sgfi.inversion import MapFamily, Query, sweep
from sgfi.settings import JsonSettings


@dataclass(frozen=True)
class Settings(JsonSettings):
    """What is compared. JSON-able, so that a file can declare an experiment."""

    depths: tuple[str, ...] = ()
    """Tensors to study, shallow to deep; empty: four of the family's boundaries."""
    sizes: tuple[int, ...] = (1, 4, 8, 16)
    repeats: int = 20
    """Random groups an image."""
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
        if not self.sizes or sorted(set(self.sizes)) != list(self.sizes) or self.sizes[0] < 1:
            raise QueryError("group sizes in rising order", str(list(self.sizes)), "For example 1, 4, 8, 16.")
        if self.repeats < 1 or not set(self.protocols) <= set(PROTOCOLS) or not self.protocols:
            raise QueryError(
                f"at least one repeat and protocols among {list(PROTOCOLS)}",
                f"{self.repeats} and {list(self.protocols)}",
                "Mend the settings.",
            )

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, eq=False)
class DepthOutcome:
    """One tensor. Arrays are (images, sizes, repeats); only ``random`` has more than one repeat."""

    node: str
    channels: int
    drop: Mapping[str, Mapping[str, np.ndarray]]
    """protocol -> kind -> margin drops."""
    flipped: Mapping[str, Mapping[str, np.ndarray]]
    groups: tuple[Groups, ...]
    """One an image."""
    curves: Mapping[str, Sequence[Curve]] = field(default_factory=dict)
    """kind -> one curve an image, primary protocol; ``random`` averages its orders."""
    alignment: Mapping[str, np.ndarray] = field(default_factory=dict)
    """kind -> (images, sizes) pixel cosine of the group's inverse with the input: descriptive."""


@dataclass(frozen=True, eq=False)
class Study:
    """Everything measured, image by image."""

    settings: Settings
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
                {"name": n, "top": t, "second": s, "margin": plain(m)}
                for n, t, s, m in zip(self.names, self.top, self.second, self.margin, strict=True)
            ],
            "interventions": sum(
                array.size for one in self.depths for kinds in one.drop.values() for array in kinds.values()
            ),
            "inversions": sum(array.size for one in self.depths for array in one.alignment.values()),
            "curves": sum(len(found) for one in self.depths for found in one.curves.values()),
            "depths": [_depth_dict(one) for one in self.depths],
        }


def study(
    family: MapFamily,
    x: Tensor,
    means: Mapping[str, Tensor] | None = None,
    settings: Settings | None = None,
    names: Sequence[str] = (),
    *,
    progress: bool = False,
) -> Study:
    """Run the experiment on inputs (N, ...); ``means`` are the calibration means the primary protocol needs."""
    settings = settings or Settings()
    graph = family.plan.graph
    depths = [graph.nodes.canonical(name) for name in settings.depths or default_depths(family)]
    nodes = [family.plan.boundary[name].node if name in family.plan.boundary else graph.nodes[name] for name in depths]
    decision = decide(graph, x, settings.output)
    found: dict[str, list[_OneImage]] = {name: [] for name in depths}
    for place in tqdm(range(len(x)), unit="image", disable=not progress):
        one = x[place : place + 1]
        ranked = rank(graph, one, nodes, settings.output)
        for node in nodes:
            score = ranked[node.name]
            seed = int(np.random.SeedSequence([settings.seed, place, depths.index(node.name)]).generate_state(1)[0])
            groups = choose(score.channels[0], score.activation[0], settings.sizes[-1], settings.repeats, seed)
            split = Split(graph, one, node, settings.output)
            order = [int(channel) for channel in score.channels[0].argsort(descending=True, stable=True)]
            found[node.name].append(_one_image(family, split, groups, order, means, settings, seed))
    outcomes = tuple(_gather(name, graph.nodes[name].channels, found[name], settings) for name in depths)
    titles = (*names, *(f"input {i}" for i in range(len(names), len(x))))
    return Study(
        settings,
        tuple(titles),
        tuple(decision.top.tolist()),
        tuple(decision.second.tolist()),
        decision.margin.double().cpu().numpy(),
        outcomes,
    )


def default_depths(family: MapFamily, count: int = 4) -> list[str]:
    """``count`` boundaries spread from shallow to the target, those with at least 32 channels."""
    wide = [name for name in family.plan.boundaries[1:] if family.plan.boundary[name].channels >= 32]
    if not wide:
        raise QueryError("boundaries with 32 channels or more", "none", "Name the depths and use smaller groups.")
    last = len(wide) - 1
    return list(dict.fromkeys(wide[round((i + 1) * last / count)] for i in range(count)))


@dataclass(frozen=True, eq=False)
class _OneImage:
    groups: Groups
    drop: dict[str, dict[str, np.ndarray]]
    flipped: dict[str, dict[str, np.ndarray]]
    curves: dict[str, Curve]
    alignment: dict[str, np.ndarray]


def _one_image(
    family: MapFamily,
    split: Split,
    groups: Groups,
    order: list[int],
    means: Mapping[str, Tensor] | None,
    settings: Settings,
    seed: int,
) -> _OneImage:
    asked = [(kind, size, group) for kind in KINDS for size in settings.sizes for group in groups.of(kind, size)]
    drop: dict[str, dict[str, np.ndarray]] = {}
    flipped: dict[str, dict[str, np.ndarray]] = {}
    for protocol in settings.protocols:
        value = replacement_of(protocol, means, split.node.name)
        effects = intervene(split, [Edit(group) for _, _, group in asked], value)
        for kept, numbers in ((drop, effects.drop[:, 0].double()), (flipped, effects.flipped[:, 0])):
            rows = numbers.cpu().numpy()
            kept[protocol] = {
                kind: rows[[k == kind for k, _, _ in asked]].reshape(len(settings.sizes), -1) for kind in KINDS
            }
    curves = _curves(split, order, means, settings, seed) if settings.curve_repeats else {}
    alignment = _alignment(family, split, groups, settings) if settings.inversions else {}
    return _OneImage(groups, drop, flipped, curves, alignment)


def _curves(
    split: Split, order: list[int], means: Mapping[str, Tensor] | None, settings: Settings, seed: int
) -> dict[str, Curve]:
    """Deletion of the whole tensor, channel by channel, in three orders."""
    rng = np.random.default_rng(seed + 1)
    shuffled = [[int(c) for c in rng.permutation(len(order))] for _ in range(settings.curve_repeats)]
    value = replacement_of(settings.protocols[0], means, split.node.name)
    found = deletion(split, [order, order[::-1], *shuffled], value, steps(len(order)))
    left = tuple(float(v) for v in np.mean([curve.left for curve in found[2:]], axis=0))
    return {"positive": found[0], "negative": found[1], "random": Curve(found[0].deleted, left)}


def _alignment(family: MapFamily, split: Split, groups: Groups, settings: Settings) -> dict[str, np.ndarray]:
    """The inversion branch: every group inverted in one sweep with the same maps."""
    queries = [Query(split.node.name, groups.of(kind, size)[0]) for kind in KINDS for size in settings.sizes]
    found = torch.cat([inverse.value for inverse in sweep(family, split.x, queries)])
    cosines = pixel_cosine(found, split.x.expand_as(found)).cpu().numpy().reshape(len(KINDS), -1)
    return dict(zip(KINDS, cosines, strict=True))


def _gather(name: str, channels: int, found: list[_OneImage], settings: Settings) -> DepthOutcome:
    def stacked(what: str) -> dict[str, dict[str, np.ndarray]]:
        return {
            protocol: {kind: np.stack([getattr(one, what)[protocol][kind] for one in found]) for kind in KINDS}
            for protocol in settings.protocols
        }

    return DepthOutcome(
        name,
        channels,
        stacked("drop"),
        stacked("flipped"),
        tuple(one.groups for one in found),
        {kind: [one.curves[kind] for one in found] for kind in found[0].curves},
        {kind: np.stack([one.alignment[kind] for one in found]) for kind in found[0].alignment},
    )


def _depth_dict(one: DepthOutcome) -> dict[str, Any]:
    return {
        "node": one.node,
        "channels": one.channels,
        "drop": {p: {k: plain(a) for k, a in kinds.items()} for p, kinds in one.drop.items()},
        "flipped": {p: {k: a.astype(int).tolist() for k, a in kinds.items()} for p, kinds in one.flipped.items()},
        "groups": [{k: list(getattr(g, k)) for k in ("positive", "negative", "matched")} for g in one.groups],
        "deleted": plain(next(iter(one.curves.values()))[0].deleted) if one.curves else [],
        "curves": {kind: [plain(curve.left) for curve in found] for kind, found in one.curves.items()},
        "alignment": {kind: plain(array) for kind, array in one.alignment.items()},
    }


def plain(numbers: Any) -> Any:
    """Floats to six digits, nested lists kept."""
    if isinstance(numbers, (float, np.floating)):
        return float(f"{numbers:.6g}")
    return [plain(number) for number in numbers]
