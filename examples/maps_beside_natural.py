"""The paper's maps beside the natural inverse.   python examples/maps_beside_natural.py PHOTO OUT.png

Channel 17 of two tensors by both estimators, each beside what a random target gives at the same photograph. The maps
draw the cat whatever they are asked (absolute cosine 0.83 and 0.91 with random targets), once in negative; the
natural inverse changes with the target, and in the last tensor, where a channel is four numbers, has little to show
(a share of at most 0.09).
"""

import sys

import sgfi
from sgfi.evaluation.trust import trust
from sgfi.figures import Cell, Grid, draw_grid, save_figure
from sgfi.figures.answers import Painter, answer_cell, control_cell
from sgfi.figures.atlases import source_cell
from sgfi.inputs import load_model, read_image
from sgfi.inputs.photographs import random_crops

SHALLOW, DEEP, CHANNEL = "blocks.2.1", "blocks.6.0.bn3", 17


def main(photo: str, out: str, size: int = 64, crops: int = 256) -> None:
    loaded = load_model("pip:efficientnet_lite0", size=size)
    x, graph = read_image(photo, loaded.preprocessing), sgfi.capture(loaded.model, loaded.example)
    lens = sgfi.natural(graph, loaded.preprocessing)
    maps = sgfi.calibrate(sgfi.plan(graph, DEEP), random_crops(loaded.preprocessing, crops))
    painter, source, rows = Painter(lens.prior.mean, loaded.preprocessing), source_cell(x[0], loaded.preprocessing), []
    for target in (SHALLOW, DEEP):
        query = sgfi.Query(target, CHANNEL)
        natural, fitted = trust(lens, x, query), trust(maps, x, query)
        notes = [f"cosine {float(answer.cosines['random target']):.2f}" for answer in (natural, fitted)]
        cells = [
            answer_cell(natural.inverse, painter),
            control_cell(natural.controls["random target"][0], painter, notes[0]),
        ]
        cells += [Cell(fitted.inverse.value[0]), Cell(fitted.controls["random target"][0], caption=notes[1])]
        rows.append((source, *cells))
        print(f"{query}: natural: {natural.sentence()} maps: {fitted.sentence()}")
    heads = ("input", "natural:\nanswer", "natural:\nrandom target", "maps:\nanswer", "maps:\nrandom target")
    save_figure(draw_grid(Grid(rows, heads, (f"{SHALLOW}:{CHANNEL}", f"{DEEP}:{CHANNEL}"))), out, overwrite=True)


if __name__ == "__main__":
    main(*sys.argv[1:3])
