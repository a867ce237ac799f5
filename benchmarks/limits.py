"""The pictures and tables of docs/limits.md: where answers mislead, on EfficientNet-Lite0 and packaged photographs.

``python -m benchmarks.limits`` draws docs/images/limits-*.jpg, writes results/limits.json and puts the tables between
the marks of docs/limits.md. Nothing but the ``demo`` extra is needed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import sgfi
from benchmarks.common import HERE, RESULTS, command, parser, table, write
from sgfi.evaluation.metrics import pixel_cosine
from sgfi.evaluation.trust import Trust, trust
from sgfi.figures import Cell, Grid, draw_grid, png
from sgfi.figures.answers import Painter, answer_cell, control_cell
from sgfi.figures.atlases import depth_name, shape_name, source_cell
from sgfi.figures.grids import query_marks
from sgfi.inputs.models import LoadedModel, load_model
from sgfi.inputs.photographs import held_out_images, random_crops
from sgfi.inputs.preprocessing import Preprocessing

DOCS = HERE.parent / "docs"
MARKS = re.compile(r"(<!-- limits: ([\w-]+) -->\n).*?(<!-- /limits -->)", re.DOTALL)
CROPS = (16, 64, 256, 512)
SHALLOW, MIDDLE = "blocks.2.1", "blocks.4.1"
WIDEST, QUALITY = 1300, 85
PARTS = ("leakage", "few_samples", "deep_cells", "shares")


class Limits:
    """One network, its natural inverse, and map families of several calibration sizes."""

    def __init__(self, size: int, crops: Sequence[int], work: Path) -> None:
        self.loaded: LoadedModel = load_model("pip:efficientnet_lite0", size=size)
        assert self.loaded.preprocessing is not None
        self.prepared: Preprocessing = self.loaded.preprocessing
        self.graph = sgfi.capture(self.loaded.model, self.loaded.example)
        self.lens = sgfi.natural(self.graph, self.prepared)
        photographs = held_out_images(self.prepared)
        self.x, self.names = photographs.inputs, photographs.names
        self.plan = sgfi.plan(self.graph)
        self.crops, self.work, self.deepest = tuple(crops), work, self.plan.target
        self.painter = Painter(self.lens.prior.mean, self.prepared)
        self.record: dict[str, Any] = {"size": size, "crops": list(crops), "photographs": self.names}
        self.tables: dict[str, str] = {}

    def family(self, crops: int) -> sgfi.MapFamily:
        """Fitted now, or read back."""
        folder = self.work / f"maps-{self.x.shape[-1]}px-{crops}crops"
        if (folder / "manifest.json").is_file():
            return sgfi.load(folder, self.graph)
        return sgfi.calibrate(self.plan, random_crops(self.prepared, crops), checkpoint=folder)

    def source(self, index: int = 0) -> Cell:
        return source_cell(self.x[index], self.prepared)

    def head(self, target: str) -> str:
        node = self.lens.node(target)
        return f"{depth_name(node)}\n{shape_name(node)}"

    def leakage(self) -> None:
        """Random and another photograph's target, by both estimators, at three depths."""
        family = self.family(max(self.crops))
        rows, numbers = [], []
        queries = [sgfi.Query(SHALLOW, 17), sgfi.Query(MIDDLE, 17), sgfi.Query(self.deepest)]
        for query in queries:
            natural, maps = trust(self.lens, self.x, query), trust(family, self.x, query)
            rows.append((self.source(), *self._natural(natural), *self._maps(maps)))
            for name, answer in (("natural", natural), ("maps", maps)):
                scores = [score for score in (answer.random, answer.swapped) if score is not None]
                numbers.append([name, str(query), *(float(score.abs().mean()) for score in scores)])
        heads = [
            "input",
            *(
                f"{name}:\n{what}"
                for name in ("natural", "maps")
                for what in ("answer", "random target", "other's target")
            ),
        ]
        labels = [str(query) for query in queries]
        save(draw_grid(Grid(rows, heads, labels)), "leakage")
        self.record["leakage"] = numbers
        self.tables["leakage"] = table(["estimator", "query", "random target", "another photograph's target"], numbers)

    def _natural(self, answer: Trust) -> list[Cell]:
        controls = zip(answer.controls.values(), answer.cosines.values(), strict=True)
        cells = [control_cell(picture[0], self.painter, _cosine(score)) for picture, score in controls]
        return [answer_cell(answer.inverse, self.painter, share=False), *cells]

    def _maps(self, answer: Trust) -> list[Cell]:
        controls = zip(answer.controls.values(), answer.cosines.values(), strict=True)
        return [Cell(answer.inverse.value[0]), *(Cell(p[0], caption=_cosine(score)) for p, score in controls)]

    def few_samples(self) -> None:
        """The deepest tensor's calibrated inverse against the number of calibration pictures."""
        values = {count: sgfi.invert(self.family(count), self.x).value for count in self.crops}
        cosines = {count: pixel_cosine(value, self.x) for count, value in values.items()}
        rows = [
            (
                self.source(index),
                *(
                    Cell(value[index], caption=f"cos {float(cosines[count][index]):.2f}")
                    for count, value in values.items()
                ),
            )
            for index in range(len(self.x))
        ]
        heads = ["input", *(f"{count} crops" for count in values)]
        save(draw_grid(Grid(rows, heads, self.names, f"Calibrated inverses of {self.deepest}")), "few-samples")
        channels = self.lens.node(self.deepest).channels
        numbers = [[count, f"{count / channels:.2f}", *map(float, cosines[count])] for count in values]
        self.record["few_samples"] = numbers
        self.tables["few-samples"] = table(["crops", f"crops per channel of {self.deepest}", *self.names], numbers)

    def deep_cells(self) -> None:
        """Cells of ever smaller grids: how alike the answers of different cells are."""
        rows, numbers = [], []
        for target in (SHALLOW, MIDDLE, self.deepest):
            node = self.lens.node(target)
            tall, wide = node.coord_shape
            corners = [(row, column) for row in (0, tall - 1) for column in (0, wide - 1)]
            queries = [sgfi.Query(target, None, [cell]) for cell in corners]
            inverses = sgfi.sweep(self.lens, self.x, queries)
            marks = [query_marks(query, node, self.x.shape[2:]) for query in queries]
            cells = [
                Cell(cell.tensor, cell.view, cell.caption, mark)
                for cell, mark in zip((answer_cell(i, self.painter, share=False) for i in inverses), marks, strict=True)
            ]
            rows.append((self.source(), *cells))
            alike = [pixel_cosine(a.value, b.value).abs().mean() for a, b in combinations(inverses, 2)]
            numbers.append([target, f"{tall} x {wide}", float(torch.stack(alike).mean())])
        labels = [self.head(target).replace("\n", "  ") for target in (SHALLOW, MIDDLE, self.deepest)]
        save(draw_grid(Grid(rows, ["input", *["corner cell"] * 4], labels)), "deep-cells")
        self.record["deep_cells"] = numbers
        self.tables["deep-cells"] = table(
            ["tensor", "cells", "mean absolute cosine of two corner cells' answers"], numbers
        )

    def shares(self) -> None:
        """The same answers with and without their share as opacity, and the share itself."""
        queries = [sgfi.Query(SHALLOW, None, [(2, 2)]), sgfi.Query(MIDDLE, 96), sgfi.Query(self.deepest, 17)]
        rows, numbers = [], []
        for query in queries:
            (inverse,) = self.lens.answer(self.x[:1], [query])
            share, detail = inverse.share[0], inverse.detail_share[0]  # type: ignore[index]
            plain, faded = (answer_cell(inverse, self.painter, share=shown) for shown in (False, True))
            maps = [Cell(_grey(kind), "picture", f"largest {float(kind.max()):.2f}") for kind in (share, detail)]
            rows.append((self.source(), plain, faded, *maps))
            numbers.append(
                [str(query), *(float(value) for value in (share.max(), share.mean(), detail.max(), detail.mean()))]
            )
        heads = ["input", "answer", "faded by\nthe share", "share", "share of\ndetails"]
        save(draw_grid(Grid(rows, heads, [str(query) for query in queries])), "share")
        self.record["shares"] = numbers
        head = ["query", "share, largest", "share, mean", "share of details, largest", "share of details, mean"]
        self.tables["share"] = table(head, numbers)


def _grey(share: Tensor) -> Tensor:
    """(H, W) in 0..1 -> (3, H, W), white being one."""
    return share.clamp(0, 1).cpu().float().expand(3, -1, -1)


def _cosine(score: Tensor | None) -> str:
    return "" if score is None else f"cosine {float(score[0]):.2f}"


def save(figure: Any, name: str) -> None:
    import io

    from PIL import Image

    image = Image.open(io.BytesIO(png(figure))).convert("RGB")
    if image.width > WIDEST:
        image = image.resize((WIDEST, round(image.height * WIDEST / image.width)), Image.Resampling.LANCZOS)
    image.save(DOCS / "images" / f"limits-{name}.jpg", quality=QUALITY)


def fill(page: Path, tables: dict[str, str]) -> None:
    """The tables between the marks of a page."""
    text = page.read_text(encoding="utf-8")
    page.write_text(
        MARKS.sub(lambda mark: f"{mark[1]}{tables[mark[2]]}\n{mark[3]}" if mark[2] in tables else mark[0], text),
        encoding="utf-8",
    )


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--size", type=int, default=64)
    options.add_argument("--crops", type=int, nargs="+", default=CROPS)
    options.add_argument("--work", type=Path, default=Path("limits-work"), help="folder that keeps the maps")
    options.add_argument("--only", nargs="+", default=PARTS, choices=PARTS)
    chosen = options.parse_args()
    limits = Limits(chosen.size, chosen.crops, chosen.work)
    for part in chosen.only:
        getattr(limits, part)()
        print(part, flush=True)
    kept = RESULTS / "limits.json"
    before = json.loads(kept.read_text()) if kept.is_file() and set(chosen.only) != set(PARTS) else {}
    parts = {part: before[part] for part in PARTS if part in before}
    commands = {**before.get("commands", {}), **dict.fromkeys(chosen.only, command())}  # each part has its own
    write("limits", {**parts, **limits.record, "commands": commands})
    fill(DOCS / "limits.md", limits.tables)


if __name__ == "__main__":
    main()
