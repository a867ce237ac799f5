"""Which setting of the natural inverse is both selective and smooth, and what equal prior energy compares.

EfficientNet-Lite0, real weights, 64 pixels, three tensors, the 16 strongest channels and 16 cells. For every setting
(curve and points of the path, target value, lambda): how often a query's own picture removes its feature most, at equal
size and at equal prior energy, how much of it, and the picture's prior energy at equal length, relative to the
photograph's (roughness; 1: as rough as a photograph). For some of them and for the gradient: the same over the share of
the photograph's prior energy that a picture takes out, and at matched removal of the own feature. For the last tensor:
how alike the answers to two random targets must be by chance. Photographs: of ``imagenet_val``, in the order of the
experiments' evaluation seed, from the end, where neither their evaluation nor their calibration reaches.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

import sgfi
from benchmarks.common import HERE, RESULTS, assets, network, parser, table, write
from sgfi.evaluation.pictures import Scene, pictures
from sgfi.evaluation.removal import removal
from sgfi.evaluation.statistics import bootstrap
from sgfi.inversion import Query
from sgfi.natural import Path, Prior, cosine

TARGETS = ("blocks.2.1", "blocks.4.1", "blocks.6.0.bn3")
SEEDS = {"evaluation": 456, "calibration": 123}
"""Of ``sgfi experiment run answers``."""
WIDEST = 0.25
"""Widest blur of the scale-space curve, as a share of the picture's width."""


def scale_space(x: Tensor, mu: Tensor, nodes: Tensor) -> Tensor:
    """Blurred versions of x: Gaussians from ``WIDEST`` at node 0 to nothing at node 1; the mean colour by the node."""
    sizes = x.shape[-2:]
    radius = cosine.radii(sizes).to(x)
    spectra = cosine.analyse(x - mu, 2)
    points = []
    for node in nodes.tolist():
        keep = torch.exp(-0.5 * (2 * torch.pi * radius * WIDEST * (1 - node) * sizes[-1]).square())
        keep[0, 0] = node
        points.append(mu + cosine.synthesise(spectra * keep, 2))
    return torch.stack(points)


SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "point": {"jacobian": "point"},
    "half, 2 points": {"jacobian": Path(2)},
    "half, 5 points": {"jacobian": Path(5)},
    "midpoint, 3 points": {"jacobian": Path(3, "midpoint")},
    "gauss, 5 points": {"jacobian": Path(5, "gauss")},
    "scale space, half, 3 points": {"jacobian": Path(3, "half", scale_space)},
    "scale space, midpoint, 3 points": {"jacobian": Path(3, "midpoint", scale_space)},
    "t = J (x - mu)": {"target_value": "tangent"},
    "lambda 0.1": {"ridge": 0.1},
    "lambda 0.3": {"ridge": 0.3},
    "lambda 3": {"ridge": 3.0},
    "point, t = H(x) - H(mu)": {"jacobian": "point", "target_value": "difference"},
}


FIGURE = HERE.parent / "docs" / "images" / "natural-energy.png"
CURVES = ("default", "point", "gradient")
SHARES = (0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3)
"""Of the root of the photograph's prior energy."""
TABLES = {
    "best_size": "Best at own at equal size",
    "best_energy": "Best at own at equal prior energy (0.15)",
    "own_energy": "Removal of the own feature at equal prior energy (0.15)",
    "others_energy": "Removal of the others at equal prior energy (0.15)",
    "roughness": "Roughness",
    "best_at_0.02": "Best at own at prior energy 0.02",
    "own_at_0.02": "Removal of the own feature at prior energy 0.02",
    "best_matched_0.1": "Best at own where every picture removes 0.1 of its own feature",
    "others_matched_0.1": "Removal of the others where every picture removes 0.1 of its own feature",
    "reached_0.5": "Pictures that remove half of their feature at any prior energy up to 0.3",
}
MATCHED = (0.05, 0.1, 0.2, 0.5)
"""Removal of the own feature at which pictures are compared."""

Scores = dict[str, dict[str, dict[str, list[float]]]]
"""By method, by tensor and kind of query, by score: one number a photograph."""


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--images", type=int, default=12)
    options.add_argument("--settings", nargs="*", default=list(SETTINGS), choices=list(SETTINGS))
    options.add_argument("--again", action="store_true", help="tables and figure from the result file")
    given = options.parse_args()
    if given.again:
        known = json.loads((RESULTS / "natural_settings.json").read_text())
        draw(known["scores"])
        text = f"`{known['command']}`, {known['photographs']} photographs\n\n{report(known['scores'])}\n"
        (RESULTS / "natural_settings.md").write_text(text)
        return
    torch.set_num_threads(1)
    loaded = network("efficientnet_lite0", 64)
    graph = sgfi.capture(loaded.model, loaded.example)
    lenses = {name: sgfi.natural(graph, loaded.preprocessing, **SETTINGS[name]) for name in given.settings}
    prior = next(iter(lenses.values())).prior
    indices, inputs = unused_photographs(given.images, loaded.preprocessing)
    scores: Scores = {}
    for number, x in enumerate(inputs.split(1), 1):
        for target, kind, queries in asked(graph, x):
            for name in (*lenses, "gradient"):
                row = scores.setdefault(name, {}).setdefault(f"{target}, {kind}", {})
                values, about = (
                    answered(lenses[name], x, queries) if name in lenses else gradients(graph, x, queries, prior)
                )
                for score, value in {**about, **measured(name, graph, prior, x, queries, values)}.items():
                    row.setdefault(score, []).append(value)
        chance = by_chance(lenses["default"], x)
        for score, value in chance.items():
            scores["default"][f"{TARGETS[-1]}, channels"].setdefault(score, []).append(value)
        result = {name: {at: summaries(row) for at, row in rows.items()} for name, rows in scores.items()}
        draw(result)
        write(
            "natural_settings",
            {**vars(given), "photographs": number, "indices": indices, "scores": result},
            report(result),
        )


def unused_photographs(count: int, preprocessing: Any) -> tuple[list[int], Tensor]:
    """Photographs that the experiments draw last: their places among the sorted files, and (N, 3, H, W)."""
    from sgfi.inputs.data import read_image

    files = sorted((assets() / "images" / "imagenet_val").rglob("*.jpg"))
    orders = {name: np.random.default_rng(seed).permutation(len(files)).tolist() for name, seed in SEEDS.items()}
    fitted = set(orders["calibration"][: len(files) // 2])
    indices = [index for index in reversed(orders["evaluation"]) if index not in fitted][:count]
    return indices, torch.cat([read_image(files[index], preprocessing) for index in indices])


def asked(graph: sgfi.TensorGraph, x: Tensor) -> Iterator[tuple[str, str, list[Query]]]:
    """By target: the input's 16 strongest channels, and 16 cells (all four of the last tensor)."""
    for target in TARGETS:
        node = graph.nodes[target]
        (state,) = graph.program(("input",), (target,))(x)
        strongest = state[0].flatten(1).square().sum(1).topk(16).indices.tolist()
        coords = list(product(*map(range, node.coord_shape)))
        step = max(1, len(coords) // 16)
        yield target, "channels", [Query(target, channel) for channel in strongest]
        yield target, "cells", [Query(target, None, [coord]) for coord in coords[step // 2 :: step][:16]]


def answered(lens: sgfi.NaturalInverse, x: Tensor, queries: list[Query]) -> tuple[list[Tensor], dict[str, float]]:
    """Pictures (1, *input), and what they took."""
    answers = sgfi.sweep(lens, x, queries)
    about = {name: torch.cat([getattr(a, name) for a in answers]).double().mean() for name in ("steps", "residual")}
    return [answer.value for answer in answers], {name: float(value) for name, value in about.items()}


def gradients(
    graph: sgfi.TensorGraph, x: Tensor, queries: list[Query], prior: Prior
) -> tuple[list[Tensor], dict[str, float]]:
    return list(pictures("gradient", Scene.of(graph, x, prior, queries))), {}


def measured(
    name: str, graph: sgfi.TensorGraph, prior: Prior, x: Tensor, queries: list[Query], values: list[Tensor]
) -> dict[str, float]:
    """Means over the queries of one input."""
    scores = {"roughness": float(roughness(prior, x, torch.cat(values)).mean())}
    for scale in ("size", "energy"):
        taken = removal(graph, x, queries, values, prior, scale)
        scores |= {f"best_{scale}": float(taken.best_at_own.mean()), f"own_{scale}": float(taken.own.mean())}
        scores[f"others_{scale}"] = float(taken.others.mean())
    if name not in CURVES:
        return scores
    effects = [removal(graph, x, queries, values, prior, "energy", share) for share in SHARES]
    for share, taken in zip(SHARES, effects, strict=True):
        scores |= {f"best_at_{share}": float(taken.best_at_own.mean()), f"own_at_{share}": float(taken.own.mean())}
        scores[f"others_at_{share}"] = float(taken.others.mean())
    stack = torch.stack([torch.zeros_like(effects[0].effect), *(taken.effect for taken in effects)])[:, 0]
    return scores | matched(stack)


def matched(effects: Tensor) -> dict[str, float]:
    """Of (shares, pictures, features): every picture where it first removes its own feature by the same part.

    Linear between shares. ``reached``: how many of the pictures get there; the rest do not take part.
    """
    scores: dict[str, float] = {}
    own = effects.diagonal(dim1=1, dim2=2)  # (shares, Q)
    for level in MATCHED:
        rows, numbers = [], []
        for number, curve in enumerate(own.mT):
            above = torch.nonzero(curve >= level).flatten()
            if not len(above):
                continue
            at = int(above[0])
            part = (level - curve[at - 1]) / (curve[at] - curve[at - 1])
            rows.append(torch.lerp(effects[at - 1, number], effects[at, number], part))
            numbers.append(number)
        scores[f"reached_{level}"] = len(rows) / own.shape[1]
        if len(rows) < 2:
            continue
        effect = torch.stack(rows)[:, numbers]  # picture by feature, among those that get there
        scores[f"best_matched_{level}"] = float((effect.argmax(0) == torch.arange(len(rows))).double().mean())
        scores[f"others_matched_{level}"] = float((effect.sum() - effect.trace()) / (len(rows) ** 2 - len(rows)))
    return scores


def by_chance(lens: sgfi.NaturalInverse, x: Tensor) -> dict[str, float]:
    """|cosine| of the answers to two independent random targets, for a channel of the last tensor.

    The answer is linear, ``value = M t`` with M (input, 4): M is read off four unit targets. ``chance`` is of the
    lens, ``chance_isometric`` what any linear answer that keeps angles gives: two random directions of four numbers.
    """
    node = lens.node(TARGETS[-1])
    cells = list(product(*map(range, node.coord_shape)))
    state = lens.state(x, node.name)
    channels = state[0].flatten(1).square().sum(1).topk(16).indices.tolist()
    units = torch.zeros(len(cells), *state.shape).to(state)
    for number, cell in enumerate(cells):
        units[(number, slice(None), slice(None), *cell)] = 1
    generator = torch.Generator().manual_seed(0)
    one, other = torch.randn(2, 4000, len(cells), generator=generator)
    alike = []
    for channel in channels:
        answers = sgfi.sweep(lens, x, [Query(node.name, channel)] * len(cells), terminal=units)
        matrix = torch.cat([answer.value for answer in answers]).flatten(1)  # (4, input)
        gram = (matrix @ matrix.mT).to(one)
        lengths = [((part @ gram) * part).sum(1).sqrt() for part in (one, other)]
        alike.append(float((((one @ gram) * other).sum(1) / lengths[0] / lengths[1]).abs().mean()))
    isometric = (F.normalize(one, dim=1) * F.normalize(other, dim=1)).sum(1).abs().mean()
    return {"chance": sum(alike) / len(alike), "chance_isometric": float(isometric)}


def roughness(prior: Prior, x: Tensor, pictures: Tensor) -> Tensor:
    """(Q,) prior energy at equal length, relative to the input's."""
    deviation = x - prior.mean_like(x)
    energy = prior.energy(pictures) / pictures.flatten(1).square().sum(1).clamp_min(1e-30)
    return energy / (prior.energy(deviation) / deviation.square().sum())


def summaries(row: dict[str, list[float]]) -> dict[str, Any]:
    known = {score: bootstrap(values, resamples=2_000) for score, values in row.items()}
    return {score: {"mean": each.mean, "interval": [each.low, each.high]} for score, each in known.items()}


def report(result: dict[str, Any]) -> str:
    """A table for every score, channels / cells."""

    def cell(rows: dict[str, Any], target: str, score: str) -> str:
        return " / ".join(f"{rows[f'{target}, {kind}'][score]['mean']:.2f}" for kind in ("channels", "cells"))

    blocks = []
    for score, what in TABLES.items():
        names = [name for name, rows in result.items() if all(score in row for row in rows.values())]
        if names:
            rows = [[name, *(cell(result[name], target, score) for target in TARGETS)] for name in names]
            blocks.append(f"{what}, channels / cells\n\n" + table(["setting", *TARGETS], rows))
    known = result["default"][f"{TARGETS[-1]}, channels"]
    if "chance" in known:
        blocks.append(
            f"|cosine| of the answers to two random targets, channel of {TARGETS[-1]}: {known['chance']['mean']:.2f}; "
            f"of two random directions of four numbers: {known['chance_isometric']['mean']:.2f}."
        )
    return "\n\n".join(blocks)


def draw(result: dict[str, Any]) -> None:
    """Own removal over the share of energy, and best at own over own removal; channels solid, cells dashed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, len(TARGETS), figsize=(9.2, 5.2), sharey="row")
    for column, target in enumerate(TARGETS):
        for name, colour in zip([n for n in CURVES if n in result], ("C0", "C2", "C3"), strict=False):
            for kind, line in (("channels", "-"), ("cells", "--")):
                row = result[name][f"{target}, {kind}"]
                own, best = ([row[f"{score}_at_{share}"]["mean"] for share in SHARES] for score in ("own", "best"))
                label = {"default": "natural, path", "point": "natural, point"}.get(name, name)
                style = {"color": colour, "ls": line, "marker": "o", "ms": 3, "lw": 1.2}
                axes[0, column].plot(SHARES, own, label=f"{label}, {kind}", **style)
                axes[1, column].plot(own, best, **style)
        axes[0, column].set(xscale="log", title=target, xlabel="share of the photograph's prior energy (root)")
        axes[1, column].set(xlabel="removal of the own feature", xlim=(0, 1.3))
        axes[1, column].axvline(0.2, color="0.8", lw=0.8)
    axes[0, 0].set_ylabel("removal of the own feature")
    axes[1, 0].set_ylabel("best at own")
    axes[0, 0].legend(fontsize=7)
    for axis in axes.flat:
        axis.grid(alpha=0.25)
        axis.title.set_fontsize(9)
        axis.xaxis.label.set_fontsize(8)
    figure.tight_layout()
    figure.savefig(FIGURE, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    with torch.no_grad():
        main()
