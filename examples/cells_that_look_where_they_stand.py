"""Cells that look where they stand.   python examples/cells_that_look_where_they_stand.py PHOTO OUT.png

All channels of one tensor at single cells; the outline is the part of the picture that the cell stands over. Every
answer lies around its own cell and fades to grey elsewhere: a position of this layer reads a neighbourhood, not the
whole picture.
"""

import sys

import sgfi
from sgfi.figures import save_figure
from sgfi.figures.answers import answer_grid
from sgfi.figures.atlases import spread_coords
from sgfi.inputs import load_model, read_image

TENSOR = "blocks.4.1"


def main(photo: str, out: str, size: int = 128) -> None:
    loaded = load_model("pip:efficientnet_lite0", size=size)
    x = read_image(photo, loaded.preprocessing)
    lens = sgfi.natural(sgfi.capture(loaded.model, loaded.example), loaded.preprocessing)
    cells = spread_coords(lens.node(TENSOR).coord_shape, 7)
    queries = [sgfi.Query(TENSOR, None, [cell]) for cell in cells]
    save_figure(answer_grid(lens, x, queries, loaded.preprocessing), out, overwrite=True)
    print(f"{TENSOR}: {', '.join(map(str, queries))}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
