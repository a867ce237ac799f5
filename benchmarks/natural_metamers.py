"""Does the network tell metamers from the photograph? EfficientNet-Lite0, real weights, 64 pixels.

Posterior samples of channels and cells at three tensors, run through the network: change of the queried feature and of
the rest of the tensor, beside draws of the prior of the same length; whole, scaled down, and corrected by Gauss-Newton
steps. With a figure: photograph, value, samples. Photographs as in ``benchmarks.natural_settings``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import sgfi
from benchmarks.common import HERE, network, parser, table, write
from benchmarks.natural_settings import TARGETS, asked, summaries, unused_photographs
from sgfi.evaluation.metamers import metamers

VARIANTS: dict[str, dict[str, Any]] = {
    "samples": {},
    "samples, change scaled to 0.1": {"size": 0.1},
    "samples, 4 corrections": {"corrections": 4},
}
SCORES = ("own", "others", "control_own", "control_others", "length")
FIGURE = HERE.parent / "docs" / "images" / "natural-metamers.png"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--images", type=int, default=8)
    options.add_argument("--samples", type=int, default=4)
    options.add_argument("--queries", type=int, default=2, help="of each kind and tensor")
    given = options.parse_args()
    torch.set_num_threads(1)
    loaded = network("efficientnet_lite0", 64)
    graph = sgfi.capture(loaded.model, loaded.example)
    lens = sgfi.natural(graph, loaded.preprocessing)
    indices, inputs = unused_photographs(given.images, loaded.preprocessing)
    draw(lens, inputs[:1], loaded.preprocessing, FIGURE)
    scores: dict[str, dict[str, dict[str, list[float]]]] = {}
    for number, x in enumerate(inputs.split(1), 1):
        for target, kind, queries in asked(graph, x):
            for query in queries[: given.queries]:
                for name, settings in VARIANTS.items():
                    changed = metamers(lens, x, query, given.samples, **settings)
                    row = scores.setdefault(name, {}).setdefault(f"{target}, {kind}", {})
                    for score in SCORES:
                        row.setdefault(score, []).append(float(getattr(changed, score).mean()))
        write_scores({**vars(given), "photographs": number, "indices": indices}, scores, given.queries)


def write_scores(about: dict[str, Any], scores: dict, queries: int) -> None:
    """A photograph's queries are averaged first."""
    result = {
        name: {
            at: summaries({score: torch.tensor(v).reshape(-1, queries).mean(1).tolist() for score, v in row.items()})
            for at, row in rows.items()
        }
        for name, rows in scores.items()
    }
    rows = []
    for name, by_place in result.items():
        for at, row in by_place.items():
            rows.append([name, at, *(row[score]["mean"] for score in SCORES)])
    write("natural_metamers", {**about, "scores": result}, table(["", "query", *SCORES], rows))


def draw(lens: sgfi.NaturalInverse, x: Tensor, preprocessing: Any, file: Path) -> None:
    """A row for a channel of each tensor: photograph, mean and value, two samples, two corrected samples."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    mean, std = (torch.as_tensor(part).reshape(3, 1, 1) for part in (preprocessing.mean, preprocessing.std))
    heads = ["photograph", "mean + value", "sample", "sample", "corrected", "corrected"]
    figure, axes = plt.subplots(len(TARGETS), len(heads), figsize=(9.2, 1.72 * len(TARGETS)), squeeze=False)
    firsts = {target: queries[0] for target, kind, queries in asked(lens.graph, x) if kind == "channels"}
    for place, (row, (target, query)) in enumerate(zip(axes, firsts.items(), strict=True)):
        value = sgfi.invert(lens, x, query).value + lens.prior.mean_like(x)
        plain, corrected = (lens.samples(x, query, 2, corrections=number) for number in (0, 4))
        wanted = lens.graph.program(("input",), (target,))
        selection = query.selection(lens.node(target))
        base = (wanted(x)[0] - wanted(lens.prior.mean_like(x).unsqueeze(0))[0])[0]
        for axis, head, picture in zip(row, heads, [x, value, *plain, *corrected], strict=True):
            change = selection.select((wanted(picture)[0] - wanted(x)[0])[0]).norm() / selection.select(base).norm()
            axis.imshow((picture[0] * std + mean).clamp(0, 1).permute(1, 2, 0).numpy(), interpolation="nearest")
            axis.set(xticks=[], yticks=[])
            axis.set_title(("" if place else f"{head}\n") + f"change {float(change):.2f}", fontsize=8)
        row[0].set_ylabel(f"{target}\nchannel {query.channels[0]}", fontsize=8)  # type: ignore[index]
    figure.tight_layout(pad=0.4)
    figure.savefig(file, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    with torch.no_grad():
        main()
