"""Channels that differ.   python examples/channels_that_differ.py PHOTO OUT.png

The seven channels of one tensor that registered most of the photograph. Each answers in its own pattern and colour:
dark strokes like those of the fur in channel 0, a bright veil in channel 9. A channel need not look like the
photograph.
"""

import sys

import sgfi
from sgfi.figures import save_figure
from sgfi.figures.answers import answer_grid
from sgfi.figures.atlases import strongest_channels
from sgfi.inputs import load_model, read_image

TENSOR = "blocks.2.1"


def main(photo: str, out: str, size: int = 128) -> None:
    loaded = load_model("pip:efficientnet_lite0", size=size)
    x = read_image(photo, loaded.preprocessing)
    lens = sgfi.natural(sgfi.capture(loaded.model, loaded.example), loaded.preprocessing)
    queries = [sgfi.Query(TENSOR, channel) for channel in strongest_channels(lens, x, TENSOR, 7)]
    save_figure(answer_grid(lens, x, queries, loaded.preprocessing), out, overwrite=True)
    print(f"{TENSOR}: {', '.join(map(str, queries))}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
