"""A direction between two photographs.   python examples/direction.py PHOTO OTHER OUT.png

The direction of channel space along which two photographs differ on average, asked about on the first (a cat; the
other is a rocket at night). One direction of 112 channels at every cell: its control is the other photograph's
target, which gives nearly the negative (cosine -0.86), and random targets, which give something else (0.29).
"""

import sys

import sgfi
from sgfi.inputs import load_model, read_image

TENSOR = "blocks.4.1"


def main(photo: str, other: str, out: str, size: int = 128) -> None:
    loaded = load_model("pip:efficientnet_lite0", size=size)
    x, y = (read_image(path, loaded.preprocessing) for path in (photo, other))
    graph = sgfi.capture(loaded.model, loaded.example)
    tensor = graph.program(("input",), (TENSOR,))
    direction = (tensor(x)[0] - tensor(y)[0]).mean((0, 2, 3))  # (channels,)
    look = sgfi.look(graph, x, sgfi.Query(TENSOR, directions=direction), other=y, preprocessing=loaded.preprocessing)
    look.save(out, overwrite=True)
    print(look)


if __name__ == "__main__":
    main(*sys.argv[1:4])
