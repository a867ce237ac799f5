"""Photographs for the plates: 24 squares of pictures that come inside pip packages, and two of them as a pair.

    python docs/results/plates/photographs.py FOLDER

No map of the plates was fitted on any of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

from sgfi.inputs.data import open_image
from sgfi.inputs.photographs import CALIBRATION, HELD_OUT, Photograph

SIDE = 256
TWICE = ("chelsea", "rocket", "china", "astronaut", "coffee", "flower")
"""Of these a second square: a quarter of the picture."""


def squares(photo: Photograph) -> dict[str, Image.Image]:
    """The largest square in the middle and, of some, a smaller one."""
    image = open_image(photo.file)
    width, height = image.size
    short = min(width, height)
    left, top = (width - short) // 2, (height - short) // 2
    cut = {photo.name: image.crop((left, top, left + short, top + short))}
    if photo.name in TWICE:
        half = short // 2
        cut[f"{photo.name} 2"] = image.crop((left + half // 2, top, left + half // 2 + half, top + half))
    return {name: square.resize((SIDE, SIDE), Image.Resampling.BICUBIC) for name, square in cut.items()}


def main(folder: Path) -> None:
    every = {name: square for photo in (*HELD_OUT, *CALIBRATION) for name, square in squares(photo).items()}
    chosen = {"many": list(every), "pair": ["chelsea", "rocket"], "three": ["chelsea", "china", "rocket"]}
    for part, names in chosen.items():
        (folder / part).mkdir(parents=True, exist_ok=True)
        for name in names:
            every[name].save(folder / part / f"{name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
